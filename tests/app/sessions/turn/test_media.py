"""Pictures and sound in a chat: only a new one is refused, earlier ones are words for a blind model."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from app.sessions.errors import FiresideError
from app.sessions.events import SessionNoticeEvent
from app.sessions.items import ErrorItem, FunctionCall, Message, output_text, user_message
from app.sessions.turn.media import new_messages
from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.sessions.conftest import Heard, MakeRoom, Room, listening

SEES = replace(CARD, model_id="owl", supports_vision=True, supports_audio=True)
BLIND = replace(CARD, model_id="mole")


def picture(size: tuple[int, int] = (90, 60)) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, (200, 40, 0)).save(data, "PNG")
    return data.getvalue()


async def uploaded(chat: Room, name: str = "pic.png", content: bytes | None = None) -> str:
    data = picture() if content is None else content
    return (await chat.manager.files.add(chat.session_id, name, data)).id


def showing(*file_ids: str, text: str = "what is it", kind: str = "input_image") -> list[dict[str, Any]]:
    return [*({"type": kind, "file_id": one} for one in file_ids), {"type": "input_text", "text": text}]


async def post(chat: Room, content: Any) -> None:
    await chat.manager.post_event(chat.session_id, {"type": "message", "data": {"content": content}})


async def ask(chat: Room, content: Any) -> Heard:
    """Post a message and wait for its end; returns what was heard."""
    async with listening(chat.manager, chat.session_id) as heard:
        await post(chat, content)
        await heard.status("idle", "failed")
    return heard


def notices(heard: Heard) -> list[str]:
    return [event.message for event in heard.events if isinstance(event, SessionNoticeEvent)]


async def shown_chat(room: MakeRoom, *scripts: Sequence[str], names: Sequence[str] = ("pic.png",)) -> Room:
    """A chat whose first turn holds pictures that its model saw; the model of its next turn is blind."""
    engine = ScriptedEngine(card=SEES)
    chat = await room(["a red thing"], *scripts, engine=engine)
    await ask(chat, showing(*[await uploaded(chat, name) for name in names]))
    assert "image_url" in str(chat.sent[0])
    engine.card = BLIND
    return chat


def texts(messages: list[Any]) -> list[str]:
    return [message["content"] for message in messages]


async def test_a_chat_with_pictures_goes_on_with_a_model_that_cannot_see(room: MakeRoom) -> None:
    chat = await shown_chat(room, ["first"], ["second"])
    heard = await ask(chat, "and now?")
    mark = "[picture pic.png, 90x60: not shown to this model]"
    assert texts(chat.sent[1]) == [f"{mark}\n\nwhat is it", "a red thing", "and now?"]
    assert notices(heard) == ["this model cannot see the picture of an earlier turn"]
    # Told once, and what was read is the beginning of what is read next.
    assert notices(await ask(chat, "more")) == []
    assert chat.sent[2][:3] == chat.sent[1]
    assert (await chat.manager.get(chat.session_id)).status == "idle"


async def test_a_seeing_model_gets_the_pictures_of_earlier_turns_again(room: MakeRoom) -> None:
    chat = await shown_chat(room, ["blind"], ["seen"], ["blind again"], names=("a.png", "b.png"))
    assert "2 pictures" in notices(await ask(chat, "one"))[0]
    chat.engine.card = SEES
    assert notices(await ask(chat, "two")) == []
    assert chat.sent[2][0] == chat.sent[0][0]
    chat.engine.card = BLIND
    assert "2 pictures of earlier turns" in notices(await ask(chat, "three"))[0]


async def test_only_a_new_picture_is_refused_and_before_it_is_stored(room: MakeRoom) -> None:
    chat = await shown_chat(room, ["fine"])
    before = await chat.items()
    with pytest.raises(FiresideError) as refused:
        await post(chat, showing(await uploaded(chat, "new\x1b[2J.png")))
    assert refused.value.code == "no_vision" and refused.value.status_code == 400
    assert refused.value.message == "mole cannot see, but new[2J.png is in the message."
    assert refused.value.remedy == "Choose a model that sees, or send the words without the picture."
    assert await chat.items() == before and len(chat.sent) == 1
    await ask(chat, "without it")
    assert texts(chat.sent[1])[-1] == "without it"


async def test_a_picture_in_an_edit_or_a_second_answer_is_refused_with_the_branch_as_it_was(
    room: MakeRoom,
) -> None:
    chat = await shown_chat(room, ["edited"])
    before = await chat.items()
    assert isinstance(before[0], Message) and before[1].response_id
    with pytest.raises(FiresideError, match="mole cannot see"):
        await chat.manager.edit(before[0].id, before[0].content)
    with pytest.raises(FiresideError, match="mole cannot see"):
        await chat.manager.retry(before[1].response_id)
    assert await chat.items() == before
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.edit(before[0].id, "without a picture")
        await heard.status("idle")
    assert texts(chat.sent[1]) == ["without a picture"]


async def test_a_reply_that_was_cut_goes_on_without_the_picture(room: MakeRoom) -> None:
    chat = await shown_chat(room, ["goes on"])
    before = await chat.items()
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.continue_reply(str(before[1].response_id))
        await heard.status("idle")
    assert "not shown to this model" in chat.sent[1][0]["content"]


async def test_a_model_that_turns_out_blind_fails_the_turn_and_not_the_chat(room: MakeRoom) -> None:
    chat = await room(["never mind"], engine=ScriptedEngine(card=BLIND, closed=True))
    heard = await ask(chat, showing(await uploaded(chat)))
    [error] = [item for item in await chat.items() if isinstance(item, ErrorItem)]
    assert error.code == "no_vision" and "Choose a model that sees" in str(error.remediation)
    assert notices(heard) == [] and chat.sent == []
    await ask(chat, "then without it")
    assert texts(chat.sent[0]) == [
        "[picture pic.png, 90x60: not shown to this model]\n\nwhat is it\n\nthen without it"
    ]


async def test_a_recording_is_refused_and_told_of_in_its_own_words(room: MakeRoom) -> None:
    chat = await room(["a voice"], ["so"], engine=ScriptedEngine(card=SEES))
    sound = await uploaded(chat, "talk.wav", b"RIFF....WAVE" + bytes(2000))
    both = [*showing(sound, kind="input_audio"), *showing(await uploaded(chat), text="and this")]
    await ask(chat, both)
    chat.engine.card = BLIND
    with pytest.raises(FiresideError, match=r"mole cannot hear, but talk\.wav") as refused:
        await post(chat, showing(sound, kind="input_audio"))
    assert refused.value.code == "no_audio"
    [notice] = notices(await ask(chat, "so?"))
    assert notice == (
        "this model cannot see the picture of an earlier turn, cannot hear the recording of an earlier turn"
    )
    assert "[recording talk.wav, 2.0 kB: not played to this model]" in texts(chat.sent[1])[0]


async def test_a_picture_that_is_gone_is_a_word_for_every_model(room: MakeRoom) -> None:
    chat = await shown_chat(room, ["still"])
    chat.engine.card = SEES
    [file] = await chat.manager.files.list(chat.session_id)
    await chat.manager.files.delete(chat.session_id, file.id)
    await ask(chat, "go on")
    assert texts(chat.sent[1])[0] == "[picture pic.png: it is no longer there]\n\nwhat is it"
    with pytest.raises(FiresideError) as refused:
        await post(chat, showing("file_none"))
    assert refused.value.status_code == 404


async def test_counts_previews_and_what_is_read_ahead_are_those_of_the_turn(room: MakeRoom) -> None:
    chat = await shown_chat(room, ["fine"])
    preview = await chat.manager.preview(chat.session_id, "next")
    assert "[picture pic.png, 90x60: not shown to this model]" in preview["text"]
    await chat.manager.warm(chat.session_id, "next")
    await ask(chat, "next")
    assert list(chat.engine.warmed[0]) == chat.sent[1]
    counted = await chat.manager.context(chat.session_id)
    assert counted["parts"]["history"] == sum(len(text.split()) for text in [*texts(chat.sent[1]), "fine"])


async def test_a_chat_with_pictures_is_summarised_by_a_blind_model(room: MakeRoom) -> None:
    chat = await shown_chat(room, ["two " * 200], ["third"], ["short"])
    await ask(chat, "more")
    await ask(chat, "and more")
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.manager.compact(chat.session_id)
        await heard.status("idle", "failed")
    assert "[picture pic.png]" in chat.sent[3][0]["content"]
    assert "file_" not in chat.sent[3][0]["content"]
    assert "short" in (await chat.items())[-1].to_wire()["summary"]


async def test_a_message_names_its_files_whoever_posts_it(room: MakeRoom) -> None:
    chat = await room(["seen"], engine=ScriptedEngine(card=SEES))
    await ask(chat, showing(await uploaded(chat)))
    first = (await chat.items())[0]
    assert isinstance(first, Message)
    assert first.content[0]["filename"] == "pic.png" and first.content[0]["bytes"] == len(picture())


@given(st.text(max_size=60))
@settings(deadline=None, max_examples=50)
def test_a_name_stays_inside_its_mark(name: str) -> None:
    from app.sessions.file_records import SessionFile
    from app.sessions.turn.media import withheld_part

    file = SessionFile("file_1", "sess_1", name, "image/png", 5, 0)
    text = withheld_part(file, (3, 2))["text"]
    assert text.startswith("[picture ") and text.endswith(", 3x2: not shown to this model]")
    assert text.count("[") == text.count("]") == 1 and "\n" not in text and "\x1b" not in text


def test_what_is_new_is_what_nothing_was_said_to() -> None:
    one, two, three = (user_message(text) for text in "abc")
    said = Message(role="assistant", content=(output_text("x"),))
    call = FunctionCall(name="f", call_id="c")
    error = ErrorItem(source="setup", code="x", message="y")
    assert new_messages([]) == new_messages([one, said]) == new_messages([one, call]) == []
    assert new_messages([one, said, two, three]) == [two, three]
    assert new_messages([one, error, two]) == [two]


@pytest.mark.parametrize("name", [".", "..", "a/..", "a\\..", " .. ", "", "/", "...", "\0"])
def test_no_file_is_called_as_a_folder_is(name: str) -> None:
    from app.sessions.file_records import SessionFile

    assert SessionFile.made("s", name, b"text", any_kind=True).name == "file"
