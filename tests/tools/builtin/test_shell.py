from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.tools.conftest import Use
from tools.builtin.shell import run_python, run_shell
from tools.context import Limits, ToolContext
from tools.permission.permissions import decide
from tools.sandbox.bubblewrap import Sandbox
from tools.workspace import Workspace

pytestmark = pytest.mark.timeout(60)  # They start processes.


async def test_a_command_runs_in_the_workspace(use: Use, space: Workspace) -> None:
    assert (await use(run_shell, command="pwd; ls src")).text == f"{space.root}\na.py\n"


async def test_as_10_exactly_the_shown_text_reaches_one_shell(use: Use, space: Workspace) -> None:
    await use(run_shell, command="cat <<'EOF' > n.txt\nit's $HOME and \"x\"\nEOF")
    assert (space.root / "n.txt").read_bytes() == b'it\'s $HOME and "x"\n'


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("true", "[no output, exit code 0]"),
        ("echo x; exit 2", "x\n[exit code 2]"),
        ("printf x; exit 2", "x\n[exit code 2]"),
        ("cat; echo end", "end\n"),
        ("printf 'caf\\351'", "caf\ufffd"),
    ],
)
async def test_how_it_ended_is_said(use: Use, command: str, text: str) -> None:
    assert (await use(run_shell, command=command)).text == text


async def test_cc_04_a_timeout_says_so_and_ends_the_turns_wait(use: Use, space: Workspace) -> None:
    result = await use(run_shell, command="echo before; sleep 600 & echo $! > pid; wait", timeout_s=1)
    assert result.text == "before\n[timed out after 1 s; everything it started was stopped]"
    with pytest.raises(ProcessLookupError):
        os.kill(int((space.root / "pid").read_text()), 0)


async def test_cancelling_a_running_command_ends_its_tree(use: Use, space: Workspace) -> None:
    context = ToolContext(sandbox=Sandbox(None))
    task = asyncio.create_task(use(run_shell, context, command="sleep 600 & echo $! > p; mv p pid; wait"))
    while not (space.root / "pid").exists():
        await asyncio.sleep(0.01)
    context.cancellation.set()
    assert (await task).status == "cancelled"
    with pytest.raises(ProcessLookupError):
        os.kill(int((space.root / "pid").read_text()), 0)


async def test_co_07_a_flood_is_cut_and_kept(use: Use, tmp_path: Path) -> None:
    context = ToolContext(
        sandbox=Sandbox(None), limits=Limits(output_bytes=4096), output_folder=tmp_path / "outputs"
    )
    result = await use(run_python, context, code="print('line\\n'*200000)")
    assert len(result.text.encode()) <= 4096
    assert "of 1,000,001 bytes left out" in result.text
    assert result.file is not None
    assert result.file.stat().st_size == 1_000_001


async def test_output_streams_while_it_runs(use: Use, space: Workspace) -> None:
    seen: list[str] = []
    context = ToolContext(sandbox=Sandbox(None), on_progress=seen.append)
    command = "echo early; while [ ! -e go ]; do sleep 0.01; done; echo late"
    task = asyncio.create_task(use(run_shell, context, command=command))
    while not seen:
        await asyncio.sleep(0.01)
    assert seen == ["early\n"]
    (space.root / "go").touch()
    assert (await task).text == "early\nlate\n"


async def test_python_runs_apart_from_this_program(use: Use) -> None:
    result = await use(run_python, code="import sys, os\nprint(sys.flags.isolated, os.getcwd())\nexit(3)")
    assert result.text.startswith("1 ")
    assert result.text.endswith("[exit code 3]")


async def test_a_command_the_system_cannot_take_is_explained(use: Use) -> None:
    for command in ("x" * 200_000, "a\0b", "\ud83c"):
        result = await use(run_shell, command=command)
        assert (result.status, "cannot be run" in result.text) == ("failed", True)


def test_a_command_the_system_cannot_take_asks_nobody(space: Workspace) -> None:
    for tool, name in ((run_shell, "command"), (run_python, "code")):
        call = SimpleNamespace(name=tool.name, arguments={name: "x" * 140_000})
        decision = decide(call, tool, "ask", (), space)
        assert (decision.verdict, "128 KiB" in decision.reason) == ("deny", True)


# ---- the sandbox ---------------------------------------------------------------------------


def test_the_sandbox_hides_home_and_binds_the_workspace(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = space.root.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (space.root / ".git" / "hooks").mkdir(parents=True)
    (space.root / "data").mkdir()
    command = Sandbox("/usr/bin/bwrap").wrap(("ls", "-l"), space, network=False)
    text = " ".join(command)
    assert command[-3:] == ["--", "ls", "-l"]
    assert text.startswith("/usr/bin/bwrap --die-with-parent --new-session --unshare-all --ro-bind / /")
    assert "--share-net" not in command
    order = [
        text.index(part)
        for part in (
            f"--tmpfs {home}",
            f"--bind {space.root} {space.root}",
            f"--ro-bind {space.root}/.git/hooks",
            f"--tmpfs {space.root}/data",
        )
    ]
    assert order == sorted(order)
    assert "--share-net" in Sandbox("/usr/bin/bwrap").wrap(("ls",), space, network=True)


def test_without_a_sandbox_the_command_is_itself_and_that_is_said(space: Workspace) -> None:
    assert Sandbox(None).wrap(("ls",), space, network=False) == ["ls"]
    assert Sandbox(None).describe(network=False).startswith("not sandboxed")


async def test_inside_the_sandbox(use: Use, space: Workspace, sandbox: Sandbox) -> None:
    home = Path(os.environ["HOME"])
    (home / "secret").write_text("s")
    (space.root / "data").mkdir()
    (space.root / "data" / "chats.db").write_text("s")
    (space.root / ".git" / "hooks").mkdir(parents=True)
    outside = space.root.parent / "outside"
    command = f"""
        echo made > made.txt && echo wrote
        ls -A "$HOME" | wc -l
        ls -A data | wc -l
        (echo x > .git/hooks/pre-commit) 2>/dev/null || echo hooks are read-only
        (echo x > /etc/evil) 2>/dev/null || echo the system is read-only
        [ -e {outside} ] || echo the outside is not there
    """
    result = await use(run_shell, ToolContext(sandbox=sandbox), command=command)
    assert result.text.splitlines() == [
        "wrote",
        "0",
        "0",
        "hooks are read-only",
        "the system is read-only",
        "the outside is not there",
    ]
    assert (space.root / "made.txt").read_text() == "made\n"


async def test_the_sandbox_has_no_network_unless_allowed(use: Use, sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint('connected')"
        without = await use(run_python, ToolContext(sandbox=sandbox), code=code)
        allowed = await use(run_python, ToolContext(sandbox=sandbox), code=code, network=True)
    assert "connected" not in without.text
    assert allowed.text == "connected\n"


async def test_a_timeout_ends_what_runs_in_the_sandbox(use: Use, sandbox: Sandbox) -> None:
    tag = f"{os.getpid()}.25"
    command = f"(setsid sleep {tag} &) ; sleep {tag}"
    result = await use(run_shell, ToolContext(sandbox=sandbox), command=command, timeout_s=1)
    assert "timed out" in result.text
    assert not [line for line in command_lines() if tag.encode() in line]


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()
