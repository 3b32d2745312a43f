from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from backend import native
from backend.grammar import strings
from backend.grammar.answer import AnswerCheck
from backend.grammar.check import check_grammar
from backend.grammar.schema import SchemaError, schema_grammar
from backend.grammar.validate import violations
from tests.backend.grammar.gbnf import Grammar, LlamaCpp
from tests.limits import memory, processor_time

pytestmark = pytest.mark.timeout(60)  # Hostile schemas: bounded work, but no small one.


@pytest.fixture(scope="module")
def llama_cpp(tiny_llama: Any) -> Any:
    model = native.Model.load(tiny_llama, vocab_only=True)
    assert model
    yield LlamaCpp(model)
    model.close()


def accepts(schema: Any, text: str) -> bool:
    return Grammar.parse(schema_grammar(schema).text).accepts(text)


def dropped(schema: Any) -> list[tuple[str, str]]:
    return [(item.path, item.keyword) for item in schema_grammar(schema).dropped]


# ---- strings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ['a"b', "c\nd", "back\\slash", "tab\t", "\x01", "é漢🎉", "a/b", "\u2028", ""]
)
def test_an_enum_value_is_written_exactly(value: str, llama_cpp: LlamaCpp) -> None:
    text = schema_grammar({"enum": [value]}).text
    written = Grammar.parse(text)
    sample = written.sample(random.Random(1), written.shortest())
    assert json.loads(sample) == value
    assert llama_cpp.accepts(text, sample)


@pytest.mark.parametrize(
    "text", ['"\\ud83d\\ude00"', '"\\u0041"', '"\\/\\b\\f\\n\\r\\t\\"\\\\"', '"\x7f"', '"\\uFFFF"', '"🎉"']
)
def test_every_json_spelling_of_a_string_is_allowed(text: str) -> None:
    assert accepts({"type": "string"}, text)


@pytest.mark.parametrize(
    "text", ['"\\ud83d"', '"\\ude00"', '"\\ud83dx"', '"\n"', '"\x01"', '"\\x41"', '"\\u12"', '"a', "a", "'a'"]
)
def test_no_invalid_string_is_allowed(text: str) -> None:
    assert not accepts({"type": "string"}, text)


def test_a_value_that_no_utf8_can_hold_is_left_out_and_reported() -> None:
    schema = {"enum": ["ok", "\ud800"]}
    assert dropped(schema) == [("#", "enum")]
    assert accepts(schema, '"ok"')


@pytest.mark.parametrize("limit", [0, 1, 1998, 1999, 2000, 2001, 65536])
def test_length_limits_around_the_repetition_threshold_compile(limit: int, llama_cpp: LlamaCpp) -> None:
    schema = {
        "type": "object",
        "properties": {"t": {"type": "string", "maxLength": limit}},
        "required": ["t"],
    }
    compiled = schema_grammar(schema)
    start = time.process_time()
    assert llama_cpp.compiles(compiled.text)
    assert time.process_time() - start < 5
    assert bool(compiled.dropped) == (limit > 1999)
    assert violations({"t": "x" * (limit + 1)}, schema)


def test_a_surrogate_pair_counts_as_one_character() -> None:
    schema = {"type": "string", "minLength": 1, "maxLength": 1}
    assert accepts(schema, '"\\ud83d\\ude00"')
    assert not accepts(schema, '"ab"')


# ---- patterns ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("[0-9]{3}", ["a123b", "123"], ["ab", "12"]),
        ("^[0-9]{3}$", ["123"], ["1234", "a123"]),
        ("^a|b$", ["axx", "xxb"], ["xax", "xbx"]),
        ("(^|,)x", ["x", "a,x"], ["ax"]),
        (r"\d+\.\d+", ["v1.25"], ["1"]),
        (r"^\/api\/[^/]+$", ["/api/v1"], ["/api/", "/api/a/b"]),
        (r"^\"\\$", ['"\\'], ["x"]),
        (r"^a\nb$", ["a\nb"], ["a b"]),
        ("^(?:ab){2,3}$", ["abab", "ababab"], ["ab", "abababab"]),
        ("^(?!tmp)[a-z]+$", ["temp"], ["tmpx"]),
        ("^(?=.*[0-9])(?=.*[a-z]).{4}$", ["a1bc"], ["abcd", "1234", "a1b"]),
        (r"^[\w.-]+@x$", ["a.b-c_d@x"], ["@x"]),
        (r"^\u00e9\x41$", ["éA"], ["eA"]),
        ("^.$", ["x", "🎉"], ["\n", "xy"]),
        ("^a*?b+?$", ["aabb"], ["aa"]),
        ("", ["", "anything"], []),
        ("^(a|b(c|d)*)$", ["a", "bcdc"], ["ac"]),
        (r"^[\]-]?[^\]]?$", ["]x", "-"], ["x]"]),
    ],
)
def test_patterns_bind(pattern: str, good: list[str], bad: list[str]) -> None:
    schema = {"type": "string", "pattern": pattern}
    compiled = schema_grammar(schema)
    assert compiled.dropped == ()
    grammar = Grammar.parse(compiled.text)
    for text in good:
        assert grammar.accepts(json.dumps(text, ensure_ascii=False)), text
        assert violations(text, schema) == []
    for text in bad:
        assert not grammar.accepts(json.dumps(text, ensure_ascii=False)), text
        assert violations(text, schema)


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", r"\bword\b", "(?<=a)b", "(", "[z-a]", "a{2,1}", r"\p{L}", "a**", "(?i)x", "[]a]", "x" * 5000],
)
def test_a_pattern_outside_the_subset_is_dropped_alone(pattern: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "pattern": pattern, "maxLength": 2},
            "n": {"type": "integer"},
        },
        "required": ["code", "n"],
    }
    assert dropped(schema) == [("#/properties/code", "pattern")]
    assert accepts(schema, '{"code": "xy", "n": 1}')
    assert not accepts(schema, '{"code": "xyz", "n": 1}')
    assert not accepts(schema, '{"code": "xy", "n": "1"}')


