"""What the first frame waits for: only what is on it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from app.tui.program import parts
from tests.app.terminal_process import ROOT
from tests.app.tui.pilot import running

AT_FIRST_FRAME = """
import sys
from app.settings.config import resolve
from app.terminal.glyphs import UNICODE
from app.terminal.theming import palette, read
from app.tui.app import FiresideApp
from app.frontend.start import Start

class Watched(FiresideApp):
    async def furnish(self):
        rows = [strip.text for strip in self.screen._compositor.render_strips()]
        print("shown" if any("/ command" in row for row in rows) else "empty", file=sys.__stdout__)
        print(*sys.modules, file=sys.__stdout__)
        self.exit()

Watched(Start(resolve({})), palette(read("hearth")), UNICODE).run(headless=True, size=(100, 40))
"""
LATER = (
    "app.commands",
    "app.sessions.items",
    "app.sessions.manager",
    "app.sessions.store.store",
    "app.tui.chat.chat",
    "app.tui.screens",
    "app.tui.chat.story",
    "app.tui.transcript.entries",
    "app.tui.transcript.gallery",
    "app.markdown.markdown",
    "app.tui.widgets.approval",
    "app.tui.widgets.completion",
    "app.tui.widgets.side",
    "app.tui.widgets.waiting",
    "backend",
    "tools",
    "jinja2",
    "markdown_it",
    "numpy",
    "PIL",
    "pydantic",
    "pygments",
    "sqlite3",
)
"""What no empty chat needs; each costs the first frame milliseconds."""
EARLY = ("backend", "backend.places")
"""Whose the settings are is looked at before anything of them counts; it brings nothing else along."""
MOST_MODULES = 60
"""Of our own at the first frame, which takes a fifth of a millisecond for each."""


def test_the_first_frame_imports_only_what_it_shows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_FIRST_FRAME], cwd=ROOT, capture_output=True, text=True, check=True
    )
    shown, modules = done.stdout.splitlines()
    assert shown == "shown"
    loaded = [name for name in modules.split() if name not in EARLY]
    early = [name for name in loaded if name.startswith(tuple(f"{later}." for later in LATER))]
    assert [*early, *(name for name in LATER if name in loaded)] == []
    # a room's own __init__ holds no code
    files = [name for name in modules.split() if (ROOT / f"{name.replace('.', '/')}.py").exists()]
    assert sum(name.startswith("app.") for name in files) <= MOST_MODULES


async def test_letters_are_written_at_once_and_a_key_that_means_more_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on, load = threading.Event(), parts._import_later

    def held() -> None:
        goes_on.wait()
        load()

    monkeypatch.setattr(parts, "_import_later", held)
    async with running([["an answer"]], wait=False) as run:
        try:
            await run.type("hi")
            await run.until(lambda: run.app.parts.draft.text == "hi")
            await run.pilot.press("enter")
            assert run.app.parts.draft.text == "hi"
        finally:
            goes_on.set()
        await run.until(lambda: run.texts("answer") == ["an answer"])
        assert run.texts("user") == ["hi"]
        assert run.app.parts.draft.text == ""


def test_the_manager_of_an_engine_in_a_process_of_its_own_brings_no_native_code() -> None:
    code = (
        "import sys; from app.sessions.manager import SessionManager\n"
        "from backend.engines.host import EngineHost\n"
        "print([name for name in ('backend.native', 'ctypes', 'jinja2', 'llama_cpp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
