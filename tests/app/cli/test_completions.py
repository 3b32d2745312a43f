"""Words that a shell offers, in real shells where TAB is pressed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from app import paths
from tests.app.process import COMMAND, fireside
from tests.app.terminal_process import Terminal

HOSTILE = (
    *(
        "s$(touch ran)",
        "s\\$(touch ran)",
        "s`touch ran`",
        "s\\`touch ran\\`",
        "s$HOME",
        "s${HOME}",
        "s$((1))",
    ),
    *(
        "s'; touch ran; '",
        "s''$(touch ran)''",
        's"; touch ran; "',
        's"$(touch ran)"',
        "s'\\''",
        "s))'; touch ran #",
    ),
    *("s\ntouch ran\n", "s\n$(touch ran)", "s\rtouch ran\r", "s\ttouch ran", "s; touch ran", "s&touch ran&"),
    *(
        "s|touch ran",
        "s<(touch ran)",
        "s>ran",
        "s=(touch ran)",
        "s{a,b}",
        "s*",
        "s?",
        "s[a]",
        "s~",
        "s!!",
        "s#",
    ),
    *(
        "s^x",
        "s%d",
        "s:$(touch ran)",
        "s:x",
        "s\x1b]0;x\x07",
        "s\x1b[2J",
        "s\u202eb",
        "s\u2028b",
        "s a",
        "s\\",
    ),
    *("-s", "--approve=all", "s(x)", "s(e:touch ran:)", "s*(e:touch ran:)", "sü"),
)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of models and profiles with hostile names beside one that is offered."""
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "data"))
    folder = tmp_path / "data" / "models"
    profiles = paths.config_file().parent / "profiles"
    for place in (folder, profiles):
        place.mkdir(parents=True)
    for name in (*HOSTILE, "ssafe"):
        (folder / f"{name}.gguf").touch()
        (profiles / f"{name}.toml").touch()
    return folder


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("words", ["--model s", "--profile "])
def test_only_plain_words_are_offered(models: Path, name: str, words: str) -> None:
    asked = {
        "_FIRESIDE_COMPLETE": f"complete_{name}",
        "_TYPER_COMPLETE_ARGS": f"fireside {words}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": f"fireside {words}",
        "COMP_CWORD": "2",
    }
    output = fireside(env={**os.environ, **asked}).stdout.decode()
    assert "ssafe" in output
    assert not any(part in output for part in ("touch", "$", "`", "\x1b", "%", "*(", "{", "approve=", "\\"))


@pytest.mark.parametrize("typed", ["\\$(touch ran)", "a'b"])
@pytest.mark.parametrize("command", ["demo", "sessions import"])
def test_what_was_typed_is_not_given_back_to_be_evaluated(models: Path, command: str, typed: str) -> None:
    asked = {"_FIRESIDE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"fireside {command} {typed!r}"}
    output = fireside(env={**os.environ, **asked}).stdout.decode()
    assert "touch" not in output
    assert "a'b" not in output


START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(fireside completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'unsetopt prompt_sp; autoload -U compinit; compinit -u -D; eval "$(fireside completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "fireside completion fish | source"),
}
END = "printf 'rea%s\\n' dy"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", sorted(START))
def test_tab_runs_nothing_and_completes_what_is_plain(name: str, models: Path, tmp_path: Path) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    command = tmp_path / "bin" / "fireside"
    command.parent.mkdir()
    # What a shell runs of the line is told, not done.
    command.write_text(
        "#!/bin/sh\n"
        f'[ -n "$_FIRESIDE_COMPLETE$1" ] && [ "$1" != --model ] && exec "{COMMAND[0]}" "{COMMAND[1]}" "$@"\n'
        "printf 'got <%s>\\n' \"$@\"\n"
    )
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    program, setup = START[name]
    environ = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "TERM": "xterm", "PS1": "> "}
    with Terminal([shutil.which(name) or name, *program[1:]], environ, 100, 40) as terminal:
        terminal.send(f"cd {work}; {setup}; {END}\r")
        terminal.wait_for_text("ready")
        terminal.send("clear\r")
        terminal.wait_for(lambda: "ready" not in terminal.text)
        terminal.send("fireside --model s\t")
        terminal.wait_for(lambda: "ssafe" in terminal.text, "the plain word")
        terminal.send("\r")
        terminal.wait_for_text("got <ssafe>")
        terminal.send(f"{END}\r")
        terminal.wait_for_text("ready")
    assert list(work.iterdir()) == []
