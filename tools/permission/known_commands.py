"""The commands a saved rule may cover: programs that only tell, with exactly the options that stay so.

A list of what is known to be harmless, so that everything else asks: nothing here runs another program,
writes a file, or takes a file that names further ones. Whatever is not spelled out has no rule.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.definition import ToolError
from tools.permission.repository import why_it_may_run_something
from tools.permission.shell_words import Argv, Command
from tools.process import tool_environment
from tools.workspace import Workspace

_NUMBER = re.compile(r"[+-]?\d{1,9}\Z")
_FORMAT = re.compile(r"\+[\w%:./ -]{0,80}\Z", re.ASCII)
_BUILT_IN = frozenset(("echo", "pwd", "true", "false"))
"""A shell knows these itself, whatever lies on PATH."""

Operands = Literal["none", "words", "format", "paths", "pattern", "program"]


@dataclass(frozen=True)
class _Program:
    """What one program, or one subcommand, may be given."""

    operands: Operands
    letters: str = ""
    """Options of one letter without a value, alone or joined."""
    numbers: str = ""
    """Options of one letter that take a number."""
    words: frozenset[str] = frozenset()
    """Long options, exactly."""
    needs: str = ""
    """An option without which it goes through folders."""


def _of(
    operands: Operands, letters: str = "", numbers: str = "", words: str = "", needs: str = ""
) -> _Program:
    return _Program(operands, letters, numbers, frozenset(words.split()), needs)


_SUM = _of("paths", "bt")
_PROGRAMS = {
    "ls": _of("paths", "laAh1trSsFidgGnpmcuX", words="--all --almost-all --human-readable --reverse --size"),
    "cat": _of("paths", "nbAEsTtev"),
    "tac": _of("paths"),
    "nl": _of("paths"),
    "head": _of("paths", "qv", "nc"),
    "tail": _of("paths", "qv", "nc"),
    "wc": _of("paths", "clmwL", words="--lines --words --bytes --chars"),
    "du": _of("paths", "shkmb", words="--summarize --human-readable --bytes", needs="s"),
    "df": _of("paths", "hTikm", words="--human-readable"),
    "stat": _of("paths", "t"),
    "file": _of("paths", "bi", words="--brief --mime --mime-type"),
    "realpath": _of("paths", "esm"),
    "readlink": _of("paths", "efmn"),
    "sort": _of("paths", "nrufhVb"),
    "grep": _of("pattern", "nilcwvEFHhoqsx", "ABCm", "--line-number --ignore-case --count --color=never"),
    "cmp": _of("paths", "sbl"),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "sha512sum": _SUM,
    "b2sum": _SUM,
    "cksum": _of("paths"),
    "basename": _of("words"),
    "dirname": _of("words"),
    "echo": _of("words", "neE"),
    "which": _of("words", "a"),
    "pwd": _of("none", "LP"),
    "true": _of("none"),
    "false": _of("none"),
    "whoami": _of("none"),
    "id": _of("none", "ugnGr"),
    "groups": _of("none"),
    "hostname": _of("none"),
    "nproc": _of("none", words="--all"),
    "arch": _of("none"),
    "uname": _of("none", "asnrvmpio"),
    "uptime": _of("none", "ps"),
    "free": _of("none", "bkmght"),
    "date": _of("format", "uR", words="--utc"),
}
_GIT = {
    "status": _of("paths", "sb", words="--short --branch --porcelain --long"),
    "ls-files": _of("paths", "cdmst"),
    "log": _of("none", "", "n", "--oneline --graph --decorate --all --no-merges --reverse"),
    "branch": _of("none", "avr", words="--list --show-current --all"),
    "rev-parse": _of("words", words="--show-toplevel --abbrev-ref --short --is-inside-work-tree --verify"),
}


@dataclass(frozen=True)
class Known:
    """A command that is known: the words that stay, and those that are paths."""

    fixed: Argv
    paths: Argv
    takes_paths: bool


class UnknownCommandError(Exception):
    """No rule covers a command; the text says why, as the end of a sentence."""


def understand(command: Command, space: Workspace | None = None) -> Known:
    """The command as one that a rule may cover. Raises UnknownCommandError.

    With `space`, where it would run, its paths must lie in it and its program must not.
    """
    if not command.segments:
        raise UnknownCommandError(command.why)
    if not command.is_one:
        raise UnknownCommandError("it joins several commands")
    known = read_words(command.segments[0])
    if space is not None:
        _check_paths(known, space)
        _check_program(known.fixed[0], space)
        if known.fixed[0] == "git" and (why := why_it_may_run_something(space.root)):
            raise UnknownCommandError(why)
    return known


def read_words(argv: Argv) -> Known:
    """The words of one command, without a look at any file. Raises UnknownCommandError."""
    if not argv:
        raise UnknownCommandError("it is empty")
    name = argv[0]
    start, program = 1, _PROGRAMS.get(name)
    if name == "git" and len(argv) > 1:
        start, program = 2, _GIT.get(argv[1])
    if program is None:
        raise UnknownCommandError(_unlisted(argv))
    return _Reader(argv, start, program).known()


def _unlisted(argv: Argv) -> str:
    if "/" in argv[0]:
        return f"{argv[0]} is a file, which may change"
    shown = " ".join(argv[:2] if argv[0] == "git" else argv[:1])
    return f"{shown} may run or change whatever its arguments or files say"


class _Reader:
    def __init__(self, argv: Argv, start: int, program: _Program) -> None:
        self._program = program
        self._fixed = [*argv[:start]]
        self._paths: list[str] = []
        self._left = [*argv[start:]]
        self._letters = ""
        self._operands = 0

    def known(self) -> Known:
        program = self._program
        while self._left:
            self._word(self._left.pop(0))
        if program.operands == "pattern" and not self._operands:
            raise UnknownCommandError("it has no pattern")
        if program.needs and program.needs not in self._letters:
            raise UnknownCommandError(f"without -{program.needs} it goes through folders")
        takes_paths = program.operands in ("paths", "pattern")
        return Known(tuple(self._fixed), tuple(self._paths), takes_paths)

    def _word(self, word: str) -> None:
        if word.startswith("-") and word != "-":
            self._option(word)
            return
        self._operands += 1
        match self._program.operands:
            case "words":
                self._fixed.append(word)
            case "format" if _FORMAT.match(word):
                self._fixed.append(word)
            case "pattern" if self._operands == 1:
                self._fixed.append(word)
            case "paths" | "pattern" if word not in ("", "-") and word[0] != "@":
                self._paths.append(word)
            case _:
                raise UnknownCommandError(f"it is given {word!r}")

    def _option(self, word: str) -> None:
        program, letters = self._program, word[1:]
        self._fixed.append(word)
        if word in program.words:
            return
        if letters[:1] in program.numbers and letters:
            value = letters[1:] or (self._left.pop(0) if self._left else "")
            if not letters[1:]:
                self._fixed.append(value)
            if _NUMBER.match(value):
                return
        elif not set(letters) - {*program.letters}:
            self._letters += letters
            return
        raise UnknownCommandError(f"its option {word} may do something else")


def _check_paths(known: Known, space: Workspace) -> None:
    for word in known.paths:
        try:
            place = space.locate(word)
        except ToolError as err:
            raise UnknownCommandError(f"{word} is not a path that can be followed") from err
        if place.secret or place.hidden or not place.inside or (known.fixed[0] == "git" and word[:1] == ":"):
            raise UnknownCommandError(f"{word} is not an ordinary file or folder of the workspace")


def _check_program(name: str, space: Workspace) -> None:
    """That no file of the workspace can be what runs under this name."""
    if name in _BUILT_IN:
        return
    for folder in _path_folders():
        if _is_within(folder, space.root):
            raise UnknownCommandError(f"PATH looks for {name} in the workspace first")
        found = folder / name
        if os.access(found, os.X_OK) and found.is_file():
            if _is_within(Path(os.path.realpath(found)), space.root):
                raise UnknownCommandError(f"{name} is a file of the workspace")
            return
    raise UnknownCommandError(f"{name} is not on PATH")


def _path_folders() -> Iterator[Path]:
    for name in tool_environment()["PATH"].split(os.pathsep):
        yield Path(os.path.realpath(name))


def _is_within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents
