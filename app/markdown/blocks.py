"""The blocks of a text: markdown-it's block tokens, flattened to leaves.

Containers (lists, quotes) become prefixes of the leaves in them, so nothing nests in layout. Only
block rules run here; the text inside a leaf is read when it is laid out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from app.markdown.grammar import MAX_NESTING, parser
from app.markdown.leaves import QUOTE_EDGE, Container, Kind, Leaf, References, SourceLine

if TYPE_CHECKING:
    from markdown_it.token import Token

_MARK = re.compile(r" {0,3}([-+*]|\d{1,9}[.)])( *)")
_QUOTE_MARK = re.compile(r" *> ?")
_PIPE = re.compile(r"(?<!\\)\|")
_ROW_START = re.compile(r"[ \t>]*\|?")
_TASK = re.compile(r"\[[ xX]\] (?=\S)")


class Start(NamedTuple):
    """What stands before a text that is parsed as the tail of a message."""

    context: tuple[Container, ...] = ()
    resume: tuple[str, ...] = ()
    """Lines that open again the leaf that the tail continues."""
    line: int = 0
    offset: int = 0
    top: int = 0

    def inside(self) -> tuple[tuple[Container, ...], tuple[str, ...], int]:
        """What stays as it is when the tail moves on within one leaf."""
        return self.context, self.resume, self.top


class Parsed(NamedTuple):
    leaves: list[Leaf]
    references: References
    read: int
    """Characters the block parser was given."""


def parse_blocks(text: str, start: Start) -> Parsed:
    """Leaves of `text` and the definitions in it; leaves of context lines are left out."""
    head = [*context_lines(start.context), *start.resume]
    whole = "\n".join([*head, text]) if head else text
    env: dict[str, Any] = {"references": {}}
    tokens: list[Token] = []
    md = parser()
    # Without a newline at the end markdown-it looks past it (`> - <pre`, then `>`).
    md.block.parse(whole if whole.endswith("\n") else f"{whole}\n", md, env, tokens)
    leaves = _Flattener(tokens, whole.split("\n"), len(head), start).leaves()
    found = {
        label: {"href": entry["href"], "title": entry["title"]} for label, entry in env["references"].items()
    }
    return Parsed(leaves, found, len(whole))


def context_lines(context: Sequence[Container]) -> list[str]:
    """Lines that put the parser inside `context`: a closed comment starts nothing and goes on nowhere."""
    lines: list[str] = []
    before = ""
    for container in context:
        if not container.is_item:
            before += "> "
            continue
        mark = before + " " * container.indent + container.marker
        lines.append(mark.ljust(len(before) + container.content) + "<!---->")
        before += " " * container.content
    if context and not context[-1].is_item:
        lines.append(before + "<!---->")
    return lines


@dataclass(slots=True)
class _List:
    ordered: bool
    number: int
    index: int = 0


class _Flattener:
    """Walks one token list; `ahead` lines at the top are context."""

    def __init__(self, tokens: list[Token], lines: list[str], ahead: int, start: Start) -> None:
        self._tokens = tokens
        self._lines = lines
        self._ahead = ahead
        self._context_lines = ahead - len(start.resume)
        self._context = list(start.context)
        self._first_line = start.line - ahead
        lengths = (len(line) + 1 for line in lines[ahead:])
        self._offsets = [-1] * ahead + list(accumulate(lengths, initial=start.offset))
        self._top = start.top - 1
        self._stack: list[Container] = []
        self._lists: list[_List] = []
        self._leaves: list[Leaf] = []
        for container in start.context:
            container.labelled = True

    def leaves(self) -> list[Leaf]:
        handlers: dict[str, Callable[[int, Token], int]] = {
            "bullet_list_open": self._open_list,
            "ordered_list_open": self._open_list,
            "bullet_list_close": self._close_list,
            "ordered_list_close": self._close_list,
            "list_item_open": self._open_item,
            "list_item_close": self._close_item,
            "blockquote_open": self._open_quote,
            "blockquote_close": self._close_quote,
            "paragraph_open": self._text,
            "heading_open": self._text,
            "fence": self._code,
            "code_block": self._code,
            "html_block": self._html,
            "hr": self._rule,
            "definition": self._definition,
            "table_open": self._table,
        }
        at = 0
        while at < len(self._tokens):
            token = self._tokens[at]
            if token.level == 0 and token.nesting >= 0:
                self._top += 1
            handler = handlers.get(token.type)
            at = handler(at, token) if handler else at + 1
        return self._leaves

    def _leaf(self, kind: Kind, token: Token) -> Leaf:
        """A leaf at the token's lines, with the prefixes of what it stands in."""
        start, end = token.map or [0, 0]
        leaf = Leaf(kind, self._first_line + start, self._first_line + end, self._offsets[start])
        leaf.top = self._top
        self._place(leaf)
        if start < self._ahead:
            leaf.start_line = -1
        return leaf

    def _place(self, leaf: Leaf) -> None:
        leaf.path = tuple(self._stack)
        for container in self._stack:
            container.owner = container.owner or leaf
            if not container.is_item:
                leaf.first += QUOTE_EDGE
                leaf.cont += QUOTE_EDGE
                continue
            blank = " " * (len(container.label) + 1)
            leaf.first += blank if container.labelled else container.label + " "
            leaf.cont += blank
            container.labelled = True
        self._leaves.append(leaf)

    def _open_list(self, at: int, token: Token) -> int:
        start = token.attrGet("start")
        self._lists.append(_List(token.type[0] == "o", 1 if start is None else int(start)))
        return at + 1

    def _close_list(self, at: int, _token: Token) -> int:
        self._lists.pop()
        return at + 1

    def _open_item(self, at: int, token: Token) -> int:
        line = (token.map or [0])[0]
        here = self._lists[-1]
        if line < self._ahead and self._context:
            item = self._context.pop(0)
            here.number, here.index = item.number, item.index
        else:
            item = Container(True, self._first_line + line, ordered=here.ordered)
            item.number, item.index = here.number, here.index
            item.marker = token.info + token.markup if here.ordered else token.markup
            item.label = f"{item.number}{token.markup}" if here.ordered else "-"
            _measure(item, self._stack, self._lines[line])
        here.number, here.index = item.number + 1, item.index + 1
        self._stack.append(item)
        self._keep_what_is_too_deep(token)
        return at + 1

    def _close_item(self, at: int, _token: Token) -> int:
        item = self._stack[-1]
        if not item.labelled:
            line = item.line - self._first_line
            leaf = Leaf("paragraph", item.line, item.line + 1, self._offsets[line])
            leaf.top = self._top
            leaf.origin = [(0, leaf.offset + len(self._lines[line]))]
            self._place(leaf)
            if line < self._ahead:
                leaf.start_line = -1
        self._stack.pop()
        return at + 1

    def _open_quote(self, at: int, token: Token) -> int:
        line = (token.map or [0])[0]
        if line < self._ahead and self._context:
            self._stack.append(self._context.pop(0))
        else:
            self._stack.append(Container(False, self._first_line + line))
        self._keep_what_is_too_deep(token)
        return at + 1

    def _close_quote(self, at: int, _token: Token) -> int:
        self._stack.pop()
        return at + 1

    def _keep_what_is_too_deep(self, token: Token) -> None:
        """markdown-it drops what is nested deeper than its bound; here it stays, as text."""
        if token.level + 1 >= MAX_NESTING and token.map and token.map[0] >= self._ahead:
            leaf = self._leaf("html", token)
            self._set_text(leaf, "\n".join(self._lines[token.map[0] : token.map[1]]), token.map[0])

    def _text(self, at: int, token: Token) -> int:
        leaf = self._leaf("heading" if token.type == "heading_open" else "paragraph", token)
        if leaf.kind == "heading":
            leaf.level = int(token.tag[1])
        self._set_text(leaf, self._tokens[at + 1].content, (token.map or [0])[0])
        owner = leaf.path[-1] if leaf.path else None
        # An underline may still come below what began as a task.
        is_plain = leaf.kind == "paragraph" or token.markup in ("=", "-")
        if is_plain and owner and owner.is_item and owner.owner is leaf:
            _take_task(leaf)
        return at + 3

    def _set_text(self, leaf: Leaf, text: str, line: int) -> None:
        leaf.text = text
        position = 0
        front = text.partition("\n")[0].lstrip(" \t")
        while front not in self._lines[line] and line + 1 < len(self._lines):
            line += 1
            leaf.skipped += 1
        for piece in text.split("\n"):
            leaf.origin.append((position, self._offsets[line] + _column(piece, self._lines[line])))
            position += len(piece) + 1
            line = min(line + 1, len(self._lines) - 1)

    def _code(self, at: int, token: Token) -> int:
        is_fence = token.type == "fence"
        leaf = self._leaf("fence" if is_fence else "indented", token)
        leaf.info = token.info.strip()
        leaf.lines = token.content.removesuffix("\n").split("\n") if token.content else []
        start, end = token.map or [0, 0]
        whole_lines = len(self._lines) - (not self._lines[-1])
        leaf.closed = not is_fence or end - start >= len(leaf.lines) + 2 or end < whole_lines
        first = start + is_fence
        for line, text in enumerate(leaf.lines, first):
            leaf.line_offsets.append(self._offsets[line] + _column(text, self._lines[line]))
        return at + 1

    def _html(self, at: int, token: Token) -> int:
        line = (token.map or [0])[0]
        if line >= self._context_lines:
            self._set_text(self._leaf("html", token), token.content.rstrip("\n"), line)
        return at + 1

    def _rule(self, at: int, token: Token) -> int:
        self._leaf("rule", token)
        return at + 1

    def _definition(self, at: int, token: Token) -> int:
        leaf = self._leaf("definition", token)
        leaf.info = token.meta["id"]
        leaf.target = {"href": token.meta["url"], "title": token.meta["title"]}
        return at + 1

    def _table(self, at: int, token: Token) -> int:
        leaf = self._leaf("table", token)
        while (token := self._tokens[at]).type != "table_close":
            if token.type == "tr_open":
                line = (token.map or [0])[0]
                leaf.cells.append([])
                leaf.cell_lines.append(SourceLine(self._lines[line], self._offsets[line]))
            elif token.type == "tr_close" and len(leaf.cells) > 1:
                _keep_what_is_beyond(leaf)
            elif token.type == "inline":
                leaf.cells[-1].append(token.content)
            elif token.type == "th_open":
                leaf.aligns.append(str(token.attrGet("style") or ":").partition(":")[2])
            at += 1
        return at + 1


