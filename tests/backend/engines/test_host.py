"""The engine child: it answers, it dies with its parent, and its death costs one reply."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backend.chat_engine import LoadSpec, Request
from backend.engines import wire
from backend.engines.host import EngineHost
from backend.engines.host_child import Child
from backend.types import ChatOutcome, EngineError, GenerationConfig, ModelLoadError, Piece, TextPiece

pytestmark = pytest.mark.timeout(60)
LONG = 1900
"""Tokens of a reply that is to be ended by us: seconds of it, whatever else the machine does."""
HI = ({"role": "user", "content": "hi"},)
ROOT = Path(__file__).parents[3]


def spec(path: Path) -> LoadSpec:
    return LoadSpec(str(path), {"slots": 2, "threads": 1, "max_seq": 2048})


def request(tokens: int = 16, **fields) -> Request:
    config = GenerationConfig(temperature=0.0, max_new_tokens=tokens, ignore_eos=True)
    return Request(messages=HI, config=config, **fields)


async def collect(host: EngineHost, asked: Request) -> list[Piece]:
    return [piece async for pieces in host.submit(asked) for piece in pieces]


@pytest.fixture
async def host(tiny_llama: Path, tmp_path: Path) -> AsyncIterator[EngineHost]:
    engine = EngineHost(log=tmp_path / "engine.log")
    await engine.load(spec(tiny_llama))
    yield engine
    await engine.unload()


async def test_it_loads_with_progress_and_answers(tiny_llama: Path, tmp_path: Path) -> None:
    host, seen = EngineHost(log=tmp_path / "engine.log"), []
    card = await host.load(spec(tiny_llama), lambda fraction: seen.append(fraction) or True)
    assert card == host.card
    assert seen
    assert seen[-1] == 1.0
    pieces = await collect(host, request())
    outcome = pieces[-1]
    assert isinstance(outcome, ChatOutcome)
    assert outcome.new_tokens == 16
    assert outcome.text == "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    assert outcome.text == (await collect(host, request()))[-1].text  # type: ignore[union-attr]
    await host.unload()
    assert host.closed
    assert (tmp_path / "engine.log").stat().st_size > 0


async def test_several_requests_run_at_once(host: EngineHost) -> None:
    outcomes = await asyncio.gather(*(collect(host, request(24)) for _ in range(4)))
    assert len({pieces[-1].text for pieces in outcomes}) == 1  # type: ignore[union-attr]


async def test_counts_renders_and_tokenizes(host: EngineHost) -> None:
    rendered = await host.render(request())
    assert rendered.tokens is not None
    assert (await host.count(HI)).tokens == len(rendered.tokens)
    assert await host.detokenize(await host.tokenize("hello")) == "hello"
    assert (await host.stats()).slots >= 0
    with pytest.raises(ValueError, match="embedding"):
        await host.embed(["x"])


async def test_a_count_is_answered_with_a_number(host: EngineHost, monkeypatch: pytest.MonkeyPatch) -> None:
    long = [{"role": "user", "content": "a long story " * 50}]
    expected = len((await host.render(Request(messages=long))).tokens or ())
    lines: list[bytes] = []
    read = wire.loads
    monkeypatch.setattr(wire, "loads", lambda line: lines.append(line) or read(line))
    assert (await host.count(long)).tokens == expected
    assert [len(line) < 64 for line in lines] == [True]
    assert (await host.count(long, config=GenerationConfig(max_new_tokens=1))).tokens == expected
    with pytest.raises(ValueError, match="assistant"):
        await host.count(long, continue_reply=True)


@pytest.mark.model
@pytest.mark.timeout(120)
async def test_a_real_model_is_sent_as_many_tokens_as_were_counted(starter_model: Path) -> None:
    host = EngineHost()
    await host.load(LoadSpec(str(starter_model), {"max_seq": 2048}))
    config = GenerationConfig(temperature=0.0, max_new_tokens=24)
    said = [{"role": "user", "content": "Name three colours."}]
    for text in ("And three more.", "Which is the darkest?"):
        counted = (await host.count(said, (), config, "chat")).tokens
        outcome = (await collect(host, Request(messages=said, config=config, conversation="chat")))[-1]
        assert isinstance(outcome, ChatOutcome)
        assert outcome.prompt_tokens == counted
        said = [*said, {"role": "assistant", "content": outcome.text}, {"role": "user", "content": text}]
    await host.unload()


def test_the_child_renders_once_what_is_counted_and_then_asked(tiny_llama: Path) -> None:
    commands, to_child = os.pipe()
    from_child, answers = os.pipe()
    with (
        os.fdopen(commands, "rb") as heard,
        os.fdopen(answers, "wb") as said,
        os.fdopen(from_child, "rb") as told,
        os.fdopen(to_child, "wb") as send,
    ):
        child = Child(heard, said)
        serving = threading.Thread(target=child.run)
        serving.start()

        def tell(**command: Any) -> None:
            send.write(wire.dumps(command))
            send.flush()

        def ask(**command: Any) -> Any:
            tell(**command, re=1)
            while "value" not in (answer := wire.loads(told.readline())):
                assert "error" not in answer
            return answer["value"]

        ask(op="load", spec=spec(tiny_llama))
        renderer = child._model.handle.template._renderer
        before, asked = renderer.renders, request(4, conversation="chat")
        tokens = ask(op="count", request=asked)
        tell(op="submit", request=asked)
        while not isinstance((pieces := wire.loads(told.readline())["pieces"])[-1], ChatOutcome):
            pass
        assert pieces[-1].prompt_tokens == tokens
        assert renderer.renders == before + 1
        ask(op="unload")
        send.close()
        serving.join()


async def test_a_cancelled_request_ends_as_cancelled(host: EngineHost) -> None:
    asked = request(LONG)
    outcome = None
    async for pieces in host.submit(asked):
        host.cancel(asked.id)
        outcome = pieces[-1]
    assert isinstance(outcome, ChatOutcome)
    assert outcome.finish == "cancelled"


async def test_an_abandoned_stream_frees_its_slot(host: EngineHost) -> None:
    stream = host.submit(request(LONG))
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    while (await host.stats()).running:
        await asyncio.sleep(0)
    assert (await collect(host, request()))[-1].finish == "length"  # type: ignore[union-attr]


async def kill_while_it_answers(host: EngineHost) -> None:
    """End the child with its first pieces; more of them may be on their way."""
    killed = None
    async for _ in host.submit(request(LONG)):
        if killed is None:
            killed = host.pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)


async def test_a_kill_costs_the_running_reply_and_nothing_else(host: EngineHost) -> None:
    first = host.pid
    assert first is not None
    with pytest.raises(EngineError, match="SIGKILL") as raised:
        await kill_while_it_answers(host)
    assert "will be reloaded" in raised.value.remedy
    assert (await collect(host, request()))[-1].finish == "length"  # type: ignore[union-attr]
    assert host.pid != first


async def test_after_two_crashes_nothing_restarts_by_itself(host: EngineHost) -> None:
    for _ in range(2):
        with pytest.raises(EngineError, match="SIGKILL"):
            await kill_while_it_answers(host)
    with pytest.raises(EngineError, match="crashed 2 times"):
        await collect(host, request())
    assert (await collect(host, request()))[-1].finish == "length"  # type: ignore[union-attr]


async def test_a_bad_file_is_a_load_error_and_the_next_load_works(
    host: EngineHost, tiny_llama: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF\x03\0\0\0")
    with pytest.raises(ModelLoadError) as raised:
        await host.load(spec(bad))
    assert raised.value.cause == "truncated"
    await host.load(spec(tiny_llama))
    assert await collect(host, request())


async def test_an_idle_model_is_unloaded_and_comes_back(tiny_llama: Path, tmp_path: Path) -> None:
    host = EngineHost(log=tmp_path / "engine.log", idle_s=0.05)
    await host.load(spec(tiny_llama))
    while host.pid is not None:
        await asyncio.sleep(0)
    assert await collect(host, request())
    await host.unload()


async def test_counting_keeps_an_idle_child_awake(tiny_llama: Path, tmp_path: Path) -> None:
    host = EngineHost(log=tmp_path / "engine.log", idle_s=1)
    await host.load(spec(tiny_llama))
    first, deadline = host.pid, time.monotonic() + 1.5
    while time.monotonic() < deadline:
        await host.count(HI)
        assert host.pid == first
    await host.unload()


async def test_the_residency_counts_the_cache_once_it_is_there(host: EngineHost) -> None:
    assert host.residency["pipeline"]["kv_cache_bytes"] == 0
    await collect(host, request())
    assert host.residency["pipeline"]["kv_cache_bytes"] > 0


def test_the_child_dies_with_its_parent(tiny_llama: Path) -> None:
    code = (
        f"import sys, asyncio, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "from backend.engines.host import EngineHost\nfrom backend.chat_engine import LoadSpec\n"
        "async def main():\n"
        "    host = EngineHost()\n"
        f"    await host.load(LoadSpec({str(tiny_llama)!r}, {{'threads': 1}}))\n"
        "    print(host.pid, flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while _lives(child):
        assert time.monotonic() < deadline, "the child outlived its parent"


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
