"""The members of an object: which there are, in which order, and how each is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from backend.grammar.document import Form, too_large
from backend.grammar.keywords import check_patterns
from backend.grammar.notation import Tags
from backend.grammar.plain import Schema, as_list, as_object, short
from backend.grammar.rulebook import KEY, TYPE, Rulebook, SchemaPlace
from backend.grammar.rules import NEVER, NOTHING, Node, Ref, Text, choice, seq
from backend.grammar.strings import FORMATS, Texts
from backend.grammar.validate import MAX_PATTERNS, count, least, listed_values, property_schemas

MAX_PROPERTIES = 1_000
Value: TypeAlias = Callable[[Sequence[Schema], SchemaPlace], Ref]


class Writer(Protocol):
    """How a member stands in the text."""

    def key(self, name: str, place: SchemaPlace) -> Node:
        """A member's name."""
        ...

    def other_key(self, texts: Texts, place: SchemaPlace) -> Node:
        """Any name among the texts; NEVER where only known names can stand."""
        ...

    def member(self, key: Node, schemas: Sequence[Schema], place: SchemaPlace) -> Node:
        """The whole member; `place` is its value's."""
        ...


@dataclass(frozen=True, slots=True)
class Bracketed:
    """Members as JSON has them, in the brackets and quotes of the place's notation."""

    book: Rulebook
    value: Value

    def key(self, name: str, place: SchemaPlace) -> Node:
        return choice(map(seq, place.notation.keys(name)))

    def other_key(self, texts: Texts, place: SchemaPlace) -> Node:
        return NEVER if place.notation.bare_keys else self.book.texts(texts, place)

    def member(self, key: Node, schemas: Sequence[Schema], place: SchemaPlace) -> Node:
        ws, colon = self.book.shared("ws"), place.notation.object[1]
        return seq(key, colon, ws, self.value(schemas, place))


