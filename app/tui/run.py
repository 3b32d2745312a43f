"""The launcher of the full-screen face: what the terminal can do, the app, and a tidy end."""

from __future__ import annotations

import asyncio
import os
import sys

from app.exits import ExitCode
from app.terminal import notify
from app.tui.start import Start


def run(start: Start) -> int:
    """Chat on the whole screen until the person leaves; returns the exit code."""
    return asyncio.run(_run(start))


async def _run(start: Start) -> int:
    from app import glyphs, theming
    from app.terminal import color_depth
    from app.tui.app import FiresideApp
    from app.tui.widgets.history import History, history_file

    theme, problem = theming.choose(start.settings.get("theme", theming.DEFAULT))
    if problem is not None:
        start.notices.append(str(problem))
    palette = theming.palette(theme, color_depth("auto"))
    app = FiresideApp(
        start,
        palette,
        glyphs.choose(bool(start.settings.get("ascii", False))),
        history=History(history_file()),
        motion=not os.environ.get("NO_COLOR"),
    )
    try:
        code = await app.run_async()
    finally:
        await app.close_down()
    if app.failure is not None:
        notify(str(app.failure))
    return code or app.return_code or ExitCode.ANSWERED


if __name__ == "__main__":
    from app.config import resolve

    sys.exit(run(Start(resolve({}))))
