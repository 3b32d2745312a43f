from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.sessions.errors import ConflictError, FiresideError, ServerError
from app.sessions.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    output_text,
    reasoning_item,
    user_message,
)
from app.sessions.records import now
from app.sessions.store.locks import SessionLocks
from app.sessions.store.recovery import recover
from app.sessions.store.rows import Change, SessionRecord, Whole, Writing
from app.sessions.store.schema import MIGRATIONS
from app.sessions.store.store import Store

AGENT = {"name": "fireside"}
ROOT = Path(__file__).parents[4]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(tmp_path / "data" / "chats.db")
    yield store
    await store.close()


async def add_session(store: Store, session_id: str = "s1", **fields: object) -> SessionRecord:
    record = SessionRecord(id=session_id, agent=AGENT, **fields)  # type: ignore[arg-type]
    await store.add_session(record)
    return record


def answer(text: str, **fields: object) -> Message:
    return Message(role="assistant", agent="fireside", content=(output_text(text),), **fields)  # type: ignore[arg-type]


async def test_a_branch_is_read_whole_while_its_leaf_is_being_written(store: Store) -> None:
    await add_session(store)
    first, second = user_message("one"), user_message("two")
    await store.apply("s1", Change(items=[first]))
    held = threading.Event()
    holding = asyncio.ensure_future(store.database.write(lambda _: held.wait(10)))
    writing = asyncio.ensure_future(store.apply("s1", Change(items=[second], parent=first.id)))
    newest = asyncio.ensure_future(store.branch(second.id, limit=10, order="desc"))
    oldest = asyncio.ensure_future(store.branch(second.id))
    await store.node(first.id)  # what was asked of the reader before this is answered by now
    held.set()
    await asyncio.gather(holding, writing)
    assert [item.id for item in await newest] == [second.id, first.id]
    assert [item.id for item in await oldest] == [first.id, second.id]


async def test_an_item_is_there_for_another_process_once_it_was_awaited(store: Store, tmp_path: Path) -> None:
    await add_session(store)
    message = user_message("hello")
    await store.apply("s1", Change(items=[message]))
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        "print(c.execute('SELECT id FROM items').fetchone()[0])"
    )
    path = str(tmp_path / "data" / "chats.db")
    seen = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == message.id


async def test_branches_keep_every_item_and_share_their_root(store: Store) -> None:
    await add_session(store)
    question, first, second = user_message("q"), answer("one"), answer("two")
    await store.apply("s1", Change(items=[question, first]))
    await store.apply("s1", Change(items=[second], parent=question.id))
    leaf = (await store.session("s1")).leaf_id
    assert [item.id for item in await store.branch(leaf)] == [question.id, second.id]
    assert [item.id for item in await store.branch(first.id)] == [question.id, first.id]
    assert {item.id for item in await store.children(question.id, "s1")} == {first.id, second.id}


async def test_a_change_that_fails_leaves_nothing_behind(store: Store) -> None:
    await add_session(store)
    message = user_message("hi")
    with pytest.raises(ConflictError):
        await store.apply("s1", Change(items=[message], dequeue=["msg_gone"]))
    with pytest.raises(FiresideError):
        await store.node(message.id)


async def test_a_page_goes_on_where_the_last_one_ended(store: Store) -> None:
    await add_session(store)
    items = [user_message(str(index)) for index in range(30)]
    await store.apply("s1", Change(items=items))
    ids = [item.id for item in items]
    for order, wanted in (("asc", ids), ("desc", ids[::-1])):
        found: list[str] = []
        after = None
        while page := await store.branch(ids[-1], limit=7, after=after, order=order):  # type: ignore[arg-type]
            found += [item.id for item in page]
            after = found[-1]
        assert found == wanted


async def test_pages_of_sessions_go_both_ways(store: Store) -> None:
    for index in range(7):
        await add_session(store, f"s{index}", created_at=index, updated_at=index)
    first = await store.sessions(limit=3)
    second = await store.sessions(limit=3, after=first[-1].id)
    back = await store.sessions(limit=3, before=second[0].id)
    assert [record.id for record in first + second] == ["s6", "s5", "s4", "s3", "s2", "s1"]
    assert [record.id for record in back] == [record.id for record in first]


