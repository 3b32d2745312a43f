"""Choosing a chat by its number, on a plain terminal: what a bare `--resume` does outside of the TUI."""

from __future__ import annotations

import sys

from app.cli.session_commands import changed_at, recent
from app.cli.table import table
from app.exits import usage
from app.terminal.output import is_terminal

_SHOWN = 20


def pick_chat() -> str:
    """The id of the chat that the person at the terminal chooses.

    A usage failure where nobody can be asked, where there is no chat, and when none is chosen.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise usage(
            "--resume needs the id of a chat where nobody can choose.",
            "`fireside sessions list` shows them; -c continues the last one.",
        )
    chats = recent(_SHOWN)
    if not chats:
        raise usage("There is no chat to continue.", "Start one without --resume.")
    rows = [(str(number), changed_at(one), one.title or "-") for number, one in enumerate(chats, 1)]
    print("\n".join(table(rows)), file=sys.stderr)
    while True:
        print("Which one? (a number; enter for none) ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline().strip()
        if not answer:
            raise usage("No chat was chosen.")
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(chats):
            return chats[int(answer) - 1].id
