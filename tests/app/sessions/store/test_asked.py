"""Questions that lie beside the store: the next opening takes them in, and nothing else that lies there."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from app import paths
from app.sessions.items import Message, user_message
from app.sessions.manager import SessionManager
from app.sessions.store.asked import FOLDER, Asked, AskedFile, is_waiting
from app.sessions.store.locks import LOCKS
from app.sessions.store.preview import newest_of
from app.sessions.store.rows import SessionRecord
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine


def ask(text: str, *, alive: bool = False, system: str | None = None, at: int | None = None) -> Asked:
    """A question beside the store of this person, of a process that is alive or was killed."""
    asked = Asked.now(text, system)
    if at is not None:
        asked = asked._replace(at=at)
    file = AskedFile(asked)
    file.write()
    if not alive:
        file.locks.release_all()
    return asked


def folder() -> Path:
    return paths.data_dir() / FOLDER


def stored() -> list[tuple[str, str, list[str]]]:
    """Each chat's id, status and texts, as whoever opens the store finds them; nothing is repaired."""

    async def read() -> list[tuple[str, str, list[str]]]:
        store = Store.default()
        try:
            return [
                (
                    record.id,
                    record.status,
                    [item.text for item in await store.branch(record.leaf_id) if isinstance(item, Message)],
                )
                for record in await store.sessions()
            ]
        finally:
            await store.close()

    return asyncio.run(read())


async def chat_before() -> str:
    """The id of a chat that was used before."""
    store = Store.default()
    await store.add_session(
        SessionRecord(id="sess_before", agent={"name": "fireside"}), [user_message("before")]
    )
    await store.close()
    return "sess_before"


def test_whoever_opens_the_store_takes_it_in_once() -> None:
    asked = ask("why?")
    assert is_waiting(paths.data_dir() / "chats.db")
    for _ in range(2):
        assert stored() == [(asked.session_id, "running", ["why?"])]
        assert not list(folder().iterdir())
    assert not is_waiting(paths.data_dir() / "chats.db")


def test_only_its_owner_can_read_it() -> None:
    ask("why?")
    [file] = folder().iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and folder().stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("alive", [True, False])
async def test_one_that_was_killed_is_the_last_chat_and_one_that_is_answered_is_not(alive: bool) -> None:
    before = await chat_before()
    asked = ask("why?", alive=alive, system="Be short.")
    async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
        last = await manager.last_used()
        assert last is not None and last.id == (before if alive else asked.session_id)
        record = await manager.store.session(asked.session_id)
        assert record.status == ("running" if alive else "idle")
        assert (record.title, record.settings, record.created_at) == (
            "why?",
            {"system": "Be short."},
            asked.at,
        )


def test_several_come_in_the_order_in_which_they_were_asked() -> None:
    second, first = ask("second", at=2_000), ask("first", at=1_000)
    assert [chat for chat, _, _ in stored()] == [second.session_id, first.session_id]


@pytest.mark.parametrize("text", ["\ud83d half", "nul \0 within", "ü" * 100_000, "[1]", '{"id": 1}'])
def test_any_text(text: str) -> None:
    asked = ask(text)
    [(chat, _, [found])] = stored()
    assert chat == asked.session_id and found == text.replace("\ud83d", "\ufffd")


@pytest.mark.parametrize(
    "content",
    ["", "{", '{"session_id": "', "[]", "null", '{"session_id": "sess_other"}', '{"text": "x"}', "\udcff"],
)
def test_what_a_kill_left_half_written_goes(content: str) -> None:
    ask("why?")
    half = folder() / "sess_half.json"
    half.write_bytes(content.encode("utf-8", "surrogateescape"))
    [(_, _, texts)] = stored()
    assert texts == ["why?"] and not half.exists()
    assert not (paths.data_dir() / LOCKS / "sess_half.lock").exists()


def test_what_is_being_written_stays() -> None:
    asked = Asked.now("why?", None)
    file = AskedFile(asked)
    file.locks.take(asked.session_id)
    half = paths.make_private_dir(folder()) / f"{asked.session_id}.json"
    half.write_text('{"session_id": "')
    assert stored() == [] and half.exists()


def test_what_is_no_question_is_left_alone() -> None:
    paths.make_private_dir(folder())
    os.mkfifo(folder() / "pipe.json")
    (folder() / "folder.json").mkdir()
    (folder() / "link.json").symlink_to("/etc/passwd")
    (folder() / "notes.txt").write_text("mine")
    assert stored() == []
    assert len(list(folder().iterdir())) == 4


def test_a_store_that_lies_elsewhere_has_its_questions_there(tmp_path: Path) -> None:
    (paths.make_private_dir(paths.data_dir()) / "chats.db").symlink_to(tmp_path / "mine.db")
    asked = ask("why?")
    assert (tmp_path / FOLDER).is_dir() and not folder().exists()
    assert [chat for chat, _, _ in stored()] == [asked.session_id]


def test_a_question_that_cannot_be_written_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked.now("why?", None)
    monkeypatch.setattr(Asked, "_asdict", lambda self: {"text": object()})  # as a full disk: half is there
    with pytest.raises(TypeError):
        AskedFile(asked).write()
    assert not list(folder().iterdir()) and not list((paths.data_dir() / LOCKS).iterdir())


def test_the_chat_that_was_used_last_is_not_shown_early_where_another_comes_in() -> None:
    asyncio.run(chat_before())
    file = paths.data_dir() / "chats.db"
    assert newest_of(file, None, 10)
    ask("why?")
    assert not newest_of(file, None, 10)
