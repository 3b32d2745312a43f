"""The REPL: a chat line by line, for ssh, dumb terminals and screen readers."""

from __future__ import annotations

import os
import sys

from app.config import Settings
from app.exits import ExitCode
from app.interrupt import Interrupted, Interruption
from app.terminal import is_terminal, notify, prepare, takes_styles


def run(settings: Settings, *, plain: bool = False) -> int:
    """Chat until the person leaves; returns the exit code."""
    from app.oneshot import loaded
    from app.repl.line_reader import plain_reader, styled_reader
    from app.repl.repl import Repl

    out = prepare(sys.stdout)
    plain = plain or bool(os.environ.get("ACCESSIBLE"))
    styled = not plain and takes_styles(sys.stdout) and is_terminal(sys.stdin)
    try:
        with Interruption() as interruption, loaded(settings, interruption, slots=1) as model:
            reader = styled_reader() if styled else plain_reader(out)
            with interruption.released():
                piped = not is_terminal(sys.stdin)
                return Repl(model, settings, reader, out, styled=styled, piped=piped).run()
    except Interrupted as stop:
        failure = stop.failure()
        notify(failure.message)
        return failure.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return ExitCode.ANSWERED
