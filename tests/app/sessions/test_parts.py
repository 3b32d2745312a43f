"""Small parts: events and items on the wire, the bus, bundles, files, durability."""

from __future__ import annotations

import dataclasses
import io
import json
import sqlite3
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.sessions.bundles import agent_from_bundle
from app.sessions.errors import FiresideError, InvalidInputError
from app.sessions.events import (
    EVENT_TYPES,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    Response,
    ResponseEvent,
    SessionEvent,
    SessionHeartbeatEvent,
    SessionInputConsumedEvent,
    SessionInterruptedEvent,
)
from app.sessions.items import ITEM_TYPES, item_from_wire, user_message
from app.sessions.store import database
from app.sessions.store.database import Database
from app.sessions.store.store import Store
from app.sessions.turn.event_bus import MAX_BEHIND, EventBus
from tests.app.files.pdfs import encrypted, pdf
from tests.app.sessions.conftest import MakeRoom

MODELLED = """
session.status session.input.consumed session.interrupted session.created session.child_session.updated
session.heartbeat session.usage session.model session.title session.reasoning_effort response.created
response.queued response.in_progress response.output_text.delta response.reasoning.started
response.reasoning_text.delta response.output_item.done response.function_call_output.delta
response.output_file.done response.completed response.failed response.incomplete response.cancelled
response.error response.retry response.compaction.in_progress response.compaction.completed
response.compaction.failed response.elicitation_request response.elicitation_resolved
response.policy_denied response.client_task.cancel session.branch session.queue session.prefill
session.model_load session.speed session.settings
""".split()

_VALUES: dict[str, Any] = {"str": "x", "int": 3, "float": 0.5, "bool": True, "Json": {"a": [1]}}
_VALUES["ElicitationParams"] = _VALUES["Json"]


