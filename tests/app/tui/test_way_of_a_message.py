"""What a message passes between the key and the pixels: its words, and those of the reply, are followed."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from app.frontend import draft_keeper
from app.settings.config import Value, resolve
from backend.chat_engine import Request
from backend.engines.host import EngineHost
from backend.engines.scripted import Pause
from tests.app.terminal_process import ROOT
from tests.app.tui.pilot import Running, running

MOST_MODULES = 45
ASKED, ANSWERED = "Wherefore", "Paris"
"""Words that nothing else contains; the reply's is one token, so that no piece cuts it."""
MESSAGE = f"{'word ' * 40}{ASKED}"
"""So long that its title does not contain the word: the title goes another way."""
DEEP = 6


def holds(value: object, depth: int = DEEP, *, values: bool = True) -> bool:
    """Whether a value contains one of the words, as a text, in a collection, or in an item or event."""
    if isinstance(value, str):
        return ASKED in value or ANSWERED in value
    if isinstance(value, bytes):
        return ASKED.encode() in value or ANSWERED.encode() in value
    if depth == 0:
        return False
    if isinstance(value, dict):
        return any(holds(one, depth - 1, values=values) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds(one, depth - 1, values=values) for one in value)
    if values and is_dataclass(value) and not isinstance(value, type):
        return any(holds(getattr(value, one.name, None), depth - 1) for one in fields(value))
    return False


class Way:
    """The modules of this process in which a function was given the words, or gave them back."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        """Each with the function that was the first one, in the order of the way."""
        self.is_followed = False

    def look(self, frame: FrameType, event: str, given: Any) -> None:
        """A profile function."""
        if not self.is_followed or event not in ("call", "return"):
            return
        code = frame.f_code
        file = code.co_filename
        if not file.startswith((f"{ROOT}/app/", f"{ROOT}/backend/", f"{ROOT}/tools/")):
            return
        name = str(Path(file).relative_to(ROOT))
        if name not in self.modules and (_is_given(frame) if event == "call" else holds(given, values=False)):
            self.modules[name] = code.co_qualname


def _is_given(frame: FrameType) -> bool:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names, found = code.co_varnames[:count], frame.f_locals
    return any(holds(found.get(name)) for name in names if name != "self")


@contextmanager
def looking(way: Way) -> Iterator[None]:
    """Within, threads that begin and this one are looked at."""
    before = sys.getprofile()
    threading.setprofile(way.look)
    sys.setprofile(way.look)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


async def follow(run: Running, way: Way) -> None:
    """Send the message, and follow it until the word of its reply is on the screen."""
    run.app.parts.draft.put(MESSAGE)
    await run.pilot.pause()
    way.is_followed = True
    await run.pilot.press("enter")
    await run.until(lambda: any(ANSWERED in row for row in run.screen()))
    way.is_followed = False


@pytest.fixture(autouse=True)
def no_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is being written is stored by another way."""
    monkeypatch.setattr(draft_keeper, "KEEP_S", 3600.0)


def written_down() -> set[str]:
    """The modules that ARCHITECTURE.md lists."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("### From key to pixels\n")[2].partition("\n#")[0]
    return set(re.findall(r"`((?:app|backend|tools)/[\w/]+\.py)`", section))


async def test_a_message_passes_the_modules_that_are_written_down() -> None:
    way, goes_on = Way(), asyncio.Event()
    with looking(way):
        async with running([[ANSWERED, Pause(until=goes_on), " it is"]]) as run:
            await follow(run, way)
            goes_on.set()
            await run.until(lambda: not run.app.chat.busy)
    # The engine's own process has the place of the script.
    script = {"backend/engines/scripted.py"}
    engines = {f"backend/engines/{name}.py" for name in ("host", "child_process", "wire")}
    child = {"backend/chat_engine.py"} | engines
    assert written_down() == (way.modules.keys() - script) | child
    assert len(written_down()) <= MOST_MODULES


class Speaking(EngineHost):
    """An engine in a process of its own whose every reply is given, and longer than a frame takes."""

    def submit(self, request: Request) -> AsyncGenerator[list[Any]]:
        return super().submit(replace(request, forced=f"{ANSWERED}{' it is' * 300}"))  # type: ignore[return-value]


@pytest.mark.model
async def test_a_message_to_a_real_model_passes_no_others(starter_model: Path) -> None:
    way = Way()
    settings = resolve({"model": Value(str(starter_model), "test")}, environ={})
    with looking(way):
        async with running(engine=Speaking(), settings=settings) as run:  # type: ignore[arg-type]
            await run.until(lambda: run.app.model.load is None)
            await follow(run, way)
            await run.pilot.press("escape")
            await run.until(lambda: not run.app.chat.busy)
    assert way.modules.keys() == written_down()
