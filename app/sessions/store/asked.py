"""Questions beside the store: a one-shot writes its own there in less time than the store takes to import.

Each lies in a file of its own, with its chat's lock held by whoever asks. The next opening of the store,
by anybody, takes them in, as chats that run; one whose process died is then found like any that was cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from app import paths
from app.open_stores import STORE_FILE
from app.sessions.errors import FiresideError
from app.sessions.records import ASKED_ONCE, new_id, now
from app.sessions.store.locks import LOCKS, SessionLocks

if TYPE_CHECKING:
    import sqlite3

    from app.sessions.items import Message
    from app.sessions.store.rows import SessionRecord

FOLDER = "asked"
"""Beside the store's file."""


class Asked(NamedTuple):
    """A question, with the names that it and its chat will have in the store."""

    session_id: str
    item_id: str
    at: int
    """Unix time, in seconds."""
    text: str
    system: str | None

    @classmethod
    def now(cls, text: str, system: str | None) -> Asked:
        """`text`, asked now."""
        return cls(new_id("sess"), new_id("msg"), now(), text, system)

    def message(self) -> Message:
        """The question as an item. InvalidInputError."""
        from app.sessions.items import user_message

        return user_message(self.text, id=self.item_id, created_at=self.at)

    def record(self) -> SessionRecord:
        """The row of its chat."""
        from app.sessions.agents import DEFAULT_AGENT
        from app.sessions.items import title_of
        from app.sessions.store.rows import SessionRecord

        return SessionRecord(
            id=self.session_id,
            agent={"name": DEFAULT_AGENT},
            title=title_of(self.message()) or None,
            settings={"system": self.system} if self.system else {},
            labels=dict(ASKED_ONCE),
            created_at=self.at,
            updated_at=self.at,
        )


class AskedFile:
    """The file of a question that is being answered, and the lock of its chat."""

    def __init__(self, asked: Asked) -> None:
        """`asked` in the store of this person. OSError where that is no place for it."""
        store = paths.data_dir() / STORE_FILE
        paths.make_private_dir(store.parent)
        data = _beside(paths.require_own(store))
        self._store = store
        self._path = data / FOLDER / f"{asked.session_id}.json"
        self._asked = asked
        self.locks = SessionLocks(data / LOCKS)

    def write(self) -> None:
        """Own the chat, and write the question, which then outlives this process. OSError, FiresideError."""
        self.locks.take(self._asked.session_id)
        try:
            paths.make_private_dir(self._path.parent)
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(self._asked._asdict(), file)
            # An empty store is one, and whoever looks for the chats looks for that file first.
            with contextlib.suppress(FileExistsError, PermissionError, NotImplementedError):
                os.mknod(os.path.realpath(self._store), 0o600 | stat.S_IFREG)
        except BaseException:
            self.remove()
            self.locks.forget(self._asked.session_id)
            raise

    def settle(self) -> None:
        """Return when it would outlive a loss of power, too; which a disk may take long for."""
        with contextlib.suppress(OSError):
            handle = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self) -> bool:
        """Remove it; whether it was there still: nobody has taken it into the store."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def is_waiting(store: Path) -> bool:
    """Whether a question lies beside the file `store`."""
    return bool(_files(_beside(store)))


def take_in(connection: sqlite3.Connection, store: Path) -> list[Path]:
    """Write what lies beside the file `store` into it, in a transaction that has begun.

    Returns the files that can go once it is committed.
    """
    from app.sessions.store.rows import add_items, add_session, next_change

    data = _beside(store)
    done: list[Path] = []
    found: list[tuple[Asked, Path]] = []
    for file in _files(data):
        asked = _read(file)
        if asked is not None:
            found.append((asked, file))
        elif _is_left(data, file):
            done.append(file)
    for asked, file in sorted(found, key=lambda each: each[0].at):
        done.append(file)
        known = connection.execute("SELECT 1 FROM sessions WHERE id = ?", (asked.session_id,)).fetchone()
        if known is None:
            record = replace(asked.record(), status="running", leaf_id=asked.item_id)
            add_session(connection, record, next_change(connection), uses=False)
            add_items(connection, asked.session_id, [asked.message()], None)
    return done


def _beside(store: Path) -> Path:
    """The folder of the store, whatever its file is called by."""
    return Path(os.path.realpath(store)).parent


def _files(data: Path) -> Sequence[Path]:
    try:
        with os.scandir(data / FOLDER) as entries:
            return [
                Path(entry)
                for entry in entries
                if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return ()


def _read(file: Path) -> Asked | None:
    """The question in `file`; None where it is being written, or somebody wrote something else there."""
    try:
        asked: Any = Asked(**json.loads(file.read_bytes()))
        asked.message()
    except (OSError, ValueError, TypeError, FiresideError):
        return None
    right = (str, str, int, str, str | None)
    is_right = asked.session_id == file.stem and all(map(isinstance, asked, right))
    return asked if is_right else None


def _is_left(data: Path, file: Path) -> bool:
    """Whether nobody writes `file` any more."""
    locks = SessionLocks(data / LOCKS)
    try:
        is_left = locks.try_take(file.stem)
    except OSError:
        return False
    locks.forget(file.stem)
    return is_left