async def test_of_two_chats_in_one_second_the_last_changed_is_the_newest(store: Store) -> None:
    for name in ("b", "c", "a"):
        await add_session(store, name, created_at=5, updated_at=5)
    assert [record.id for record in await store.sessions()] == ["a", "c", "b"]
    await store.apply("b", Change(items=[user_message("x")], fields={"updated_at": 5}))
    await store.apply("a", Change(fields={"status": "running"}))
    first = await store.sessions(limit=2)
    rest = await store.sessions(limit=2, after=first[-1].id)
    assert [record.id for record in (*first, *rest)] == ["b", "a", "c"]
    assert [record.id for record in await store.sessions(before=rest[0].id)] == ["b", "a"]


async def test_of_two_chats_of_one_second_the_one_made_first_is_the_older(store: Store) -> None:
    for name in ("b", "c", "a"):
        await add_session(store, name, parent_id="p", created_at=5, updated_at=5)
    await store.apply("b", Change(fields={"updated_at": 5}))
    ordered = [record.id for record in await store.sessions(parent_id="p", sort="created_at", order="asc")]
    assert ordered == ["b", "c", "a"]
    beyond = await store.sessions(parent_id="p", sort="created_at", order="asc", after="b")
    assert [record.id for record in beyond] == ["c", "a"]


async def test_archived_and_deleted_chats_are_not_listed(store: Store) -> None:
    await add_session(store, "kept")
    await add_session(store, "archived", archived=True)
    await add_session(store, "deleted", deleted_at=1)
    assert [record.id for record in await store.sessions()] == ["kept"]
    assert {record.id for record in await store.sessions(include_archived=True)} == {"kept", "archived"}
    with pytest.raises(FiresideError) as gone:
        await store.session("deleted")
    assert gone.value.status_code == 404


async def test_purging_removes_what_was_deleted_and_its_words(store: Store, tmp_path: Path) -> None:
    await add_session(store, "old", deleted_at=1)
    await store.apply("old", Change(items=[user_message("xylophone")]))
    await add_session(store, "new")
    await store.apply("new", Change(items=[user_message("xylophone")]))
    assert await store.purge() == ["old"]
    assert [hit["session_id"] for hit in await store.search("xylophone")] == ["new"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("naive CAFE", True),
        ("caf", True),
        ("天气", True),
        ("气", True),
        ('"', False),
        ("", False),
        ("AND OR NOT", False),
        ("body:cafe*", False),
        ("NEAR(", False),
    ],
)
async def test_search_takes_any_words_as_words(store: Store, query: str, found: bool) -> None:
    await add_session(store)
    await store.apply("s1", Change(items=[user_message("A naïve café; 今天天气很好")]))
    assert bool(await store.search(query)) is found


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("it raises IndexError here", "index error"),
        ("it raises IndexError here", "error"),
        ("it raises IndexError here", "indexer"),
        ("which filename is it", "file na"),
        ("which file name is it", "file name is"),
        ("a timeout_s of 30", "timeout"),
    ],
)
async def test_names_of_joined_words_are_found_by_their_parts(store: Store, text: str, query: str) -> None:
    await add_session(store)
    await store.apply("s1", Change(items=[user_message(text)]))
    assert [hit["preview"] for hit in await store.search(query)] == [text]


@pytest.mark.parametrize("query", ["needle hay", "hay needle", "needle"])
async def test_a_preview_shows_the_place_where_the_words_stand_together(store: Store, query: str) -> None:
    await add_session(store)
    text = "hay " * 300 + "here is the needle\n\n  hay" + " straw" * 300
    await store.apply("s1", Change(items=[user_message(text)]))
    [hit] = await store.search(query)
    assert "needle hay" in hit["preview"] and len(hit["preview"]) <= 152
    assert hit["preview"].startswith("\u2026") and hit["preview"].endswith("\u2026")


async def test_search_finds_thoughts_and_tool_output_but_no_hidden_notes(store: Store) -> None:
    await add_session(store)
    items = [
        user_message("visible"),
        reasoning_item("pondering"),
        FunctionCall(name="f", call_id="c1"),
        FunctionCallOutput(call_id="c1", output="artefact"),
        user_message("secret", is_meta=True),
    ]
    await store.apply("s1", Change(items=items))
    assert [hit["type"] for hit in await store.search("pondering")] == ["reasoning"]
    assert [hit["type"] for hit in await store.search("artefact")] == ["function_call_output"]
    assert await store.search("secret") == []


@pytest.mark.parametrize("query", ["garden", "GARD plan", "plan garden", "ete garden", "天气"])
async def test_search_finds_a_chat_by_its_title(store: Store, query: str) -> None:
    await add_session(store, title="Plan of the Garden, été 天气")
    await store.apply("s1", Change(items=[user_message("what shall I plant?")]))
    (hit,) = await store.search(query)
    assert (hit["session_id"], hit["type"], hit["item_id"]) == ("s1", "title", None)
    assert await store.search("garden gnome") == await store.search("!?") == []


