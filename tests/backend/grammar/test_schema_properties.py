from __future__ import annotations

import json
import math
import random
import re
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from backend import native
from backend.grammar.schema import schema_grammar
from backend.grammar.validate import violations
from tests.backend.grammar.gbnf import Grammar, LlamaCpp

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is the oracle of these tests")

# No shrinking of time: these strategies are slow to draw on a busy machine, not slow to run.
relaxed = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

texts = st.text(st.characters(codec="utf-8"), max_size=12)
names = st.one_of(st.sampled_from(["a", "b", "ab", 'q"uote', "new\nline", "é", "a/b~c", "with space"]), texts)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(1e-4, 1e15) | st.floats(-1e15, -1e-4),
    texts,
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
PATTERNS = [
    r"[0-9]{3}",
    r"^[a-z]+$",
    r"^(foo|bar)?-?[A-Z]{2,4}$",
    r"^\d{3}-\d{4}$",
    r"a.c",
    r"^[^\"\\]*$",
    r"\\|\"",
    r"^(?!no)\w+",
    r"^x{0,3}y+z?$|^$",
    r"[\u00e0-\u00ff]",
    r"^\s*\S+\s*$",
]
FORMATS = {
    "date": st.dates().map(str),
    "uuid": st.uuids().map(str),
    "ipv4": st.ip_addresses(v=4).map(str),
    "ipv6": st.ip_addresses(v=6).map(str),
    "time": st.times().map(lambda t: t.isoformat() + "Z"),
    "date-time": st.datetimes().map(lambda t: t.isoformat() + "+01:00"),
    "email": st.sampled_from(["a@b.de", "first.last+tag@sub.example.org"]),
}


@st.composite
def strings(draw: Any) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    match draw(st.integers(0, 3)):
        case 0:
            low = draw(st.integers(0, 5))
            high = draw(st.none() | st.integers(low, 12))
            schema: dict[str, Any] = {"type": "string", "minLength": low}
            if high is not None:
                schema["maxLength"] = high
            return schema, st.text(st.characters(codec="utf-8"), min_size=low, max_size=high or 12)
        case 1:
            pattern = draw(st.sampled_from(PATTERNS))
            flavour = pattern.replace("\\d", "[0-9]").replace("\\w", "[A-Za-z0-9_]")
            values = st.from_regex(flavour, alphabet=st.characters(codec="utf-8"))
            # Python's `$` also matches before a final line break, ECMAScript's does not.
            return {"type": "string", "pattern": pattern}, values.filter(lambda text: not text.endswith("\n"))
        case 2:
            name = draw(st.sampled_from(sorted(FORMATS)))
            return {"type": "string", "format": name}, FORMATS[name]
        case _:
            return {"type": "string"}, texts


@st.composite
def numbers(draw: Any) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    low, high = sorted(draw(st.tuples(*[st.integers(-(10**6), 10**6) | st.integers(-20, 20)] * 2)))
    if draw(st.booleans()):
        low, high = low / 8, high / 8
    schema: dict[str, Any] = {"type": draw(st.sampled_from(["integer", "number"]))}
    if schema["type"] == "integer":
        low, high = math.ceil(low), math.floor(high)
        assume(low <= high)
    sides = draw(st.sampled_from(["", "min", "max", "both"]))
    open_ends = schema["type"] == "number" and high - low > 1 and draw(st.booleans())
    if sides in ("min", "both"):
        schema["exclusiveMinimum" if open_ends else "minimum"] = low
    if sides in ("max", "both"):
        schema["exclusiveMaximum" if open_ends else "maximum"] = high
    least = low if sides in ("min", "both") else low - 10**6
    most = high if sides in ("max", "both") else high + 10**6
    if schema["type"] == "integer":
        return schema, st.integers(int(least), int(most))
    values = st.floats(least, most, exclude_min=open_ends, exclude_max=open_ends)
    return schema, values.map(lambda x: round(x, 6)).filter(
        lambda x: (least < x < most if open_ends else least <= x <= most) and (x == 0 or abs(x) >= 1e-4)
    ).map(lambda x: x + 0.0)


@st.composite
def arrays(draw: Any, inner: Any) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    item, values = draw(inner)
    low = draw(st.integers(0, 3))
    high = draw(st.none() | st.integers(low, 5))
    if draw(st.booleans()):
        firsts = [draw(inner) for _ in range(draw(st.integers(1, 3)))]
        schema: dict[str, Any] = {"type": "array", "prefixItems": [first for first, _ in firsts]}
        fixed = st.tuples(*[value for _, value in firsts]).map(list)
        if draw(st.booleans()):
            return {**schema, "items": item}, st.tuples(fixed, st.lists(values, max_size=2)).map(
                lambda pair: pair[0] + pair[1]
            )
        return {**schema, "items": False}, fixed
    schema = {"type": "array", "items": item, "minItems": low}
    if high is not None:
        schema["maxItems"] = high
    return schema, st.lists(values, min_size=low, max_size=5 if high is None else high)


