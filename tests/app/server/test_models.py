"""Several models on one engine: chosen by name, in the order in which they are asked for."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import httpx
import pytest

from app.server.model_queue import ModelQueue
from tests.app.server.test_command import HELLO, serving


async def rest() -> None:
    """Let every task go on as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nobody_waits_for_those_who_came_later() -> None:
    queue, log = ModelQueue(), list[str]()
    ends = {name: asyncio.Event() for name in "abcde"}

    async def ask(name: str, model: str | None) -> None:
        async with queue.turn(model):
            log.append(name)
            await ends[name].wait()

    tasks = [
        asyncio.create_task(ask(*one)) for one in zip("abcde", [None, None, "x", None, "x"], strict=True)
    ]
    await rest()
    assert log == ["a", "b"]  # d wants the model at work, but came after c
    ends["a"].set()
    await rest()
    assert log == ["a", "b"]
    ends["b"].set()
    await rest()
    assert log == ["a", "b", "c"]
    ends["c"].set()
    await rest()
    assert log == ["a", "b", "c", "d"]
    ends["d"].set()
    ends["e"].set()
    await asyncio.gather(*tasks)
    assert log == ["a", "b", "c", "d", "e"]


async def test_who_gives_up_holds_up_nobody() -> None:
    queue, log = ModelQueue(), list[str]()
    stay = asyncio.Event()

    async def ask(name: str, model: str | None) -> None:
        async with queue.turn(model):
            log.append(name)
            await stay.wait()

    first = asyncio.create_task(ask("a", None))
    await rest()
    other = asyncio.create_task(ask("b", "x"))
    await rest()
    same = asyncio.create_task(ask("c", None))
    await rest()
    assert log == ["a"]
    other.cancel()
    await rest()
    assert log == ["a", "c"]
    first.cancel()
    same.cancel()
    await rest()
    last = asyncio.create_task(ask("d", "y"))
    await rest()
    assert log == ["a", "c", "d"]
    last.cancel()
    with pytest.raises(asyncio.CancelledError):
        await last


def test_a_request_chooses_among_the_models_of_this_machine(
    tiny_llama: Path, tiny_base: Path, tiny_embedding: Path, tmp_path: Path
) -> None:
    models = tmp_path / "data" / "models"
    models.mkdir(parents=True, mode=0o700)
    (tmp_path / "data").chmod(0o700)
    for path in (tiny_llama, tiny_base, tiny_embedding):
        shutil.copy(path, models)
    environ = {**os.environ, "FIRESIDE_DATA": str(tmp_path / "data")}
    with serving(models / tiny_llama.name, "--private", env=environ) as (_, url):
        listed = [model["id"] for model in httpx.get(f"{url}/v1/models").json()["data"]]
        assert listed[0] == "tiny-llama" and {"tiny-base", "tiny-bert"} < set(listed)

        def ask(path: str, **body: object) -> httpx.Response:
            return httpx.post(f"{url}/v1/{path}", json=body, timeout=60)

        chat = ask("chat/completions", messages=HELLO, max_tokens=2)
        assert chat.json()["model"] == "tiny-llama"
        raw = ask("completions", model="tiny-base", prompt="the user", max_tokens=2)
        assert raw.json()["model"] == "tiny-base" and raw.json()["usage"]["completion_tokens"] == 2
        vectors = ask("embeddings", model="tiny-bert", input="the user")
        assert vectors.status_code == 200 and vectors.json()["model"] == "tiny-bert"
        again = ask("chat/completions", model="TINY-LLAMA", messages=HELLO, max_tokens=2)
        assert again.status_code == 200 and again.json()["model"] == "tiny-llama"
        wrong = ask("chat/completions", model="tiny-bert", messages=HELLO)
        assert wrong.status_code == 400 and "embedding model" in wrong.json()["error"]["message"]
        for name in (str(models / tiny_base.name), f"../models/{tiny_base.name}", "tiny", "/etc/passwd"):
            assert ask("completions", model=name, prompt="x").status_code == 404
