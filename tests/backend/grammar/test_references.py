"""Where a `$ref` leads, by pointer, `$anchor` and `$id`: in the grammar, in the check and in the types."""

from __future__ import annotations

from typing import Any

import pytest

from backend.chat.parsing.values import type_names
from backend.grammar.schema import SchemaError, schema_grammar
from backend.grammar.validate import violations
from tests.backend.grammar.gbnf import Grammar

NUMBER = {"type": "integer"}
NAMED = {"y": {"$anchor": "n", **NUMBER}}
HOME = "https://example.org/schemas/order.json"


def accepts(schema: Any, text: str) -> bool:
    return Grammar.parse(schema_grammar(schema, strict=True).text).accepts(text)


REACHED: dict[str, Any] = {
    "an anchor": {"$ref": "#n", "$defs": {"x": {"$anchor": "n", **NUMBER}}},
    "an anchor deep inside": {
        "properties": {"a": {"properties": {"b": {"$anchor": "n", **NUMBER}}}},
        "$ref": "#n",
    },
    "an anchor in a list": {
        "anyOf": [{"$ref": "#n"}],
        "$defs": {"x": {"prefixItems": [{"$anchor": "n", **NUMBER}]}},
    },
    "a dynamic anchor": {"$ref": "#n", "$defs": {"x": {"$dynamicAnchor": "n", **NUMBER}}},
    "an anchor with escapes": {"$ref": "#%6E", "$defs": {"x": {"$anchor": "n", **NUMBER}}},
    "an id that is a fragment": {"$ref": "#n", "definitions": {"x": {"$id": "#n", **NUMBER}}},
    "an id of draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "$ref": "#n",
        "definitions": {"x": {"id": "#n", **NUMBER}},
    },
    "a whole id": {
        "$ref": "https://example.org/n",
        "$defs": {"x": {"$id": "https://example.org/n", **NUMBER}},
    },
    "a urn": {"$ref": "urn:example:n", "$defs": {"x": {"$id": "urn:example:n", **NUMBER}}},
    "a pointer into a urn": {
        "$ref": "urn:example:n#/$defs/y",
        "$defs": {"x": {"$id": "urn:example:n", "$defs": {"y": NUMBER}}},
    },
    "an id with an empty fragment": {
        "$ref": "https://example.org/n",
        "$defs": {"x": {"$id": "https://example.org/n#", **NUMBER}},
    },
    "a relative id": {"$ref": "n.json", "$defs": {"x": {"$id": "n.json", **NUMBER}}},
    "a relative id, in a roundabout way": {
        "$ref": "./a/../n.json",
        "$defs": {"x": {"$id": "n.json", **NUMBER}},
    },
    "relative to the id of the root": {
        "$id": HOME,
        "$ref": "n.json",
        "$defs": {"x": {"$id": "https://example.org/schemas/n.json", **NUMBER}},
    },
    "an absolute path": {"$id": HOME, "$ref": "/n.json", "$defs": {"x": {"$id": "/n.json", **NUMBER}}},
    "relative to the id around it": {
        "$id": HOME,
        "$ref": "deep/list.json",
        "$defs": {
            "list": {"$id": "deep/list.json", "$ref": "n.json"},
            "n": {"$id": "https://example.org/schemas/deep/n.json", **NUMBER},
        },
    },
    "the root by its id": {"$id": HOME, "$ref": "order.json#/$defs/n", "$defs": {"n": NUMBER}},
    "an anchor of another id": {
        "$ref": "n.json#n",
        "$defs": {"x": {"$id": "n.json", "$defs": NAMED}},
    },
    "an anchor of the id around it": {
        "$ref": "n.json",
        "$defs": {
            "w": {"$anchor": "n", "type": "string"},
            "x": {"$id": "n.json", "$ref": "#n", "$defs": NAMED},
        },
    },
    "a pointer from the id around it": {
        "$ref": "n.json",
        "$defs": {
            "y": {"type": "string"},
            "x": {"$id": "n.json", "$ref": "#/$defs/y", "$defs": {"y": NUMBER}},
        },
    },
    "a pointer across an id": {
        "$ref": "#/$defs/x/$defs/y",
        "$defs": {
            "n": {"type": "string"},
            "x": {"$id": "n.json", "$defs": {"y": {"$ref": "#/$defs/n"}, "n": NUMBER}},
        },
    },
    "a part that no keyword knows": {
        "$ref": "#/shapes/x",
        "shapes": {"x": {"$id": "n.json", "$ref": "#n", "$defs": NAMED}},
    },
    "a list of values beside it": {
        "$ref": "n.json",
        "$defs": {"x": {"$id": "n.json", "enum": [1, "a"], "$ref": "#n", "$defs": NAMED}},
    },
}


