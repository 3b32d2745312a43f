"""The chats of a manager over HTTP."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.server.models import Models
from app.server.serving import Options, Server
from app.server.sessions.rights import Rights
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import Pause, ScriptedEngine, Step
from backend.types import ToolCall
from fireside import tool
from tests.app.server.conftest import http_of

Open = Callable[..., httpx.Client]


@pytest.fixture
def opened() -> Generator[Open]:
    """Starts a server with replies and tools; a client of it."""
    ends: list[Any] = []

    def begin(
        *scripts: list[Step], tools: Any = (), approve: Any = "ask", rights: Rights | None = None
    ) -> httpx.Client:
        def make() -> tuple[SessionManager, Models]:
            engine = ScriptedEngine(scripts)
            manager = SessionManager(engine=engine, store=Store(None), tools=tools, approve=approve)
            return manager, Models("scripted", None, others=False)

        server = Server(make, Options(rights=rights or Rights(), grace_s=2))
        client = http_of(server, timeout=10)
        ends.extend([server, client])
        return client

    yield begin
    for one in reversed(ends):
        one.close()


def bundle(**config: Any) -> dict[str, Any]:
    text, out = json.dumps(config).encode(), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo("config.json")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return {"bundle": ("agent.tar.gz", out.getvalue(), "application/gzip")}


def made(http: httpx.Client, **body: Any) -> str:
    answer = http.post("/v1/sessions", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def with_agent(http: httpx.Client, metadata: Any = None, **config: Any) -> httpx.Response:
    data = {"metadata": json.dumps({} if metadata is None else metadata)}
    return http.post("/v1/sessions", data=data, files=bundle(name="helper", **config))


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "data": {"role": "user", "content": [{"type": "input_text", "text": text}]}}


@contextmanager
def listening(http: httpx.Client, session_id: str) -> Generator[Iterator[tuple[str, Any]]]:
    """The events of a chat, from the first heartbeat on."""
    with http.stream("GET", f"/v1/sessions/{session_id}/stream") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        frames = read_frames(answer.iter_lines())
        assert next(frames)[0] == "session.heartbeat"
        yield frames


def read_frames(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """As the reference client reads: `event: `, `data: `, an empty line."""
    kind = None
    for line in lines:
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: ") and kind is not None:
            if line[6:] == "[DONE]":
                return
            value = json.loads(line[6:])
            assert value["type"] == kind
            yield kind, value
        else:
            assert line == "" or line.startswith(":")
            kind = None


def until(frames: Iterator[tuple[str, Any]], kind: str, **fields: Any) -> Any:
    """The next event of a type with these fields; all before are skipped."""
    return next(value for name, value in frames if name == kind and fields.items() <= value.items())


def test_a_turn_is_told_event_by_event(opened: Open) -> None:
    http = opened(["Hi ", "you."], ["Again."])
    session_id = made(http, title="Greetings", labels={"a": "b"})
    with listening(http, session_id) as frames:
        ack = http.post(f"/v1/sessions/{session_id}/events", json=said("Hello"))
        assert ack.status_code == 202 and ack.json()["queued"] is True
        kinds = []
        text = ""
        for kind, value in frames:
            kinds.append(kind)
            text += value.get("delta", "") if kind == "response.output_text.delta" else ""
            if kind == "session.status" and value["status"] == "idle":
                break
    assert text == "Hi you."
    told = ["session.input.consumed", "response.created", "response.output_text.delta", "response.completed"]
    assert [kind for kind in told if kind in kinds] == sorted(set(told), key=kinds.index) == told
    items = http.get(f"/v1/sessions/{session_id}/items").json()
    assert [item["role"] for item in items["data"]] == ["user", "assistant"]
    assert items["first_id"] == items["data"][0]["id"] and items["has_more"] is False
    one = http.get(f"/v1/sessions/{session_id}/items", params={"limit": 1, "order": "desc"}).json()
    assert one["has_more"] is True and one["data"][0]["role"] == "assistant"
    snapshot = http.get(f"/v1/sessions/{session_id}").json()
    assert snapshot["title"] == "Greetings" and snapshot["labels"] == {"a": "b"}
    assert len(snapshot["items"]) == 2 and snapshot["status"] == "idle"


def test_chats_are_listed_changed_copied_and_deleted(opened: Open) -> None:
    http = opened()
    first, second = made(http, title="One"), made(http, title="Two")
    listed = http.get("/v1/sessions", params={"order": "asc", "sort_by": "created_at"}).json()
    assert [entry["id"] for entry in listed["data"]] == [first, second]
    page = http.get("/v1/sessions", params={"limit": 1}).json()
    assert page["has_more"] is True
    rest = http.get("/v1/sessions", params={"limit": 1, "after": page["last_id"]}).json()
    assert rest["data"][0]["id"] != page["last_id"] and rest["has_more"] is False
    found = http.get("/v1/sessions", params={"search_query": "tWo"}).json()
    assert [entry["id"] for entry in found["data"]] == [second]
    changed = http.patch(
        f"/v1/sessions/{first}",
        json={"title": "New", "labels": {"x": "y"}, "reasoning_effort": "low", "archived": True},
    ).json()
    assert (changed["title"], changed["labels"], changed["reasoning_effort"]) == ("New", {"x": "y"}, "low")
    cleared = http.patch(
        f"/v1/sessions/{first}", json={"reasoning_effort": "default", "model_override": "default"}
    )
    assert cleared.json().get("reasoning_effort") is None
    assert [entry["id"] for entry in http.get("/v1/sessions").json()["data"]] == [second]
    archived = http.get("/v1/sessions", params={"visibility": "archived"}).json()
    assert [entry["id"] for entry in archived["data"]] == [first]
    copy = http.post(f"/v1/sessions/{second}/fork", json={"title": "Copy"})
    assert copy.status_code == 201 and copy.json()["title"] == "Copy"
    gone = http.delete(f"/v1/sessions/{second}").json()
    assert gone["id"] == second and gone["deleted"] is True
    assert http.get(f"/v1/sessions/{second}").status_code == 404
    agents = http.get("/v1/agents").json()
    assert agents["data"][0]["name"] == "fireside" and agents["has_more"] is False


def test_a_tool_of_the_client_is_run_by_the_client(opened: Open) -> None:
    call = ToolCall("abcdefghi", "look", {"q": "x"}, '{"q": "x"}')
    http = opened([call], ["It is y."])
    entry = {"name": "look", "description": "", "parameters": {"type": "object"}, "runtime": "client"}
    session_id = with_agent(http, tools=[entry]).json()["session_id"]
    agent = http.get(f"/v1/sessions/{session_id}/agent").json()
    assert agent["name"] == "helper" and agent["tools"][0]["runtime"] == "client"
    with listening(http, session_id) as frames:
        http.post(f"/v1/sessions/{session_id}/events", json=said("Look"))
        while (item := until(frames, "response.output_item.done")["item"])["status"] != "action_required":
            pass
        assert item["type"] == "function_call" and json.loads(item["arguments"]) == {"q": "x"}
        output = {"type": "function_call_output", "data": {"call_id": item["call_id"], "output": "y"}}
        assert http.post(f"/v1/sessions/{session_id}/events", json=output).status_code == 202
        until(frames, "response.completed")
    texts = [
        item for item in http.get(f"/v1/sessions/{session_id}").json()["items"] if item["type"] == "message"
    ]
    assert texts[-1]["content"][0]["text"] == "It is y."


ran: list[str] = []


@tool(does="write")
def put(text: str) -> str:
    """Put a text somewhere."""
    ran.append(text)
    return "done"


PUT = ToolCall("abcdefghi", "put", {"text": "x"}, '{"text": "x"}')


@pytest.mark.parametrize("way", ["resolve", "event"])
@pytest.mark.parametrize("allowed", [False, True])
def test_a_tool_of_this_machine_is_approved_by_a_client_only_where_the_owner_said_so(
    opened: Open, way: str, allowed: bool
) -> None:
    ran.clear()
    rights = Rights(tools=frozenset(["put"]), remote_approval=allowed)
    http = opened([PUT], ["Done."], tools=[put], rights=rights)
    session_id = made(http)

    def answer(action: str, elicitation_id: str) -> httpx.Response:
        if way == "resolve":
            path = f"/v1/sessions/{session_id}/elicitations/{elicitation_id}/resolve"
            return http.post(path, json={"action": action})
        data = {"elicitation_id": elicitation_id, "action": action}
        return http.post(f"/v1/sessions/{session_id}/events", json={"type": "approval", "data": data})

    with listening(http, session_id) as frames:
        http.post(f"/v1/sessions/{session_id}/events", json=said("Put it"))
        asked = until(frames, "response.elicitation_request")
        assert asked["params"]["tool"] == "put"
        pending = http.get(f"/v1/sessions/{session_id}").json()["pending_elicitations"]
        assert [one["elicitation_id"] for one in pending] == [asked["elicitation_id"]]
        for_always = {"action": "accept", "content": {"scope": "always", "rule": "0"}}
        path = f"/v1/sessions/{session_id}/elicitations/{asked['elicitation_id']}/resolve"
        assert http.post(path, json=for_always).status_code == 403
        told = answer("accept", asked["elicitation_id"])
        if allowed:
            assert told.status_code in (200, 202)
        else:
            assert told.status_code == 403 and ran == []
            assert answer("decline", asked["elicitation_id"]).status_code in (200, 202)
        until(frames, "response.completed")
        assert answer("accept", asked["elicitation_id"]).status_code in (200, 202)  # late, and harmless
    assert ran == (["x"] if allowed else [])


def test_a_bundle_names_only_tools_and_models_that_are_offered(opened: Open, tmp_path: Path) -> None:
    http = opened(tools=[put], rights=Rights(tools=frozenset(["put"])))
    assert with_agent(http, tools=[{"name": "put"}]).status_code == 201
    for config in (
        {"tools": [{"name": "run_command"}]},
        {"tools": [{"name": "put", "runtime": "server"}, {"name": "read_file", "runtime": "server"}]},
    ):
        answer = with_agent(http, **config)
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "tool_refused"
    assert with_agent(http, model="scripted").status_code == 201
    for model in (
        "gpt-9",
        str(tmp_path / "model.gguf"),
        "../model.gguf",
        "/etc/passwd",
        "http://evil/x.gguf",
    ):
        assert with_agent(http, model=model).status_code in (400, 404)
    session_id = made(http)
    assert http.patch(f"/v1/sessions/{session_id}", json={"model_override": "/etc/passwd"}).status_code == 404


def test_no_request_widens_what_its_owner_allowed(opened: Open) -> None:
    http = opened(tools=[put], rights=Rights(tools=frozenset(["put"])))
    wide = {"approve": "all", "config": {"temperature": 0}, "max_rounds": 9, "tools": ["*"], "labels": {}}
    session_id = made(http, **wide)
    http.patch(f"/v1/sessions/{session_id}", json=wide)
    session_id = with_agent(http, metadata=wide, approve="all", workspace="/").json()["session_id"]
    assert http.get(f"/v1/sessions/{session_id}").json().get("workspace") is None
    for kind in ("terminal_command", "configure", "rule", None, 7, [], {}):
        answer = http.post(f"/v1/sessions/{session_id}/events", json={"type": kind, "data": {}})
        assert answer.status_code == 400
    for item in (
        {"type": "function_call", "name": "put", "arguments": "{}", "call_id": "1", "status": "in_progress"},
        {"type": "message", "role": "system", "content": "x"},
        {"type": "terminal_command", "kind": "input", "input": "ls"},
    ):
        assert http.post("/v1/sessions", json={"initial_items": [item]}).status_code == 400


def test_a_chat_that_its_owner_lets_run_everything_is_not_answered_from_here(opened: Open) -> None:
    http = opened([PUT], tools=[put], approve="all", rights=Rights(tools=frozenset(["put"])))
    session_id = made(http)
    answer = http.post(f"/v1/sessions/{session_id}/events", json=said("Put it"))
    assert answer.status_code == 403 and answer.json()["error"]["code"] == "chat_refused"


def test_a_folder_lies_below_the_root_or_is_refused(opened: Open, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (tmp_path / "rootless").mkdir()
    (root / "link").symlink_to(tmp_path)
    http = opened(rights=Rights(workspace_root=root))
    for good in ("inside", str(root / "inside"), str(root), "."):
        assert http.post("/v1/sessions", json={"workspace": good}).status_code == 201
    for bad in (
        "..",
        "/",
        str(tmp_path),
        "link",
        "inside/../..",
        str(tmp_path / "rootless"),
        "nowhere",
        "~",
        "a\0b",
    ):
        assert http.post("/v1/sessions", json={"workspace": bad}).status_code in (400, 403), bad
    without = opened()
    assert without.post("/v1/sessions", json={"workspace": str(root)}).status_code == 403
    assert with_agent(without, metadata={"workspace": str(root)}).status_code == 403


def test_files_belong_to_their_chat(opened: Open) -> None:
    http = opened()
    mine, other = made(http), made(http)
    files = f"/v1/sessions/{mine}/resources/files"
    kept = http.post(files, files={"file": ("../<b>é.html", b"<script>", "text/html")})
    assert kept.status_code == 201
    file = kept.json()
    assert file["metadata"]["filename"] == "<b>é.html" and file["metadata"]["bytes"] == 8
    assert http.get(f"{files}/{file['id']}").json() == file
    content = http.get(f"{files}/{file['id']}/content")
    assert content.content == b"<script>" and content.headers["content-type"] == "application/octet-stream"
    assert content.headers["content-disposition"].startswith("attachment")
    assert content.headers["x-content-type-options"] == "nosniff"
    assert [one["id"] for one in http.get(files).json()["data"]] == [file["id"]]
    for path in (f"/v1/sessions/{other}/resources/files/{file['id']}", f"{files}/nothing"):
        assert http.get(path).status_code == http.delete(path).status_code == 404
    assert http.post(files, files={"file": ("x.exe", b"\0\1", "application/x-dosexec")}).status_code == 415
    assert http.post(files, files={"file": ("x.txt", b"a" * 10_000_001, "text/plain")}).status_code == 413
    assert http.post(files, data={"file": "x"}).status_code == 400
    assert http.post("/v1/sessions/nothing/resources/files", files={"file": ("x", b"x")}).status_code == 404
    assert http.delete(f"{files}/{file['id']}").json()["deleted"] is True


def test_nothing_that_is_uploaded_reaches_a_disk_on_its_way(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    rolled: list[object] = []
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", lambda self: rolled.append(self))
    http = opened()
    files = f"/v1/sessions/{made(http)}/resources/files"
    assert http.post(files, files={"file": ("x.txt", b"a" * 3_000_000, "text/plain")}).status_code == 201
    assert rolled == []


def archive(*members: tuple[str, bytes, bytes]) -> bytes:
    """A .tar.gz of members: name, type, content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return out.getvalue()


