"""The folder that Fireside works in is deleted: a chat needs none, and what does need one says so."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.cli import launch, main
from app.exits import FOLDER_GONE, Failure
from app.frontend.shell_line import run_line
from app.frontend.workspace import chosen_folder, working_folder
from app.oneshot import session, stdin
from app.sessions.items import FunctionCallOutput
from backend.engines.scripted import ScriptedEngine
from backend.types import ToolCall
from tests.app.double import Double
from tests.app.process import shell
from tests.app.repl.chatting import chat, last_user_text
from tests.app.sessions.conftest import MakeRoom, room
from tests.app.tui.pilot import running

__all__ = ["room"]

Cap = pytest.CaptureFixture[str]
LEAVE = 'mkdir "$HOME/gone" && cd "$HOME/gone" && rmdir ../gone && '


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is about to go."""
    found = tmp_path / "gone"
    found.mkdir()
    monkeypatch.chdir(found)
    return found


@pytest.fixture
def nowhere(folder: Path) -> Path:
    """The current folder, which is gone."""
    folder.rmdir()
    return folder


# ---- line by line ----------------------------------------------------------------------------


@pytest.mark.usefixtures("nowhere")
async def test_a_chat_line_by_line_begins_without_a_folder() -> None:
    told = await chat("hi @notes.txt", "!cd missing", scripts=[["Hello."]])
    assert "Hello." in told.seen and told.code == 0
    assert last_user_text(told.engine) == "hi @notes.txt"


async def test_a_chat_line_by_line_goes_on_when_its_folder_goes(folder: Path) -> None:
    told = await chat("hi", folder.rmdir, "again", "!echo here", scripts=[["Hello."], ["Again."]])
    assert "Again." in told.seen and told.code == 0
    assert "the folder is gone, and `!cd`" in told.seen


async def test_a_file_named_by_part_of_a_path_is_told(folder: Path) -> None:
    told = await chat("hi", folder.rmdir, "/export notes.md", "/new", "/private", scripts=[["Hello."]])
    assert FOLDER_GONE in " ".join(told.seen.split())
    assert "Error" not in told.seen


async def test_a_shell_line_leads_out_of_a_folder_that_is_gone(nowhere: Path, tmp_path: Path) -> None:
    assert (await run_line(f"cd {tmp_path}", nowhere)).folder == tmp_path
    with pytest.raises(FileNotFoundError, match=f"folder is gone, and `!cd` .*: {nowhere}"):
        await run_line("echo here", nowhere)


# ---- the full screen -------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.usefixtures("nowhere")
async def test_the_full_screen_begins_without_a_folder() -> None:
    async with running([["Hello."]]) as run:
        await run.ask("hi @notes.txt")
        assert run.texts("answer") == ["Hello."]


@pytest.mark.timeout(60)
async def test_the_full_screen_goes_on_when_its_folder_goes(folder: Path) -> None:
    async with running([["Hello."], ["Again."]]) as run:
        await run.ask("hi")
        folder.rmdir()
        await run.ask("and @notes.txt")
        assert run.texts("answer") == ["Hello.", "Again."]
        await run.type("@a")  # files to complete
        await run.pilot.press("escape", "ctrl+u")
        await run.send("!echo here")
        await run.until(lambda: any("is gone" in row for row in run.screen()))


# ---- one prompt ------------------------------------------------------------------------------


@pytest.mark.usefixtures("nowhere")
def test_one_prompt_with_tools_is_answered_and_they_refuse(
    monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    call = ToolCall("c1", "read_file", {"path": "notes.txt"})
    engine = ScriptedEngine([[call], ["There is nothing to read."]], closed=True)
    monkeypatch.setattr(session, "make_engine", lambda **options: engine)
    with open(os.devnull, "rb") as hole:
        monkeypatch.setattr(stdin, "_STDIN", hole.fileno())
        assert main.main(["-p", "read it", "--tools", "read_file", "--approve", "read"]) == 0
    out, err = capfd.readouterr()
    assert out == "There is nothing to read.\n"
    assert FOLDER_GONE in err
    assert "no workspace" in str(engine.requests[1].messages)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("$FIRESIDE tools list", "read_file"),
        ("$FIRESIDE tools show calculate", "expression"),
        ("$FIRESIDE tools run --yes calculate expression=6*7", "42"),
        ("$FIRESIDE tools run read_file path=a", "no workspace"),
        ("$FIRESIDE -p hi --attach notes.txt", "cannot be attached"),
        ("$FIRESIDE config show", "Nothing is set"),
        ("$FIRESIDE repl --workspace notes </dev/null", "--workspace expects a folder"),
    ],
)
def test_commands_say_what_they_miss(line: str, said: str) -> None:
    done = shell(LEAVE + line, stdin=None)
    assert said in (done.stdout + done.stderr).decode()
    assert b"Traceback" not in done.stderr and b"FIRESIDE_DEBUG" not in done.stderr


