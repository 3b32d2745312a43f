from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from backend.engines.scripted import Pause
from backend.types import EngineError, ReasoningPiece
from tests.app.tui.pilot import running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


async def test_a_message_is_answered_and_stored(tmp_path: Path) -> None:
    async with running([["Hel", "lo ", "there."]], store=tmp_path / "chats.db") as run:
        await run.type("hi")
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") and not run.app.chat.busy)
        assert run.texts("user") == ["hi"]
        assert run.texts("answer") == ["Hello there."]
        assert run.kinds() == ["user", "name", "answer"]
        assert [item.type for item in await run.items()] == ["message", "message"]
        assert run.app.parts.draft.text == ""


async def test_a_reply_that_is_written_is_shown_as_it_comes() -> None:
    gate = asyncio.Event()
    async with running([["first ", Pause(until=gate), "second"]]) as run:
        await run.send("hi")
        await run.until(lambda: any("first" in row for row in run.screen()))
        assert run.app.chat.busy
        assert "esc stops" in run.seam
        gate.set()
        await run.until(lambda: not run.app.chat.busy)
        assert run.texts("answer") == ["first second"]


async def test_escape_stops_and_keeps_what_was_written() -> None:
    gate = asyncio.Event()
    async with running([["some words", Pause(until=gate), " never"]]) as run:
        await run.send("hi")
        await run.until(lambda: run.texts("answer") == ["some words"])
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        assert run.texts("answer") == ["some words"]
        assert any("stopped" in row for row in run.screen())
        stored = await run.items()
        assert stored[-1].text == "some words"
        assert stored[-1].interrupted


async def test_messages_typed_meanwhile_wait_and_can_be_edited_and_removed() -> None:
    gate = asyncio.Event()
    async with running([["one", Pause(until=gate)], ["two"]]) as run:
        await run.send("first")
        await run.until(lambda: run.texts("answer") == ["one"])
        await run.send("second")
        await run.until(lambda: len(run.app.parts.waiting.messages) == 1)
        await run.send("third")
        await run.until(lambda: len(run.app.parts.waiting.messages) == 2)
        assert any("queued" in row and "second" in row for row in run.screen())

        await run.pilot.press("alt+up", "x")
        await run.until(lambda: [text for _, text in run.app.parts.waiting.messages] == ["second"])
        await run.pilot.press("e")
        await run.until(lambda: run.app.parts.draft.text == "second")
        await run.send("changed")
        await run.until(lambda: [text for _, text in run.app.parts.waiting.messages] == ["changed"])
        gate.set()
        await run.until(lambda: run.texts("answer") == ["one", "two"])
        assert run.texts("user") == ["first", "changed"]


async def test_typing_leaves_the_block_cursor_so_that_esc_stops() -> None:
    gate = asyncio.Event()
    async with running([["one"], ["two", Pause(until=gate)]]) as run:
        await run.ask("first")
        await run.pilot.press("alt+up")
        assert run.app.parts.transcript.current is not None
        await run.type("second")
        assert run.app.parts.draft.text == "second"
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["one", "two"])
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        assert any("stopped" in row for row in run.screen())


async def test_the_end_is_followed_when_the_queue_goes() -> None:
    gate = asyncio.Event()
    words = "\n\n".join(f"paragraph {number}" for number in range(60))
    async with running([[words, Pause(until=gate)], ["two"], ["three"]], size=(80, 24)) as run:
        await run.send("first")
        await run.until(lambda: any("paragraph 59" in row for row in run.screen()))
        await run.queue("second", "third")
        assert run.app.parts.transcript.at_tail
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        assert run.app.parts.transcript.at_tail
        assert any("third" in row for row in run.screen())


async def test_thoughts_fold_when_the_answer_starts() -> None:
    async with running([[ReasoningPiece("let me "), ReasoningPiece("think"), "yes"]]) as run:
        await run.ask("hi")
        thought = next(entry for entry in run.entries if entry.kind == "thought")
        assert run.kinds() == ["user", "name", "thought", "answer"]
        assert thought.folded
        assert thought.source == "let me think"
        await run.pilot.press("ctrl+t")
        assert not thought.folded


async def test_variants_are_written_and_walked() -> None:
    async with running([["red"], ["green"]]) as run:
        await run.ask("a colour")
        await run.pilot.press("ctrl+r")
        await run.until(lambda: run.texts("answer") == ["green"] and not run.app.chat.busy)
        await run.until(lambda: any("variant 2 of 2" in row for row in run.screen()))
        await run.pilot.press("left_square_bracket")
        await run.until(lambda: run.texts("answer") == ["red"])
        assert run.texts("user") == ["a colour"]
        await run.until(lambda: any("variant 1 of 2" in row for row in run.screen()))


