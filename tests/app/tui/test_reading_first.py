"""A call is allowed once all of it was on the screen, or by a key that says how much was not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.events import Key

from app.tui.app import FiresideApp
from tests.app.tui.pilot import Running, running
from tests.app.tui.test_approvals import Recorder, asked, call

pytestmark = pytest.mark.timeout(60)
LINES = [f"line {number}" for number in range(60)]


def shown(run: Running) -> str:
    return "\n".join(run.screen())


async def read_to_the_end(run: Running) -> str:
    """Page down to the last row; all that was shown on the way."""
    seen = shown(run)
    while run.app.parts.approval.unread:
        before = run.app.parts.approval.unread
        await run.pilot.press("pagedown")
        await run.until(lambda before=before: run.app.parts.approval.unread < before)
        seen += shown(run)
    await run.until(lambda: "y once" in shown(run))
    return seen + shown(run)


async def test_long_content_is_read_before_it_can_be_allowed() -> None:
    tool = Recorder()
    async with running([[call(text="\n".join(LINES))], ["done"]], tools=[tool], size=(80, 24)) as run:
        await asked(run)
        assert "rows unread, allow anyway" in shown(run)
        assert "y once" not in shown(run) and "this chat" not in shown(run)
        for key in ("enter", "up"):
            await run.pilot.press(key)
        assert tool.calls == []
        seen = await read_to_the_end(run)
        assert all(line in seen for line in LINES)
        await run.pilot.press("y")
        await run.until(lambda: tool.calls == [{"text": "\n".join(LINES)}])


@pytest.mark.parametrize("key", ["pagedown", "down"])
async def test_rows_that_were_never_painted_are_unread(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that come together, as of a wheel that a terminal sends as arrows, pass over nothing."""
    async with running([[call(text="\n".join(LINES))], ["done"]], tools=[Recorder()], size=(80, 24)) as run:
        await asked(run)
        painted = shown(run)
        paint = FiresideApp._display

        def noting(app: FiresideApp, *screen: Any) -> None:
            nonlocal painted
            painted += shown(run)
            paint(app, *screen)

        monkeypatch.setattr(FiresideApp, "_display", noting)
        before = run.app.parts.approval.unread
        for _ in range(len(LINES)):
            run.app.post_message(Key(key, None))
        await run.until(lambda: run.app.parts.approval.unread < before)
        read = LINES[: len(LINES) - run.app.parts.approval.unread]
        assert [line for line in read if line not in painted] == []


async def test_rows_below_a_list_over_the_draft_are_unread() -> None:
    async with running([[call(text="\n".join(LINES))], ["done"]], tools=[Recorder()], size=(80, 24)) as run:
        await asked(run)
        await run.pilot.press("tab")
        await run.type("/")
        await run.until(lambda: run.app.parts.completion.opened)
        await run.pilot.resize_terminal(60, 24)  # the rows are made again, and none of them was read
        await run.until(lambda: run.app.parts.approval.unread < len(run.app.parts.approval._body or ()))
        seen = shown(run)
        for _ in range(3):
            await run.pilot.press("pagedown")
            await run.pilot.pause()
            seen += shown(run)
            read = LINES[: len(LINES) - run.app.parts.approval.unread]
            assert [line for line in read if line not in seen] == []


@pytest.mark.parametrize("keys", [("y",), ("s", "enter"), ("a", "enter"), ("right", "enter")])
async def test_nothing_is_allowed_that_a_low_screen_cuts_off(keys: tuple[str, ...]) -> None:
    """Neither a call whose facts and keys are below the last row, nor a rule that is."""
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool], size=(80, 24)) as run:
        await asked(run)
        await run.pilot.resize_terminal(80, 8)
        await run.until(lambda: "enlarge the window to allow" in shown(run))
        for key in keys:
            await run.pilot.press(key)
            await run.until(lambda: not run.app.parts.approval._held)
        await run.pilot.pause()
        assert tool.calls == [] and run.app.parts.approval.question is not None
        assert await run.app.manager.rules(run.app.chat.id or "") == []
        await run.pilot.resize_terminal(80, 24)
        await run.until(lambda: "enlarge the window" not in shown(run))
        if run.app.parts.approval.is_choosing:
            await run.pilot.press("escape")
        await run.pilot.press("y")
        await run.until(lambda: tool.calls == [{"text": "x"}])


async def test_a_letter_too_early_for_long_content_is_a_word() -> None:
    tool = Recorder()
    async with running([[call(text="\n".join(LINES))], ["done"]], tools=[tool], size=(80, 24)) as run:
        await asked(run)
        await run.pilot.press("y")
        await run.until(lambda: run.app.parts.draft.text == "y")
        assert tool.calls == []


