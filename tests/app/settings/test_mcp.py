from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import paths
from app.cli import main
from app.frontend.tool_choice import choose
from app.sessions.errors import InvalidInputError
from app.sessions.items import FunctionCallOutput
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.settings.config import resolve
from app.settings.kinds import SettingError
from app.settings.mcp import mcp_tools, servers
from backend.engines.scripted import ScriptedEngine
from backend.types import ToolCall
from tests.app.process import fireside
from tests.app.sessions.conftest import Room
from tools.context import ToolContext
from tools.mcp.connection import McpConnection
from tools.mcp.servers import McpServerConfig

Cap = pytest.CaptureFixture[str]
pytestmark = pytest.mark.timeout(60)  # Most start a server, and the package takes long to import.

SERVER = """
import os
from mcp.server.mcpserver import MCPServer

server = MCPServer("demo")

@server.tool()
def add(a: int, b: int) -> str:
    "Add two numbers."
    return str(a + b)

open("pid", "w").write(str(os.getpid()))
server.run("stdio")
"""

WAIT = """
@server.tool()
async def wait() -> str:
    import asyncio, pathlib, sys
    folder = pathlib.Path(sys.argv[1])
    try:
        (folder / "began").touch()
        await asyncio.sleep(60)
    finally:
        (folder / "ended").touch()
    return "waited"
"""


def write(text: str) -> Path:
    file = paths.config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def write_demo(folder: Path) -> None:
    (folder / "server.py").write_text(SERVER)
    command = json.dumps([sys.executable, str(folder / "server.py")])
    write(f'model = "a.gguf"\n[mcp.demo]\ncommand = {command}\nreading = ["add"]\n')


def test_each_server_is_a_table_of_its_own() -> None:
    file = write(
        '[mcp.files]\ncommand = ["serve", "--all"]\nenvironment = {KEY = "x"}\nreading = ["list"]\n'
        '[mcp.web]\nurl = "https://example.org/mcp"\n'
    )
    assert servers() == [
        McpServerConfig("files", ("serve", "--all"), "", {"KEY": "x"}, ("list",)),
        McpServerConfig("web", url="https://example.org/mcp"),
    ]
    assert resolve({}, environ={}, file=file).values == {}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("files_*", ["files"]),
        ("files_list", ["files"]),
        ("*", ["files", "web"]),
        ("*_list", ["files", "web"]),
        ("fil*", ["files"]),
        ("read_*,now", []),
        ("files", []),
        ("w?b_get", ["web"]),
        ("now,web_get", ["web"]),
    ],
)
def test_only_servers_that_may_have_the_tool_are_asked(wanted: str, names: list[str]) -> None:
    write('[mcp.files]\ncommand = ["serve"]\n[mcp.web]\nurl = "https://example.org/mcp"\n')
    assert [one.name for one in servers([wanted])] == names


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mcp = 1", "is a table"),
        ("[mcp]\ndemo = 1", "is a table"),
        ("[mcp.demo]", "either a command"),
        ('[mcp.demo]\ncommand = ["a"]\nurl = "http://b"', "either a command"),
        ('[mcp.demo]\ncommand = "a b"', "list of strings"),
        ("[mcp.demo]\ncommand = []", "list of strings"),
        ('[mcp.demo]\nurl = "file:///etc/passwd"', "http"),
        ('[mcp.demo]\nurl = "http://b"\nheaders = 1', "'headers'"),
        ('[mcp.demo]\ncommand = ["a"]\nenvironment = {A = 1}', "environment"),
        ('[mcp."a/b"]\ncommand = ["a"]', "name"),
    ],
)
def test_what_cannot_be_used_names_its_place(text: str, reason: str) -> None:
    file = write(text)
    with pytest.raises(SettingError, match=reason) as told:
        servers()
    assert str(file) in str(told.value)


def test_a_configured_server_is_listed_and_its_tool_runs(tmp_path: Path, capfd: Cap) -> None:
    pytest.importorskip("mcp")
    write_demo(tmp_path)
    listed = fireside("tools", "list", "--json", cwd=tmp_path)
    found = {one["name"]: one for one in json.loads(listed.stdout)["tools"]}
    assert (found["demo_add"]["source"], found["demo_add"]["does"]) == ("MCP demo", ["read"])
    (tmp_path / "pid").unlink()
    ran = fireside("tools", "run", "demo_add", "a=2", "b=3", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (0, b"5\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_server_that_is_not_wanted_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    write_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main.main(["tools", "run", "calculate", "expression=1+1"]) == 0
    assert not (tmp_path / "pid").exists()


def test_a_server_that_fails_is_one_line_and_the_rest_is_listed(capfd: Cap) -> None:
    pytest.importorskip("mcp")
    write('[mcp.gone]\ncommand = ["/no/such/program"]\n')
    assert main.main(["tools", "list"]) == 0
    out, err = capfd.readouterr()
    assert "run_shell" in out and "gone" in err


def test_the_package_is_imported_only_for_a_configured_server() -> None:
    program = (
        "import sys; from app.cli import main as cli; cli.main(['tools', 'list']); "
        "print([name for name in ('mcp', 'tools.mcp.servers') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("named", [True, False])
async def test_a_chat_uses_a_servers_tool_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    pytest.importorskip("mcp")
    write_demo(tmp_path)
    monkeypatch.chdir(tmp_path)
    made, warnings = (mcp_tools("demo_*"), []) if named else choose(["demo_*"], None)
    assert warnings == []
    assert not named or mcp_tools("demo_subtract") == []
    engine = ScriptedEngine([[ToolCall("c1", "demo_add", {"a": 2, "b": 3})], ["five"]])
    async with SessionManager(
        engine=engine, store=Store(None), tools=made, approve="read", workspace=tmp_path
    ) as manager:
        room = Room(manager, engine, (await manager.create()).id)
        items = await room.say()
    assert [item.output for item in items if isinstance(item, FunctionCallOutput)] == ["5"]


def test_settings_of_servers_that_cannot_be_used_are_refused() -> None:
    write("[mcp.demo]")
    with pytest.raises(SettingError, match="either a command"):
        mcp_tools("demo_*")


def test_a_manager_is_handed_the_tools_of_servers_and_reads_no_settings() -> None:
    write("[mcp.demo]")
    with pytest.raises(InvalidInputError, match="No tool named demo_"):
        SessionManager(engine=ScriptedEngine(), store=Store(None), tools="demo_*")
    program = "import sys; from app.sessions import tools_adapter; print('app.settings' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


async def test_a_cancelled_call_ends_at_the_server_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")
    monkeypatch.chdir(tmp_path)
    slow = SERVER.replace('open("pid"', WAIT + '\nopen("pid"')
    (tmp_path / "server.py").write_text(slow)
    connection = McpConnection(
        [McpServerConfig("demo", (sys.executable, str(tmp_path / "server.py"), str(tmp_path)))]
    )
    try:
        wait = next(tool for tool in connection.tools if tool.name == "demo_wait")
        call = asyncio.create_task(wait.function({}, ToolContext()))
        while not (tmp_path / "began").exists():
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while not (tmp_path / "ended").exists():
            await asyncio.sleep(0.005)
    finally:
        connection.close()
    assert connection.warnings == ()
