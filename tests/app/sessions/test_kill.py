"""A kill at any moment loses no acknowledged item, leaves no half one, and no open call."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from app.sessions.errors import FiresideError
from app.sessions.items import FunctionCall, FunctionCallOutput, Message
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine
from tests.app.sessions.conftest import Room

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("chat_process.py")
SAMPLE = 10
ALL = 500
ENGINE_SAMPLE = 3
ENGINE_ALL = 100


class Chatter:
    """One chatting process, and every line it printed."""

    def __init__(self, store: Path, seed: int, shared: str = "", model: str = "") -> None:
        self.lines: list[list[str]] = []
        self._ready = threading.Event()
        self._told = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(store), str(seed), shared, model],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.lines.append(line.split())
            if line.startswith("READY"):
                self._ready.set()
            with self._told:
                self._told.notify_all()
        self._ready.set()

    def wait_for(self, *words: str, count: int = 1) -> None:
        """Until so many lines begin with one of the words."""
        with self._told:
            assert self._told.wait_for(lambda: sum(line[0] in words for line in self.lines) >= count, 60)

    def wait(self, seconds: float) -> None:
        """From the first moment of chatting."""
        self._ready.wait()
        assert self._process.poll() is None
        threading.Event().wait(seconds)

    def kill_after(self, seconds: float) -> None:
        self.wait(seconds)
        self.kill()

    def kill(self) -> None:
        assert self._process.poll() is None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout
        self._process.stdout.close()

    def said(self, *words: str) -> set[tuple[str, str]]:
        return {(line[1], line[2]) for line in self.lines if line[0] in words}

    @property
    def session_id(self) -> str:
        return next(line[1] for line in self.lines if line[0] == "OPEN")

    @property
    def child(self) -> int:
        """The engine child it told of last."""
        return int([line[1] for line in self.lines if line[0] == "CHILD"][-1])


def is_gone(pid: int) -> bool:
    """Whether a process has ended; it may still wait to be reaped by who adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def check(store_path: Path, kept: set[tuple[str, str]]) -> None:
    """Everything that was promised is there, every session is whole and goes on."""
    engine = ScriptedEngine()
    async with SessionManager(engine=engine, store=Store(store_path)) as manager:
        store = manager.store
        assert await store.writings() == []
        sessions = [record.id for record in await store.sessions(limit=1000)]
        held: set[tuple[str, str]] = set()
        for session_id in sessions:
            nodes = await store.tree(session_id)
            queued = await store.queued(session_id)
            found = [node.item.id for node in nodes] + [item.id for item in queued]
            assert len(found) == len(set(found))
            held |= {(session_id, item_id) for item_id in found}
            calls = [node.item.call_id for node in nodes if isinstance(node.item, FunctionCall)]
            results = [node.item.call_id for node in nodes if isinstance(node.item, FunctionCallOutput)]
            assert sorted(calls) == sorted(results)
        assert kept <= held
        for session_id in sessions:
            engine.scripts = [*engine.scripts, ["still here"]]
            items = await Room(manager, engine, session_id).say("go on")
            assert isinstance(items[-1], Message) and items[-1].text == "still here"


async def kill_one(path: Path, seed: int) -> None:
    chatter = Chatter(path, seed)
    chatter.kill_after(random.Random(seed).random() * 0.4)
    await check(path, chatter.said("KEPT", "SENT"))


async def kill_two(path: Path, seed: int) -> None:
    """Two processes on one store, each with a chat of its own and both after the same third one."""
    async with SessionManager(engine=ScriptedEngine(), store=Store(path)) as manager:
        shared = (await manager.create()).id
    chatters = [Chatter(path, seed * 2 + number, shared) for number in range(2)]
    moments = random.Random(seed)
    for chatter in chatters:
        chatter.kill_after(moments.random() * 0.3)
    await check(path, set().union(*(chatter.said("KEPT", "SENT") for chatter in chatters)))


async def a_kill(path: Path, seed: int) -> None:
    await (kill_two(path, seed) if seed % 5 == 4 else kill_one(path, seed))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(SAMPLE))
async def test_a_kill_loses_nothing(tmp_path: Path, seed: int) -> None:
    await a_kill(tmp_path / "chats.db", seed)


@pytest.mark.soak
@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(SAMPLE, ALL))
async def test_many_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    await a_kill(tmp_path / "chats.db", seed)


async def kill_with_engine(path: Path, seed: int, model: Path) -> None:
    """The chatting process, its engine child, or both at once, in the midst of a forced chat."""
    chatter = Chatter(path, seed, model=str(model))
    chatter.wait(random.Random(seed).random() * 0.5)
    child = chatter.child
    assert not is_gone(child)
    match seed % 3:
        case 0:
            chatter.kill()
        case 1:
            os.kill(child, signal.SIGKILL)
            # The chat goes on by itself: with a child of its own making, and more that is kept.
            chatter.wait_for("CHILD", count=2)
            kept = len(chatter.said("KEPT"))
            chatter.wait_for("KEPT", count=kept + 3)
            chatter.kill()
        case _:
            os.kill(child, signal.SIGKILL)
            chatter.kill()
    deadline = time.monotonic() + 30
    for pid in {child, chatter.child}:
        while not is_gone(pid):
            assert time.monotonic() < deadline, "the engine child outlives its parent"
            await asyncio.sleep(0.005)
    await check(path, chatter.said("KEPT", "SENT"))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(ENGINE_SAMPLE))
async def test_a_kill_of_the_engine_loses_nothing(tmp_path: Path, tiny_llama: Path, seed: int) -> None:
    await kill_with_engine(tmp_path / "chats.db", seed, tiny_llama)


@pytest.mark.soak
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(ENGINE_SAMPLE, ENGINE_ALL))
async def test_many_kills_of_the_engine_lose_nothing(tmp_path: Path, tiny_llama: Path, seed: int) -> None:
    await kill_with_engine(tmp_path / "chats.db", seed, tiny_llama)


@pytest.mark.timeout(60)
async def test_kills_one_after_the_other_on_the_same_store(tmp_path: Path) -> None:
    path, kept = tmp_path / "chats.db", set[tuple[str, str]]()
    for seed in range(2):
        chatter = Chatter(path, seed)
        chatter.kill_after(0.1)
        kept |= chatter.said("KEPT", "SENT")
    await check(path, kept)
    with pytest.raises(FiresideError):
        async with SessionManager(engine=ScriptedEngine(), store=Store(path)) as manager:
            await manager.get("sess_unknown")
