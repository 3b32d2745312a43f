"""A one-shot's question is in the store before it is answered, and stays there whatever ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import backend
from app import paths
from app.cli import main
from app.sessions.items import Message
from app.sessions.manager import SessionManager
from app.sessions.records import is_asked_once
from app.sessions.store.asked import AskedFile
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine
from backend.types import EngineError, ModelLoadError
from tests.app.double import Double, says
from tests.app.process import fireside, start

ENDLESS = ("--set", "ignore_eos=true", "--max-tokens", "400", "--temperature", "0")


def chats() -> list[tuple[str, str | None, list[str]]]:
    """Each chat's status, title and texts, the last used first; nothing is repaired."""

    async def read() -> list[tuple[str, str | None, list[str]]]:
        store = Store.default()
        try:
            found: list[tuple[str, str | None, list[str]]] = []
            for record in await store.sessions():
                items = await store.branch(record.leaf_id)
                texts = [item.text for item in items if isinstance(item, Message)]
                found.append((record.status, record.title, texts))
            return found
        finally:
            await store.close()

    return asyncio.run(read())


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def is_there(question: str) -> bool:
    return (paths.data_dir() / "chats.db").exists() and any(texts == [question] for _, _, texts in chats())


def refuse(*_: Any, **__: Any) -> None:
    raise OSError(28, "no space left")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, double: Double) -> list[Callable[[], None]]:
    """What is done while the model is loaded."""
    work: list[Callable[[], None]] = []

    def load(source: Any = None, **options: Any) -> Double:
        for step in work:
            step()
        return double

    monkeypatch.setattr(backend, "load", load, raising=False)
    return work


def test_the_question_is_there_while_the_model_is_loaded(loads: list[Callable[[], None]]) -> None:
    loads.append(lambda: until(lambda: is_there("why?")))
    assert main.main(["-p", "why?"]) == 0
    assert chats() == [("idle", "why?", ["why?", "Hello there."])]