CONFIG = ("config.yaml", tarfile.REGTYPE, b"name: helper")


@pytest.mark.parametrize(
    "content",
    [
        archive(CONFIG, ("../../evil", tarfile.REGTYPE, b"x")),
        archive(CONFIG, ("/etc/evil", tarfile.REGTYPE, b"x")),
        archive(("config.yaml", tarfile.SYMTYPE, b"")),
        archive(CONFIG, ("pipe", tarfile.FIFOTYPE, b"")),
        archive(CONFIG, ("bomb", tarfile.REGTYPE, b"\0" * 6_000_000)),
        archive(("readme.md", tarfile.REGTYPE, b"x")),
        archive(("config.yaml", tarfile.REGTYPE, b"!!python/object/apply:os.system ['true']")),
    ],
    ids=[
        "above",
        "absolute",
        "link",
        "pipe",
        "bomb",
        "no config",
        "object",
    ],  # The bytes change with the time.
)
def test_a_bundle_that_is_more_than_an_agent_is_refused_and_leaves_nothing(
    opened: Open, content: bytes
) -> None:
    http = opened()
    answer = http.post("/v1/sessions", data={"metadata": "{}"}, files={"bundle": ("a.tar.gz", content)})
    assert answer.status_code == 400, answer.text
    assert http.get("/v1/sessions").json()["data"] == []


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\x1f\x8b" + b"\0" * 50])
def test_what_is_no_bundle_is_refused(opened: Open, content: bytes) -> None:
    http = opened()
    answer = http.post("/v1/sessions", data={"metadata": "{}"}, files={"bundle": ("a.tar.gz", content)})
    assert answer.status_code == 400
    assert http.post("/v1/sessions", data={"metadata": "["}, files=bundle(name="x")).status_code == 400
    assert http.get("/v1/sessions").json()["data"] == []


