"""The full screen with a model of a server: the bar, the picker, and back to a model of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app import paths
from app.commands import COMMANDS
from app.settings.config import Value, resolve
from app.settings.servers import servers
from app.tui.screens.models import ModelPicker
from backend.engines.anywhere import AnywhereEngine
from backend.engines.scripted import ScriptedEngine
from tests.app.tui.pilot import Running, running
from tests.backend.engines.scripted_server import ScriptedServer, says


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("toy-7b", "other") as made:
        yield made.chat(says("Hello ", "you"))


@asynccontextmanager
async def on_server(
    server: ScriptedServer, local: ScriptedEngine | None = None, *, named: bool = True
) -> AsyncIterator[Running]:
    settings = resolve({"server": Value(server.url, "--server")} if named else {})
    engine: Any = AnywhereEngine(lambda: local or ScriptedEngine(), servers(settings))
    async with running(engine=engine, settings=settings, size=(110, 30)) as run:
        yield run


async def test_a_chat_is_answered_by_a_server_and_the_bar_says_where(server: ScriptedServer) -> None:
    async with on_server(server) as run:
        await run.ask("hi")
        assert run.texts("answer") == ["Hello you"]
        bar = run.screen()[-1]
        assert "toy 7b" in bar and f"on 127.0.0.1:{server.port}" in bar and "/unknown" in bar
        assert "cpu" not in bar and "gpu" not in bar


async def test_the_picker_offers_the_models_of_the_server(server: ScriptedServer) -> None:
    async with on_server(server) as run:
        await run.ask("hi")
        await run.send("/model")
        await run.until(lambda: isinstance(run.app.screen, ModelPicker))
        await run.until(lambda: any(f"{server.url}/v1#other" in row for row in run.screen()))
        await run.pilot.press("o", "t", "h", "e", "r", "enter")
        await run.until(lambda: run.app.model.name == "other" and run.app.model.load is None)
        await run.ask("again")
        assert server.bodies[-1]["model"] == "other"


async def test_a_chat_goes_on_with_a_model_of_this_machine_and_back(server: ScriptedServer) -> None:
    local = ScriptedEngine([["from here"]])
    async with on_server(server, local) as run:
        await run.ask("one")
        assert await run.app.load_model("local")
        await run.ask("two")
        told = [turn["content"] for turn in local.requests[0].messages or ()]
        assert told == ["one", "Hello you", "two"]
        assert await run.app.load_model(f"{server.url}#toy-7b")
        await run.ask("three")
        sent = [(turn["role"], turn["content"]) for turn in server.bodies[-1]["messages"]]
        assert sent[2:] == [("user", "two"), ("assistant", "from here"), ("user", "three")]


async def test_a_server_that_goes_away_is_told_and_the_chat_stays(server: ScriptedServer) -> None:
    async with on_server(server) as run:
        await run.ask("one")
        assert not await run.app.load_model("http://127.0.0.1:9")
        assert "cannot be reached: nothing answers there" in run.seam
        await run.ask("two")
        assert run.texts("answer") == ["Hello you", "Hello you"]


async def test_servers_of_the_settings_complete_the_command(server: ScriptedServer) -> None:
    paths.write_private(paths.config_file(), f'[servers.lab]\nurl = "{server.url}"\n')
    async with on_server(server, named=False) as run:
        [model] = [command for command in COMMANDS if command.name == "model"]
        assert model.complete is not None
        found = await model.complete(run.app.commands.face, "lab")
        assert [(one.text, one.detail) for one in found] == [("server:lab", f"{server.url}/v1")]
        assert await run.app.load_model("server:lab/other")
        await run.ask("hi")
        assert server.bodies[-1]["model"] == "other"
