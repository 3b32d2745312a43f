"""What is read of a stored chat before there is a manager."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from app.sessions.items import Message, user_message
from app.sessions.store.preview import newest_of
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import Store


def texts(file: Path, name: str | None, limit: int = 40) -> list[str]:
    return [item.text for item in newest_of(file, name, limit) if isinstance(item, Message)]


def store(file: Path, chats: dict[str, list[str]]) -> None:
    """Chats with messages, by their ids; the last one is the newest."""

    async def work() -> None:
        store = Store(file)
        for time, (chat, words) in enumerate(chats.items()):
            await store.add_session(SessionRecord(id=chat, agent={"name": "fireside"}))
            await store.apply(
                chat, Change(items=[user_message(word) for word in words], fields={"updated_at": time})
            )
        await store.close()

    asyncio.run(work())


def test_the_newest_items_come_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    store(file, {"sess_a1": ["one", "two", "three"], "sess_b1": ["four"]})
    assert texts(file, "sess_a1") == ["one", "two", "three"]
    assert texts(file, "sess_a1", 2) == ["two", "three"]
    assert texts(file, None) == ["four"]


def test_the_beginning_of_an_id_is_enough_where_it_fits_one(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    store(file, {"sess_a1": ["one"], "sess_a2": ["two"], "sess_b_": ["three"]})
    assert texts(file, "a2") == texts(file, "sess_a2") == ["two"]
    assert texts(file, "b") == ["three"]
    for unclear in ("a", "sess_a", "c", "", "%", "b%"):
        assert texts(file, unclear) == []


def test_what_is_put_away_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    store(file, {"sess_a1": ["one"], "sess_a2": ["two"]})
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE sessions SET deleted_at = 1 WHERE id = 'sess_a2'")
    connection.close()
    assert texts(file, "sess_a2") == []
    assert texts(file, "a") == texts(file, None) == ["one"]


def test_a_file_that_cannot_be_read_shows_nothing_and_is_left_alone(tmp_path: Path) -> None:
    assert texts(tmp_path / "none.db", "a") == []
    assert list(tmp_path.iterdir()) == []
    torn = tmp_path / "torn.db"
    torn.write_text("no database")
    assert texts(torn, "a") == []
    newer = tmp_path / "newer.db"
    store(newer, {"sess_a1": ["one"]})
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert texts(newer, "a1") == []


def test_an_item_that_is_damaged_shows_nothing(tmp_path: Path) -> None:
    for number, broken in enumerate(('{"type"', '{"type": "poem"}', '{"type": "message", "mood": 1}', "[]")):
        file = tmp_path / f"{number}.db"
        store(file, {"sess_a1": ["one", "two"]})
        with sqlite3.connect(file) as connection:
            connection.execute("UPDATE items SET data = ? WHERE seq = 1", (broken,))
        connection.close()
        assert texts(file, "a1") == []


def test_the_last_chat_is_the_one_that_was_used_last_whatever_its_date_says(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"

    async def work() -> None:
        store = Store(file)
        for chat, date in (("sess_a1", 9_000_000_000), ("sess_a2", 1_700_000_000)):
            await store.add_session(SessionRecord(id=chat, agent={"name": "fireside"}, updated_at=date))
            await store.apply(chat, Change(items=[user_message(chat)], fields={"updated_at": date}))
        await store.close()

    asyncio.run(work())
    assert texts(file, None) == ["sess_a2"]
