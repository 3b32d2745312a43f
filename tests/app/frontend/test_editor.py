"""The person's own editor: the program goes on behind it, and no way of its ending loses words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.frontend.editor import EditorError, editor_command
from app.repl.console import Ended
from app.repl.face import ReplFace
from backend.engines.scripted import Pause
from tests.app.repl.chatting import Person, chat
from tests.app.terminal_process import ROOT, Terminal
from tests.app.tui.pilot import running


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that stands for an editor; what it is to do is written into it."""
    file = tmp_path / "my editor"
    monkeypatch.setenv("VISUAL", f"'{file}' --wait")
    return file


def does(editor: Path, script: str) -> None:
    editor.write_text(f'#!/bin/sh\n[ "$1" = --wait ] || exit 9\n{script}\n')
    editor.chmod(0o755)


async def test_it_gets_the_draft_and_gives_it_back(editor: Path) -> None:
    does(editor, 'printf " and more" >> "$2"')
    async with running() as run:
        await run.type("draft")
        await run.pilot.press("ctrl+g")
        await run.until(lambda: run.app.parts.draft.text == "draft and more")
    assert list((paths.state_dir() / "drafts").glob("message-*")) == []


async def test_a_reply_is_written_and_stored_while_it_is_open(editor: Path, tmp_path: Path) -> None:
    gate, done = asyncio.Event(), tmp_path / "done"
    does(editor, f'while [ ! -e {done} ]; do sleep 0.02; done; printf " edited" >> "$2"')
    async with running([["one", Pause(until=gate), " two"]]) as run:
        await run.send("count")
        await run.until(lambda: run.texts("answer") == ["one"])
        run.app.parts.draft.put("next")
        await run.pilot.press("ctrl+g")
        gate.set()
        await run.until(lambda: not run.app.chat.busy)
        assert run.texts("answer") == ["one two"]
        assert (await run.items())[-1].text == "one two"
        assert run.app.parts.draft.text == "next"
        done.touch()
        await run.until(lambda: run.app.parts.draft.text == "next edited")


@pytest.mark.parametrize(
    ("ends", "told"),
    [("exit 3", "ended with 3"), ("kill -KILL $$", "ended by SIGKILL")],
)
async def test_one_that_fails_leaves_the_draft_and_what_it_saved(editor: Path, ends: str, told: str) -> None:
    does(editor, f'printf " saved" >> "$2"; {ends}')
    async with running() as run:
        await run.type("draft")
        await run.pilot.press("ctrl+g")
        await run.until(lambda: told in run.seam)
        assert run.app.parts.draft.text == "draft"
        assert "Press up to find what was saved" in run.app.parts.seam.news.text
        run.app.parts.draft.put("")
        await run.pilot.press("up")
        assert run.app.parts.draft.text == "draft saved"


async def test_one_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    async with running() as run:
        await run.type("draft")
        await run.pilot.press("ctrl+g")
        await run.until(lambda: "could not be started" in run.seam)
        assert run.app.parts.draft.text == "draft"


