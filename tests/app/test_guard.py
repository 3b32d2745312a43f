from __future__ import annotations

import os
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import guard
from tests.app.terminal_process import PATIENCE_S, ROOT, Terminal

pytestmark = pytest.mark.timeout(120)

APP = [sys.executable, str(Path(__file__).with_name("guarded_app.py"))]
ENDED_BY = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]


def environ(**extra: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    return {**kept, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "PS1": "prompt> ", **extra}


class Guarded(Terminal):
    """The program under the guard, in a terminal of its own."""

    def __init__(self, folder: Path, command: list[str] | None = None, **extra: str) -> None:
        self._pids = folder / "pids"
        super().__init__(command or [*APP, str(self._pids)], environ(**extra))

    def pids(self) -> tuple[int, int]:
        """The guard's process id and the face's."""
        self.wait_for(self._pids.exists, "the face")
        guard_pid, face_pid = map(int, self._pids.read_text().split())
        return guard_pid, face_pid

    def ready(self) -> tuple[int, int]:
        self.wait_for(lambda: 1049 << 5 in self.state().modes and "ready" in self.text, "the screen")
        return self.pids()


class Shell(Guarded):
    """The same program in a shell with job control."""

    def __init__(self, folder: Path, **extra: str) -> None:
        super().__init__(folder, ["bash", "--norc", "--noprofile", "-i"], **extra)
        self.wait_for_text("prompt>")
        self._count = 0
        self.first = self.modes()

    def run(self, *before: str) -> None:
        self._pids.unlink(missing_ok=True)
        self.send(" ".join([*before, *APP, str(self._pids)]) + "\n")

    def ask(self, command: str) -> str:
        """What a command writes, in one line."""
        self._count += 1
        mark = f"<{self._count}:"
        self.send(f"printf '\\n<%s:%s>\\n' {self._count} \"$({command})\"\n")
        found: list[str] = []

        def answered() -> bool:
            joined = "".join(line.ljust(80) for line in self.text.split("\n"))
            found[:] = re.findall(rf"{mark}([^>$]*)>", joined)
            return bool(found)

        self.wait_for(answered, command)
        return found[0]

    def modes(self) -> tuple[str, bool, int]:
        """The terminal between two commands: its line settings, its modes, the keyboard's."""
        line = self.ask("stty -g")
        state = self.state()
        return line, state.cursor_hidden, state.keyboard

    def private_modes(self) -> frozenset[int]:
        """The private modes that are on, without those of the shell's own line editor."""
        return frozenset(mode >> 5 for mode in self.state().modes if mode >= 32) - {2004}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    with Guarded(tmp_path, GRACE_S="1") as terminal:
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
    guarded.wait_for((tmp_path / "pids.hangs").exists, "the hanging face")
    os.kill(leader, signal.SIGTERM)
    assert guarded.wait() == 128 + signal.SIGKILL
    assert guarded.state() == guarded.before
    assert "Your chats are kept" in guarded.text


def test_the_window_is_closed(guarded: Guarded) -> None:
    leader, face = guarded.ready()
    guarded.close()
    until = time.monotonic() + PATIENCE_S
    while alive(face) and time.monotonic() < until:
        os.waitpid(leader, os.WNOHANG) if alive(leader) else None
        time.sleep(0.02)
    assert not alive(face)


def test_a_face_outlives_no_guard(guarded: Guarded) -> None:
    leader, face = guarded.ready()
    os.kill(leader, signal.SIGKILL)
    assert guarded.wait() == 128 + signal.SIGKILL
    guarded.wait_for(lambda: not alive(face), "the end of the face")


def test_suspended_and_continued(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        modes = shell.private_modes()
        shell.run()
        leader, face = shell.ready()
        for stop in ("key", "guard", "face"):
            match stop:
                case "key":
                    shell.send("\x1a")
                case "guard":
                    os.kill(leader, signal.SIGTSTP)
                case _:
                    os.kill(face, signal.SIGSTOP)
            shell.wait_for_text("Stopped")
            assert shell.modes() == shell.first
            assert shell.private_modes() == modes
            shell.send("clear; fg\n")
            shell.ready()
        shell.send("bcd")
        shell.wait_for(lambda: re.search("ready, [34] keys", shell.text) is not None)
        shell.send("q")
        shell.wait_for(lambda: not alive(face), "the end")
        assert shell.ask("echo $?") == "0"
        assert shell.modes() == shell.first
        assert shell.private_modes() == modes


def test_timeout(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        modes = shell.private_modes()
        shell.run("timeout", "2")
        leader, face = shell.pids()
        shell.wait_for(lambda: not alive(face) and not alive(leader), "the end")
        assert shell.ask("echo $?") == "124"
        assert shell.modes() == shell.first
        assert shell.private_modes() == modes


def test_without_a_terminal_there_is_no_guard(capsys: pytest.CaptureFixture[str]) -> None:
    before = os.getpid()
    assert guard.run_guarded(lambda: os.getpid()) == before
    assert capsys.readouterr().out == ""


ENDINGS = ["quit", "raise", "abort", "TERM", "HUP", "INT", "KILL", "TERM guard", "HUP guard", "TERM both"]


def terminate(shell: Shell, seed: int) -> None:
    """One run with a random life and a random end."""
    chance = random.Random(seed)
    modes = shell.private_modes()
    shell.run()
    leader, face = shell.pids()
    if chance.random() < 0.8:
        shell.ready()
        for _ in range(chance.randrange(3)):
            if chance.random() < 0.5:
                shell.resize(80, chance.randrange(20, 40))
            shell.send(chance.choice(["b", "\x1b[A", "\x1b[<0;5;5M", "\x1b[200~paste\x1b[201~"]))
            if chance.random() < 0.5:
                shell.send("\x1a")
                shell.wait_for_text("Stopped")
                assert shell.private_modes() == modes
                shell.send("clear; fg\n")
                shell.ready()
    else:
        time.sleep(chance.random())
    ending = chance.choice(ENDINGS)
    match ending.split():
        case ["quit" | "raise" | "abort" as key]:
            shell.ready()
            shell.send({"quit": "q", "raise": "e", "abort": "a"}[key])
        case [name, "guard"]:
            os.kill(leader, signal.Signals[f"SIG{name}"])
        case [name, "both"]:
            os.killpg(leader, signal.Signals[f"SIG{name}"])
        case [name, *_]:
            os.kill(face, signal.Signals[f"SIG{name}"])
    shell.wait_for(lambda: not alive(face) and not alive(leader), f"the end after {ending}")
    assert shell.modes() == shell.first, ending
    assert shell.private_modes() == modes, ending


@pytest.mark.parametrize("seed", range(10))
def test_random_terminations(tmp_path: Path, seed: int) -> None:
    with Shell(tmp_path) as shell:
        terminate(shell, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 110))
def test_many_random_terminations(tmp_path: Path, seed: int) -> None:
    with Shell(tmp_path) as shell:
        terminate(shell, seed)
