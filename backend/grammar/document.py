"""A JSON Schema as bounded plain data, with its references followed and its unions spread out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias, cast

from backend.grammar.plain import Schema, as_list, as_object, is_list, is_object, is_schema
from backend.grammar.references import References, UnresolvableRef
from backend.grammar.validate import identity, type_names
from backend.types import BackendError

_MAX_NODES = 20_000
_MAX_CHARACTERS = 1_000_000
_MAX_DEPTH = 100
_MAX_FORMS = 200
_MAX_STEPS = 20_000
"""Steps of spreading out the unions of one place, before they are passed over."""
_MAX_WORK = 200_000
"""Steps of one compilation, each some microseconds; references and unions can ask for any number."""

_LINKS = frozenset(
    ("$ref", "$id", "$anchor", "allOf", "anyOf", "oneOf", "$defs", "definitions", "title", "description")
)
"""A schema of these alone says nothing that the schemas it links to do not say."""

Form: TypeAlias = tuple[Mapping[str, Any], ...]
"""Schema objects that must all hold; their `$ref`, `allOf`, `anyOf` and `oneOf` are already followed."""


class SchemaError(BackendError, ValueError):
    """A schema is no schema, too large, or allows no value at all; the text says where and why."""


def too_large(reason: str) -> SchemaError:
    return SchemaError(f"The schema is too large: {reason}. Describe less, or leave the check to the tool.")


@dataclass(frozen=True, slots=True)
class Forms:
    """The ways to satisfy some schemas together; none when that is impossible."""

    forms: tuple[Form, ...]
    dropped: tuple[tuple[str, str], ...] = ()
    """Keywords that were passed over, each with the reason."""
    why: str = ""
    """Why there is no form."""


class Document:
    """One schema with everything its references may point to.

    Raises SchemaError when it is not JSON, too large (20,000 values, a million characters) or
    nested more than 100 deep; so does whatever then takes too much work to compile.
    """

    def __init__(self, schema: Schema) -> None:
        self._nodes = 0
        self._characters = 0
        self._work = 0
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._targets: dict[int, Schema] = {}
        self._exclusives: dict[int, bool] = {}
        if not is_schema(schema):
            raise SchemaError(f"A schema is a JSON object or a boolean, not {type(schema).__name__}.")
        self.root: Schema = self._plain(schema, 0)
        self.references = References(self.root)

    @property
    def size(self) -> int:
        """How many values the document holds."""
        return self._nodes

    def part(self, schema: Schema) -> Schema:
        """This document's own copy of a part of the schema it was made from."""
        if isinstance(schema, bool):
            return schema
        return self._copies[id(schema)][1]

    def _plain(self, value: Any, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise too_large(f"it contains more than {_MAX_NODES:,} values")
        if depth > _MAX_DEPTH:
            raise too_large(f"it is nested more than {_MAX_DEPTH} deep")
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if is_list(value) or isinstance(value, tuple):
            return [self._plain(item, depth + 1) for item in cast("Sequence[Any]", value)]
        if not is_object(value):
            raise SchemaError(f"The schema contains a {type(value).__name__}, which JSON cannot express.")
        copy: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise SchemaError(f"The schema has the key {key!r}; JSON has only text as keys.")
            copy[self._text(key)] = self._plain(item, depth + 1)
        self._copies[id(value)] = (value, copy)
        return copy

    def _text(self, text: str) -> str:
        self._characters += len(text)
        if self._characters > _MAX_CHARACTERS:
            raise too_large(f"it contains more than {_MAX_CHARACTERS:,} characters")
        return text

    # ---- work ------------------------------------------------------------------------------

    def renew(self) -> None:
        """A new compilation begins: it may do all the work again."""
        self._work = 0

    def spend(self, steps: int) -> None:
        """Account for work on this document. SchemaError when a compilation takes too much."""
        self._work += steps
        if self._work > _MAX_WORK:
            raise too_large("its references and combinations take too long to follow")

    # ---- forms -----------------------------------------------------------------------------

    def forms(self, schemas: Sequence[Schema]) -> Forms:
        """All ways to satisfy the schemas together, references followed and unions spread out."""
        dropped: dict[tuple[str, str], None] = {}
        forms = self._spread(schemas, dropped, unions=True)
        if forms is None:
            dropped["anyOf", f"there are more than {_MAX_FORMS} combinations of its forms"] = None
            forms = self._spread(schemas, dropped, unions=False) or ([], "")
        return Forms(tuple(forms[0]), tuple(dropped), forms[1])

    def _spread(
        self, schemas: Sequence[Schema], dropped: dict[tuple[str, str], None], *, unions: bool
    ) -> tuple[list[Form], str] | None:
        """The forms and, when there are none, why; None when there are too many.

        A schema met again below itself, without a list or an object in between, can add no value
        that it did not already allow: that branch ends.
        """
        done: dict[frozenset[int], Form] = {}
        why = "a schema there is false"
        todo: list[tuple[tuple[tuple[Schema, frozenset[int]], ...], Form, frozenset[int]]] = [
            (tuple((schema, frozenset[int]()) for schema in schemas), (), frozenset())
        ]
        steps = 0
        while todo:
            pending, form, seen = todo.pop()
            steps += 1
            self.spend(1 + len(pending) // 512 + len(seen) // 16)
            if len(done) + len(todo) > _MAX_FORMS or (unions and steps > _MAX_STEPS):
                return None
            if not pending:
                done.setdefault(frozenset(map(id, form)), form)
                continue
            (schema, trail), rest = pending[0], pending[1:]
            if schema is False:
                continue
            if not is_object(schema):
                todo.append((rest, form, seen))
                continue
            if id(schema) in trail:
                why = "a '$ref' there leads back to itself"
                continue
            if id(schema) in seen:  # What holds once holds twice, with the same choices.
                todo.append((rest, form, seen))
                continue
            below = trail | {id(schema)}
            says = bool(schema.keys() - _LINKS)
            more = tuple((part, below) for part in self._conjuncts(schema, dropped))
            for choice in reversed(list(self._choices(schema, dropped) if unions else [()])):
                picked = tuple((part, below) for part in choice)
                taken = (*form, schema) if says else form
                todo.append(((*more, *picked, *rest), taken, seen | {id(schema)}))
        return list(done.values()), why

    def _conjuncts(self, schema: Mapping[str, Any], dropped: dict[tuple[str, str], None]) -> Iterator[Schema]:
        yield from as_list(schema.get("allOf"))
        if "$ref" not in schema:
            return
        try:
            yield self._target(schema)
        except UnresolvableRef as err:
            dropped["$ref", str(err)] = None

    def _target(self, schema: Mapping[str, Any]) -> Schema:
        if id(schema) not in self._targets:
            self._targets[id(schema)] = self.references.target(schema)
        return self._targets[id(schema)]

    def _choices(
        self, schema: Mapping[str, Any], dropped: dict[tuple[str, str], None]
    ) -> Iterator[tuple[Schema, ...]]:
        """One branch of `anyOf` with one of `oneOf`, in every combination."""
        either, one = as_list(schema.get("anyOf")), as_list(schema.get("oneOf"))
        if id(schema) not in self._exclusives:
            self._exclusives[id(schema)] = self._exclusive(one)
        if not self._exclusives[id(schema)]:
            dropped["oneOf", "a value may fit more than one of its forms"] = None
        for first in either or [True]:
            for second in one or [True]:
                yield (first, second)

    def _exclusive(self, branches: list[Schema]) -> bool:
        """Whether no value can fit two of the branches, as far as types and constants tell."""
        if len(branches) > 100:
            return False
        looked_at = [self._followed(branch) for branch in branches]
        for branch in looked_at:
            self.spend(len(branches) * (1 + len(as_list(branch.get("enum"))) // 16))
        return all(_disjoint(left, right) for left, right in combinations(looked_at, 2))

    def _followed(self, schema: Schema) -> Mapping[str, Any]:
        for _ in range(10):
            if "$ref" not in as_object(schema):
                break
            try:
                schema = self._target(as_object(schema))
            except UnresolvableRef:
                break
        return as_object(schema)


def _disjoint(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    left_types, right_types = _types(left), _types(right)
    if left_types is not None and right_types is not None and not left_types & right_types:
        return True
    left_values, right_values = _values(left), _values(right)
    if left_values is not None and right_values is not None and not left_values & right_values:
        return True
    if left_types != {"object"} or right_types != {"object"}:
        return False
    both = set(as_list(left.get("required"))) & set(as_list(right.get("required")))
    return any(
        (mine := _values(as_object(as_object(left.get("properties")).get(name)))) is not None
        and (theirs := _values(as_object(as_object(right.get("properties")).get(name)))) is not None
        and not mine & theirs
        for name in both
    )


def _types(schema: Mapping[str, Any]) -> set[str] | None:
    names = type_names(schema)
    return None if names is None else {"number" if name == "integer" else name for name in names}


def _values(schema: Mapping[str, Any]) -> set[Any] | None:
    if "const" in schema:
        return {identity(schema["const"])}
    return {identity(item) for item in as_list(schema.get("enum"))} if "enum" in schema else None
