"""Keys: every one can be another, hints show the one that works, and none takes a letter of a message."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from app.tui.keys import KEYS, can_be_other, key_rows, keys_at, keys_of, read_keymap
from app.tui.widgets.seam import News
from backend.engines.scripted import Pause
from backend.types import EngineError
from tests.app.tui.pilot import running
from tests.app.tui.test_approvals import Recorder, asked, call

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


# ---- the table -----------------------------------------------------------------------------


def test_the_keys_there_are_clash_with_none() -> None:
    table = {key.name: key.keys for key in KEYS if can_be_other(key)}
    assert read_keymap(table) == (table, [])


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"retri": "f9"}, "did you mean retry"),
        ({"stop": 3}, "keys.stop must be text"),
        ({"retry": "ctlr+r"}, "there is no modifier 'ctlr'; there are alt, ctrl"),
        ({"retry": "f99"}, "there is no key 'f99'"),
        ({"retry": "ctrl+n"}, "keys.retry asks for ctrl+n, which new_chat uses (new chat)"),
        ({"retry": "f9", "new_chat": "f9"}, "f9, which"),
        ({"send": "s"}, "s would be lost to every message"),
        ({"retry": "shift+r"}, "R would be lost to every message"),
        ({"allow_once": "n"}, "keys.allow_once asks for n, which refuse uses"),
        ({"allow_once": "ctrl+r"}, "keys.allow_once asks for ctrl+r, which retry uses"),
    ],
)
def test_what_cannot_be_bound_is_told_and_stays_as_it_was(table: dict[str, object], told: str) -> None:
    keymap, wrong = read_keymap(table)
    assert [told in sentence for sentence in wrong] == [True], wrong
    assert len(keymap) == len(table) - 1


def test_what_two_swap_is_no_clash() -> None:
    swapped = {"retry": "ctrl+n", "new_chat": "ctrl+r"}
    assert read_keymap(swapped) == (swapped, [])


def test_a_key_taken_back_is_taken_again() -> None:
    """`new_chat` cannot have esc, so ctrl+n is its own still."""
    keymap, wrong = read_keymap({"retry": "ctrl+n", "new_chat": "esc"})
    assert keymap == {}
    assert len(wrong) == 2


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Ctrl+R", "ctrl+r"),
        ("shift+ctrl+f5", "ctrl+shift+f5"),
        ("?", "question_mark"),
        ("Esc", "escape"),
        ("PgUp", "pageup"),
        (",", "comma"),
    ],
)
def test_keys_are_written_as_people_do(written: str, read: str) -> None:
    others = {"stop": "f12", "retry": "f11", "help": "f10", "page_up": "f9"}
    # One that counts for letters too.
    assert read_keymap({**others, "variant_after": written})[0]["variant_after"] == read


def test_no_key_at_all() -> None:
    keymap, wrong = read_keymap({"mouse": "", "allow_always": ""})
    assert not wrong
    assert keys_of("mouse", keymap) == []
    assert "allow_always" not in keys_at("card", keymap).values()


# ---- other keys in the program -------------------------------------------------------------


async def test_keys_can_be_others() -> None:
    keymap = {"retry": "f9", "send": "ctrl+s", "stop": "f8", "help": "comma"}
    gate = asyncio.Event()
    async with running([["one"], ["two", Pause(until=gate)]], keymap=keymap) as run:
        await run.type("hi")
        await run.pilot.press("ctrl+s")
        await run.until(lambda: run.texts("answer") == ["one"] and not run.app.chat.busy)
        assert ", help" in run.screen()[-1]
        await run.pilot.press("ctrl+r")
        await run.pilot.press("f9")
        await run.until(lambda: run.texts("answer") == ["two"])
        assert "f8 stops" in run.seam
        await run.pilot.press("f8")
        await run.until(lambda: not run.app.chat.busy)
        assert ("reply", "f9", "another variant") in run.app.key_rows()
        await run.pilot.press("comma")
        await run.until(lambda: len(run.app.screen_stack) == 2)
    assert any(keys == "f9" for _, keys, _ in key_rows(keymap))


async def test_the_letters_of_a_card_can_be_others() -> None:
    tool = Recorder()
    keymap = {"allow_once": "j", "refuse_stop": "f9"}
    async with running([[call(text="hello")], ["done"]], tools=[tool], keymap=keymap) as run:
        await asked(run)
        rows = "\n".join(run.screen())
        assert "j once" in rows and "f9 no, stop" in rows and "y once" not in rows
        await run.pilot.press("j")
        await run.until(lambda: run.texts("answer") == ["done"])
        assert len(tool.calls) == 1


async def test_the_keys_of_a_block_can_be_others() -> None:
    async with running([["one"]], keymap={"block_edit": "f9", "block_copy": "y"}) as run:
        await run.ask("a question")
        await run.pilot.press("alt+up", "alt+up")
        assert "y copy" in run.seam and "f9 edit" in run.seam
        await run.pilot.press("f9")
        await run.until(lambda: run.app.drafts.editing is not None)


async def test_a_wrong_key_is_told_in_the_program_until_a_key_is_pressed() -> None:
    _, wrong = read_keymap({"retri": "f9"})
    async with running(start={"notices": wrong}) as run:
        await run.until(lambda: "did you mean retry" in run.seam)
        assert run.app.parts.seam.news is not None and run.app.parts.seam.news.error


# ---- what the seam offers ------------------------------------------------------------------


async def test_a_message_is_begun_with_the_letter_that_the_seam_offers() -> None:
    async with running() as run:
        for name, does in (("save_copy", "saves them to a file"), ("undo_delete", "restores it")):
            run.app.parts.draft.put("")
            run.app.parts.seam.say(News("told", hints=((name, does),)))
            letter = keys_of(name, {})[0]
            assert f"alt+{letter} {does}" in run.seam
            await run.type(f"{letter}o")
            assert run.app.parts.draft.text == f"{letter}o"


async def test_beside_the_draft_the_letter_does_it(tmp_path: Path) -> None:
    async with running([["some words"]]) as run:
        await run.ask("hi")
        saved: list[bool] = []
        run.app.copying.save = lambda: saved.append(True)
        await run.pilot.press("alt+up")
        run.app.parts.seam.say(News("told", hints=(("save_copy", "saves them to a file"),)))
        assert "s saves them" in run.seam and "alt+s" not in run.seam
        await run.pilot.press("s")
        assert saved and run.app.parts.draft.text == ""
        run.app.parts.draft.focus()
        run.app.parts.draft.put("half a message")
        run.app.parts.seam.say(News("told", hints=(("save_copy", "saves them to a file"),)))
        await run.pilot.press("alt+s")
        assert len(saved) == 2 and run.app.parts.draft.text == "half a message"


@pytest.mark.parametrize("size", [(80, 24), (40, 20), (140, 40)])
async def test_an_error_is_told_whole(size: tuple[int, int]) -> None:
    words = [f"word{number}" for number in range(24)]
    async with running(size=size) as run:
        before = run.app.parts.seam.size.height
        run.app.say(" ".join(words), error=True)
        await run.until(lambda: all(word in "\n".join(run.screen()) for word in words))
        assert run.app.parts.draft.has_focus
        await run.pilot.press("x")
        assert "word0" in "\n".join(run.screen()), "who types on has not seen it"
        await run.pilot.press("escape")
        await run.until(lambda: run.app.parts.seam.size.height == before)
        assert run.app.parts.draft.text == "x"


async def test_the_hint_of_new_lines_names_the_key_that_works() -> None:
    text = "\n\n".join(f"line {number}" for number in range(60))
    async with running([[text]], size=(80, 24)) as run:
        await run.ask("many lines")
        for draft, key in (("", "end"), ("half a message", "ctrl+end")):
            run.app.parts.draft.put(draft)
            run.app.parts.transcript.scroll_home(animate=False)
            run.app.parts.seam.set_new_lines(12)
            await run.until(lambda key=key: f"12 new lines  {key} " in run.seam)
            await run.pilot.press(key)
            await run.until(lambda: run.app.parts.transcript.is_vertical_scroll_end)


async def test_an_unanswered_message_says_what_answers_it(tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    gate = asyncio.Event()
    async with running([[Pause(until=gate)]], store=store) as run:
        await run.send("are you there")
        await run.until(lambda: run.app.chat.busy)
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        await run.until(lambda: "ctrl+r answers it" in run.seam)
    async with running([["yes"]], store=store, start={"last": True}) as run:
        await run.until(lambda: "ctrl+r answers it" in run.seam)
        await run.pilot.press("ctrl+r")
        await run.until(lambda: run.texts("answer") == ["yes"])
        assert "answers it" not in run.seam


async def test_help_on_a_command_tells_the_key_that_runs_it() -> None:
    async with running(keymap={"retry": "f9"}) as run:
        await run.send("/help retry")
        await run.until(lambda: "key f9" in "\n".join(run.screen()))
        await run.pilot.press("escape")
        await run.send("/help undo")
        await run.until(lambda: "take your last message back" in "\n".join(run.screen()))
        assert "key " not in "\n".join(run.screen())


async def test_what_is_typed_when_an_error_comes_is_a_message() -> None:
    async with running([[EngineError("The model ran out of memory.")]]) as run:
        await run.send("hi")
        await run.until(lambda: run.app.chat.view.error is not None and run.app.parts.transcript.has_focus)
        run.app.focus._error_at = time.monotonic() + 60  # it came just now
        await run.type("never mind")
        assert run.app.parts.draft.text == "never mind"
        assert run.app.chat.id is not None
