"""The pickers that are not models or chats, help, and the log: keys only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.events import Paste

from app import commands
from app.sessions.errors import FiresideError
from app.terminal import glyphs, theming
from app.tui.keys import key_rows
from app.tui.program.project_files import MOST
from app.tui.screens.files import FilesPicker
from app.tui.screens.help import MORE, REBIND, HelpScreen, key_page
from app.tui.screens.logs import LogScreen, tail
from app.tui.screens.palette import CommandPalette
from app.tui.screens.themes import ThemePicker
from app.tui.screens.tools import ToolsPicker, tool_entries
from app.tui.widgets.cells import Span, width_of
from app.tui.widgets.filter import MAX_CHARS
from app.tui.widgets.picker import AT_ONCE, Entry, Picker
from app.tui.widgets.rows import Lines, ListRow
from tests.app.tui import snapshots
from tests.app.tui.screens.harness import Harness, settled

SIZES = [("80x24-hearth", "hearth", (80, 24)), ("140x40-daylight", "daylight", (140, 40))]


def page(app: Harness) -> str:
    return "\n".join(snapshots.text_of(app))


# ---- the picker itself ---------------------------------------------------------------------


def entries(count: int) -> list[Entry]:
    return [Entry(str(number), f"entry number {number}", "a detail") for number in range(count)]


async def test_the_picker_gives_back_what_enter_finds_and_none_for_esc() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(Picker(app, "numbers", entries(30)))
        await pilot.press(*"nber 7", "enter")
        assert app.result == "7"
        await app.open(Picker(app, "numbers", entries(30)))
        await pilot.press("down", "pagedown", "ctrl+end", "up", "enter")
        assert app.result == "28"
        await app.open(Picker(app, "numbers", entries(3), current="1"))
        await pilot.press("enter")
        assert app.result == "1"
        await app.open(Picker(app, "numbers", entries(3)))
        await pilot.press("escape")
        assert app.result is None


async def test_thousands_of_entries_are_ranked_in_steps_and_the_best_is_found() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        many = [*entries(3 * AT_ONCE), Entry("needle", "the needle in it")]
        await app.open(Picker(app, "numbers", many))
        await pilot.press(*"needle")
        await settled(app, pilot)
        assert "1 of 6,001" in page(app)
        await pilot.press("enter")
        assert app.result == "needle"


async def test_an_empty_picker_and_one_that_nothing_fits_say_so() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(Picker(app, "numbers", [], empty="No numbers yet."))
        await pilot.pause()
        assert "No numbers yet." in page(app)
        await pilot.press("enter", "escape")
        await app.open(Picker(app, "numbers", entries(3)))
        await pilot.press(*"zz", "enter")
        assert "Nothing here matches zz." in page(app)


async def test_a_paste_of_lines_becomes_one_line_and_chooses_nothing() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        picker = Picker(app, "numbers", entries(3))
        await app.open(picker)
        await pilot.press("x")
        app.post_message(Paste("one\ntwo\r\n\x1b[31mthree\tfour"))
        await pilot.pause()
        assert picker.filter.value == "xone two [31mthree four"
        assert app.result == "not closed yet"


async def test_a_paste_too_long_for_a_line_is_cut_and_that_is_said() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        picker = Picker(app, "numbers", entries(3))
        await app.open(picker)
        app.post_message(Paste("x" * (MAX_CHARS + 1)))
        while "cut at" not in str(picker.filter.query_one("#fact", Lines).rows):
            await pilot.pause()
        assert picker.filter.value == "x" * MAX_CHARS


MARKUP = ("x [/] y", "[/tmp/a]", "a [/ b", '{"k": [true, false]}', "see [1] and [/opt/data] then [bold")


@pytest.mark.parametrize("text", MARKUP)
async def test_what_looks_like_markup_is_shown_as_it_is(text: str) -> None:
    app = Harness()
    async with app.run_test(size=(140, 40)) as pilot:
        picker = Picker(app, text, [Entry("k", text, text, (Span(text),), text)], hints=((text, text),))
        await app.open(picker)
        await pilot.pause()
        picker.filter.say(text)
        await pilot.pause()
        assert page(app).count(text) >= 4
        await pilot.press("escape")
        await app.open(Picker(app, text, [], empty=text))
        await pilot.pause()
        assert page(app).count(text) == 2


async def test_a_narrow_terminal_gets_the_picker_over_its_full_width() -> None:
    app = Harness()
    async with app.run_test(size=(40, 12)) as pilot:
        await app.open(Picker(app, "numbers", entries(30)))
        await pilot.pause()
        assert all(len(line) <= 40 for line in snapshots.text_of(app))
        assert "entry number 0" in page(app)
        await pilot.resize_terminal(20, 6)
        await pilot.pause()
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert "entry number 0" in page(app)


# ---- themes --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "theme", "size"), SIZES)
async def test_themes(name: str, theme: str, size: tuple[int, int]) -> None:
    app = Harness(theme=theme)
    async with app.run_test(size=size) as pilot:
        await app.open(ThemePicker(app))
        await pilot.pause()
        snapshots.check(app, f"themes-{name}")


async def test_a_theme_is_drawn_while_it_is_looked_at_and_kept_by_enter() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(ThemePicker(app))
        await pilot.press("down")
        await pilot.pause()
        assert app.palette.name == "daylight"
        panel = app.palette.hex("panel")
        assert any(segment.style and str(segment.style.bgcolor.name) == panel for segment in drawn(app))
        await pilot.press("enter")
        assert app.result == "daylight" and app.palette.name == "daylight"


async def test_esc_takes_the_old_theme_back() -> None:
    app = Harness(theme="moss")
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(ThemePicker(app))
        await pilot.press("down", "down", "escape")
        await pilot.pause()
        assert app.result is None and app.palette.name == "moss"


async def test_a_broken_theme_is_listed_with_its_reason_and_not_used() -> None:
    folder = theming.user_folder()
    folder.mkdir(parents=True)
    (folder / "zz.toml").write_text('name = "zz"\ntitle = "\x1b[31m"\n')
    app = Harness()
    async with app.run_test(size=(140, 40)) as pilot:
        await app.open(ThemePicker(app))
        await pilot.press("ctrl+end")
        await pilot.pause()
        assert "broken" in page(app) and "\x1b" not in page(app)
        before = app.palette.name
        await pilot.press("enter")
        assert app.result == "not closed yet" and app.palette.name == before


def drawn(app: Harness) -> list[Any]:
    return [segment for row in snapshots.rows_of(app) for segment in row if segment.style.bgcolor]


# ---- commands and files --------------------------------------------------------------------


async def test_a_command_is_found_by_what_it_does() -> None:
    app = Harness()
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(CommandPalette(app, commands.COMMANDS))
        await pilot.pause()
        await pilot.press(*"choose a model")
        await pilot.pause()
        assert "ctrl+l" in page(app) and "/model" in page(app)
        await pilot.press("ctrl+u", *"older turns", "enter")
        assert app.result == "compact"


async def test_commands_stand_in_groups_until_some_are_looked_for() -> None:
    app = Harness()
    picker = CommandPalette(app, commands.COMMANDS)

    def headings() -> list[str]:
        return [text for row in picker.list.rows if row.key is None and (text := _words(row))]

    async with app.run_test(size=(100, 60)) as pilot:
        await app.open(picker)
        await settled(app, pilot)
        assert headings() == list(commands.GROUPS)
        await pilot.press(*"chat")
        await settled(app, pilot)
        assert headings() == [] and "/chats" in page(app)


def _words(row: ListRow) -> str:
    return "".join(span.text for span in row.left).strip()


async def test_files_of_a_repository_without_what_git_ignores(tmp_path: Path) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=environ)
    for name in ("src/main.py", "src/tail.py", "build/out.o", "notes [bold].md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / ".gitignore").write_text("build/\n")
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(FilesPicker(app, tmp_path))
        await settled(app, pilot)
        assert "out.o" not in page(app) and "notes [bold].md" in page(app)
        await pilot.press(*"srctail")
        await settled(app, pilot)
        await pilot.press("enter")
        assert app.result == "src/tail.py"


async def test_a_huge_folder_is_bounded_and_said_to_be() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        many = [f"folder/file{number}.txt" for number in range(MOST)]
        await app.open(FilesPicker(app, Path("/"), look=lambda folder: many))
        await settled(app, pilot)
        assert f"the first {MOST:,} files" in page(app)


# ---- help ----------------------------------------------------------------------------------


async def test_help_beside_its_picture() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(HelpScreen(app))
        await pilot.pause()
        snapshots.check(app, "help-80x24-hearth")


async def test_help_in_a_light_theme_without_unicode() -> None:
    app = Harness(theme="daylight", ascii=True)
    async with app.run_test(size=(140, 40)) as pilot:
        await app.open(HelpScreen(app))
        await pilot.pause()
        snapshots.check(app, "help-140x40-daylight-ascii")


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_every_real_key_is_told_whole_on_pages_that_need_no_scrolling(size: tuple[int, int]) -> None:
    app = Harness(ascii=True)
    async with app.run_test(size=size) as pilot:
        screen = HelpScreen(app, rows=key_rows({}))
        await app.open(screen)
        await pilot.pause()
        pages = [page(app)]
        assert len(screen.list.rows) <= screen.list.size.height
        if size == (80, 24):
            assert "any command, by name" in pages[0] and "change any of these" in pages[0]
            await pilot.press("tab")
            await pilot.pause()
            assert "more keys" in page(app) and len(screen.list.rows) <= screen.list.size.height
            pages.append(page(app))
        for _, keys, does in key_rows({}):
            assert keys.split(" ")[0] in "\n".join(pages) and does in "\n".join(pages)


async def test_typing_filters_the_keys_and_esc_first_clears_that() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(HelpScreen(app))
        await pilot.press(*"variant")
        await pilot.pause()
        assert "another variant" in page(app) and "block cursor" not in page(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "block cursor" in page(app) and app.result == "not closed yet"
        await pilot.press("escape")
        assert app.result is None


async def test_tab_walks_through_the_topics() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(HelpScreen(app))
        names = [MORE, REBIND, "tools"]
        for name in names:
            await pilot.press("tab")
            await pilot.pause()
            assert app.screen.query_one("#head", Lines).rows[0].left[0].text == name
        for _ in names:
            await pilot.press("shift+tab")
        await pilot.pause()
        assert "block cursor" in page(app)


async def test_a_page_is_opened_by_its_name_and_filtered_too() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(HelpScreen(app, page=REBIND))
        await pilot.press(*"settings")
        await pilot.pause()
        assert "settings file" in page(app)
        await pilot.press(*"zzz")
        await pilot.pause()
        assert "No matches for settingszzz on this page." in page(app)


@pytest.mark.parametrize("size", [(60, 20), (40, 12), (200, 60), (80, 24)])
async def test_help_takes_another_size_while_it_is_open(size: tuple[int, int]) -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(HelpScreen(app))
        await pilot.press("tab")
        await pilot.resize_terminal(*size)
        await pilot.pause()
        assert "keys" in page(app)
        assert all(cell_len(row) <= size[0] for row in page(app).splitlines())


@pytest.mark.parametrize("width", [20, 40, 60, 70, 98])
def test_the_page_of_keys_fits_every_width(width: int) -> None:
    rows = [*key_rows({}), ("move", "漢字" * 20, "[bold]" * 20)]
    assert all(width_of(row.left) <= width for row in key_page(rows, width, glyphs.ASCII))


# ---- tools ---------------------------------------------------------------------------------


class FakeManager:
    """Holds modes, tools and rules as a manager would."""

    def __init__(self, *, calls: bool = True) -> None:
        self.card = SimpleNamespace(supports_tools=calls)
        self.model_source = "chosen.gguf"
        self.mode = "ask"
        self.offered = ["read_file", "edit_file"]
        self.saved = [
            {"id": "r1", "tool": "edit_file", "rule": {"text": "under src/"}, "scope": "session"},
            {"id": "r2", "tool": "shell", "rule": {"text": "git status"}, "scope": "always"},
        ]

    async def settings(self, session_id: str) -> dict[str, Any]:
        return {"approve": {"value": self.mode, "origin": "default"}}

    async def configure(self, session_id: str, **changes: Any) -> None:
        self.mode = changes.get("approve", self.mode)
        self.offered = changes.get("tools", self.offered)

    async def tools(self, session_id: str) -> list[dict[str, Any]]:
        names = {"read_file": "Read a file.\nMore.", "edit_file": "Change a file.", "shell": "\x1b[31mRun"}
        return [
            {"name": name, "description": text, "offered": name in self.offered}
            for name, text in names.items()
        ]

    async def rules(self, session_id: str) -> list[dict[str, Any]]:
        return self.saved

    async def revoke(self, rule_id: str) -> None:
        self.saved = [rule for rule in self.saved if rule["id"] != rule_id]


@pytest.mark.parametrize(("name", "theme", "size"), SIZES)
async def test_tools(name: str, theme: str, size: tuple[int, int]) -> None:
    app = Harness(theme=theme, manager=FakeManager())
    async with app.run_test(size=size) as pilot:
        await app.open(ToolsPicker(app, "s"))
        await settled(app, pilot)
        snapshots.check(app, f"tools-{name}")


async def test_a_program_without_tools_says_so_and_a_chat_that_is_gone_too() -> None:
    manager = FakeManager()

    async def none(session_id: str) -> list[dict[str, Any]]:
        return []

    async def gone(session_id: str) -> list[dict[str, Any]]:
        raise FiresideError("There is no such chat.")

    manager.tools = none  # type: ignore[method-assign]
    app = Harness(manager=manager)
    async with app.run_test(size=(110, 40)) as pilot:
        await app.open(ToolsPicker(app, "s"))
        await settled(app, pilot)
        assert "this program was started without any" in page(app)
        await pilot.press("down", "down", "down", "down", "enter")
        await settled(app, pilot)
        assert manager.offered == ["read_file", "edit_file"]
        await pilot.press("escape")
        manager.tools = gone  # type: ignore[method-assign]
        await app.open(ToolsPicker(app, "s"))
        await settled(app, pilot)
        assert "There is no such chat." in page(app)


async def test_enter_sets_a_mode_hides_a_tool_and_takes_a_rule_back_in_two_presses() -> None:
    manager = FakeManager()
    app = Harness(manager=manager)
    async with app.run_test(size=(110, 40)) as pilot:
        await app.open(ToolsPicker(app, "s"))
        await settled(app, pilot)
        await pilot.press("down", "enter")
        await settled(app, pilot)
        assert manager.mode == "read" and "approvals: read" in page(app)
        await pilot.press("down", "down", "down", "enter")
        await settled(app, pilot)
        assert manager.offered == ["edit_file"]
        await pilot.press("enter")
        await settled(app, pilot)
        assert manager.offered == ["edit_file", "read_file"]
        await pilot.press("ctrl+end", "enter")
        await settled(app, pilot)
        assert len(manager.saved) == 2 and "enter again removes this rule" in page(app)
        await pilot.press("enter")
        await settled(app, pilot)
        assert [rule["id"] for rule in manager.saved] == ["r1"]


async def test_a_model_that_cannot_write_calls_is_said_so_and_can_be_taught() -> None:
    manager = FakeManager(calls=False)
    app = Harness(manager=manager)
    async with app.run_test(size=(110, 40)) as pilot:
        await app.open(ToolsPicker(app, "s"))
        await settled(app, pilot)
        shown = page(app)
        assert "this model cannot call tools" in shown
        assert "not offered" in shown and f"{app.glyphs.done} offered" not in shown
        manager.card.supports_tools = True
        await pilot.press("enter")
        await settled(app, pilot)
        assert app.asked == [("load_model", "chosen.gguf", {"tool_call_format": "generic"})]
        shown = page(app)
        assert "this model cannot call tools" not in shown and f"{app.glyphs.done} offered" in shown


def test_only_the_mode_that_holds_is_marked() -> None:
    found = tool_entries("plan", [], [], "done")
    assert [entry.label for entry in found if entry.facts] == ["plan"]


# ---- the log -------------------------------------------------------------------------------


async def test_the_end_of_the_log_without_what_a_terminal_obeys(tmp_path: Path) -> None:
    lines = [f"line {number}" for number in range(500)]
    evil = "error: \x1b]52;c;AAAA\x07\u202e bad [bold]"
    (tmp_path / "engine.log").write_bytes(
        "\n".join([*lines, evil, "last\udcff"]).encode("utf-8", "surrogateescape")
    )
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(LogScreen(app, tmp_path))
        await settled(app, pilot)
        assert "last" in page(app) and "[bold]" in page(app) and "\x1b" not in page(app)
        await pilot.press("home")
        await pilot.pause()
        assert "line 0" in page(app)
        await pilot.press("tab")
        await settled(app, pilot)
        assert "native.log" in page(app) and "This log is empty." in page(app)


async def test_long_and_wide_lines_of_a_log_are_broken_and_lose_nothing(tmp_path: Path) -> None:
    wide = "漢字" * 60
    (tmp_path / "engine.log").write_text("x" * 200_000 + "\n" + wide + "\nsize =     41.60 MiB " + "y" * 120)
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = LogScreen(app, tmp_path)
        await app.open(screen)
        await settled(app, pilot)
        rows = ["".join(span.text for span in row.left) for row in screen.list.rows]
        assert all(cell_len(row) <= screen.inner_width for row in rows)
        assert "".join(rows).count("漢") == 60 and "".join(rows).count("x") == 200_000
        assert any("size =     41.60 MiB" in row for row in rows)


def test_a_tail_begins_with_a_whole_line_and_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"number {number}" for number in range(1000)))
    lines = tail(log, limit=100)
    assert lines[0].startswith("number ") and lines[-1] == "number 999" and len(lines) < 12
    assert tail(tmp_path / "none") == []
