"""Grammars as data: rules, pruning of what no text can satisfy, and the GBNF text llama.cpp reads.

Knows llama.cpp's limits (names of letters, digits and `-`; fewer than 2,000 repetitions of one
item) and nothing of JSON or chat formats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

MAX_REPETITIONS = 1999
"""llama.cpp refuses a grammar that repeats one item 2,000 times or more."""

Ranges: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Exactly these characters; the empty text matches nothing being there."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """One code point within these inclusive ranges."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Ref:
    """The rule of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Seq:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the items; no items match no text at all."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`low` to `high` times the item; `high` None is without bound."""

    item: Node
    low: int
    high: int | None


Node: TypeAlias = Text | Chars | Ref | Seq | AnyOf | Repeat

NOTHING = Text("")
NEVER = AnyOf(())


def seq(*parts: Node | str) -> Node:
    """The parts one after another; a str is literal text."""
    items: list[Node] = []
    for part in parts:
        node = Text(part) if isinstance(part, str) else part
        if isinstance(node, Seq):
            items.extend(node.items)
        elif isinstance(node, Text) and items and isinstance(last := items[-1], Text):
            items[-1] = Text(last.text + node.text)
        elif node != NOTHING:
            items.append(node)
    return items[0] if len(items) == 1 else Seq(tuple(items)) if items else NOTHING


def choice(nodes: Iterable[Node]) -> Node:
    """Any of the nodes, each counted once."""
    flat: dict[Node, None] = {}
    for node in nodes:
        for item in node.items if isinstance(node, AnyOf) else (node,):
            flat[item] = None
    return next(iter(flat)) if len(flat) == 1 else AnyOf(tuple(flat))


def optional(node: Node) -> Node:
    return Repeat(node, 0, 1)


def chars(text: str) -> Chars:
    """One of the characters of `text`."""
    return Chars(tuple((ord(char), ord(char)) for char in sorted(set(text))))


def span(first: str, last: str) -> Chars:
    """One character from `first` to `last`."""
    return Chars(((ord(first), ord(last)),))


def trie(texts: Iterable[str], rules: Rules, name: str) -> Node:
    """Any one of the texts, shared beginnings factored out so that one stack follows them."""
    return _branch(sorted(set(texts)), 0, rules, name, 0)


def _branch(texts: list[str], start: int, rules: Rules, name: str, depth: int) -> Node:
    if len(texts) == 1:
        return Text(texts[0][start:])
    if depth > 100:
        return AnyOf(tuple(Text(text[start:]) for text in texts))
    first, last = texts[0], texts[-1]
    end = start
    while end < min(len(first), len(last)) and first[end] == last[end]:
        end += 1
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(text[end : end + 1], []).append(text)
    branches = [_branch(group, end, rules, name, depth + 1) for group in groups.values()]
    node = choice(branches)
    if depth:
        node = rules.add(name, node)
    return seq(first[start:end], node)