@pytest.mark.parametrize("name", REACHED)
def test_a_reference_leads_to_what_it_names(name: str) -> None:
    schema = REACHED[name]
    assert not schema_grammar(schema).dropped
    assert accepts(schema, "1")
    assert not accepts(schema, '"a"')
    assert violations(1, schema) == []
    assert violations("a", schema)
    assert type_names(schema, schema) >= {"integer"}


LOST: dict[str, tuple[Any, str]] = {
    "no such anchor": ({"$ref": "#n"}, "'$ref' \"#n\" points to nothing"),
    "an anchor of another id": (
        {"$ref": "#n", "$defs": {"x": {"$id": "n.json", "$anchor": "n"}}},
        "'$ref' \"#n\" points to nothing",
    ),
    "an anchor in a value": ({"$ref": "#n", "const": {"$anchor": "n"}}, "'$ref' \"#n\" points to nothing"),
    "a property of that name": (
        {"$ref": "#n", "properties": {"$anchor": {"const": "n"}}},
        "'$ref' \"#n\" points to nothing",
    ),
    "no such id": ({"$ref": "n.json"}, "'$ref' \"n.json\" points out of the schema"),
    "an id in a value": ({"$ref": "n", "enum": [{"$id": "n"}]}, "points out of the schema"),
    "no address": ({"$ref": "http://[::1"}, "points out of the schema"),
    "a file": ({"$ref": "file:///etc/passwd"}, "points out of the schema"),
    "an anchor with a slash": ({"$id": HOME, "$ref": "order.json#a/b"}, "points to nothing"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_reference_to_nothing_is_told(name: str) -> None:
    schema, told = LOST[name]
    with pytest.raises(SchemaError) as raised:
        schema_grammar(
            {"properties": {"p": schema}} | ({"$id": HOME} if "$id" in schema else {}), strict=True
        )
    assert told in str(raised.value)
    assert violations({}, {"$ref": schema["$ref"]}) == []


@pytest.mark.parametrize("bad", [5, None, [], "http://[::1", "", "#", "\ud800", "x" * 5000])
def test_an_odd_id_or_anchor_harms_nothing(bad: Any) -> None:
    schema = {"$ref": "#/$defs/n", "$defs": {"n": NUMBER, "x": {"$id": bad, "$anchor": bad}}}
    assert accepts(schema, "1")
    assert violations("a", schema)


def test_ids_that_lead_in_a_circle_end() -> None:
    circle = {"$ref": "a", "$defs": {"x": {"$id": "a", "$ref": "b"}, "y": {"$id": "b", "$ref": "a"}}}
    with pytest.raises(SchemaError, match="leads back to itself"):
        schema_grammar(circle)
    assert violations(1, circle)


def test_a_schema_that_refers_to_itself_by_its_id() -> None:
    tree = {
        "$id": "https://example.org/tree",
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "tree"}}, "n": {"$ref": "#n"}},
        "required": ["n"],
        "$defs": {"n": {"$anchor": "n", **NUMBER}},
    }
    assert accepts(tree, '{"kids": [{"kids": [], "n": 2}], "n": 1}')
    assert not accepts(tree, '{"kids": [{"kids": []}], "n": 1}')
    assert violations({"kids": [{"n": "a"}], "n": 1}, tree) == ["kids[0].n must be integer, not string"]