async def test_a_chat_whose_words_are_found_is_not_told_again_by_its_title(store: Store) -> None:
    await add_session(store, title="plant a garden")
    await store.apply("s1", Change(items=[user_message("plant a garden")]))
    assert [hit["type"] for hit in await store.search("garden")] == ["message"]


async def test_search_finds_no_title_of_a_chat_that_was_deleted(store: Store) -> None:
    await add_session(store, "kept", title="Plan of the garden")
    await add_session(store, "deleted", title="Plan of the garden", deleted_at=1)
    assert [hit["session_id"] for hit in await store.search("garden")] == ["kept"]


async def test_half_a_surrogate_pair_does_not_stop_a_message(store: Store) -> None:
    await add_session(store, title="x\udc80")
    message = user_message("broken \udc80 name")
    await store.apply("s1", Change(items=[message]))
    assert (await store.node(message.id)).item == message


async def test_files_are_their_owners_only_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = Store(tmp_path / "new" / "chats.db")
        await add_session(store)
        store.locks.take("s1")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
        await store.close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert modes.pop("locks") == 0o700
    assert len(modes) == 4 and set(modes.values()) == {0o600}


async def test_a_private_store_leaves_no_word_on_any_disk(
    tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    store = Store(None)
    await add_session(store)
    await store.apply(
        "s1", Change(items=[user_message("quicksilver" * 10_000)], fields={"draft": "quicksilver"})
    )
    assert await store.search("quicksilver" * 10_000) or (await store.session("s1")).draft
    store.locks.take("s1")
    assert not [path for folder in (tmp_path, isolated_home) for path in folder.rglob("*") if path.is_file()]
    await store.close()


async def test_a_store_of_an_older_program_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(MIGRATIONS[0])
        for name in ("old", "older"):
            connection.execute(
                "INSERT INTO sessions(id, agent, created_at, updated_at) VALUES (?, '{}', 1, 1)", (name,)
            )
        connection.execute("PRAGMA user_version=1")
    connection.close()
    store = Store(path)
    await store.apply("old", Change(fields={"updated_at": 1}))
    assert [record.id for record in await store.sessions()] == ["old", "older"]
    await store.close()


async def test_a_store_of_a_newer_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    await Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(ServerError, match="newer Fireside"):
        Store(path)


async def test_a_file_that_is_no_store_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ServerError, match="cannot be opened"):
        Store(path)
    assert path.read_bytes().startswith(b"no database")


async def test_a_checkpoint_costs_no_history(store: Store) -> None:
    await add_session(store)
    question = user_message("q")
    await store.apply("s1", Change(items=[question]))
    for text in ("a", "ab", "abc"):
        await store.checkpoint(Writing("r1", "s1", question.id, "fireside", "", text))
    assert [writing.text for writing in await store.writings("s1")] == ["abc"]
    await store.apply("s1", Change(items=[answer("abcd")], parent=question.id, written=["r1"]))
    assert await store.writings() == []


# ---- two processes, and crashes ------------------------------------------------------------


