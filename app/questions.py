"""A yes-or-no question to the person at the terminal; nobody there means no."""

from __future__ import annotations

import sys

from app.terminal import is_terminal, sanitize


def agreed(question: str) -> bool:
    """Whether a person at the terminal says yes."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return False
    print(sanitize(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