def test_pattern_format_and_length_bind_together() -> None:
    schema = {"type": "string", "pattern": "a", "minLength": 2, "maxLength": 3}
    assert dropped(schema) == []
    assert accepts(schema, '"xa"')
    assert not accepts(schema, '"a"')
    assert not accepts(schema, '"xxxa"')


def test_a_length_too_large_beside_a_pattern_is_dropped_and_the_pattern_stays() -> None:
    schema = {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5000}
    assert dropped(schema) == [("#", "maxLength")]
    assert not accepts(schema, '"A"')


@pytest.mark.parametrize("pattern", [r"^(a+)+$", r"^(a|a)*$", r"^(\w+\s?)*$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_catastrophic_patterns_are_checked_in_linear_time(pattern: str) -> None:
    start = time.process_time()
    violations("a" * 20_000 + "!", {"type": "string", "pattern": pattern})
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["2024-02-29", "1999-12-31"], ["2023-02-29", "2024-13-01", "2024-04-31", "0000-01-01"]),
        ("time", ["23:59:59Z", "01:02:03.5+02:00"], ["24:00:00Z", "1:2:3"]),
        ("date-time", ["2024-02-29T10:00:00Z"], ["2024-02-29 10:00:00", "2024-02-30T10:00:00Z"]),
        ("duration", ["P1Y2M3DT4H5M6S", "PT1H", "P2W"], ["P", "PT", "P1YT", "1Y"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000"]),
        ("email", ["a.b+c@d-e.org"], ["a@b", "@b.de", "a..b@c.de", ".a@b.de"]),
        ("ipv4", ["0.0.0.0", "255.249.199.9"], ["256.1.1.1", "1.1.1"]),
        ("ipv6", ["::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8"], [":", "1:2", "1::2::3", "12345::"]),
        ("uri", ["https://a.b/c?d=e%20f", "mailto:x@y.z"], ["no scheme", "https://a b"]),
    ],
)
def test_formats_bind(name: str, good: list[str], bad: list[str]) -> None:
    schema = {"type": "string", "format": name}
    for text in good:
        assert accepts(schema, json.dumps(text)), text
        assert violations(text, schema) == []
    for text in bad:
        assert not accepts(schema, json.dumps(text)), text
        assert violations(text, schema)


def test_an_unknown_format_is_dropped_and_named() -> None:
    assert dropped({"type": "string", "format": "color"}) == [("#", "format")]


# ---- numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "good", "bad"),
    [
        ({"minimum": 5, "maximum": 130}, [5, 9, 10, 99, 100, 130], [4, 131, -5, 1000]),
        ({"exclusiveMinimum": 5, "exclusiveMaximum": 7}, [6], [5, 7]),
        ({"minimum": -12, "maximum": 3}, [-12, -9, -1, 0, 3], [-13, 4, -100]),
        ({"minimum": -20, "maximum": -11}, [-20, -11], [-10, -21, 11]),
        ({"minimum": 0}, [0, 7, 10**17], [-1]),
        ({"maximum": -1}, [-1, -(10**17)], [0, 1]),
        ({"minimum": 1.5}, [2], [1]),
        ({"minimum": 5, "exclusiveMinimum": True}, [6], [5]),
        ({"minimum": 10**20, "maximum": 10**20 + 5}, [10**20, 10**20 + 5], [10**20 + 6, 10**19]),
        ({}, [0, -1, 10**17], []),
    ],
)
def test_integer_bounds_are_exact(bounds: dict[str, Any], good: list[int], bad: list[int]) -> None:
    schema = {"type": "integer", **bounds}
    assert all(accepts(schema, str(number)) for number in good)
    assert not any(accepts(schema, str(number)) for number in bad)
    assert not any(accepts(schema, text) for text in ("-0", "01", "1.0", "1e2", "", "-"))


