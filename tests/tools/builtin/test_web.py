from __future__ import annotations

import encodings.aliases
import gzip
import ipaddress
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.limits import processor_time
from tests.tools.conftest import Use
from tools.builtin.addresses import is_public
from tools.builtin.html_text import html_to_text
from tools.builtin.web import _codec, fetch_page  # pyright: ignore[reportPrivateUsage]
from tools.context import ToolContext

pytestmark = pytest.mark.timeout(60)  # A hostile page is bounded work, but no small one.

PAGES: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/page": (
        200,
        {"Content-Type": "text/html; charset=utf-8"},
        b"<html><head><title>T</title><script>bad()</script></head><body><h1>Hi</h1><p>caf\xc3\xa9"
        b"<p><a href='https://x.example/'>there</a><style>no</style></body></html>",
    ),
    "/latin": (200, {"Content-Type": "text/plain; charset=iso-8859-1"}, b"caf\xe9"),
    "/slow": (
        200,
        {"Content-Type": "text/plain; charset=punycode"},
        b"a" * 1_000_000 + b"-" + b"b" * 1_000_000,
    ),
    "/slow-html": (200, {"Content-Type": "text/html"}, b"<meta charset=IDNA>" + b"xn--" + b"b" * 1_000_000),
    "/to-usual-port": (302, {"Location": "http://127.0.0.1/"}, b""),
    "/to-usual-https": (302, {"Location": "https://127.0.0.1/"}, b""),
    "/odd-charset": (200, {"Content-Type": "text/plain; charset=nonsense"}, b"ok"),
    "/json": (200, {"Content-Type": "application/problem+json"}, b'{"a": 1}'),
    "/image": (200, {"Content-Type": "image/png"}, b"\x89PNG"),
    "/missing": (404, {"Content-Type": "text/plain"}, b"no"),
    "/big": (200, {"Content-Type": "text/plain"}, b"x" * (6 << 20)),
    "/gzip": (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(b"packed")),
    "/bomb": (
        200,
        {"Content-Type": "text/plain", "Content-Encoding": "gzip"},
        gzip.compress(b"0" * (50 << 20)),
    ),
    "/brotli": (200, {"Content-Type": "text/plain", "Content-Encoding": "br"}, b"x"),
    "/moved": (302, {"Location": "/page"}, b""),
    "/to-metadata": (302, {"Location": "http://169.254.169.254/latest/meta-data/"}, b""),
    "/to-file": (302, {"Location": "file:///etc/passwd"}, b""),
    "/to-other-port": (302, {"Location": "http://127.0.0.1:1/"}, b""),
    "/to-nothing": (302, {"Location": "http://[::1/"}, b""),
    "/loop": (302, {"Location": "/loop"}, b""),
}


class Server(ThreadingHTTPServer):
    seen: list[tuple[str, str]]
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["Host"]))
        status, headers, body = PAGES[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def listed(server: Server) -> ToolContext:
    return ToolContext(allowed_addresses=(f"127.0.0.1:{server.server_port}",))


def at(server: Server, path: str, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{server.server_port}{path}"


async def test_a_page_is_read_as_text(use: Use, server: Server, listed: ToolContext) -> None:
    result = await use(fetch_page, listed, url=at(server, "/page"))
    assert result.text == "T\n\n# Hi\n\ncafé\nthere (https://x.example/)"


@pytest.mark.parametrize(
    ("path", "text"),
    [("/latin", "café"), ("/json", '{"a": 1}'), ("/odd-charset", "ok"), ("/gzip", "packed")],
)
async def test_other_texts_come_as_they_are(
    use: Use, server: Server, listed: ToolContext, path: str, text: str
) -> None:
    assert (await use(fetch_page, listed, url=at(server, path))).text == text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/image", "image/png, not text"),
        ("/missing", "answered 404"),
        ("/big", "larger than 5 MB"),
        ("/bomb", "larger than 5 MB when unpacked"),
        ("/brotli", "not asked for: br"),
        ("/loop", "more than 5 times"),
        ("/to-metadata", "redirects to http://169.254.169.254/latest/meta-data/; read that address"),
        ("/to-other-port", "redirects to http://127.0.0.1:1/"),
        ("/to-usual-port", "redirects to http://127.0.0.1/"),
        ("/to-usual-https", "redirects to https://127.0.0.1/"),
        ("/to-file", "redirects to file:///etc/passwd"),
        ("/to-nothing", "cannot be read"),
    ],
)
async def test_what_is_refused(use: Use, server: Server, listed: ToolContext, path: str, said: str) -> None:
    result = await use(fetch_page, listed, url=at(server, path))
    assert (result.status, said in result.text) == ("failed", True), result.text


