"""The file of the store and what lies beside it: made ready, watched, and kept aside where it is damaged.

No process that has it open may open it beside SQLite: closing any descriptor of a file gives up all
POSIX locks that the process holds on it, SQLite's among them, and then another program deletes the
write-ahead log that is being written. So everything here goes by path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from app import paths
from app.open_stores import SIDES
from app.sessions.errors import ServerError

DAMAGED = "store_unreadable"
"""The code of the error for a store that cannot be read any more."""
BUSY_S = 10.0
_PROBE_BYTES = 64 << 10


class DamagedStoreError(ServerError):
    """What a store holds cannot be read. `keep_aside` makes room for a new one."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"The chat store {path} cannot be opened or is damaged: {reason.rstrip('.')}. Move it away to "
            f"start a new one; `fireside sessions import` reads exports back in.",
            code=DAMAGED,
        )
        self.path = path
        self.mark = Mark.of(path)
        self.remedy = "At a terminal Fireside offers to move it; --private works without it."


@dataclass(frozen=True)
class Mark:
    """Which files a store consists of: device and inode of itself, and of its write-ahead log."""

    store: tuple[int, int] | None
    log: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> Mark:
        """The files that are at `path` now; None for one that is not there."""
        return cls(_identity(path), _identity(Path(f"{path}-wal")))

    def check(self, path: Path) -> None:
        """ServerError where another file, or none, is now where this one was opened."""
        now = Mark.of(path)
        if now.store != self.store:
            what = "was moved or deleted" if now.store is None else "was replaced by another file"
        elif self.log is not None and now.log != self.log:
            what = "has lost its write-ahead log to another program"
        else:
            return
        raise ServerError(
            f"The chat store {path} {what} while Fireside had it open, "
            "so nothing more can be saved in it. Save what you see with /export, "
            "then quit Fireside and start it again.",
            code="store_moved",
        )


def make_ready(path: Path) -> Path:
    """The real path of the store, there and of its owner only. ServerError where that cannot be."""
    try:
        paths.make_private_dir(path.parent)
        real = Path(os.path.realpath(path))
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Where this is not allowed SQLite makes the file; its folder is closed to others anyway.
        with contextlib.suppress(FileExistsError, PermissionError, NotImplementedError):
            os.mknod(real, 0o600 | stat.S_IFREG)
        _check(real)
    except OSError as err:
        raise unusable(path, err) from err
    return real


def close_to_others(path: Path) -> None:
    """Make the store 0600; SQLite gives the files beside it the same mode. ServerError as above."""
    try:
        if stat.S_IMODE(path.stat().st_mode) != 0o600:
            path.chmod(0o600)
    except OSError as err:
        raise unusable(path, err) from err


def failure(err: sqlite3.Error, path: Path | None) -> ServerError:
    """What SQLite says, with the file it means and what to do about it."""
    if path is None:
        return ServerError(f"The chat store in memory failed: {err}.", code="store_error")
    store = f"The chat store {path}"
    if _tells_of_damage(err):
        return DamagedStoreError(path, str(err).partition(" with text ")[0])  # which may be long, and private
    match getattr(err, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            text = (
                f"{store} has been locked by another program for over {BUSY_S:g} s. Close it and try again."
            )
            return ServerError(text, code="store_busy")
        case sqlite3.SQLITE_FULL:
            return ServerError(_full(path), code="store_full")
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            if (why := _why_not_written(path.parent)) is not None:
                return unusable(path, why)
            return ServerError(
                f"{store} cannot be used: {err}. Check its folder's permissions and disk.", code="store_error"
            )
        case _:
            return ServerError(f"The chat store failed: {err}.", code="store_error")


def keep_aside(path: Path, mark: Mark) -> Path:
    """Give a damaged store and the files beside it another name; returns that of the store.

    Nothing is moved where `mark` is not that of the file any more: somebody else made room already.
    Raises ServerError.
    """
    if _identity(path) != mark.store:
        return path
    now = f"{datetime.now():%Y-%m-%d-%H%M%S}"
    aside = path.with_name(f"{path.stem}.damaged-{now}{path.suffix}")
    try:
        # The store goes last: a new one must not meet the log of the old.
        for side in SIDES:
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{path}{side}", f"{aside}{side}")
        os.rename(path, aside)
    except OSError as err:
        raise unusable(path, err) from err
    return aside


def _tells_of_damage(err: sqlite3.Error) -> bool:
    if getattr(err, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return True
    # Python's own error for text that is none has no code.
    return "Could not decode to UTF-8" in str(err) or "malformed JSON" in str(err)


def _check(path: Path) -> None:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise ServerError(f"The chat store {path} is not a file. Move it away.", code="store_error")
    if found.st_uid != os.getuid():
        raise ServerError(
            f"The chat store {path} belongs to user {found.st_uid}, not to you; Fireside does not use it.",
            code="store_error",
        )
    if found.st_nlink > 1:
        # Each name has a log of its own, and writing by both destroys what the file holds.
        raise ServerError(
            f"The chat store {path} has {found.st_nlink} names (hard links), which would damage it when "
            f"both are used. Make this one a file of its own: copy it, and move the copy to its place.",
            code="store_error",
        )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _why_not_written(folder: Path) -> OSError | None:
    """The system's own reason, where nothing can be written in `folder`: SQLite often tells none."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as err:
        return err
    return None


def unusable(path: Path, err: OSError) -> ServerError:
    """The error for a store whose file, or what lies beside it, the system refuses to give."""
    if err.errno in (errno.ENOSPC, errno.EDQUOT):
        return ServerError(_full(path), code="store_full")
    reason = err.strerror or str(err)
    return ServerError(
        f"The chat store {path} cannot be used: {reason}. Check its folder's permissions, or choose another "
        f"folder with FIRESIDE_DATA. Until then, --private works; it saves nothing.",
        code="store_error",
    )


def _full(path: Path) -> str:
    return f"The chat store {path} cannot grow: the disk is full. Make room and try again."
