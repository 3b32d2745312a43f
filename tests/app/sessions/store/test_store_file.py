"""The file of the store: opened by SQLite alone, watched while it is open, kept aside where it is damaged."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bounded import read_bounded
from app.commands.shared import write_file
from app.sessions.errors import ConflictError, FiresideError, ServerError
from app.sessions.items import user_message
from app.sessions.manager import SessionManager
from app.sessions.store import store_file
from app.sessions.store.locks import SessionLocks
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import Store
from app.sessions.store.store_file import DamagedStoreError, Mark, keep_aside
from app.sessions.tools_adapter import ToolsAdapter
from app.sessions.turn.files import SessionFiles
from backend.engines.scripted import ScriptedEngine

AGENT = {"name": "fireside"}
ROOT = Path(__file__).parents[4]
OPEN_AND_CLOSE = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
    "print(*(name for (name,) in c.execute('SELECT id FROM sessions ORDER BY id'))); c.close()"
)


def seen_by_another_program(path: Path) -> list[str]:
    """The chats that a program of its own finds; it closes the store as the last one may."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN_AND_CLOSE, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


async def add(store: Store, name: str) -> None:
    await store.add_session(SessionRecord(id=name, agent=AGENT))


async def test_two_managers_of_one_process_keep_the_log_from_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    first = Store(path)
    await add(first, "a")
    second = Store(path)
    assert seen_by_another_program(path) == ["a"]
    assert (tmp_path / "chats.db-wal").exists()
    await add(first, "b")
    await second.close()
    assert seen_by_another_program(path) == ["a", "b"]
    await add(first, "c")
    assert seen_by_another_program(path) == ["a", "b", "c"]
    await first.close()


def test_no_face_opens_a_file_of_the_store_beside_sqlite(tmp_path: Path) -> None:
    script = """
import asyncio, os, sys
from app import paths
opened = []
def watch(event, args):
    name = os.fsdecode(args[0]) if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)) else ""
    if "chats.db" in name:
        opened.append(name)
sys.addaudithook(watch)
from app.doctor.surroundings import store as doctor
from app.oneshot import archive; from app.cli import session_commands
from app.sessions.store.asked import Asked
from app.sessions.store.preview import newest_of
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.oneshot.sinks import ReplySoFar
from backend.engines.scripted import ScriptedEngine
async def main():
    file = paths.data_dir() / "chats.db"
    async with SessionManager(engine=ScriptedEngine([["hello"]])) as one:
        chat = await one.sessions_chat()
        await chat.query("hi")
        async with SessionManager(engine=ScriptedEngine()) as two:
            await two.list()
            await two.export((await two.list())[0].id, "jsonl")
        assert await asyncio.to_thread(newest_of, file, None, 5)
        assert (await asyncio.to_thread(doctor)).state == "ok"
        kept = archive.KeptExchange(Asked.now("q", None))
        assert await asyncio.to_thread(kept.finish, [ReplySoFar("a")], "m")
        await asyncio.to_thread(lambda: session_commands.show_all(limit=5, archived=True, as_json=True))
asyncio.run(main())
assert not opened, opened
"""
    environ = {**os.environ, "FIRESIDE_DATA": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_no_file_of_an_open_store_is_read_or_written_for_a_person_or_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "elsewhere"))
    path = tmp_path / "chats.db"
    store = Store(path)
    await add(store, "a")
    (tmp_path / "another name").symlink_to(path)
    space, _ = ToolsAdapter().space(tmp_path)
    assert space is not None
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm"), tmp_path / "another name"):
        with pytest.raises(OSError, match="store of your chats"):
            read_bounded(file, 1 << 20)
        with pytest.raises((OSError, FiresideError), match="store of your chats"):
            await SessionFiles(store.database).upload("a", file)
        with pytest.raises(OSError, match="store of your chats"):
            await write_file(Yes(), str(file), "x")  # type: ignore[arg-type]
        assert space.locate(str(file)).hidden
    assert seen_by_another_program(path) == ["a"]
    await add(store, "b")
    assert seen_by_another_program(path) == ["a", "b"]
    await store.close()
    assert read_bounded(path, 1 << 20)