def test_what_runs_is_stopped_when_a_client_asks(opened: Open) -> None:
    http = opened(["One ", Pause(30)], ["Two."])
    session_id = made(http)
    with listening(http, session_id) as frames:
        http.post(f"/v1/sessions/{session_id}/events", json=said("Count"))
        until(frames, "response.output_text.delta")
        assert http.post(f"/v1/sessions/{session_id}/events", json={"type": "interrupt"}).status_code == 202
        until(frames, "session.interrupted")
        until(frames, "session.status", status="idle")


def test_two_clients_see_one_chat(opened: Open) -> None:
    http = opened(["Hi."])
    session_id = made(http)
    seen: list[str] = []

    def follow() -> None:
        with (
            httpx.Client(base_url=http.base_url, timeout=10) as other,
            listening(other, session_id) as frames,
        ):
            ready.set()
            seen.append(until(frames, "response.output_text.delta")["delta"])

    ready = threading.Event()
    follower = threading.Thread(target=follow)
    follower.start()
    ready.wait(10)
    http.post(f"/v1/sessions/{session_id}/events", json=said("Hello"))
    follower.join(10)
    assert seen == ["Hi."]


def test_a_stream_ends_with_the_server(opened: Open) -> None:
    http = opened()
    session_id = made(http)
    with http.stream("GET", f"/v1/sessions/{session_id}/stream") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: session.heartbeat"
        server = next(one for one in opened_servers(opened) if isinstance(one, Server))
        closing = threading.Thread(target=server.close)
        closing.start()
        rest = [line for line in lines if line]
    closing.join()
    assert rest[-2:] == ["event: done", "data: [DONE]"]


