"""Who may come in: checked before any route sees a request.

A page in a browser of this machine reaches a loopback port too. It gives itself away by its Origin or,
where it made its own name lead here (DNS rebinding), by the Host that it asks for.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.server.errors import ApiError

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
OPEN_PATHS = ("/health", "/v1/health")
"""What answers without a key: it says that the server lives, and no more."""
PROGRAM_ORIGIN = "omnigent://internal"
"""What `omnigent-client` sends as its Origin, which no browser can: no page is loaded by such a scheme."""
_HOST = re.compile(r"\[([0-9a-f:.]+)\](?::\d{1,5})?|([^:\[\]/@\s]+)(?::\d{1,5})?")
_METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9-]{1,60}(?:\s*,\s*[A-Za-z0-9-]{1,60}){0,60}")


@dataclass(frozen=True)
class Access:
    """Who may come in. With a key, whoever has it; without one, programs of this machine."""

    api_key: str | None = None
    hosts: tuple[str, ...] = ()
    """Further names in the Host header, in lower case, without a port."""
    origins: tuple[str, ...] = ()
    """Pages that may call the server from a browser, each as `https://name[:port]`."""
    max_body: int = 32 << 20
    """Bytes of a request."""
    body_s: float = 60.0
    """Seconds in which a request has to be here whole."""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server at this address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(header: str | None) -> str | None:
    """The name in a Host header, in lower case, without port and final dot; None for what is no name."""
    found = _HOST.fullmatch((header or "").lower())
    if found is None:
        return None
    return found[1] or found[2].removesuffix(".") or None


class Guard:
    """Lets in what may come in, within bounds of size and time."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._key = None if access.api_key is None else _digest(access.api_key)
        self._names = {*LOCAL_NAMES, *access.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            origin = self._origin(headers, scope["scheme"])
            if origin is not None:
                send = _allowing(send, origin)
                if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                    await _preflight(headers, send)
                    return
            if scope["path"] not in OPEN_PATHS:
                self._check_key(headers)
            receive = _Bounded(receive, self._access, headers).receive
        except ApiError as err:
            await err.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        """Names that lead here are few where no key is asked for. (A key is what no foreign page has.)"""
        if self._key is not None:
            return
        given = headers.getlist("host")
        if len(given) == 1 and host_name(given[0]) in self._names:
            return
        raise ApiError(
            403,
            "This server answers to localhost only. --allow-host NAME lets another name in.",
            code="host_not_allowed",
        )

    def _origin(self, headers: Headers, scheme: str) -> str | None:
        """The page that asks, None for a program. ApiError for a page that may not.

        A program may say that it is of this very server, which has no pages.
        """
        given = headers.getlist("origin")
        if not given or given in ([f"{scheme}://{headers.get('host')}"], [PROGRAM_ORIGIN]):
            return None
        if len(given) == 1 and given[0] in self._access.origins:
            return given[0]
        raise ApiError(
            403,
            "Pages of other sites may not call this server. --allow-origin URL lets one.",
            code="origin_not_allowed",
        )

    def _check_key(self, headers: Headers) -> None:
        if self._key is None:
            return
        scheme, _, key = headers.get("authorization", "").partition(" ")
        given = key.strip() if scheme.lower() == "bearer" else ""
        if not hmac.compare_digest(_digest(given), self._key):
            raise ApiError(
                401,
                "The key is missing or wrong. Send it as Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )


def _digest(key: str) -> bytes:
    """Of one length for all keys, so that comparing takes the same time for all."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _allowing(send: Send, origin: str) -> Send:
    """`send`, whose answers the page may read."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "Retry-After"
            headers.add_vary_header("Origin")
        await send(message)

    return sending


async def _preflight(headers: Headers, send: Send) -> None:
    """What a browser asks before it sends what a page wants."""
    wanted = headers.get("access-control-request-headers", "")
    allowed = wanted if _HEADER_NAMES.fullmatch(wanted) else "authorization, content-type"
    fields = [
        (b"access-control-allow-methods", _METHODS.encode()),
        (b"access-control-allow-headers", allowed.encode()),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": fields})
    await send({"type": "http.response.body", "body": b""})


class _Bounded:
    """The body of one request, while it is neither too large nor too slow."""

    def __init__(self, receive: Receive, access: Access, headers: Headers) -> None:
        self._receive = receive
        self._most = access.max_body
        self._left = access.max_body
        self._until = asyncio.get_running_loop().time() + access.body_s
        self._whole = False
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and (len(length) > 15 or int(length) > self._most):
            raise self._too_large()

    async def receive(self) -> Message:
        """The next part. ApiError (413, 408) beyond a bound."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as err:
            raise ApiError(408, "The request took too long to arrive.", code="timeout") from err
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise self._too_large()
        self._whole = not message.get("more_body", False)
        return message

    def _too_large(self) -> ApiError:
        return ApiError(413, f"A request has at most {self._most:,} bytes.", code="too_large")


def readable_origins(origins: Sequence[str]) -> tuple[str, ...]:
    """Origins as a browser sends them. ValueError for one that no browser sends."""
    found: list[str] = []
    for origin in origins:
        plain = origin.rstrip("/")
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9.\-\[\]:_]+", plain):
            raise ValueError(
                f"--allow-origin expects an address such as https://example.org, not {origin!r}."
            )
        found.append(plain)
    return tuple(found)