async def test_a_variant_has_its_own_figures() -> None:
    gate = asyncio.Event()
    async with running([["red", Pause(until=gate)], ["green"]]) as run:
        await run.send("a colour")
        await run.until(lambda: run.texts("answer") == ["red"])
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        await run.pilot.press("ctrl+r")
        await run.until(lambda: run.texts("answer") == ["green"] and not run.app.chat.busy)
        assert not any("stopped" in row for row in run.screen() if "variant" in row)
        await run.pilot.press("left_square_bracket")
        await run.until(lambda: run.texts("answer") == ["red"])
        await run.until(lambda: any("variant 1 of 2" in row and "stopped" in row for row in run.screen()))


async def test_a_shell_line_stays_until_its_output_has_gone(tmp_path: Path) -> None:
    async with running([["red"], ["green"], ["blue"]], store=tmp_path / "chats.db") as run:
        await run.ask("a colour")
        await run.send("!echo outside")
        await run.until(lambda: bool(run.app.chat.attached))
        await run.pilot.press("ctrl+r")
        await run.until(lambda: run.texts("answer") == ["green"] and not run.app.chat.busy)
        assert any("outside" in row for row in run.screen())
        await run.send("and now")
        await run.until(lambda: run.texts("answer") == ["green", "blue"] and not run.app.chat.busy)
        assert run.app.chat.view.unsent == []


async def test_a_message_of_before_an_edit_is_walked_to() -> None:
    async with running([["old"], ["more"], ["new"]]) as run:
        await run.ask("question")
        await run.ask("further")
        await run.pilot.press("alt+up", "up", "up", "up", "e")
        await run.until(lambda: run.app.parts.draft.text == "question")
        await run.send("better question")
        await run.until(lambda: run.texts("answer") == ["new"] and not run.app.chat.busy)
        await run.until(lambda: any("variant 2 of 2" in row for row in run.screen()))
        await run.pilot.press("left_square_bracket")
        await run.until(lambda: run.texts("answer") == ["old", "more"])
        assert run.texts("user") == ["question", "further"]
        await run.pilot.press("alt+up", "up", "up", "up", "right_square_bracket")
        await run.until(lambda: run.texts("answer") == ["new"])


async def test_arrows_move_the_block_cursor_once_it_is_there() -> None:
    async with running([["\n".join(f"{number}. a line" for number in range(1, 61))]]) as run:
        await run.ask("question")
        await run.pilot.press("alt+up")
        assert run.app.parts.transcript.current is run.entries[-1]
        await run.pilot.press("up")
        await run.until(lambda: run.app.parts.transcript.current is run.entries[0])
        await run.until(lambda: any("question" in row for row in run.screen()[:6]))
        await run.pilot.press("down")
        await run.until(lambda: run.app.parts.transcript.current is run.entries[-1])
        await run.pilot.press("down")
        await run.until(lambda: run.app.parts.transcript.current is None)
        assert run.app.parts.draft.has_focus


async def test_an_edited_message_begins_a_branch() -> None:
    async with running([["old"], ["new"]]) as run:
        await run.ask("question")
        await run.pilot.press("alt+up", "alt+up", "e")
        await run.until(lambda: run.app.parts.draft.text == "question")
        await run.send("better question")
        await run.until(lambda: run.texts("answer") == ["new"])
        assert run.texts("user") == ["better question"]
        assert run.app.parts.draft.text == ""


async def test_a_failed_turn_says_so_with_choices_and_can_be_tried_again() -> None:
    broken = EngineError("The engine fell over.", remedy="Lift it up.")
    async with running([[broken], ["fine"]]) as run:
        await run.send("hi")
        await run.until(lambda: "error" in run.kinds())
        rows = "\n".join(run.screen())
        assert "The engine fell over." in rows
        assert "try again" in rows
        assert run.app.parts.transcript.has_focus
        await run.until(lambda: run.app.focus.error_armed)
        await run.pilot.press("r")
        await run.until(lambda: run.texts("answer") == ["fine"])


async def test_keys_go_to_the_draft_when_somebody_types_at_the_conversation() -> None:
    async with running([["yes"]]) as run:
        await run.ask("hi")
        await run.pilot.press("alt+up")
        assert run.app.parts.transcript.current is not None
        await run.pilot.press("z")
        assert run.app.parts.draft.has_focus
        assert run.app.parts.draft.text == "z"


async def test_several_chats_live_at_once() -> None:
    gate = asyncio.Event()
    async with running([["slow ", Pause(until=gate), "end"], ["quick"]]) as run:
        await run.send("one")
        await run.until(lambda: run.texts("answer") == ["slow "])
        first = run.app.chat
        await run.pilot.press("ctrl+n")
        await run.until(lambda: run.app.chat is not first)
        assert run.texts("user") == []
        await run.ask("two")
        assert run.texts("answer") == ["quick"]
        gate.set()
        await run.until(lambda: not first.busy)
        assert first.facts.unread
        assert first.id is not None
        await run.app.chats.open_chat(first.id)
        await run.until(lambda: run.texts("answer") == ["slow end"])
        assert any("slow end" in row for row in run.screen())
        assert not first.facts.unread