def _column(piece: str, line: str) -> int:
    """Column of `line` where `piece`, its end without blanks at the sides, starts.

    Blanks at the front may stand for a part of a tab; then it is the column that makes the rest right,
    which may lie before the line.
    """
    column = line.rfind(piece) if piece else len(line)
    if column >= 0:
        return column
    inner = piece.lstrip(" \t")
    return line.rfind(inner) - (len(piece) - len(inner))


def _keep_what_is_beyond(leaf: Leaf) -> None:
    """Cells that no column is there for are dropped by markdown-it; here the last one keeps them."""
    line, row = leaf.cell_lines[-1].text, leaf.cells[-1]
    before = _ROW_START.match(line)
    first = before.end() if before else 0
    pipes = [first - 1, *[found.start() for found in _PIPE.finditer(line, first)]]
    if len(pipes) <= len(row):
        return
    start = pipes[len(row) - 1] + 1
    text = line[start:].rstrip(" \t")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    if text[pipes[len(row)] - start :].strip(" \t|"):
        row[-1] = text.strip().replace("\\|", "|")


def _take_task(leaf: Leaf) -> None:
    match = _TASK.match(leaf.text)
    if not match:
        return
    leaf.task = match.group()
    leaf.text = leaf.text[match.end() :]
    leaf.origin = [(max(0, at - match.end()), to) for at, to in leaf.origin]
    leaf.origin[0] = (0, leaf.origin[0][1] + match.end())


def _measure(item: Container, stack: Sequence[Container], line: str) -> None:
    """Find the columns of an item's marker and content in the line that opens it."""
    # In a quote within a quote markdown-it counts the columns of tabs in its own way.
    quotes = sum([not container.is_item for container in stack])
    item.unclear = quotes > 1 and "\t" in line
    line = line.expandtabs(4)
    at = 0
    for container in stack:
        item.unclear = item.unclear or container.unclear
        if container.is_item:
            at += container.content
        elif match := _QUOTE_MARK.match(line, at):
            at = match.end()
        else:
            item.unclear = True
    match = None if item.unclear else _MARK.match(line, at)
    if not match:
        item.unclear = True
        return
    blanks = len(match.group(2))
    has_text = bool(line[match.end() :].strip())
    item.indent = match.start(1) - at
    item.content = match.end(1) - at + (blanks if has_text and 1 <= blanks <= 4 else 1)
