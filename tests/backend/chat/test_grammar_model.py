from __future__ import annotations

import json
import random
from typing import Any

import pytest

from backend import load
from backend.grammar.validate import violations
from tests.backend.chat import published

FAMILIES = ("Qwen-Qwen2.5-7B-Instruct", "Qwen3-Coder")
"""Templates for SmolLM2's own ChatML turns, with calls as JSON and as tags."""


def random_schema(source: random.Random, depth: int = 2) -> dict[str, Any]:
    """A schema of supported keywords whose values are short."""
    kinds = ["string", "enum", "integer", "number", "boolean", "pattern", "date", "nullable", "const"]
    if depth:
        kinds += ["array", "object", "union", "tuple"] * 2
    match source.choice(kinds):
        case "string":
            low = source.randint(0, 3)
            return {"type": "string", "minLength": low, "maxLength": low + source.randint(0, 9)}
        case "enum":
            return {"enum": source.sample(["red", "dark blue", 'q"uote', "line\nbreak", 7, None, True], 3)}
        case "integer":
            low = source.randint(-50, 50)
            return {"type": "integer", "minimum": low, "maximum": low + source.randint(0, 900)}
        case "number":
            return {"type": "number", "minimum": 0, "exclusiveMaximum": source.choice([1, 2.5, 100])}
        case "pattern":
            return {
                "type": "string",
                "pattern": source.choice(["^[A-Z]{2}-[0-9]{3}$", "^(yes|no)$", "^#[0-9a-f]{6}$"]),
            }
        case "date":
            return {"type": "string", "format": source.choice(["date", "uuid", "ipv4"])}
        case "nullable":
            return {"type": ["integer", "null"], "minimum": 1, "maximum": 9}
        case "const":
            return {"const": source.choice(["fixed", 3, [1, "x"], {"k": None}])}
        case "array":
            return {"type": "array", "items": random_schema(source, depth - 1), "minItems": 1, "maxItems": 3}
        case "tuple":
            firsts = [random_schema(source, 0), random_schema(source, 0)]
            return {"type": "array", "prefixItems": firsts, "items": False, "minItems": 2}
        case "object":
            return random_object(source, depth - 1)
        case "union":
            return {"anyOf": [random_schema(source, depth - 1), {"type": "null"}]}
        case _:
            return {"type": "boolean"}


def random_object(source: random.Random, depth: int) -> dict[str, Any]:
    names = source.sample(["city", "count", "when", "kind", "note", "spot"], source.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: random_schema(source, depth) for name in names},
        "required": [name for name in names if source.random() < 0.6],
        "additionalProperties": False,
    }


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, starter_model: Any) -> Any:
    loaded = load(starter_model, chat_template=published.source(request.param), max_seq=2048)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module", params=FAMILIES)
def tiny(request: pytest.FixtureRequest, tiny_llama: Any) -> Any:
    """Draws at random, which leads into more corners of a grammar than what a model likes to write."""
    loaded = load(tiny_llama, chat_template=published.source(request.param), max_seq=2048)
    yield loaded
    loaded.close()


def call_of(model: Any, schema: dict[str, Any], seed: int) -> Any:
    tool = {
        "type": "function",
        "function": {"name": "record", "description": "Record an entry.", "parameters": schema},
    }
    with model.chat_session(tools=[tool]) as chat:
        chat.send(
            "Record something.",
            tool_choice="required",
            parallel_tool_calls=False,
            max_new_tokens=700,
            seed=seed,
            temperature=0.8,
        )
        return chat.tool_calls if chat.report.finish == "tool_calls" else []


def check(model: Any, seed: int) -> None:
    assert ends_and_fits(model, seed)


def ends_and_fits(model: Any, seed: int) -> bool:
    """Whether a call to a random schema ended in time; it fits its schema then."""
    schema = random_object(random.Random(seed), 2)
    calls = call_of(model, schema, seed)
    for call in calls:
        assert call.error is None, (schema, call.raw_arguments)
        assert call.name == "record"
        assert violations(call.arguments, schema) == []
    return bool(calls)


@pytest.mark.model
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"enum": ["yes", "no"]},
        {"type": "array", "items": {"type": "null"}, "maxItems": 3},
    ],
)
def test_an_answer_ends_with_its_value(model: Any, schema: dict[str, Any]) -> None:
    for seed in range(3):
        text = model.chat(
            [{"role": "user", "content": "hi"}], json_schema=schema, seed=seed, max_new_tokens=200
        )
        assert model.report.finish == "stop"
        assert text == text.strip()
        assert violations(json.loads(text), schema) == []


@pytest.mark.timeout(60)
def test_a_required_call_of_a_random_model_satisfies_any_schema(tiny: Any) -> None:
    ended = [ends_and_fits(tiny, seed) for seed in range(12)]
    assert sum(ended) >= 8, "at random a number or a text may well be longer than a reply"


@pytest.mark.model
@pytest.mark.timeout(120)
def test_a_required_call_satisfies_any_schema(model: Any) -> None:
    check(model, 0)


@pytest.mark.soak
@pytest.mark.model
@pytest.mark.timeout(1800)
def test_a_required_call_satisfies_any_schema_in_the_long_run(model: Any) -> None:
    for seed in (1, 2, *range(100, 200)):
        check(model, seed)
