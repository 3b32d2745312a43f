"""Where the REPL's lines come from: prompt_toolkit on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import sys
from typing import IO, TYPE_CHECKING, Protocol

from app import paths
from app.terminal import is_terminal

if TYPE_CHECKING:
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyPressEvent

PROMPT = "> "
PLAIN_PROMPT = "you: "


class LineReader(Protocol):
    """Reads one line. EOFError at the end, KeyboardInterrupt on Ctrl-C."""

    def __call__(self) -> str: ...


def styled_reader() -> LineReader:
    """Lines with editing and a history that outlives the process."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("c-c")
    def _clear_or_leave(event: KeyPressEvent) -> None:  # pyright: ignore[reportUnusedFunction]
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    session: PromptSession[str] = PromptSession(history=_history(), key_bindings=keys)

    def read() -> str:
        return session.prompt(PROMPT)

    return read


def plain_reader(out: IO[str]) -> LineReader:
    """Lines as they come, with no control codes; a prompt is shown on a terminal only."""
    lines = sys.stdin
    wrapper: object = lines
    if isinstance(wrapper, io.TextIOWrapper):
        wrapper.reconfigure(encoding=None if is_terminal(lines) else "utf-8", errors="replace")

    def read() -> str:
        if is_terminal(lines):
            out.write(PLAIN_PROMPT)
            out.flush()
        line = lines.readline() if lines is not None else ""  # pyright: ignore[reportUnnecessaryComparison]
        if not line:
            raise EOFError
        return line.rstrip("\n")

    return read


def _history() -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        return FileHistory(paths.touch_private(paths.state_dir() / "history"))
    except OSError:
        return InMemoryHistory()  # a read-only home costs the history, not the chat
