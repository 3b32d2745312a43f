"""Reads GBNF, llama.cpp's grammar language, so that a broken grammar is refused with a reason.

llama.cpp itself prints what it does not like on file descriptor 2; nothing that fails here is
ever handed to it.
"""

from __future__ import annotations

import re

from backend.types import BackendError

MAX_GRAMMAR_BYTES = 1 << 20
MAX_REPEAT = 2000
"""llama.cpp refuses longer repetitions."""
_NAME = re.compile(r"[A-Za-z0-9-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[tnr\\\"\[\]])")
_REPEAT = re.compile(r"\{[ \t]*(\d+)[ \t]*(,[ \t]*(\d+)?[ \t]*)?\}")


class GrammarError(BackendError, ValueError):
    """A grammar does not compile; the text names the line."""


def check_grammar(text: str) -> None:
    """Raise GrammarError for a grammar that llama.cpp would refuse: syntax, unknown rules, no root."""
    if len(text) > MAX_GRAMMAR_BYTES:
        raise GrammarError(f"The grammar is too long: {len(text)} characters, at most {MAX_GRAMMAR_BYTES}.")
    _Reader(text).read()


class _Reader:
    """A recursive-descent reader that keeps only which rules are defined and used."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._defined: set[str] = set()
        self._used: dict[str, int] = {}
        self._depth = 0

    def read(self) -> None:
        self._skip(lines=True)
        while self._at < len(self._text):
            self._rule()
        if "root" not in self._defined:
            raise GrammarError("The grammar has no rule called root, where a reply begins.")
        for name, position in self._used.items():
            if name not in self._defined:
                raise self._error(f"the rule {name} is used but not defined", position)

    def _rule(self) -> None:
        name = self._name()
        self._skip()
        if not self._text.startswith("::=", self._at):
            raise self._error("expected ::= after a rule's name")
        self._at += 3
        self._skip(lines=True)
        self._alternates(nested=False)
        self._defined.add(name)
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            raise self._error("expected the end of the rule")
        self._skip(lines=True)

    def _alternates(self, *, nested: bool) -> None:
        self._sequence(nested=nested)
        while self._peek() == "|":
            self._at += 1
            self._skip(lines=True)
            self._sequence(nested=nested)

    def _sequence(self, *, nested: bool) -> None:
        """Symbols up to the end of the rule, a `|`, or a `)`."""
        has_symbol = False
        while self._at < len(self._text):
            char = self._peek()
            if char == '"':
                self._quoted('"')
            elif char == "[":
                self._quoted("]")
            elif char == "(":
                self._group()
            elif char == ".":
                self._at += 1
            elif char in "*+?{":
                self._repetition(has_symbol)
            elif _NAME.match(char):
                start = self._at
                self._used.setdefault(self._name(), start)
            else:
                return
            has_symbol = True
            self._skip(lines=nested)

    def _group(self) -> None:
        self._depth += 1
        if self._depth > 200:
            raise self._error("groups are nested too deeply")
        self._at += 1
        self._skip(lines=True)
        self._alternates(nested=True)
        if self._peek() != ")":
            raise self._error("expected ) to close a group")
        self._at += 1
        self._depth -= 1

    def _quoted(self, end: str) -> None:
        start = self._at
        self._at += 1
        while (char := self._peek()) != end:
            if char in ("", "\r", "\n"):
                raise self._error(f"expected {end} to close what was opened", start)
            if char == "\\":
                escape = _ESCAPE.match(self._text, self._at)
                if not escape:
                    raise self._error("unknown escape")
                self._at = escape.end()
            else:
                self._at += 1
        self._at += 1

    def _repetition(self, has_symbol: bool) -> None:
        if not has_symbol:
            raise self._error("a repetition needs something in front of it")
        if self._peek() != "{":
            self._at += 1
            return
        found = _REPEAT.match(self._text, self._at)
        if not found:
            raise self._error("expected {m}, {m,} or {m,n}")
        low, high = int(found[1]), int(found[3] or found[1])
        if max(low, high) > MAX_REPEAT or high < low:
            raise self._error(f"a repetition must be in order and at most {MAX_REPEAT}")
        self._at = found.end()

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if not found:
            raise self._error("expected a rule's name")
        self._at = found.end()
        return found[0]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, *, lines: bool = False) -> None:
        pattern = _SPACE_AND_LINES if lines else _SPACE
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _error(self, problem: str, position: int | None = None) -> GrammarError:
        line = self._text.count("\n", 0, self._at if position is None else position) + 1
        return GrammarError(f"The grammar does not compile: {problem} (line {line}).")
