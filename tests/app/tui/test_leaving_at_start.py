"""While the program starts, also where it never gets there: a person can stop and leave it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from textual import events

from app.frontend.history import History, history_file
from app.tui.program import parts as stage
from tests.app.terminal.guarded import Guarded, Program, Shell
from tests.app.tui.pilot import Running, running

FIRST_FRAME = "/ command"
STARTING = """
import sys, threading
from app.tui.program import parts as stage

def parts():
    {parts}

stage._import_later = parts
sys.argv[1:] = []
from fireside import main
sys.exit(main())
"""
WAITS = "threading.Event().wait()"
FAILS = "raise ImportError('there is no module called sofa')"


def starting(parts: str) -> Program:
    """The program whose further parts do what is said instead of coming."""
    return Program((sys.executable, "-c", STARTING.format(parts=parts)), FIRST_FRAME, {})


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The further parts come when this is set."""
    goes_on, load = threading.Event(), stage._import_later

    def wait() -> None:
        goes_on.wait()
        load()

    monkeypatch.setattr(stage, "_import_later", wait)
    yield goes_on
    goes_on.set()


async def ended_by(run: Running, key: str) -> None:
    """Press a key, and see that it ends the program by itself."""
    await run.pilot.press(key)
    await run.until(lambda: run.app._exit)
    assert run.app.return_code == 0
    assert not run.app.parts.furnished


@pytest.mark.parametrize("key", ["ctrl+q", "ctrl+d"])
async def test_a_key_that_leaves_does_not_wait_for_the_screen(held: threading.Event, key: str) -> None:
    async with running(wait=False) as run:
        await run.pilot.press("escape")  # waits
        await ended_by(run, key)


async def test_the_key_of_the_config_leaves_and_the_usual_one_does_not(held: threading.Event) -> None:
    async with running([["an answer"]], wait=False, keymap={"quit": "f9", "mouse": "ctrl+q"}) as run:
        await run.pilot.press("ctrl+q")
        assert not run.app._exit
        await ended_by(run, "f9")


async def test_ctrl_c_clears_the_draft_then_tells_of_leaving_then_leaves(held: threading.Event) -> None:
    async with running(wait=False) as run:
        await run.type("hi you")
        await run.until(lambda: run.app.parts.draft.text == "hi")
        await run.pilot.press("ctrl+c")
        await run.until(lambda: run.app.parts.draft.text == "")
        assert run.app.parts.draft.history_of_messages.entries == ["hi you"]
        await run.pilot.press("ctrl+c")
        await run.until(lambda: "again to quit" in run.seam)
        run.app.leaving._asked_at += 3600  # however slow this machine is, the next one comes in time
        await ended_by(run, "ctrl+c")


async def test_what_ctrl_c_cleared_is_not_sent_when_the_screen_comes(held: threading.Event) -> None:
    async with running([["an answer"]], wait=False) as run:
        await run.type("hi")
        await run.until(lambda: run.app.parts.draft.text == "hi")
        await run.pilot.press("enter", "ctrl+c")
        await run.until(lambda: run.app.parts.draft.text == "")
        held.set()
        await run.until(lambda: run.app.model.name)
        assert run.kinds() == []
        await run.pilot.press("up")
        await run.until(lambda: run.app.parts.draft.text == "hi\n")


async def test_ctrl_d_is_no_leaving_while_something_is_written(held: threading.Event) -> None:
    async with running([["an answer"]], wait=False) as run:
        await run.type("hi")
        await run.until(lambda: run.app.parts.draft.text == "hi")
        await run.pilot.press("ctrl+d")
        held.set()
        await run.until(lambda: run.app.model.name)
        assert not run.app._exit
        assert run.app.parts.draft.text == "hi"


async def test_ctrl_z_stops_at_once(held: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(wait=False) as run:
        stopped: list[bool] = []
        monkeypatch.setattr(
            run.app, "action_suspend_process", lambda: stopped.append(run.app.parts.furnished)
        )
        await run.pilot.press("ctrl+z")
        await run.until(lambda: stopped)
        assert stopped == [False]


@pytest.mark.parametrize("private", [False, True])
async def test_what_was_written_before_leaving_is_found_again(held: threading.Event, private: bool) -> None:
    history = History(history_file())
    async with running(wait=False, history=history, start={"private": private}) as run:
        await run.type("hi you")
        run.app.post_message(events.Paste("\x1b[31mand\r\nmore"))
        await run.until(lambda: run.app.early.text.endswith("more"))
        await ended_by(run, "ctrl+q")
    kept = History(history_file()).entries
    assert kept == ([] if private else ["hi you[31mand\nmore"])


async def test_parts_that_fail_end_the_program_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ImportError("there is no module called sofa")

    monkeypatch.setattr(stage, "_import_later", fail)
    async with running(wait=False) as run:
        await run.until(lambda: run.app._exit)
        assert run.app.return_code == 1
        assert str(run.app.startup.failure).startswith(
            "A part of Fireside could not be loaded: there is no module"
        )


linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


@linux
@pytest.mark.parametrize("keys", ["\x11", "\x04", "hi\x11"])
def test_keys_leave_a_start_that_hangs(keys: str) -> None:
    with Guarded(starting(WAITS)) as terminal:
        terminal.ready()
        terminal.send(keys)
        assert terminal.wait() == 0
        assert terminal.state() == terminal.before


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_a_start_that_hangs(number: signal.Signals) -> None:
    with Guarded(starting(WAITS)) as terminal:
        terminal.ready()
        terminal.send("zebra")
        terminal.wait_for_text("zebra")
        os.kill(terminal.guard, number)
        assert terminal.wait() == 128 + number
        assert terminal.state() == terminal.before
    assert History(history_file()).entries == ["zebra"]


@linux
def test_a_start_that_hangs_can_be_stopped_and_gone_on_with() -> None:
    with Shell(starting(WAITS)) as shell:
        shell.run()
        guard, face = shell.ready()
        shell.stop()
        shell.check_restored()
        shell.go_on()
        shell.send("\x11")
        shell.wait_for_end(guard, face)
        shell.check_restored()


@linux
def test_a_start_that_fails_tells_why_on_a_restored_terminal() -> None:
    with Guarded(starting(FAILS)) as terminal:
        assert terminal.wait() == 1
        assert "could not be loaded: there is no module called sofa" in terminal.text.replace("\n", " ")
        assert terminal.state() == terminal.before