@pytest.mark.parametrize(
    ("bounds", "good", "bad"),
    [
        (
            {"minimum": 0, "maximum": 1},
            ["0", "1", "0.5", "1.0", "0.999", "0.0"],
            ["1.01", "-0.5", "2", "1e0"],
        ),
        ({"exclusiveMinimum": 0, "maximum": 2}, ["0.001", "2", "2.00"], ["0", "0.0", "2.001", "-1"]),
        ({"minimum": -1.5, "maximum": 0.25}, ["-1.5", "-0.3", "0", "0.25", "0.2"], ["-1.51", "0.26", "0.3"]),
        (
            {"minimum": 0.125, "maximum": 0.5},
            ["0.125", "0.2", "0.5", "0.13"],
            ["0.12", "0.1249", "0.51", "0"],
        ),
        ({"minimum": 9.5}, ["9.5", "10", "100.25", "9.51"], ["9.4", "9", "-10"]),
        ({"maximum": -3.25}, ["-3.25", "-4", "-10.5"], ["-3.2", "3", "0"]),
        ({"minimum": 0}, ["0", "3.5", "1e5"], ["-1"]),
        (
            {},
            ["0", "-0.5", "1e5", "1E-5", "3e+300", "12.5e10"],
            ["01", ".5", "1.", "1e", "1e999", "+1", "NaN"],
        ),
    ],
)
def test_number_bounds(bounds: dict[str, Any], good: list[str], bad: list[str]) -> None:
    schema = {"type": "number", **bounds}
    assert [text for text in good if not accepts(schema, text)] == []
    assert [text for text in bad if accepts(schema, text)] == []


# ---- objects and arrays --------------------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
}


@pytest.mark.parametrize("required", [[], ["a"], ["b"], ["c"], ["a", "c"], ["b", "c"], ["a", "b", "c"]])
@pytest.mark.parametrize("additional", [None, False, True])
def test_every_combination_of_required_and_optional(required: list[str], additional: bool | None) -> None:
    schema = {**PERSON, "required": required}
    if additional is not None:
        schema["additionalProperties"] = additional
    grammar = Grammar.parse(schema_grammar(schema).text)
    for bits in range(16):
        keys = [key for index, key in enumerate(["a", "b", "c", "zz"]) if bits & 1 << index]
        expected = set(required) <= set(keys) and ("zz" not in keys or additional is True)
        assert grammar.accepts(json.dumps(dict.fromkeys(keys, 1))) == expected, keys


def test_additional_members_follow_their_schema_and_repeat_no_declared_name() -> None:
    schema = {**PERSON, "additionalProperties": {"type": "boolean"}}
    assert accepts(schema, '{"a": 1, "aa": true, "d": false}')
    assert not accepts(schema, '{"d": 1}')
    assert not accepts(schema, '{"d": true, "a": true}')
    assert not accepts(schema, '{"d": true, "\\u0061": true}')


def test_a_map_with_patterned_names() -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^x-": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
        "minProperties": 1,
    }
    assert accepts(schema, '{"x-a": "s", "n": 1}')
    assert not accepts(schema, '{"x-a": 1}')
    assert not accepts(schema, '{"n": "s"}')
    assert not accepts(schema, "{}")


def test_property_names_limit_the_names_of_a_map() -> None:
    schema = {
        "type": "object",
        "propertyNames": {"enum": ["k1", "k2"]},
        "additionalProperties": {"type": "null"},
    }
    assert accepts(schema, '{"k2": null}')
    assert not accepts(schema, '{"k3": null}')


def test_an_object_without_parameters_is_empty() -> None:
    schema = {"type": "object", "properties": {}}
    assert accepts(schema, "{}")
    assert not accepts(schema, '{"a": 1}')


def test_a_required_name_without_a_schema_takes_any_value() -> None:
    schema = {"type": "object", "properties": {}, "required": ["x"]}
    assert accepts(schema, '{"x": [1, {"y": null}]}')
    assert not accepts(schema, "{}")


def test_array_bounds(llama_cpp: LlamaCpp) -> None:
    schema = {"type": "array", "items": {"type": "number"}, "minItems": 10, "maxItems": 500}
    text = schema_grammar(schema).text
    assert llama_cpp.accepts(text, json.dumps([1.5] * 10))
    assert llama_cpp.accepts(text, json.dumps(list(range(500))))
    assert not llama_cpp.accepts(text, json.dumps([1] * 9))
    assert not llama_cpp.accepts(text, json.dumps([1] * 501))


