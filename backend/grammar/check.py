"""Reads GBNF, llama.cpp's grammar language, so that a broken grammar is refused with a reason.

llama.cpp itself prints what it does not like on file descriptor 2; nothing that fails here is
ever handed to it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from backend.types import BackendError

MAX_GRAMMAR_BYTES = 1 << 20
MAX_REPEAT = 2000
"""llama.cpp refuses an item whose repetitions, multiplied, make this many rules."""
_MAX_RULES = 100_000
_MAX_ELEMENTS = 2_000_000
"""Rules and symbols of a grammar with its repetitions written out, which is how llama.cpp keeps it."""
_MAX_EMPTY = 64
"""How often what can be empty may be repeated: llama.cpp follows each way to leave some of it out."""
_MAX_DEPTH = 2_000
_MAX_VISITS = 100_000
"""How deep, and how often, llama.cpp's search for left recursion may call itself."""
_NAME = re.compile(r"[A-Za-z0-9-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_ESCAPE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[tnr\\\"\[\]])")
_REPEAT = re.compile(r"\{[ \t]*([0-9]+)[ \t]*(,[ \t]*([0-9]+)?[ \t]*)?\}")
_NO_TEXT = re.compile("[\0\ud800-\udfff]")

_Symbol: TypeAlias = str | int
"""A rule by its name, a group or a repetition by a number, or `_TEXT`."""
_TEXT: _Symbol = ""
"""Whatever takes at least one character."""


class GrammarError(BackendError, ValueError):
    """A grammar does not compile; the text names the line."""


def check_grammar(text: str) -> None:
    """Raise GrammarError for a grammar that llama.cpp would refuse or choke on.

    That is broken syntax, a missing rule, left recursion, a repeated item that can be empty, and
    repetitions that are too large when written out.
    """
    if len(text) > MAX_GRAMMAR_BYTES:
        raise GrammarError(f"The grammar is too long: {len(text)} characters, at most {MAX_GRAMMAR_BYTES}.")
    if found := _NO_TEXT.search(text):
        raise GrammarError(f"The grammar does not compile: it contains {found[0]!r}, which is not text.")
    _Reader(text).read()


