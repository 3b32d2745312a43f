"""The terminal guard: the process that the shell knows, with the full-screen face as its child.

Forked before anything heavy is imported, it holds no lock, pipe or store. It waits for the face,
passes signals on that were sent to it alone, stops and continues with the face, and puts the
terminal back when the face could not do so itself.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from app.terminal.output import is_terminal, notify, title_sequence

GRACE_S = 10
"""How long a face that was asked to end may take, before it is killed."""

_PASSED_ON = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1})
_WATCHED = _PASSED_ON | {signal.SIGCHLD, signal.SIGTSTP, signal.SIGALRM}
_ASKED_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SENT_BY_KERNEL = 0x80
"""`si_code` of a signal that nobody sent (Linux)."""

_FROM_KEYS = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""What the kernel sends to the whole process group. The hangup it sends to the session's leader alone."""

_CONTINUE_WAIT_S = 0.1
_REPEATS_S = 2.0
"""Within this time signals that end count once: what is sent to a process group reaches the face
twice, directly and through the guard."""

RESTORE = "".join(
    (
        "\x18\x1b\\",  # end a sequence that was cut in the middle
        "\x1b[?2026l",  # show what is drawn
        "\x1b]8;;\x1b\\",  # no link
        "\x1b[<u",  # the kitty keyboard's flags of the alternate screen, before it is left
        "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l",  # mouse
        "\x1b[?1004l\x1b[?2004l\x1b[?2048l",  # focus, bracketed paste, size reports
        "\x1b[?1049l",  # the alternate screen
        "\x1b[?7h\x1b[?25h\x1b[0m",  # wrapping, cursor, colours
    )
)
"""What brings a terminal back from any state that a full-screen face may have left it in."""

_KEEP_TITLE = "\x1b[22;2t"
_GIVE_TITLE_BACK = "\x1b[23;2t"


def run_guarded(face: Callable[[], int]) -> int:
    """Run `face` in a child, with the guard as its parent; without a terminal, run it right here.

    Returns in both processes: in the child what `face` returned, in the guard the exit code for the
    shell, 128 + n where signal n ended the face. Call it while there is one thread.
    """
    output = next((stream for stream in (sys.stderr, sys.stdout) if is_terminal(stream)), None)
    if output is None or not is_terminal(sys.stdin):
        return face()
    try:
        screen = _Screen(sys.stdin.fileno(), output.fileno())
    except (termios.error, ValueError):
        return face()
    sys.stdout.flush()
    sys.stderr.flush()

    passed_on = {number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN}
    watched = passed_on | (_WATCHED - _PASSED_ON)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    screen.keep_title()
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return face()
    return _Guard(pid, screen, passed_on, watched).watch()


def on_ending_signal(end: Callable[[int], None]) -> None:
    """In the face: have `end(signal number)` called once when TERM, HUP or INT asks it to end.

    `end` runs in a signal handler, so with an event loop it is to use `call_soon_threadsafe`. The
    face then saves what there is, leaves the screen and exits with 128 + the number. A signal that
    comes two seconds later or more ends the process at once. Call it from the main thread.
    """
    asked_at: list[float] = []

    def asked(number: int, _frame: object) -> None:
        now = time.monotonic()
        if not asked_at:
            asked_at.append(now)
            end(number)
        elif now - asked_at[0] > _REPEATS_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in _ASKED_TO_END:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, asked)


