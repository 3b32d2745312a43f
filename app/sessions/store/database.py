"""SQLite on two threads: one writes in order, the other reads; both stay off the event loop."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from app.open_stores import hold, let_go
from app.sessions.errors import ServerError
from app.sessions.store.schema import MIGRATIONS
from app.sessions.store.store_file import (
    BUSY_S,
    DamagedStoreError,
    Mark,
    close_to_others,
    failure,
    make_ready,
)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
MOST_CHECKED_BYTES = 256 << 20
"""A store of this size is looked through in about a fifth of a second."""


class Database:
    """A store's file, or memory only where `path` is None. Opening it brings its tables up to date.

    Every write is one transaction; it is on the disk when its future resolves (`durable`), or
    survives at least a crash of this process.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path = None if path is None else make_ready(path)
        """The real path: SQLite's log, and our locks, lie beside it whatever it was called by."""
        self._writer = _Thread("fireside-store", path, read_only=False)
        self._reader = self._writer
        self._mark: Mark | None = None
        self._is_lost = False
        if path is None:
            return
        try:
            self._reader = _Thread("fireside-store-read", path, read_only=True)
        except BaseException:
            self._writer.stop()
            raise
        self._mark = Mark.of(path)
        hold(path)

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run `work` in a transaction of its own."""
        # A write that has begun is finished even if whoever waits for it is cancelled.
        return await asyncio.shield(asyncio.wrap_future(self._submit(work, durable=durable)))

    def write_at_once(self, work: Work[T]) -> T:
        """As `write`, for whoever opens the store; nobody else should wait for a disk."""
        return self._submit(work, durable=True).result()

    def _submit(self, work: Work[T], *, durable: bool) -> Future[T]:
        def transaction(connection: sqlite3.Connection) -> T:
            self._check_place()
            # A pragma inside a transaction would be ignored.
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._check_place()
            return result

        return self._writer.submit(transaction)

    async def read(self, work: Work[T]) -> T:
        """Run `work`, which only reads; it sees every write that was awaited before."""
        return await asyncio.wrap_future(self._reader.submit(work))

    async def settled(self) -> None:
        """Return when every write that was asked for so far is over."""
        await asyncio.wrap_future(self._writer.submit(lambda _: None))

    async def version(self) -> int:
        """A number that changes when another process or connection has written."""
        return await self.read(
            lambda connection: int(connection.execute("PRAGMA data_version").fetchone()[0])
        )

    async def check(self) -> None:
        """ServerError where the file is damaged; a large one is not looked through."""
        if self.path is None or self.path.stat().st_size > MOST_CHECKED_BYTES:
            return
        [told] = await self.read(lambda connection: connection.execute("PRAGMA quick_check(1)").fetchone())
        if told != "ok":
            raise DamagedStoreError(self.path, str(told).splitlines()[-1])

    async def close(self) -> None:
        """Finish what was asked for and close the file."""
        # The reader first: the last one to close moves the log into the file, which takes one who writes.
        for thread in dict.fromkeys((self._reader, self._writer)):
            thread.stop(closes=not self._is_lost)
            if not self._is_lost:
                await asyncio.to_thread(thread.join)
        if self._mark is not None:
            self._mark = None
            if self.path is not None and not self._is_lost:
                let_go(self.path)

    def _check_place(self) -> None:
        if self._mark is None or self.path is None:
            return
        try:
            self._mark.check(self.path)
        except ServerError:
            self._is_lost = True
            raise


class _Thread(threading.Thread):
    """One connection with the thread that owns it."""

    def __init__(self, name: str, path: Path | None, *, read_only: bool) -> None:
        super().__init__(name=name, daemon=True)
        self._path = path
        self._read_only = read_only
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Work[Any]] | None] = queue.SimpleQueue()
        self._stopped = False
        self._closes = True
        opened: Future[None] = Future()
        self._opened = opened
        self.start()
        opened.result()

    def submit(self, work: Work[T]) -> Future[T]:
        if self._stopped:
            raise ServerError("The chat store is closed.", code="store_closed")
        future: Future[T] = Future()
        self._jobs.put((future, work))
        return future

    def stop(self, *, closes: bool = True) -> None:
        """End after what was asked for. One that is not closed leaves the file alone."""
        self._stopped = True
        self._closes = closes
        self._jobs.put(None)

    def run(self) -> None:
        try:
            connection = _connect(self._path, read_only=self._read_only)
        except BaseException as err:
            self._opened.set_exception(err)
            return
        self._opened.set_result(None)
        while (job := self._jobs.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work(connection)
            except sqlite3.Error as err:
                told = failure(err, self._path)
                told.__cause__ = err
                future.set_exception(told)
            except BaseException as err:
                future.set_exception(err)
            else:
                future.set_result(result)
        if not self._closes:
            threading.Event().wait()  # to let go of the connection would close it
        connection.close()


def _connect(path: Path | None, *, read_only: bool) -> sqlite3.Connection:
    if path is None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
    elif read_only:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_S
        )
    else:
        connection = _writing(path)
    try:
        connection.execute("PRAGMA temp_store=MEMORY")
        if read_only:
            _version(connection)  # it opens the log now, by a name that may mean another file later
        else:
            _migrate(connection, path)
    except sqlite3.Error as err:
        connection.close()
        raise failure(err, path) from err
    except ServerError:
        connection.close()
        raise
    return connection


def _writing(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
    except sqlite3.Error as err:
        raise failure(err, path) from err
    close_to_others(path)
    return connection


def _migrate(connection: sqlite3.Connection, path: Path | None) -> None:
    if path is not None:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA secure_delete=ON")
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    # Another process may have been first.
    version = _version(connection)
    if version > len(MIGRATIONS):
        connection.execute("ROLLBACK")
        raise ServerError(
            f"The chat store {path} was written by a newer Fireside. Update this one to open it.",
            code="store_newer",
        )
    for migration in MIGRATIONS[version:]:
        for statement in _statements(migration):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> list[str]:
    return [statement for statement in script.split(";") if statement.strip()]
