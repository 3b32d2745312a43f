"""`fireside serve`: the model and the chats of this person, served until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app import paths
from app.characters import quote
from app.exits import ExitCode, Failure, usage
from app.models.download import file_of
from app.oneshot.load_progress import LoadProgress
from app.server.models import Models
from app.server.serving import Listener, Options, address_of, allow_connections, make_service, open_sockets
from app.server.sessions.rights import Rights
from app.sessions.agents import DEFAULT_AGENT, Agent
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
    tools: tuple[str, ...] = ()
    """Names and patterns of the tools of this machine that chats of clients may use."""
    remote_approval: bool = False
    workspace_root: Path | None = None
    private: bool = False
    """Keep the chats of clients in memory only."""
    keep_alive_s: float | None = None
    """Free the model after so long without a request."""


def run(job: Job) -> ExitCode:
    """Serve until a signal comes; returns the exit code. Failure where the port cannot be had."""
    return asyncio.run(_run(job))


async def _run(job: Job) -> ExitCode:
    rights, tools = await asyncio.to_thread(_rights, job)
    options = replace(job.options, rights=rights)
    source = await asyncio.to_thread(file_of, job.settings)
    path = await asyncio.to_thread(find_model, source)
    allow_connections()
    sockets = _sockets(options)
    manager = _manager(job, path, tools)
    stopping = _Stopping()
    try:
        async with manager:
            with stopping.watching():
                card = await _load(manager, path, job, stopping)
                models = Models(card.model_id, path, others=True, context_length=card.max_seq)
                service = make_service(manager, models, options, card_slots(card))
                listener = Listener(service, options, sockets)
                stopping.end = listener.stop
                _tell(job, card, address_of(sockets, options.scheme))
                await listener.run_until_stopped()
    finally:
        for one in sockets:
            one.close()
    return ExitCode.ANSWERED


def _manager(job: Job, path: Path, tools: Sequence[Any]) -> SessionManager:
    """This person's chats, or new ones in memory; tools that only read are not asked about."""
    manager = SessionManager(
        model=str(path),
        engine=EngineHost(log=None if job.private else _log(), idle_s=job.keep_alive_s),
        store=Store(None) if job.private else None,
        tools=tools,
        approve="read",
        workspace=job.workspace_root,
    )
    if job.settings.system:
        manager.agents.register(Agent(DEFAULT_AGENT, job.settings.system))
    return manager


def card_slots(card: ChatCard) -> int:
    """Replies that the engine writes at once."""
    return max(1, card.max_active)


def _rights(job: Job) -> tuple[Rights, Sequence[Any]]:
    """What clients may do here, and the tools that they may use. A usage failure for tools that do more than
    read where nobody could approve it."""
    if not job.tools:
        return Rights(workspace_root=job.workspace_root), ()
    from app.frontend.tool_choice import choose

    tools, warnings = choose(job.tools, None, job.settings.get("hidden_tools", ()))
    for warning in warnings:
        notify(warning)
    if job.remote_approval:
        notify("Whoever uses this server may approve what its tools do.")
    elif doing := sorted(tool.name for tool in tools if tool.does - {"read", "nothing"}):
        raise usage(
            f"These tools do more than read, and nobody here could approve it: {', '.join(doing)}.",
            "Leave them out, or let clients approve what they do with --allow-remote-approval.",
        )
    names = frozenset(tool.name for tool in tools)
    return Rights(names, job.remote_approval, job.workspace_root), tools


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
