"""What lies in the current folder is neither imported nor run, whatever its name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.frontend.editor import EditorError, edit
from app.settings.kinds import SettingError
from app.settings.mcp import servers
from app.tui.program.project_files import project_files
from tests.app.process import COMMAND, ROOT, fireside
from tools.mcp.servers import McpServerConfig, McpServers

PLANTED = (
    *("json", "typing", "re", "typer", "rich", "app", "backend", "tools", "themes", "sitecustomize"),
    *("usercustomize", "tomllib", "platformdirs", "asyncio", "sqlite3", "pydantic", "llama_cpp", "numpy"),
)
PROGRAMS = ("git", "python3", "nvidia-smi", "bwrap", "sh", "bash", "vi", "less", "wl-copy", "xclip", "pip")


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder full of modules and programs that leave a mark where they run."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    mark = f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')\n"
    for name in PLANTED:
        (folder / f"{name}.py").write_text(mark)
    for name in ("app", "backend", "tools"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(mark)
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path / 'ran'}\n")
        (folder / name).chmod(0o755)
    (folder / ".env").write_text("FIRESIDE_TOOLS=evil.py\n")
    (folder / "pyproject.toml").write_text("[tool.fireside]\ntools = ['evil.py']\n")
    monkeypatch.chdir(folder)
    return folder


def ran(folder: Path) -> str:
    mark = folder.parent / "ran"
    return mark.read_text() if mark.exists() else ""


TOOL = """
import json, re, sqlite3
from tools import tool

@tool(does="nothing")
def mine() -> str:
    return json.dumps("mine")
"""


@pytest.mark.parametrize("python_path", [None, "", ".", ":", f":{ROOT}", f"{ROOT}:."])
def test_a_persons_own_tools_import_nothing_from_the_current_folder(
    hostile: Path, tmp_path: Path, python_path: str | None
) -> None:
    (hostile / "my_tools.py").write_text(TOOL)
    environ = {**os.environ, "PATH": f".::bin:{os.environ['PATH']}"}
    if python_path is not None:
        environ["PYTHONPATH"] = python_path
        # What Python itself imports before any program of ours runs is Python's to decide.
        for name in PLANTED:
            if name not in ("json", "tomllib", "platformdirs", "asyncio", "sqlite3", "pydantic", "typer"):
                (hostile / f"{name}.py").unlink()
        for name in ("app", "backend", "tools"):
            shutil.rmtree(hostile / name)
    done = fireside("tools", "run", "./my_tools.py", env=environ)
    assert done.stdout == b'"mine"\n', done.stderr
    assert ran(hostile) == ""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["doctor"], ["config", "show"], ["tools", "list"], ["models", "list"], ["-p", "hi"]],
    ids=" ".join,
)
def test_no_command_runs_what_lies_in_the_current_folder(hostile: Path, arguments: list[str]) -> None:
    environ = {**os.environ, "PATH": f".::{os.environ['PATH']}:"}
    fireside(*arguments, "--model", "none", env=environ) if arguments[0] == "-p" else fireside(
        *arguments, env=environ
    )
    assert ran(hostile) == ""


def test_where_no_whole_path_is_left_the_systems_programs_are_found(hostile: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import fireside, os; fireside._leave_current_folder()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{program}; print(os.environ['PATH'])", str(ROOT)],
        env={**os.environ, "PATH": ".:bin::"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == os.defpath


def test_the_module_form_of_the_command_imports_nothing_from_there(hostile: Path) -> None:
    """`python -m fireside` puts the current folder first; Python's own start is not ours to mend."""
    for name in PLANTED:
        if name not in ("json", "tomllib", "platformdirs", "sqlite3", "pydantic"):
            (hostile / f"{name}.py").unlink()
    for name in ("app", "backend", "tools"):
        shutil.rmtree(hostile / name)
    (hostile / "my_tools.py").write_text(TOOL)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = fireside_module("tools", "run", "./my_tools.py", environ=environ)
    assert done.stdout == b'"mine"\n', done.stderr
    assert ran(hostile) == ""


def fireside_module(*arguments: str, environ: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [COMMAND[0], "-m", "fireside", *arguments], env=environ, capture_output=True, check=False
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
@pytest.mark.parametrize(
    "setting",
    [("core.fsmonitor", "touch {mark}"), ("core.hooksPath", "hooks"), ("core.untrackedCache", "true")],
    ids=lambda setting: setting[0],
)
def test_a_repository_runs_nothing_while_its_files_are_listed(
    tmp_path: Path, setting: tuple[str, str]
) -> None:
    folder = tmp_path / "repository"
    (folder / "hooks").mkdir(parents=True)
    (folder / "a.txt").write_text("x")
    mark = tmp_path / "ran"
    for hook in ("post-index-change", "fsmonitor-watchman", "query-watchman"):
        (folder / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (folder / "hooks" / hook).chmod(0o755)
    for command in (
        ["init", "-q"],
        ["add", "a.txt"],
        ["config", setting[0], setting[1].format(mark=mark)],
    ):
        subprocess.run(["git", *command], cwd=folder, check=True)
    mark.unlink(missing_ok=True)
    assert "a.txt" in project_files(folder)
    assert not mark.exists()


@pytest.mark.parametrize("program", ["./vi", "bin/vi", "../hostile/vi"])
async def test_an_editor_is_named_by_its_whole_path_or_found_on_the_path(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    (hostile / "bin").mkdir()
    shutil.copy(hostile / "vi", hostile / "bin/vi")
    monkeypatch.setenv("VISUAL", program)
    with pytest.raises(EditorError, match="full path"):
        await edit("text", lambda: None, left=lambda text: None)  # pyright: ignore[reportArgumentType]
    assert ran(hostile) == ""


@pytest.mark.parametrize(
    "command", [["./server"], ["bin/server"], ["python3", "server.py"], ["node", "dist/server.js"]], ids=str
)
def test_settings_name_no_server_that_another_folder_could_hold(tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[mcp.demo]\ncommand = {json.dumps(command)}\n")
    with pytest.raises(SettingError, match="full path"):
        servers(file=file)
    file.write_text('[mcp.demo]\ncommand = ["python3", "/opt/server.py", "notes", "-x.py"]\n')
    assert servers(file=file)[0].command[1] == "/opt/server.py"


@pytest.mark.parametrize("module", ["mcp_demo_server", "json"])
async def test_a_server_imports_nothing_from_the_current_folder(hostile: Path, module: str) -> None:
    (hostile / f"{module}.py").write_text((hostile / "json.py").read_text())
    pytest.importorskip("mcp")
    async with McpServers([McpServerConfig("demo", (sys.executable, "-m", module))]) as found:
        assert found.tools == ()
    assert ran(hostile) == ""