@dataclass(frozen=True, slots=True)
class Tagged:
    """Members as tags. With `types`, a word beside each value tells its type."""

    book: Rulebook
    value: Value
    tags: Tags
    types: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each word with the type names it stands for."""

    def key(self, name: str, place: SchemaPlace) -> Node:
        return Text(name) if name and place.notation.keys(name) else NEVER

    def other_key(self, texts: Texts, place: SchemaPlace) -> Node:
        if KEY in self.tags.end:
            return NEVER
        named = replace(texts, patterns=texts.patterns | {r"^[A-Za-z0-9_.-]{1,40}$"})
        return self.book.raw_texts(named, place)

    def member(self, key: Node, schemas: Sequence[Schema], place: SchemaPlace) -> Node:
        tags, marker = self.tags, self.book.marker
        start, end = marker(tags.start, {KEY: key}), marker(tags.end, {KEY: key})
        if not self.types:
            return seq(start, key, marker(tags.middle, {}), self.value(schemas, place), end)
        typed = [
            seq(marker(tags.middle, {TYPE: Text(word)}), self.value([*schemas, only(names)], place))
            for word, names in self.types
        ]
        return seq(start, key, choice(typed), end)


_NARROW: dict[tuple[str, ...], Schema] = {}


def only(names: tuple[str, ...]) -> Schema:
    """The schema of these types; the same object each time, since schemas are known by identity."""
    return _NARROW.setdefault(names, {"type": list(names)})


def narrows(schema: object) -> bool:
    """Whether a schema came from `only`, and so contradicts nothing that an author wrote."""
    return any(schema is known for known in _NARROW.values())


class Members:
    """Turns object schemas into sequences of members."""

    def __init__(self, book: Rulebook, value: Value) -> None:
        self.book = book
        self.value = value

    def object(self, form: Form, place: SchemaPlace) -> Node:
        notation = place.notation
        if notation.tags is not None:
            filled, may_be_empty = self.sequence(
                form, place, Tagged(self.book, self.value, notation.tags), self.book.shared("ws")
            )
            return choice((NOTHING, filled)) if may_be_empty else filled
        start, _, comma, end = notation.object
        writer, ws = Bracketed(self.book, self.value), self.book.shared("ws")
        names, required = _names(form)
        if names:
            filled, may_be_empty = self.sequence(form, place, writer, seq(comma, ws))
            return self.book.closed(start, filled, end, may_be_empty=may_be_empty)
        other = self._other_members(form, frozenset(), place, writer)
        low, high = self._member_bounds(form, place, 0, len(required))
        return seq(start, ws, end) if other == NEVER else self.book.map(notation, other, low, high, place)

    def sequence(self, form: Form, place: SchemaPlace, writer: Writer, separator: Node) -> tuple[Node, bool]:
        """At least one member, with `separator` in between, and whether there may be none."""
        names, required = _names(form)
        if len(names) > MAX_PROPERTIES:
            raise too_large(f"{place.path} has more than {MAX_PROPERTIES:,} properties")
        patterns = sum(len(as_object(part.get("patternProperties"))) for part in form)
        if patterns > MAX_PATTERNS:
            raise too_large(f"{place.path} has more than {MAX_PATTERNS} patterns for names")
        place.document.spend(len(names) * (len(form) // 4 + 4 * patterns))
        members: list[Node] = []
        for name in names:
            schemas = [schema for part in form for schema in property_schemas(part, name)]
            below = place.below("properties", name)
            key = writer.key(name, below)
            if key == NEVER and name in required:
                self.book.note(place, f"the name {short(name)} cannot be written")
            elif key == NEVER:
                self.book.drop(place, "properties", f"the name {short(name)} cannot be written")
            members.append(writer.member(key, schemas, below))
        other = self._other_members(form, frozenset(names), place, writer)
        low, _ = self._member_bounds(form, place, len(names), len(required))
        needed = [name in required for name in names]
        some = self.book.members(members, needed, None if other == NEVER else other, separator, place.name)
        return some, not required and not low

    def _member_bounds(
        self, form: Form, place: SchemaPlace, named: int, required: int
    ) -> tuple[int, int | None]:
        """How many members a map may have. Beside named properties only 'at least one' is counted."""
        low = max((count(part, "minProperties") or 0 for part in form), default=0)
        high = least(count(part, "maxProperties") for part in form)
        if high is not None and max(low, required) > high:
            reason = f"it asks for {max(low, required)} members and 'maxProperties' is {high}"
            self.book.contradiction(place, "maxProperties", reason)
            high = None
        if not named:
            if low > 1:
                self.book.drop(place, "minProperties", "a name may be repeated")
            return low, high
        if low > max(1, required):
            self.book.drop(place, "minProperties", "members are not counted beside named properties")
        if high is not None:
            self.book.drop(place, "maxProperties", "members are not counted beside named properties")
        return min(low, 1), None

    def _other_members(self, form: Form, names: frozenset[str], place: SchemaPlace, writer: Writer) -> Node:
        """A member that no property names; NEVER where there is none."""
        said = [part for part in form if "additionalProperties" in part or "patternProperties" in part]
        if not said and any("properties" in part or "required" in part for part in form):
            return NEVER
        patterned = [part for part in form if as_object(part.get("patternProperties"))]
        if len(patterned) > 1:
            self.book.drop(place, "patternProperties", "several parts of one schema have it")
            return NEVER
        patterns = as_object(patterned[0]["patternProperties"] if patterned else None)
        if len(patterns) > MAX_PATTERNS:
            raise too_large(f"{place.path} has more than {MAX_PATTERNS} patterns for names")
        rest = [part.get("additionalProperties", True) for part in form if part not in patterned]
        texts = self._key_texts(form, place)
        if texts is None or False in rest:
            return NEVER
        texts = replace(texts, excluded=names)
        options: list[Node] = []
        for pattern, schema in patterns.items():
            keys = replace(texts, patterns=texts.patterns | {pattern})
            keys = replace(keys, excluded_patterns=frozenset(patterns) - {pattern})
            options.append(self._member(keys, [schema, *rest], place.below("patternProperties"), writer))
        if not patterned or "additionalProperties" in patterned[0]:
            schema = patterned[0]["additionalProperties"] if patterned else True
            keys = replace(texts, excluded_patterns=frozenset(patterns))
            options.append(self._member(keys, [schema, *rest], place.below("additionalProperties"), writer))
        return choice(option for option in options if option != NEVER)

    def _member(self, keys: Texts, schemas: list[Schema], place: SchemaPlace, writer: Writer) -> Node:
        if False in schemas:
            return NEVER
        if keys != Texts() and (reason := self.book.affordable(keys)) is not None:
            self.book.drop(place, place.path.rpartition("/")[2], reason)
            return NEVER
        key = writer.other_key(keys, place)
        return NEVER if key == NEVER else writer.member(key, schemas, place)

    def _key_texts(self, form: Form, place: SchemaPlace) -> Texts | None:
        """Which names `propertyNames` leaves; None where it leaves none."""
        schemas = [part["propertyNames"] for part in form if "propertyNames" in part]
        expanded = place.document.forms(schemas)
        if not expanded.forms:
            return None
        if len(expanded.forms) > 1:
            self.book.drop(place, "propertyNames", "it has several forms")
            return Texts()
        texts = Texts()
        for part in next(iter(expanded.forms)):
            check_patterns(part, place, self.book)
            pattern, name = part.get("pattern"), part.get("format")
            lengths = [high for high in (texts.high, count(part, "maxLength")) if high is not None]
            only = {v for _, listed in listed_values((part,)) for v in listed if isinstance(v, str)}
            texts = replace(
                texts,
                patterns=texts.patterns | ({pattern} if isinstance(pattern, str) else set()),
                formats=texts.formats | ({name} if isinstance(name, str) and name in FORMATS else set()),
                low=max(texts.low, count(part, "minLength") or 0),
                high=min(lengths, default=None),
                only=frozenset(only) if "enum" in part or "const" in part else texts.only,
            )
        return texts


def _names(form: Form) -> tuple[list[str], set[str]]:
    """The named members in order, those that are only required last, and the required ones."""
    required = {name for part in form for name in as_list(part.get("required")) if isinstance(name, str)}
    listed = (name for part in form for name in as_object(part.get("properties")))
    return list(dict.fromkeys([*listed, *sorted(required)])), required
