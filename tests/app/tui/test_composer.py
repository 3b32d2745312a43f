from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.events import Key, Paste

from app.frontend.history import History
from app.tui.transcript.tool_entry import ToolCall
from app.tui.widgets import composer
from app.tui.widgets.completion import MOST_ROWS
from backend.engines.scripted import Pause
from tests.app.tui.pilot import Running, running

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


async def paste(run: Running, text: str) -> None:
    """As the terminal sends it: to the app."""
    run.app.post_message(Paste(text))
    await run.pilot.pause()


async def burst(run: Running, text: str) -> None:
    """Keys that come in one read."""
    keys = {"\r": "enter", "\n": "enter", " ": "space"}
    for char in text:
        name = keys.get(char, char)
        run.app.post_message(Key(name, None if name == "enter" else char))
    await run.pilot.pause()


async def test_a_paste_is_one_insert_and_sends_nothing() -> None:
    async with running([["ok"]]) as run:
        await paste(run, "first line\rsecond line\r")
        assert run.app.parts.draft.text == "first line\nsecond line\n"
        assert run.texts("user") == []
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["ok"])
        assert (await run.items())[0].text == "first line\nsecond line"


async def test_a_long_paste_folds_and_is_sent_whole() -> None:
    async with running([["ok"]]) as run:
        text = "\n".join(f"line {number}" for number in range(120))
        await run.type("see")
        await paste(run, text)
        assert run.app.parts.draft.text == "see[pasted 120 lines]"
        assert run.app.parts.draft.whole == "see" + text
        await run.ask(run.app.parts.draft.text)
        sent = (await run.items())[0]
        assert sent.text == "see" + text
        assert run.texts("user") == ["see[pasted 120 lines]"]
        content = run.engine.requests[0].messages[-1]["content"]
        assert "line 119" in str(content)


async def test_backspace_removes_a_folded_paste_whole() -> None:
    async with running() as run:
        await run.type("a")
        await paste(run, "x\n" * 50)
        await run.pilot.press("backspace")
        assert run.app.parts.draft.text == "a"


async def test_keys_that_come_at_once_are_a_paste() -> None:
    async with running([["ok"]]) as run:
        await burst(run, "one\rtwo\rthree")
        await run.until(lambda: run.app.parts.draft.text == "one\ntwo\nthree")
        assert run.texts("user") == []
        run.app.parts.draft.put("")
        await burst(run, "\r".join(["row"] * 20) + "!")
        await run.until(lambda: run.app.parts.draft.text == "[pasted 20 lines]")
        run.app.parts.draft.put("")
        await burst(run, "hello\r")
        await run.until(lambda: run.texts("answer") == ["ok"])
        assert run.texts("user") == ["hello"]


async def test_lines_that_come_at_once_are_not_sent_by_the_end_of_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(composer, "PASTE_S", 60.0)
    async with running([["ok"]]) as run:
        await burst(run, "one\rtwo\r")
        await run.until(lambda: run.app.parts.draft.text == "one\ntwo\n")
        await burst(run, "three\r")  # the rest came a moment later
        await run.until(lambda: run.app.parts.draft.text == "one\ntwo\nthree\n")
        assert run.texts("user") == []
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["ok"])
        assert run.texts("user") == ["one\ntwo\nthree"]


@pytest.mark.parametrize("key", ["ctrl+j", "alt+enter", "shift+enter"])
async def test_keys_that_break_the_line(key: str) -> None:
    async with running() as run:
        await run.pilot.press("a", key, "b")
        assert run.app.parts.draft.text == "a\nb"


async def test_a_backslash_at_the_end_breaks_the_line() -> None:
    async with running() as run:
        run.app.parts.draft.put("a\\")
        await run.pilot.press("enter", "b")
        assert run.app.parts.draft.text == "a\nb"


async def test_controls_of_a_paste_are_left_out() -> None:
    async with running() as run:
        await paste(run, "a\x1b[31mred\x07\u202e b\ud800\ttab")
        assert run.app.parts.draft.text == "a[31mred b\ufffd\ttab"


