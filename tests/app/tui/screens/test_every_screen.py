"""What holds for every screen: it fits each size and follows a resize, in ASCII, without colour and in few
colours; the selected row and the caret are seen, a click beside it closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp

from app.commands import COMMANDS
from app.tui.keys import key_rows
from app.tui.screens.chats import ChatsPicker
from app.tui.screens.dialog import Dialog
from app.tui.screens.dialogs import LineDialog, TextDialog
from app.tui.screens.files import FilesPicker
from app.tui.screens.help import HelpScreen
from app.tui.screens.logs import LogScreen
from app.tui.screens.models import ModelPicker
from app.tui.screens.palette import CommandPalette
from app.tui.screens.params import ParamsScreen
from app.tui.screens.settings import SettingsScreen
from app.tui.screens.themes import ThemePicker
from app.tui.screens.tokens import TokenView
from app.tui.screens.tools import ToolsPicker
from app.tui.widgets.filter import FilterInput
from app.tui.widgets.picker import Entry, Picker
from app.tui.widgets.rows import RowList
from tests.app.tui import snapshots
from tests.app.tui.screens import test_models, test_pickers, test_search, test_tokens
from tests.app.tui.screens.harness import Harness, settled

SIZES = [(140, 40), (40, 12), (60, 20), (80, 24), (100, 30), (200, 60), (24, 8)]
LOG = ["llama_model_loader: loaded 272 tensors", "warning: no GPU was found", "error: 漢字 " + "x" * 300]


class Manager(test_pickers.FakeManager):
    """What every screen asks of a manager."""

    async def settings(self, session_id: str) -> dict[str, Any]:
        held = await super().settings(session_id)
        return {**held, "config": {"value": {"temperature": 0.2}}}

    async def list(self, limit: int, *, include_archived: bool) -> list[Any]:
        return await test_search.listed(limit, include_archived=include_archived)

    async def deleted(self) -> Sequence[Any]:
        return ()


def models(app: Harness) -> ModelPicker:
    card: Any = SimpleNamespace(model_id="SmolLM2 360M")
    servers = [("qwen3-32b", "http://127.0.0.1:8080")]
    found = test_models.models()
    return ModelPicker(app, found, card=card, servers=servers, catalog=test_models.FakeCatalog())


def logs(app: Harness) -> LogScreen:
    folder = Path("logs-of-a-test").resolve()
    folder.mkdir(exist_ok=True)
    (folder / "engine.log").write_text("\n".join(LOG * 20))
    return LogScreen(app, folder)


def files(app: Harness) -> FilesPicker:
    paths = ["README.md", "src/tail.py", "docs/a very long name of a folder/" + "漢字" * 40 + ".txt"]
    return FilesPicker(app, Path("/"), look=lambda folder: paths)


SCREENS: dict[str, Callable[[Harness], Dialog[Any]]] = {
    "help": lambda app: HelpScreen(app, rows=key_rows({})),
    "models": models,
    "chats": lambda app: ChatsPicker(app, current="2", clock=lambda: test_search.NOW),
    "search": lambda app: test_search.screen(app, "index error"),
    "themes": ThemePicker,
    "tools": lambda app: ToolsPicker(app, "s"),
    "files": files,
    "settings": SettingsScreen,
    "params": lambda app: ParamsScreen(app, "s"),
    "logs": logs,
    "tokens": lambda app: TokenView(app, test_tokens.reply(), test_tokens.never),
    "palette": lambda app: CommandPalette(app, COMMANDS),
    "text": lambda app: TextDialog(
        app, "usage", [("tokens", "12,000", "of this chat"), ("漢字" * 9, "x" * 300)]
    ),
    "line": lambda app: LineDialog(app, "rename the chat", "a title " * 30),
}
EVERY = sorted(SCREENS)
TOLD: list[dict[str, Any]] = [
    {"name": "new", "help": "start a new chat", "key": "ctrl+n"},
    {"name": "search", "help": "search all chats", "key": "ctrl+f"},
    {"name": "compact", "help": "summarise older turns", "key": ""},
]
"""Commands as a picture shows them, whatever becomes of the real ones."""


def complaints(app: Harness) -> list[str]:
    """What a person would see to be wrong with the screen."""
    width, height = app.size
    dialog: Any = app.screen
    rows = snapshots.rows_of(app)
    found = [
        f"row {y} is {sum(segment.cell_length for segment in row)} cells wide"
        for y, row in enumerate(rows)
        if sum(segment.cell_length for segment in row) != width
    ]
    text = "\n".join(snapshots.text_of(app))
    if not any(word in text for word in (dialog.heading, dialog.heading[: max(3, width - 10)])):
        found.append(f"the heading {dialog.heading!r} is not there")
    if width >= 40 and "esc" not in text:
        found.append("nobody is told how to leave")
    sheet = dialog.query_one("#sheet").region
    if not app.screen.region.contains_region(sheet):
        found.append(f"the panel {sheet} leaves the screen")
    for widget in dialog.query(RowList):
        if widget.selected is None or not widget.region.height:
            continue
        place = next(y for y, row in enumerate(widget.rows) if row.key == widget.selected)
        if not widget._first <= place < widget._first + widget.size.height:
            found.append(f"the selected row {place} is out of sight")
    focused = app.focused
    if isinstance(focused, FilterInput) and not sheet.contains_point(focused.cursor_screen_offset):
        found.append(f"the caret at {focused.cursor_screen_offset} is not on the panel")
    if focused is not None and height >= 12 and not sheet.contains_region(focused.region):
        found.append(f"what has the keys, {focused.region}, leaves the panel {sheet}")
    return found


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.timeout(60)
async def test_a_screen_fits_every_size_and_follows_a_resize(name: str) -> None:
    app = Harness(manager=Manager())
    async with app.run_test(size=SIZES[0]) as pilot:
        await app.open(SCREENS[name](app))
        await settled(app, pilot)
        assert complaints(app) == []
        for size in (*SIZES[1:], SIZES[0]):
            await pilot.resize_terminal(*size)
            await settled(app, pilot)
            assert (size, complaints(app)) == (size, [])
            await pilot.press("end" if name in ("logs", "text") else "down")
            await settled(app, pilot)
            assert (size, complaints(app)) == (size, [])


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_a_screen_without_unicode_and_without_colour(name: str, size: tuple[int, int]) -> None:
    app = Harness(manager=Manager(), ascii=True, depth=None)
    async with app.run_test(size=size) as pilot:
        await app.open(SCREENS[name](app))
        await settled(app, pilot)
        sheet = app.screen.query_one("#sheet").region
        text = "".join(snapshots.text_of(app))
        assert {char for char in text if not char.isascii()} <= {"漢", "字"}
        assert sheet.width >= min(size[0], 76) - 4
        styles = [segment.style for row in snapshots.rows_of(app) for segment in row if segment.style]
        assert all(style.color is None or style.color.is_default for style in styles)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("theme", "depth"), [("paper", "256"), ("frost", "standard")])
async def test_a_screen_in_few_colours(name: str, theme: str, depth: Any) -> None:
    app = Harness(manager=Manager(), theme=theme, depth=depth)
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(SCREENS[name](app))
        await settled(app, pilot)
        assert complaints(app) == []


@pytest.mark.parametrize("name", EVERY)
async def test_every_key_that_is_told_does_something(name: str) -> None:
    app = Harness(manager=Manager())
    words = {"esc": ("escape",), "arrows": ("up", "down", "left", "right")}
    async with app.run_test(size=(140, 40)) as pilot:
        await app.open(SCREENS[name](app))
        await settled(app, pilot)
        for zone in range(2):
            dialog: Any = app.screen
            told = [key for key, _ in dialog._hints if key]
            keys = [one for key in told for one in words.get(key, tuple(key.split(" ")))]
            assert [key for key in keys if key not in dialog.active_bindings] == []
            if "tab" in told and zone == 0:
                await pilot.press("tab")
                await settled(app, pilot)


@pytest.mark.parametrize("name", EVERY)
async def test_a_click_beside_a_screen_closes_it(name: str) -> None:
    app = Harness(manager=Manager())
    async with app.run_test(size=(140, 40)) as pilot:
        await app.open(SCREENS[name](app))
        await settled(app, pilot)
        inside = app.screen.query_one("#head").region
        await pilot.click(offset=(inside.x + 1, inside.y))
        await pilot.pause()
        assert app.result == "not closed yet"
        await pilot.click(offset=(1, 38))
        await settled(app, pilot)
        assert app.result is None and len(app.screen_stack) == 1


@pytest.mark.parametrize(("name", "theme", "size"), test_pickers.SIZES)
@pytest.mark.parametrize("screen", ["files", "logs", "palette"])
async def test_how_it_looks(screen: str, name: str, theme: str, size: tuple[int, int]) -> None:
    app = Harness(theme=theme, manager=Manager())
    async with app.run_test(size=size) as pilot:
        made = SCREENS[screen](app)
        if isinstance(made, CommandPalette):
            made._commands = [replace(COMMANDS[0], **told) for told in TOLD]
        await app.open(made)
        await settled(app, pilot)
        snapshots.check(app, f"{screen}-{name}")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("models", ("SmolLM2 360M", "Llama 3.3 70B", "39.6 GiB", "\u2717", "fits; 32k would fit too")),
        ("params", ("temperature   ", "0.2", "this chat: higher is freer")),
        ("themes", ("hearth", "daylight", "ember", "frost")),
        ("search", ("index error", "7 matches", "role any  model any  since any")),
        ("tokens", ('" other"', "5.0 %", "written")),
    ],
)
async def test_on_a_small_screen_what_matters_is_whole(name: str, words: tuple[str, ...]) -> None:
    app = Harness(manager=Manager())
    async with app.run_test(size=(40, 12)) as pilot:
        await app.open(SCREENS[name](app))
        await settled(app, pilot)
        text = "\n".join(snapshots.text_of(app))
        assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("typed", ["漢字", "e\u0301", "👩‍👩‍👧", "٣"])
async def test_what_is_typed_may_be_wide(typed: str) -> None:
    entries = [Entry("a", f"about {typed}"), Entry("b", "nothing of it")]
    app = Harness()
    async with app.run_test(size=(60, 20)) as pilot:
        picker = Picker(app, "letters", entries)
        await app.open(picker)
        await pilot.pause()
        picker.filter.input.insert_text_at_cursor(typed)
        await settled(app, pilot)
        assert picker.chosen is not None and picker.chosen.key == "a"
        assert complaints(app) == []
        assert all(cell_len(line) <= 60 for line in snapshots.text_of(app))


def wheel(event: Any, widget: RowList) -> Any:
    nothing = dict.fromkeys(("x", "y", "delta_x", "delta_y", "button"), 0)
    return event(widget, **nothing, shift=False, meta=False, ctrl=False)


async def test_the_wheel_scrolls_and_a_click_chooses_what_is_selected() -> None:
    app = Harness()
    entries: Sequence[Entry] = [Entry(str(number), f"entry {number}") for number in range(100)]
    async with app.run_test(size=(80, 24)) as pilot:
        picker = Picker(app, "numbers", entries)
        await app.open(picker)
        await pilot.pause()
        for event in (MouseScrollDown, MouseScrollDown, MouseScrollUp):
            picker.list.post_message(wheel(event, picker.list))
        await pilot.pause()
        assert picker.list._first > 0 and picker.list.selected == "0"
        await pilot.click(picker.list, offset=(5, 4))
        await pilot.pause()
        chosen = picker.list.selected
        assert chosen not in (None, "0") and app.result == "not closed yet"
        await pilot.click(picker.list, offset=(5, 4))
        await settled(app, pilot)
        assert app.result == chosen
