"""Who may write to a session: an advisory lock that the kernel gives back when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from app import paths
from app.sessions.errors import ConflictError

LOCKS = "locks"
"""The folder of the locks, beside the store's file."""
_HANDLES: set[int] = set()
"""The descriptors of every lock of this process."""


def _let_go() -> None:
    for handle in _HANDLES:
        os.close(handle)
    _HANDLES.clear()


# A child that was forked and runs no other program would keep the locks of a parent that died.
os.register_at_fork(after_in_child=_let_go)


class SessionLocks:
    """The locks this process holds, one file per session in `folder`; None where nobody else can come."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def take(self, session_id: str) -> None:
        """Own a session. ConflictError names the process that has it."""
        if self._folder is None or session_id in self._held:
            return
        try:
            path = self._path(session_id)
            while (handle := self._locked(path)) is None:
                pass
        except OSError as err:
            from app.sessions.store.store_file import unusable  # It imports what a lock alone does not need.

            raise unusable(self._folder, err) from err
        with contextlib.suppress(OSError):  # the number only helps to find who has it
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        self._held[session_id] = handle
        _HANDLES.add(handle)

    @staticmethod
    def _locked(path: Path) -> int | None:
        """A descriptor of the lock; None where its holder removed the file. ConflictError, OSError."""
        # Not inheritable: a child that outlives us must not keep the lock.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BlockingIOError:
            pid = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            os.close(handle)
            raise ConflictError(
                f"This chat is open in another Fireside{f', pid {pid}' if pid.isdigit() else ''}; "
                f"use --fork to continue in a copy.",
                code="session_in_use",
            ) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        return None

    def try_take(self, session_id: str) -> bool:
        """Own a session if nobody else does."""
        try:
            self.take(session_id)
        except ConflictError:
            return False
        return True

    def holds(self, session_id: str) -> bool:
        return self._folder is None or session_id in self._held

    def release(self, session_id: str) -> None:
        """Give a session back; harmless if it was not ours."""
        handle = self._held.pop(session_id, None)
        if handle is not None:
            _HANDLES.discard(handle)
            os.close(handle)

    def release_all(self) -> None:
        for session_id in list(self._held):
            self.release(session_id)

    def forget(self, session_id: str) -> None:
        """Remove the file of a session that is gone for good; only its holder may."""
        if self._folder is not None and session_id in self._held:
            with contextlib.suppress(FileNotFoundError):
                self._path(session_id).unlink()
        self.release(session_id)

    def _path(self, session_id: str) -> Path:
        assert self._folder is not None
        return paths.make_private_dir(self._folder) / f"{session_id}.lock"
