"""Pictures in the chat line by line: refused before anything is stored, told by name and size."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from app.repl.face import ReplFace
from backend.chat_engine import LoadSpec, Progress
from backend.engines.scripted import CARD, ScriptedEngine
from backend.types import ChatCard
from tests.app.repl.chatting import Told, chat, last_user_text, wait_until

SEES = replace(CARD, model_id="owl", supports_vision=True)
BLIND = replace(CARD, model_id="mole")
NOT_SENT = "mole cannot see, so nothing was sent. Choose a model that sees (/model)"


def saved(folder: Path, name: str = "chart.png") -> Path:
    data = io.BytesIO()
    Image.new("RGB", (40, 8), (255, 0, 0)).save(data, "PNG")
    (folder / name).write_bytes(data.getvalue())
    return folder / name


async def talk(folder: Path, *steps: Any, card: ChatCard = SEES, **options: Any) -> Told:
    """A chat in which the model is there before the person's first line; callables get the face."""
    faces: list[ReplFace] = []
    engine = options.pop("engine", None) or ScriptedEngine([["one"], ["two"], ["three"]], card, closed=True)

    async def loaded() -> None:
        await wait_until(lambda: faces[0].card is not None)

    done = [partial(step, faces) if callable(step) else step for step in steps]
    options |= {"columns": 120, "watch": faces.append, "workspace": str(folder)}
    return await chat(loaded, *done, engine=engine, **options)


def flat(text: str) -> str:
    """What was shown, without the edges and line ends of its rows."""
    return " ".join(text.replace("\u254f", " ").split())


async def test_a_picture_for_a_model_that_cannot_see_is_refused_with_the_line_kept(tmp_path: Path) -> None:
    saved(tmp_path)
    told = await talk(tmp_path, "look @chart.png", card=BLIND)
    assert f"{NOT_SENT}, or remove chart.png." in flat(told.seen)
    assert told.person.inserted == ["look @chart.png"]
    assert told.engine.requests == []


async def test_nothing_of_a_refused_picture_is_stored(tmp_path: Path) -> None:
    saved(tmp_path)

    async def look(faces: list[ReplFace]) -> None:
        assert faces[0].session_id is None
        assert await faces[0].manager.list(5) == []

    told = await talk(tmp_path, "look @chart.png", look, "hello", card=BLIND)
    assert last_user_text(told.engine) == "hello"


async def test_an_attached_picture_is_let_go_when_it_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)

    async def look(faces: list[ReplFace]) -> None:
        assert await faces[0].manager.files.list(str(faces[0].session_id)) == []

    told = await talk(tmp_path, f"/attach {path}", "look", look, "look", card=BLIND)
    assert f"{NOT_SENT}, or send it without chart.png, which is no longer attached." in flat(told.seen)
    assert last_user_text(told.engine) == "look" and len(told.engine.requests) == 1


@pytest.mark.parametrize("attach", [True, False])
async def test_a_recording_for_a_model_that_cannot_hear_is_refused_and_kept_nowhere(
    tmp_path: Path, attach: bool
) -> None:
    (tmp_path / "talk.wav").write_bytes(b"RIFF....WAVE" + bytes(2000))

    async def look(faces: list[ReplFace]) -> None:
        chat = faces[0].session_id
        assert chat is None or await faces[0].manager.files.list(chat) == []

    lines = (f"/attach {tmp_path / 'talk.wav'}", "listen") if attach else ("listen to @talk.wav",)
    told = await talk(tmp_path, *lines, look, "listen", card=replace(SEES, supports_audio=False))
    out = "send it without talk.wav, which is no longer attached" if attach else "remove talk.wav"
    sentence = f"owl cannot hear, so nothing was sent. Choose a model that hears (/model), or {out}."
    assert sentence in flat(told.seen)
    assert last_user_text(told.engine) == "listen" and len(told.engine.requests) == 1


class Slow(ScriptedEngine):
    """An engine whose model is there once it is told so."""

    ready: asyncio.Event

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        await self.ready.wait()
        return await super().load(spec, progress)


def slow(card: ChatCard) -> Slow:
    engine = Slow([["one"]], card, closed=True)
    engine.ready = asyncio.Event()
    return engine


async def test_nothing_is_sent_blindly_while_the_model_is_being_loaded(tmp_path: Path) -> None:
    saved(tmp_path)
    engine = slow(SEES)
    told = await chat("look @chart.png", engine.ready.set, engine=engine, workspace=str(tmp_path))
    assert "still being loaded" in flat(told.seen)
    assert told.person.inserted == ["look @chart.png"] and engine.requests == []


@pytest.mark.parametrize("sees", [True, False])
async def test_piped_lines_wait_to_know_whether_the_model_sees(
    tmp_path: Path, sees: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path)
    engine = slow(SEES if sees else BLIND)
    asyncio.get_running_loop().call_soon(engine.ready.set)
    told = await chat("look @chart.png", engine=engine, workspace=str(tmp_path), piped=True)
    assert (told.code, len(engine.requests)) == ((0, 1) if sees else (2, 0))
    assert sees or NOT_SENT in capsys.readouterr().err


async def test_a_chat_whose_pictures_the_next_model_cannot_see_goes_on_and_says_so_once(
    tmp_path: Path,
) -> None:
    saved(tmp_path)
    engine = ScriptedEngine([["one"], ["two"], ["three"]], SEES, closed=True)

    async def blind(faces: list[ReplFace]) -> None:
        await wait_until(lambda: faces[0].narrator.settled)
        engine.card = BLIND

    told = await talk(tmp_path, "look @chart.png", blind, "so?", "and?", engine=engine)
    assert told.seen.count("this model cannot see the picture of an earlier turn") == 1
    assert "two" in told.seen and "three" in told.seen
    mark = "[picture chart.png, 40x8: not shown to this model]"
    assert all(mark in str(request.messages) for request in engine.requests[1:])


async def test_a_message_with_a_picture_is_told_copied_and_opened_by_name_and_size(tmp_path: Path) -> None:
    size = saved(tmp_path, "my chart.png").stat().st_size
    label = f"[my chart.png, {size} bytes]"
    copied = tmp_path / "copied.txt"
    await talk(tmp_path, 'what is @"my chart.png"', f"/copy message to {copied}")
    assert copied.read_text() == f'what is @"my chart.png"\n{label}'
    told = await talk(tmp_path, "/rewind", last=True, answers=[""])
    assert f'what is @"my chart.png" {label}' in flat(told.seen)
    assert "one" in told.seen and "base64" not in told.seen and "PNG" not in told.seen
