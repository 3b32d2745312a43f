"""Colours of code, one line at a time, each read once.

The patterns of a lexer are others' and hold the interpreter while they match, some for a time that is
the square of what they get. So a lexer gets a line of bounded length and nothing more, with the state
that the line before left; only lexers that were tried with hostile lines are used (`LEXERS`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from time import perf_counter, thread_time
from types import FunctionType
from typing import Any, cast

_log = logging.getLogger(__name__)

Line = list[tuple[str, str]]
"""Pieces of one line of code with their styles."""

_CHARACTERS_AT_ONCE = 2_000
"""That are coloured without asking for time, where no more are new; others wait for `advance`."""
_MAX_STATES = 100
_MAX_LINE = 300
"""Longer lines are shown without colours."""
_MAX_CODE = 400_000
_SLOW_S = 0.02
_MAX_SLOW = 5
"""Lines that may take longer than that before a block goes without colours."""

LEXERS = frozenset(
    "bash c cmake cpp csharp css dart diff docker elixir fish go graphql groovy haskell hcl html ini java"
    " javascript json jsx julia kotlin less lua make markdown matlab nginx nix objective-c ocaml perl php"
    " postgresql powershell properties protobuf python r ruby rust scala scheme scss sql sqlite3 swift"
    " terraform tex toml tsx typescript xml yaml zig".split()
)
"""Names that Pygments has for the languages that are coloured; each also goes by its other names."""
_SLASH_COMMENTS = frozenset(
    "c cpp csharp css dart go groovy hcl java javascript jsx kotlin less objective-c php postgresql protobuf"
    " scala scss sql sqlite3 terraform tsx typescript".split()
)
"""Of them those with `/* */`."""
_EMBEDDED = {"script-content": "</script", "style-content": "</style"}
"""States for another language inside, and what ends it."""

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
        self._has_slash_comments = self._lexer is not None and self._lexer.aliases[0] in _SLASH_COMMENTS
        self._changed: tuple[int, int] | None = None
        self._stack = ["root"]
        self._comment = ""
        """What ends the comment over lines that is open, which no single line would show."""
        self._size = 0
        self._slow = 0

    @property
    def is_stale(self) -> bool:
        """True if lines changed that nobody took."""
        return self._changed is not None

    def take_changes(self) -> tuple[int, int]:
        """The range of lines whose styles changed since the last call."""
        changed, self._changed = self._changed or (0, 0), None
        return changed

    def follow(self, lines: list[str], complete: int) -> None:
        """Style what is new of the first `complete` lines, unless it is much."""
        done = len(self.styled)
        size = 0
        for line in lines[done:complete]:
            size += len(line) + 1
            if size > _CHARACTERS_AT_ONCE:
                return
        while self._lexer is not None and len(self.styled) < complete:
            self._style_next(lines)

    def advance(self, lines: list[str], complete: int, deadline: float) -> bool:
        """Style more of the first `complete` lines until `deadline` (of `perf_counter`); True while
        more is to be done."""
        while self._lexer is not None and len(self.styled) < complete:
            self._style_next(lines)
            if perf_counter() >= deadline:
                return self._lexer is not None and len(self.styled) < complete
        return False

    def _style_next(self, lines: list[str]) -> None:
        number = len(self.styled)
        text = lines[number]
        self._size += len(text) + 1
        if self._size > _MAX_CODE or self._slow > _MAX_SLOW:
            self._lexer = None
            return
        before = thread_time()
        line = self._line(text) if len(text) <= _MAX_LINE else []
        self._slow += thread_time() - before > _SLOW_S
        if "".join([part for part, _ in line]) != text:
            # A lexer may be wrong about colours, never about the code.
            line = [(text, "code")] if text else []
        self.styled.append(line)
        first, last = self._changed or (number, number)
        self._changed = min(first, number), max(last, number + 1)

    def _line(self, text: str) -> Line:
        """Pieces of one line, with the state it leaves to the next."""
        line: Line = []
        rest = text
        if self._comment:
            end = text.find(self._comment)
            at = end + len(self._comment) if end >= 0 else len(text)
            _add(line, text[:at], "comment:i")
            rest = text[at:]
            if end < 0:
                return line
            self._comment = ""
            if not rest:
                return line
        before = self._stack
        pieces = self._lexed(rest)
        opened = _open_comment(pieces) if self._has_slash_comments else -1
        if opened >= 0:
            self._comment, self._stack = "*/", before
            pieces = [*self._lexed(rest[:opened]), (rest[opened:], "comment:i")]
        for part, style in pieces:
            _add(line, part, style)
        return line

    def _lexed(self, text: str) -> Line:
        line: Line = []
        stack = list(self._stack)
        if _can_follow(self._lexer):
            tokens = _follow(self._lexer, f"{text}\n", stack)
        else:
            tokens = _lex(self._lexer, f"{text}\n")
        for style, value in _guarded(tokens):
            _add(line, value.rstrip("\n"), style)
        self._stack = stack[:_MAX_STATES]
        return line


def _add(line: Line, part: str, style: str) -> None:
    if not part:
        return
    if line and line[-1][1] == style:
        line[-1] = (line[-1][0] + part, style)
    else:
        line.append((part, style))


def _open_comment(line: Sequence[tuple[str, str]]) -> int:
    """Where a comment starts that the line does not end, -1 where none does."""
    at = 0
    for part, style in line:
        if style.startswith("comment"):
            found = 0 if part.startswith("/*") and part.rfind("*/") < max(2, part.rfind("/*")) else -1
        else:
            found = part.find("/*") if style != "string" else -1
        if found >= 0:
            return at + found
        at += len(part)
    return -1


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
    """The Pygments lexer of that name, None where there is none that is used."""
    if not language:
        return None
    from pygments import lexers
    from pygments.util import ClassNotFound

    try:
        found = cast("Any", lexers).find_lexer_class_by_name(language)
    except ClassNotFound:
        return None
    return found(stripnl=False, ensurenl=False) if LEXERS.intersection(found.aliases) else None


def _guarded(tokens: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """`tokens` up to the first failure: hundreds of lexers by others, and colours are no reason to stop."""
    try:
        yield from tokens
    except Exception:
        _log.debug("a lexer failed", exc_info=True)


def _lex(lexer: Any, text: str) -> Iterator[tuple[str, str]]:
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        yield _style(kind), value


@cache
def _can_follow(lexer: Any) -> bool:
    """True if the lexer's state at a line end is a stack of names."""
    from pygments.lexer import ExtendedRegexLexer, RegexLexer

    return isinstance(lexer, RegexLexer) and not isinstance(lexer, ExtendedRegexLexer)


def _follow(lexer: Any, text: str, stack: list[str]) -> Iterator[tuple[str, str]]:
    """Lex `text` from the states in `stack`, which are left as they are at its end."""
    rules = cast("dict[str, list[Any]]", lexer._tokens)
    at = stuck = 0
    while at < len(text):
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
            # A lexer that sees no end of a script takes it for one line.
            end = _EMBEDDED.get(stack[-1])
            if new_state is not None and (end is None or end in match.group().lower()):
                _enter(stack, new_state)
            break
        else:
            if text[at] == "\n":
                stack[:] = ["root"]
            yield "code", text[at]
            at += 1


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