def test_large_array_bounds_do_not_slow_each_token(llama_cpp: LlamaCpp) -> None:
    schema = {"type": "array", "items": {"type": "number"}, "minItems": 10, "maxItems": 500}
    grammar = Grammar.parse(schema_grammar(schema).text)
    few, many = grammar.stacks("[1" + ",1" * 20), grammar.stacks("[1" + ",1" * 400)
    assert len(many) <= len(few)
    assert max(map(len, many)) <= max(map(len, few))


def test_bounds_beyond_what_llama_cpp_counts_are_dropped(llama_cpp: LlamaCpp) -> None:
    schema = {"type": "array", "items": {"type": "null"}, "minItems": 5000, "maxItems": 10**9}
    assert sorted(dropped(schema)) == [("#", "maxItems"), ("#", "minItems")]
    assert llama_cpp.compiles(schema_grammar(schema).text)


def test_many_large_bounds_share_one_budget(llama_cpp: LlamaCpp) -> None:
    part = {"type": "array", "items": {"type": "string", "maxLength": 1999}, "maxItems": 1999}
    schema = {"type": "object", "properties": {f"p{n}": {**part, "title": str(n)} for n in range(40)}}
    compiled = schema_grammar(schema)
    assert compiled.dropped
    start = time.process_time()
    assert llama_cpp.compiles(compiled.text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"prefixItems": [{"type": "integer"}, {"type": "null"}]},
            [[], [1], [1, None]],
            [[None], [1, None, 2]],
        ),
        ({"prefixItems": [{"type": "null"}], "items": {"type": "integer"}}, [[None, 1, 2]], [[None, None]]),
        ({"items": [{"type": "null"}], "additionalItems": {"type": "integer"}}, [[None, 1]], [[None, None]]),
        ({"prefixItems": [{"type": "null"}], "minItems": 1, "maxItems": 1}, [[None]], [[], [None, 1]]),
        ({"items": False}, [[]], [[1]]),
        ({"maxItems": 0}, [[]], [[1]]),
        ({"minItems": 1}, [[1], ["a", {}]], [[]]),
    ],
)
def test_tuples_and_open_arrays(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    schema = {"type": "array", **schema}
    assert all(accepts(schema, json.dumps(value)) for value in good)
    assert not any(accepts(schema, json.dumps(value)) for value in bad)


def test_whitespace_is_bounded() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {}}}, "required": ["a"]}
    grammar = Grammar.parse(schema_grammar(schema).text)
    assert grammar.accepts(json.dumps({"a": [{"b": [1]}]}, indent=4))
    for place in ("{", '{"a":', '{"a": [', '{"a": [1', '{"a": [1,', '{"a": []'):
        assert not grammar.allows(place + "\n" + " " * 40)
        assert not grammar.allows(place + "  ")
        assert not grammar.allows(place + "\n\n")


def test_a_value_without_a_schema_nests_only_so_deep() -> None:
    grammar = Grammar.parse(schema_grammar({}).text)
    assert grammar.accepts("[" * 5 + "]" * 5)
    assert not grammar.allows("[" * 20)


# ---- combination ---------------------------------------------------------------------------


def test_several_definitions(llama_cpp: LlamaCpp) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/P"}, "b": {"$ref": "#/$defs/Q"}},
        "required": ["a", "b"],
        "$defs": {"P": {"type": "integer"}, "Q": {"enum": ["x", "y"]}},
    }
    text = schema_grammar(schema).text
    assert llama_cpp.accepts(text, '{"a": 1, "b": "y"}')
    assert not llama_cpp.accepts(text, '{"a": 1, "b": "z"}')


NODE = {
    "$ref": "#/$defs/N",
    "$defs": {
        "N": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/N"}},
            },
            "required": ["name"],
        }
    },
}


def test_a_recursive_root(llama_cpp: LlamaCpp) -> None:
    text = schema_grammar(NODE).text
    assert llama_cpp.accepts(text, '{"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}]}')
    assert not llama_cpp.accepts(text, '{"name": "a", "kids": [{"kids": []}]}')


