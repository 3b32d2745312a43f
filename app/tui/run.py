"""The launcher of the full-screen face: what the terminal can do, the app behind its guards, a tidy end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING

from app import paths
from app.exits import ExitCode
from app.frontend.start import Start
from app.terminal.fd_guard import FdGuard
from app.terminal.guard import on_ending_signal, run_guarded
from app.terminal.output import color_depth, in_screen, is_terminal, notify, over_ssh

if TYPE_CHECKING:
    from app.terminal.theming import Palette
    from app.tui.app import FiresideApp


def run(start: Start) -> int:
    """Chat on the whole screen until the person leaves; returns the exit code.

    Call it while there is one thread: it forks, and its child does everything.
    """
    return run_guarded(lambda: _face(start))


def _face(start: Start) -> int:
    # Until the first frame all stays that is made: looking for garbage in it takes a tenth of the time.
    gc.disable()
    palette = _palette(start)
    while True:
        with _native_output_away() as guard:
            app = asyncio.run(_chat(start, palette, guard))
        if app.startup.failure is None:
            break
        notify(str(app.startup.failure))
        from app.frontend.store_question import makes_room

        if not makes_room(app.startup.failure):
            break
    if app.startup.failure is None and app.startup.resume_line is not None:
        print(app.startup.resume_line, file=sys.stderr, flush=True)
    return app.return_code or ExitCode.ANSWERED


@contextlib.contextmanager
def _native_output_away() -> Generator[FdGuard | None]:
    """Within, what native code prints goes to a log; to the screen where there can be none."""
    guard = FdGuard(paths.state_dir() / "screen.log")
    with contextlib.ExitStack() as stack:
        entered: FdGuard | None = None
        with contextlib.suppress(OSError):
            entered = stack.enter_context(guard)
        yield entered


async def _chat(start: Start, palette: Palette, guard: FdGuard | None) -> FiresideApp:
    app = _app(start, palette)
    app.window.fd_guard = guard
    loop = asyncio.get_running_loop()

    def end(number: int) -> None:
        loop.call_soon_threadsafe(app.exit, None, 128 + number)

    on_ending_signal(end)
    with contextlib.ExitStack() as running:

        def drawn() -> None:
            from app.terminal.priority import drawing_yields

            gc.freeze()
            gc.enable()
            running.enter_context(drawing_yields())

        app.startup.drawn = drawn
        try:
            await app.run_async()
        finally:
            await app.startup.close_down()
    return app


def _app(start: Start, palette: Palette) -> FiresideApp:
    from app.frontend.history import History, history_file
    from app.settings.config import mistakes, table
    from app.terminal import graphics
    from app.terminal.glyphs import choose
    from app.tui.app import FiresideApp
    from app.tui.keys import read_keymap

    keymap, wrong = read_keymap(table("keys", paths.config_file()))
    start.notices.extend([*mistakes, *wrong])
    still = bool(os.environ.get("NO_COLOR")) or over_ssh()
    return FiresideApp(
        start,
        palette,
        choose(bool(start.settings.get("ascii", False))),
        history=History(history_file()),
        motion=not still,
        hyperlinks=not in_screen() and os.environ.get("TERM") != "linux",
        pictures=graphics.choose(
            start.settings.get("pictures", "auto"),
            palette.terminal_depth,
            at_terminal=is_terminal(sys.stdin),
        ),
        keymap=keymap,
    )


def _palette(start: Start) -> Palette:
    """The theme as this terminal shows it. A broken one is told later, and the default is used."""
    from app.terminal import theming

    theme, problem = theming.choose(start.settings.get("theme", theming.DEFAULT))
    if problem is not None:
        start.notices.append(str(problem))
    depth = color_depth()
    answer = None
    if depth in (None, "standard") or theme.colors is None:
        from app.terminal.background import ask_ground

        with contextlib.suppress(OSError):
            answer = ask_ground()
    return theming.palette(theme, depth, dark_ground=theming.ground_is_dark(answer))
