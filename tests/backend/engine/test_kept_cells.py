"""Cells on disk: a chat that is opened again is not read again, and a bad file costs only that."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.chat_engine import LoadSpec, Request
from backend.engine import kept_cells
from backend.engine.kept_cells import CellFiles, KeptCells, drop, model_mark
from backend.engines.host import EngineHost
from backend.engines.local import InProcessEngine
from backend.types import ChatOutcome, GenerationConfig, Message

GREEDY = GenerationConfig(max_new_tokens=24, temperature=0.0, seed=1)
LONG = "hello you and the others " * 24
CHAT: list[Message] = [{"role": "user", "content": LONG}]
REPLY = "the others and the others"
KEPT = KeptCells([1, 2, 3], bytearray(b"cells of three tokens"), ("said \N{SNOWMAN}", "or so"), (1, 2, 3, 4))


# ---- files ---------------------------------------------------------------------------------


def same(found: KeptCells | None, kept: KeptCells) -> bool:
    return found is not None and vars(found) == vars(kept)


def test_what_is_kept_is_read_back_and_private(tmp_path: Path) -> None:
    files = CellFiles(tmp_path / "cells", "model", 1 << 20)
    assert files.read("chat") is None
    assert files.write("chat", KEPT)
    assert same(files.read("chat"), KEPT)
    assert files.read("another chat") is None
    (file,) = (tmp_path / "cells").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "chat" not in file.name
    later = KeptCells([7], bytearray(b"x"))
    assert files.write("chat", later)
    assert same(files.read("chat"), later)


def test_another_model_or_way_of_loading_has_none(tmp_path: Path) -> None:
    CellFiles(tmp_path, "model, f16", 1 << 20).write("chat", KEPT)
    other = CellFiles(tmp_path, "model, q8_0", 1 << 20)
    assert other.read("chat") is None
    (file,) = tmp_path.iterdir()
    file.rename(other._path("chat"))  # pyright: ignore[reportPrivateUsage]
    assert other.read("chat") is None, "the file says itself what it is of"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_file_that_is_not_whole_is_none_and_goes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cells")
    files = CellFiles(folder, "model", 1 << 20)
    files.write("chat", KEPT)
    (file,) = folder.iterdir()
    good = file.read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    bad = data.draw(
        st.one_of(
            st.just(good[:at]),
            st.just(good + b"x"),
            st.just(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]),
            st.binary(max_size=200),
        )
    )
    file.write_bytes(bad)
    found = files.read("chat")
    # A flipped bit in the header may change a text that nothing depends on; cells and tokens are safe.
    assert found is None or (found.tokens, found.cells) == (KEPT.tokens, KEPT.cells)
    assert file.exists() == (found is not None)


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    files = CellFiles(tmp_path, "model", 3000)
    for number in range(4):
        files.write(f"chat {number}", KeptCells([1], bytearray(800)))
        for path in tmp_path.iterdir():  # Each is older than the next.
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 10))
        assert files.read("chat 0"), "it is used all the time"
    left = [number for number in range(4) if files.read(f"chat {number}")]
    assert left == [0, 2, 3] or left == [0, 3]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3000
    assert not files.write("huge", KeptCells([1], bytearray(4000)))
    assert files.read("chat 0")


def test_a_full_disk_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_cells, "LEFT_FREE_BYTES", 1 << 60)
    assert not CellFiles(tmp_path, "model", 1 << 20).write("chat", KEPT)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = CellFiles(tmp_path / "file", "model", 1 << 20)
    assert not files.write("chat", KEPT)
    assert files.read("chat") is None
    drop(tmp_path / "file", "chat")


def test_links_and_what_others_may_write_are_not_read(tmp_path: Path) -> None:
    files = CellFiles(tmp_path, "model", 1 << 20)
    files.write("chat", KEPT)
    (file,) = tmp_path.iterdir()
    file.chmod(0o666)
    assert files.read("chat") is None
    files.write("chat", KEPT)
    target = tmp_path / "elsewhere"
    file.rename(target)
    file.symlink_to(target)
    assert files.read("chat") is None
    assert target.exists()


def test_dropping_removes_it_for_every_model(tmp_path: Path) -> None:
    for model in "ab":
        CellFiles(tmp_path, model, 1 << 20).write("chat", KEPT)
        CellFiles(tmp_path, model, 1 << 20).write("other", KEPT)
    drop(tmp_path, "chat")
    assert len(list(tmp_path.iterdir())) == 2
    assert CellFiles(tmp_path, "a", 1 << 20).read("other")


def test_the_mark_of_a_model_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(3 << 20))
    first = model_mark(path, kv_type="f16")
    assert first == model_mark(path, kv_type="f16") != model_mark(path, kv_type="q8_0")
    path.write_bytes(bytes((3 << 20) - 1) + b"x")
    assert model_mark(path, kv_type="f16") != first


# ---- engines -------------------------------------------------------------------------------


async def turn(engine: InProcessEngine | EngineHost, turns: list[Message], **more: object) -> ChatOutcome:
    request = Request(messages=turns, config=GREEDY, **{"conversation": "chat", "is_lasting": True, **more})  # pyright: ignore[reportArgumentType]
    outcome = [piece async for pieces in engine.submit(request) for piece in pieces][-1]
    assert isinstance(outcome, ChatOutcome)
    return outcome


async def opened(model: Path, folder: Path) -> InProcessEngine:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(model), {"threads": 1, "slots": 2, "max_seq": 1024}))
    assert engine._model is not None  # pyright: ignore[reportPrivateUsage]
    engine._model.pipeline.keep_cells(folder, 1 << 30)  # pyright: ignore[reportPrivateUsage]
    return engine


def goes_on(first: ChatOutcome) -> list[Message]:
    return [*CHAT, {"role": "assistant", "content": first.text}, {"role": "user", "content": "hello again"}]


@pytest.mark.parametrize("architecture", ["tiny_llama", "tiny_gemma3", "tiny_recurrent", "tiny_hybrid"])
async def test_a_chat_goes_on_as_if_it_had_never_been_closed(
    architecture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model: Path = request.getfixturevalue(architecture)
    engine = await opened(model, tmp_path / "cells")
    first = await turn(engine, CHAT, forced=REPLY)
    here = await turn(engine, goes_on(first), is_lasting=False)
    await engine.unload()
    for path in (tmp_path / "cells").glob("*"):
        path.unlink()

    engine = await opened(model, tmp_path / "cells")
    await turn(engine, CHAT, forced=REPLY)
    await engine.unload()
    engine = await opened(model, tmp_path / "cells")
    restored = await turn(engine, goes_on(first))
    await engine.unload()
    assert restored.text == here.text
    assert restored.reused_tokens >= first.prompt_tokens, "the conversation was read again"


async def test_what_may_not_last_reaches_no_disk(tiny_llama: Path, tmp_path: Path) -> None:
    engine = await opened(tiny_llama, tmp_path / "cells")
    await turn(engine, CHAT, is_lasting=False)
    await turn(engine, [{"role": "user", "content": "a short one"}], conversation="short")
    await engine.unload()
    assert not list(tmp_path.glob("cells/*"))


async def test_a_forgotten_chat_leaves_no_file(tiny_llama: Path, tmp_path: Path) -> None:
    engine = await opened(tiny_llama, tmp_path / "cells")
    await turn(engine, CHAT)
    await engine.unload()
    assert len(list(tmp_path.glob("cells/*"))) == 1
    engine = await opened(tiny_llama, tmp_path / "cells")
    await turn(engine, CHAT)
    await engine.forget("chat")
    await engine.unload()
    assert not list(tmp_path.glob("cells/*"))


async def test_an_idle_chat_is_kept_before_the_end(tiny_llama: Path, tmp_path: Path) -> None:
    engine = await opened(tiny_llama, tmp_path / "cells")
    assert engine._model is not None  # pyright: ignore[reportPrivateUsage]
    engine._model.pipeline.engine.keep_after_s = 0.01  # pyright: ignore[reportPrivateUsage]
    await turn(engine, CHAT)
    while not list(tmp_path.glob("cells/*.cells")):
        await asyncio.sleep(0.005)
    await engine.unload()


async def test_a_child_keeps_its_chats_when_it_is_left_or_its_program_is_killed(
    tiny_llama: Path, tmp_path: Path
) -> None:
    spec, folder = LoadSpec(str(tiny_llama), {"threads": 1, "max_seq": 1024}), tmp_path / "cells"
    for leave in ("unload", "kill"):
        host = EngineHost(cells=(folder, 1 << 30))
        await host.load(spec)
        first = await turn(host, CHAT, forced=REPLY)
        if leave == "kill":
            child = host._child  # pyright: ignore[reportPrivateUsage]
            assert child is not None
            child._commands.close()  # pyright: ignore[reportPrivateUsage]  # What the child sees of a kill.
            child._process.wait(timeout=10)  # pyright: ignore[reportPrivateUsage]
        await host.unload()
        host = EngineHost(cells=(folder, 1 << 30))
        await host.load(spec)
        restored = await turn(host, goes_on(first))
        assert restored.reused_tokens >= first.prompt_tokens
        await host.forget("chat")
        await host.unload()
        assert not list(folder.glob("*")), leave


async def test_a_deleted_chat_is_dropped_where_no_model_is_loaded(tiny_llama: Path, tmp_path: Path) -> None:
    CellFiles(tmp_path, "model", 1 << 20).write("chat", KEPT)
    await EngineHost(cells=(tmp_path, 1 << 30)).forget("chat")
    assert not list(tmp_path.iterdir())
