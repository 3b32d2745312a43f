"""Checks a value against a JSON Schema: the keywords the grammar holds to, and the simple ones it
cannot. Bounded in time for any schema and any value; what it does not know, it lets pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from typing import Any, TypeGuard

from backend.chat.parsing.values import type_of
from backend.grammar.pattern import UnsupportedPattern
from backend.grammar.plain import Schema, as_list, as_object, is_list, is_object, is_schema, short
from backend.grammar.references import References, UnresolvableRef
from backend.grammar.strings import FORMATS, found

_MAX_STEPS = 20_000
_MAX_DEPTH = 100
_MAX_MESSAGES = 8
_MAX_TEXT = 100_000
MAX_PATTERNS = 64
"""Most patterns for the names of one object; each is looked for in each name."""
_CHARS_PER_STEP = 64
_UNKNOWN = ("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef")


def violations(value: Any, schema: Schema, root: Schema = None) -> list[str]:
    """Why `value` (as JSON reads it) does not satisfy `schema`, in sentences; empty when it does.

    `root` is the document that `$ref` points into, by default `schema` itself. At most eight
    sentences. A value nested more than 100 deep is a violation.
    """
    return _Check(References(schema if root is None else root)).messages(value, schema)


def verdict(value: Any, schema: Schema) -> tuple[list[str], list[str]]:
    """The `violations`, and what of `schema` could not be checked in `value`, in sentences too."""
    check = _Check(References(schema))
    return check.messages(value, schema), list(check.unchecked)


def fits_all(value: Any, schemas: Iterable[Schema], references: References) -> tuple[bool, int]:
    """Whether `value` satisfies every one of the schemas, their own `enum` and `const` aside, and the
    steps that took. They are parts of the document whose `references` these are."""
    check = _Check(references)
    return all(check.fits(value, schema, 0, listed=False) for schema in schemas), check.steps


def identity(value: Any) -> Any:
    """A hashable key, equal for values that JSON Schema calls equal: 1 and 1.0, but not 1 and true."""
    if is_list(value):
        return ("array", tuple(identity(item) for item in value))
    if is_object(value):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    return ("number" if is_number(value) else type_of(value), value)


def type_names(schema: Mapping[str, Any]) -> list[str] | None:
    """The type names a schema allows, or None where it names none."""
    names = schema.get("type")
    names = [names] if isinstance(names, str) else as_list(names)
    if not names or not all(name in TYPES for name in names):
        return None
    return [*names, "null"] if schema.get("nullable") is True and "null" not in names else names


TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite JSON number."""
    return type(value) is int or (isinstance(value, float) and math.isfinite(value))


def count(schema: Mapping[str, Any], keyword: str) -> int | None:
    """The value of a keyword that counts something, or None where it is absent or malformed."""
    value = schema.get(keyword)
    return int(value) if is_number(value) and value >= 0 and value == int(value) else None


