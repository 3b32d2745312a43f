"""What runs inside the terminal of a demo: the REPL on the demo's world, or a command with its replies.

Started by `app.demo.run` with the demo's file in the environment; it writes what the demo says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from app.demo.script import FILE_VARIABLE, PLAYED_VARIABLE, Demo, read_demo


def main() -> int:
    """Play the part that the arguments name; returns the exit code."""
    demo = read_demo(Path(os.environ[FILE_VARIABLE]))
    if sys.argv[1:] == ["--inside-repl"]:
        return _chat(demo)
    return _command(demo, sys.argv[1:])


def _chat(demo: Demo) -> int:
    from app.demo.fixture import world
    from app.repl import run

    with world(demo) as made:
        return run(replace(made.start, make=made.make_manager))


def _command(demo: Demo, arguments: list[str]) -> int:
    from app.cli import main as cli
    from backend.model import GenerativeModel

    answer = GenerativeModel.answer
    replies = _replies(demo, Path(os.environ[PLAYED_VARIABLE]))
    GenerativeModel.answer = lambda self, request: answer(self, replace(request, forced=next(replies)))
    return cli.main(arguments)


def _replies(demo: Demo, played: Path) -> Iterator[str]:
    while True:
        number = int(played.read_text()) if played.exists() else 0
        if number >= len(demo.replies):
            raise RuntimeError(f"The demo has {len(demo.replies)} replies, but one more is needed.")
        played.write_text(str(number + 1))
        yield demo.replies[number]


if __name__ == "__main__":
    sys.exit(main())
