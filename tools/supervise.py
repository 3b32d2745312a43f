"""Runs one command and leaves none of its processes behind; started as a script by `tools.process`.

Standard input is its lifeline: when that ends, by request or because the parent died, everything ends.
Imports the standard library only, since it starts with every command.
"""

import contextlib
import os
import select
import signal
import sys
import time

_GRACE_S = 0.3
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: list[str]) -> int:
    """`arguments`: bytes of data each process may have, then the command. The command's exit code,
    128 + n for a signal, 127 when it cannot be started."""
    memory_bytes, command = int(arguments[0]), arguments[1:]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _noticed)
    child = _start(command, memory_bytes)
    code = _wait(child, wake)
    if code is None:
        _signal_all(child, signal.SIGTERM)
        _reap_until(time.monotonic() + _GRACE_S)
    _end_all(child)
    return 128 + signal.SIGKILL if code is None else code


def _noticed(_number: int, _frame: object) -> None:
    """The wakeup descriptor says the rest."""


def _start(command: list[str], memory_bytes: int) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setpgid(0, 0)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        # Python ignores these two, and a program would inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _limit(memory_bytes)
        os.execvp(command[0], command)
    except BaseException as err:
        reason = err.strerror if isinstance(err, OSError) else str(err)
        os.write(2, f"{command[0]} cannot be started: {reason}\n".encode("utf-8", "replace"))
    os._exit(127)


def _limit(memory_bytes: int) -> None:
    import resource

    # Data, not address space, on Linux: runtimes reserve far more addresses than they use.
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    for limit, most in ((kind, memory_bytes), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


def _wait(child: int, wake: int) -> "int | None":
    """The child's exit code, or None when the lifeline ended or a signal asked to stop first."""
    while True:
        ready, _, _ = select.select([0, wake], [], [])
        if wake in ready:
            numbers = os.read(wake, 4096)
            code = _reap(child)
            if code is not None:
                return code
            if set(numbers) - {int(signal.SIGCHLD)}:
                return None
        if 0 in ready and not os.read(0, 4096):
            return None


def _reap(child: int) -> "int | None":
    """Collect what has ended, adopted orphans included; the child's exit code if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


def _reap_until(deadline: float) -> None:
    while time.monotonic() < deadline:
        _reap(0)
        if not _has_children():
            return
        time.sleep(0.01)


def _end_all(child: int) -> None:
    """Kill every descendant, again and again while new ones appear."""
    while True:
        _signal_all(child, signal.SIGSTOP)
        _signal_all(child, signal.SIGKILL)
        _reap(0)
        if not _has_children():
            return
        time.sleep(0.005)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _signal_all(child: int, number: int) -> None:
    if sys.platform != "linux":  # There an orphan is adopted, here it is found by its group only.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, number)
    for pid in _descendants():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _descendants() -> list[int]:
    """Everything below this process; nothing where there is no /proc."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in filter(str.isdigit, names):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