def test_conjunctions_of_recursive_schemas_end() -> None:
    part = {
        "properties": {"next": {"allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}},
        "type": "object",
    }
    schema = {
        "allOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}],
        "$defs": {"A": part, "B": {**part, "required": []}},
    }
    assert accepts(schema, '{"next": {"next": {}}}')


@pytest.mark.parametrize("reference", ["#/$defs/a~1b", "#/$defs/a%20c", "#named", "#/$defs/d/items/0"])
def test_references_are_followed(reference: str) -> None:
    leaf = {"type": "integer"}
    defs = {"a/b": leaf, "a c": leaf, "x": {"$anchor": "named", **leaf}, "d": {"items": [leaf]}}
    assert not accepts({"$ref": reference, "$defs": defs}, '"text"')
    assert accepts({"$ref": reference, "$defs": defs}, "1")


@pytest.mark.parametrize("reference", ["#/$defs/none", "https://example.org/x.json", 5, "#/$defs/d/items/7"])
def test_a_reference_to_nothing_is_dropped_and_named(reference: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": reference}}, "required": ["a"]}
    assert dropped(schema) == [("#/properties/a", "$ref")]
    assert accepts(schema, '{"a": 1}')


def test_all_of_merges_limits() -> None:
    schema = {"allOf": [{"type": "number", "minimum": 2}, {"type": "integer"}, {"maximum": 4}], "minimum": 3}
    assert [n for n in range(8) if accepts(schema, str(n))] == [3, 4]


def test_any_of_beside_common_properties() -> None:
    schema = {
        "type": "object",
        "properties": {"k": {"type": "string"}},
        "required": ["k"],
        "anyOf": [
            {"properties": {"k": {"const": "a"}, "n": {"type": "integer"}}, "required": ["n"]},
            {"properties": {"k": {"const": "b"}}},
        ],
    }
    assert accepts(schema, '{"k": "a", "n": 1}')
    assert accepts(schema, '{"k": "b"}')
    assert not accepts(schema, '{"k": "a"}')
    assert not accepts(schema, '{"k": "c"}')


def test_one_of_is_exact_where_its_forms_exclude_each_other() -> None:
    tagged = [
        {"type": "object", "properties": {"t": {"const": name}}, "required": ["t"]} for name in ("a", "b")
    ]
    assert dropped({"oneOf": tagged}) == []
    assert dropped({"oneOf": [{"type": "integer"}, {"type": "string"}]}) == []
    assert dropped({"oneOf": [{"type": "integer"}, {"type": "number"}]}) == [("#", "oneOf")]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "nullable": True},
        {"type": ["string", "null"]},
        {"enum": ["x"], "nullable": True, "type": "string"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ],
)
def test_nullable(schema: dict[str, Any]) -> None:
    assert accepts(schema, "null")
    assert accepts(schema, '"x"')
    assert not accepts(schema, "1")
    assert violations(None, schema) == []


def test_an_enum_keeps_only_values_that_fit_the_rest() -> None:
    schema = {"type": "string", "enum": ["a", 5, None, "bbb"], "maxLength": 1}
    assert accepts(schema, '"a"')
    assert not accepts(schema, "5")
    assert not accepts(schema, '"bbb"')


def test_enum_values_may_be_objects_and_lists() -> None:
    schema = {"enum": [{"a": [1, "x"]}, [], {}]}
    for text in ('{"a": [1, "x"]}', '{"a":[1,"x"]}', "[]", "{}"):
        assert accepts(schema, text)
    assert not accepts(schema, '{"a": [1]}')


def test_a_large_enum_is_followed_by_few_stacks() -> None:
    words = [f"{first}{number}" for first in ("alpha", "beta", "gamma") for number in range(1000)]
    grammar = Grammar.parse(schema_grammar({"enum": words}).text)
    assert grammar.accepts('"beta777"')
    assert not grammar.accepts('"beta7777"')
    assert len(grammar.stacks('"')) <= 3


def test_keywords_that_no_rule_expresses_are_named_and_checked_afterwards() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "multipleOf": 3},
            "l": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        },
        "not": {"required": ["l"], "properties": {"l": {"maxItems": 0}}},
        "dependentRequired": {"n": ["l"]},
    }
    assert sorted(dropped(schema)) == [
        ("#", "dependentRequired"),
        ("#", "not"),
        ("#/properties/l", "uniqueItems"),
        ("#/properties/n", "multipleOf"),
    ]
    assert (
        violations({"n": 4}, schema)
        == ["l is missing, which n needs", "n must be a multiple of 3, not 4"][::-1]
    )
    assert violations({"l": [1, 1]}, schema) == ["l must not repeat an item"]
    assert violations({"l": []}, schema) == ["the value has a form that is ruled out"]


