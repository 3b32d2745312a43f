"""Colours of code: line by line while a block grows, exact in slices once it is closed.

A lexer's state is kept at each line end, so a new line costs one line at any length. What one
pattern matches over several lines is only known when the block is lexed as a whole.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from time import perf_counter
from types import FunctionType
from typing import Any, cast

_log = logging.getLogger(__name__)

Line = list[tuple[str, str]]
"""Pieces of one line of code with their styles."""

_LINES_AT_ONCE = 60
"""Lines of an open block that are coloured without asking for time; more wait for `advance`."""
_WHOLE_AT_ONCE = 2_000
"""Characters of a closed block that are lexed without asking for time."""
_MAX_STATES = 100
_COMMENT_LINES = 40
"""Lines of a comment that are lexed again when it ends while the block is open."""
_MAX_LINE = 4_000
_MAX_CODE = 400_000

_STYLES = {
    "Comment": "comment:i",
    "Keyword": "keyword",
    "Literal": "string",
    "Literal.String": "string",
    "Literal.Number": "number",
    "Literal.Date": "number",
    "Name.Function": "function",
    "Name.Class": "function",
    "Name.Builtin": "builtin",
    "Name.Exception": "builtin",
    "Name.Decorator": "decorator",
    "Name.Tag": "keyword",
    "Operator": "operator",
    "Operator.Word": "keyword",
    "Punctuation": "operator",
    "Generic.Inserted": "added",
    "Generic.Deleted": "removed",
    "Generic.Heading": "muted",
    "Generic.Subheading": "muted",
}


def language_of(info: str) -> str:
    """The language an info string names: ` ```{.python title=x}` and ` ```Python,ignore` are "python"."""
    words = re.split(r"[\s,;:{}=]+", info.strip("{}. \t"), maxsplit=1)
    return words[0].strip(".").lower()


def load_lexers() -> None:
    """Import Pygments and the lexer that most blocks need."""
    _lexer("python")


class Highlighter:
    """Styles of the lines of one block of code."""

    def __init__(self, language: str) -> None:
        self.styled: list[Line] = []
        """Lines whose styles are known, from the first."""
        self._lexer = _lexer(language)
        self._changed: tuple[int, int] | None = None
        self._stacks: list[tuple[str, ...]] = [("root",)]
        """The lexer's states at the start of each line it followed, and after the last."""
        self._followed = 0
        self._exact = -1
        """How many lines the block had when it was lexed as a whole."""
        self._whole: Iterator[Line] | None = None
        self._whole_size = 0
        self._whole_done = 0

    @property
    def is_stale(self) -> bool:
        """True if lines changed that nobody took."""
        return self._changed is not None

    def take_changes(self) -> tuple[int, int]:
        """The range of lines whose styles changed since the last call."""
        changed, self._changed = self._changed or (0, 0), None
        return changed

    def follow(self, lines: list[str], complete: int) -> None:
        """Style what is new of the first `complete` lines of an open block, unless it is much."""
        if complete - self._followed <= _LINES_AT_ONCE:
            self._follow(lines, complete)

    def _follow(self, lines: list[str], end: int) -> None:
        start = self._followed
        if self._lexer is None or start >= end or not _can_follow(self._lexer):
            return
        if max(map(len, lines[start:end])) > _MAX_LINE:
            self._lexer = None
            return
        start = _comment_start(lines, start, end)
        stack = list(self._stacks[start])
        del self._stacks[start + 1 :]
        text = "\n".join(lines[start:end]) + "\n"
        found = list(_lines(_guarded(_follow(self._lexer, text, stack, self._stacks))))
        for number in range(start, end):
            self._set(number, found[number - start] if number - start < len(found) else [], lines[number])
        self._stacks += [tuple(stack)] * (end + 1 - len(self._stacks))
        self._followed = end

    def close(self, lines: list[str]) -> None:
        """The block is complete: a short one is lexed at once."""
        if self._exact != len(lines) and sum(map(len, lines)) <= _WHOLE_AT_ONCE:
            self._lex_whole(lines, None)

    def advance(self, lines: list[str], complete: int, closed: bool, deadline: float) -> bool:
        """Style more until `deadline` (of `perf_counter`); True while more is to be done."""
        if self._lexer is None:
            return False
        if closed:
            return self._exact != len(lines) and not self._lex_whole(lines, deadline)
        while (start := self._followed) < complete:
            self._follow(lines, min(complete, start + 8))
            if self._followed == start:
                return False
            if perf_counter() >= deadline:
                return self._followed < complete
        return False

    def _lex_whole(self, lines: list[str], deadline: float | None) -> bool:
        """Lex the whole block until `deadline`; True when it is done."""
        if not lines or self._lexer is None:
            return True
        if self._whole is None or self._whole_size != len(lines):
            if sum(map(len, lines)) > _MAX_CODE or max(map(len, lines)) > _MAX_LINE:
                self._lexer = None
                return True
            text = "\n".join(lines) + "\n"
            self._whole, self._whole_size, self._whole_done = (
                _lines(_guarded(_lex(self._lexer, text))),
                len(lines),
                0,
            )
        for line in self._whole:
            if self._whole_done == len(lines):
                break
            self._set(self._whole_done, line, lines[self._whole_done])
            self._whole_done += 1
            if deadline is not None and self._whole_done % 4 == 0 and perf_counter() >= deadline:
                return False
        self._whole = None
        self._exact = len(lines)
        return True

    def _set(self, number: int, line: Line, text: str) -> None:
        if "".join([part for part, _ in line]) != text:
            line = [(text, "code")]  # a lexer may be wrong about colours, never about the code
        if number < len(self.styled):
            if self.styled[number] == line:
                return
            self.styled[number] = line
        else:
            self.styled.append(line)
        first, last = self._changed or (number, number)
        self._changed = min(first, number), max(last, number + 1)


