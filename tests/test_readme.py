from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app.doctor.engine import INDEX

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SET_UP = [text for kind, text in BLOCKS if kind == "sh"][:2]
LINES = [line for kind, text in BLOCKS if kind == "sh" and text not in SET_UP for line in text.splitlines()]
INSTALLS = [line for line in LINES if " install " in line]
COMMANDS = [line for line in LINES if line not in INSTALLS]
SNIPPETS = [text for kind, text in BLOCKS if kind == "python"]

MAKE_PIP = """
mkdir -p .venv/bin
printf '#!/bin/sh\\nprintf "%%s\\\\n" pip "$@" >> "$TOLD"\\n' > .venv/bin/pip
chmod 755 .venv/bin/pip
"""
"""What stands in for making an environment."""

pytestmark = [pytest.mark.model, pytest.mark.timeout(120)]


@pytest.fixture
def environ(tmp_path: Path, starter_model: Path) -> dict[str, str]:
    """The environment of a person who has installed this checkout."""
    command = tmp_path / "bin" / "fireside"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{ROOT / "fireside.py"}" "$@"\n', encoding="utf-8"
    )
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def succeed(command: list[str], environ: dict[str, str], cwd: Path) -> str:
    result = subprocess.run(
        command, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_readme_opens_with_its_two_set_up_commands() -> None:
    assert all(text.startswith("python3 -m venv") and text.count("\n") == 1 for text in SET_UP)
    assert README.index(SET_UP[1]) < README.index("## ")


def test_the_tests_use_every_core() -> None:
    assert SET_UP[1].rstrip().endswith("pytest -n auto --dist worksteal")


def test_it_says_above_the_first_line_that_it_compiles_for_minutes() -> None:
    above = README[: README.index(SET_UP[0])].splitlines()[-3]
    assert "compiles" in above and "minutes" in above and "pip" in above


def test_other_ways_to_install_are_shown_before_anything_else() -> None:
    first = README[: README.index("\n## ")]
    assert [line.split()[0] for line in INSTALLS] == ["python3", "pipx", "uv"]
    assert all(line in first for line in INSTALLS)


@pytest.mark.parametrize("line", INSTALLS, ids=lambda line: line.split()[0])
def test_each_way_to_install_runs_what_it_shows(line: str, environ: dict[str, str], tmp_path: Path) -> None:
    """Up to the download: stand-ins take the place of the programs that fetch, and pip reads the rest."""
    told = tmp_path / "told"
    (tmp_path / "stand-ins").mkdir()
    for name in ("python3", "pipx", "uv"):
        stand_in = tmp_path / "stand-ins" / name
        stand_in.write_text(
            f'#!/bin/sh\nprintf "%s\\n" {name} "$@" >> "{told}"\n{MAKE_PIP if name == "python3" else ""}'
        )
        stand_in.chmod(0o755)
    where = {**environ, "PATH": f"{tmp_path / 'stand-ins'}:{environ['PATH']}", "TOLD": str(told)}
    succeed(["bash", "-euo", "pipefail", "-c", line], where, tmp_path)
    arguments = told.read_text().splitlines()
    extra = re.fullmatch(r"\.\[(\w+)\]", arguments[-1])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra and extra[1] in project["optional-dependencies"]
    flat = " ".join(arguments)
    assert f"{INDEX}/cpu" in flat and re.search("--(only-binary|no-build-package) llama-cpp-python", flat)
    if "uv" not in arguments:
        options = flat[flat.index("--only-binary") :].split()[:4]
        own = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--no-index", *options]
        succeed([*own, "--no-build-isolation", "-q", f".[{extra[1]}]", "--report", "-"], environ, ROOT)


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_works(line: str, environ: dict[str, str]) -> None:
    assert succeed(["bash", "-euo", "pipefail", "-c", line], environ, ROOT).strip()


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_each_snippet_works(snippet: str, environ: dict[str, str], tmp_path: Path) -> None:
    assert succeed([sys.executable, "-c", snippet], environ, tmp_path).strip()


def test_the_script_of_the_readme_goes_on_after_a_kill(environ: dict[str, str], tmp_path: Path) -> None:
    [script] = [snippet for snippet in SNIPPETS if "SessionManager(" in snippet]
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.kill()
    told = succeed(command, environ, tmp_path)
    assert "The model wants to: remember" in told
    assert "What do I like?" in told
    shown = succeed(["fireside", "sessions", "list", "--json"], environ, tmp_path)
    [chat] = json.loads(shown)["sessions"]
    items = json.loads(succeed(["fireside", "sessions", "show", chat["id"], "--json"], environ, tmp_path))[
        "items"
    ]
    asked = [item["content"][0]["text"] for item in items if item.get("role") == "user"]
    assert asked.count("Remember that I like tea.") == 2
    calls = {item["call_id"] for item in items if item["type"] == "function_call"}
    assert calls
    assert calls == {item["call_id"] for item in items if item["type"] == "function_call_output"}


def test_its_server_answers_what_it_shows(environ: dict[str, str], tmp_path: Path) -> None:
    [block] = re.findall(r"^```bash\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    serve, *requests = block.splitlines()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [*serve.split(), "--port", port]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            assert any(b"/v1" in line for line in process.stderr), "it was not served"
            for line in requests:
                asked = ["bash", "-euo", "pipefail", "-c", line.replace("8642", port)]
                assert succeed(asked, environ, tmp_path).strip()
        finally:
            process.terminate()