@pytest.mark.model
@pytest.mark.timeout(120)
@pytest.mark.usefixtures("starter_model")
def test_the_real_command_answers_without_a_folder() -> None:
    for line in ("$FIRESIDE -p hi --max-tokens 2", "echo hi | $FIRESIDE repl --max-tokens 2"):
        done = shell(LEAVE + line)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


# ---- tools -----------------------------------------------------------------------------------


async def outputs(chat: Any) -> list[str]:
    return [item.output for item in await chat.items() if isinstance(item, FunctionCallOutput)]


@pytest.mark.parametrize("mode", ["ask", "read", "all"])
async def test_tools_of_a_folder_that_went_refuse_and_others_run(
    room: MakeRoom, folder: Path, mode: str
) -> None:
    (folder / "a.txt").write_text("one")
    arguments: dict[str, dict[str, Any]] = {
        "read_file": {"path": "a.txt"},
        "write_file": {"path": "b.txt", "content": "x"},
        "run_shell": {"command": "ls"},
        "run_python": {"code": "1"},
        "calculate": {"expression": "6*7"},
    }
    calls = [ToolCall(f"c{n}", name, given) for n, (name, given) in enumerate(arguments.items())]
    here = ToolCall("c9", "list_files", {})
    chat = await room(
        [here], ["ok"], calls, ["done"], tools=",".join([*arguments, "list_files"]), workspace=folder,
        approve="read",
    )  # fmt: skip
    await chat.say("look")
    assert "a.txt" in (await outputs(chat))[0]
    (folder / "a.txt").unlink()
    folder.rmdir()
    await chat.manager.configure(chat.session_id, approve=mode)
    async with asyncio.timeout(30):
        await chat.say("go")
    found = (await outputs(chat))[1:]
    assert found.count("42") == 1
    for text in (one for one in found if one != "42"):
        assert f"The workspace {folder} cannot be used: No such file or directory." in text
        assert "Errno" not in text
    assert (await chat.items())[-1].text == "done"


# ---- a folder that a flag names --------------------------------------------------------------


WAYS = [
    *("-p hi", "-p hi --tools read_file", "-p hi --no-tools", "-p hi --private", "-p hi --raw", "-p hi -c"),
    *("-p hi --dry-run", "-p hi --format json", "-p hi --resume x", "-p -", "repl", "repl --private"),
]


@pytest.mark.parametrize(
    ("face", "named"),
    [
        *((face, "/nope") for face in WAYS),
        *(("-p hi", name) for name in ("file", "", "~nobody-of-this-name")),
    ],
)
def test_a_workspace_that_is_no_folder_is_told_before_anything_is_loaded(
    face: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("a model is looked for")

    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setattr("backend.load", load)
    monkeypatch.setattr("app.models.download.with_model_here", load)
    assert main.main([*face.split(), "--workspace", named]) == 2
    told = capsys.readouterr()
    assert "--workspace expects a folder" in told.out + told.err
    assert not paths.data_dir().exists()


def test_a_one_shot_without_tools_goes_on_in_a_folder_that_is_there(tmp_path: Path, double: Double) -> None:
    assert main.main(["-p", "hi", "--workspace", str(tmp_path)]) == 0


def test_the_full_screen_tells_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.launch.is_terminal", lambda _: True)
    with pytest.raises(Failure, match="--workspace expects a folder"):
        launch.start_tui({"workspace": "/nope"})


# ---- the parts -------------------------------------------------------------------------------


def test_a_folder_is_found_or_told(nowhere: Path, tmp_path: Path) -> None:
    assert working_folder(None) is None and chosen_folder(None) is None
    assert working_folder(str(tmp_path)) == chosen_folder(str(tmp_path)) == tmp_path
    assert working_folder(str(nowhere)) == nowhere
    assert not paths.holds_home(Path())
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for name in (
        *(str(tmp_path / name) for name in ("file", "circle", "file/below", "n" * 300, "missing")),
        *(str(nowhere), "part/of/a/path", "~nobody-of-this-name/x", ""),
    ):
        with pytest.raises(Failure) as told:
            chosen_folder(name)
        assert told.value.exit_code == 2 and "--workspace expects a folder" in str(told.value)