async def test_its_own_key_allows_what_was_not_read() -> None:
    tool = Recorder()
    async with running([[call(text="\n".join(LINES))], ["done"]], tools=[tool], size=(80, 24)) as run:
        await asked(run)
        await run.pilot.press("u")
        await run.until(lambda: "y once" in shown(run))
        assert tool.calls == []
        await run.pilot.press("y")
        await run.until(lambda: bool(tool.calls))


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("#!/bin/sh\n#\0\nrm -rf /home\n", ["rm -rf /home", "\u2400"]),
        ("".join(f"line {n}\n" for n in range(200)) + "evil()\n", ["evil()", "line 100", "line 199"]),
        ("x" * 3000 + " evil", ["evil"]),
        ("a\r\nb\r\n", ["a\u240d"]),
        ("no end", ["no newline at the end"]),
        ("раypal.com\n", ["mixed scripts: Cyrillic U+0440 U+0430"]),
    ],
)
async def test_a_file_is_written_only_with_what_was_shown(
    content: str, wanted: list[str], tmp_path: Path
) -> None:
    write = call(name="write_file", path="a.sh", content=content)
    async with running([[write], ["done"]], tools="write_file", workspace=tmp_path, size=(140, 50)) as run:
        await asked(run)
        count = content.count("\n") + (not content.endswith("\n"))
        assert f"+{count:,} -0" in shown(run)
        seen = await read_to_the_end(run)
        for text in wanted:
            assert text in seen


async def test_two_edits_far_apart_are_both_shown(tmp_path: Path) -> None:
    old = [f"{n}\n" for n in range(5000)]
    (tmp_path / "a.txt").write_text("".join(old))
    new = [*old[:10], "first\n", *old[11:4000], "second\n", *old[4001:]]
    write = call(name="write_file", path="a.txt", content="".join(new))
    async with running([[write], ["done"]], tools="write_file", workspace=tmp_path) as run:
        await asked(run)
        assert "+2 -2" in shown(run)
        seen = await read_to_the_end(run)
        assert "first" in seen and "second" in seen


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (140, 40)])
@pytest.mark.parametrize("text", ["\n" * 400, "a\n" * 400, "x" * 9000, "\u202e" * 2000])
async def test_why_it_asks_and_the_sandbox_stay_in_sight(
    size: tuple[int, int], text: str, tmp_path: Path
) -> None:
    command = call(name="run_shell", command=f"echo {text}")
    async with running([[command], ["done"]], tools="run_shell", workspace=tmp_path, size=size) as run:
        await asked(run)
        words = " ".join(shown(run).split())
        assert "run_shell would" in words
        assert "sandboxed" in words
        assert "x no, stop" in words


async def test_a_blank_at_the_end_is_seen() -> None:
    async with running([[call(text="ls ")], ["done"]], tools=[Recorder()]) as run:
        await asked(run)
        assert "ls⟨1 space⟩" in shown(run)


async def test_another_width_loses_no_row_and_asks_to_read_nothing_twice() -> None:
    tool = Recorder()
    text = "\n".join(f"{line} {'x' * 70}" for line in LINES[:6])
    async with running([[call(text=text)], ["done"]], tools=[tool], size=(100, 40)) as run:
        await asked(run)
        await run.until(lambda: "y once" in shown(run))
        await run.pilot.resize_terminal(60, 20)
        await run.until(lambda: "y once" in shown(run))


async def test_edited_arguments_are_read_anew() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool], size=(80, 24)) as run:
        await asked(run)
        await run.pilot.press("e")
        field = run.app.parts.approval.field
        await run.until(lambda: field.has_focus)
        field.load_text('{"text": "' + "a\\n" * 80 + 'last"}')
        await run.pilot.press("enter")
        await run.until(lambda: "rows unread" in shown(run) and run.app.parts.approval.armed)
        assert "last" in await read_to_the_end(run)
        await run.pilot.press("y")
        await run.until(lambda: tool.calls == [{"text": "a\n" * 80 + "last"}])


async def test_the_arguments_to_edit_hold_nothing_that_is_not_seen() -> None:
    tool = Recorder()
    odd = "a\x9b31m\u202eb\u2028c\x0bd\x85e\u200bf\U000e0041"
    async with running([[call(text=odd)], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("e")
        field = run.app.parts.approval.field
        await run.until(lambda: field.has_focus)
        assert field.text.isascii()
        await run.pilot.press("enter")
        await run.until(lambda: "with your arguments" in shown(run) and run.app.parts.approval.armed)
        await run.pilot.press("y")
        await run.until(lambda: tool.calls == [{"text": odd}])


async def test_a_huge_call_is_laid_out_beside_the_event_loop() -> None:
    tool = Recorder()
    arguments: dict[str, Any] = {"text": "row\n" * 60_000 + "evil"}
    async with running([[call(**arguments)], ["done"]], tools=[tool]) as run:
        await asked(run)
        assert "rows unread" in shown(run)
        assert run.app.parts.approval.unread > 59_000