class Yes:
    """A face on which a person agrees to everything."""

    async def ask(self, _: str) -> str:
        return "y"


async def test_a_child_that_was_forked_takes_neither_the_store_nor_its_locks_along(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    store = Store(path)
    await add(store, "a")
    store.locks.take("a")
    held, go_on = os.pipe()
    script = f"""
import asyncio, os, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from app.sessions.store.store import Store
from app.sessions.store.rows import SessionRecord
store = Store(Path({str(path)!r}))
store.locks.take("forked")
child = os.fork()
if child == 0:
    os.read({held}, 1)
    sys.exit()
asyncio.run(store.add_session(SessionRecord(id="b", agent={{"name": "x"}})))
os._exit(0)
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    process = await asyncio.create_subprocess_exec(*command, pass_fds=(held,))
    assert await process.wait() == 0
    other = SessionLocks(tmp_path / "locks")
    other.take("forked")
    other.release_all()
    os.close(go_on)
    os.close(held)
    assert seen_by_another_program(path) == ["a", "b"]
    await add(store, "c")
    assert seen_by_another_program(path) == ["a", "b", "c"]
    await store.close()


# ---- one file, several names ---------------------------------------------------------------


async def test_a_store_with_two_names_is_not_opened(tmp_path: Path) -> None:
    await Store(tmp_path / "a.db").close()
    (tmp_path / "b.db").hardlink_to(tmp_path / "a.db")
    with pytest.raises(ServerError, match=r"2 names.*copy it"):
        Store(tmp_path / "b.db")


async def test_a_store_behind_a_symlink_has_one_log_and_one_set_of_locks(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    first = Store(real / "chats.db")
    link.mkdir()
    (link / "chats.db").symlink_to(real / "chats.db")
    second = Store(link / "chats.db")
    await add(first, "a")
    await add(second, "b")
    assert [record.id for record in await first.sessions()] == ["b", "a"]
    first.locks.take("a")
    with pytest.raises(ConflictError):
        second.locks.take("a")
    await first.close()
    await second.close()


# ---- under a running process ---------------------------------------------------------------


@pytest.mark.parametrize("what", ["deleted", "moved", "replaced", "log"])
async def test_a_store_that_is_taken_away_while_it_is_open_says_so(tmp_path: Path, what: str) -> None:
    path = tmp_path / "chats.db"
    store = Store(path)
    await add(store, "a")
    match what:
        case "deleted":
            path.unlink()
        case "moved":
            path.rename(tmp_path / "old.db")
        case "replaced":
            path.rename(tmp_path / "old.db")
            path.touch()
        case _:
            (tmp_path / "chats.db-wal").unlink()
    with pytest.raises(ServerError, match="while Fireside had it open") as told:
        await add(store, "b")
    assert told.value.code == "store_moved"
    assert [record.id for record in await store.sessions()] == ["a"], "an export still reads what is there"
    await store.close()


async def test_a_write_into_a_log_that_was_lost_meanwhile_is_not_called_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "chats.db")
    await add(store, "a")
    with pytest.raises(ServerError, match="lost its write-ahead log"):
        await store.database.write(lambda _: (tmp_path / "chats.db-wal").unlink())
    await store.close()


# ---- damage --------------------------------------------------------------------------------


async def filled(path: Path) -> bytes:
    store = Store(path)
    for name in ("a", "b"):
        await add(store, name)
        await store.apply(name, Change(items=[user_message(f"{name} {n} words" * 40) for n in range(40)]))
    await store.close()
    assert not Path(f"{path}-wal").exists(), "the last one to close leaves one whole file"
    return path.read_bytes()


async def opened(path: Path) -> None:
    async with SessionManager(engine=ScriptedEngine(closed=True), store=path) as manager:
        for chat in await manager.list():
            await manager.list_items(chat.id, limit=100)


async def test_a_store_without_its_header_says_so(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    whole = await filled(path)
    for broken in (b"\0" * 100 + whole[100:], b"x" + whole[1:], b"\0" * len(whole), whole[:5000]):
        path.write_bytes(broken)
        with pytest.raises(DamagedStoreError, match="is damaged") as told:
            await opened(path)
        assert told.value.code == "store_unreadable" and "--private" in told.value.remedy


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(part=st.floats(0, 1), size=st.integers(1, 9000), fill=st.sampled_from([b"\0", b"\xff", b"A"]))
def test_no_damage_comes_as_anything_but_an_error_that_says_so(
    tmp_path_factory: pytest.TempPathFactory, part: float, size: int, fill: bytes
) -> None:
    path = tmp_path_factory.mktemp("store") / "chats.db"
    whole = asyncio.run(filled(path))
    start = int(part * len(whole))
    path.write_bytes((whole[:start] + fill * size + whole[start + size :])[: len(whole)])
    try:
        asyncio.run(opened(path))
    except FiresideError as err:
        assert str(path) in err.message, err.message
        assert err.code in ("store_unreadable", "store_newer", "store_error"), err.code


async def test_a_damaged_store_is_kept_aside_with_its_log_and_a_new_one_begins(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(DamagedStoreError) as told:
        Store(path)
    (tmp_path / "chats.db-wal").write_bytes(b"its log")
    aside = keep_aside(path, told.value.mark)
    assert aside.name.startswith("chats.damaged-") and aside.read_bytes().startswith(b"no database")
    assert Path(f"{aside}-wal").read_bytes() == b"its log"
    store = Store(path)
    await add(store, "new")
    await store.close()
    assert seen_by_another_program(path) == ["new"]


async def test_a_store_that_another_process_has_made_anew_is_not_moved(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    path.write_bytes(b"no database" * 100)
    seen = Mark.of(path)
    path.rename(tmp_path / "aside")
    await Store(path).close()
    assert keep_aside(path, seen) == path
    assert seen_by_another_program(path) == []


# ---- disks and rights ----------------------------------------------------------------------


def test_a_full_disk_is_called_full_whatever_sqlite_says(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, subprocess, sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from app.sessions.errors import ServerError
from app.sessions.store.rows import SessionRecord
from app.sessions.store.store import Store
disk = Path({str(tmp_path)!r})
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(disk)], check=True)
def fill():
    try:
        with open(disk / f"ballast{{len(os.listdir(disk))}}", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
    except OSError:
        pass
async def main():
    store = Store(disk / "chats.db")
    fill()
    try:
        for number in range(100):
            await store.add_session(SessionRecord(id=str(number), agent={{"name": "x" * 9000}}))
    except ServerError as err:
        print(err.code, err.message)
    await store.close()
    for file in disk.glob("chats*"):
        file.unlink()
    fill()
    try:
        Store(disk / "chats.db")
    except ServerError as err:
        print(err.code, err.message)
asyncio.run(main())
"""
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no file system of its own here")
    first, second = done.stdout.splitlines()
    for line in (first, second):
        assert line.startswith("store_full") and f"{tmp_path}/chats.db" in line and "full" in line


OPEN_AND_WRITE = """
import asyncio
from app.sessions.store.rows import SessionRecord
from app.sessions.store.store import Store
async def main():
    store = Store.default()
    store.locks.take("a")
    await store.add_session(SessionRecord(id="a", agent={"name": "x"}))
    await store.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o500, 0o300, 0o777])
@pytest.mark.parametrize("part", ["", "locks"])
def test_an_ordinary_users_own_folder_of_any_mode_is_made_right(tmp_path: Path, mode: int, part: str) -> None:
    data = tmp_path / "data"
    folder = data / part
    folder.mkdir(parents=True)
    folder.chmod(mode)
    command = [sys.executable, "-c", OPEN_AND_WRITE]
    if os.getuid() == 0:  # who may read everything proves nothing here
        if shutil.which("setpriv") is None:
            pytest.skip("no program that gives up rights")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", *command]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "FIRESIDE_DATA": str(data)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert seen_by_another_program(data / "chats.db") == ["a"]


def test_a_store_where_nothing_can_be_written_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(store_file.paths, "make_private_dir", refuse)
    with pytest.raises(ServerError, match=r"chats\.db cannot be used: Read-only file system.*--private"):
        Store(tmp_path / "chats.db")


def test_a_folder_in_the_place_of_the_store_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="is not a file"):
        store_file.make_ready(tmp_path)
