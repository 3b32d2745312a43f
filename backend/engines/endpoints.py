"""The connections to a server's addresses: which one is asked next, and what arrives from it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from backend.engines import foreign
from backend.engines.server_errors import MOST_ERROR_BYTES, Complaint, complaint_of
from backend.engines.servers import Server, is_loopback, shown
from backend.types import EngineError

if TYPE_CHECKING:
    import httpx

CONNECT_S = 10.0
WRITE_S = 120.0
LIST_S = 15.0
DOWN_S = 10.0
"""How long an address that failed is not asked while another one can be."""
MOST_LIST_BYTES = 8 << 20
MOST_REPLY_BYTES = 64 << 20


class BrokenError(Exception):
    """The connection failed. `sent` says whether the server may have begun to answer."""

    def __init__(self, why: str, *, sent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.sent = sent


@dataclass
class Endpoint:
    """One address of a server."""

    url: str
    client: httpx.AsyncClient
    key: str
    running: int = 0
    down_until: float = 0.0

    @property
    def is_up(self) -> bool:
        """Whether it did not fail just now."""
        return time.monotonic() >= self.down_until

    def failed(self) -> None:
        """It is not asked for a while."""
        self.down_until = time.monotonic() + DOWN_S

    async def get(self, path: str, body: Mapping[str, Any] | None = None) -> object:
        """The JSON at `path`: below the address, or from its root where it begins with `/`.

        Raises as `send`, TimeoutError, and ValueError for what is no JSON.
        """
        method = "GET" if body is None else "POST"
        async with (
            asyncio.timeout(LIST_S),
            self.send(method, path, body) as answer,
        ):
            return json.loads(await answer.whole(MOST_LIST_BYTES))

    @asynccontextmanager
    async def send(self, method: str, path: str, body: Mapping[str, Any] | None) -> AsyncGenerator[Answer]:
        """Send a request; within, its answer is there and whatever is left of it is not awaited.

        RefusedError for an error of HTTP, BrokenError where the connection fails.
        """
        import httpx

        content = None if body is None else _bytes(body)
        headers = {"Accept-Encoding": "identity", "Accept": "application/json, text/event-stream"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        request = self.client.build_request(method, self._target(path), content=content, headers=headers)
        self.running += 1
        try:
            try:
                response = await self.client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as err:
                raise BrokenError(_why(err), sent=False) from err
            except httpx.ReadTimeout as err:
                raise BrokenError("it said nothing for too long", sent=True) from err
            except (httpx.HTTPError, httpx.InvalidURL) as err:
                raise BrokenError(_why(err), sent=False) from err
            answer = Answer(response)
            try:
                if response.status_code != 200:
                    raise RefusedError(self._without_key(await _complaint(answer)))
                yield answer
            finally:
                await response.aclose()
        finally:
            self.running -= 1

    def _target(self, path: str) -> str:
        base = "http://socket/v1" if self.url.startswith("unix:") else self.url
        if not path.startswith("/"):
            return f"{base}/{path}"
        parts = urlsplit(base)
        return f"{parts.scheme}://{parts.netloc}{path}"

    def _without_key(self, complaint: Complaint) -> Complaint:
        if not self.key or self.key not in complaint.message:
            return complaint
        return replace(complaint, message=complaint.message.replace(self.key, "***"))


class RefusedError(Exception):
    """The server answered with an error of HTTP."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint


class Answer:
    """An answer of HTTP whose body has yet to be read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.location = foreign.one_line(response.headers.get("location", ""), 200)
        self.retry_after_s = _seconds(response.headers.get("retry-after", ""))

    async def parts(self, most: int = MOST_REPLY_BYTES) -> AsyncIterator[bytes]:
        """The body as it arrives. EngineError beyond `most` bytes, BrokenError where the connection fails."""
        import httpx

        total = 0
        try:
            async for data in self._response.aiter_bytes():
                total += len(data)
                if total > most:
                    raise EngineError(f"The server sends more than {most >> 20} MB for one answer.")
                yield data
        except httpx.ReadTimeout as err:
            raise BrokenError("it said nothing for too long", sent=True) from err
        except httpx.HTTPError as err:
            raise BrokenError(_why(err), sent=True) from err

    async def whole(self, most: int = MOST_REPLY_BYTES) -> bytes:
        """The whole body."""
        return b"".join([data async for data in self.parts(most)])


class Endpoints:
    """All addresses of a server. `pick` gives the one to ask."""

    def __init__(self, server: Server, key: str) -> None:
        self.server = server
        self.all = [Endpoint(url, _client(url, server), key) for url in server.urls]
        self._last: dict[str, Endpoint] = {}

    def pick(self, conversation: str | None, tried: Collection[Endpoint] = ()) -> Endpoint | None:
        """The least busy of those that work and were not tried; of equals the one that answered this
        conversation last, which still has it in its cache."""
        left = [one for one in self.all if one not in tried]
        usable = [one for one in left if one.is_up] or left
        if not usable:
            return None
        least = min(one.running for one in usable)
        equals = [one for one in usable if one.running == least]
        known = self._last.get(conversation or "")
        chosen = known if known is not None and known in equals else equals[0]
        if conversation is not None:
            self._last.pop(conversation, None)
            self._last[conversation] = chosen
            if len(self._last) > 1000:
                del self._last[next(iter(self._last))]
        return chosen

    async def close(self) -> None:
        """Close every connection."""
        for one in self.all:
            await one.client.aclose()


def where_is(server: Server, url: str = "") -> str:
    """A server, as the beginning of a sentence."""
    return f"The server {server.name}" if server.name else f"The server at {shown(url or server.urls[0])}"


def _client(url: str, server: Server) -> httpx.AsyncClient:
    import httpx

    socket = url.removeprefix("unix:") if url.startswith("unix:") else None
    timeout = httpx.Timeout(connect=CONNECT_S, read=server.silence_s, write=WRITE_S, pool=None)
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=socket) if socket else None,
        timeout=timeout,
        follow_redirects=False,
        trust_env=not is_loopback(url),  # no proxy stands between this machine and itself
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=4),
        headers={"User-Agent": "fireside"},
    )


def _bytes(body: Mapping[str, Any]) -> bytes:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


async def _complaint(answer: Answer) -> Complaint:
    if 300 <= answer.status < 400:
        return Complaint(answer.status, answer.location)
    body = b""
    try:
        async with asyncio.timeout(LIST_S):
            async for data in answer.parts():
                body += data
                if len(body) >= MOST_ERROR_BYTES:
                    break
    except (BrokenError, EngineError, TimeoutError):
        pass  # the status says enough
    return complaint_of(answer.status, body, answer.retry_after_s)


def _seconds(text: str) -> float | None:
    """The seconds that a Retry-After asks for; None where it does not, or not in a known way."""
    text = text.strip()[:60]
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), 1e6)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(1e6, max(0.0, (when - datetime.now(UTC)).total_seconds()))


def _why(err: Exception) -> str:
    import httpx

    if isinstance(err, httpx.ConnectTimeout):
        return "it cannot be reached in time"
    cause: BaseException | None = err
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    text = foreign.one_line(str(cause or err), 120)
    if "onnection refused" in text or isinstance(cause, ConnectionRefusedError):
        return "nothing answers there"
    if "All connection attempts failed" in str(err):
        return "nothing answers there"
    return text or type(err).__name__
