"""The rules one grammar is built of, as schemas need them: shared primitives, strings, lists and
objects within the limits of llama.cpp, and the record of what had to be left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from backend.chat.format import KEY, TYPE
from backend.grammar import numerals
from backend.grammar import rules as gbnf
from backend.grammar.document import Document, SchemaError
from backend.grammar.notation import JSON, Notation, Quotes
from backend.grammar.pattern import UnsupportedPattern
from backend.grammar.plain import short
from backend.grammar.rules import NEVER, NOTHING, Node, Ref, Repeat, Rules, choice, optional, seq
from backend.grammar.strings import MAX_STATES, Encoding, Texts, automaton, char_rule, text_rule

MAX_INDENT = 32
"""Spaces or tabs after a line break; there is no other whitespace, so none can be written forever."""
_MAX_REPETITIONS_IN_ALL = 20_000
_PATTERN_BUDGET = 10 * MAX_STATES
"""States spent on patterns in one grammar; a pattern that fails costs as much as a large one."""
GAP = "\ue00a"
"""Stands in marker texts for whitespace that a reader passes over."""
_PLACEHOLDER = re.compile("([\ue000-\ue00f])")
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
        return f"{self.path}: '{self.keyword}' is not enforced by the grammar, because {self.reason}."


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """Where a rule comes from: its document, the path for messages, the name for rules."""

    document: Document
    path: str
    name: str
    notation: Notation = JSON

    def below(self, step: str, key: str | int = "") -> SchemaPlace:
        part = str(key).replace("~", "~0").replace("/", "~1")[:60]
        path = f"{self.path}/{step}" + (f"/{part}" if key != "" else "")
        name = f"{self.name[:30]}-{key if key != '' else step}"[:60]
        return SchemaPlace(self.document, path, name, self.notation.inner)


class Rulebook:
    """Rules with shared primitives, one budget for repetitions and patterns, and the reports."""

    def __init__(self, rules: Rules | None = None, *, relaxed: bool = False) -> None:
        self.rules = rules or Rules()
        self.relaxed = relaxed
        self.strict = False
        """Whether a mistake in a schema is an error, and not passed over with a warning."""
        self.dropped: dict[Dropped, None] = {}
        self.notes: dict[str, None] = {}
        self._shared: dict[tuple[str, Notation], Ref] = {}
        self._texts: dict[tuple[Texts, Encoding], Node] = {}
        self._repetitions = 0
        self.pattern_states = 0
        """Spent on patterns so far; one that cannot be compiled counts as a large one."""

    # ---- shared rules ----------------------------------------------------------------------

    def shared(self, name: str, notation: Notation = JSON) -> Ref:
        """A primitive: `ws` (in values), `gap` (between parts of a reply), `number` and `integer`;
        and in a notation `string`, `boolean`, `null`, `any`."""
        key = (name, notation if name in ("string", "boolean", "null", "any") else JSON)
        if key not in self._shared:
            self._shared[key] = self._primitive(name, notation)
        return self._shared[key]

    def _primitive(self, name: str, notation: Notation) -> Ref:
        match name:
            case "ws":
                indent = Repeat(gbnf.chars(" \t"), 0, MAX_INDENT)
                return self.rules.add(name, choice((NOTHING, seq(" "), seq("\n", indent))))
            case "gap":
                lines = seq(Repeat(gbnf.chars("\n"), 1, 3), Repeat(gbnf.chars(" \t"), 0, MAX_INDENT))
                return self.rules.add(name, choice((NOTHING, seq(" "), lines)))
            case "char" | "char-single":
                return char_rule(self.rules, '"' if name == "char" else "'")
            case "string":
                return self.rules.add(name, choice(self._any_text(quotes) for quotes in notation.quotes))
            case "number":
                return numerals.number_rule(self.rules)
            case "integer":
                return self.rules.add(name, numerals.integer(None, None))
            case "boolean":
                words = [*notation.scalars(True), *notation.scalars(False)]
                return self.rules.add(name, choice(map(seq, words)))
            case "null":
                return self.rules.add(name, choice(map(seq, notation.scalars(None))))
            case _:
                return self._any(notation)

    def _any(self, notation: Notation) -> Ref:
        scalars: list[Node] = [self.shared("number")]
        scalars += [self.shared(name, notation) for name in ("string", "boolean", "null")]
        value = self.rules.add(f"any-{_ANY_DEPTH}", choice(scalars))
        key = self._any_key() if notation.bare_keys else self.shared("string", notation)
        for depth in reversed(range(_ANY_DEPTH)):
            entry = seq(key, notation.object[1], self.shared("ws"), value)
            value = self.rules.add(
                f"any-{depth}" if depth else "any",
                choice(
                    (*scalars, self.listing(notation, value, 0, None), self.map(notation, entry, 0, None))
                ),
            )
        return value

    def _any_key(self) -> Node:
        word = gbnf.Chars(((0x2D, 0x2D), (0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)))
        return Repeat(word, 1, 64)

    def _any_text(self, quotes: Quotes) -> Node:
        if quotes.encoding == "raw":
            return seq(
                quotes.start, text_rule(Texts(without=quotes.without), self.rules, "text", "raw"), quotes.end
            )
        char = self.shared("char" if quotes.encoding == "json" else "char-single")
        return seq(quotes.start, Repeat(char, 0, None), quotes.end)

    def marker(self, text: str, places: Mapping[str, Node]) -> Node:
        """Marker text with a node for each placeholder in it; GAP stands for optional whitespace."""
        nodes: Mapping[str, Node] = {GAP: self.shared("gap"), **places}
        return seq(*(nodes.get(part, part) for part in _PLACEHOLDER.split(text) if part))

    # ---- reports ---------------------------------------------------------------------------

    def drop(self, place: SchemaPlace, keyword: str, reason: str) -> None:
        self.dropped[Dropped(place.path, keyword, reason)] = None

    def mistake(self, place: SchemaPlace, keyword: str, reason: str) -> None:
        """A keyword that no value makes sense of. SchemaError where the rules are strict."""
        if self.strict:
            what = reason if reason.startswith(f"'{keyword}'") else f"'{keyword}' {reason}"
            raise SchemaError(f"The schema has a mistake at {place.path}: {what}. Correct the schema.")
        self.drop(place, keyword, reason)

    def note(self, place: SchemaPlace, reason: str) -> None:
        self.notes[f"{place.path}: no value is possible, because {reason}."] = None

    def contradiction(self, place: SchemaPlace, keyword: str, reason: str) -> bool:
        """Report keywords that exclude each other; True when they are to be passed over."""
        if self.relaxed:
            self.drop(place, keyword, reason)
        else:
            self.note(place, reason)
        return self.relaxed

    # ---- strings ---------------------------------------------------------------------------

    def texts(self, texts: Texts, place: SchemaPlace) -> Node:
        """A string among the texts; what is too complex is dropped, piece by piece."""
        if texts == Texts():
            return self.shared("string", place.notation)
        return choice(self._quoted(texts, quotes, place) for quotes in place.notation.quotes)

    def _quoted(self, texts: Texts, quotes: Quotes, place: SchemaPlace) -> Node:
        asked = replace(texts, without=texts.without | quotes.without)
        for simpler in self._simplified(asked, place):
            if simpler.plain and quotes.encoding != "raw":
                char = self.shared("char" if quotes.encoding == "json" else "char-single")
                inside = seq(*self.repeat(char, simpler.low, simpler.high, place, "Length"))
                return seq(quotes.start, inside, quotes.end)
            if self.affordable(simpler) is None:
                inside = self.text_rule(simpler, f"{place.name}-text", quotes.encoding)
                return seq(quotes.start, inside, quotes.end)
        return NEVER

    def text_rule(self, texts: Texts, name: str, encoding: Encoding) -> Node:
        """The one rule of these texts, without quotes. Raises UnsupportedPattern."""
        key = (texts, encoding)
        if key not in self._texts:
            self._texts[key] = text_rule(texts, self.rules, name, encoding)
        return self._texts[key]

    def raw_texts(self, texts: Texts, place: SchemaPlace) -> Node:
        """One of the texts as it is, whatever the notation."""
        return self._quoted(texts, Quotes("", "", "raw"), place)

    def _simplified(self, texts: Texts, place: SchemaPlace) -> Iterator[Texts]:
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
        if self.pattern_states > _PATTERN_BUDGET:
            return "the patterns of this schema are too many or too complex"
        try:
            self.pattern_states += len(automaton(texts))
        except UnsupportedPattern as err:
            self.pattern_states += MAX_STATES
            return str(err)
        return None

    # ---- lists and objects ---------------------------------------------------------------

    def listing(
        self,
        notation: Notation,
        item: Node,
        low: int,
        high: int | None,
        place: SchemaPlace | None = None,
        first: Sequence[Node] = (),
    ) -> Node:
        """`first`, then `item` again and again: between `low` and `high` items in all."""
        start, comma, end = notation.array
        if not first:
            return self._filled(start, comma, end, item, low, high, place, "Items")
        ws = self.shared("ws")
        most = None if high is None else max(high - len(first), 0)
        tail = seq(*self.repeat(seq(comma, ws, item), max(low - len(first), 0), most, place, "Items"))
        for index in reversed(range(1, len(first))):
            more = seq(comma, ws, first[index], tail)
            tail = more if index < low else optional(more)
            if isinstance(tail, Repeat):
                tail = self.rules.add(f"{place.name}-rest" if place else "rest", tail)
        return self.closed(start, seq(first[0], tail), end, may_be_empty=not low)

    def map(
        self, notation: Notation, entry: Node, low: int, high: int | None, place: SchemaPlace | None = None
    ) -> Node:
        """An object of `low` to `high` entries of one kind."""
        start, _, comma, end = notation.object
        return self._filled(start, comma, end, entry, low, high, place, "Properties")

    def _filled(
        self,
        start: str,
        comma: str,
        end: str,
        entry: Node,
        low: int,
        high: int | None,
        place: SchemaPlace | None,
        keyword: str,
    ) -> Node:
        ws = self.shared("ws")
        if high == 0:
            return seq(start, ws, end)
        most = None if high is None else high - 1
        rest = self.repeat(seq(comma, ws, entry), max(low - 1, 0), most, place, keyword)
        return self.closed(start, seq(entry, *rest), end, may_be_empty=not low)

    def closed(self, start: str, inside: Node, end: str, *, may_be_empty: bool) -> Node:
        """`inside`, or nothing where that is allowed, between two brackets."""
        ws = self.shared("ws")
        filled = seq(inside, ws, end)
        return seq(start, ws, choice((seq(end), filled)) if may_be_empty else filled)

    def repeat(
        self, item: Node, low: int, high: int | None, place: SchemaPlace | None, keyword: str
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

    def _capped(self, place: SchemaPlace | None, keyword: str, asked: int, room: int) -> int:
        if place is not None:
            self.drop(place, keyword, f"llama.cpp cannot count to {asked:,}")
        return max(room, 0)

    def members(
        self,
        members: Sequence[Node],
        needed: Sequence[bool],
        other: Node | None,
        separator: Node,
        name: str,
    ) -> Node:
        """At least one of the members, in order, the needed ones always, then others of one kind."""
        tail: Node = NOTHING if other is None else Repeat(seq(separator, other), 0, None)
        first_needed = list(needed).index(True) if True in needed else len(needed)
        starts: list[Node] = []
        if other is not None and first_needed == len(needed):
            starts.append(seq(other, tail))
        for index in reversed(range(len(members))):
            if index <= first_needed:
                # Both a start and what comes before it lead here: one rule for the two.
                if index and not isinstance(tail, gbnf.Text | Ref):
                    tail = self.rules.add(f"{name}-rest", tail)
                starts.append(seq(members[index], tail))
            more = seq(separator, members[index])
            tail = seq(more if needed[index] else optional(more), tail)
        return choice(reversed(starts))


__all__ = ["GAP", "KEY", "TYPE", "Dropped", "Rulebook", "SchemaPlace"]
