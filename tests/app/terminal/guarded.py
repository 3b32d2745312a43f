"""Programs under the terminal guard, in a terminal of their own or in a shell with job control."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.app.terminal_process import ROOT, Terminal

STOPPED = "Stopped"
ALTERNATE = 1049 << 5
_EDITOR_MODES = frozenset({2004})
"""What the shell's own line editor turns on."""


@dataclass(frozen=True)
class Program:
    """What is run, what its screen shows when it takes keys, and the keys that end it."""

    command: tuple[str, ...]
    ready: str
    endings: dict[str, str]


SAMPLE = Program(
    (sys.executable, str(Path(__file__).with_name("guarded_app.py"))),
    "ready",
    {"quit": "q", "raise": "e", "abort": "a", "vanish": "x"},
)


def environ(**extra: str) -> dict[str, str]:
    """A plain environment; the home is that of the test."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    return {**kept, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "PS1": "prompt> ", **extra}


def alive(pid: int) -> bool:
    """Whether there is such a process that still runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    """The processes that `pid` started and that still run."""
    try:
        found = [
            *map(int, " ".join(t.read_text() for t in Path(f"/proc/{pid}/task").glob("*/children")).split())
        ]
    except OSError:
        return []
    return [child for child in found if alive(child)]


def _command_of(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


class Guarded(Terminal):
    """A program under the guard, in a terminal of its own."""

    def __init__(self, program: Program = SAMPLE, command: list[str] | None = None, **extra: str) -> None:
        self.program = program
        super().__init__(command or list(program.command), environ(**extra))

    @property
    def guard(self) -> int:
        """The guard's process id."""
        return self.pid

    @property
    def face(self) -> int:
        """The face's process id, once there is one."""
        self.wait_for(lambda: bool(children(self.guard)), "the face")
        return children(self.guard)[0]

    def ready(self) -> tuple[int, int]:
        """The guard's and the face's process ids, when the screen is there."""
        self.wait_for(
            lambda: ALTERNATE in self.state().modes and self.program.ready in self.text, "the screen"
        )
        return self.guard, self.face


class Shell(Guarded):
    """The same in a shell with job control, where the program can be run again and again."""

    def __init__(self, program: Program = SAMPLE, **extra: str) -> None:
        super().__init__(program, ["bash", "--norc", "--noprofile", "-i"], **extra)
        self.wait_for_text("prompt>")
        self._count = 0
        self.before_line = self.ask("stty -g")
        self.before_modes = self.modes()

    @property
    def guard(self) -> int:
        found: list[int] = []

        def started() -> bool:
            found[:] = [pid for pid in children(self.pid) if self.program.command[-1] in _command_of(pid)]
            return bool(found)

        self.wait_for(started, "the program")
        return found[0]

    def run(self, *before: str) -> None:
        """Start the program, behind the words `before`."""
        self.send(f"clear; {shlex.join([*before, *self.program.command])}\n")

    def ask(self, command: str) -> str:
        """What a command writes, in one line."""
        self._count += 1
        self.send(f"printf '\\n<%s:%s>\\n' {self._count} \"$({command})\"\n")
        found: list[str] = []

        def answered() -> bool:
            joined = "".join(line.ljust(self.screen.columns) for line in self.text.split("\n"))
            found[:] = re.findall(rf"<{self._count}:([^>$]*)>", joined)
            return bool(found)

        self.wait_for(answered, command)
        return found[0]

    def modes(self) -> tuple[frozenset[int], bool, int]:
        """Private modes that are on, whether the cursor is hidden, the depth of the keyboard's stack."""
        state = self.state()
        private = frozenset(mode >> 5 for mode in state.modes if mode >= 32) - _EDITOR_MODES
        return private, state.cursor_hidden, state.keyboard

    def check_restored(self, when: str = "") -> None:
        """The terminal is as it was before the first run; the shell has it."""
        assert self.ask("stty -g") == self.before_line, when
        assert self.modes() == self.before_modes, when

    def stop(self) -> None:
        """Ctrl-Z, as a person presses it."""
        self.send("\x1a")
        self.wait_for_text(STOPPED)

    def go_on(self) -> tuple[int, int]:
        """`fg`, and the screen is there again."""
        self.send("clear; fg\n")
        return self.ready()

    def wait_for_end(self, guard: int, face: int, what: str = "") -> None:
        """Wait until both processes are gone."""
        self.wait_for(lambda: not alive(face) and not alive(guard), f"the end {what}")


SIGNALS = ["TERM", "HUP", "INT", "KILL", "TERM guard", "HUP guard", "INT guard", "TERM both", "HUP both"]


def terminate(shell: Shell, seed: int) -> None:
    """One run with a random life and a random end; the terminal is then as it was."""
    chance = random.Random(seed)
    shell.run()
    guard, face = shell.guard, shell.face
    is_ready = chance.random() < 0.8
    if is_ready:
        shell.ready()
        for _ in range(chance.randrange(3)):
            if chance.random() < 0.5:
                shell.resize(80, chance.randrange(20, 40))
            shell.send(chance.choice(["b", "\x1b[A", "\x1b[<0;5;5M", "\x1b[200~paste\x1b[201~"]))
            if chance.random() < 0.5:
                shell.stop()
                shell.check_restored("while it is stopped")
                shell.go_on()
    else:
        time.sleep(chance.random() * 1.5)
    ending = chance.choice([*SIGNALS, *(shell.program.endings if is_ready else ())])
    _end(shell, ending, guard, face)
    shell.wait_for_end(guard, face, f"after {ending}")
    shell.check_restored(f"after {ending}")


def _end(shell: Shell, ending: str, guard: int, face: int) -> None:
    if ending in shell.program.endings:
        shell.send(shell.program.endings[ending])
        return
    name, _, target = ending.partition(" ")
    number = signal.Signals[f"SIG{name}"]
    if target == "both":
        os.killpg(guard, number)
    else:
        os.kill(guard if target else face, number)
