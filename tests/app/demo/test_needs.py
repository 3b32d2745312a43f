"""What demos need is looked for before the first of them plays, and each line that installs it is right."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from app.demo import run as demo_run
from app.exits import ExitCode, Failure
from app.extras import PACKAGES, install_line

ROOT = Path(__file__).parents[3]
STEPS = '[[steps]]\nwait = "ready"\n'


def demo(folder: Path, name: str, text: str) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(f'title = "{name}"\nreplies = ["hi"]\n{text}\n{STEPS}')
    return file


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    files: list[Path] = []

    async def play(file: Path, *_: object) -> list[Path]:
        files.append(file)
        return []

    monkeypatch.setattr(demo_run, "_play", play)
    return files


def test_a_missing_package_is_told_before_the_first_demo_plays(
    tmp_path: Path, played: list[Path], tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyte" else find(name))
    model = f'model = "{tiny_llama}"'
    files = [demo(tmp_path, "first", model), demo(tmp_path, "second", f'face = "repl"\n{model}')]
    with pytest.raises(Failure, match=r"second\.toml needs the package pyte") as caught:
        demo_run.run(files, [], test=True)
    assert played == []
    assert caught.value.remedy == f"Install it: {install_line('demo')}"


def test_a_missing_model_is_told_before_the_first_demo_plays(
    tmp_path: Path, played: list[Path], tiny_llama: Path, tiny_embedding: Path
) -> None:
    good = demo(tmp_path, "first", f'model = "{tiny_llama}"')
    for model in ("/nowhere/none.gguf", str(tiny_embedding)):
        with pytest.raises(Failure, match=r"second\.toml needs a model") as caught:
            demo_run.run([good, demo(tmp_path, "second", f'model = "{model}"')], [], test=True)
        assert caught.value.exit_code == ExitCode.NO_MODEL
        assert played == []
    assert demo_run.run([good], [], test=True) == ExitCode.ANSWERED
    assert played == [good]


def test_the_packages_of_a_line_are_those_of_the_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, packages in PACKAGES.items():
        assert list(packages) == extras[name]
    assert extras["mcp"] == ["mcp>=2.3,<3"]
    assert "mcp>=2.3,<3" in (ROOT / "tools" / "mcp" / "servers.py").read_text()


def test_nothing_tells_to_install_our_name_from_an_index() -> None:
    texts = [*(ROOT / "app").rglob("*.py"), *(ROOT / "app").rglob("*.md"), *(ROOT / "tools").rglob("*.py")]
    texts += [*(ROOT / "backend").rglob("*.py"), *ROOT.glob("*.md")]
    wrong = re.compile(r"(pip|pipx|uv|uv tool|uvx) (install )?['\"]?fireside\b")
    assert [str(file) for file in texts if wrong.search(file.read_text(encoding="utf-8"))] == []
