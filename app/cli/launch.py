"""The two faces for a person at a terminal: when each begins, and with what.

Without typer, which `fireside` alone and with a chat to go on with does not need: its screen is there
a tenth sooner.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.flags import Given, settings_of
from app.exits import ExitCode, explain, leave_quietly, usage
from app.settings.config import Settings
from app.terminal.display import force_color
from app.terminal.output import can_fill_screen, is_terminal, notify, prepare

if TYPE_CHECKING:
    from app.frontend.start import Start

FACES = ("repl", "tui")
"""The commands that begin them."""
SWITCH_INTERVAL_S = 0.001
"""How long a busy Python thread keeps the engine's from its next step; the default is 5 ms."""


def main(arguments: Sequence[str]) -> int | None:
    """Run what `fireside` with plain arguments begins at a terminal; None where either is otherwise."""
    given = plainly_given(arguments)
    if given is None or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        return None
    begin()
    try:
        return start_repl(given) if is_plain(given) else start_tui(given)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return leave_quietly()
    except Exception as err:
        failure = explain(err)
        notify(str(failure))
        return failure.exit_code


def plainly_given(arguments: Sequence[str]) -> Given | None:
    """The flags in the arguments that people begin with mostly; None where it takes a parser to tell."""
    match arguments:
        case []:
            return {}
        case ["-c" | "--continue"]:
            return {"continue_": True}
        case ["--resume", name] if name and not name.startswith("-") and name not in FACES:
            return {"resume": name}
        case _:
            return None


def begin() -> None:
    """Make of this process one that any command can run in."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _open_missing_streams()
    prepare(sys.stdout)


def is_plain(given: Given) -> bool:
    """Whether a person wants lines rather than the whole screen, or the terminal shows nothing else."""
    return bool(given.get("plain") or os.environ.get("ACCESSIBLE")) or not can_fill_screen()


def chosen_settings(given: Given) -> Settings:
    """The settings that hold with the flags given; what they say of colours holds from now on."""
    settings = settings_of(given)
    force_color(settings.get("color"))
    return settings


def check_chat(given: Given) -> None:
    """A usage failure for flags of a chat that cannot be combined, or lead nowhere."""
    chosen = [f"--{name.rstrip('_')}" for name in ("continue_", "resume", "fork", "private") if name in given]
    if len(chosen) > 1:
        raise usage(f"{' and '.join(chosen)} cannot be combined.")
    if given.get("no_tools") and "tools" in given:
        raise usage("--tools and --no-tools cannot be combined.")
    if given.get("max_turns", 1) < 1:
        raise usage("--max-turns expects a number of at least 1.")
    if "workspace" in given:
        from app.frontend.workspace import chosen_folder

        chosen_folder(given["workspace"])


def start_tui(given: Given) -> int:
    """Chat on the whole screen; returns the exit code. A usage failure without a terminal."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise usage("The full-screen face needs a terminal.", "`fireside -p` answers without one.")
    check_chat(given)
    start = _start(given, "tui")
    from app.tui.run import run

    return run(start)


def start_repl(given: Given) -> int:
    """Chat line by line; returns the exit code."""
    check_chat(given)
    from app.repl import run

    return run(_start(given, "repl"), plain=given.get("plain", False))


def _start(given: Given, face: str) -> Start:
    """How a face begins with the flags given."""
    from app.cli.trust_question import ask_about_trust
    from app.frontend.start import Start
    from app.frontend.workspace import NOWHERE, chosen_folder
    from app.models.download import with_model_here
    from app.running import name_face

    name_face(face)
    ask_about_trust(Path(given.get("workspace") or ""))
    settings = with_model_here(chosen_settings(given))
    tools = settings.get("tools")
    folder = chosen_folder(given.get("workspace"))
    return Start(
        settings=settings,
        last=given.get("continue_", False),
        resume=given.get("resume"),
        fork=given.get("fork"),
        private=given.get("private", False),
        tools=() if given.get("no_tools") else None if tools is None else tuple(tools),
        approve=settings.get("approve", "ask"),
        workspace=given.get("workspace"),
        notices=[
            notice for notice in (NOWHERE if folder is None else "", settings.template_notice) if notice
        ],
        max_turns=given.get("max_turns"),
    )


def _open_missing_streams() -> None:
    """Open descriptors 0 to 2 where the caller closed them: the next file opened would take their place."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