@pytest.mark.parametrize("ends", ["", "trap 'sleep 0.3; exit' TERM; "], ids=["at-once", "slowly"])
async def test_leaving_while_it_is_open_keeps_what_it_saved(ends: str, editor: Path, tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    does(editor, f'{ends}printf " saved" >> "$2"; touch {opened}; while :; do sleep 0.02; done')
    async with running() as run:
        await run.type("draft")
        await run.pilot.press("ctrl+g")
        await run.until(opened.exists)
        history = run.app.parts.draft.history_of_messages
    assert history.older("", "") == "draft saved"


def test_a_command_has_arguments() -> None:
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert editor_command({"EDITOR": "'/my editors/nano' -w"}) == ["/my editors/nano", "-w"]


def test_without_one_named_the_first_that_is_here_is_taken(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "VISUAL": " ", "EDITOR": ""}
    with pytest.raises(EditorError, match="No editor was found") as told:
        editor_command(environ)
    assert "Set EDITOR" in str(told.value)
    for name in ("vi", "nano"):
        (tmp_path / name).touch(0o755)
        assert editor_command(environ) == [name]


def test_a_command_that_cannot_be_read_is_told() -> None:
    with pytest.raises(EditorError, match="EDITOR cannot be read"):
        editor_command({"EDITOR": "'vi"})


FACE = """
import asyncio, os, sys
from pathlib import Path
from app.settings.config import resolve
from app.terminal.fd_guard import FdGuard
from app.terminal.glyphs import UNICODE
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.terminal.theming import palette, read
from app.tui.app import FiresideApp
from app.frontend.start import Start
from backend.engines.scripted import Pause, ScriptedEngine

async def main(guard):
    gate = asyncio.Event()
    async def watch():
        while not app.is_running:
            await asyncio.sleep(0.02)
        app.app_resume_signal.subscribe(app, lambda _: Path(sys.argv[1], "resumed").touch())
        Path(sys.argv[1], "listens").touch()
        while not Path(sys.argv[1], "go").exists():
            await asyncio.sleep(0.02)
        gate.set()
        while not Path(sys.argv[1], "leave").exists():
            await asyncio.sleep(0.02)
        app.exit(0)
    engine = ScriptedEngine([["one", Pause(until=gate), " two three"]])
    make = lambda start: SessionManager(engine=engine, store=Store(None))
    app = FiresideApp(Start(resolve({})), palette(read("hearth")), UNICODE, make=make, motion=False)
    app.window.fd_guard = guard
    watching = asyncio.create_task(watch())
    await app.run_async()
    await app.startup.close_down()

with FdGuard(Path(sys.argv[1], "native.log")) as guard:
    asyncio.run(main(guard))
"""


@pytest.mark.timeout(60)
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.parametrize("ending", ["by itself", "by ctrl+c", "killed"])
def test_the_terminal_is_the_editors_and_then_whole_again(editor: Path, tmp_path: Path, ending: str) -> None:
    pid = tmp_path / "pid"
    does(
        editor,
        f"trap '' INT; echo $$ > {pid}; printf '\\033[?1049h\\033[2J\\033[Hthe editor'\n"
        'while read -r line; do [ "$line" = end ] && break; echo "it was $line" ; done\n'
        "printf '\\033[?1049l'",
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with Terminal([sys.executable, "-c", FACE, str(tmp_path)], environ, 80, 24) as terminal:
        terminal.wait_for_text("ctx")
        terminal.send("count\r")
        terminal.wait_for_text("one")
        terminal.wait_for((tmp_path / "listens").exists)
        terminal.send("draft\x07")
        terminal.wait_for_text("the editor")
        (tmp_path / "go").touch()
        terminal.send("asked\r")
        terminal.wait_for_text("it was asked")
        assert "two three" not in terminal.text, "nothing is drawn over the editor"
        if ending == "killed":
            os.kill(int(pid.read_text()), signal.SIGKILL)
        else:
            if ending == "by ctrl+c":
                terminal.send("\x03")
            terminal.send("end\r")
        terminal.wait_for_text("two three")
        terminal.wait_for_text("draft")
        terminal.wait_for(lambda: "the editor" not in terminal.text, "the whole screen drawn anew")
        terminal.wait_for((tmp_path / "resumed").exists, "the word that the terminal is back")
        terminal.wait_for_text("SIGKILL" if ending == "killed" else "? help")
        terminal.send("\x11")
        assert terminal.wait() == 0
        assert terminal.state() == terminal.before


@pytest.mark.timeout(60)
def test_an_editor_that_does_not_end_with_the_program_leaves_the_terminal_whole(
    editor: Path, tmp_path: Path
) -> None:
    does(
        editor,
        "trap '' TERM; printf '\\033[?1049h\\033[?1000h\\033[2J\\033[Hthe editor'\n"
        "while :; do sleep 0.1; done",
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with Terminal([sys.executable, "-c", FACE, str(tmp_path)], environ, 80, 24) as terminal:
        terminal.wait_for_text("ctx")
        terminal.send("draft\x07")
        terminal.wait_for_text("the editor")
        for name in ("go", "leave"):
            (tmp_path / name).touch()
        assert terminal.wait() == 0
        assert terminal.state() == terminal.before


async def test_an_editor_that_comes_back_at_once_is_told_and_its_file_stays(editor: Path) -> None:
    does(editor, "exit 0")
    async with running() as run:
        await run.type("draft")
        await run.pilot.press("ctrl+g")
        await run.until(lambda: "--wait" in run.seam)
        kept = list((paths.state_dir() / "drafts").glob("message-*"))
        assert len(kept) == 1 and kept[0].read_text() == "draft"
        assert "came back at once" in run.seam and kept[0].name in run.seam
        assert run.app.parts.draft.text == "draft"


async def test_an_editor_that_takes_its_time_may_change_nothing(
    editor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.frontend import editor as module

    monkeypatch.setattr(module, "AT_ONCE_S", 0.0)
    does(editor, "exit 0")
    assert await module.edit("draft", lambda: contextlib.nullcontext(None), left=lambda text: None) == "draft"
    assert list((paths.state_dir() / "drafts").glob("message-*")) == []


# ---- line by line ----------------------------------------------------------------------------


async def told_of(draft: str, private: bool = False) -> tuple[str, list[str], list[str]]:
    """What is told of an editor for a draft; the drafts afterwards, and what the key up brings."""
    person: list[Person] = []

    def watch(face: ReplFace) -> None:
        console: Any = face.console
        person.append(console)
        console.draft = draft

    told = await chat(Ended.EDIT, watch=watch, private=private)
    return " ".join(told.seen.replace("╏", "").split()), person[0].inserted, person[0].remembered


@pytest.mark.parametrize("private", [False, True])
async def test_line_by_line_it_is_told_too(editor: Path, private: bool) -> None:
    does(editor, "exit 0")
    told, drafts, _ = await told_of("draft", private)
    assert "came back at once" in told and "--wait" in told and drafts == ["draft"]
    folder = Path("/dev/shm") if private else paths.state_dir() / "drafts"
    kept = [file for file in folder.glob("message-*.md") if file.name in told.replace(" ", "")]
    assert len(kept) == 1 and kept[0].read_text() == "draft" and kept[0].stat().st_mode & 0o077 == 0
    kept[0].unlink()


async def test_line_by_line_it_gets_the_draft_and_gives_it_back(editor: Path) -> None:
    does(editor, 'printf " and more" >> "$2"')
    assert (await told_of("draft"))[1] == ["draft and more"]


@pytest.mark.parametrize(
    ("ends", "why"), [("exit 3", "ended with 3"), ("kill -KILL $$", "was ended by SIGKILL")]
)
async def test_line_by_line_one_that_fails_leaves_the_draft_and_what_it_saved(
    editor: Path, ends: str, why: str
) -> None:
    does(editor, f'printf " saved" >> "$2"; {ends}')
    told, drafts, remembered = await told_of("/draft")
    assert why in told and "Press up to find what was saved." in told
    assert drafts == ["/draft"] and remembered == ["//draft saved"]
    does(editor, ends)
    told, drafts, remembered = await told_of("draft")
    assert why in told and "Press up" not in told and drafts == ["draft"] and remembered == []
