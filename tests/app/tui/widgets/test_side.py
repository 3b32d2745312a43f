"""The chats pane: states as mark and word, groups, keys, and thousands of chats in one widget."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.containers import Horizontal

from app.sessions.snapshot import SessionSummary
from app.terminal import glyphs
from app.tui.widgets.cells import width_of
from app.tui.widgets.filter import FilterInput
from app.tui.widgets.side import ChatLine, ChatsPane, chat_line, chat_row, mark_of, word_of
from tests.app.tui import snapshots
from tests.app.tui.screens.harness import Harness

NOW = datetime(2026, 11, 29, 14, 5).timestamp()
H, D = 3600, 86400

CHATS = [
    ChatLine("1", "Release notes draft", int(NOW - 3 * D), pinned=True),
    ChatLine("2", "Fix the tail reader", int(NOW)),
    ChatLine("3", "Rename config keys", int(NOW - 1), state="asks"),
    ChatLine("4", "Summarise the log of the build", int(NOW - 2), state="running", word="61 %"),
    ChatLine("5", "Colour of basalt", int(NOW - 2 * H)),
    ChatLine("6", "Unit tests for parser", int(NOW - 3 * H), state="new"),
    ChatLine("7", "Sourdough, 70 % water", int(NOW - D)),
    ChatLine("8", "Regex for dates", int(NOW - D - 99), state="failed"),
    ChatLine("9", "Waiting for the other model", int(NOW - 4 * D), state="waits"),
]


class PaneApp(Harness):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.pane = ChatsPane(clock=lambda: NOW, motion=False)
        self.pane.styles.width = 31
        self.wishes: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self.pane
            yield FilterInput("")

    def on_mount(self) -> None:
        self.pane.show(CHATS, "2")
        self.query_one(FilterInput).focus()

    def on_chats_pane_wished(self, event: ChatsPane.Wished) -> None:
        self.wishes.append((event.session_id, event.wish))


def summary(**changes: Any) -> SessionSummary:
    fields: dict[str, Any] = {
        "id": "s",
        "agent_id": "agent_fireside",
        "agent_name": "fireside",
        "status": "idle",
        "created_at": 0,
        "updated_at": 5,
        "title": "A title",
        "labels": {},
        "archived": False,
        "pinned": False,
        "parent_session_id": None,
        "pending_elicitations_count": 0,
    }
    return SessionSummary(**{**fields, **changes})


def live(**changes: Any) -> Any:
    fields: dict[str, Any] = {
        "asking": 0,
        "running": False,
        "waits": False,
        "prefill": None,
        "speed": None,
        "unread": False,
        "failed": False,
    }
    return SimpleNamespace(**{**fields, **changes})


@pytest.mark.parametrize(
    ("line", "mark", "word"),
    [
        (chat_line(summary(pending_elicitations_count=1)), "?", "asks"),
        (chat_line(summary(), live(asking=1, running=True)), "?", "asks"),
        (chat_line(summary(), live(running=True, prefill=0.61)), "\u2597", "61 %"),
        (chat_line(summary(), live(running=True, speed=41.3)), "\u2597", "41 t/s"),
        (chat_line(summary(), live(waits=True)), " ", "waits"),
        (chat_line(summary(), live(unread=True)), "\u2219", "new"),
        (chat_line(summary(), live(failed=True, unread=True)), "\u2717", "failed"),
        (chat_line(summary(status="failed")), "\u2717", "failed"),
        (chat_line(summary(updated_at=int(NOW - 2 * H))), " ", "2 h"),
    ],
)
def test_every_state_has_its_mark_and_its_word(line: ChatLine, mark: str, word: str) -> None:
    assert (mark_of(line.state, glyphs.UNICODE).text, word_of(line, NOW).text) == (mark, word)


@pytest.mark.parametrize("title", ["x" * 500, "漢字" * 40, "a\x1b[31mred\u202egnp\n\nb", "😀" * 60, "", None])
def test_a_row_keeps_its_width_and_its_word_whatever_the_title(title: str | None) -> None:
    row = chat_row(chat_line(summary(title=title), live(failed=True)), 31, NOW, glyphs.UNICODE)
    text = "".join(span.text for span in (*row.left, *row.right))
    assert text.rstrip().endswith("failed")
    assert "\x1b" not in text and "\n" not in text and "\u202e" not in text
    assert width_of(row.left) + width_of(row.right) + 2 <= 31 - 1


async def test_the_pane_beside_its_picture() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        await pilot.pause()
        snapshots.check(app, "side-60x40-hearth")
    app = PaneApp(theme="daylight", ascii=True)
    async with app.run_test(size=(60, 24)) as pilot:
        await pilot.pause()
        app.pane.focus()
        await pilot.pause()
        snapshots.check(app, "side-60x24-daylight-ascii")


async def test_keys_walk_and_wish() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        app.pane.focus()
        await pilot.press("down", "enter", "home", "p", "end", "d", "k", "r")
        await pilot.pause()
        assert app.wishes == [("3", "open"), ("1", "pin"), ("9", "delete"), ("8", "rename")]


async def test_a_state_changes_one_row_and_keeps_the_selection() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        await pilot.pause()
        app.pane.change("5", "running", "12 t/s")
        await pilot.pause()
        line = next(line for line in snapshots.text_of(app) if "Colour of basalt" in line)
        assert "\u2597 Colour of basalt" in line and "12 t/s" in line
        assert app.pane.selected == "2"


async def test_leaving_the_pane_puts_the_mark_back_on_the_open_chat() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        app.pane.focus()
        await pilot.press("end")
        assert app.pane.selected == "9"
        app.query_one(FilterInput).focus()
        await pilot.pause()
        assert app.pane.selected == "2"


async def test_five_thousand_chats_are_one_widget_and_the_last_is_reached() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 24)) as pilot:
        before = len(list(app.query("*")))
        many = [ChatLine(str(number), f"Chat {number}", int(NOW - number * H)) for number in range(5000)]
        app.pane.show(many, "0")
        app.pane.focus()
        await pilot.press("end")
        await pilot.pause()
        assert len(list(app.query("*"))) == before
        assert app.pane.selected == "4999"
        assert any("Chat 4999" in line for line in snapshots.text_of(app))


async def test_the_keys_are_told_while_they_count_and_only_then() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        await pilot.pause()
        assert not any("r rename" in line for line in snapshots.text_of(app))
        app.pane.focus()
        await pilot.pause()
        text = "\n".join(snapshots.text_of(app))
        for word in ("enter open", "r rename", "p pin", "a archive", "d delete", "f fork", "ctrl+f search"):
            assert word in text


async def test_a_chat_that_goes_leaves_the_mark_beside_it() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        app.pane.focus()
        await pilot.press("down", "down", "down")
        assert app.pane.selected == "5"
        app.pane.show([chat for chat in CHATS if chat.id != "5"], "2")
        await pilot.pause()
        assert app.pane.selected == "6"
        await pilot.press("end")
        app.pane.show(CHATS[:4], "2")
        await pilot.pause()
        assert app.pane.selected == "4"


async def test_a_new_chat_is_none_of_the_list() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        app.pane.show(CHATS, None)
        await pilot.pause()
        assert not any("\u2590" in line for line in snapshots.text_of(app))
        app.pane.focus()
        await pilot.pause()
        assert any("\u2590" in line for line in snapshots.text_of(app))


async def test_no_chats_is_said() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 24)) as pilot:
        app.pane.show([])
        await pilot.pause()
        assert any("No chats yet." in line for line in snapshots.text_of(app))


async def test_the_keys_that_are_told_are_those_that_are_bound() -> None:
    app = PaneApp()
    app.label = lambda name: {"new_chat": "f9", "search": ""}[name]  # type: ignore[method-assign]
    async with app.run_test(size=(60, 24)) as pilot:
        await pilot.pause()
        text = "\n".join(snapshots.text_of(app))
        assert "f9 new" in text and "search" not in text


async def test_a_click_opens_a_chat() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        await pilot.pause()
        y = next(y for y, line in enumerate(snapshots.text_of(app)) if "Colour of basalt" in line)
        await pilot.click(offset=(8, y))
        await pilot.pause()
        assert app.wishes == [("5", "open")]


async def test_where_older_chats_are_is_told_at_the_end() -> None:
    app = PaneApp()
    async with app.run_test(size=(60, 40)) as pilot:
        await pilot.pause()
        assert not any("older ones: /chats" in line for line in snapshots.text_of(app))
        app.pane.show([ChatLine("a", "new one", int(NOW))], "a", has_more=True)
        await pilot.pause()
        assert any("older ones: /chats" in line for line in snapshots.text_of(app))
