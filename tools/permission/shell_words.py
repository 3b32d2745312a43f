"""A shell command as the argument lists it would run, when it is plain enough to be sure of that.

Everything that a shell would expand, substitute, redirect or run in the background is refused: such
a command has no argument lists that a rule could match.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Argv: TypeAlias = tuple[str, ...]

_EXPANDS = frozenset("$`(){}<>*?[]~#!")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_KEYWORDS = frozenset(
    "if then elif else fi for while until do done case esac select function time coproc in".split()
)


@dataclass(frozen=True)
class Command:
    """A command line as it was understood."""

    segments: tuple[Argv, ...] = ()
    """What is run, in order; empty when it was not understood."""
    why: str = ""
    """Why it was not understood."""

    @property
    def is_one(self) -> bool:
        """One program with its arguments and no operator."""
        return len(self.segments) == 1


def parse_command(text: str) -> Command:
    """Read a command; only words, quotes, `;`, `&&`, `||`, `|` and newlines are understood."""
    try:
        segments = tuple(_Reader(text).segments())
    except _NotPlainError as err:
        return Command(why=str(err))
    return Command(segments) if segments else Command(why="it is empty")


def words_of(text: str) -> Iterator[str]:
    """Everything in a command or program that may be a path, found without understanding it."""
    for word in re.split(r"[\s'\"`()<>|&;,=:{}\[\]]+", text):
        if word:
            yield word


class _NotPlainError(Exception):
    pass


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def segments(self) -> Iterator[Argv]:
        if _CONTROL.search(self._text):
            raise _NotPlainError("it contains control characters")
        words: list[str] = []
        joined = False
        for token in self._tokens():
            if isinstance(token, str):
                words.append(token)
                joined = False
                continue
            if words:
                yield _checked(words)
                words = []
            elif joined or token.text != "\n":
                raise _NotPlainError("an operator stands alone")
            joined = token.text not in ("\n", ";")
        if joined:
            raise _NotPlainError("an operator stands at its end")
        if words:
            yield _checked(words)

    def _tokens(self) -> Iterator[str | _Operator]:
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t":
                self._at += 1
            elif char in "\n;|&":
                yield self._operator(char)
            else:
                yield self._word()

    def _operator(self, char: str) -> _Operator:
        pair = self._text[self._at : self._at + 2]
        if pair in ("&&", "||"):
            self._at += 2
            return _Operator(pair)
        if char == "&":
            raise _NotPlainError("it runs something in the background")
        if pair in (";;", ";&", "|&"):
            raise _NotPlainError(f"it uses {pair}")
        self._at += 1
        return _Operator(char)

    def _word(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text) and (char := self._text[self._at]) not in " \t\n;|&":
            self._at += 1
            match char:
                case "'":
                    parts.append(self._until_quote())
                case '"':
                    parts.append(self._double_quoted())
                case "\\":
                    parts.append(self._escaped())
                case _ if char in _EXPANDS:
                    raise _NotPlainError(f"the shell would expand or redirect at {char!r}")
                case _ if unicodedata.category(char)[0] in "CZ":
                    raise _NotPlainError("it contains invisible characters")
                case _:
                    parts.append(char)
        return "".join(parts)

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise _NotPlainError("a quote is not closed")
        found, self._at = self._text[self._at : end], end + 1
        return found

    def _double_quoted(self) -> str:
        parts: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if char == '"':
                return "".join(parts)
            if char in "$`!":
                raise _NotPlainError(f"the shell would expand at {char!r}")
            if char == "\\":
                following = self._text[self._at : self._at + 1]
                if following == "\n":
                    raise _NotPlainError("a line is continued")
                if following and following in '"\\$`':
                    self._at += 1
                    parts.append(following)
                    continue
            parts.append(char)
        raise _NotPlainError("a quote is not closed")

    def _escaped(self) -> str:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        if not char or char == "\n":
            raise _NotPlainError("a line is continued")
        return char


@dataclass(frozen=True)
class _Operator:
    text: str


def _checked(words: Sequence[str]) -> Argv:
    first = words[0]
    if "=" in first:
        raise _NotPlainError("it sets a variable")
    if first in _KEYWORDS or not first:
        raise _NotPlainError(f"{first!r} is part of a shell program")
    return tuple(words)