async def test_history_walks_by_the_beginning(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl")
    for text in ("explain rust", "list files", "explain go"):
        history.add(text)
    async with running(history=history) as run:
        await run.type("expl")
        await run.pilot.press("up")
        assert run.app.parts.draft.text == "explain go"
        await run.pilot.press("up")
        assert run.app.parts.draft.text == "explain rust"
        await run.pilot.press("down", "down")
        assert run.app.parts.draft.text == "expl"


async def test_the_composer_grows_to_a_third() -> None:
    async with running(size=(80, 24)) as run:
        for rows in (1, 3, 20):
            run.app.parts.draft.put("\n".join("x" * rows))
            await run.until(lambda rows=rows: run.app.parts.draft.size.height == min(rows, 8))


async def test_a_file_is_picked_and_goes_with_the_message(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.txt").write_text("the secret plan")
    async with running([["read it"]], workspace=tmp_path) as run:
        await run.type("see @pln")
        await run.until(lambda: run.app.parts.completion.opened)
        assert "notes/plan.txt" in "\n".join(run.screen())
        await run.pilot.press("tab")
        assert run.app.parts.draft.text == "see @notes/plan.txt "
        assert not run.app.parts.completion.opened
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["read it"])
        assert "the secret plan" in str(run.engine.requests[0].messages[-1]["content"])
        assert "plan.txt" in "\n".join(run.screen())


async def test_a_command_is_completed_and_run() -> None:
    async with running() as run:
        await run.type("/app")
        await run.until(lambda: run.app.parts.completion.opened)
        await run.pilot.press("tab")
        assert run.app.parts.draft.text == "/approve"
        await run.type(" pl")
        await run.until(lambda: run.app.parts.completion.opened)
        await run.pilot.press("enter")
        await run.until(lambda: run.app.chat.facts.approve == "plan")
        assert run.texts("user") == []
        assert run.engine.requests == []


async def test_an_unknown_command_is_told_and_not_sent() -> None:
    async with running() as run:
        await run.send("/nonsense")
        await run.until(lambda: "no command" in run.seam)
        assert run.engine.requests == []


async def test_two_slashes_send_text_that_begins_with_one() -> None:
    async with running([["ok"]]) as run:
        await run.ask("//etc is a folder")
        assert run.texts("user") == ["/etc is a folder"]


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_shell_line_can_be_stopped(tmp_path: Path, key: str) -> None:
    async with running([["seen"]], workspace=tmp_path) as run:
        await run.send("!echo begun; exec sleep 1000")
        await run.until(lambda: "esc stops" in run.seam)
        await run.until(lambda: any(entry.output for entry in run.entries if isinstance(entry, ToolCall)))
        await run.pilot.press(key)
        await run.until(lambda: not run.app.shell_lines.run)
        await run.until(lambda: any("stopped" in row for row in run.screen()))
        assert "esc stops" not in run.seam
        await run.ask("what is it?")
        sent = str((await run.items())[0].content)
        assert "begun" in sent and "[stopped]" in sent


async def test_a_shell_line_goes_with_the_next_message(tmp_path: Path) -> None:
    async with running([["seen"]], workspace=tmp_path) as run:
        await run.send("!printf 'one\\n\\033[31mtwo\\n'; exit 3")
        await run.until(lambda: "goes with the next message" in run.seam)
        assert "exit 3" in "\n".join(run.screen())
        assert run.engine.requests == []
        await run.ask("what is that")
        content = str(run.engine.requests[0].messages[-1]["content"])
        assert "$ printf" in content and "two" in content and "\x1b" not in content


async def test_cd_leads_shell_lines_and_named_files_to_another_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/notes.txt").write_text("the heron is grey")
    async with running([["seen"]], workspace=tmp_path) as run:
        await run.send("!cd there")
        await run.until(lambda: run.app.chats.folder == tmp_path / "there")
        await run.send("!basename $PWD; ls")
        await run.until(lambda: any("notes.txt" in row for row in run.screen()))
        await run.ask("what is in @notes.txt?")
        assert "the heron is grey" in str(run.engine.requests[0].messages)


async def test_a_long_output_is_cut_in_the_middle_and_kept_whole(tmp_path: Path) -> None:
    async with running([["many"]], workspace=tmp_path) as run:
        await run.send("!seq 100000")
        await run.until(lambda: "goes with the next message" in run.seam)
        await run.ask("how many?")
        said = str(run.engine.requests[0].messages[-1]["content"])
        assert len(said) < 20_000
        whole = Path(said.partition("the whole output is in ")[2].partition("]")[0])
        assert whole.read_text().endswith("\n100000\n")
        whole.unlink()


async def test_a_message_that_cannot_be_sent_comes_back(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with running([["a", Pause(until=gate)]], workspace=tmp_path) as run:
        big = tmp_path / "big.txt"
        big.write_bytes(b"x" * 11_000_000)
        await run.send("look at @big.txt please")
        await run.until(lambda: "big.txt" in run.seam)
        assert run.app.parts.draft.text == "look at @big.txt please"
        assert run.engine.requests == []
        gate.set()


async def test_a_list_closes_with_the_draft_that_it_was_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    async with running(workspace=tmp_path) as run:
        run.app.parts.draft.put("see @not")
        await run.until(lambda: run.app.parts.completion.opened)
        run.app.parts.draft.put("")
        await run.until(lambda: not run.app.parts.completion.opened)


async def test_a_command_typed_faster_than_it_is_offered_is_the_one_that_runs() -> None:
    async with running() as run:
        run.app.parts.draft.focus()
        run.app.parts.draft.insert_text("/se")
        await run.until(lambda: run.app.parts.completion.opened)
        run.app.parts.draft.insert_text("ttings")
        await run.pilot.press("enter")
        await run.until(lambda: type(run.app.screen).__name__ == "SettingsScreen")
        assert run.app.parts.draft.text == ""


async def test_a_list_tells_how_many_more_there_are() -> None:
    async with running() as run:
        await run.type("/")
        await run.until(lambda: len(run.app.parts.completion.offers) > MOST_ROWS)
        hidden = len(run.app.parts.completion.offers) - MOST_ROWS + 1
        assert any(f"\u25be {hidden} more" in row for row in run.screen())
        assert run.app.parts.completion.size.height == MOST_ROWS
        await run.pilot.press("up")
        await run.until(lambda: any(f"\u25b4 {hidden} more" in row for row in run.screen()))


async def test_a_short_list_tells_of_no_more() -> None:
    async with running() as run:
        await run.type("/re")
        await run.until(lambda: 1 < len(run.app.parts.completion.offers) <= MOST_ROWS)
        assert not any(" more" in row for row in run.screen())