def _lines(tokens: Iterator[tuple[str, str]]) -> Iterator[Line]:
    line: Line = []
    for style, value in tokens:
        for index, part in enumerate(value.split("\n")):
            if index:
                yield line
                line = []
            if not part:
                continue
            if line and line[-1][1] == style:
                line[-1] = (line[-1][0] + part, style)
            else:
                line.append((part, style))
    if line:
        yield line


@cache
def _style(kind: Any) -> str:
    """Style key of a Pygments token type: that of its nearest kind that has one."""
    words = str(kind).removeprefix("Token").lstrip(".").split(".")
    while words:
        style = _STYLES.get(".".join(words))
        if style:
            return style
        words.pop()
    return "code"


@cache
def _lexer(language: str) -> Any:
    """The Pygments lexer of that name, or None."""
    if not language or language in ("text", "txt", "plain", "plaintext", "output", "console"):
        return None
    from pygments import lexers
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _guarded(tokens: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """`tokens` up to the first failure: hundreds of lexers by others, and colours are no reason to stop."""
    try:
        yield from tokens
    except Exception:
        _log.debug("a lexer failed", exc_info=True)


def _lex(lexer: Any, text: str) -> Iterator[tuple[str, str]]:
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        yield _style(kind), value


def _can_follow(lexer: Any) -> bool:
    """True if the lexer's state at a line end is a stack of names."""
    from pygments.lexer import ExtendedRegexLexer, RegexLexer

    return isinstance(lexer, RegexLexer) and not isinstance(lexer, ExtendedRegexLexer)


def _comment_start(lines: list[str], start: int, end: int) -> int:
    """The line to lex from: where a comment starts that ends in the new lines, else the first new line.

    Most lexers match a comment over lines by one pattern, which needs all of it.
    """
    for closing, opening in (("*/", "/*"), ("-->", "<!--")):
        if any(closing in line for line in lines[start:end]):
            for number in range(start - 1, max(-1, start - _COMMENT_LINES), -1):
                if closing in lines[number]:
                    break
                if opening in lines[number]:
                    return number
    return start


def _follow(
    lexer: Any, text: str, stack: list[str], stacks: list[tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    """Lex `text` from the states in `stack`, which are left as they are at its end.

    The states after each line that a token ends are added to `stacks`.
    """
    rules = cast("dict[str, list[Any]]", lexer._tokens)
    first = len(stacks)
    at = stuck = line = 0
    while at < len(text):
        before = at
        for match_at, action, new_state in rules.get(stack[-1], ()):
            match = match_at(text, at)
            if match is None:
                continue
            stuck = stuck + 1 if match.end() == at else 0
            if stuck > _MAX_STATES:
                continue  # states that lead to each other without reading anything
            if isinstance(action, FunctionType):
                for _, kind, value in action(lexer, match):
                    yield _style(kind), value
            elif action is not None:
                yield _style(action), match.group()
            at = match.end()
            if new_state is not None:
                _enter(stack, new_state)
            break
        else:
            if text[at] == "\n":
                stack[:] = ["root"]
            yield "code", text[at]
            at += 1
        line += text.count("\n", before, at)
        stacks += [tuple(stack)] * (first + line - len(stacks))


def _enter(stack: list[str], state: Any) -> None:
    match state:
        case tuple():
            for name in cast("tuple[str, ...]", state):
                _enter(stack, name)
        case int():
            depth = len(stack) + state if state < 0 else state
            del stack[max(1, depth) :]
        case "#pop":
            if len(stack) > 1:
                stack.pop()
        case "#push":
            stack.append(stack[-1])
        case _:
            stack.append(str(state))