async def test_a_lock_ends_with_its_process_and_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    script = (
        "import sys; from pathlib import Path; from app.sessions.store.locks import SessionLocks; "
        "locks = SessionLocks(Path(sys.argv[1])); locks.take('s1'); print('held', flush=True); "
        "sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin and child.stdout
    assert child.stdout.readline().strip() == "held"
    locks = SessionLocks(folder)
    with pytest.raises(ConflictError, match=f"pid {child.pid}; use --fork"):
        locks.take("s1")
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    locks.take("s1")
    locks.release_all()


async def test_two_stores_on_one_file_both_keep_their_messages(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "data" / "chats.db")
    await add_session(store, "a")
    await add_session(other, "b")
    version = await store.database.version()
    changes = [(store, "a"), (other, "b")]
    sent = [
        side.apply(session_id, Change(items=[user_message("x")], move_leaf=False))
        for _ in range(20)
        for side, session_id in changes
    ]
    await asyncio.gather(*sent)
    assert len(await store.tree("a")) == len(await store.tree("b")) == 20
    assert await store.database.version() != version
    await other.close()


async def test_recovery_keeps_what_was_written_and_closes_calls(store: Store) -> None:
    await add_session(store, status="running")
    question, call = user_message("q"), FunctionCall(name="f", call_id="c1", status="in_progress")
    done, result = FunctionCall(name="g", call_id="c2"), FunctionCallOutput(call_id="c2", output="fine")
    await store.apply("s1", Change(items=[question, call, done, result]))
    assert await recover(store) == ["s1"]
    record = await store.session("s1")
    path = await store.branch(record.leaf_id)
    assert record.status == "idle"
    assert [item.call_id for item in path if isinstance(item, FunctionCallOutput)] == ["c2", "c1"]
    assert await recover(store) == []


async def test_recovery_turns_a_half_reply_into_an_interrupted_one(store: Store) -> None:
    await add_session(store, status="running")
    question = user_message("q")
    await store.apply("s1", Change(items=[question]))
    await store.checkpoint(Writing("r1", "s1", question.id, "fireside", "hm", "half an ans"))
    await recover(store)
    thought, reply = (await store.branch((await store.session("s1")).leaf_id))[1:]
    assert thought.searchable == "hm"
    assert isinstance(reply, Message) and reply.interrupted and reply.text == "half an ans"


async def test_recovery_leaves_a_session_that_somebody_runs(store: Store, tmp_path: Path) -> None:
    await add_session(store, status="running")
    other = Store(tmp_path / "data" / "chats.db")
    other.locks.take("s1")
    assert await recover(store) == []
    assert (await store.session("s1")).status == "running"
    await other.close()
    assert await recover(store) == ["s1"]


# ---- the tree, at random -------------------------------------------------------------------


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices=st.lists(st.tuples(st.integers(0, 1000), st.integers(1, 3)), max_size=25))
def test_every_item_keeps_its_own_way_to_the_root(choices: list[tuple[int, int]]) -> None:
    async def grow() -> None:
        store = Store(None)
        await add_session(store)
        paths: dict[str | None, list[str]] = {None: []}
        for where, count in choices:
            parent = list(paths)[where % len(paths)]
            items = [user_message(str(number)) for number in range(count)]
            await store.apply("s1", Change(items=items, parent=parent))
            way = paths[parent]
            for item in items:
                way = [*way, item.id]
                paths[item.id] = way
        for item_id, way in paths.items():
            assert [item.id for item in await store.branch(item_id)] == way
            newest = await store.branch(item_id, limit=3, order="desc")
            assert [item.id for item in newest] == way[::-1][:3]
        assert len(await store.tree("s1")) == len(paths) - 1
        await store.close()

    asyncio.run(grow())


async def test_the_chat_used_last_is_the_one_whatever_the_clock_said(store: Store) -> None:
    assert await store.last_used() is None
    ahead, behind = now() + 365 * 86_400, 1_000
    await add_session(store, "s1", created_at=ahead, updated_at=ahead)
    await store.apply("s1", Change(items=[user_message("hello")], fields={"updated_at": ahead}))
    await add_session(store, "s2")
    await store.apply("s2", Change(items=[user_message("hello")]))
    assert (used := await store.last_used()) is not None and used.id == "s2"
    await add_session(store, "s3", created_at=behind, updated_at=behind)
    await store.apply("s3", Change(items=[user_message("hello")], fields={"updated_at": behind}))
    assert (used := await store.last_used()) is not None and used.id == "s3"


@pytest.mark.parametrize(
    "fields", [{"title": "other"}, {"draft": "half"}, {"pinned": True}, {"settings": {}}, {"status": "idle"}]
)
async def test_what_is_not_said_in_a_chat_does_not_use_it(store: Store, fields: dict[str, object]) -> None:
    for name in ("s1", "s2"):
        await add_session(store, name)
        await store.apply(name, Change(items=[user_message("hello")]))
    await store.apply("s1", Change(fields=fields))
    assert (used := await store.last_used()) is not None and used.id == "s2"


async def test_neither_an_import_nor_a_repair_uses_a_chat(store: Store) -> None:
    for name in ("s1", "s2"):
        await add_session(store, name)
        await store.apply(name, Change(items=[user_message("hello")]))
    await store.checkpoint(
        Writing("resp_1", "s1", (await store.session("s1")).leaf_id, "fireside", "", "half")
    )
    question = user_message("hello")
    late = SessionRecord(id="s3", agent={"name": "fireside"}, updated_at=now() + 1_000_000)
    await store.add_whole([Whole(late, [(None, question)])], uses=False)
    assert await recover(store) == ["s1"]
    assert (used := await store.last_used()) is not None and used.id == "s2"
