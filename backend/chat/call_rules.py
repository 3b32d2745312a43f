"""The rules of a format's calls: markers as the format has them, arguments as the tools have them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.chat.format import ID, INDEX, KEY, NAME, CallSyntax, ChatFormat, inner_tag
from backend.chat.marker import after_prime, tidy, trigger_of
from backend.grammar import rules
from backend.grammar.document import Document
from backend.grammar.members import Tagged
from backend.grammar.notation import JSON, PYTHON, Notation, Quotes, Tags, raw_text
from backend.grammar.rulebook import GAP
from backend.grammar.rules import Chars, Node, Repeat, Text, choice, optional, seq
from backend.grammar.schema import SchemaRules

_ARGUMENTS = "\ue00b"
"""Stands in a call's text for its arguments."""
MAX_CALLS = 16
"""Calls in one reply; a model that repeats itself would go on to the token limit."""
_ID_CHARS = Chars(((0x2D, 0x2E), (0x30, 0x3A), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)))
_TYPE_NAMES = {"number": ("number", "integer")}


@dataclass(frozen=True)
class Offered:
    """A tool that may be called, with a schema that can be held to."""

    name: str
    document: Document
    relaxed: bool


class CallRules:
    """The calls of one format to some tools."""

    def __init__(
        self, chat_format: ChatFormat, schemas: SchemaRules, tools: Sequence[Offered], *, parallel: bool
    ) -> None:
        assert chat_format.calls is not None
        self.syntax: CallSyntax = chat_format.calls
        self.schemas = schemas
        self.book = schemas.book
        self.tools = tools
        self.channels = chat_format.channels
        # In channels a call ends the turn, which is for a token to do and not for text.
        self.text = call_text(replace(self.syntax, call_end="") if self.channels else self.syntax)
        bare = not (self.syntax.section_start or self.syntax.call_start or self.syntax.separator)
        self.parallel = parallel and not bare and not self.channels
        self._before, self._after = self._split()

    def _split(self) -> tuple[str, Node]:
        """What every call begins with, and the rest of a call to each of the tools."""
        at = min(index for mark in (NAME, _ARGUMENTS) if (index := self.text.find(mark)) >= 0)
        rest = self.text[at:]
        options = [self._named(rest, tool) for tool in self.tools]
        return self.text[:at], self.book.rules.add("call", choice(options))

    def _named(self, text: str, tool: Offered) -> Node:
        name = json.dumps(tool.name, ensure_ascii=False)[1:-1] if self.syntax.kind == "json" else tool.name
        self.book.relaxed = tool.relaxed
        arguments = self._arguments(tool)
        self.schemas.finish()
        self.book.relaxed = False
        return self._marker(text, {NAME: Text(name), _ARGUMENTS: arguments})

    def _marker(self, text: str, places: dict[str, Node]) -> Node:
        index = Repeat(rules.span("0", "9"), 1, 3)
        return self.book.marker(text, {ID: Repeat(_ID_CHARS, 1, 64), INDEX: index, **places})

    # ---- calls -----------------------------------------------------------------------------

    def call(self, prime: str = "") -> Node:
        """One call behind what the prompt already holds of it."""
        return seq(self._marker(after_prime(self._before, prime), {}), self._after)

    def section(self, prime: str = "", *, later: bool = False) -> Node:
        """All calls of a reply, with their section; `later`: behind a thought."""
        syntax = self.syntax
        opening = tidy(syntax.section_start + GAP) if syntax.section_start else ""
        if self.channels and later:
            opening = syntax.separator.strip()
        return self._calls(after_prime(opening + self._before, prime), section=True)

    def _calls(self, opening: str, *, section: bool) -> Node:
        syntax, ws = self.syntax, self.book.shared("gap")
        parts: list[Node] = [self._marker(opening, {}), self._after]
        if self.parallel:
            between = tidy(GAP + syntax.separator + GAP)
            parts.append(Repeat(seq(self._marker(between, {}), self.call()), 0, MAX_CALLS - 1))
        if syntax.section_end:
            end = seq(ws, self._marker(tidy(syntax.section_end), {}))
            # A mark that closes no bracket is left out by many a model, and missed by none.
            closes = section and syntax.section_end.lstrip()[0] in "])}"
            parts.append(end if closes else optional(end))
        return seq(*parts)

    def entries(self, prime: str) -> list[tuple[str, Node]]:
        """Each text whose appearance begins calls, with the calls from that text on; () when a
        call can only be told at the start of a reply."""
        syntax = self.syntax
        if self.channels:
            return [("to=functions.", self._harmony())]
        whole = tidy(syntax.section_start + GAP) + self._before if syntax.section_start else self._before
        openings = [(whole, True)]
        if syntax.section_start:
            openings.append((self._before, False))
        inner = inner_tag(syntax.call_start)
        if inner:
            openings.append((self._before[self._before.rfind(inner) :], False))
        left = after_prime(syntax.section_start or syntax.call_start, prime)
        if left and left != (syntax.section_start or syntax.call_start):
            openings.append((after_prime(whole, prime), True))
        found: dict[str, Node] = {}
        for opening, section in openings:
            trigger = trigger_of(self._exact(opening))
            if trigger and trigger not in found:
                found[trigger] = self._calls(opening, section=section)
        return list(found.items())

    def _exact(self, opening: str) -> str:
        """The opening with the whitespace that the template prints, for its trigger."""
        syntax = self.syntax
        for text in (syntax.section_start, syntax.call_start):
            if text and opening.startswith(tidy(text).rstrip(GAP)):
                return text
        return opening

    def begins(self) -> frozenset[str]:
        """Patterns of the texts that begin like a call, for formats without a marker."""
        if self.syntax.kind == "json":
            return frozenset((r"^\s*" + _pattern(self.text.partition(NAME)[0]),))
        opening = r"^\s*" + _pattern(self.syntax.section_start + self._before)
        tail = _pattern(self.syntax.head_end)
        return frozenset(opening + re.escape(tool.name) + tail for tool in self.tools)

    def _harmony(self) -> Node:
        """A call from its recipient on, which stands in front of the channel or behind it."""
        forms = ("", " json", " <|constrain|>json")
        heads = choice(seq(channel, form) for channel in ("", "<|channel|>commentary") for form in forms)
        options: list[Node] = []
        for tool in self.tools:
            arguments = self._arguments(tool)
            self.schemas.finish()
            options.append(seq(tool.name, heads, "<|message|>", arguments))
        return seq("to=functions.", choice(options))

    # ---- arguments -------------------------------------------------------------------------

    def _arguments(self, tool: Offered) -> Node:
        path, name = f"{tool.name}#", f"{tool.name}-arguments"
        if self.syntax.kind != "tagged":
            return self.schemas.arguments(tool.document, path, name)
        syntax, book = self.syntax, self.book
        # One line break on each side of a raw value is its frame, and no gap.
        start = syntax.value_start.rstrip()
        middle = tidy(start) + syntax.value_start[len(start) :]
        end = syntax.argument_end.lstrip()
        end = syntax.argument_end[: len(syntax.argument_end) - len(end)] + tidy(end)
        tags = Tags(tidy(syntax.argument_start.lstrip()), middle, end)
        writer = Tagged(book, self.schemas.value_of, tags, _types(syntax))
        separator = self._marker(tidy(syntax.argument_separator.rstrip() + GAP), {})
        return self.schemas.tagged_arguments(
            tool.document, path, name, notation_of(syntax), writer, separator
        )