@pytest.mark.parametrize("keeps_first", [True, False], ids=["question-first", "whole"])
def test_each_reply_keeps_the_name_of_the_model_that_wrote_it(
    keeps_first: bool, loads: list[Callable[[], None]], double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not keeps_first:
        monkeypatch.setattr(AskedFile, "write", refuse)
    assert main.main(["-p", "why?", "--replies", "2"]) == 0

    async def names() -> list[str | None]:
        store = Store.default()
        try:
            [record] = await store.sessions()
            items = [node.item for node in await store.tree(record.id)]
            return [
                item.llm_model for item in items if isinstance(item, Message) and item.role == "assistant"
            ]
        finally:
            await store.close()

    assert asyncio.run(names()) == [double.card.model_id] * 2


def test_the_question_outlives_the_process_before_the_model_is_loaded(
    loads: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill needs no moment of waiting: what the load finds is what the next program finds."""
    found: list[list[tuple[str, str | None, list[str]]]] = []
    loads.append(lambda: found.append(chats()))
    assert main.main(["-p", "why?", "--set", "system=Be short."]) == 0
    assert found == [[("running", "why?", ["why?"])]]


def test_nothing_is_imported_for_it_that_a_load_would_wait_for() -> None:
    program = """
import sys, app.oneshot.direct
from app.sessions.store.asked import Asked, AskedFile
file = AskedFile(Asked.now("why?", None))
file.write()
file.settle()
print(*{"asyncio", "sqlite3", "ssl", "app.sessions.store.store", "app.sessions.items"} & set(sys.modules))
"""
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout == "\n"
    assert [texts for _, _, texts in chats()] == [["why?"]]


def test_several_replies_are_branches_of_the_one_question(loads: list[Callable[[], None]]) -> None:
    loads.append(lambda: until(lambda: is_there("why?")))
    assert main.main(["-p", "why?", "--replies", "3"]) == 0
    [(status, _, texts)] = chats()
    assert status == "idle" and texts == ["why?", "Hello there."]

    async def leaves() -> int:
        async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
            [chat] = await manager.list()
            [question, *_] = await manager.list_items(chat.id)
            return len(await manager.store.children(question.id, chat.id))

    assert asyncio.run(leaves()) == 3


@pytest.mark.parametrize("flags", [["--private"], ["--raw"], ["--dry-run"]])
def test_what_is_not_kept_never_reaches_the_disk(loads: list[Callable[[], None]], flags: list[str]) -> None:
    loads.append(
        lambda: [thread.join() for thread in threading.enumerate() if "keep" in thread.name] and None
    )
    main.main(["-p", "a secret word", *flags])
    home = paths.data_dir().parents[2]
    assert not [file for file in home.rglob("*") if file.is_file() and b"secret word" in file.read_bytes()]
    assert not (paths.data_dir() / "chats.db").exists()


def test_a_model_that_cannot_be_loaded_leaves_no_chat(loads: list[Callable[[], None]]) -> None:
    def fail() -> None:
        until(lambda: is_there("why?"))
        raise ModelLoadError("It is broken.", cause="corrupt", remedy="")

    loads.append(fail)
    assert main.main(["-p", "why?"]) == 3
    assert chats() == []
    assert not list((paths.data_dir() / "locks").glob("*.lock"))


def test_an_engine_that_fails_keeps_the_question(double: Double) -> None:
    double.play = lambda config: iter([EngineError("It broke.", remedy="")])
    assert main.main(["-p", "why?"]) == 1
    assert chats() == [("idle", "why?", ["why?"])]


def test_a_store_that_takes_nothing_costs_the_answer_nothing(
    loads: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (paths.data_dir()).parent.mkdir(parents=True, exist_ok=True)
    paths.data_dir().write_text("a file where the folder should be")
    assert main.main(["-p", "why?"]) == 0
    told = capfd.readouterr()
    assert told.out == "Hello there.\n"
    assert told.err.count("this chat was not saved") == told.err.count("\n") == 1


def test_a_store_that_fails_only_at_first_has_the_whole_chat(
    loads: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AskedFile, "write", refuse)
    assert main.main(["-p", "why?"]) == 0
    assert chats() == [("idle", "why?", ["why?", "Hello there."])]


def test_a_chat_that_is_answered_now_is_not_the_last_one_of_another_process(
    loads: list[Callable[[], None]], double: Double
) -> None:
    main.main(["-p", "before"])
    seen: list[str | None] = []

    def look() -> None:
        async def read() -> None:
            async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
                last = await manager.last_used()
                seen.append(last and last.title)

        until(lambda: is_there("why?"))
        thread = threading.Thread(target=lambda: asyncio.run(read()))
        thread.start()
        thread.join()

    loads.append(look)
    main.main(["-p", "why?"])
    assert seen == ["before"]


@pytest.fixture
def killed(tiny_llama: Path) -> Iterator[None]:
    """A one-shot that was killed while it decoded."""
    process = start("-m", tiny_llama, "-p", "why?", *ENDLESS, "--format", "jsonl")
    assert process.stdout is not None
    process.stdout.readline()
    until(lambda: is_there("why?"))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    yield


@pytest.mark.timeout(60)
def test_a_kill_keeps_the_question_and_the_next_message_continues_it(killed: None, tiny_llama: Path) -> None:
    assert [texts for _, _, texts in chats()] == [["why?"]]
    environ = {**os.environ, "FIRESIDE_MODEL": str(tiny_llama)}
    done = fireside("-c", "-p", "again", "--max-tokens", "3", env=environ)
    assert done.returncode == 0, done.stderr
    [(status, title, texts)] = chats()
    assert (status, title, texts[:2]) == ("idle", "why?", ["why?", "again"])


@pytest.mark.timeout(60)
def test_a_signal_during_the_load_keeps_the_question(loads: list[Callable[[], None]], double: Double) -> None:
    def end() -> None:
        until(lambda: is_there("why?"))
        os.kill(os.getpid(), signal.SIGTERM)

    loads.append(end)
    assert main.main(["-p", "why?"]) == 143
    assert chats() == [("idle", "why?", ["why?"])]
    double.play = says("late")


def test_a_store_that_is_moved_away_meanwhile_costs_nothing(
    loads: list[Callable[[], None]], tmp_path: Path
) -> None:
    def move() -> None:
        until(lambda: is_there("why?"))
        for file in paths.data_dir().glob("chats.db*"):
            file.rename(tmp_path / file.name)

    loads.append(move)
    assert main.main(["-p", "why?"]) == 0
    assert chats() == [("idle", "why?", ["why?", "Hello there."])]


def test_a_question_that_somebody_removed_meanwhile_is_kept_with_its_answer(
    loads: list[Callable[[], None]],
) -> None:
    def remove() -> None:
        until(lambda: is_there("why?"))
        with sqlite3.connect(paths.data_dir() / "chats.db") as connection:
            connection.execute("DELETE FROM found")
            connection.execute("DELETE FROM items")
            connection.execute("DELETE FROM sessions")
        connection.close()

    loads.append(remove)
    assert main.main(["-p", "why?"]) == 0
    assert chats() == [("idle", "why?", ["why?", "Hello there."])]


def test_a_chat_of_one_question_says_so_until_it_is_continued(double: Double) -> None:
    async def labels() -> dict[str, Any]:
        store = Store.default()
        try:
            return dict((await store.sessions())[0].labels)
        finally:
            await store.close()

    assert main.main(["-p", "hi"]) == 0
    assert is_asked_once(asyncio.run(labels()))