def test_conditions_are_checked_afterwards() -> None:
    schema = {"if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"multipleOf": 2}}
    assert violations(20, schema) == violations(4, schema) == []
    assert violations(15, schema) == ["the number must be a multiple of 10, not 15"]
    assert violations(3, schema) == ["the number must be a multiple of 2, not 3"]
    dependent = {"dependentSchemas": {"a": {"required": ["b"]}}}
    assert violations({"c": 1}, dependent) == []
    assert violations({"a": 1}, dependent) == ["b is missing"]


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "str"}, "type"),
        ({"type": "string", "minLength": "3"}, "minLength"),
        ({"type": "string", "pattern": 5}, "pattern"),
        ({"type": "integer", "minimum": "3"}, "minimum"),
        ({"type": "object", "properties": ["a"]}, "properties"),
        ({"type": "object", "properties": {}, "required": True}, "required"),
        ({"enum": "abc"}, "enum"),
        ({"type": "array", "items": 3}, "items"),
        ({"type": "array", "maxItems": -1}, "maxItems"),
    ],
)
def test_malformed_keywords_are_dropped_and_named(schema: dict[str, Any], keyword: str) -> None:
    compiled = schema_grammar({"type": "object", "properties": {"p": schema, "q": {"type": "null"}}})
    assert [(item.path, item.keyword) for item in compiled.dropped] == [("#/properties/p", keyword)]
    assert f"'{keyword}'" in compiled.warnings[0]
    violations({"p": "x"}, {"type": "object", "properties": {"p": schema}})


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "strnig"}, "'type' \"strnig\" is not a JSON type"),
        ({"type": ["string", "strnig"]}, "is not a JSON type"),
        ({"$ref": "#/nope"}, "'$ref' \"#/nope\" points to nothing"),
        ({"$ref": "https://example.org/x.json"}, "points out of the schema"),
        ({"$ref": 5}, "'$ref' 5 is not text"),
        (
            {"type": "string", "pattern": "["},
            "'pattern' \"[\" is not a regular expression: it ends too early",
        ),
        ({"type": "string", "pattern": "a)"}, "is not a regular expression"),
        ({"type": "string", "pattern": 5}, "'pattern' 5 is malformed"),
        ({"patternProperties": {"(": {}}}, "'patternProperties' \"(\" is not a regular expression"),
    ],
)
def test_a_strict_schema_takes_no_mistake(schema: Any, told: str) -> None:
    whole = {"type": "object", "properties": {"p": schema}}
    with pytest.raises(SchemaError, match=re.escape(f"#/properties/p: {told}" if told[0] == "'" else told)):
        schema_grammar(whole, strict=True)
    assert schema_grammar(whole).dropped


@pytest.mark.parametrize("schema", [{"properties": {"type": {"$ref": "#"}}}, {"not": {}}])
def test_what_a_grammar_cannot_say_is_no_mistake(schema: Any) -> None:
    assert schema_grammar(schema, strict=True).text


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", r"^\p{L}+$", r"\bword\b", "(?<=a)b", "(?<!a)b", "(?i)abc", "a++", "(?>a)", "(?:(?=a)a)*",
     r"\k<name>", "[]a]", "a{1000000}", "(?#note)a", r"\A"],
)  # fmt: skip
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties", "propertyNames"])
def test_a_pattern_that_cannot_be_checked_is_refused_and_told_never_taken_for_satisfied(
    pattern: str, keyword: str
) -> None:
    parts: dict[str, Any] = {
        "pattern": {"type": "string", "pattern": pattern},
        "patternProperties": {"type": "object", "patternProperties": {pattern: {}}},
        "propertyNames": {"type": "object", "propertyNames": {"pattern": pattern}},
    }
    with pytest.raises(SchemaError, match=r"cannot be checked|is not a regular expression"):
        schema_grammar(parts[keyword], strict=True)
    if keyword != "propertyNames":
        value = "x" if keyword == "pattern" else {"x": 1}
        assert AnswerCheck(parts[keyword]).violations(json.dumps(value))


def test_what_is_too_large_to_be_checked_is_told() -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": "^a+$"}}
    assert AnswerCheck(schema).violations(json.dumps(["a" * 200])) == ()
    long = AnswerCheck(schema).violations(json.dumps(["a" * 200_000]))
    assert "could not be checked against the pattern" in " ".join(long)
    many = AnswerCheck(schema).violations(json.dumps(["a"] * 50_000))
    assert many == ("the value is too large to be checked whole",)
    assert AnswerCheck({"unevaluatedProperties": {"type": "string"}}).violations("{}") == (
        "'unevaluatedProperties' is not understood, so it was not checked",
    )


@pytest.mark.parametrize(
    ("value", "fits"), [({"a": 1, "b": 2}, True), ({"a": 1}, False), ({"c": 1, "d": "x"}, False), ({}, True)]
)
def test_dependencies_of_old_drafts_are_checked(value: Any, fits: bool) -> None:
    schema = {"dependencies": {"a": ["b"], "c": {"properties": {"d": {"type": "integer"}}}}}
    assert (AnswerCheck(schema).violations(json.dumps(value)) == ()) == fits


def _levels(count: int, make: Callable[[int], Any]) -> dict[str, Any]:
    return {"$defs": {f"L{i}": make(i) for i in range(count)}, "$ref": "#/$defs/L0"}


def _below(level: int, last: int, leaf: Any) -> Any:
    return {"$ref": f"#/$defs/L{level + 1}"} if level < last else leaf


