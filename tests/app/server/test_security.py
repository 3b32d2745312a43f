"""Who is let in: hosts, pages, keys, and the size and time of what is sent."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from app.server import protocol, security
from app.server.security import Access, host_name, is_loopback, readable_origins
from app.server.serving import Options, Server, open_sockets
from backend.engines.scripted import ScriptedEngine
from tests.app.server.conftest import client_of, http_of

Scripted = Callable[..., tuple[Server, ScriptedEngine]]
HELLO: Any = [{"role": "user", "content": "hello"}]
KEY = "correct horse battery staple"
PAGE = "https://example.org"


def asked(server: Server, *, path: str = "/v1/models", method: str = "GET", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with http_of(server) as http:
        return http.request(method, path, headers=named)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:9", 200),
        ("LocalHost:8642", 200),
        ("localhost.", 200),
        ("127.0.0.1:80", 200),
        ("[::1]:80", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("evil.example:8642", 403),
        ("localhost.evil.example", 403),
        ("evil.example#localhost", 403),
        ("localhost@evil.example", 403),
        ("localhost:80:80", 403),
        ("127.0.0.1.nip.io", 403),
        ("0.0.0.0", 403),
        ("", 403),
    ],
)
def test_only_names_of_this_machine_lead_here_without_a_key(
    tiny_server: Server, host: str, status: int
) -> None:
    assert asked(tiny_server, Host=host).status_code == status


def test_a_request_without_a_host_or_with_two_is_refused(tiny_server: Server) -> None:
    for head in (
        b"GET /health HTTP/1.0\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", tiny_server.port), 5) as raw:
            raw.sendall(head)
            assert raw.recv(100).split()[1] in (b"403", b"400")


def test_further_names_are_let_in_by_the_one_who_starts_it(scripted: Scripted) -> None:
    server, _ = scripted(access=Access(hosts=("box.lan",)))
    assert asked(server, Host="Box.LAN:8642").status_code == 200
    assert asked(server, Host="box.lan.evil").status_code == 403


def test_no_page_may_call_it_unless_it_was_named(scripted: Scripted) -> None:
    server, engine = scripted(["hi"], access=Access(origins=(PAGE,)))
    for origin in ("https://evil.example", "null", f"{PAGE}.evil", PAGE.upper(), "http://localhost:3000", ""):
        for method in ("OPTIONS", "POST", "GET"):
            answer = asked(server, path="/v1/chat/completions", method=method, Origin=origin)
            assert answer.status_code == 403
            assert not [name for name in answer.headers if name.startswith("access-control")]
    assert engine.requests == []
    with http_of(server, headers={"Origin": PAGE}) as http:
        answer = http.post("/v1/chat/completions", json={"messages": HELLO})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE and answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


def test_a_program_may_name_the_server_itself_as_where_it_comes_from(tiny_server: Server) -> None:
    assert asked(tiny_server, Origin=tiny_server.url).status_code == 200
    for other in (tiny_server.url.replace("http:", "https:"), f"http://localhost:{tiny_server.port}"):
        assert asked(tiny_server, Origin=other).status_code == 403
    assert asked(tiny_server, Origin="omnigent://internal").status_code == 200
    rebound = f"http://evil.example:{tiny_server.port}"
    assert asked(tiny_server, Origin=rebound, Host=rebound.removeprefix("http://")).status_code == 403


def test_a_named_page_is_told_what_it_may_send(scripted: Scripted) -> None:
    server, _ = scripted(access=Access(api_key=KEY, origins=(PAGE,)))
    answer = asked(
        server,
        path="/v1/chat/completions",
        method="OPTIONS",
        Origin=PAGE,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization,content-type,x-stainless-os",
    )
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-os"
    assert answer.headers["access-control-allow-origin"] == PAGE
    forged = asked(
        server,
        method="OPTIONS",
        Origin=PAGE,
        Access_Control_Request_Method="GET",
        Access_Control_Request_Headers="*",
    )
    assert forged.headers["access-control-allow-headers"] == "authorization, content-type"


def test_no_page_is_told_anything_where_none_was_named(tiny_server: Server) -> None:
    answer = asked(tiny_server, Origin="https://evil.example")
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ["*", "example.org", "https://example.org/path", "https://a b", ""])
def test_what_is_no_address_of_a_page_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="--allow-origin"):
        readable_origins([origin])


def test_a_key_is_asked_for_by_every_route_but_health(scripted: Scripted) -> None:
    server, engine = scripted(["hi"], access=Access(api_key=KEY))
    for path in (
        "/v1/models",
        "/v1/chat/completions",
        "/metrics",
        "/nowhere",
        "/v1/health/../models",
        "/health/",
    ):
        assert asked(server, path=path).status_code == 401
    for given in (
        f"Bearer {KEY}x",
        "Bearer",
        f"Basic {KEY}",
        KEY,
        f"Bearer {KEY[:-1]}",
        "Bearer \xe9",
    ):
        with http_of(server, headers={"Authorization": given.encode("latin-1")}) as http:
            answer = http.get("/v1/models")
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    with pytest.raises(openai.AuthenticationError):
        client_of(server).models.list()
    assert asked(server, path="/health").json()["status"] == "ok"
    with_key = client_of(server, api_key=KEY)
    answer = with_key.chat.completions.create(model="scripted", messages=HELLO)
    assert answer.choices[0].message.content == "hi"
    assert len(engine.requests) == 1


def test_keys_are_compared_by_what_takes_the_same_time_for_all(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = security.hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(security.hmac, "compare_digest", compare)
    server, _ = scripted(access=Access(api_key=KEY))
    for given in ("Bearer x", "Bearer " + "x" * 5000):
        assert asked(server, Authorization=given).status_code == 401
    assert len(compared) == 2 and {len(text) for pair in compared for text in pair} == {32}


def test_with_a_key_any_name_leads_here(scripted: Scripted) -> None:
    server, _ = scripted(access=Access(api_key=KEY))
    assert asked(server, Host="box.lan", Authorization=f"Bearer {KEY}").status_code == 200
    assert asked(server, Host="box.lan").status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.lan", ""])
def test_other_machines_are_let_in_with_a_key_only(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ValueError, match="a key is needed"):
        Options(host=host).check()
    Options(host=host, access=Access(api_key=KEY)).check()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.9.1"])
def test_this_machine_needs_no_key(host: str) -> None:
    Options(host=host).check()


@pytest.mark.parametrize("key", ["short", "", "x" * 15, "é" * 20, "a\n" * 10, " " + KEY])
def test_a_key_that_cannot_be_sent_or_is_guessed_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        Options(access=Access(api_key=key)).check()


def test_a_body_that_is_nested_too_deeply_is_the_clients_fault(scripted: Scripted) -> None:
    server, engine = scripted()
    with http_of(server) as http:
        for depth in (300, 800, 2_000, 100_000):
            body = '{"a":' * depth + "1" + "}" * depth
            answer = http.post("/v1/sessions", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code < 500, depth
    assert engine.requests == []


def test_too_much_is_refused_whether_or_not_it_is_announced(scripted: Scripted) -> None:
    server, engine = scripted(access=Access(max_body=1000))
    with http_of(server) as http:
        announced = http.post("/v1/chat/completions", json={"messages": HELLO, "x": "y" * 1000})
        counted = http.post(
            "/v1/chat/completions",
            content=iter([b"x" * 600] * 3),
            headers={"Content-Type": "application/json"},
        )
    assert announced.status_code == counted.status_code == 413
    assert announced.json()["error"]["code"] == counted.json()["error"]["code"] == "too_large"
    assert engine.requests == []


def test_a_body_that_does_not_arrive_is_not_waited_for(scripted: Scripted) -> None:
    server, _ = scripted(access=Access(body_s=0.1))
    with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
        raw.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{"
        )
        assert b" 408 " in raw.recv(200)


def test_a_head_that_does_not_arrive_is_not_waited_for(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEADERS_S", 0.1)
    server, _ = scripted()
    for beginning in (b"", b"GET /health HTTP/1.1\r\nHost: loc"):
        with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
            raw.sendall(beginning)
            assert ended(raw)
    with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in raw.recv(1000)
        raw.sendall(b"GET /hea")
        assert ended(raw)


def ended(raw: socket.socket) -> bool:
    """Whether the other end hangs up."""
    try:
        while raw.recv(1000):
            pass
    except ConnectionResetError:
        return True
    return True


def test_names_in_a_host_header_are_read_as_they_are_meant() -> None:
    assert host_name("Example.ORG.:80") == "example.org"
    assert host_name("[::1]:80") == "::1"
    for odd in (None, "", ".", "a b", "[::1", "::1", "a:b", "a/b", "a@b"):
        assert host_name(odd) is None


def test_no_error_tells_of_what_the_server_is_made(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    server, _ = scripted([KeyError("/secret/place\x1b[31m\nforged line")])
    with http_of(server) as http:
        answer = http.post("/v1/chat/completions", json={"messages": HELLO})
    assert answer.status_code == 500
    assert "secret" not in answer.text and "KeyError" not in answer.text
    (line,) = [record.getMessage() for record in caplog.records if record.name == "fireside.server"]
    assert "/secret/place" in line and line.isprintable()
    assert asked(server, path="/nowhere").json()["error"]["message"] == "There is no such address here."
    assert asked(server, method="DELETE").status_code == 405


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem "
        "-addext subjectAltName=IP:127.0.0.1,DNS:localhost".split(),
        cwd=folder,
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    return folder / "cert.pem", folder / "key.pem"


def test_with_certificates_it_speaks_tls(scripted: Scripted, certificate: tuple[Path, Path]) -> None:
    server, _ = scripted(certificate=certificate[0], certificate_key=certificate[1])
    assert server.url.startswith("https://")
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with http_of(server, verify=trusting) as http:
        assert http.get("/health").json()["status"] == "ok"
    with pytest.raises(httpx.ConnectError), http_of(server) as http:
        http.get("/health")


def test_a_certificate_comes_with_its_key(certificate: tuple[Path, Path]) -> None:
    whole = Options(certificate=certificate[0], certificate_key=certificate[1])
    whole.check()
    for half in (replace(whole, certificate=None), replace(whole, certificate_key=None)):
        with pytest.raises(ValueError, match="TLS"):
            half.check()
    swapped = Options(certificate=certificate[1], certificate_key=certificate[0])
    with pytest.raises(ValueError, match="TLS"):
        swapped.check()


def test_a_port_that_is_taken_is_not_shared() -> None:
    (taken,) = open_sockets("127.0.0.1", 0)
    with taken, pytest.raises(OSError):
        open_sockets("127.0.0.1", taken.getsockname()[1])
