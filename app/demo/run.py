"""`fireside demo`: plays demo files for people, as a test, as pictures, or into a recording."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from app.demo.cast import Cast
from app.demo.film import Film
from app.demo.fixture import world
from app.demo.needs import check_needs
from app.demo.player import PATIENCE_S, Player
from app.demo.script import FILE_VARIABLE, PLAYED_VARIABLE, Demo, read_demo
from app.demo.terminal_stage import TerminalStage
from app.exits import ExitCode, usage
from app.terminal.output import is_terminal, sanitize

CAST_LIMIT_S = 600.0


def run(
    files: Sequence[Path],
    inner: Sequence[str],
    *,
    test: bool = False,
    svg: Path | None = None,
    cast: Path | None = None,
    speed: float = 1.0,
    patience_s: float = PATIENCE_S,
) -> int:
    """Play the demos one after the other; returns the exit code. Raises Failure for the first that fails.

    `inner` is the program that plays inside a terminal, for demos of the other faces.
    `test` and `svg` need no terminal and go as fast as they can. `speed` 2 types twice as fast.
    """
    if cast is not None and (len(files) > 1 or test or svg is not None):
        raise usage("--cast records one demo as people see it: give one file, without --test and --svg.")
    demos = [read_demo(file) for file in files]
    for file, demo in zip(files, demos, strict=True):
        check_needs(file, demo)
    if cast is not None:
        return asyncio.run(_record(files[0], demos[0], cast, speed))
    live = not test and svg is None
    if live and not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise usage("A demo plays on a terminal.", "--test checks it without one, --svg DIR draws it.")
    for file, demo in zip(files, demos, strict=True):
        began = time.monotonic()
        drawn = asyncio.run(_play(file, demo, inner, speed if live else None, svg, patience_s))
        if not live:
            pictures = f", {len(drawn)} pictures" if drawn else ""
            print(sanitize(f"{demo.title}: played in {time.monotonic() - began:.1f} s{pictures}"), flush=True)
    return ExitCode.ANSWERED


async def _play(
    file: Path,
    demo: Demo,
    inner: Sequence[str],
    speed: float | None,
    svg: Path | None,
    patience_s: float,
) -> list[Path]:
    """Play on the face that the demo is for; on this very terminal where there is a speed."""
    if demo.face != "tui":
        return await _play_in_terminal(file, demo, inner, speed, svg, patience_s)
    from app.demo.tui_stage import play

    with world(demo) as made:
        return await play(made, speed=speed, pictures=svg, patience_s=patience_s)


async def _play_in_terminal(
    file: Path,
    demo: Demo,
    inner: Sequence[str],
    speed: float | None,
    svg: Path | None,
    patience_s: float,
) -> list[Path]:
    live = speed is not None
    with tempfile.TemporaryDirectory(prefix="fireside-demo-") as made:
        folder = Path(made)
        argv, environ = _inner_program(file, demo, inner, folder)
        columns, rows = os.get_terminal_size() if live else demo.size
        heard = _show if live else _keep_quiet
        async with TerminalStage(
            argv, (columns, rows), environ=environ, cwd=str(folder / "home"), heard=heard
        ) as stage:
            player = Player(demo, stage, speed, svg, patience_s)
            await player.play()
    return player.drawn


def _inner_program(
    file: Path, demo: Demo, inner: Sequence[str], folder: Path
) -> tuple[list[str], dict[str, str]]:
    """What plays inside the terminal, and its environment: settings, chats and history of its own."""
    home = folder / "home"
    home.mkdir()
    for name, text in demo.workspace.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("FIRESIDE_")}
    environ |= {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TZ": "UTC",
        "PS1": "$ ",
        "PS2": "> ",
        FILE_VARIABLE: str(file.resolve()),
        PLAYED_VARIABLE: str(folder / "played"),
        "FIRESIDE_CONFIG": str(folder / "config"),
        "FIRESIDE_STATE": str(folder / "state"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    environ.pop("NO_COLOR", None)
    if demo.face == "repl":
        return [*inner, "--inside-repl"], environ
    commands = folder / "bin"
    commands.mkdir()
    (commands / "fireside").write_text(f'#!/bin/sh\nexec {shlex.join(inner)} "$@"\n')
    (commands / "fireside").chmod(0o700)
    environ["PATH"] = f"{commands}{os.pathsep}{environ.get('PATH', os.defpath)}"
    # Without the start files of a person, and with no colours or titles in its prompt.
    environ.pop("ENV", None)
    return ["/bin/sh", "-i"], environ


def _show(data: bytes) -> None:
    os.write(1, data)


def _keep_quiet(_data: bytes) -> None:
    pass


async def _record(file: Path, demo: Demo, cast: Path, speed: float) -> int:
    argv = [sys.executable, *_own_arguments(), "demo", str(file), "--speed", str(speed)]
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    recorder = Film if cast.suffix.lower() == ".svg" else Cast
    with recorder(cast, demo.size, demo.title) as recording:
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
    return [str(launcher)] if launcher.is_file() else ["-P", "-m", "fireside"]
