"""Which Fireside processes have a model loaded: one small file for each, with a lock that ends with it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app import paths

_MOST_BYTES = 4096
_DEEPEST = 4
_face = "library"


@dataclass(frozen=True, slots=True)
class RunningModel:
    """A process with its model. `since` is in Unix seconds; `face` is what runs, such as `repl`."""

    pid: int
    model: str
    face: str
    since: int

    @property
    def resident_bytes(self) -> int | None:
        """Memory the process and its children hold, with what they share; None where that is not told."""
        return _resident_bytes(self.pid)


class Presence:
    """This process in the list of those with a model. Where nothing can be written it is not listed."""

    def __init__(self) -> None:
        self._handle: int | None = None
        self._path: Path | None = None

    def show(self, model: str) -> None:
        """List this process with `model`, in place of another one."""
        self.clear()
        entry = RunningModel(os.getpid(), model, _face, int(time.time()))
        with contextlib.suppress(OSError):
            name = f"{entry.pid}-{time.monotonic_ns():x}.json"
            self._path = paths.make_private_dir(_folder()) / name
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            os.write(self._handle, json.dumps(asdict(entry)).encode())

    def clear(self) -> None:
        """List it no longer."""
        if self._path is not None and self._handle is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            os.close(self._handle)
        self._path = self._handle = None


@contextmanager
def holding(model: str) -> Generator[None]:
    """Within, `running_models` lists this process."""
    presence = Presence()
    presence.show(model)
    try:
        yield
    finally:
        presence.clear()


def name_face(face: str) -> None:
    """Say what this process is, for the list: `tui`, `repl`, `one-shot`."""
    global _face
    _face = face


def running_models() -> list[RunningModel]:
    """Every process with a loaded model, the oldest first. What a crash left behind is removed."""
    found: list[RunningModel] = []
    with contextlib.suppress(OSError):
        for path in sorted(paths.require_own(_folder()).glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
                if (entry := _read(path)) is not None:
                    found.append(entry)
    return sorted(found, key=lambda one: (one.since, one.pid))


def stop(one: RunningModel, patience_s: float = 10.0) -> bool:
    """Ask a process to end in good order, and wait; whether it ended. OSError where that is not allowed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(one.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while one in running_models():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _read(path: Path) -> RunningModel | None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            fields: dict[str, Any] = json.loads(os.pread(handle, _MOST_BYTES, 0))
            return RunningModel(
                int(fields["pid"]), str(fields["model"]), str(fields["face"]), int(fields["since"])
            )
        path.unlink()
        return None
    finally:
        os.close(handle)


def _folder() -> Path:
    return paths.state_dir() / "running"


def _resident_bytes(pid: int, depth: int = 0) -> int | None:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        # A child is listed with the thread that began it.
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except (OSError, ValueError, IndexError):
        return None
    children = " ".join(lists).split() if depth < _DEEPEST else []
    below = [_resident_bytes(int(child), depth + 1) for child in children]
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(filter(None, below))
