"""`fireside demo`: plays demo files for people, as a test, as pictures, or into a recording."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from app.demo.cast import Cast
from app.demo.script import Demo, read_demo
from app.demo.terminal_stage import TerminalStage
from app.demo.world import world
from app.exits import ExitCode, usage
from app.terminal import is_terminal, sanitize

CAST_LIMIT_S = 600.0


def run(
    files: Sequence[Path],
    *,
    test: bool = False,
    svg: Path | None = None,
    cast: Path | None = None,
    speed: float = 1.0,
) -> int:
    """Play the demos one after the other; returns the exit code. Raises Failure for the first that fails.

    `test` and `svg` need no terminal and go as fast as they can. `speed` 2 types twice as fast.
    """
    if cast is not None and (len(files) > 1 or test or svg is not None):
        raise usage("--cast records one demo as people see it: give one file, without --test and --svg.")
    demos = [read_demo(file) for file in files]
    if cast is not None:
        return asyncio.run(_record(files[0], demos[0], cast, speed))
    live = not test and svg is None
    if live and not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise usage("A demo plays on a terminal.", "--test checks it without one, --svg DIR draws it.")
    for demo in demos:
        began = time.monotonic()
        drawn = asyncio.run(_play(demo, speed if live else None, svg, live))
        if not live:
            pictures = f", {len(drawn)} pictures" if drawn else ""
            print(sanitize(f"{demo.title}: played in {time.monotonic() - began:.1f} s{pictures}"), flush=True)
    return ExitCode.ANSWERED


async def _play(demo: Demo, speed: float | None, svg: Path | None, live: bool) -> list[Path]:
    from app.demo.tui_stage import play

    with world(demo) as made:
        return await play(made, speed=speed, pictures=svg, on_terminal=live)


async def _record(file: Path, demo: Demo, cast: Path, speed: float) -> int:
    argv = [sys.executable, *_own_arguments(), "demo", str(file), "--speed", str(speed)]
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with Cast(cast, demo.size, demo.title) as recording:
        async with TerminalStage(argv, demo.size, environ=environ, heard=recording.hear) as stage:
            async with asyncio.timeout(CAST_LIMIT_S):
                code = await stage.ended()
    if code:
        raise usage(f"The demo could not be recorded; it ended with exit code {code}:\n{stage.screen()}")
    print(sanitize(f"{demo.title}: recorded in {cast}"))
    return ExitCode.ANSWERED


def _own_arguments() -> list[str]:
    """How this very program is started again, whether it is installed or runs from a checkout."""
    launcher = Path(__file__).resolve().parents[2] / "fireside.py"
    return [str(launcher)] if launcher.is_file() else ["-m", "fireside"]
