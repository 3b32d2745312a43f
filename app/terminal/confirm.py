"""Questions to the person at the terminal, below what they are about; nobody there means no.

What was typed before a question stood there answers nothing, nor do lines that come together. What is
long is shown page by page, and nobody agrees to rows that were not shown without saying so.
"""

from __future__ import annotations

import contextlib
import select
import shutil
import sys
import termios

from app.terminal.output import errors, is_terminal, sanitize

PASTE_S = 0.06
"""What comes so soon behind a line is the rest of a paste, in seconds."""
_LEAST_ROWS = 5
_KEPT_ROWS = 3
"""Rows of the screen that a page leaves for the question."""


def agreed(text: str) -> bool:
    """Whether a person at the terminal says yes to the last line of `text`, below the rest of it."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        return False
    above, _, question = text.rpartition("\n")
    return (not above or read_through(rows_of(above))) and answer(f"{question} [y/N] ") in ("y", "yes")


def answer(question: str) -> str | None:
    """One line of the person, lower case and without blanks around it; None at the end of the input."""
    while True:
        with contextlib.suppress(termios.error, OSError, ValueError):
            termios.tcflush(sys.stdin, termios.TCIFLUSH)
        say(question, end="")
        # A thread that waits in a read would hold the stream at the end of the process.
        with contextlib.suppress(OSError, ValueError):
            select.select([sys.stdin], [], [])
        line = sys.stdin.readline()
        if not line:
            return None
        if not _more_came():
            return line.strip().lower()
        say("\nSeveral lines at once do not count as an answer.")


def rows_of(text: str) -> list[str]:
    """`text` as the rows it takes on this terminal."""
    from app.terminal.text_rows import pieces

    columns = max(20, shutil.get_terminal_size().columns)
    lines = sanitize(text).replace("\t", "    ").split("\n")
    return [row for line in lines for row in pieces(line, columns - 1)]


def fits(rows: list[str]) -> bool:
    """Whether these rows stand on the screen together with the question."""
    return len(rows) <= _page()


def read_through(rows: list[str]) -> bool:
    """Show rows page by page. True when the last one was shown, or the person goes on without that."""
    place = 0
    while True:
        page = rows[place : place + _page()]
        say("\n".join(page))
        place += len(page)
        if place >= len(rows):
            return True
        while True:
            left = len(rows) - place
            said = answer(f"{left:,} rows unread: [enter] shows more, [u] continues anyway, [n]o ")
            if said in (None, "u", "n", "no", "q"):
                return said == "u"
            if not said:
                break
            say("Please press enter, u or n.")


def say(text: str, end: str = "\n") -> None:
    """Write to the person, without what a terminal must not be sent."""
    print(sanitize(text), end=end, file=errors(), flush=True)


def _page() -> int:
    return max(_LEAST_ROWS, shutil.get_terminal_size().lines - _KEPT_ROWS)


def _more_came() -> bool:
    try:
        return bool(select.select([sys.stdin], [], [], PASTE_S)[0])
    except (OSError, ValueError):
        return False