class _Reader:
    """A recursive-descent reader that keeps the outline of each rule: what it refers to, and where
    it takes a character. It counts what llama.cpp would make of it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._rules: dict[_Symbol, list[list[_Symbol]]] = {}
        self._defined: dict[_Symbol, int] = {}
        self._used: dict[_Symbol, int] = {}
        """Where each rule is defined, and where it is first used."""
        self._endless: dict[_Symbol, int] = {}
        """What is repeated without an end, and where."""
        self._repeated: dict[_Symbol, tuple[int, int]] = {}
        """What is repeated, how often at most, and where."""
        self._numbers = itertools.count()
        self._names: set[str] = set()
        self._generated = 0
        """Rules that llama.cpp makes of groups and repetitions."""
        self._elements = 0
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
        for symbol, position in self._endless.items():
            # llama.cpp minds only a choice that is empty as it stands.
            if [] in self._rules.get(symbol, ()):
                raise self._error("what is repeated without an end can be empty", position)
        empty = _can_be_empty(self._rules)
        for symbol, (times, position) in self._repeated.items():
            if symbol in empty and times > _MAX_EMPTY:
                problem = (
                    f"what is repeated {times} times can be empty; at most {_MAX_EMPTY} times is allowed"
                )
                raise self._error(problem, position)
        self._refuse_left_recursion(_beginnings(self._rules, empty))

    def _rule(self) -> None:
        start = self._at
        name = self._name()
        self._skip()
        if not self._text.startswith("::=", self._at):
            raise self._error("expected ::= after a rule's name")
        self._at += 3
        self._skip(lines=True)
        self._rules[name] = self._alternates(nested=False)
        self._defined[name] = start
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            raise self._error("expected the end of the rule")
        self._skip(lines=True)

    def _alternates(self, *, nested: bool) -> list[list[_Symbol]]:
        options = [self._sequence(nested=nested)]
        while self._peek() == "|":
            self._at += 1
            self._skip(lines=True)
            options.append(self._sequence(nested=nested))
        return options

    def _sequence(self, *, nested: bool) -> list[_Symbol]:
        """Symbols up to the end of the rule, a `|`, or a `)`."""
        symbols: list[_Symbol] = []
        size, rules = 0, 1  # Of the last item: its elements, and the rules a repetition would copy.
        while self._at < len(self._text):
            char = self._peek()
            if char in "*+?{":
                if not size:
                    raise self._error("a repetition needs something in front of it")
                symbols[-1], size, rules = self._repetition(symbols[-1], size, rules)
            else:
                before = len(self._names) + self._generated
                start = self._at
                if not self._item(char, symbols):
                    return symbols
                size = self._at - start - 2 if char in '"[' else 1
                rules = max(1, len(self._names) + self._generated - before) if char == "(" else 1
                self._count(elements=size)
            self._skip(lines=nested)
        return symbols

    def _item(self, char: str, symbols: list[_Symbol]) -> bool:
        """Read one item into `symbols`, where an empty text leaves nothing; False where none begins."""
        start = self._at
        if char == '"':
            self._quoted('"')
            symbols += [_TEXT] if self._at - start > 2 else []
        elif char == "[":
            self._quoted("]")
            symbols.append(_TEXT)
        elif char == "(":
            symbols.append(self._group())
        elif char == ".":
            self._at += 1
            symbols.append(_TEXT)
        elif _NAME.match(char):
            name = self._name()
            self._used.setdefault(name, start)
            symbols.append(name)
        else:
            return False
        return True

    def _group(self) -> _Symbol:
        self._depth += 1
        if self._depth > 200:
            raise self._error("groups are nested too deeply")
        self._count(rules=1)
        self._at += 1
        self._skip(lines=True)
        options = self._alternates(nested=True)
        if self._peek() != ")":
            raise self._error("expected ) to close a group")
        self._at += 1
        self._depth -= 1
        return self._new_rule(options)

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

    def _repetition(self, item: _Symbol, size: int, rules: int) -> tuple[_Symbol, int, int]:
        """What an item with its repetition is: a symbol, its elements, its rules."""
        start = self._at
        low, high = self._times()
        if high is None:
            self._endless.setdefault(item, start)
        times = high or low
        if times > self._repeated.get(item, (0, 0))[0]:
            self._repeated[item] = (times, start)
        total = rules * (high or low or 1)
        if total > MAX_REPEAT:
            problem = (
                f"a repetition with those inside it makes {total} rules; at most {MAX_REPEAT} are allowed"
            )
            raise self._error(problem, start)
        optional = 1 if high is None else high - low
        self._count(rules=optional, elements=(low + optional) * (size + 1))
        options: list[list[_Symbol]] = [[]] if low == 0 else []
        if high != 0:
            options.append([item])
        return self._new_rule(options), low * size + 1, total

    def _times(self) -> tuple[int, int | None]:
        """How often at least and at most; None is no end."""
        if (char := self._peek()) != "{":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        found = _REPEAT.match(self._text, self._at)
        if not found:
            raise self._error("expected {m}, {m,} or {m,n}")
        # Python reads no numbers of thousands of digits; a few already are too many.
        low = int(found[1][:9])
        high = int(found[3][:9]) if found[3] else None if found[2] else low
        if high is not None and high < low:
            raise self._error("a repetition must be in order")
        if max(low, high or 0) > MAX_REPEAT:
            raise self._error(f"a repetition may be at most {MAX_REPEAT}")
        self._at = found.end()
        return low, high

    def _new_rule(self, options: list[list[_Symbol]]) -> _Symbol:
        number = next(self._numbers)
        self._rules[number] = options
        return number

    def _count(self, *, rules: int = 0, elements: int = 0) -> None:
        self._generated += rules
        self._elements += elements
        if self._generated > _MAX_RULES or self._elements > _MAX_ELEMENTS:
            raise self._error("its repetitions are too large when written out")

    def _refuse_left_recursion(self, begins: Mapping[_Symbol, list[_Symbol]]) -> None:
        """Walk through what each rule begins with, as llama.cpp does: it stops at no rule it has seen."""
        cost: dict[_Symbol, tuple[int, int]] = {}
        """Of a rule that is done: how deep and how often the search goes from it."""
        for first in begins:
            path = {} if first in cost else {first: iter(begins[first])}
            while path:
                symbol = next(reversed(path))
                below = next((each for each in path[symbol] if each not in cost), None)
                if below is None:
                    del path[symbol]
                    cost[symbol] = self._search_cost(symbol, [cost[each] for each in begins[symbol]])
                elif below in path:
                    raise self._left_recursion(list(path)[list(path).index(below) :])
                else:
                    path[below] = iter(begins[below])

    def _search_cost(self, symbol: _Symbol, below: list[tuple[int, int]]) -> tuple[int, int]:
        depth = 1 + max((depth for depth, _ in below), default=0)
        visits = 1 + sum(visits for _, visits in below)
        if depth > _MAX_DEPTH or visits > _MAX_VISITS:
            raise self._error("too many rules begin with one another", self._defined.get(symbol))
        return depth, visits

    def _left_recursion(self, circle: list[_Symbol]) -> GrammarError:
        name = next(symbol for symbol in circle if isinstance(symbol, str))
        return self._error(
            f"the rule {name} can begin with itself (left recursion); let it take something first",
            self._defined[name],
        )

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        if not found:
            raise self._error("expected a rule's name")
        self._at = found.end()
        self._names.add(found[0])
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


def _can_be_empty(rules: Mapping[_Symbol, list[list[_Symbol]]]) -> set[_Symbol]:
    """The rules that can be satisfied without any character."""
    empty: set[_Symbol] = set()
    found: list[_Symbol] = []
    waiting: dict[_Symbol, list[tuple[_Symbol, Iterator[_Symbol]]]] = {}
    """Options of rules by the symbol that is to be looked at next."""

    def advance(name: _Symbol, option: Iterator[_Symbol]) -> None:
        for symbol in option:
            if symbol not in empty:
                waiting.setdefault(symbol, []).append((name, option))
                return
        found.append(name)

    for name, options in rules.items():
        for option in options:
            advance(name, iter(option))
    while found:
        symbol = found.pop()
        if symbol not in empty:
            empty.add(symbol)
            for name, option in waiting.pop(symbol, ()):
                advance(name, option)
    return empty


def _beginnings(
    rules: Mapping[_Symbol, list[list[_Symbol]]], empty: set[_Symbol]
) -> dict[_Symbol, list[_Symbol]]:
    """What each rule can begin with, a symbol as often as it is named."""
    begins: dict[_Symbol, list[_Symbol]] = {}
    for name, options in rules.items():
        first = begins[name] = list[_Symbol]()
        for option in options:
            for symbol in option:
                if symbol == _TEXT:
                    break
                first.append(symbol)
                if symbol not in empty:
                    break
    return begins
