from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.terminal import guard
from tests.app.terminal.guarded import SAMPLE, Guarded, Shell, alive, terminate
from tests.app.terminal_process import PATIENCE_S

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]
ENDED_BY = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    command = [*SAMPLE.command, str(tmp_path / "hangs")]
    with Guarded(SAMPLE, command, GRACE_S="1") as terminal:
        yield terminal


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("e", 1), ("a", 134), ("x", 7)])
def test_the_face_ends(guarded: Guarded, key: str, code: int) -> None:
    guarded.ready()
    guarded.send(key)
    assert guarded.wait() == code
    assert guarded.state() == guarded.before
    assert ("raised on purpose" in guarded.raw.decode("utf-8", "replace")) == (key == "e")


@pytest.mark.parametrize("number", [*ENDED_BY, signal.SIGKILL, signal.SIGSEGV, signal.SIGQUIT])
def test_a_signal_to_the_face(guarded: Guarded, number: signal.Signals) -> None:
    os.kill(guarded.ready()[1], number)
    assert guarded.wait() == 128 + number
    assert guarded.state() == guarded.before


@pytest.mark.parametrize("number", ENDED_BY)
@pytest.mark.parametrize("group", [False, True])
def test_a_signal_to_the_guard_or_to_both(guarded: Guarded, number: signal.Signals, group: bool) -> None:
    leader, face = guarded.ready()
    (os.killpg if group else os.kill)(leader, number)
    assert guarded.wait() == 128 + number
    assert guarded.state() == guarded.before
    assert not alive(face)


def test_a_face_that_hangs_is_killed(guarded: Guarded, tmp_path: Path) -> None:
    leader, _ = guarded.ready()
    guarded.send("h")
    guarded.wait_for((tmp_path / "hangs").exists, "the hanging face")
    os.kill(leader, signal.SIGTERM)
    assert guarded.wait() == 128 + signal.SIGKILL
    assert guarded.state() == guarded.before
    assert "Your chats are saved" in guarded.text


@pytest.mark.parametrize("hears", [True, False])
def test_the_window_is_closed(hears: bool) -> None:
    command = list(SAMPLE.command) if hears else ["sh", "-c", 'trap "" HUP; exec "$@"', "-", *SAMPLE.command]
    with Guarded(SAMPLE, command) as guarded:
        leader, face = guarded.ready()
        start = time.monotonic()
        guarded.close()
        while alive(face) or alive(leader):
            assert time.monotonic() < start + PATIENCE_S
            time.sleep(0.02)
        guarded.forget()
        # Python itself makes it 120 where it finds its output gone; 137 would be the guard's impatience.
        assert os.waitstatus_to_exitcode(os.waitpid(leader, 0)[1]) in (129, 120)


def test_a_face_outlives_no_guard(guarded: Guarded) -> None:
    leader, face = guarded.ready()
    os.kill(leader, signal.SIGKILL)
    assert guarded.wait() == 128 + signal.SIGKILL
    guarded.wait_for(lambda: not alive(face), "the end of the face")


@pytest.mark.parametrize("stop", ["key", "guard", "face", "both"])
def test_stopped_and_continued_twice(stop: str) -> None:
    with Shell() as shell:
        shell.run()
        leader, face = shell.ready()
        for _ in range(2):
            match stop:
                case "key":
                    shell.send("\x1a")
                case "guard":
                    os.kill(leader, signal.SIGTSTP)
                case "face":
                    os.kill(face, signal.SIGSTOP)
                case _:
                    os.killpg(leader, signal.SIGTSTP)
            shell.wait_for_text("Stopped")
            shell.check_restored(stop)
            assert shell.go_on() == (leader, face)
        count = 2 if stop == "key" else 0
        shell.send("bcd")
        shell.wait_for_text(f"ready, {count + 3} keys")
        shell.send("q")
        shell.wait_for_end(leader, face)
        assert shell.ask("echo $?") == "0"
        shell.check_restored()


def test_killed_while_it_is_stopped() -> None:
    with Shell() as shell:
        shell.run()
        leader, face = shell.ready()
        shell.stop()
        os.kill(face, signal.SIGKILL)
        shell.send("clear; fg\n")
        shell.wait_for_end(leader, face)
        assert shell.ask("echo $?") == "137"
        shell.check_restored()


def test_timeout_ends_it() -> None:
    with Shell() as shell:
        shell.run("timeout", "2")
        timeout = shell.guard
        shell.wait_for(lambda: not alive(timeout), "the end")
        assert shell.ask("echo $?") == "124"
        shell.check_restored()


def test_without_a_terminal_there_is_no_guard(capsys: pytest.CaptureFixture[str]) -> None:
    before = os.getpid()
    assert guard.run_guarded(os.getpid) == before
    assert capsys.readouterr().out == ""


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(50))
def test_random_terminations(seed: int) -> None:
    with Shell() as shell:
        terminate(shell, seed)