@st.composite
def objects(draw: Any, inner: Any) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    keys = draw(st.lists(names, unique=True, max_size=4))
    members = {key: draw(inner) for key in keys}
    required = [key for key in keys if draw(st.booleans())]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {key: part for key, (part, _) in members.items()},
        "required": required,
    }
    more: st.SearchStrategy[dict[str, Any]] = st.just({})
    match draw(st.integers(0, 2)):
        case 0:
            schema["additionalProperties"] = False
        case 1:
            part, values = draw(inner)
            schema["additionalProperties"] = part
            others = st.text(string.ascii_letters, min_size=1, max_size=4)
            more = st.dictionaries(others.filter(lambda key: key not in keys), values, max_size=2)
        case _:
            pass

    @st.composite
    def value(draw: Any) -> dict[str, Any]:
        chosen = {
            key: draw(values)
            for key, (_, values) in members.items()
            if key in required or draw(st.booleans())
        }
        return {**chosen, **draw(more)}

    return schema, value()


@st.composite
def unions(draw: Any, inner: Any) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    branches = draw(st.lists(inner, min_size=1, max_size=3))
    keyword = "anyOf"
    types = [branch.get("type") for branch, _ in branches]
    if all(isinstance(name, str) for name in types) and len(set(types)) == len(types):
        keyword = "anyOf" if {"integer", "number"} <= set(types) else "oneOf"
    return {keyword: [branch for branch, _ in branches]}, st.one_of([values for _, values in branches])


@st.composite
def chosen(draw: Any) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    values = draw(st.lists(json_values, min_size=1, max_size=4))
    if draw(st.booleans()):
        return {"const": values[0]}, st.just(values[0])
    return {"enum": values}, st.sampled_from(values)


simple = st.one_of(
    strings(),
    numbers(),
    chosen(),
    st.just(({"type": "boolean"}, st.booleans())),
    st.just(({"type": "null"}, st.none())),
    st.just(({"type": ["string", "null"]}, texts | st.none())),
)
nested = st.recursive(
    simple, lambda inner: st.one_of(arrays(inner), objects(inner), unions(inner)), max_leaves=6
)


@st.composite
def documents(draw: Any) -> tuple[dict[str, Any], Any]:
    """A schema and a value that satisfies it, with parts moved behind references and into `allOf`."""
    schema, values = draw(nested)
    value = draw(values)
    match draw(st.integers(0, 3)):
        case 0:
            return {"$ref": "#/$defs/it", "$defs": {"it": schema}}, value
        case 1:
            return {"allOf": [schema, True, {"description": "no limit"}]}, value
        case 2 if schema.get("type") == "object":
            half = {
                key: schema[key] for key in ("type", "properties", "additionalProperties") if key in schema
            }
            return {"allOf": [half, {"required": schema["required"]}]}, value
        case _:
            return schema, value


def valid(value: Any, schema: Any) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@relaxed
@given(documents(), st.randoms(use_true_random=False))
def test_every_text_of_the_grammar_is_valid(document: tuple[Any, Any], source: random.Random) -> None:
    schema, _ = document
    compiled = schema_grammar(schema)
    grammar = Grammar.parse(compiled.text)
    best = grammar.shortest()
    for _ in range(5):
        text = grammar.sample(source, best)
        assert grammar.accepts(text)
        value = json.loads(text)
        if not compiled.dropped:
            assert valid(value, schema) or holds_odd_blanks(value), text
            assert violations(value, schema) == []


def holds_odd_blanks(value: Any) -> bool:
    """Whether a text holds a blank that only one of Python and ECMAScript takes for one."""
    return re.search(r"\\u(001[c-f]|0085|feff)", json.dumps(value)) is not None


@relaxed
@given(documents())
def test_a_valid_value_is_accepted_however_it_is_spaced(document: tuple[Any, Any]) -> None:
    schema, value = document
    assume(valid(value, schema))
    assume(not holds_odd_blanks(value))
    compiled = schema_grammar(schema)
    assume(not compiled.dropped)
    grammar = Grammar.parse(compiled.text)
    for style in ({}, {"separators": (",", ":")}, {"indent": 2}):
        assert grammar.accepts(json.dumps(value, ensure_ascii=False, **style)), compiled.text


@relaxed
@given(documents(), json_values)
def test_the_check_agrees_with_the_oracle(document: tuple[Any, Any], other: Any) -> None:
    schema, value = document
    assume('"format"' not in json.dumps(schema))  # The oracle takes formats for annotations.
    assume(not holds_odd_blanks([value, other]))
    for candidate in (value, other, [value], {"a": value}):
        assert (violations(candidate, schema) == []) == valid(candidate, schema), candidate


@relaxed
@given(documents(), st.randoms(use_true_random=False))
def test_llama_cpp_reads_the_grammar_the_same_way(
    llama_cpp: LlamaCpp, document: tuple[Any, Any], source: random.Random
) -> None:
    schema, value = document
    compiled = schema_grammar(schema)
    grammar = Grammar.parse(compiled.text)
    written = grammar.sample(source, grammar.shortest())
    for text in (json.dumps(value, ensure_ascii=False), written, written[:-1], written + " "):
        if "\0" not in text:
            assert llama_cpp.accepts(compiled.text, text) == grammar.accepts(text), text


@pytest.fixture(scope="module")
def llama_cpp(tiny_llama: Any) -> Any:
    model = native.Model.load(tiny_llama, vocab_only=True)
    assert model
    yield LlamaCpp(model)
    model.close()