def call_text(syntax: CallSyntax) -> str:
    """A whole call with placeholders for all that differs; whitespace between its parts is gaps."""
    match syntax.kind:
        case "json":
            inside = _object_text(syntax)
            return tidy(syntax.call_start + GAP + inside + GAP + syntax.call_end).strip(GAP)
        case "tagjson":
            inside = NAME + syntax.middle + GAP + _ARGUMENTS + GAP
        case "tagged":
            inside = syntax.head + syntax.head_end + GAP + _ARGUMENTS + GAP
    return tidy(syntax.call_start + inside + syntax.call_end).strip(GAP)


def _object_text(syntax: CallSyntax) -> str:
    """The JSON object of a call."""
    if syntax.name_is_key:
        return f'{{{GAP}"{NAME}":{GAP}{_ARGUMENTS}{GAP}}}'
    tree: dict[str, Any] = {name: {} for name in syntax.members}
    paths = [
        (syntax.name_path, f'"{NAME}"'),
        (syntax.arguments_path, _ARGUMENTS),
        (syntax.id_path, f'"{ID}"'),
    ]
    for path, text in paths:
        node = tree
        for step in path[:-1]:
            node = node.setdefault(step, {})
        if path:
            node[path[-1]] = text
    return _members_text(tree)


def _members_text(tree: dict[str, Any]) -> str:
    members = [f"{json.dumps(name)}:{GAP}{_member_text(value)}" for name, value in tree.items() if value]
    return "{" + GAP + f",{GAP}".join(members) + GAP + "}"


def _member_text(value: dict[str, Any] | str) -> str:
    return value if isinstance(value, str) else _members_text(value)


def notation_of(syntax: CallSyntax) -> Notation:
    """How a format with tagged arguments writes their values."""
    start, end = syntax.quote
    if syntax.nested == "custom" and syntax.custom is not None:
        own = syntax.custom
        quote = start or '"'
        return Notation(
            quotes=(Quotes(quote, end or quote, "raw", frozenset((end or quote,))),),
            loose=True,
            object=(own.object_open, own.key_end, own.object_separator, own.object_close),
            array=(own.list_open, own.list_separator, own.list_close),
            bare_keys=syntax.bare_keys,
        )
    if syntax.literal:
        return PYTHON
    closer = syntax.argument_end.partition(KEY)[0].strip() or syntax.call_end.strip()
    without = frozenset((closer,)) if closer else frozenset[str]()
    if syntax.nested == "tree":
        middle, tail = tidy(syntax.value_start), tidy(syntax.argument_end)
        tags = Tags(tidy(syntax.argument_start), middle, tail, syntax.item_tag)
        return Notation(quotes=(Quotes("", "", "raw", without),), loose=True, tags=tags)
    return raw_text(without, PYTHON if syntax.nested == "python" else JSON, syntax.wrap)


def _types(syntax: CallSyntax) -> tuple[tuple[str, tuple[str, ...]], ...]:
    words: dict[str, list[str]] = {}
    for name, word in syntax.types:
        words.setdefault(word, []).extend(_TYPE_NAMES.get(name, (name,)))
    return tuple((word, tuple(names)) for word, names in words.items())


def _pattern(text: str) -> str:
    return "".join(r"\s*" if part == GAP else re.escape(part) for part in re.split(f"({GAP})", tidy(text)))