_ALL = [{"$ref": f"#/$defs/L{i}"} for i in range(30)]
HOSTILE = {
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 10**9},
    "length": {"type": "string", "maxLength": 10**12},
    "least length": {"type": "string", "minLength": 10**12},
    "digits": {"type": "integer", "minimum": -(10**4000), "maximum": 10**4000},
    "step": {"type": "number", "multipleOf": 1e-308},
    "repetitions": {"type": "string", "pattern": "(a{1000}){1000}"},
    "doubled repetitions": {"type": "string", "pattern": "a{1000}{1000}"},
    "optional letters": {"type": "string", "pattern": "(a?){999}a{999}"},
    "gaps": {"type": "string", "pattern": "(.{0,999}){9}x"},
    "counting": {"type": "string", "pattern": "(a|b)*a(a|b){20}"},
    "groups in groups": {"type": "string", "pattern": "(" * 400 + "a" + ")" * 400},
    "negations": {"type": "string", "pattern": "(?!(?!(?!a)b)c)" * 40},
    "many patterns": {"properties": {f"p{i}": {"pattern": f".*a{i}.{{{i % 30}}}b"} for i in range(999)}},
    "many properties": {"type": "object", "properties": {f"p{i}": {} for i in range(10_000)}},
    "many values": {"enum": [f"v{i}" for i in range(10**6)]},
    "long values": {"enum": ["x" * i for i in range(1_000)]},
    "many forms": {"allOf": [{"anyOf": [{"properties": {f"{i}{j}": {}}} for j in "abc"]} for i in range(12)]},
    "circle": {"$ref": "#"},
    "doubling forms": _levels(40, lambda i: {"anyOf": [_below(i, 39, {"type": "null"})] * 2}),
    "doubling members": _levels(
        40, lambda i: {"type": "object", "properties": {key: _below(i, 39, {}) for key in "ab"}}
    ),
    "all of all": _levels(30, lambda _: {"allOf": _ALL}),
    "any of all": _levels(30, lambda _: {"properties": {"a": {"anyOf": _ALL}}}),
    "names by patterns": {"patternProperties": {f"^a{i}.*b": {} for i in range(200)}, "type": "object"},
    "names and patterns": {
        "type": "object",
        "patternProperties": {f"(a|b)*a(a|b){{{i % 18}}}c{i}": {} for i in range(60)},
        "properties": {f"p{i}": {} for i in range(500)},
    },
    "lists in lists": {"prefixItems": [{"prefixItems": [{"prefixItems": [{}] * 25}] * 25}] * 25},
    "deep": json.loads('{"items":' * 400 + "{}" + "}" * 400),
}  # fmt: skip


def _compiled(schema: Any) -> None:
    strings.automata.cache_clear()
    strings.searchers.cache_clear()
    for strict in (False, True):
        try:
            check_grammar(schema_grammar(schema, strict=strict).text)
        except SchemaError as err:
            assert str(err).startswith("The schema ")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_compiles_or_is_refused_in_bounded_time_and_memory(name: str) -> None:
    with processor_time(5), memory(150 * 2**20):
        _compiled(HOSTILE[name])


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "\ud800", {"a": [float("-inf")]}])
def test_a_value_that_cannot_be_written_is_named_as_the_reason(value: Any) -> None:
    with pytest.raises(SchemaError, match="no value of 'const' can be written: JSON has no infinite numbers"):
        schema_grammar({"const": value})


def test_a_name_that_cannot_be_written_is_told() -> None:
    schema = {"type": "object", "properties": {"\ud800": {}, "b": {"type": "null"}}}
    assert dropped(schema) == [("#", "properties")]
    assert accepts(schema, '{"b": null}')
    with pytest.raises(SchemaError, match=r"the name .* cannot be written"):
        schema_grammar({**schema, "required": ["\ud800"]})


# ---- impossible and hostile ----------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"not": {}, "allOf": [False]},
        {"type": "integer", "minimum": 5, "maximum": 3},
        {"type": "string", "minLength": 5, "maxLength": 3},
        {"type": "array", "minItems": 5, "maxItems": 3},
        {"type": "string", "const": 5},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "string", "pattern": "^a$", "format": "date"},
        {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#"}}},
        {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
        {"allOf": [{"$ref": "#"}]},
    ],
)
def test_a_schema_without_any_value_is_a_clear_error(schema: Any) -> None:
    with pytest.raises(SchemaError, match="cannot be satisfied by any value"):
        schema_grammar(schema)
    assert issubclass(SchemaError, ValueError)


def test_a_part_without_any_value_is_never_written_and_noted() -> None:
    schema = {
        "type": "object",
        "properties": {"bad": {"type": "integer", "minimum": 5, "maximum": 3}, "good": {"type": "null"}},
    }
    compiled = schema_grammar(schema)
    assert any("#/properties/bad" in warning for warning in compiled.warnings)
    grammar = Grammar.parse(compiled.text)
    assert grammar.accepts('{"good": null}')
    assert not grammar.allows('{"bad":')


