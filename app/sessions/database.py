"""SQLite on two threads: one writes in order, the other reads; both stay off the event loop."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from app import paths
from app.sessions.errors import ServerError
from app.sessions.schema import MIGRATIONS

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
BUSY_S = 10.0


class Database:
    """A store's file, or memory only where `path` is None. Opening it brings its tables up to date.

    Every write is one transaction; it is on the disk when its future resolves (`durable`), or
    survives at least a crash of this process.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._writer = _Thread("fireside-store", path, read_only=False)
        self._reader = self._writer
        if path is not None:
            self._reader = _Thread("fireside-store-read", path, read_only=True)

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run `work` in a transaction of its own."""

        def transaction(connection: sqlite3.Connection) -> T:
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
            return result

        # A write that has begun is finished even if whoever waits for it is cancelled.
        return await asyncio.shield(asyncio.wrap_future(self._writer.submit(transaction)))

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

    async def close(self) -> None:
        """Finish what was asked for and close the file."""
        threads = {self._reader, self._writer}
        for thread in threads:
            thread.stop()
        for thread in threads:
            await asyncio.to_thread(thread.join)


class _Thread(threading.Thread):
    """One connection with the thread that owns it."""

    def __init__(self, name: str, path: Path | None, *, read_only: bool) -> None:
        super().__init__(name=name, daemon=True)
        self._path = path
        self._read_only = read_only
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Work[Any]] | None] = queue.SimpleQueue()
        self._stopped = False
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

    def stop(self) -> None:
        self._stopped = True
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
                failure = _failure(err, self._path)
                failure.__cause__ = err
                future.set_exception(failure)
            except BaseException as err:
                future.set_exception(err)
            else:
                future.set_result(result)
        connection.close()


def _connect(path: Path | None, *, read_only: bool) -> sqlite3.Connection:
    if path is None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
    elif read_only:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_S
        )
    else:
        paths.make_private_dir(path.parent)
        # SQLite gives its own files beside it the mode of this one.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
        connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
    try:
        connection.execute("PRAGMA temp_store=MEMORY")
        if not read_only:
            _migrate(connection, path)
    except sqlite3.DatabaseError as err:
        connection.close()
        raise _failure(err, path) from err
    except ServerError:
        connection.close()
        raise
    return connection


def _failure(err: sqlite3.Error, path: Path | None) -> ServerError:
    """What SQLite says, with the file it means and what to do about it."""
    store = f"The chat store {path}" if path else "The chat store in memory"
    match getattr(err, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            text = f"{store} is held by another program for more than {BUSY_S:g} s. Close it and try again."
            return ServerError(text, code="store_busy")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            text = f"{store} cannot be opened or is damaged: {err}. Move it away to start a new one"
            return ServerError(
                f"{text}; `fireside sessions import` reads exports back in.", code="store_unreadable"
            )
        case sqlite3.SQLITE_FULL:
            return ServerError(
                f"{store} cannot grow: the disk is full. Make room and try again.", code="store_error"
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return ServerError(
                f"{store} cannot be used: {err}. Look at its folder's rights and disk.", code="store_error"
            )
        case _:
            return ServerError(f"The chat store failed: {err}.", code="store_error")


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
