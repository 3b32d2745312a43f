from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.conftest import Use
from tools.context import ToolContext, ToolFile
from tools.mcp.servers import McpServerConfig, McpServers
from tools.permission.permissions import decide
from tools.registry import ToolRegistry

pytestmark = [
    pytest.mark.timeout(60),  # Each starts a server, and the package takes long to import.
    pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="the package mcp is not installed"),
]

SERVER = """
import os, sys
from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("demo")

@server.tool()
def add(a: int, b: int) -> str:
    "Add two numbers."
    return str(a + b)

@server.tool()
def fail(context: str) -> str:
    from mcp.server.mcpserver.exceptions import ToolError
    raise ToolError("no " + context)

@server.tool()
def environment() -> str:
    return " ".join(sorted(os.environ))

@server.tool()
def shot() -> Image:
    return Image(data=b"pixels", format="png")

print("noise on stderr", file=sys.stderr)
open("pid", "w").write(str(os.getpid()))
if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "server.py"


def stdio(script: Path, **options: object) -> McpServerConfig:
    return McpServerConfig("demo", (sys.executable, str(script)), **options)  # type: ignore[arg-type]


async def test_the_tools_of_a_stdio_server(script: Path, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "s3cret")
    async with McpServers([stdio(script, environment={"DEMO": "1"})]) as servers:
        assert servers.warnings == []
        registry = ToolRegistry(plugins=False)
        for made in servers.tools:
            registry.add(made)
        add = registry.get("demo_add")
        assert add.description == "Add two numbers."
        assert add.parameters["required"] == ["a", "b"]
        assert (await use(add, a=2, b=3)).text == "5"
        failed = await use(registry.get("demo_fail"), context="luck")
        assert (failed.status, "no luck" in failed.text) == ("failed", True)
        wrong = await use(add, a="x")
        assert wrong.status == "failed"
        given = ToolContext()
        assert "image/png" in await registry.get("demo_shot").function(arguments={}, context=given)
        assert given.files == [ToolFile("shot-1.png", b"pixels")]
        names = (await use(registry.get("demo_environment"))).text.split()
        assert "DEMO" in names
        assert "API_KEY" not in names
        pid = int(Path("pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (await use(add, a=2, b=3)).text == "The MCP server demo is no longer connected."


async def test_what_a_server_says_of_itself_allows_nothing(script: Path) -> None:
    async with McpServers([stdio(script, reading=("add",))]) as servers:
        tools = {made.name: made for made in servers.tools}

        class Call:
            name = "demo_environment"
            arguments: dict[str, object] = {}  # noqa: RUF012

        assert decide(Call(), tools["demo_environment"], "read", (), None).verdict == "ask"
        assert tools["demo_environment"].does == {"execute"}
        assert tools["demo_add"].does == {"read"}


async def test_a_server_that_cannot_start_is_one_warning_and_the_rest_go_on(
    script: Path, tmp_path: Path
) -> None:
    configs = [
        McpServerConfig("gone", (str(tmp_path / "no-such-program"),)),
        McpServerConfig("dies", (sys.executable, "-c", "raise SystemExit(3)")),
        McpServerConfig("empty"),
        stdio(script),
    ]
    async with McpServers(configs) as servers:
        assert [made.name for made in servers.tools] == [
            "demo_add",
            "demo_fail",
            "demo_environment",
            "demo_shot",
        ]
        assert len(servers.warnings) == 3
        for name, text in zip(("gone", "dies", "empty"), servers.warnings, strict=True):
            assert name in text


@pytest.fixture
def address(script: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(script), str(port)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 8
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


async def test_the_tools_of_an_http_server(address: str, use: Use) -> None:
    async with McpServers([McpServerConfig("web", url=address)]) as servers:
        assert servers.warnings == []
        add = next(made for made in servers.tools if made.name == "web_add")
        assert (await use(add, ToolContext(), a=20, b=22)).text == "42"


CARELESS = r"""
import json, sys
print("Starting the server ...", flush=True)
TOOLS = [
    {"name": "plain", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {"name": "untyped", "inputSchema": {"anyOf": [{"properties": {"z": {"type": "integer"}}}]}},
    {"name": "bare", "inputSchema": {}, "description": None},
    {"name": "promises", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
    {"name": "long" * 20, "inputSchema": {"type": "object"}},
    {"name": "long" * 20 + "er", "inputSchema": {"type": "object"}},
    {"description": "no name"},
]
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            version = asked["params"]["protocolVersion"]
            about = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": {}}}
            result = {"protocolVersion": version, **about}
        case "tools/list":
            result = {"tools": TOOLS}
        case "tools/call" if asked["params"]["name"] == "plain":
            result = {"content": [], "structuredContent": {"answer": 42}}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "called"}]}
        case _:
            error = {"code": -32601, "message": "no"}
            if "id" in asked:
                print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


async def test_one_careless_tool_does_not_cost_the_others(
    tmp_path: Path, use: Use, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "careless.py"
    program.write_text(CARELESS)
    async with McpServers([McpServerConfig("it", (sys.executable, str(program)))]) as servers:
        assert servers.warnings == []
        tools = {made.name: made for made in servers.tools}
        assert list(tools)[:4] == ["it_plain", "it_untyped", "it_bare", "it_promises"]
        assert len(tools) == 6
        assert all(len(name) <= 64 for name in tools)
        assert (await use(tools["it_plain"], a="x")).text == '{"answer": 42}'
        for name in ("it_untyped", "it_bare", "it_promises"):
            assert (await use(tools[name])).text == "called"
    assert capfd.readouterr() == ("", "")


def test_importing_the_room_does_not_import_the_package() -> None:
    program = "import sys, tools.mcp.servers; print('mcp' in sys.modules)"
    root = Path(__file__).resolve().parents[3]
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"