@contextmanager
def interrupts_left_to_programs() -> Generator[None]:
    """While a program such as an editor has the terminal: Ctrl-C and Ctrl-\\ are its own, and end no face."""
    # Not SIG_IGN, which the program would inherit.
    before = {number: signal.signal(number, _no_op) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _no_op(_number: int, _frame: object) -> None:
    pass


class _Screen:
    """The terminal as it was found: OSError and termios.error mean that it is gone."""

    def __init__(self, keys: int, output: int) -> None:
        self._keys = keys
        self._output = output
        self._modes: list[Any] = termios.tcgetattr(keys)
        self._has_title = bool(title_sequence(""))

    def keep_title(self) -> None:
        if self._has_title:
            self._write(_KEEP_TITLE)

    def give_title_back(self) -> None:
        if self._has_title:
            self._write(_GIVE_TITLE_BACK)

    @property
    def is_ours(self) -> bool:
        """Whether this process group may draw on it."""
        try:
            return os.tcgetpgrp(self._keys) == os.getpgrp()
        except OSError:
            return False

    @property
    def is_left_raw(self) -> bool:
        """Whether keys are read otherwise than at the beginning: the face did not clean up."""
        try:
            return termios.tcgetattr(self._keys) != self._modes
        except termios.error:
            return False

    def restore(self) -> None:
        self._write(RESTORE)
        try:
            # Reports of the mouse that are still under way would be typed into the shell.
            termios.tcsetattr(self._keys, termios.TCSAFLUSH, self._modes)
        except termios.error:
            return

    def _write(self, text: str) -> None:
        data = text.encode("ascii")
        try:
            while data:
                data = data[os.write(self._output, data) :]
        except OSError:
            return


class _Guard:
    """Waits for one child. Every watched signal is blocked, so that none interrupts another's work."""

    def __init__(
        self, pid: int, screen: _Screen, passed_on: set[signal.Signals], watched: set[signal.Signals]
    ) -> None:
        self._pid = pid
        self._screen = screen
        self._passed_on = passed_on
        self._watched = watched
        self._end: int | None = None
        # A blocked signal whose action is to be ignored may be lost instead of waiting.
        signal.signal(signal.SIGCHLD, _no_op)
        # Giving the terminal back from the background must not stop the guard.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)

    def watch(self) -> int:
        """Until the face has ended; returns the exit code."""
        while True:
            number, by_key = self._next_signal()
            match number:
                case signal.SIGCHLD:
                    code = self._look()
                    if code is not None:
                        return code
                case signal.SIGALRM:
                    self._send(signal.SIGKILL)
                case signal.SIGTSTP if not by_key:
                    self._send(signal.SIGTSTP)
                case _ if number in self._passed_on:
                    if not by_key:
                        self._send(number)
                        self._expect_end(number)
                case _:
                    pass

    def _next_signal(self) -> tuple[int, bool]:
        """The next signal, and whether a key sent it to the whole group."""
        if sys.platform == "linux":
            info = signal.sigwaitinfo(self._watched)
            by_key = info.si_code == _SENT_BY_KERNEL and info.si_signo in _FROM_KEYS
            return info.si_signo, by_key
        return signal.sigwait(self._watched), False

    def _expect_end(self, number: int) -> None:
        if number in _ASKED_TO_END:
            signal.alarm(GRACE_S)

    def _send(self, number: int) -> None:
        try:
            os.kill(self._pid, number)
        except ProcessLookupError:
            return

    def _look(self) -> int | None:
        """The exit code if the face has ended; stops with it if it has stopped."""
        while True:
            if self._end is not None:
                return self._ended(self._end)
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                return None
            if os.WIFSTOPPED(status):
                self._stop()
            elif not os.WIFCONTINUED(status):
                return self._ended(status)

    def _stop(self) -> None:
        """Give the shell its terminal, and go on when the person does."""
        if self._screen.is_ours and self._screen.is_left_raw:
            self._screen.restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        # `fg` continues the whole group. A second SIGCONT would make Textual start the screen twice.
        until = time.monotonic() + _CONTINUE_WAIT_S
        while time.monotonic() < until:
            if self._has_gone_on():
                return
            time.sleep(0.005)
        self._send(signal.SIGCONT)

    def _has_gone_on(self) -> bool:
        """Whether the face is no longer stopped."""
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if pid == 0 or os.WIFSTOPPED(status):
            return False
        if not os.WIFCONTINUED(status):
            self._end = status
        return True

    def _ended(self, status: int) -> int:
        signal.alarm(0)
        killed = os.WIFSIGNALED(status)
        if self._screen.is_ours:
            if killed or self._screen.is_left_raw:
                self._screen.restore()
            self._screen.give_title_back()
        if not killed:
            return os.WEXITSTATUS(status)
        number = os.WTERMSIG(status)
        if number not in _ASKED_TO_END:
            what = signal.strsignal(number) or f"signal {number}"
            notify(f"the screen ended: {what}. Your chats are saved; `fireside -c` continues the last one.")
        return 128 + number
