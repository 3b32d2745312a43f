"""A file that only its owner reads and writes, replaced in one step, shared by several processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path

_MOST_BYTES = 32 << 20


class PrivateFileError(Exception):
    """The file cannot be trusted, read or kept; the text says why and what to do."""


class PrivateFile:
    """The file at `path`, 0600 in a 0700 folder. A file that others can touch is refused."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """Its content, None when there is no such file. Raises PrivateFileError."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise PrivateFileError(f"{self._path} cannot be read: {err.strerror}.") from err
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise PrivateFileError(
                    f"{self._path} can be changed or read by others, so it is not used: "
                    "check what is in it, then `chmod 600` it."
                )
            return file.read(_MOST_BYTES)

    @contextlib.contextmanager
    def locked(self) -> Generator[None]:
        """Keep other processes from changing it meanwhile. Raises PrivateFileError."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._path.with_suffix(".lock"), flags, 0o600)
        except OSError as err:
            raise PrivateFileError(f"{self._path} cannot be saved: {err.strerror}.") from err
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def write(self, text: str) -> None:
        """Replace its content; a crash leaves the old or the new. Raises PrivateFileError."""
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(handle)
            draft.replace(self._path)
        except OSError as err:
            draft.unlink(missing_ok=True)
            raise PrivateFileError(f"{self._path} cannot be saved: {err.strerror}.") from err
