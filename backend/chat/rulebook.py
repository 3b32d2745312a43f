"""The rules one grammar is built of, as schemas need them: shared primitives, strings, lists and
objects within the limits of llama.cpp, and the record of what had to be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from backend.chat import gbnf, numerals
from backend.chat.document import Document
from backend.chat.gbnf import NEVER, NOTHING, Node, Ref, Repeat, Rules, choice, optional, seq
from backend.chat.pattern import UnsupportedPattern
from backend.chat.strings import MAX_STATES, Texts, automaton, char_rule, text_rule
from backend.chat.validate import short

MAX_INDENT = 32
"""Spaces or tabs after a line break; there is no other whitespace, so none can be written forever."""
_MAX_REPETITIONS_IN_ALL = 20_000
_PATTERN_BUDGET = 10 * MAX_STATES
"""States spent on patterns in one grammar; a pattern that fails costs as much as a large one."""
_ANY_DEPTH = 8
"""How deep a value without a schema may nest."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A keyword that the grammar does not hold to."""

    path: str
    """A JSON pointer to the schema it stands in, such as `#/properties/code`."""
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: '{self.keyword}' is not held to by the grammar, because {self.reason}."


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule comes from: its document, the path for messages, the name for rules."""

    document: Document
    path: str
    name: str
    raw: frozenset[str] | None = None
    """Texts that end the value, where a string stands there raw instead of as JSON."""

    def below(self, step: str, key: str | int = "") -> Place:
        part = str(key).replace("~", "~0").replace("/", "~1")[:60]
        path = f"{self.path}/{step}" + (f"/{part}" if key != "" else "")
        return Place(self.document, path, f"{self.name[:30]}-{key if key != '' else step}"[:60])


class Rulebook:
    """Rules with shared primitives, one budget for repetitions and patterns, and the reports."""

    def __init__(self, rules: Rules | None = None, *, relaxed: bool = False) -> None:
        self.rules = rules or Rules()
        self.relaxed = relaxed
        self.dropped: dict[Dropped, None] = {}
        self.notes: dict[str, None] = {}
        self._shared: dict[str, Ref] = {}
        self._repetitions = 0
        self._patterns = 0

    # ---- shared rules ----------------------------------------------------------------------

    def shared(self, name: str) -> Ref:
        """A primitive: `ws`, `char`, `string`, `number`, `integer`, `boolean`, `null`, `any`."""
        if name not in self._shared:
            self._shared[name] = self._primitive(name)
        return self._shared[name]

    def _primitive(self, name: str) -> Ref:
        match name:
            case "ws":
                indent = Repeat(gbnf.chars(" \t"), 0, MAX_INDENT)
                return self.rules.add(name, choice((NOTHING, seq(" "), seq("\n", indent))))
            case "char":
                return char_rule(self.rules)
            case "string":
                return self.rules.add(name, seq('"', Repeat(self.shared("char"), 0, None), '"'))
            case "number":
                return numerals.number_rule(self.rules)
            case "integer":
                return self.rules.add(name, numerals.integer(None, None))
            case "boolean":
                return self.rules.add(name, choice((seq("true"), seq("false"))))
            case "null":
                return self.rules.add(name, seq("null"))
            case _:
                return self._any()

    def _any(self) -> Ref:
        scalars = [self.shared(name) for name in ("string", "number", "boolean", "null")]
        value = self.rules.add(f"any-{_ANY_DEPTH}", choice(scalars))
        for depth in reversed(range(_ANY_DEPTH)):
            entry = seq(self.shared("string"), ":", self.shared("ws"), value)
            name = f"any-{depth}" if depth else "any"
            value = self.rules.add(
                name, choice((*scalars, self.listing(value, 0, None), self.braces("{", "}", entry, 0, None)))
            )
        return value

    # ---- reports ---------------------------------------------------------------------------

    def drop(self, place: Place, keyword: str, reason: str) -> None:
        self.dropped[Dropped(place.path, keyword, reason)] = None

    def note(self, place: Place, reason: str) -> None:
        self.notes[f"{place.path}: no value is possible, because {reason}."] = None

    def contradiction(self, place: Place, keyword: str, reason: str) -> bool:
        """Report keywords that exclude each other; True when they are to be passed over."""
        if self.relaxed:
            self.drop(place, keyword, reason)
        else:
            self.note(place, reason)
        return self.relaxed

    # ---- strings ------------------------------------------------------------------------

    def texts(self, texts: Texts, place: Place) -> Node:
        """A string among the texts; what is too complex is dropped, piece by piece."""
        quote = '"' if place.raw is None else ""
        if texts.plain:
            return self.plain_string(texts, place)
        for simpler in self._simplified(texts, place):
            if simpler.plain:
                return self.plain_string(simpler, place)
            if self.affordable(simpler) is None:
                encoding = "json" if place.raw is None else "raw"
                return seq(quote, text_rule(simpler, self.rules, f"{place.name}-text", encoding), quote)
        return NEVER

    def _simplified(self, texts: Texts, place: Place) -> Iterator[Texts]:
        yield texts
        for pattern in sorted(texts.patterns):
            reason = self.affordable(Texts(frozenset((pattern,)), without=texts.without))
            if reason is not None:
                self.drop(place, "pattern", f"{reason} ({short(pattern)})")
                texts = replace(texts, patterns=texts.patterns - {pattern})
        yield texts
        if texts.low or texts.high is not None:
            for keyword, asked in (("minLength", texts.low), ("maxLength", texts.high)):
                if asked:
                    self.drop(place, keyword, "it needs too many states together with the other limits")
            texts = replace(texts, low=0, high=None)
            yield texts
        for keyword, asked in (("pattern", texts.patterns), ("format", texts.formats)):
            if asked:
                self.drop(place, keyword, "it needs too many states together with the other limits")
        yield Texts(without=texts.without, excluded=texts.excluded)

    def affordable(self, texts: Texts) -> str | None:
        """Why the texts cannot become rules, or None where they can."""
        if self._patterns > _PATTERN_BUDGET:
            return "the patterns of this schema are too many or too complex"
        try:
            self._patterns += len(automaton(texts))
        except UnsupportedPattern as err:
            self._patterns += MAX_STATES
            return str(err)
        return None

    def plain_string(self, texts: Texts, place: Place) -> Node:
        if not texts.low and texts.high is None:
            return self.shared("string")
        char, quote = self.shared("char"), '"'
        return seq(quote, *self._repeat(char, texts.low, texts.high, place, "Length"), quote)

    # ---- lists and objects ---------------------------------------------------------------

    def listing(
        self,
        item: Node,
        low: int,
        high: int | None,
        place: Place | None = None,
        first: Sequence[Node] = (),
    ) -> Node:
        """`first`, then `item` again and again: between `low` and `high` items in all."""
        if not first:
            return self.braces("[", "]", item, low, high, place)
        ws = self.shared("ws")
        most = None if high is None else max(high - len(first), 0)
        tail = seq(*self._repeat(seq(",", ws, item), max(low - len(first), 0), most, place, "Items"))
        for index in reversed(range(1, len(first))):
            more = seq(",", ws, first[index], tail)
            tail = more if index < low else optional(more)
            if isinstance(tail, Repeat):
                tail = self.rules.add(f"{place.name}-rest" if place else "rest", tail)
        return self._closed("[", "]", seq(first[0], tail), low)

    def braces(
        self, start: str, end: str, entry: Node, low: int, high: int | None, place: Place | None = None
    ) -> Node:
        """`low` to `high` entries between two brackets, with commas."""
        ws = self.shared("ws")
        if high == 0:
            return seq(start, ws, end)
        most = None if high is None else high - 1
        keyword = "Items" if start == "[" else "Properties"
        rest = self._repeat(seq(",", ws, entry), max(low - 1, 0), most, place, keyword)
        return self._closed(start, end, seq(entry, *rest), low)

    def _closed(self, start: str, end: str, inside: Node, low: int) -> Node:
        ws = self.shared("ws")
        filled = seq(inside, ws, end)
        return seq(start, ws, filled if low else choice((seq(end), filled)))

    def _repeat(
        self, item: Node, low: int, high: int | None, place: Place | None, keyword: str
    ) -> list[Node]:
        """`low` to `high` times the item, within what llama.cpp takes and this grammar may spend."""
        room = min(gbnf.MAX_REPETITIONS, _MAX_REPETITIONS_IN_ALL - self._repetitions)
        if low > room:
            low = self._capped(place, f"min{keyword}", low, room)
        if high is not None and high > room:
            self._capped(place, f"max{keyword}", high, room)
            high = None
        self._repetitions += max(low, high or 0)
        return [NOTHING if high == 0 else Repeat(item, low, high)]

    def _capped(self, place: Place | None, keyword: str, asked: int, room: int) -> int:
        if place is not None:
            self.drop(place, keyword, f"llama.cpp does not count to {asked:,}")
        return max(room, 0)

    def members(
        self,
        members: list[Node],
        needed: list[bool],
        other: Node | None,
        place: Place,
        *,
        may_be_empty: bool,
    ) -> Node:
        ws = self.shared("ws")
        tail: Node = NOTHING if other is None else Repeat(seq(",", ws, other), 0, None)
        first_needed = needed.index(True) if True in needed else len(needed)
        starts: list[Node] = []
        if other is not None and first_needed == len(needed):
            starts.append(seq(other, tail))
        for index in reversed(range(len(members))):
            if index <= first_needed:
                # Both a start and what comes before it lead here: one rule for the two.
                if index and not isinstance(tail, gbnf.Text | Ref):
                    tail = self.rules.add(f"{place.name}-rest", tail)
                starts.append(seq(members[index], tail))
            more = seq(",", ws, members[index])
            tail = seq(more if needed[index] else optional(more), tail)
        return self._closed("{", "}", choice(reversed(starts)), 0 if may_be_empty else 1)
