"""`fireside serve`: the model and the chats of this person, served until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app import paths
from app.characters import quote
from app.exits import ExitCode, Failure
from app.models.download import file_of
from app.oneshot.load_progress import LoadProgress
from app.server.models import Models
from app.server.serving import Listener, Options, address_of, make_service, open_sockets
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.settings.config import Settings
from app.terminal.output import notify
from backend.engines.host import EngineHost
from backend.loading import find_model
from backend.types import ChatCard, EngineError

SLOTS = 8
"""Replies that are written at the same time, where nobody says another number."""


@dataclass(frozen=True)
class Job:
    """What the command line asked for."""

    settings: Settings
    options: Options
    private: bool = False
    """Keep the chats of clients in memory only."""
    keep_alive_s: float | None = None
    """Free the model after so long without a request."""


def run(job: Job) -> ExitCode:
    """Serve until a signal comes; returns the exit code. Failure where the port cannot be had."""
    return asyncio.run(_run(job))


async def _run(job: Job) -> ExitCode:
    source = await asyncio.to_thread(file_of, job.settings)
    path = await asyncio.to_thread(find_model, source)
    sockets = _sockets(job.options)
    engine = EngineHost(log=None if job.private else _log(), idle_s=job.keep_alive_s)
    manager = SessionManager(
        model=str(path), engine=engine, store=Store(None) if job.private else None, tools=()
    )
    stopping = _Stopping()
    try:
        async with manager:
            with stopping.watching():
                card = await _load(manager, path, job, stopping)
                service = make_service(
                    manager, Models(card.model_id, path, others=True), job.options, card_slots(card)
                )
                listener = Listener(service, job.options, sockets)
                stopping.end = listener.stop
                _tell(job, card, address_of(sockets, job.options.scheme))
                await listener.run_until_stopped()
    finally:
        for one in sockets:
            one.close()
    return ExitCode.ANSWERED


def card_slots(card: ChatCard) -> int:
    """Replies that the engine writes at once."""
    return max(1, card.max_active)


def _sockets(options: Options) -> Sequence[Any]:
    try:
        return open_sockets(options.host, options.port)
    except OSError as err:
        raise Failure(
            "address",
            f"{quote(options.host)} port {options.port} cannot be used: {err.strerror or err}.",
            remedy="Choose another one with --port; 0 takes one that is free.",
            exit_code=ExitCode.FAILED,
        ) from err


def _log() -> Path | None:
    try:
        return paths.make_private_dir(paths.state_dir()) / "engine.log"
    except OSError:
        return None


async def _load(manager: SessionManager, path: Path, job: Job, stopping: _Stopping) -> ChatCard:
    options: dict[str, Any] = {"slots": SLOTS, **job.settings.load_options()}
    options.pop("assistant_model", None)
    with LoadProgress(lambda: not stopping.asked) as progress:

        def show(fraction: float) -> None:
            progress(fraction)

        loading = asyncio.ensure_future(manager.load_model(str(path), progress=show, **options))
        stopping.end = loading.cancel
        try:
            return await loading
        except asyncio.CancelledError as err:
            raise EngineError("It was stopped before its model was ready.") from err


def _tell(job: Job, card: ChatCard, url: str) -> None:
    notify(f"{card.model_id} is served at {url}/v1, {card_slots(card)} replies at once. Ctrl-C ends it.")
    if job.options.access.api_key is not None:
        notify("Clients need the key.")


def log_request(method: str, path: str, status: int, seconds: float) -> None:
    """One line of the log of requests; nothing in it can look like another line."""
    now = time.strftime("%H:%M:%S")
    print(f"{now} {method} {quote(path)} {status} {seconds:.2f} s", file=sys.stderr, flush=True)


class _Stopping:
    """What a signal does: the first ends in good order, a second at once."""

    def __init__(self) -> None:
        self.asked = False
        self.end: Any = lambda: None

    def watching(self) -> Any:
        """Within, signals come here."""
        return _Watch(self)

    def arrived(self) -> None:
        self.asked = True
        self.end()


class _Watch:
    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, stopping: _Stopping) -> None:
        self._stopping = stopping

    def __enter__(self) -> None:
        for number in self._SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._stopping.arrived)

    def __exit__(self, *_: object) -> None:
        for number in self._SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)
