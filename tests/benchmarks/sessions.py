"""What conversations cost: writing through the child and the manager against the engine in this process,
from a call's last token to the question about it, and the store when it is large.

Run on a quiet machine, from the repository, in an environment with the starter model:
    python -m tests.benchmarks.sessions [--pairs N] [--quick] [--model FILE] [--threads N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.sessions.events import ElicitationRequestEvent, SessionStatusEvent
from app.sessions.items import user_message
from app.sessions.manager import SessionManager
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import Store
from backend.bench.cases import ResultRow, row_of
from backend.bench.fresh import bare_interpreter
from backend.bench.pairs import LEAST_PAIRS, MIN_S, Estimate, Target, compare, sample
from backend.bench.report import line
from backend.bench.workload import mean_time
from backend.chat_engine import ChatEngine, LoadSpec, Request
from backend.engines.host import EngineHost
from backend.engines.local import InProcessEngine
from backend.engines.scripted import ScriptedEngine
from backend.models import starter_model
from backend.types import ChatOutcome, GenerationConfig, Piece, ToolCall
from tests.benchmarks.times import timed
from tools import tool

ASKED = "Tell me, at length, how the harbour looked when the old man was a boy."
WINDOW = 1024
TARGETS = {8: Target("at least", 0.9), 1: Target("at least", 0.97)}
APPROVAL_S, STORE_S = 0.02, 0.1
WORDS_IN_A_MESSAGE = 100


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    pairs: int
    tokens: int
    items: int
    sessions: int
    words: int


QUICK = Size(pairs=3, tokens=48, items=2_000, sessions=500, words=100_000)


def full(pairs: int) -> Size:
    """What a claim needs."""
    return Size(pairs=pairs, tokens=192, items=10_000, sessions=5_000, words=1_000_000)


class Calls(EngineHost):
    """An engine child that remembers when the last call of its replies arrived here."""

    last_call = 0.0

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        async for pieces in super().submit(request):
            if any(isinstance(piece, ToolCall) for piece in pieces):
                self.last_call = time.perf_counter()
            yield pieces


# ---- writing -------------------------------------------------------------------------------


def writing(runner: asyncio.Runner, spec: LoadSpec, size: Size) -> Iterator[ResultRow]:
    """8 sessions at once and one alone, against the same requests to an engine in this process."""
    local = InProcessEngine()
    config = {"max_new_tokens": size.tokens, "ignore_eos": True, "temperature": 0.0}
    with served(runner, EngineHost(), spec) as manager:
        runner.run(local.load(spec))
        for count, target in TARGETS.items():
            ours = through_sessions(runner, manager, count, config)
            theirs = in_process(runner, local, count, GenerationConfig.of(config))
            several = f"{count} sessions at once" if count > 1 else "one session"
            result = compare(ours, theirs, pairs=size.pairs)
            name = f"{several}, {size.tokens} tokens each, against the engine in this process"
            yield row_of("sessions", name, "tok/s", result, target)
        runner.run(local.unload())


@contextmanager
def served(
    runner: asyncio.Runner, engine: ChatEngine, spec: LoadSpec, **options: Any
) -> Generator[SessionManager]:
    """A manager on a store of its own, with the model loaded."""
    with tempfile.TemporaryDirectory() as folder:
        manager = SessionManager(engine=engine, store=Store(Path(folder) / "chats.db"), **options)
        runner.run(manager.start())
        runner.run(manager.load_model(spec.source, **spec.options))
        yield manager
        runner.run(manager.aclose())


def through_sessions(
    runner: asyncio.Runner, manager: SessionManager, count: int, config: dict[str, Any]
) -> Callable[[], float]:
    """Tokens per second of new sessions that all answer the same message."""

    async def once() -> float:
        ids = [(await manager.create()).id for _ in range(count)]
        for session_id in ids:
            await manager.configure(session_id, config=config)
        began = time.perf_counter()
        await asyncio.gather(*(answered(manager, session_id) for session_id in ids))
        spent = time.perf_counter() - began
        for session_id in ids:
            # Of a session that failed, no speed is told.
            assert (await manager.get(session_id)).status == "idle"
            await manager.delete(session_id)
        return count * config["max_new_tokens"] / spent

    return lambda: runner.run(once())


async def answered(manager: SessionManager, session_id: str) -> None:
    """Post the message, and wait for the end of the answer as a face does: by the events."""
    async with events(manager, session_id) as stream:
        data = {"role": "user", "content": ASKED}
        await manager.post_event(session_id, {"type": "message", "data": data})
        async for event in stream:
            if isinstance(event, SessionStatusEvent) and event.status in ("idle", "failed"):
                return


@asynccontextmanager
async def events(manager: SessionManager, session_id: str) -> AsyncGenerator[Any]:
    """The events of a session from now on."""
    stream = manager.stream(session_id)
    await anext(stream)
    try:
        yield stream
    finally:
        await stream.aclose()


def in_process(
    runner: asyncio.Runner, engine: InProcessEngine, count: int, config: GenerationConfig
) -> Callable[[], float]:
    """Tokens per second of as many requests at once."""

    async def reply() -> int:
        request = Request(messages=({"role": "user", "content": ASKED},), config=config)
        async for pieces in engine.submit(request):
            for piece in pieces:
                if isinstance(piece, ChatOutcome):
                    return piece.new_tokens
        raise AssertionError("a reply had no outcome")

    async def once() -> float:
        began = time.perf_counter()
        tokens = sum(await asyncio.gather(*(reply() for _ in range(count))))
        return tokens / (time.perf_counter() - began)

    return lambda: runner.run(once())


# ---- approvals -----------------------------------------------------------------------------


@tool(does="write")
def change() -> str:
    """Change something."""
    return "changed"


def approving(runner: asyncio.Runner, spec: LoadSpec, size: Size, unit: Estimate) -> ResultRow:
    """From the arrival of a call to the event that asks about it."""
    engine = Calls()
    spec = replace(spec, options={**spec.options, "tool_call_format": "generic"})
    config = {"tool_choice": "required", "max_new_tokens": 200, "temperature": 0.0}
    with served(runner, engine, spec, tools=[change]) as manager:

        async def once() -> float:
            session_id = (await manager.create()).id
            await manager.configure(session_id, config=config, max_rounds=1)
            async with events(manager, session_id) as stream:
                data = {"role": "user", "content": ASKED}
                await manager.post_event(session_id, {"type": "message", "data": data})
                async for event in stream:
                    if isinstance(event, ElicitationRequestEvent):
                        spent = time.perf_counter() - engine.last_call
                        break
                else:
                    raise AssertionError("nothing was asked")
            await manager.delete(session_id)
            return spent

        took = sample(lambda: runner.run(once()), count=size.pairs)
    return timed("sessions", "from a call's last token to the question about it", took, unit, APPROVAL_S)


# ---- the store -----------------------------------------------------------------------------


def storing(runner: asyncio.Runner, size: Size, unit: Estimate) -> Iterator[ResultRow]:
    """Opening a long session, listing many, and searching all words."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        runner.run(fill(path, size))

        async def opened() -> float:
            async with manager_of(path) as manager:
                began = time.perf_counter()
                snapshot = await manager.get("long")
                spent = time.perf_counter() - began
                assert snapshot.has_more_items
            return spent

        yield stored(runner, f"open a session of {size.items:,} items", opened, size, unit)
        manager = SessionManager(engine=ScriptedEngine(closed=True), store=Store(path))
        runner.run(manager.start())

        async def listed() -> float:
            began = time.perf_counter()
            found = await manager.list(size.sessions)
            assert len(found) == size.sessions
            return time.perf_counter() - began

        yield stored(runner, f"list {size.sessions:,} sessions", listed, size, unit)
        for kind, query in (("a rare word", "w19999"), ("a frequent word", "w1"), ("two words", "w5 w900")):

            async def searched(query: str = query) -> float:
                began = time.perf_counter()
                assert await manager.search(query)
                return time.perf_counter() - began

            yield stored(runner, f"search {size.words:,} words for {kind}", searched, size, unit)
        runner.run(manager.aclose())