def sample(kind: type[SessionEvent]) -> SessionEvent:
    """An event with every field set."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        name = str(field.type).removesuffix(" | None")
        if name == "Item":
            values[field.name] = user_message("hi")
        elif name == "Response":
            values[field.name] = Response(id="resp_1", model="fireside", status="completed")
        elif name.startswith("tuple"):
            values[field.name] = ({"a": 1},)
        else:
            values[field.name] = _VALUES[name]
    return kind(**values)


def test_2_1_every_modelled_event_exists() -> None:
    assert set(MODELLED) <= set(EVENT_TYPES)


@pytest.mark.parametrize("name", sorted(EVENT_TYPES))
def test_2_1_every_event_is_told_whole_on_the_wire(name: str) -> None:
    event = sample(EVENT_TYPES[name])
    wire = json.loads(json.dumps(event.to_wire()))
    assert wire["type"] == name and wire["sequence_number"] == 3
    told = wire["data"] if event.nested else wire
    for field in dataclasses.fields(event):
        if field.name in ("type_", "sequence_number"):
            continue
        value = getattr(event, field.name)
        plain = dataclasses.is_dataclass(value) or isinstance(value, tuple)
        assert told[field.name] if plain else told[field.name] == value


def test_2_1_two_events_nest_and_settings_that_were_cleared_are_null() -> None:
    consumed = SessionInputConsumedEvent(item_id="i", type_="message", data={}).to_wire()
    assert consumed["data"] == {"item_id": "i", "type": "message", "data": {}}
    assert set(SessionInterruptedEvent(requested_at=1).to_wire()) == {"type", "data"}
    assert EVENT_TYPES["session.title"](title=None).to_wire() == {"type": "session.title", "title": None}  # type: ignore[call-arg]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=6), below, max_size=3),
    max_leaves=6,
)
_FIELDS = "id role content name call_id arguments output summary item last_item_id source code message status"


@given(
    kind=st.sampled_from(sorted(ITEM_TYPES)),
    fields=st.dictionaries(st.sampled_from(_FIELDS.split()), _JSON, max_size=8),
)
def test_3_any_object_is_an_item_or_refused(kind: str, fields: dict[str, Any]) -> None:
    try:
        item = item_from_wire({**fields, "type": kind})
    except InvalidInputError:
        return
    assert item_from_wire(json.loads(json.dumps(item.to_wire()))) == item


# ---- the bus -------------------------------------------------------------------------------


async def test_2_3_a_slow_subscriber_is_cut_off_and_the_others_are_not() -> None:
    bus = EventBus()
    slow, quick = bus.subscribe(), bus.subscribe()
    assert isinstance(await anext(quick), SessionHeartbeatEvent)
    for number in range(MAX_BEHIND + 5):
        bus.publish(OutputTextDeltaEvent(delta=str(number)))
        event = await anext(quick)
        assert isinstance(event, OutputTextDeltaEvent) and event.delta == str(number)
    with pytest.raises(FiresideError, match="behind") as behind:
        async for _ in slow:
            pass
    assert behind.value.code == "subscriber_behind"
    assert bus.listeners == 1


async def test_2_1_silence_is_broken_by_heartbeats() -> None:
    subscription = EventBus().subscribe(heartbeat_s=0.01)
    assert [type(await anext(subscription)) for _ in range(3)] == [SessionHeartbeatEvent] * 3


async def test_2_6_closing_the_hub_ends_the_iteration() -> None:
    bus = EventBus()
    subscription = bus.subscribe()
    bus.publish(OutputItemDoneEvent(item=user_message("x")))
    bus.close()
    assert len([event async for event in subscription]) == 2


def test_terminal_events_carry_the_whole_response() -> None:
    kinds = [kind for kind in EVENT_TYPES.values() if issubclass(kind, ResponseEvent)]
    assert len(kinds) == 7


# ---- bundles -------------------------------------------------------------------------------


def bundle(*members: tuple[tarfile.TarInfo | str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name) if isinstance(name, str) else name
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


CONFIG = {"name": "clerk", "prompt": "be brief", "tools": [{"name": "f", "runtime": "client"}, {"name": ""}]}


async def test_11_a_bundle_gives_an_agent(room: MakeRoom) -> None:
    data = bundle(("agent/config.json", json.dumps(CONFIG).encode()))
    agent = agent_from_bundle(data)
    assert (agent.name, agent.instructions, list(agent.client_tools)) == ("clerk", "be brief", ["f"])
    chat = await room()
    snapshot = await chat.manager.create(bundle=data)
    assert (snapshot.agent_id, snapshot.agent_name) == ("agent_clerk", "clerk")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1f\x8bgarbage",
        bundle(("readme.txt", b"x")),
        bundle(("../config.json", b"{}")),
        bundle(("/config.json", b"{}")),
        bundle((link("config.json", "/etc/passwd"), b"")),
        bundle(("config.json", b"{")),
        bundle(("config.json", b"[]")),
        bundle(("config.json", b'{"name": 3}')),
        bundle(("config.json", b'{"name": "x", "tools": {}}')),
        bundle(("big", b"0" * 6_000_000), ("config.json", b'{"name": "x"}')),
    ],
    ids="empty garbage no-config traversal absolute link torn list no-name tools bomb".split(),
)
def test_11_a_bad_bundle_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        agent_from_bundle(data)


# ---- files ---------------------------------------------------------------------------------


async def test_1_8_files_belong_to_one_session(room: MakeRoom, tmp_path: Path) -> None:
    chat = await room()
    files, other = chat.manager.files, (await chat.manager.create()).id
    file = await files.add(chat.session_id, "../../etc/note.md", b"# hi")
    assert file.name == "note.md" and file.to_wire()["metadata"]["bytes"] == 4
    with pytest.raises(FiresideError) as foreign:
        await files.get(other, file.id)
    assert foreign.value.status_code == 404
    target = await files.download(chat.session_id, file.id, tmp_path / "deep/er/note.md")
    assert target.read_bytes() == b"# hi"
    await files.delete(chat.session_id, file.id)
    assert await files.list(chat.session_id) == []


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [
        ("a.png", b"0" * 5_000_001, 413),
        ("a.zip", b"PK", 415),
        ("a", b"\0\1", 415),
        ("a.txt", b"x" * 10_000_001, 413),
        ("a.pdf", b"%PDF-1.7 torn", 415),
        ("a.pdf", pdf("", picture=True), 415),
        ("a.pdf", encrypted("secret"), 415),
    ],
)
async def test_1_3_what_no_model_reads_is_refused(
    room: MakeRoom, name: str, content: bytes, status: int
) -> None:
    chat = await room()
    with pytest.raises(FiresideError) as refused:
        await chat.manager.files.add(chat.session_id, name, content)
    assert refused.value.status_code == status


async def test_1_3_the_model_gets_a_pdfs_text_and_other_encodings(
    room: MakeRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await room()
    files, session = chat.manager.files, chat.session_id
    paper = await files.add(session, "paper.pdf", pdf("One page.", "Two."))
    old = await files.add(session, "old.txt", "für".encode("utf-16"))
    blocks = [{"file_id": paper.id}, {"file_id": old.id}]
    monkeypatch.setattr("app.files.pdf.pdf_text", lambda data: pytest.fail("it was read a second time"))
    parts = await files.parts(session, blocks)
    assert parts[paper.id]["text"] == "[attached file paper.pdf]\nOne page.\fTwo.\n[end of paper.pdf]"
    assert "\nfür\n" in parts[old.id]["text"]


# ---- durability ----------------------------------------------------------------------------


async def test_what_must_survive_a_power_cut_is_synced_and_checkpoints_are_not(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.db")

    def level(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    assert await database.write(level) == 2
    assert await database.write(level, durable=False) == 1
    assert await database.read(lambda one: one.execute("PRAGMA journal_mode").fetchone()[0]) == "wal"
    with pytest.raises(FiresideError):
        await database.read(lambda one: one.execute("DELETE FROM sessions"))
    await database.close()
    with pytest.raises(FiresideError, match="closed"):
        await database.read(level)


async def test_a_store_that_fails_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.db")
    with pytest.raises(FiresideError, match="The chat store failed") as failure:
        await store.database.write(lambda one: one.execute("INSERT INTO nothing VALUES (1)"))
    assert isinstance(failure.value.__cause__, sqlite3.Error)
    await store.close()


async def test_a_damaged_page_names_the_file_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await Store(path).close()
    with sqlite3.connect(path) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name='items'").fetchone()[0]
    connection.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: size * (page - 1)] + b"\xff" * size + whole[size * page :])
    store = Store(path)
    with pytest.raises(FiresideError, match=r"x\.db .*is damaged.*Move it away") as failure:
        await store.database.read(lambda one: one.execute("SELECT * FROM items").fetchall())
    await store.close()
    assert failure.value.code == "store_unreadable"


async def test_a_store_that_another_program_holds_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    store = Store(tmp_path / "x.db")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(FiresideError, match=r"x\.db has been locked by another program"):
        await store.database.write(lambda one: one.execute("SELECT 1"))
    other.close()
    assert await store.database.write(lambda one: one.execute("SELECT 1").fetchone()[0]) == 1
    await store.close()
