"""What the text of one argument means: the tool's schema decides between text and JSON."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from backend.chat.adapt import mapping
from backend.chat.format import KEY, CallSyntax
from backend.chat.parsing.literals import MAX_DEPTH, WORDS, Malformed
from backend.chat.parsing.stream import Mark
from backend.grammar.references import References, UnresolvableRef

_UNIONS = ("anyOf", "oneOf", "allOf")
_MAX_REFS = 8


def type_names(schema: object, root: object = None) -> set[str]:
    """The JSON types a schema names, unions and references included; empty when it names none."""
    return _type_names(schema, References(root))


def _type_names(schema: object, references: References, depth: int = 0) -> set[str]:
    if depth > _MAX_REFS:
        return set()
    node = mapping(schema)
    found: set[str] = set()
    kind = node.get("type")
    if isinstance(kind, str):
        found.add(kind)
    elif isinstance(kind, list):
        found |= {each for each in cast("list[object]", kind) if isinstance(each, str)}
    for union in _UNIONS:
        for branch in _items(node.get(union)):
            found |= _type_names(branch, references, depth + 1)
    found |= {type_of(value) for value in _items(node.get("enum"))}
    if "const" in node:
        found.add(type_of(node["const"]))
    if isinstance(node.get("$ref"), str):
        found |= _type_names(_referred(node, references), references, depth + 1)
    return found


def type_of(value: object) -> str:
    """The JSON Schema name of a value's type; a number without a fraction is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def decode(raw: str, schema: object, root: object, word: str | None, syntax: CallSyntax) -> Any:
    """The value that `raw` writes. `word` is the type the call itself names, which wins."""
    kinds = type_names(schema, root)
    if word is not None and syntax.types:
        if word == dict(syntax.types).get("string"):
            return raw
    elif kinds == {"string"}:
        return raw
    readers: tuple[Callable[[str], Any], ...] = (
        json.loads,
        lambda text: WORDS[text.strip()],
        ast.literal_eval,
    )
    for read in readers:
        try:
            value: Any = read(raw)
        except (ValueError, KeyError, SyntaxError, RecursionError, MemoryError):
            continue
        kind = type_of(value)
        if kind == "object" and not isinstance(value, dict):
            continue
        fits = not kinds or kind in kinds or (kind == "integer" and "number" in kinds)
        if (word is not None and syntax.types) or (fits and not (kind == "string" and "string" in kinds)):
            return cast("Any", value)
    return raw


class Tree:
    """Values written as tags inside tags (MiniMax M3)."""

    def __init__(self, syntax: CallSyntax, root: object) -> None:
        self.syntax = syntax
        self.root = root
        self.opening = Mark(syntax.argument_start + KEY + syntax.value_start)
        self.closing = Mark(syntax.argument_end)

    def value(self, raw: str, schema: object, depth: int = 0) -> Any:
        """The value of the whole text between an opening tag and its closing tag."""
        if depth > MAX_DEPTH:
            raise Malformed("it nests too deeply", raw)
        kinds = type_names(schema, self.root)
        opened = self.opening.match(raw, len(raw) - len(raw.lstrip()), final=True)
        if not raw.strip() and kinds and "string" not in kinds and kinds & {"object", "array"}:
            return [] if "array" in kinds else {}
        plain = opened is None or opened == "partial" or (kinds and not kinds & {"object", "array"})
        if "string" in kinds or plain:
            return decode(raw, schema, self.root, None, self.syntax)
        items = self._children(raw, schema, depth)
        is_list = all(key == self.syntax.item_tag for key, _ in items)
        if items and is_list and (not kinds or "array" in kinds):
            return [value for _, value in items]
        return dict(items)

    def _children(self, raw: str, schema: object, depth: int) -> list[tuple[str, Any]]:
        items: list[tuple[str, Any]] = []
        at = 0
        while True:
            at += len(raw[at:]) - len(raw[at:].lstrip())
            opened = self.opening.match(raw, at, final=True)
            if opened is None or opened == "partial":
                return items
            key = opened.values[KEY]
            end, after = self.extent(raw, opened.end, key)
            items.append((key, self.value(raw[opened.end : end], self._child(schema, key), depth + 1)))
            at = after

    def extent(self, text: str, start: int, key: str) -> tuple[int, int]:
        """Where the value that begins at `start` ends, and where its closing tag ends.

        Raises Malformed when it is not closed.
        """
        depth, at = 1, start
        while True:
            end = at
            closed = None
            while end < len(text) and closed is None:
                end = text.find(self.closing.first, end)
                if end < 0:
                    raise Malformed(f"the value of {key} is not closed", text[start:])
                match = self.closing.match(text, end, final=True, key=key)
                closed = match if match is not None and match != "partial" else None
                end += 0 if closed else 1
            if closed is None:
                raise Malformed(f"the value of {key} is not closed", text[start:])
            nested = self._opened_before(text, at, end, key)
            if nested is not None:
                depth, at = depth + 1, nested
                continue
            depth, at = depth - 1, closed.end
            if not depth:
                return end, closed.end

    def _opened_before(self, text: str, start: int, end: int, key: str) -> int | None:
        at = text.find(self.opening.first, start, end)
        while 0 <= at < end:
            match = self.opening.match(text, at, final=True, key=key)
            if match is not None and match != "partial" and match.end <= end:
                return match.end
            at = text.find(self.opening.first, at + 1, end)
        return None

    def _child(self, schema: object, key: str) -> object:
        kinds = type_names(schema, self.root)
        if key == self.syntax.item_tag and (not kinds or "array" in kinds):
            return _variant(schema, "array", References(self.root)).get("items")
        return mapping(_variant(schema, "object", References(self.root)).get("properties")).get(key)


def _variant(schema: object, kind: str, references: References, depth: int = 0) -> Mapping[str, Any]:
    """The branch of a schema that allows `kind`."""
    node = mapping(schema)
    if depth > _MAX_REFS:
        return {}
    if isinstance(node.get("$ref"), str):
        return _variant(_referred(node, references), kind, references, depth + 1)
    types = node.get("type")
    if types == kind or (isinstance(types, list) and kind in types):
        return node
    for union in _UNIONS:
        for branch in _items(node.get(union)):
            if found := _variant(branch, kind, references, depth + 1):
                return found
    return {}


def _items(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else ()


def _referred(node: Mapping[str, Any], references: References) -> object:
    try:
        return references.target(node)
    except UnresolvableRef:
        return None