async def test_a_redirect_is_followed(use: Use, server: Server, listed: ToolContext) -> None:
    assert "café" in (await use(fetch_page, listed, url=at(server, "/moved"))).text
    assert [path for path, _ in server.seen] == ["/moved", "/page"]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "0",
    ],
)
async def test_private_addresses_are_not_reached_unless_listed(use: Use, server: Server, host: str) -> None:
    result = await use(fetch_page, url=at(server, "/page", host))
    assert result.status == "failed"
    assert server.seen == []


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com",
        "",
        "http://",
        "http://user:pw@example.com/",
        "http://example.com:99999/",
        "http://[::1/",
        "http://exa mple.com/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com/\r\nHost: x",
        "http://" + "a" * 3000,
        "http://\ud83c.example/",
        "javascript:alert(1)",
    ],
)
async def test_what_is_no_address_is_refused(use: Use, url: str) -> None:
    assert (await use(fetch_page, url=url)).status == "failed"


async def test_a_name_is_resolved_once_and_pinned(
    use: Use, server: Server, listed: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = socket.getaddrinfo

    def lookup(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
        asked.append(host)
        return real("127.0.0.1" if host == "site.example" else host, port, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    result = await use(fetch_page, listed, url=at(server, "/json", "site.example"))
    assert result.text == '{"a": 1}'
    assert asked.count("site.example") == 1
    assert server.seen == [("/json", f"site.example:{server.server_port}")]


@pytest.mark.parametrize("path", ["/slow", "/slow-html"])
async def test_no_character_set_takes_longer_than_its_text(
    use: Use, server: Server, listed: ToolContext, path: str
) -> None:
    with processor_time(3):
        result = await use(fetch_page, listed, url=at(server, path))
    assert "b" * 1_000 in result.text


def test_every_codec_a_page_may_name_takes_time_near_its_length() -> None:
    for name in sorted(set(encodings.aliases.aliases.values()) | {"cp1252", "koi8_u", "hz"}):
        codec = _codec(name)
        with processor_time(2):
            assert isinstance((b"a-" + b"\xe9~{b+" * 60_000).decode(codec, "replace"), str)


@pytest.mark.parametrize(
    ("charset", "codec"),
    [
        ("UTF-8", "utf-8"),
        ("Shift_JIS", "shift_jis"),
        ("windows-1252", "cp1252"),
        ("GB18030", "gb18030"),
        ("ISO-2022-JP", "iso2022_jp"),
        ("utf-7", "utf-8"),
        ("rot13", "utf-8"),
        ("unicode_escape", "utf-8"),
        ("..", "utf-8"),
    ],
)
def test_the_character_sets_of_pages_are_known(charset: str, codec: str) -> None:
    assert _codec(charset) == codec


async def test_every_redirect_is_resolved_and_checked_anew(
    use: Use, server: Server, listed: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["127.0.0.1", "169.254.169.254"])
    real = socket.getaddrinfo

    def lookup(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
        return real(next(answers) if host == "site.example" else host, port, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    result = await use(fetch_page, listed, url=at(server, "/moved", "site.example"))
    assert "169.254.169.254, which is not on the public network" in result.text
    assert [path for path, _ in server.seen] == ["/moved"]


async def test_a_name_with_one_private_address_is_refused(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(*_: Any, **__: Any) -> Any:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, 80)) for text in ("93.184.216.34", "10.0.0.1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    assert "10.0.0.1" in (await use(fetch_page, url="http://rebind.example/")).text


async def test_a_server_that_never_answers_is_left(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.builtin.web._TIME_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        context = ToolContext(allowed_addresses=("127.0.0.0/8",))
        result = await use(fetch_page, context, url=f"http://127.0.0.1:{port}/")
    assert "did not answer within 0.3 s" in result.text or "Timeout" in result.text


async def test_no_proxy_of_the_environment_is_used(
    use: Use, server: Server, listed: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert (await use(fetch_page, listed, url=at(server, "/json"))).status == "done"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for site.example with its key, in one file."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl makes the certificate")
    path = tmp_path / "site.pem"
    options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x".split()
    names = ["-addext", "subjectAltName=DNS:site.example"]
    command = [program, *options, *names, "-keyout", str(tmp_path / "key"), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    with path.open("a") as file:
        file.write((tmp_path / "key").read_text())
    return path


@pytest.mark.parametrize(("name", "status"), [("site.example", "done"), ("other.example", "failed")])
async def test_a_pinned_https_connection_still_checks_the_name(
    use: Use, certificate: Path, monkeypatch: pytest.MonkeyPatch, server: Server, name: str, status: str
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    real = socket.getaddrinfo

    def lookup(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
        return real("127.0.0.1" if str(host).endswith(".example") else host, port, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    monkeypatch.setattr("certifi.where", lambda: str(certificate))
    context = ToolContext(allowed_addresses=(f"{name}:{server.server_port}",))
    result = await use(fetch_page, context, url=f"https://{name}:{server.server_port}/json")
    assert (result.status, "certificate" in result.text) == (status, status == "failed")


PRIVATE = """127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1
255.255.255.255 192.0.2.1 198.18.0.1 240.0.0.1 :: ::1 fe80::1 fc00::1 fd00::1 ff02::1
::ffff:10.0.0.1 ::ffff:127.0.0.1 2002:7f00:1:: 2002:a00:1:: 64:ff9b::7f00:1
64:ff9b::a9fe:a9fe ::127.0.0.1 2001:db8::1 2001:0:0:0:0:0:80ff:fffe
168.63.129.16 ::ffff:168.63.129.16 192.0.0.192 192.88.99.1 fec0::1 3fff::1 5f00::1
64:ff9b:1::7f00:1""".split()


@pytest.mark.parametrize("text", PRIVATE)
def test_addresses_that_are_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text", ["93.184.216.34", "1.1.1.1", "2606:4700::1", "64:ff9b::101:101", "::ffff:1.1.1.1"]
)
def test_addresses_that_are(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_the_same_in_every_disguise(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for disguise in (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80):
        assert is_public(ipaddress.IPv6Address(disguise)) == is_public(address)


@given(st.text("<>/!-&;#=\"'abp[]CDAT \n", max_size=200))
def test_any_html_gives_text(html: str) -> None:
    assert isinstance(html_to_text(html), str)


def test_a_hostile_page_ends() -> None:
    for piece in (
        "<",
        "<!",
        "<a ",
        "&#",
        "<![CDATA[",
        "<!--",
        "</",
        "<p>" * 3,
        "<a '",
        "<script",
        "<svg><a>",
        "&#1",
    ):
        html_to_text(piece * 60_000)


def test_long_rows_of_blanks_are_read_soon() -> None:
    with processor_time(3):
        text = html_to_text("<pre>x" + " " * 500_000 + "y\n" + "\t " * 200_000 + "z</pre>")
    assert text == "x y\nz"


def test_lists_tables_and_preformatted_text() -> None:
    html = "<ul><li>a<li>b</ul><table><tr><td>1<td>2</table><pre>  x\n    y</pre><p>a   b</p>"
    assert html_to_text(html) == "- a\n- b\n\n| 1 | 2\n\nx\ny\n\na b"
