"""A chat line by line on a scripted engine and a scripted person, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.frontend.start import Start
from app.markdown.sgr import Span, TerminalStyle
from app.repl.console import Ended, Line
from app.repl.face import ReplFace
from app.repl.loop import Loop
from app.repl.plain_page import PlainPage
from app.repl.styled_page import StyledPage
from app.settings.config import Settings
from app.terminal.glyphs import UNICODE
from app.terminal.theming import palette, read
from backend.engines.scripted import ScriptedEngine, Step

Do = str | Line | Ended | Callable[[], Any]


@dataclass
class Person:
    """A console that gives scripted lines and answers. A callable step is run, and may be awaited."""

    steps: list[Do] = field(default_factory=list[Do])
    answers: list[str | None] = field(default_factory=list[str | None])
    piped: bool = False
    draws: bool = True
    draft: str = ""
    status: str = ""
    asked: list[tuple[str, bool]] = field(default_factory=list[tuple[str, bool]])
    inserted: list[str] = field(default_factory=list[str])
    remembered: list[str] = field(default_factory=list[str])
    face: ReplFace | None = None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> Line | Ended:
        while True:
            if self.face is not None and not self.piped and not self.face.narrator.settled:
                # A person reads the answer before the next line, unless a step says otherwise.
                if self.steps and callable(self.steps[0]):
                    await self._do(self.steps.pop(0))
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await self._woken.wait()
                if self._woken.is_set():
                    self._woken.clear()
                    return Ended.WOKEN
                continue
            if not self.steps:
                return Ended.LEAVE
            step = self.steps.pop(0)
            if callable(step):
                await self._do(step)
                continue
            return step if isinstance(step, Ended | Line) else Line(step, step)

    async def _do(self, step: Any) -> None:
        found = step()
        if asyncio.iscoroutine(found):
            await found

    async def ask(self, message: Sequence[Span], default: str = "", *, armed: bool = False) -> str | None:
        self.asked.append(("".join(text for text, _ in message), armed))
        return self.answers.pop(0) if self.answers else None

    def cancel_ask(self) -> None:
        pass

    def insert(self, text: str, *, typed: bool = True) -> None:
        self.inserted.append(text)

    def remember(self, text: str) -> bool:
        self.remembered.append(text)
        return True

    def take_draft(self) -> Line:
        text, self.draft = self.draft, ""
        return Line(text, text)

    def wake(self) -> None:
        self._woken.set()

    def leave(self) -> None:
        self.steps.clear()

    def interrupt(self) -> None:
        pass

    def rest(self, busy: bool) -> None:
        pass

    def cooked(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


@dataclass
class Told:
    """What came of a chat."""

    text: str
    code: int
    engine: ScriptedEngine
    person: Person
    live: list[str]

    @property
    def seen(self) -> str:
        """The text without its styles."""
        return re.sub(r"\x1b\[[0-9;]*[mK]", "", self.text)


async def chat(
    *steps: Do,
    scripts: Sequence[Sequence[Step]] = (),
    answers: Sequence[str | None] = (),
    piped: bool = False,
    plain: bool = False,
    columns: int = 80,
    tools: Sequence[Any] = (),
    settings: Settings | None = None,
    engine: ScriptedEngine | None = None,
    watch: Callable[[ReplFace], None] = lambda face: None,
    **start: Any,
) -> Told:
    """Run a whole chat; `steps` are the person's lines."""
    import app.frontend.start as beginning
    from app.frontend import engines

    engine = engine or ScriptedEngine(scripts, closed=True)
    person = Person(list(steps), list(answers), piped)
    begin = Start(settings or Settings({}), tools=(), **start)
    ink = TerminalStyle(palette(read("hearth"), None), UNICODE)
    out = io.StringIO()
    live: list[str] = []

    def put(rows: Sequence[str]) -> None:
        out.write("".join(f"{row}\n" for row in rows))

    def show(spans: Sequence[Span] | None) -> None:
        live.append("" if spans is None else "".join(text for text, _ in spans))

    thinks = bool(begin.settings.get("show_thinking"))
    page: StyledPage | PlainPage
    if plain or piped:
        page = PlainPage(out, piped=piped, show_thinking=thinks)
    else:
        page = StyledPage(ink, put, show, lambda: columns, show_thinking=thinks)
    face = ReplFace(begin, person, page, ink, echoes=not plain and not piped)
    person.face = face
    face.retheme = read  # type: ignore[assignment]
    watch(face)
    before = engines.make_engine, beginning._tools
    engines.make_engine = lambda **options: engine  # type: ignore[assignment]
    beginning._tools = lambda start, folder: list(tools)  # type: ignore[assignment]
    try:
        code = await Loop(face, person).run()  # type: ignore[arg-type]
    finally:
        engines.make_engine, beginning._tools = before
    return Told(out.getvalue(), code, engine, person, live)


def written(face: ReplFace) -> str:
    """The answer that is being written."""
    answer = face.page._answer if isinstance(face.page, StyledPage) else None
    return answer.source if answer else ""


async def wait_until(is_so: Callable[[], Any]) -> None:
    """Let the chat go on until something is so."""
    while not is_so():
        await asyncio.sleep(0.001)


def last_user_text(engine: ScriptedEngine) -> str:
    """What the person said last, as the engine got it."""
    messages = engine.requests[-1].messages or ()
    return str(next(turn["content"] for turn in reversed(messages) if turn["role"] == "user"))


def home_files(home: Path) -> str:
    """Everything in files below a folder, for looking for words that should be nowhere."""
    return "\n".join(
        path.read_bytes().decode("utf-8", "replace") for path in sorted(home.rglob("*")) if path.is_file()
    )