class _Check:
    def __init__(self, references: References) -> None:
        self.references = references
        self.steps = 0
        self.unchecked: dict[str, None] = {}
        """What could not be looked at, and counts as satisfied while other parts are."""

    def messages(self, value: Any, schema: Schema) -> list[str]:
        try:
            return list(islice(self.check(value, schema, "", 0), _MAX_MESSAGES))
        except RecursionError:
            return ["the value is nested too deeply"]

    def fits(self, value: Any, schema: Schema, depth: int, *, listed: bool = True) -> bool:
        return next(self.check(value, schema, "", depth, listed=listed), None) is None

    def check(self, value: Any, schema: Schema, at: str, depth: int, *, listed: bool = True) -> Iterator[str]:
        """Why a value does not satisfy a schema; without `listed`, `enum` and `const` of it do not count."""
        self.steps += 1
        if schema is False:
            yield f"{at or 'the value'} is not allowed here"
            return
        if not is_object(schema):
            return
        if self.steps > _MAX_STEPS:
            self.unchecked["the value is too large to be checked whole"] = None
            return
        if depth > _MAX_DEPTH:
            yield f"{at or 'the value'} is nested too deeply"
            return
        depth += 1
        yield from self.combined(value, schema, at, depth)
        names = type_names(schema)
        actual = type_of(value)
        if names is not None and actual not in names and not (actual == "integer" and "number" in names):
            yield f"{at or 'the value'} must be {' or '.join(names)}, not {actual}"
            return
        if value is None and schema.get("nullable") is True:
            return
        self.steps += len(as_list(schema.get("enum"))) // 16 if listed else 0
        for keyword in _UNKNOWN:
            if keyword in schema and schema[keyword] is not False and schema[keyword] is not True:
                self.unchecked[f"'{keyword}' is not understood, so it was not checked"] = None
        yield from _choices(value, schema, at) if listed else ()
        if isinstance(value, str):
            yield from self.text(value, schema, at)
        elif is_list(value):
            yield from self.array(value, schema, at, depth)
        elif is_object(value):
            yield from self.object(value, schema, at, depth)
        elif is_number(value):
            yield from _bounds(value, schema, at)

    def combined(self, value: Any, schema: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        if "$ref" in schema:
            try:
                target = self.references.target(schema)
            except UnresolvableRef:
                target = True
            yield from self.check(value, target, at, depth)
        for branch in as_list(schema.get("allOf")):
            yield from self.check(value, branch, at, depth)
        if (branches := as_list(schema.get("anyOf"))) and not any(
            self.fits(value, b, depth) for b in branches
        ):
            yield f"{at or 'the value'} fits none of the allowed forms"
        if branches := as_list(schema.get("oneOf")):
            fitting = sum(self.fits(value, branch, depth) for branch in branches)
            if fitting != 1:
                yield f"{at or 'the value'} must fit exactly one of its forms, and fits {fitting or 'none'}"
        if is_schema(condition := schema.get("if")):
            branch = schema.get("then" if self.fits(value, condition, depth) else "else", True)
            yield from self.check(value, branch, at, depth)
        if is_schema(excluded := schema.get("not")) and self.fits(value, excluded, depth):
            yield f"{at or 'the value'} has a form that is ruled out"

    def array(self, value: list[Any], schema: Mapping[str, Any], at: str, depth: int) -> Iterator[str]:
        yield from _size(len(value), schema, at, "Items", "items")
        first, rest = array_items(schema)
        for index, item in enumerate(value):
            item_schema = first[index] if index < len(first) else rest
            yield from self.check(item, item_schema, f"{at}[{index}]", depth)
        if schema.get("uniqueItems") is True and len({identity(item) for item in value}) < len(value):
            yield f"{at or 'the list'} must not repeat an item"
        if is_schema(wanted := schema.get("contains")):
            hits = sum(self.fits(item, wanted, depth) for item in value)
            least, most = count(schema, "minContains"), count(schema, "maxContains")
            if hits < (1 if least is None else least) or (most is not None and hits > most):
                yield f"{at or 'the list'} has {hits} items of the form it must contain"

    def object(
        self, value: Mapping[str, Any], schema: Mapping[str, Any], at: str, depth: int
    ) -> Iterator[str]:
        yield from _size(len(value), schema, at, "Properties", "properties")
        for name in as_list(schema.get("required")):
            if isinstance(name, str) and name not in value:
                yield f"{_below(at, name)} is missing"
        patterns = len(as_object(schema.get("patternProperties")))
        for name, item in value.items():
            self.steps += patterns
            for part in property_schemas(schema, name, self.unchecked):
                if part is False:
                    yield f"{_below(at, name)} is not a known parameter"
                else:
                    yield from self.check(item, part, _below(at, name), depth)
            if is_schema(names := schema.get("propertyNames")):
                yield from self.check(name, names, f"the name {short(name)}", depth)
        either = as_object(schema.get("dependencies")).items()
        schemas = [(name, needed) for name, needed in either if is_schema(needed)]
        for name, needed in (*as_object(schema.get("dependentSchemas")).items(), *schemas):
            if name in value:
                yield from self.check(value, needed, at, depth)
        for name, needed in (*as_object(schema.get("dependentRequired")).items(), *either):
            for other in as_list(needed):
                if name in value and other not in value:
                    yield f"{_below(at, str(other))} is missing, which {name} needs"

    def text(self, value: str, schema: Mapping[str, Any], at: str) -> Iterator[str]:
        yield from _size(len(value), schema, at, "Length", "characters")
        pattern, name = schema.get("pattern"), schema.get("format")
        known = FORMATS.get(name) if isinstance(name, str) else None
        where = at or "the text"
        if isinstance(pattern, str) and not self.found(pattern, value, where):
            yield f"{where} must match the pattern {short(pattern, 200)}, unlike {short(value)}"
        if known is not None and not self.found(known, value, where):
            yield f"{where} must be a {name}, unlike {short(value)}"

    def found(self, pattern: str, value: str, where: str) -> bool:
        """Whether a pattern is found, True where that cannot be told, which is noted."""
        self.steps += 1 + len(value) // _CHARS_PER_STEP
        try:
            if len(value) <= _MAX_TEXT:
                return found(pattern, value)
            reason = f"it is longer than {_MAX_TEXT:,} characters"
        except UnsupportedPattern as err:
            reason = str(err)
        told = f"{where} could not be checked against the pattern {short(pattern, 200)}: {reason}"
        self.unchecked[told] = None
        return True


def array_items(schema: Mapping[str, Any]) -> tuple[list[Schema], Schema]:
    """The schemas of the first items, one each, and that of all further ones (True where unsaid)."""
    items = schema.get("items", True)
    if isinstance(items, list):
        return as_list(schema.get("items")), schema.get("additionalItems", True)
    return as_list(schema.get("prefixItems")), items


def property_schemas(
    schema: Mapping[str, Any], name: str, unchecked: dict[str, None] | None = None
) -> list[Schema]:
    """Every schema that one object schema applies to the property `name`.

    A pattern that cannot be read applies to none, and is told in `unchecked`.
    """
    parts: list[Schema] = []
    properties = as_object(schema.get("properties"))
    if name in properties:
        parts.append(properties[name])
    for pattern, part in islice(as_object(schema.get("patternProperties")).items(), MAX_PATTERNS):
        try:
            if found(pattern, name):
                parts.append(part)
        except UnsupportedPattern as err:
            if unchecked is not None:
                unchecked[f"names could not be checked against the pattern {short(pattern, 200)}: {err}"] = (
                    None
                )
            return parts or [True]
    return parts or [schema.get("additionalProperties", True)]


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _choices(value: Any, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    allowed = as_list(schema.get("enum"))
    key = identity(value)
    if allowed and not any(identity(item) == key for item in allowed):
        yield f"{at or 'the value'} must be one of {short(allowed, 200)}, not {short(value)}"
    if "const" in schema and key != identity(schema["const"]):
        yield f"{at or 'the value'} must be {short(schema['const'], 200)}, not {short(value)}"


def _size(actual: int, schema: Mapping[str, Any], at: str, keyword: str, what: str) -> Iterator[str]:
    least, most = count(schema, f"min{keyword}"), count(schema, f"max{keyword}")
    if least is not None and actual < least:
        yield f"{at or 'the value'} must have at least {least} {what}, not {actual}"
    if most is not None and actual > most:
        yield f"{at or 'the value'} must have at most {most} {what}, not {actual}"


def limits(schema: Mapping[str, Any]) -> Iterator[tuple[str, float, bool]]:
    """The well-formed numeric bounds: `min` or `max`, the bound, and whether it is excluded."""
    for side, plain, exclusive in (
        ("min", "minimum", "exclusiveMinimum"),
        ("max", "maximum", "exclusiveMaximum"),
    ):
        if is_number(bound := schema.get(plain)):
            yield side, bound, schema.get(exclusive) is True
        if is_number(bound := schema.get(exclusive)):
            yield side, bound, True


def _bounds(value: float, schema: Mapping[str, Any], at: str) -> Iterator[str]:
    for side, bound, excluded in limits(schema):
        inside = value > bound if side == "min" else value < bound
        if not inside and (excluded or value != bound):
            relation = {"min": ("at least", "more than"), "max": ("at most", "less than")}[side][excluded]
            yield f"{at or 'the number'} must be {relation} {bound}, not {value}"
    step = schema.get("multipleOf")
    if is_number(step) and step > 0 and _exact(value) % _exact(step) != 0:
        yield f"{at or 'the number'} must be a multiple of {step}, not {value}"


def _exact(value: float) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(Decimal(repr(value)))


# ---- several schemas at once --------------------------------------------------------------


def listed_values(form: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """The lists of allowed values with their keywords, `const` first."""
    for part in form:
        if "const" in part:
            yield "const", [part["const"]]
    for part in form:
        if "enum" in part:
            yield "enum", as_list(part["enum"])


def least(bounds: Iterable[int | None]) -> int | None:
    """The tightest upper bound, or None where there is none."""
    return min((bound for bound in bounds if bound is not None), default=None)
