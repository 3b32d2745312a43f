"""`fireside doctor`: looks at everything a chat needs, and says what to do about what is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from app.doctor.check import Check
from app.exits import ExitCode
from app.terminal.output import one_line

_WIDTH = 8


def run(*, as_json: bool) -> ExitCode:
    """Print every check; exit 1 where something would stop a chat."""
    found: list[Check] = []
    for check in checks():
        found.append(check)
        if not as_json:
            _print(check)
    stopped = any(check.state == "problem" for check in found)
    if as_json:
        print(json.dumps({"ok": not stopped, "checks": [check.as_dict() for check in found]}))
    elif stopped:
        print("\nA chat cannot start until the problems above are solved.")
    else:
        print("\nEverything that a chat needs is here.")
    return ExitCode.FAILED if stopped else ExitCode.ANSWERED


def checks() -> Iterator[Check]:
    """Every check, one after another; none raises."""
    from app.doctor import engine, surroundings

    yield surroundings.python()
    yield from engine.checks()
    yield from surroundings.checks()


def _print(check: Check) -> None:
    print(one_line(f"{check.state:<{_WIDTH}} {check.name}: {check.text}"))
    for line in check.remedy.splitlines():
        print(f"{'':<{_WIDTH}}   {one_line(line)}")
    sys.stdout.flush()
