"""The real program in a real terminal, ended in every way: the terminal is then as it was."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.process import COMMAND
from tests.app.terminal.guarded import Guarded, Program, Shell, alive, children, terminate

pytestmark = [
    pytest.mark.model,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

FIRESIDE = Program((*COMMAND, "tui"), "? help", {"quit": "\x11"})


@pytest.fixture
def guarded(starter_model: Path) -> Iterator[Guarded]:
    assert starter_model.exists()
    with Guarded(FIRESIDE) as terminal:
        yield terminal


def test_the_engine_dies_and_the_screen_stays(guarded: Guarded) -> None:
    _, face = guarded.ready()
    guarded.wait_for(lambda: "ctx" in guarded.text, "the model")
    guarded.send("count to a hundred\r")
    guarded.wait_for_text("esc stops")
    for engine in children(face):
        os.kill(engine, signal.SIGKILL)
    guarded.wait_for(lambda: "esc stops" not in guarded.text, "the end of the reply")
    assert alive(face)
    guarded.send("\x11")
    assert guarded.wait() == 0
    assert guarded.state() == guarded.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_signal_while_it_answers(guarded: Guarded, number: signal.Signals) -> None:
    guard, face = guarded.ready()
    guarded.wait_for(lambda: "ctx" in guarded.text, "the model")
    guarded.send("count to a hundred\r")
    guarded.wait_for_text("esc stops")
    left = children(face)
    os.kill(face if number == signal.SIGKILL else guard, number)
    assert guarded.wait() == 128 + number
    assert guarded.state() == guarded.before
    guarded.wait_for(lambda: not any(map(alive, left)), "the end of the engine")


def test_stopped_while_it_answers_the_engine_runs_on(starter_model: Path) -> None:
    assert starter_model.exists()
    with Shell(FIRESIDE) as shell:
        shell.run()
        guard, face = shell.ready()
        shell.wait_for(lambda: "ctx" in shell.text, "the model")
        shell.send("count to a hundred\r")
        shell.wait_for_text("esc stops")
        shell.stop()
        shell.check_restored()
        states = [
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in children(face)
        ]
        assert states
        assert "T" not in states
        shell.go_on()
        shell.wait_for_text("count to a hundred")
        shell.send("\x11")
        shell.wait_for_end(guard, face)
        assert shell.ask("echo $?") == "0"
        shell.check_restored()


@pytest.mark.parametrize("seed", range(10))
def test_random_terminations(starter_model: Path, seed: int) -> None:
    assert starter_model.exists()
    with Shell(FIRESIDE) as shell:
        terminate(shell, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_terminations(starter_model: Path, seed: int) -> None:
    assert starter_model.exists()
    with Shell(FIRESIDE) as shell:
        terminate(shell, seed)