def opened_servers(opened: Open) -> list[Any]:
    """What a fixture has started."""
    closure = opened.__closure__  # type: ignore[attr-defined]
    return next(cell.cell_contents for cell in closure if isinstance(cell.cell_contents, list))


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/sessions/nothing", None, 404),
        ("GET", "/v1/sessions/nothing/stream", None, 404),
        ("GET", "/v1/sessions/nothing/items", None, 404),
        ("GET", "/v1/sessions/nothing/child_sessions", None, 404),
        ("PATCH", "/v1/sessions/nothing", {"title": "x"}, 404),
        ("DELETE", "/v1/sessions/nothing", None, 404),
        ("POST", "/v1/sessions/nothing/events", {"type": "interrupt"}, 404),
        ("POST", "/v1/sessions/nothing/fork", {}, 404),
        ("POST", "/v1/sessions", {"agent_id": "agent_nobody"}, 404),
        ("POST", "/v1/sessions", {"labels": {"a": 1}}, 400),
        ("POST", "/v1/sessions", {"reasoning_effort": "heroic"}, 400),
        ("GET", "/v1/sessions?limit=0", None, 400),
        ("GET", "/v1/sessions?limit=99999", None, 400),
        ("GET", "/v1/sessions?limit=²", None, 400),
        ("GET", "/v1/sessions?order=up", None, 400),
        ("GET", "/v1/sessions?sort_by=size", None, 400),
        ("POST", "/v1/sessions/nothing/elicitations/x/resolve", {"action": "maybe"}, 400),
        ("PUT", "/v1/sessions", {}, 405),
    ],
)
def test_what_cannot_be_is_answered_with_its_status(
    opened: Open, method: str, path: str, body: Any, status: int
) -> None:
    answer = opened().request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=x", "text/plain"])
@pytest.mark.parametrize(
    "content", [b"", b"--x", b"\0" * 40, b"--x\r\nContent-Disposition: form-data\r\n\r\n"]
)
def test_a_form_that_cannot_be_read_is_refused(opened: Open, kind: str, content: bytes) -> None:
    http = opened()
    session_id = made(http)
    for path in ("/v1/sessions", f"/v1/sessions/{session_id}/resources/files"):
        answer = http.post(path, content=content, headers={"Content-Type": kind})
        assert answer.status_code in (400, 415), answer.text
