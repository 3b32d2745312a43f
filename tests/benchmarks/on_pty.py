"""Programs on a pty as benchmarks need them: when each byte came, and no work for what it looks like."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.app.terminal_process import PATIENCE_S, Display, Terminal

SIZE = (100, 40)


class Bytes(Display):
    """Keeps what is written and when it came, and draws nothing."""

    def __init__(self) -> None:
        super().__init__(*SIZE)
        self.came: list[tuple[float, int]] = []
        """Moments, and how many bytes there were then."""

    def feed(self, data: bytes) -> None:
        self.raw += data
        self.came.append((time.perf_counter(), len(self.raw)))

    def moment(self, text: bytes, start: int = 0) -> float:
        """When `text` was there as a whole, looked for from byte `start` on."""
        end = self.raw.index(text, start) + len(text)
        return next(moment for moment, size in self.came if size >= end)


class Program:
    """A program that runs on a pty."""

    def __init__(self, terminal: Terminal, display: Bytes, began: float) -> None:
        self.terminal = terminal
        self.display = display
        self.began = began
        """When it was started."""

    @property
    def size(self) -> int:
        """Bytes it has written."""
        return len(self.display.raw)

    def shows(self, text: bytes, start: int = 0) -> float:
        """Wait until `text` is written; when that was."""
        self.terminal.wait_for(lambda: text in self.display.raw[start:], repr(text))
        return self.display.moment(text, start)

    def send(self, keys: str) -> float:
        """Press keys; when that was."""
        self.terminal.send(keys)
        return time.perf_counter()

    @property
    def face(self) -> int:
        """The process that draws: the child of the terminal guard."""
        return children(self.terminal.pid)[0]


@contextmanager
def program(command: Sequence[str], environ: Mapping[str, str]) -> Generator[Program]:
    """Run a program. It and all that it started have ended afterwards."""
    display = Bytes()
    with Terminal(command, environ, *SIZE, display=display) as terminal:
        try:
            yield Program(terminal, display, terminal.began)
        finally:
            family = descendants(terminal.pid)
    until = time.monotonic() + PATIENCE_S
    while any(_lives(pid) for pid in family) and time.monotonic() < until:
        time.sleep(0.005)


def children(pid: int) -> list[int]:
    """Of all threads of a process; none where it has ended."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:  # it ended meanwhile
            continue
    return found


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
