"""A server that runs: its sockets, uvicorn around the application, and its end in good order."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from app.server.admission import Admission
from app.server.metrics import Metrics
from app.server.models import Models
from app.server.protocol import PatientProtocol
from app.server.security import Access, is_loopback
from app.server.service import Service
from app.server.sessions.rights import Rights
from app.server.web import Listen, make_app
from app.sessions.manager import SessionManager
from backend.types import GenerationConfig

MAX_QUEUED = 256
GRACE_S = 30.0
"""How long replies that are being written have at the end."""
_LEAST_KEY = 16
_BACKLOG = 1024
_MOST_DESCRIPTORS = 1 << 14
_OWN_DESCRIPTORS = 128
"""For the store, the engine and the log."""


def _silent(method: str, path: str, status: int, seconds: float) -> None:
    pass


@dataclass(frozen=True)
class Options:
    """How a server listens, and what it takes."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    access: Access = field(default_factory=Access)
    max_queued: int = MAX_QUEUED
    certificate: Path | None = None
    certificate_key: Path | None = None
    rights: Rights = field(default_factory=Rights)
    defaults: GenerationConfig = field(default_factory=GenerationConfig)
    grace_s: float = GRACE_S
    listen: Listen = _silent

    def check(self) -> None:
        """ValueError for what would let in anybody, or nobody."""
        key = self.access.api_key
        if key is None and not is_loopback(self.host):
            raise ValueError(
                f"Whoever reaches {self.host} could use this server: a key is needed for any address but "
                f"this machine's own. Put a long random text into a file and name it with --api-key-file."
            )
        if key is not None and (len(key) < _LEAST_KEY or not key.isascii() or not key.isprintable()):
            raise ValueError(f"The key needs at least {_LEAST_KEY} characters that can be typed, all ASCII.")
        if key is not None and key != key.strip():
            raise ValueError("The key begins or ends with a blank, which no client can send.")
        if (self.certificate is None) != (self.certificate_key is None):
            raise ValueError("TLS needs both a certificate and its key.")
        if self.certificate is not None:
            try:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                    self.certificate, self.certificate_key
                )
            except (OSError, ssl.SSLError) as err:
                raise ValueError(f"TLS cannot use this certificate with this key: {err}.") from err

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets for all addresses of `host`. OSError where the port is taken or the name leads nowhere."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((info[0], info[4][:2]) for info in found):
            wanted = (str(address[0]), int(address[1]) or (opened[0].getsockname()[1] if opened else 0))
            one = socket.create_server(wanted, family=family, backlog=_BACKLOG)
            one.setblocking(False)
            opened.append(one)
    except OSError:
        for one in opened:
            one.close()
        raise
    return opened


def address_of(sockets: Sequence[socket.socket], scheme: str) -> str:
    """Where a server is reached, as a URL without a path."""
    host, port = sockets[0].getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in str(host) else f"{scheme}://{host}:{port}"


def make_service(manager: SessionManager, models: Models, options: Options, slots: int) -> Service:
    """What the routes stand on; `slots` replies are written at once."""
    admission = Admission(slots, options.max_queued)
    return Service(manager, models, admission, Metrics(admission), options.rights, options.defaults)


class Listener(uvicorn.Server):
    """uvicorn on sockets that are open already. `stop` ends it; signals are the business of its caller."""

    def __init__(self, service: Service, options: Options, sockets: Sequence[socket.socket]) -> None:
        app: ASGIApp = make_app(service, options.access, options.listen)
        config = uvicorn.Config(
            app,
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=int(options.grace_s),
            limit_concurrency=_most_connections(),
            ssl_certfile=options.certificate,
            ssl_keyfile=options.certificate_key and str(options.certificate_key),
            ssl_version=ssl.PROTOCOL_TLS_SERVER,
        )
        super().__init__(config)
        self._service = service
        self._sockets = list(sockets)

    async def run_until_stopped(self) -> None:
        """Answer until `stop` is called, and then until what runs is answered."""
        await self.serve(sockets=self._sockets)

    def stop(self) -> None:
        """Take nothing new and end when what runs has ended; a second call ends at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.admission.close()
        self._service.closing.set()
        await super().shutdown(sockets)


def _most_connections() -> int:
    """What is left of the descriptors that this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(64, min(soft, _MOST_DESCRIPTORS) - _OWN_DESCRIPTORS)


def allow_connections() -> None:
    """Let this process have as many descriptors as it may: each connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Server:
    """A server in a thread of its own, as a context manager. `url` is where clients go, without `/v1`."""

    def __init__(self, make: Callable[[], tuple[SessionManager, Models]], options: Options) -> None:
        options.check()
        sockets = open_sockets(options.host, options.port)
        self.url = address_of(sockets, options.scheme)
        self.port: int = sockets[0].getsockname()[1]
        self._stop: Callable[[], None] | None = None
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(make, options, sockets), name="fireside-serve", daemon=True
        )
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Answer what runs, then end. Harmless when repeated."""
        if self._stop is not None:
            self._stop()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(
        self,
        make: Callable[[], tuple[SessionManager, Models]],
        options: Options,
        sockets: Sequence[socket.socket],
    ) -> None:
        try:
            asyncio.run(self._serve(make, options, sockets))
        except BaseException as err:
            self._failure = err
        finally:
            self._stop = None
            for one in sockets:
                one.close()
            self._ready.set()

    async def _serve(
        self,
        make: Callable[[], tuple[SessionManager, Models]],
        options: Options,
        sockets: Sequence[socket.socket],
    ) -> None:
        manager, models = make()
        async with manager:
            card = manager.card
            service = make_service(manager, models, options, max(1, card.max_active if card else 1))
            listener = Listener(service, options, sockets)
            loop = asyncio.get_running_loop()

            def stop() -> None:
                with contextlib.suppress(RuntimeError):  # it has ended by itself
                    loop.call_soon_threadsafe(listener.stop)

            self._stop = stop
            self._ready.set()
            await listener.run_until_stopped()
