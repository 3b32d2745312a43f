"""Lines from a pipe: a command that fails is told by the exit code; and what happens around commands."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.frontend.start import Start, open_manager
from app.sessions.manager import SessionManager
from backend.chat_engine import LoadSpec
from backend.engines import child_process
from backend.engines.host import EngineHost
from backend.engines.scripted import Pause, ScriptedEngine
from backend.types import ModelLoadError
from tests.app.process import shell
from tests.app.repl.chatting import chat, wait_until
from tests.app.repl.terminal import scripted


class Gone(ScriptedEngine):
    async def load(self, spec: Any, progress: Any = None) -> Any:
        if spec.source:
            raise ModelLoadError("There is no such model.", cause="not_found", remedy="Look.")
        return await super().load(spec, progress)


@pytest.mark.parametrize(
    ("line", "fails"),
    [
        ("/nosuch", True),
        ("/think perhaps", True),
        ("/resume ffffffff", True),
        ("/model smolm", True),
        ("/export /nowhere/at/all/notes.md", True),
        ("/set temperature=hot", True),
        ("!exit 3", True),
        ("/help", False),
        ("/think off", False),
        ("!true", False),
    ],
)
async def test_a_command_that_fails_in_a_pipe_is_told_by_the_exit_code(line: str, fails: bool) -> None:
    told = await chat("hi", line, engine=Gone([["yes"]], closed=True), piped=True)
    assert (told.code != 0) == fails
    assert "yes" in told.seen
    at_terminal = await chat(line, engine=Gone([["yes"]], closed=True))
    assert at_terminal.code == 0


# ---- another chat while a reply streams ------------------------------------------------------


@pytest.mark.parametrize("line", ["/new", "/private", "/resume other"])
@pytest.mark.parametrize("begun", [True, False])
async def test_the_page_ends_an_answer_before_another_chat_comes(line: str, begun: bool) -> None:
    faces: list[Any] = []
    gate = asyncio.Event()

    async def prepare() -> None:
        await wait_until(lambda: faces[0].is_open)
        made = await faces[0].manager.create(title="other", initial_items=[])
        nonlocal line
        line = line.replace("other", made.id)

    async def leave() -> None:
        await wait_until(lambda: not begun or faces[0].page._answer is not None)
        from app.commands import run_line

        await run_line(faces[0], line)
        assert faces[0].page._answer is None
        gate.set()

    told = await chat(
        prepare,
        "hi",
        leave,
        "again",
        scripts=[["first words", Pause(until=gate), " and more"], ["second"]],
        watch=faces.append,
    )
    left = told.seen.index("in its chat; /chats")
    assert left < told.seen.index("second") and (not begun or told.seen.index("first words") < left)
    assert "and more" not in told.seen.partition("in its chat; /chats")[2]


# ---- the first second ------------------------------------------------------------------------


async def test_an_engine_that_nobody_waits_for_any_more_greets_in_silence() -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    engine = EngineHost()
    loading = asyncio.create_task(engine.load(LoadSpec("nothing-of-this-name")))
    await wait_until(lambda: engine._child is not None)
    child = engine._child
    assert child is not None
    loading.cancel()
    await asyncio.wait([loading])
    await wait_until(lambda: child._hello.done())
    child._greet(1)
    await engine.unload()
    assert errors == []


# ---- a disk that takes nothing ---------------------------------------------------------------


def test_an_engine_needs_no_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuses(*given: Any, **named: Any) -> Any:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", refuses)
    monkeypatch.setattr("tempfile.TemporaryFile", refuses)
    (tmp_path / "file").touch()
    for log in (None, tmp_path / "file" / "engine.log", Path("/proc/engine.log")):
        with child_process._open_log(log) as output:
            output.write(b"words")


async def test_a_private_chat_begins_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await chat("hi", scripts=[["yes"]], private=True, engine=None)
    assert "yes" in told.seen
    monkeypatch.setattr(paths, "make_private_dir", _refuses)
    told = await chat("hi", "!echo here", "/logs", scripts=[["yes"]], private=True)
    assert "yes" in told.seen and told.code == 0
    held: list[SessionManager] = []
    start = Start(_settings(), private=True, tools=())
    manager = await open_manager(start, lambda _: _fails(), held.append)
    assert manager.store.private
    await manager.aclose()


def _refuses(path: Path) -> Path:
    raise OSError(30, "Read-only file system", str(path))


def _fails() -> SessionManager:
    raise OSError(28, "No space left on device", "chats.db")


def _settings() -> Any:
    from app.settings.config import Settings

    return Settings({})


def has_bwrap() -> bool:
    try:
        command = ["bwrap", "--ro-bind", "/", "/", "true"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.model
@pytest.mark.timeout(120)
@pytest.mark.usefixtures("starter_model")
def test_a_private_chat_line_by_line_works_on_a_disk_that_is_read_only(isolated_home: Path) -> None:
    if not has_bwrap():
        pytest.skip("bubblewrap is missing")
    inside = "bwrap --ro-bind / / --dev /dev --proc /proc"
    done = shell(f"echo hi | {inside} $FIRESIDE repl --private --max-tokens 2", env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and b"Traceback" not in done.stderr


# ---- keys and pages --------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_the_log_is_read_page_by_page(tmp_path: Path) -> None:
    log = paths.make_private_dir(paths.state_dir()) / "engine.log"
    log.write_text("".join(f"row {number}\n" for number in range(500)))
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nwc -l > $HOME/counted\n")
    pager.chmod(0o700)
    with scripted(tmp_path, [["fine"]], PAGER=str(pager)) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("/logs\r")
        terminal.until(lambda: (Path(os.environ["HOME"]) / "counted").exists())
        terminal.until(lambda: terminal.row.strip() == "\u203a", "the prompt")
        terminal.type("hi\r")
        terminal.wait("fine")
        assert "row 499" not in terminal.text


async def test_without_a_terminal_the_end_of_the_log_is_written() -> None:
    log = paths.make_private_dir(paths.state_dir()) / "engine.log"
    log.write_text("".join(f"row {number}\n" for number in range(500)))
    told = await chat("/logs", piped=True)
    assert "row 499" in told.seen and "row 440" in told.seen and "row 439" not in told.seen