class Rules:
    """The rules of one grammar, by name."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self._taken: dict[str, int] = {}

    def reserve(self, wanted: str) -> Ref:
        """A free name like `wanted`, still without a body."""
        base = re.sub(r"[^a-zA-Z0-9]+", "-", wanted[:200]).strip("-")[:40].strip("-") or "rule"
        name, count = base, self._taken.get(base, 1)
        while name in self.nodes:
            count += 1
            name = f"{base}-{count}"
        self._taken[base] = count
        self.nodes[name] = NEVER
        return Ref(name)

    def define(self, ref: Ref, node: Node) -> Ref:
        self.nodes[ref.name] = node
        return ref

    def add(self, wanted: str, node: Node) -> Ref:
        return self.define(self.reserve(wanted), node)

    def prune(self) -> None:
        """Take away every alternative that no finite text satisfies."""
        productive = self._productive()
        self.nodes = {name: _pruned(node, productive) for name, node in self.nodes.items()}

    def satisfiable(self, *refs: Ref) -> bool:
        """Whether some finite text matches, for each of the rules."""
        return {ref.name for ref in refs} <= self._productive()

    def text(self, root: Ref) -> str:
        """The GBNF of what `root` reaches; llama.cpp wants that rule to be called `root`."""
        self.prune()
        alias = self._aliases()
        lines: dict[str, str] = {}
        todo = [alias.get(root.name, root.name)]
        if root.name == "root" != todo[0]:
            lines["root"] = f"root ::= {todo[0]}"
        while todo:
            name = todo.pop()
            if name in lines:
                continue
            node = _renamed(self.nodes[name], alias)
            writer = _Writer(name)
            lines[name] = f"{name} ::= {writer.body(node)}"
            lines.update(writer.extra)
            todo.extend(reversed(list(_references(node))))
        return "\n".join(lines.values()) + "\n"

    def _productive(self) -> set[str]:
        users: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for used in _references(node):
                users.setdefault(used, []).append(name)
        productive: set[str] = set()
        todo = list(reversed(self.nodes))
        while todo:
            name = todo.pop()
            if name not in productive and _can_end(self.nodes[name], productive):
                productive.add(name)
                todo.extend(users.get(name, ()))
        return productive

    def _aliases(self) -> dict[str, str]:
        alias: dict[str, str] = {}
        for name in self.nodes:
            seen = [name]
            while isinstance(node := self.nodes[seen[-1]], Ref) and node.name not in seen:
                seen.append(node.name)
            if len(seen) > 1:
                alias[name] = seen[-1]
        return alias


def _references(node: Node) -> Iterator[str]:
    match node:
        case Ref(name):
            yield name
        case Seq(items) | AnyOf(items):
            for item in items:
                yield from _references(item)
        case Repeat(item, _, _):
            yield from _references(item)
        case _:
            return


def _can_end(node: Node, productive: set[str]) -> bool:
    match node:
        case Ref(name):
            return name in productive
        case Seq(items):
            return all(_can_end(item, productive) for item in items)
        case AnyOf(items):
            return any(_can_end(item, productive) for item in items)
        case Repeat(item, low, _):
            return low == 0 or _can_end(item, productive)
        case Chars(ranges):
            return bool(ranges)
        case Text():
            return True


def _pruned(node: Node, productive: set[str]) -> Node:
    if not _can_end(node, productive):
        return NEVER
    match node:
        case Seq(items):
            return seq(*(_pruned(item, productive) for item in items))
        case AnyOf(items):
            return choice(_pruned(item, productive) for item in items if _can_end(item, productive))
        case Repeat(item, low, high):
            return Repeat(_pruned(item, productive), low, high) if _can_end(item, productive) else NOTHING
        case _:
            return node


def _renamed(node: Node, alias: dict[str, str]) -> Node:
    match node:
        case Ref(name):
            return Ref(alias.get(name, name))
        case Seq(items):
            return Seq(tuple(_renamed(item, alias) for item in items))
        case AnyOf(items):
            return AnyOf(tuple(_renamed(item, alias) for item in items))
        case Repeat(item, low, high):
            return Repeat(_renamed(item, alias), low, high)
        case _:
            return node


class _Writer:
    """Writes one rule. A repeated group becomes a rule of its own: llama.cpp multiplies the size
    of a group by its repetitions and refuses 2,000, but counts a reference as one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.extra: dict[str, str] = {}

    def body(self, node: Node) -> str:
        if isinstance(node, AnyOf):
            return " | ".join(self.part(item) for item in node.items)
        return self.part(node)

    def part(self, node: Node) -> str:
        match node:
            case Text(text):
                return literal(text)
            case Chars(ranges):
                return char_class(ranges)
            case Ref(name):
                return name
            case Seq(items):
                return " ".join(self.part(item) for item in items) or '""'
            case AnyOf():
                return f"({self.body(node)})"
            case Repeat(item, low, high):
                return self.atom(item) + _times(low, high)

    def atom(self, node: Node) -> str:
        if isinstance(node, Ref | Chars) or (isinstance(node, Text) and len(node.text) == 1):
            return self.part(node)
        name = f"{self.name}--{len(self.extra) + 1}"
        self.extra[name] = ""
        self.extra[name] = f"{name} ::= {self.body(node)}"
        return name


def _times(low: int, high: int | None) -> str:
    match low, high:
        case 0, 1:
            return "?"
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case _, None:
            return f"{{{low},}}"
        case _:
            return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def literal(text: str) -> str:
    """`text` as a GBNF literal."""
    return '"' + "".join(_escaped(char, '"\\') for char in text) + '"'


def char_class(ranges: Ranges) -> str:
    """A GBNF character class of the inclusive ranges."""
    special = '\\]["^-'
    parts = [
        _escaped(chr(low), special) + (f"-{_escaped(chr(high), special)}" if high > low else "")
        for low, high in ranges
    ]
    return "[" + "".join(parts) + "]"


def _escaped(char: str, special: str) -> str:
    code = ord(char)
    if char in special:
        return f"\\x{code:02X}" if char in "^-" else f"\\{char}"
    if char in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[char]
    if code > 0x7E and not char.isprintable():
        return f"\\U{code:08X}"
    return f"\\x{code:02X}" if code < 0x20 or code == 0x7F else char
