"""A damaged store of chats: every face says so, keeps it aside on a yes, and goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app import paths
from app.sessions.store.store import STORE_FILE
from tests.app.process import COMMAND, fireside
from tests.app.terminal_process import Terminal

pytestmark = pytest.mark.timeout(120)

ASKED = "and start with an empty store? [y/N]"


@pytest.fixture
def damaged(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with zero bytes inside, and a model to chat with."""
    monkeypatch.setenv("FIRESIDE_MODEL", str(tiny_llama))
    fireside("-p", "hi", "--set", "max_new_tokens=2")
    file = paths.data_dir() / STORE_FILE
    whole = file.read_bytes()
    assert len(whole) > 3 * 8192
    file.write_bytes(whole[:8192] + bytes(8192) + whole[16384:])
    return file


def terminal(*arguments: str) -> Terminal:
    environ = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    return Terminal([*COMMAND, *arguments], environ, columns=200)


def kept(file: Path) -> list[Path]:
    return list(file.parent.glob("chats.damaged-*.db"))


@pytest.mark.parametrize("face", [("tui",), ("repl",), ("repl", "--plain")])
def test_a_chat_begins_after_a_yes(damaged: Path, face: tuple[str, ...]) -> None:
    with terminal(*face) as screen:
        screen.wait_for_text(ASKED)
        screen.send("y\n")
        screen.wait_for(lambda: bool(kept(damaged)) and damaged.exists(), "a new store")
        screen.send("\x04")
        assert screen.wait() == 0
    assert len(kept(damaged)) == 1


def test_a_no_leaves_everything_where_it_is(damaged: Path) -> None:
    before = damaged.read_bytes()
    with terminal("tui") as screen:
        screen.wait_for_text(ASKED)
        screen.send("\n")
        assert screen.wait() == 1
    assert damaged.read_bytes() == before and not kept(damaged)


def test_lists_go_on_after_a_yes(damaged: Path) -> None:
    with terminal("sessions", "list") as screen:
        screen.wait_for_text(ASKED)
        screen.send("y\n")
        screen.wait_for_text("There are no chats yet")
        assert screen.wait() == 0
    assert len(kept(damaged)) == 1


def test_an_answer_is_kept_after_a_yes(damaged: Path) -> None:
    with terminal("-p", "hi", "--set", "max_new_tokens=2") as screen:
        screen.wait_for_text(ASKED)
        screen.send("y\n")
        assert screen.wait() == 0
    assert fireside("sessions", "list").stdout.count(b"sess_") == 1


def test_without_a_person_it_is_said_and_nothing_is_moved(damaged: Path) -> None:
    for arguments in (["sessions", "list"], ["-p", "hi", "-c"], ["repl"]):
        done = fireside(*arguments)
        assert done.returncode == 1 and b"is damaged" in done.stderr and str(damaged).encode() in done.stderr
        assert b"Traceback" not in done.stderr
    done = fireside("-p", "hi", "--set", "max_new_tokens=2")
    assert done.returncode == 0 and b"not saved" in done.stderr and b"is damaged" in done.stderr
    assert not kept(damaged)


def test_a_folder_that_cannot_be_used_stops_no_private_chat(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_MODEL", str(tiny_llama))
    (tmp_path / "file").touch()
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "file" / "data"))
    with terminal("repl", "--private") as screen:
        screen.wait_for_text("Chats are not saved")
        screen.send("\x04")
        assert screen.wait() == 0
    done = fireside("sessions", "list")
    assert done.returncode == 1 and b"cannot be used" in done.stderr and b"--private" in done.stderr


@pytest.mark.parametrize("face", [("tui",), ("repl",)])
def test_private_chats_begin_without_a_store(damaged: Path, face: tuple[str, ...]) -> None:
    before = damaged.read_bytes()
    with terminal(*face, "--private") as screen:
        screen.wait_for_text("Chats are not")
        screen.send("hi\r")
        screen.wait_for_text("hi")
        screen.send("\x04" if face == ("repl",) else "\x11")
        assert screen.wait() == 0
    assert damaged.read_bytes() == before
