"""Real clients of other projects, each in an environment of its own, against a server of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.server.models import Models
from app.server.serving import Options, Server
from app.server.sessions.rights import Rights
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import Pause, ScriptedEngine, Step
from backend.types import ToolCall
from fireside import tool
from tests.app.server.conftest import Start

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]
LOOK = ToolCall("abcdefghi", "look", {"q": "x"}, '{"q": "x"}')
PUT = ToolCall("123456789", "put", {"text": "x"}, '{"text": "x"}')
OMNIGENT = "omnigent-client==0.19.1"

USE_OF_OMNIGENT = """
import asyncio, io, json, sys, tarfile
from omnigent_client import OmnigentClient, StreamHooks

def bundle(**config):
    text, out = json.dumps(config).encode(), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo("config.yaml")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))
    return out.getvalue()

async def main(url):
    async with OmnigentClient(base_url=url) as client:
        look = {"name": "look", "description": "Look", "parameters": {"type": "object"}, "runtime": "client"}
        chat = await client.sessions_chat(
            bundle=bundle(name="helper", tools=[look]),
            tool_callables={"look": lambda call: f"saw {call.arguments['q']}"},
        )
        assert (await chat.query("Hello")).text == "Hi you."
        text = ""
        async for event in await chat.query("Again", stream=True):
            text += event if isinstance(event, str) else getattr(event, "delta", "") or ""
        assert text == "Again.", text
        assert (await chat.query("Look")).text == "I saw it."
        outputs = [one for one in (await chat.refresh()).items if one["type"] == "function_call_output"]
        assert outputs[-1]["output"] == "saw x"
        files = client.files.for_session(chat.session_id)
        kept = await files.upload(__file__)
        assert len(await files.get_content(kept.id)) == kept.bytes
        assert (await chat.query("Read it", files=[__file__])).text == "Read."
        assert not await chat.tree_busy()
        fork = await client.sessions.fork(chat.session_id, title="Copy")
        assert fork["title"] == "Copy"
        listed = await client.sessions.list()
        assert {one.id for one in listed} == {chat.session_id, fork["id"]}
        assert (await client.sessions.list_items(chat.session_id)).data
        assert (await client.sessions.resolve_agent("fireside")).id
        await client.sessions.set_archived(fork["id"], archived=True)

        # Without a hook it declines whatever it is asked.
        hooks = StreamHooks(on_elicitation_request=lambda ctx: "put" in ctx.message)
        asking = await client.sessions_chat(bundle=bundle(name="asking"), hooks=hooks)
        async for event in asking.send("Put it"):
            pass
        assert (await asking.refresh()).status == "idle"

        types = []
        async for event in asking.send("Count"):
            types.append(event.type)
            if event.type == "response.output_text.delta":
                await asking.cancel()
        assert types[-1] in ("response.cancelled", "response.incomplete"), types
        print("all well")

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def python312() -> str:
    """An interpreter that the client runs in."""
    for name in ("python3.14", "python3.13", "python3.12"):
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    for found in sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python")):
        return str(found)
    pytest.skip("omnigent-client needs Python 3.12")


def environment(folder: Path, python: str, *packages: str) -> Path:
    """An environment with some packages; its Python. Skips where they cannot be had."""
    subprocess.run([python, "-m", "venv", folder], check=True, capture_output=True)
    got = subprocess.run([folder / "bin/pip", "install", "-q", *packages], capture_output=True, text=True)
    if got.returncode:
        pytest.skip(f"{', '.join(packages)} cannot be installed: {got.stderr[-300:]}")
    return folder / "bin/python"


ran: list[str] = []


@tool(does="write")
def put(text: str) -> str:
    """Put a text somewhere."""
    ran.append(text)
    return "done"


def test_omnigent_client_works_unchanged(
    python312: str, tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = environment(tmp_path / "env", python312, OMNIGENT)
    scripts: list[list[Step]] = [["Hi ", "you."], ["Again."], [LOOK], ["I saw it."], ["Read."]]
    scripts += [[PUT], ["Done."], ["One ", Pause(60)]]

    def make() -> tuple[SessionManager, Models]:
        manager = SessionManager(engine=ScriptedEngine(scripts), store=Store(None), tools=[put])
        return manager, Models("scripted", None, others=False)

    (tmp_path / "use.py").write_text(USE_OF_OMNIGENT)
    rights = Rights(tools=frozenset(["put"]), remote_approval=True)
    with Server(make, Options(rights=rights, grace_s=2)) as server:
        used = subprocess.run(
            [python, tmp_path / "use.py", server.url], capture_output=True, text=True, timeout=120
        )
    assert used.stdout.strip() == "all well", used.stdout + used.stderr
    assert ran == ["x"]


def test_llm_chats_with_an_entry_for_the_server(
    tmp_path: Path, scripted: Callable[..., tuple[Server, ScriptedEngine]], start: Start
) -> None:
    python = environment(tmp_path / "env", sys.executable, "llm")
    server, _ = scripted(["Hi ", "you."], ["Again."])
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "extra-openai-models.yaml").write_text(
        f"- model_id: fireside\n  model_name: scripted\n  api_base: {server.url}/v1\n"
    )
    environ = {**os.environ, "LLM_USER_PATH": str(settings), "OPENAI_API_KEY": "none"}
    llm = [python.with_name("llm"), "-m", "fireside"]
    first = subprocess.run([*llm, "Hello"], env=environ, capture_output=True, text=True, timeout=120)
    assert first.stdout.strip() == "Hi you.", first.stderr
    whole = [*llm, "--no-stream", "-c", "More"]
    second = subprocess.run(whole, env=environ, capture_output=True, text=True, timeout=120)
    assert second.stdout.strip() == "Again.", second.stderr
