"""JSON Schema to GBNF. One file, because the rules of one keyword need those of the others.

What a grammar can hold to becomes rules, the rest is reported.
Schemas are untrusted: size, depth and time are bounded, and one keyword that cannot be held to
never takes the others with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any

from backend.grammar import numerals
from backend.grammar import rules as gbnf
from backend.grammar.document import Document, Form, Forms, SchemaError, too_large
from backend.grammar.keywords import TYPE_OF_KEYWORD, report
from backend.grammar.members import MAX_PROPERTIES, Members, Writer, narrows, only
from backend.grammar.notation import JSON, Notation, Tags
from backend.grammar.plain import Schema, is_list, is_object, short
from backend.grammar.rulebook import KEY, Dropped, Rulebook, SchemaPlace
from backend.grammar.rules import NEVER, NOTHING, Node, Ref, Rules, choice, optional, seq
from backend.grammar.strings import FORMATS, Texts
from backend.grammar.validate import (
    array_items,
    count,
    fits_all,
    identity,
    least,
    limits,
    listed_values,
    type_names,
    violations,
)

_MAX_RULES = 10_000
_MAX_CHOICES = 5_000

_ENDLESS = "#: every value would have to contain another of its own kind, or text that is not UTF-8."
_UNWRITABLE = "JSON has no infinite numbers, and UTF-8 no halves of surrogate pairs"


@dataclass(frozen=True, slots=True)
class SchemaGrammar:
    """The GBNF of a schema, and what it leaves to a check afterwards."""

    text: str
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    """What the grammar never writes because no value satisfies it."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for each keyword and part left out."""
        return (*map(str, self.dropped), *self.notes)


def schema_grammar(schema: Schema, *, relaxed: bool = False, strict: bool = False) -> SchemaGrammar:
    """The grammar of the JSON values that satisfy `schema`, in rules below `root`.

    Object members come in the order of the schema. Where a schema leaves `additionalProperties`
    or `items` unsaid beside named properties or `prefixItems`, no others are written. With
    `relaxed`, keywords that contradict each other are dropped and reported; without, and where
    that is not enough, a schema that no value satisfies raises SchemaError (a ValueError), as does
    one that is too large, too deep or no schema. `strict` raises it too for an unknown type, a
    reference to nothing and a pattern that is no regular expression, which else are dropped.
    """
    compiler = SchemaRules(relaxed=relaxed)
    compiler.book.strict = strict
    root = compiler.book.rules.reserve("root")
    compiler.book.rules.define(root, compiler.value(Document(schema), [schema], "#", "root"))
    compiler.finish()
    if not compiler.book.rules.satisfiable(root):
        raise SchemaError(compiler.impossible())
    book = compiler.book
    return SchemaGrammar(book.rules.text(root), tuple(book.dropped), tuple(book.notes))


