"""The chat line by line, for ssh, dumb terminals and screen readers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Generator
from typing import IO, TYPE_CHECKING

from app import paths
from app.exits import ExitCode, leave_quietly
from app.repl.typed_ahead import drop_typed_ahead
from app.terminal.fd_guard import FdGuard
from app.terminal.output import can_fill_screen, is_terminal, prepare

if TYPE_CHECKING:
    from app.frontend.start import Start
    from app.markdown.sgr import TerminalStyle
    from app.repl.face import ReplFace
    from app.repl.loop import Loop
    from app.repl.prompter import Prompter
    from app.terminal.glyphs import Glyphs

SHOWN_ID_CHARS = 12
LIGHT_THEME = "daylight"


def run(start: Start, *, plain: bool = False) -> int:
    """Chat until the person leaves; returns the exit code."""
    plain = (
        plain
        or bool(os.environ.get("ACCESSIBLE"))
        or not (is_terminal(sys.stdin) and is_terminal(sys.stdout) and can_fill_screen())
    )
    try:
        return _run_plain(start) if plain else _run_styled(start)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return leave_quietly()
    finally:
        drop_typed_ahead()


@contextlib.contextmanager
def _others_away() -> Generator[tuple[IO[str], tuple[int, int] | None]]:
    """Within, what tools and native code print reaches no terminal as it is: to one that a person looks at
    only this face writes. Where that is, and what other programs are to be given of it."""
    if not is_terminal(sys.stdout):
        from app.terminal.own_output import own_output

        with own_output() as out:
            yield out, None
        return
    with contextlib.ExitStack() as stack:
        guard = FdGuard(paths.state_dir() / "screen.log", for_textual=False)
        entered: FdGuard | None = None
        with contextlib.suppress(OSError):  # no place for a log, no guard
            entered = stack.enter_context(guard)
        yield (entered.screen, entered.terminal) if entered else (sys.stdout, None)


def _run_plain(start: Start) -> int:
    if is_terminal(sys.stdin) and start.make is None and not start.private:
        from app.frontend.store_question import look_first

        look_first()  # once the console reads, the answer would be its line
    with _others_away() as (out, lent):
        loop = asyncio.run(_plain(start, out, lent))
    if not loop.console.piped:
        _say_goodbye(loop.face)
    return loop.code


def _run_styled(start: Start) -> int:
    while True:
        with _others_away() as (out, lent):
            loop = asyncio.run(_styled(start, out, lent))
        _say_goodbye(loop.face)
        if loop.failure is None:
            return loop.code
        from app.frontend.store_question import makes_room

        if not makes_room(loop.failure):
            return loop.code


async def _styled(start: Start, out: IO[str], lent: tuple[int, int] | None) -> Loop:
    from app.frontend.history import History, history_file
    from app.repl.lines import LineCompleter, SharedHistory
    from app.repl.prompter import Prompter

    ink, problem = _ink(start)
    faces: list[ReplFace] = []

    def keeps() -> bool:
        return not (faces[0].is_private if faces else start.private)

    console = Prompter(
        prepare(out),
        ink,
        SharedHistory(History(history_file()), keeps),
        LineCompleter(lambda: faces[0] if faces and faces[0].is_open else None),
    )
    console.lent = lent
    with console:
        # The prompt is there before the rest of the program: that takes as long again to import.
        await console.begin()
        loop = await asyncio.to_thread(_loop, start, console, ink)
        faces.append(loop.face)
        if problem:
            loop.face.page.news(problem, error=True)
        await loop.run()
    return loop


def _loop(start: Start, console: Prompter, ink: TerminalStyle) -> Loop:
    """The face on a styled terminal, and its loop. Not for the event loop: it imports much."""
    from app.repl.face import ReplFace
    from app.repl.loop import Loop
    from app.repl.styled_page import StyledPage

    page = StyledPage(ink, console.print, console.show, lambda: console.columns, show_thinking=_thinks(start))
    face = ReplFace(start, console, page, ink, echoes=True)

    def retheme(name: str) -> None:
        page.ink = _themed(name, ink.glyphs)
        console.restyle(page.ink)

    face.retheme, face.send_sequence = retheme, console.send_sequence
    loop = Loop(face, console)
    console.interrupted, console.cleared = loop.interrupt_reply, loop.hint_or_leave
    console.drafted = face.chat.keep_draft
    console.emptied = console.answers = lambda: bool(face.narrator.questions)
    return loop


async def _plain(start: Start, out: IO[str], lent: tuple[int, int] | None) -> Loop:
    from app.markdown.sgr import TerminalStyle
    from app.repl.console import PlainConsole
    from app.repl.face import ReplFace
    from app.repl.loop import Loop
    from app.repl.plain_page import PlainPage
    from app.terminal.glyphs import ASCII
    from app.terminal.theming import DEFAULT, palette, read

    out = prepare(out)
    console = PlainConsole(out)
    console.lent = lent
    page = PlainPage(out, show_thinking=_thinks(start), piped=console.piped)
    face = ReplFace(start, console, page, TerminalStyle(palette(read(DEFAULT), None), ASCII), echoes=False)
    page.clear_row = console.clear_row
    console.start()
    loop = Loop(face, console)
    await loop.run()
    console.clear_row()
    return loop


def _thinks(start: Start) -> bool:
    return bool(start.settings.get("show_thinking"))


def _ink(start: Start) -> tuple[TerminalStyle, str]:
    """How the terminal is drawn on, and why the theme is not the one that was chosen."""
    from app.terminal.glyphs import choose
    from app.terminal.theming import DEFAULT, ThemeError

    glyphs = choose(bool(start.settings.get("ascii")))
    try:
        return _themed(start.settings.get("theme"), glyphs), ""
    except ThemeError as err:
        return _themed(DEFAULT, glyphs), str(err)


def _themed(name: str | None, glyphs: Glyphs) -> TerminalStyle:
    """The theme of that name; without one, the default that suits the terminal's own ground."""
    from app.markdown.sgr import TerminalStyle
    from app.terminal.output import color_system
    from app.terminal.theming import DEFAULT, ground_is_dark, palette, read

    is_dark = ground_is_dark(None)
    depth = None if os.environ.get("NO_COLOR") else color_system()
    theme = read(name or (DEFAULT if is_dark else LIGHT_THEME))
    return TerminalStyle(palette(theme, depth, dark_ground=is_dark), glyphs)


def _say_goodbye(face: ReplFace) -> None:
    """How to come back to this chat."""
    if face.session_id is not None and not face.is_private and not face.kept.store.private:
        name = face.session_id.removeprefix("sess_")[:SHOWN_ID_CHARS]
        print(f"fireside repl --resume {name}", flush=True)
