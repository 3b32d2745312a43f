"""Where the `$ref`s of one schema lead: by pointer, `$anchor` and `$id`. Nothing is ever fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from backend.grammar.plain import Schema, as_list, as_object, is_object, short

_ONE = (
    "additionalItems additionalProperties contains contentSchema else if items not propertyNames then "
    "unevaluatedItems unevaluatedProperties"
).split()
_MANY = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_NAMED = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
_ANCHORS = ("$anchor", "$dynamicAnchor")
_OLD_DRAFTS = re.compile(r"draft-0?[34]\b")
"""There `$id` is still called `id`."""

_NOWHERE = "file:///"
"""The base of what has no address: relative ones are told apart below it."""
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class UnresolvableRef(ValueError):
    """A `$ref` points nowhere, or out of its document."""


class References:
    """Follows the references of the document `root`, each against the `$id` around it.

    The document is looked over once, when the first reference is followed; it must not change then.
    """

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._id = "id" if _OLD_DRAFTS.search(str(as_object(root).get("$schema"))) else "$id"
        self._bases: dict[int, str] = {}
        """The address that the references of a schema are relative to, by its identity."""
        self._resources: dict[str, Schema] = {_NOWHERE: root}
        self._anchors: dict[tuple[str, str], Schema] = {}

    def target(self, schema: Mapping[str, Any]) -> Schema:
        """What the `$ref` of `schema`, a part of the document, points to. Raises UnresolvableRef."""
        reference = schema["$ref"]
        if not isinstance(reference, str):
            raise UnresolvableRef(f"'$ref' {short(reference)} is not text")
        if not self._bases:
            self._look_over(self.root, _NOWHERE)
        base = self._bases.get(id(schema), self._bases.get(id(self.root), _NOWHERE))
        address, fragment = _absolute(reference, base) or (None, "")
        if address not in self._resources:
            raise UnresolvableRef(f"'$ref' {short(reference)} points out of the schema")
        if not fragment:
            return self._resources[address]
        if fragment.startswith("/"):
            return self._pointed(reference, fragment, address)
        anchor = (address, _unquote(fragment))
        if anchor not in self._anchors:
            raise UnresolvableRef(f"'$ref' {short(reference)} points to nothing")
        return self._anchors[anchor]

    def _pointed(self, reference: str, pointer: str, base: str) -> Schema:
        node = self._resources[base]
        for part in pointer.split("/")[1:]:
            base = self._bases.get(id(node), base)
            key = _unquote(part).replace("~1", "/").replace("~0", "~")
            items = as_list(node)
            if key in (members := as_object(node)):
                node = members[key]
            elif key.isascii() and key.isdigit() and int(key) < len(items):
                node = items[int(key)]
            else:
                raise UnresolvableRef(f"'$ref' {short(reference)} points to nothing")
        self._look_over(node, base)  # It may lie where no schema was looked for.
        return node

    def _look_over(self, start: Schema, base: str) -> None:
        """Learn the addresses and anchors of `start` and of everything in it."""
        todo: list[tuple[Any, str]] = [(start, base)]
        while todo:
            schema, base = todo.pop()
            if not is_object(schema) or id(schema) in self._bases:
                continue
            base = self._named(schema, base)
            self._bases[id(schema)] = base
            todo += [(part, base) for part in reversed(list(_parts(schema)))]

    def _named(self, schema: Mapping[str, Any], base: str) -> str:
        """The base inside `schema`, whose own names are noted."""
        name = schema.get(self._id)
        if isinstance(name, str) and (found := _absolute(name, base)):
            if found[0] != base or not found[1]:
                base = found[0]
                self._resources.setdefault(base, schema)
            if found[1]:
                self._anchors.setdefault((base, _unquote(found[1])), schema)
        for keyword in _ANCHORS:
            if isinstance(anchor := schema.get(keyword), str):
                self._anchors.setdefault((base, anchor), schema)
        return base


def _parts(schema: Mapping[str, Any]) -> Iterator[Schema]:
    """The schemas right inside a schema, by the keywords that hold schemas."""
    for keyword in _ONE:
        if keyword in schema:
            yield schema[keyword]
    for keyword in _MANY:
        yield from as_list(schema.get(keyword))
    for keyword in _NAMED:
        yield from as_object(schema.get(keyword)).values()


def _absolute(reference: str, base: str) -> tuple[str, str] | None:
    """The address and the fragment of a reference that stands below `base`; None where it is none."""
    address, _, fragment = reference.partition("#")
    if not address:
        return base, fragment
    if _HAS_SCHEME.match(address) and not address.lower().startswith(("http:", "https:")):
        return address, fragment
    from urllib.parse import urljoin  # rare, and slow to import

    try:
        return urljoin(base, address), fragment
    except ValueError:
        return None


def _unquote(part: str) -> str:
    if "%" not in part:
        return part
    from urllib.parse import unquote

    return unquote(part)