async def test_a_draft_survives_the_program(tmp_path: Path) -> None:
    async with running(store=tmp_path / "chats.db") as run:
        await run.type("half a thought")
        await run.until(lambda: run.app.chat.kept_draft == "half a thought")
    async with running(store=tmp_path / "chats.db") as run:
        await run.until(lambda: run.app.parts.draft.text == "half a thought")


async def test_each_chat_keeps_its_draft() -> None:
    async with running([["yes"]]) as run:
        await run.ask("hi")
        first = run.app.chat
        await run.type("for later")
        await run.pilot.press("ctrl+n")
        await run.until(lambda: run.app.chat is not first)
        assert run.app.parts.draft.text == ""
        assert first.id is not None
        await run.app.chats.open_chat(first.id)
        assert run.app.parts.draft.text == "for later"


async def test_ctrl_c_clears_the_draft_and_twice_quits() -> None:
    async with running() as run:
        await run.type("abc")
        await run.pilot.press("ctrl+c")
        assert run.app.parts.draft.text == ""
        await run.pilot.press("up")
        assert run.app.parts.draft.text == "abc"
        await run.pilot.press("ctrl+c", "ctrl+c")
        assert "again to quit" in run.seam
        await run.pilot.press("ctrl+c")
        await run.until(lambda: run.app._exit)


@pytest.mark.parametrize(
    "text",
    [
        "see [1] and [/opt/data] then [bold",
        "yield from f(x) [/]",
        "x [/] y",
        "[/tmp/a]",
        "a [/ b",
        '{"k": [true]}',
    ],
)
async def test_no_text_is_markup(text: str) -> None:
    async with running([[text]], size=(120, 40)) as run:
        await run.ask(text)
        run.app.say(text)
        await run.app.manager.rename(run.app.chat.id or "", text)
        await run.until(lambda: run.app.chat.title == text)
        await run.pilot.pause()
        assert run.texts("user") == [text]
        assert text in "\n".join(run.screen())
        assert text in run.seam


def old_items(count: int) -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for number in range(count):
        role = "assistant" if number % 2 else "user"
        kind = "output_text" if number % 2 else "input_text"
        text = {"type": kind, "text": f"message {number}"}
        made.append({"type": "message", "role": role, "content": [text]})
    return made


async def test_older_messages_come_when_one_goes_up() -> None:
    async with running() as run:
        made = await run.app.manager.create(initial_items=old_items(450), title="long")
        await run.app.chats.open_chat(made.id)
        await run.until(lambda: any("message 449" in row for row in run.screen()))
        assert len(run.entries) < 450
        await run.pilot.press("home")
        await run.until(lambda: run.texts("user")[0] == "message 0")
        await run.until(lambda: any("message 0 " in row for row in run.screen()))
        await run.pilot.press("end")
        await run.until(lambda: any("message 449" in row for row in run.screen()))


async def test_words_are_found_in_the_chat() -> None:
    async with running([["a heron stands"], ["nothing here"]]) as run:
        await run.ask("birds")
        await run.ask("more")
        await run.pilot.press("f7")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.type("heron")
        await run.pilot.press("enter")
        await run.until(lambda: "one match" in run.seam)
        assert run.app.parts.transcript.found == (1, 1)


async def test_a_fork_from_the_second_of_two_messages_has_the_first_too() -> None:
    gate = asyncio.Event()
    async with running([["one", Pause(until=gate)], ["two"]]) as run:
        await run.send("first")
        await run.until(lambda: run.texts("answer") == ["one"])
        await run.queue("second", "third")
        gate.set()
        await run.until(lambda: run.texts("answer") == ["one", "two"] and not run.app.chat.busy)
        await run.pilot.press("alt+up", "up", "f")
        await run.until(lambda: run.app.parts.draft.text == "second\n\nthird")
        assert run.texts("user") == ["first"]


async def test_a_chat_is_forked_from_a_message() -> None:
    async with running([["one"], ["two"], ["other"]]) as run:
        await run.ask("first")
        await run.ask("second")
        before = run.app.chat.id
        await run.pilot.press("alt+up", "alt+up", "f")
        await run.until(lambda: run.app.chat.id != before)
        await run.until(lambda: run.app.parts.draft.text == "second")
        assert run.texts("user") == ["first"]
        await run.ask("another second")
        assert run.texts("answer") == ["one", "other"]


async def test_why_a_picture_cannot_be_seen_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    async with running([["one"]], workspace=tmp_path) as run:
        chat = run.app.chat
        # Of a model of the chat's own nothing is known before it is loaded.
        await chat.manager.set_model_override(await chat.ensure(), "other")
        file = await chat.manager.files.upload(await chat.ensure(), tmp_path / "p.png")
        await chat.post("", [{"type": "input_image", "file_id": file.id}], tmp_path)
        await run.until(lambda: "error" in run.kinds() and not run.app.chat.busy)
        await run.until(lambda: run.app.chat.view.error is not None and run.app.chat.view.error.choices)
        assert run.kinds().count("error") == 1
        assert "cannot see" in "\n".join(run.screen())