def test_relaxed_passes_over_contradictions_and_names_them() -> None:
    schema = {
        "type": "object",
        "properties": {"bad": {"type": "integer", "minimum": 5, "maximum": 3}},
        "required": ["bad"],
    }
    compiled = schema_grammar(schema, relaxed=True)
    assert [(item.path, item.keyword) for item in compiled.dropped] == [("#/properties/bad", "minimum")]
    assert Grammar.parse(compiled.text).accepts('{"bad": 4}')


def _nested(depth: int) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def _cycle() -> Any:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"self": schema}
    return schema


def _doubling(levels: int) -> Any:
    defs: dict[str, Any] = {"n0": {"type": "null"}}
    for level in range(levels):
        link = {"$ref": f"#/$defs/n{level}"}
        defs[f"n{level + 1}"] = {"anyOf": [link, {"anyOf": [link, {"type": "integer"}]}]}
    return {"$ref": f"#/$defs/n{levels}", "$defs": defs}


def _twice(keyword: str, levels: int) -> Any:
    defs: dict[str, Any] = {"n0": {"minLength": 1}}
    for level in range(levels):
        defs[f"n{level + 1}"] = {keyword: [{"$ref": f"#/$defs/n{level}"}] * 2}
    return {"$ref": f"#/$defs/n{levels}", "$defs": defs}


def _chain(links: int) -> Any:
    defs = {f"n{n}": {"$ref": f"#/$defs/n{n + 1}"} for n in range(links)}
    return {"$ref": "#/$defs/n0", "$defs": {**defs, f"n{links}": {"type": "string"}}}


@pytest.mark.parametrize(
    "make",
    [
        lambda: _nested(5000),
        lambda: _chain(6000),
        lambda: {"allOf": [{"minLength": n} for n in range(9000)]},
        lambda: {**_twice("allOf", 40), "enum": [f"v{n}" for n in range(4000)]},
        _cycle,
        lambda: {"enum": ["x" * 100] * 110_000},
        lambda: {"type": "object", "description": "x" * 10_000_000},
        lambda: {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100_000)}},
        lambda: {"type": "object", "properties": {f"p{n}": {} for n in range(1500)}},
        lambda: {"type": "array", "prefixItems": [{}] * 3000},
        lambda: {"type": "string", 5: 6},
        lambda: {"enum": [{1, 2}]},
        lambda: [],
        lambda: "string",
        lambda: None,
    ],
)
def test_hostile_schemas_end_in_a_clear_error_with_bounded_work(make: Any) -> None:
    schema = make()
    start = time.process_time()
    with pytest.raises(SchemaError):
        schema_grammar(schema)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: _doubling(200),
        lambda: _twice("allOf", 40),
        lambda: _twice("anyOf", 40),
        lambda: _twice("oneOf", 40),
        lambda: {"oneOf": [{"enum": [f"{n}-{m}" for m in range(100)]} for n in range(100)]},
        lambda: {"allOf": [{"anyOf": [{"minimum": n} for n in range(10)]} for _ in range(10)]},
        lambda: {"enum": list(range(15_000))},
        lambda: {"enum": ["a" * n for n in range(300)]},
        lambda: {"type": "object", "properties": {f"p{n}": {"type": "boolean"} for n in range(1000)}},
        lambda: {
            "type": "object",
            "properties": {
                f"p{n}": {"type": "string", "pattern": f"(a|b)*a(a|b){{{10 + n}}}"} for n in range(50)
            },
        },
        lambda: {"type": "string", "pattern": "(a?){500}a{500}" + "b?" * 200},
        lambda: {"type": "string", "pattern": "(" * 500 + ")" * 500},
        lambda: {"type": "number", "minimum": 1e-300, "maximum": 1e300},
        lambda: {"type": "array", "items": _nested(40)},
    ],
)
def test_costly_schemas_compile_with_bounded_work(make: Any, llama_cpp: LlamaCpp) -> None:
    schema = make()
    start = time.process_time()
    text = schema_grammar(schema).text
    assert llama_cpp.compiles(text)
    assert time.process_time() - start < 5


def test_the_check_is_bounded_for_hostile_values_and_schemas() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    loops = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}
    start = time.process_time()
    assert violations(deep, {"type": "array", "items": {"$ref": "#"}})
    violations(1, loops)
    violations(deep, {"enum": [deep]})
    violations(10**400, {"type": "number", "multipleOf": 1e-300})
    assert time.process_time() - start < 5


def test_the_schema_is_not_changed() -> None:
    before = json.dumps(NODE)
    schema_grammar(NODE)
    violations({"name": 1}, NODE)
    assert json.dumps(NODE) == before


def test_violations_read_like_sentences() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}},
        "required": ["city"],
        "additionalProperties": False,
    }
    assert violations({"days": [1, "x"], "extra": 1}, schema) == [
        "city is missing",
        "days[1] must be integer, not string",
        "extra is not a known parameter",
    ]