@asynccontextmanager
async def manager_of(path: Path) -> AsyncGenerator[SessionManager]:
    """A manager that has just started on a store."""
    async with SessionManager(engine=ScriptedEngine(closed=True), store=Store(path)) as manager:
        yield manager


async def fill(path: Path, size: Size) -> None:
    """One long session, and the other words and sessions beside it. Words are as frequent as in prose."""
    store, words = Store(path), random.Random(7)
    vocabulary = [f"w{number}" for number in range(20_000)]
    weights = [1 / (number + 1) for number in range(len(vocabulary))]
    messages = size.words // WORDS_IN_A_MESSAGE
    texts = [" ".join(words.choices(vocabulary, weights, k=WORDS_IN_A_MESSAGE)) for _ in range(messages)]
    texts[len(texts) // 2] += f" {vocabulary[-1]}"
    agent = {"name": "fireside"}
    await store.add_session(SessionRecord(id="long", agent=agent, title="long"))
    await store.apply("long", Change(items=[user_message(text) for text in padded(texts, size.items)]))
    for number in range(size.sessions - 1):
        await store.add_session(SessionRecord(id=f"s{number}", agent=agent, title=f"chat {number}"))
    rest = texts[size.items :]
    if rest:
        await store.apply("s0", Change(items=[user_message(text) for text in rest]))
    await store.close()


def padded(texts: Sequence[str], count: int) -> list[str]:
    """`count` texts; short ones where there are not so many."""
    return [*texts[:count], *("yes" for _ in range(count - len(texts)))]


def stored(
    runner: asyncio.Runner, name: str, measure: Callable[[], Any], size: Size, unit: Estimate
) -> ResultRow:
    """The row of an operation on the store."""

    def once() -> float:
        return runner.run(measure())

    took = sample(lambda: mean_time(once, MIN_S / 5), count=size.pairs)
    return timed("sessions", name, took, unit, STORE_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS)
    parser.add_argument("--quick", action="store_true", help="few and small, which supports no claim")
    parser.add_argument("--model", default=starter_model(), help="a GGUF file; the starter by default")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    size = QUICK if options.quick else full(options.pairs)
    spec = LoadSpec(str(options.model), {"slots": 8, "max_seq": WINDOW, "threads": options.threads})
    unit = sample(lambda: mean_time(bare_interpreter, MIN_S), count=1 if options.quick else 5)
    print(f"{size.pairs} interleaved pairs a row; milliseconds beside `python -c pass`")
    with asyncio.Runner() as runner:
        for row in storing(runner, size, unit):
            print(line(row), flush=True)
        print(line(approving(runner, spec, size, unit)), flush=True)
        for row in writing(runner, spec, size):
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