class SchemaRules:
    """Compiles any number of schemas into one set of rules with shared primitives."""

    def __init__(self, rules: Rules | None = None, *, relaxed: bool = False) -> None:
        self.book = Rulebook(rules, relaxed=relaxed)
        self.members = Members(self.book, self._value)
        self._known: dict[tuple[object, ...], Ref] = {}
        self._todo: list[tuple[Ref, Sequence[Schema], SchemaPlace]] = []
        self._documents: dict[int, Document] = {}
        """Kept, because schemas are known by their identity."""

    # ---- from outside ----------------------------------------------------------------------

    def value(
        self,
        document: Document,
        schemas: Iterable[Schema],
        path: str,
        name: str,
        notation: Notation = JSON,
    ) -> Ref:
        """The rule of a value that satisfies all the schemas, parts of `document`.

        It is whole only after `finish`.
        """
        place = self.place(document, path, name, notation)
        return self._value([document.part(schema) for schema in schemas], place)

    def value_of(self, schemas: Sequence[Schema], place: SchemaPlace) -> Ref:
        """The rule of a value at a place that these rules gave out."""
        return self._value(schemas, place)

    def arguments(self, document: Document, path: str, name: str) -> Ref:
        """The rule of an object that satisfies the whole document."""
        return self._value([document.root, only(("object",))], self.place(document, path, name))

    def tagged_arguments(
        self, document: Document, path: str, name: str, notation: Notation, writer: Writer, separator: Node
    ) -> Node:
        """The members of an object that satisfies the whole document, without brackets around; the
        values are written in `notation`."""
        place = self.place(document, path, name, Notation(nested=notation))
        expanded = self._forms([document.root], place)
        options: list[Node] = []
        for form in expanded.forms:
            report(form, place, self.book)
            if "object" in (self._types((*form, only(("object",))), place) or ()):
                some, may_be_empty = self.members.sequence(form, place, writer, separator)
                options.append(optional(some) if may_be_empty else some)
        return self.book.rules.add(name, choice(options))

    def place(self, document: Document, path: str, name: str, notation: Notation = JSON) -> SchemaPlace:
        """A place in a document, which is kept for as long as these rules."""
        if id(document) not in self._documents:
            document.renew()
            self._documents[id(document)] = document
        return SchemaPlace(document, path, name, notation)

    def finish(self) -> None:
        """Compile everything that was asked for. Raises SchemaError when it grows too large."""
        while self._todo:
            ref, schemas, place = self._todo.pop()
            self.book.rules.define(ref, self._node(ref, schemas, place))
            if len(self.book.rules.nodes) > _MAX_RULES:
                raise too_large(f"it needs more than {_MAX_RULES:,} rules")

    def impossible(self) -> str:
        """Why no value satisfies what was compiled."""
        reason = next(iter(self.book.notes), _ENDLESS)
        return f"The schema cannot be satisfied by any value. {reason}"

    # ---- one value -------------------------------------------------------------------------

    def _value(self, schemas: Sequence[Schema], place: SchemaPlace) -> Ref:
        parts = {id(schema): schema for schema in schemas if schema is not True}
        key = (place.notation, frozenset(parts))
        if not parts:
            return self._everything(place)
        if key not in self._known:
            self._known[key] = self.book.rules.reserve(place.name)
            self._todo.append((self._known[key], list(parts.values()), place))
        return self._known[key]

    def _node(self, ref: Ref, schemas: Sequence[Schema], place: SchemaPlace) -> Node:
        expanded = self._forms(schemas, place)
        if not expanded.forms:
            self.book.note(place, expanded.why)
        # Each form is a rule, and no form is a reference to another choice: so llama.cpp's search
        # for left recursion, which visits shared rules again and again, stays short.
        options: list[Node] = []
        for form in expanded.forms:
            key = ("form", place.notation, frozenset(map(id, form)))
            if key in self._known:
                options.append(self._known[key])
            elif len(expanded.forms) == 1:
                self._known[key] = ref
                return self._form(form, place)
            else:
                self._known[key] = self.book.rules.reserve(place.name)
                options.append(self.book.rules.define(self._known[key], self._form(form, place)))
        return choice(options)

    def _forms(self, schemas: Sequence[Schema], place: SchemaPlace) -> Forms:
        expanded = place.document.forms(schemas)
        for keyword, reason in expanded.dropped:
            tell = self.book.mistake if keyword == "$ref" else self.book.drop
            tell(place, keyword, reason)
        return expanded

    def _form(self, form: Form, place: SchemaPlace) -> Node:
        place.document.spend(len(form))
        report(form, place, self.book)
        if any("enum" in part or "const" in part for part in form):
            chosen = self._choices(form, place)
            if chosen is not None:
                return chosen
        types = self._types(form, place)
        if types is None:
            return self._everything(place)
        return choice(self._typed(name, form, place) for name in types)

    def _everything(self, place: SchemaPlace) -> Ref:
        # A raw text may be any value's text.
        return self.book.shared("string" if place.notation.raw else "any", place.notation)

    def _typed(self, name: str, form: Form, place: SchemaPlace) -> Node:
        match name:
            case "object":
                return self.members.object(form, place)
            case "array":
                return self._array(form, place)
            case "string":
                return self._string(form, place)
            case "integer":
                return self._integer(form, place)
            case "number":
                return self._number(form, place)
            case _:
                return self.book.shared(name, place.notation)

    def _types(self, form: Form, place: SchemaPlace) -> list[str] | None:
        """The types left by all parts; None is any type. Without `type`, the keywords tell."""
        left: list[str] | None = None
        for part in form:
            names = type_names(part)
            if names is None:
                continue
            if left is None:
                left = list(dict.fromkeys(names))
                continue
            both = [name for name in left if name in names or (name == "integer" and "number" in names)]
            both += [name for name in names if name == "integer" and "number" in left and name not in both]
            silent = any(map(narrows, form))
            reason = f"nothing is both {left} and {names}"
            if both or silent or not self.book.contradiction(place, "type", reason):
                left = both
        if left is None:
            words = {word for part in form for word in part}
            left = [name for name, group in TYPE_OF_KEYWORD.items() if words & set(group.split())] or None
        if left and "number" in left and "integer" in left:
            left.remove("integer")
        return left

    # ---- enum and const --------------------------------------------------------------------

    def _choices(self, form: Form, place: SchemaPlace) -> Node | None:
        """One of the listed values that satisfy every part, or None where the list is passed over."""
        keyword, listed = next(listed_values(form))
        if len(listed) > _MAX_CHOICES:
            self.book.drop(place, keyword, f"it lists more than {_MAX_CHOICES:,} values")
            return None
        if any(part.get("nullable") is True for part in form):
            listed = [*listed, None]
        fitting = [value for value in listed if self._fits(value, form, place)]
        for _, other in islice(listed_values(form), 1, None):
            allowed = set(map(identity, other))
            fitting = [value for value in fitting if identity(value) in allowed]
        if not fitting:
            reason = f"none of the values of '{keyword}' fits the rest"
            if any(map(narrows, form)):
                return NEVER
            return None if self.book.contradiction(place, keyword, reason) else NEVER
        writable = [value for value in fitting if _is_writable(value)]
        if not writable:
            self.book.note(place, f"no value of '{keyword}' can be written: {_UNWRITABLE}")
            return NEVER
        if len(writable) < len(fitting):
            self.book.drop(place, keyword, f"some of its values cannot be written: {_UNWRITABLE}")
        written = [self._literal(value, place.notation) for value in writable]
        if NEVER in written:
            self.book.drop(place, keyword, "some of its values cannot be written")
        texts = [item.text for node in written for item in _options(node) if isinstance(item, gbnf.Text)]
        nodes: list[Node] = [
            item for node in written for item in _options(node) if not isinstance(item, gbnf.Text)
        ]
        if texts:
            nodes.insert(0, gbnf.trie(texts, self.book.rules, place.name))
        return choice(nodes)

    def _fits(self, value: Any, form: Form, place: SchemaPlace) -> bool:
        """Whether a value satisfies every part, lists of allowed values aside."""
        fitting, steps = fits_all(value, form, place.document.references)
        place.document.spend(steps)
        return fitting

    def _literal(self, value: Any, notation: Notation) -> Node:
        """Exactly this value, with whitespace where a list or object may have it."""
        ws, inner = self.book.shared("ws"), notation.inner
        items: list[Node] = []
        if is_list(value):
            (start, comma, end), items = notation.array, [self._literal(item, inner) for item in value]
        elif is_object(value):
            start, colon, comma, end = notation.object
            for key, item in value.items():
                name = choice(map(seq, inner.keys(key)))
                items.append(seq(name, colon, ws, self._literal(item, inner)))
        else:
            return choice(map(seq, notation.scalars(value)))
        parts: list[Node | str] = []
        for item in items:
            parts += [comma, ws, item] if parts else [item]
        return seq(start, ws, *parts, *([ws] if parts else []), end)

    # ---- strings ---------------------------------------------------------------------------

    def _string(self, form: Form, place: SchemaPlace) -> Node:
        low = max((count(part, "minLength") or 0 for part in form), default=0)
        high = least(count(part, "maxLength") for part in form)
        if high is not None and low > high:
            reason = f"'minLength' {low} is more than 'maxLength' {high}"
            if not self.book.contradiction(place, "minLength", reason):
                return NEVER
            low, high = 0, None
        patterns = frozenset(p for part in form if isinstance(p := part.get("pattern"), str))
        formats = frozenset(f for part in form if isinstance(f := part.get("format"), str))
        for name in sorted(formats - FORMATS.keys()):
            self.book.drop(place, "format", f"{short(name)} is not a known format")
        known = frozenset(formats & FORMATS.keys())
        return self.book.texts(Texts(patterns, known, low, high), place)

    # ---- numbers ---------------------------------------------------------------------------

    def _integer(self, form: Form, place: SchemaPlace) -> Node:
        low: int | None = None
        high: int | None = None
        for side, bound, excluded in self._limits(form, place):
            if side == "min":
                least = math.floor(bound) + 1 if excluded else math.ceil(bound)
                low = least if low is None else max(low, least)
            else:
                most = math.ceil(bound) - 1 if excluded else math.floor(bound)
                high = most if high is None else min(high, most)
        if low is None and high is None:
            return self.book.shared("integer")
        if low is not None and high is not None and low > high:
            reason = f"no integer is at least {low} and at most {high}"
            return self.book.shared("integer") if self.book.contradiction(place, "minimum", reason) else NEVER
        return numerals.integer(low, high)

    def _number(self, form: Form, place: SchemaPlace) -> Node:
        low: Decimal | None = None
        high: Decimal | None = None
        for side, bound, excluded in self._limits(form, place):
            direction = math.inf if side == "min" else -math.inf
            value = numerals.beyond(bound, direction) if excluded else Decimal(repr(bound))
            if side == "min":
                low = value if low is None else max(low, value)
            else:
                high = value if high is None else min(high, value)
        if high is None and (low is None or low == 0):
            number = self.book.shared("number")
            return number if low is None else Ref("unsigned")
        if low is not None and high is not None and low > high:
            reason = f"no number is at least {low:f} and at most {high:f}"
            return self.book.shared("number") if self.book.contradiction(place, "minimum", reason) else NEVER
        return numerals.number(low, high)

    def _limits(self, form: Form, place: SchemaPlace) -> Iterator[tuple[str, float, bool]]:
        for part in form:
            for side, bound, excluded in limits(part):
                if numerals.representable(bound):
                    yield side, bound, excluded
                else:
                    self.book.drop(place, f"{side}imum", "the bound has too many digits")

    # ---- arrays ----------------------------------------------------------------------------

    def _array(self, form: Form, place: SchemaPlace) -> Node:
        firsts, rests = zip(*map(array_items, form), strict=True) if form else ((), ())
        fixed = max(map(len, firsts), default=0)
        low = max((count(part, "minItems") or 0 for part in form), default=0)
        high = least(count(part, "maxItems") for part in form)
        if high is not None and low > high:
            reason = f"'minItems' {low} is more than 'maxItems' {high}"
            if not self.book.contradiction(place, "minItems", reason):
                return NEVER
            low, high = 0, None
        said = any("additionalItems" in part or isinstance(part.get("items"), dict) for part in form)
        if fixed and not said and low <= fixed:
            high = fixed if high is None else min(high, fixed)
        if fixed > MAX_PROPERTIES:
            raise too_large(f"{place.path} has more than {MAX_PROPERTIES:,} 'prefixItems'")
        items: list[Node] = []
        for index in range(fixed if high is None else min(fixed, high)):
            parts = [
                first[index] if index < len(first) else rest
                for first, rest in zip(firsts, rests, strict=True)
            ]
            items.append(self._value(parts, place.below("prefixItems", index)))
        if place.notation.tags is not None:
            return self._tagged_items(place.notation.tags, rests, low, high, place)
        if high is not None and high <= fixed:
            return self.book.listing(place.notation, NEVER, low, high, place, items)
        item = self._value(rests, place.below("items"))
        return self.book.listing(place.notation, item, low, high, place, items)

    def _tagged_items(
        self, tags: Tags, schemas: Sequence[Schema], low: int, high: int | None, place: SchemaPlace
    ) -> Node:
        """A list as tags; all its items are of one kind."""
        item = self._value(schemas, place.below("items"))
        key, marker, ws = gbnf.Text(tags.item), self.book.marker, self.book.shared("ws")
        start, end = marker(tags.start, {KEY: key}), marker(tags.end, {KEY: key})
        one = seq(start, key, marker(tags.middle, {}), item, end)
        most = None if high is None else high - 1
        if high == 0:
            return NOTHING
        more = self.book.repeat(seq(ws, one), max(low - 1, 0), most, place, "Items")
        filled = seq(one, *more)
        return filled if low else choice((NOTHING, filled))


def _is_writable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


def _options(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, gbnf.AnyOf) else (node,)


__all__ = ["Dropped", "Schema", "SchemaError", "SchemaGrammar", "SchemaRules", "schema_grammar", "violations"]
