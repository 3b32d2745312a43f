from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = (
    *("textual", "prompt_toolkit", "llama_cpp", "numpy", "httpx", "pydantic", "rich", "tomlkit", "jinja2"),
    "asyncio",
)


def python(program: str, *arguments: str, cwd: Path = ROOT) -> str:
    command = [sys.executable, "-c", program, *arguments]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return result.stdout


def heavy_after(statement: str) -> list[str]:
    report = f"print('LOADED', *[name for name in {HEAVY!r} if name in sys.modules])"
    return python(f"import sys\n{statement}\n{report}").partition("LOADED")[2].split()


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(flag: str) -> None:
    assert heavy_after(f"import fireside; sys.argv = ['fireside', {flag!r}]; fireside.main()") == []


@pytest.mark.parametrize(
    "module", ["backend", "backend.types", "fireside", "app.settings.config", "app.terminal.output"]
)
def test_the_light_modules_stay_light(module: str) -> None:
    assert heavy_after(f"import {module}") == []


def test_a_one_shot_imports_only_what_it_uses() -> None:
    assert not {"textual", "prompt_toolkit", "rich", "httpx", "pydantic", "tomlkit", "asyncio"} & set(
        heavy_after("import app.oneshot.direct")
    )


def test_every_public_name_exists() -> None:
    program = "import fireside\nfor name in fireside.__all__: getattr(fireside, name)\nprint('all')"
    assert python(program).strip() == "all"


def test_the_names_of_the_contract_are_public() -> None:
    program = """
import fireside
from app.sessions import errors, events, hooks

named = (
    "SessionManager SessionsChat SessionToolCallInfo ToolCallable StreamHooks QueryResult QueryStream "
    "Agent tool ToolContext GenerationConfig ToolCall TextPiece ReasoningPiece HeldPiece ToolCallPiece "
    "PrefillProgress ModelLoadError ContextOverflowError QueueFullError EngineError BackendError"
).split()
contexts = [name for name, kind in vars(hooks).items() if name.endswith("Ctx") and isinstance(kind, type)]
kinds = [kind.__name__ for kind in events.EVENT_TYPES.values()]
family = [name for name, kind in vars(errors).items()
          if isinstance(kind, type) and issubclass(kind, errors.FiresideError)]
assert len(contexts) == 10, contexts
missing = {*named, *contexts, *kinds, *family} - set(fireside.__all__)
print(sorted(missing))
"""
    assert python(program).strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    program = "import fireside\ntry: fireside.nothing\nexcept AttributeError as err: print(err)"
    assert "nothing" in python(program)


def test_the_launcher_runs_from_a_checkout(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "fireside.py"), "--version"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("fireside ")


@pytest.mark.timeout(60)
def test_imports_keep_their_direction() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([lint, "--no-cache"], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("room", ["app", "backend", "tools", "themes"])
def test_only_native_names_llama_cpp(room: str) -> None:
    for file in (ROOT / room).rglob("*.py"):
        if file != ROOT / "backend" / "native.py":
            text = file.read_text(encoding="utf-8")
            assert "import llama_cpp" not in text, file
            assert "from llama_cpp" not in text, file
