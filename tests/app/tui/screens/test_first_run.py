"""The first run: what was looked at, the starter fetched and stopped, a file opened, and what fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.models.catalog import places
from app.models.starter import StarterError, StoppedError
from app.tui.screens.dialogs import LineDialog
from app.tui.screens.first_run import FirstRunPage, looked_at, machine_facts, starter_words
from app.tui.transcript.entries import KeyChoice
from app.tui.widgets.choices import ChoicePage
from app.tui.widgets.first_run import FirstRun, dropped_path
from tests.app.tui import snapshots
from tests.app.tui.screens.harness import Harness, settled, until

LOOKED = [
    ("~/.local/share/fireside/models", "empty"),
    ("~/.cache/huggingface/hub", "2 models, none as GGUF"),
    ("~/.lmstudio/models", "not there"),
    ("~/.ollama/models", "not there"),
    ("~/.cache/llama.cpp", "not there"),
]
FACT = "SmolLM2 135M, 0.1 GiB, fits"


class PageApp(Harness):
    def __init__(self, page: Any, **options: Any) -> None:
        super().__init__(behind=page, **options)
        self.page = page
        self.sources: list[str] = []
        self.chosen: list[str] = []

    def on_first_run_page_ready(self, event: FirstRunPage.Ready) -> None:
        self.sources.append(event.source)

    def on_choice_page_chosen(self, event: ChoicePage.Chosen) -> None:
        self.chosen.append(event.key)


def first_run(fetch: Any = None, *, servers: bool = True) -> FirstRunPage:
    return FirstRunPage(LOOKED, starter_fact=FACT, servers=servers, fetch=fetch or never)


def never(progress: Callable[[int, int], bool]) -> Path:
    raise AssertionError("nothing was to be fetched")


def page(app: Harness) -> str:
    return "\n".join(snapshots.text_of(app))


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [
        ("first-run-80x24-hearth", (80, 24), {}),
        ("first-run-140x40-daylight", (140, 40), {"theme": "daylight"}),
        ("first-run-80x24-plain", (80, 24), {"depth": None, "ascii": True}),
    ],
)
async def test_the_first_run_beside_its_picture(
    name: str, size: tuple[int, int], options: dict[str, Any]
) -> None:
    app = PageApp(first_run(), **options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        snapshots.check(app, name)


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (100, 30), (200, 60)])
async def test_every_choice_and_its_cost_is_seen_at_every_size(size: tuple[int, int]) -> None:
    app = PageApp(first_run())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert all(choice.label in page(app) for choice in app.page.choices)
        for choice in app.page.choices:
            assert choice.cost in page(app)
            await pilot.press("down")
            await pilot.pause()
        assert ("No model here yet." in page(app)) and "\u203a" in page(app)


async def test_a_page_that_is_too_low_scrolls_with_the_choice() -> None:
    app = PageApp(first_run())
    async with app.run_test(size=(40, 4)) as pilot:
        await pilot.pause()
        assert "download the starter" in page(app)
        await pilot.press("down", "down", "down")
        await pilot.pause()
        assert "use a server" in page(app) and "download the starter" not in page(app)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "download the starter" in page(app) and "use a server" in page(app)


def test_the_memory_of_a_machine_in_words() -> None:
    gib = 1 << 30
    assert machine_facts(8 * gib, int(12.4 * gib), int(15.5 * gib)) == [
        ("gpu", "8.0 GiB"),
        ("memory", "12.4 of 15.5 GiB free"),
    ]
    assert machine_facts(0, 0, 0) == []


async def test_enter_fetches_the_starter_and_tells_how_far_it_is() -> None:
    seen, go_on = threading.Event(), threading.Event()

    def fetch(progress: Callable[[int, int], bool]) -> Path:
        assert progress(42 << 20, 94 << 20)
        seen.set()
        assert go_on.wait(30)
        return Path("/models/starter.gguf")

    app = PageApp(first_run(fetch))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: seen.is_set() and "45 %" in page(app))
        assert "42 of 94 MiB" in page(app)
        await pilot.press("enter")
        go_on.set()
        await settled(app, pilot)
        assert app.sources == ["/models/starter.gguf"]


async def test_esc_stops_a_download_and_the_page_is_as_before() -> None:
    started = threading.Event()

    def fetch(progress: Callable[[int, int], bool]) -> Path:
        while progress(1, 10):
            started.set()
        raise StoppedError

    app = PageApp(first_run(fetch))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await until(pilot, started.is_set)
        await pilot.press("escape")
        await settled(app, pilot)
        assert "fetching" not in page(app) and "Chats stay on this machine" in page(app)
        assert app.sources == []


async def test_a_failure_is_told_with_what_to_do() -> None:
    def fetch(progress: Callable[[int, int], bool]) -> Path:
        raise StarterError("pip could not fetch it: \x1b[31mno route", "Check the connection.")

    app = PageApp(first_run(fetch))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await settled(app, pilot)
        assert "no route" in page(app) and "Check the connection." in page(app) and "\x1b" not in page(app)


async def test_a_file_is_opened_by_its_path_or_by_dropping_it(tiny_llama: Path, tmp_path: Path) -> None:
    app = PageApp(first_run())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, LineDialog) and app.focused)
        await pilot.press(*str(tiny_llama), "enter")
        await settled(app, pilot)
        assert app.sources == [str(tiny_llama)]
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(b"<html>")
        app.page.post_message(FirstRun.Dropped(str(broken)))
        await settled(app, pilot)
        assert "broken.gguf" in page(app) and len(app.sources) == 1


async def test_a_server_is_named_by_its_address_only() -> None:
    app = PageApp(first_run())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("up", "down", "down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, LineDialog) and app.focused)
        await pilot.press(*"ftp://x", "enter")
        await settled(app, pilot)
        assert "begins with http" in page(app) and app.sources == []
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, LineDialog) and app.focused)
        await pilot.press(*"http://127.0.0.1:1", "enter")
        await settled(app, pilot)
        assert app.sources == ["http://127.0.0.1:1"]


async def test_without_servers_there_are_three_ways() -> None:
    app = PageApp(first_run(servers=False))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "use a server" not in page(app) and "pull from Hugging Face" in page(app)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/models/a.gguf", "/models/a.gguf"),
        ("'/models/a b.gguf'\n", "/models/a b.gguf"),
        ("/models/a\\ b.gguf", "/models/a b.gguf"),
        ("file:///models/a%20b.GGUF", "/models/a b.GGUF"),
        ("C:\\models\\a.txt", None),
        ("'unclosed.gguf", None),
        ("two\nlines.gguf", None),
        ("", None),
        ("x" * 5000 + ".gguf", None),
    ],
)
def test_what_terminals_send_for_a_dropped_file(text: str, path: str | None) -> None:
    assert dropped_path(text) == path


def test_the_places_of_this_machine_are_told() -> None:
    Path.home().joinpath(".cache/huggingface/hub/models--a--b").mkdir(parents=True)
    words = dict(looked_at(places()))
    assert words["~/.cache/huggingface/hub"] == "1 model, none as GGUF"
    assert words["~/.ollama/models"] == "not there"
    assert starter_words(0) == "SmolLM2 135M, 0.1 GiB"
    assert starter_words(8 << 30) == FACT and starter_words(1 << 20).endswith("may not fit")


async def test_ways_on_are_taken_by_their_key_by_enter_and_by_clicks() -> None:
    app = PageApp(ChoicePage([KeyChoice("r", "retry", "5.0 GiB, fits"), KeyChoice("m", "another model")]))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("m", "enter", "down", "down", "enter", "z", "up", "up", "enter")
        await pilot.pause()
        assert app.chosen == ["m", "r", "m", "r"]
        await pilot.click(ChoicePage, offset=(10, 1))
        await pilot.click(ChoicePage, offset=(10, 1))
        await pilot.pause()
        assert app.chosen == ["m", "r", "m", "r", "m"]
