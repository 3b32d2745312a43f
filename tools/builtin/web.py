"""The tool that reads a web page: http(s) only, to public addresses only, bounded in size and time.

A name is resolved once and the connection goes to that address; every redirect is checked anew.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urljoin, urlsplit

from tools.builtin.addresses import resolve
from tools.builtin.html_text import html_to_text
from tools.context import ToolContext
from tools.definition import Attempt, ToolError, Touch, tool

if TYPE_CHECKING:
    import httpx

_MOST_BYTES = 5 << 20
_TIME_S = 20.0
_MOST_REDIRECTS = 5
_MOST_ADDRESS = 2048
_AGENT = "Fireside"
_TEXTS = re.compile(
    r"text/|application/(?:[\w.+-]*(?:json|xml|yaml|javascript|x-sh|toml)|x-ndjson)", re.ASCII
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)

_OF_PAGES = re.compile(
    r"(utf-8(-sig)?|utf-(16|32)(-[bl]e)?|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|kz1048|mac-\w+|tis-620|ptcp154"
    r"|big5(hkscs)?|gb2312|gbk|gb18030|euc_\w+|shift_jis\w*|iso2022_\w+|johab|hz)\Z",
    re.ASCII,
)
"""Of Python's codecs those whose work is as long as the text."""


def _must_be_address(attempt: Attempt) -> None:
    _check_address(str(attempt.arguments["url"]))


@tool(does="network", touch=Touch(url="url"), time_s=_TIME_S + 10, check=_must_be_address)
async def fetch_page(context: ToolContext, url: str) -> str:
    """Read a web page as text.

    Args:
        url: The full address, http or https.
    """
    try:
        async with asyncio.timeout(_TIME_S):
            page = await _fetch(url, context.allowed_addresses)
    except TimeoutError as err:
        raise ToolError(f"{url[:200]} did not answer within {_TIME_S:g} s.") from err
    return await asyncio.to_thread(page.text)


@dataclass(frozen=True)
class _Page:
    kind: str
    data: bytes

    def text(self) -> str:
        """What it says. Takes its time for a large page: not on the event loop."""
        found = _CHARSET.search(self.kind) or _CHARSET.search(self.data[:2048].decode("ascii", "ignore"))
        text = self.data.decode(_codec(found[1]) if found else "utf-8", "replace")
        return html_to_text(text) or "The page has no text." if "html" in self.kind else text


def _codec(charset: str) -> str:
    """The codec of a character set that pages come in: others take far longer than their text is long."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if _OF_PAGES.match(name) else "utf-8"


async def _fetch(url: str, listed: Sequence[str]) -> _Page:
    try:
        import httpx
    except ImportError as err:
        raise ToolError("fetch_page needs the package httpx, which is not installed.") from err

    # No proxy and no .netrc from the environment: a proxy would resolve the name a second time.
    async with httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=_TIME_S) as client:
        for _ in range(_MOST_REDIRECTS + 1):
            request = await _request(client, url, listed)
            try:
                response = await client.send(request, stream=True)
                try:
                    target = response.headers.get("location") if response.is_redirect else None
                    if target is None:
                        return await _page(response, url)
                finally:
                    await response.aclose()
            except (httpx.HTTPError, httpx.InvalidURL) as err:
                raise ToolError(f"{url[:200]} cannot be read: {type(err).__name__}: {err}.") from err
            url = _next(url, target)
    raise ToolError(f"It redirects more than {_MOST_REDIRECTS} times.")


def _next(url: str, target: str) -> str:
    """Where a redirect leads, if it stays on the site that was approved; else ToolError says where."""
    following = urljoin(url, target)
    try:
        here, there = urlsplit(url), urlsplit(following)
        same = _site(here.hostname) == _site(there.hostname) and _is_same_port(here, there)
    except ValueError as err:
        raise ToolError(f"It redirects to something that is not a web address: {target[:200]!r}.") from err
    if not same or (here.scheme, there.scheme) == ("https", "http"):
        # An open redirect of an allowed site must not carry anything to another.
        raise ToolError(f"It redirects to {following[:500]}; read that address if you want it.")
    return following


def _is_same_port(here: SplitResult, there: SplitResult) -> bool:
    """Behind another port of a host somebody else may answer, but for the usual step to https."""
    ports = _port(here), _port(there)
    return ports[0] == ports[1] or ((here.scheme, there.scheme) == ("http", "https") and ports == (80, 443))


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _site(host: str | None) -> str:
    return (host or "").removeprefix("www.")


async def _request(client: httpx.AsyncClient, url: str, listed: Sequence[str]) -> httpx.Request:
    """The request to the one address that was checked, under the name that was asked for."""
    parts, port = _check_address(url)
    host = parts.hostname or ""
    address = await resolve(host, port, listed)
    shown = f"[{address}]" if ":" in address else address
    pinned = parts._replace(netloc=f"{shown}:{port}", fragment="").geturl()
    name = host.encode("idna").decode("ascii") if not host.isascii() else host
    usual = port == (443 if parts.scheme == "https" else 80)
    headers = {
        "Host": (f"[{name}]" if ":" in name else name) + ("" if usual else f":{port}"),
        "User-Agent": _AGENT,
        "Accept": "text/html, text/*;q=0.9, application/json;q=0.9",
        "Accept-Encoding": "identity",
    }
    return client.build_request("GET", pinned, headers=headers, extensions={"sni_hostname": name})


def _check_address(url: str) -> tuple[SplitResult, int]:
    """A full http or https address in its parts, and its port. Raises ToolError for anything else."""
    if len(url) > _MOST_ADDRESS or any(char <= " " or char in "\x7f\\" for char in url):
        raise ToolError(f"That is not a web address: {url[:200]!r}.")
    try:
        parts = urlsplit(url)
        port = _port(parts)
    except ValueError as err:
        raise ToolError(f"That is not a web address: {url[:200]!r}.") from err
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ToolError("Only full http and https addresses can be read.")
    if parts.username is not None or parts.password is not None:
        raise ToolError("An address with a user name or a password in it is refused.")
    return parts, port


async def _page(response: httpx.Response, url: str) -> _Page:
    kind = response.headers.get("content-type", "text/html").lower()
    if not _TEXTS.match(kind):
        raise ToolError(f"{url[:200]} is {kind[:80]}, not text.")
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > _MOST_BYTES:
            raise ToolError(f"{url[:200]} is larger than {_MOST_BYTES >> 20} MB.")
    if response.status_code >= 400:
        raise ToolError(f"{url[:200]} answered {response.status_code} {response.reason_phrase[:80]}.")
    return _Page(kind, _unpacked(bytes(data), response.headers.get("content-encoding", "")))


def _unpacked(data: bytes, encoding: str) -> bytes:
    match encoding.strip().lower():
        case "" | "identity":
            return data
        case "gzip" | "x-gzip" | "deflate":
            reader = zlib.decompressobj(wbits=47)
        case other:
            raise ToolError(f"The page is packed in a way that was not asked for: {other[:40]}.")
    try:
        found = reader.decompress(data, _MOST_BYTES + 1)
    except zlib.error as err:
        raise ToolError("The page is packed and damaged.") from err
    if len(found) > _MOST_BYTES:
        raise ToolError(f"The page is larger than {_MOST_BYTES >> 20} MB when unpacked.")
    return found
