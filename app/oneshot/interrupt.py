"""What ends a command from outside: Ctrl-C, SIGTERM, and the time limit.

While native code runs, a signal is only noted, because an exception raised inside one of its
callbacks would be lost; elsewhere it raises at once. A second signal of a kind ends the process.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from app.exits import ExitCode, Failure

_FAILURES = {
    signal.SIGINT: ("interrupted", "Interrupted.", ExitCode.INTERRUPTED),
    signal.SIGTERM: ("terminated", "Terminated.", ExitCode.TERMINATED),
    signal.SIGALRM: ("timeout", "The time limit (--timeout) was reached.", ExitCode.FAILED),
}


class Interrupted(BaseException):
    """Raised in the main thread when the command is to end; not an Exception, so nothing swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def failure(self) -> Failure:
        """The failure to report for this signal."""
        code, message, exit_code = _FAILURES[signal.Signals(self.number)]
        return Failure(code, message, exit_code=exit_code)


class Interruption:
    """Catches the signals while it is entered. For the main thread only."""

    def __init__(self, timeout_s: float | None = None) -> None:
        self.pending: int | None = None
        self._timeout_s = timeout_s
        self._noting = False
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int] = {}

    def __enter__(self) -> Interruption:
        for number in _FAILURES:
            # A shell starts background jobs with SIGINT ignored, and so it stays.
            if (before := signal.getsignal(number)) is not None and before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._arrived)
        if self._timeout_s:
            signal.setitimer(signal.ITIMER_REAL, self._timeout_s)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timeout_s:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def noted(self) -> Generator[None]:
        """Within, a signal is only noted in `pending`; it raises when the block ends."""
        self._noting = True
        try:
            yield
        finally:
            self._noting = False
            if self.pending is not None:
                raise Interrupted(self.pending)

    @contextmanager
    def released(self) -> Generator[None]:
        """Within, Ctrl-C is an ordinary KeyboardInterrupt, as often as it comes."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, self._arrived)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self.pending is None:
            self.pending = number
        signal.signal(number, signal.SIG_DFL)
        if not self._noting:
            raise Interrupted(number)
