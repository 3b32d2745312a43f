"""A required call always fits its schema, whatever it is, on models that were never taught to call anything.

The tiny one draws at random, which tries a grammar harder; the starter one writes what models like.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend import GenerativeModel, load
from tests.backend.model_api.test_formats import NEVER

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is the oracle of these tests")

SAMPLE, OF_STARTER, ALL = range(40), range(4), range(4, 200)


@pytest.fixture(scope="module")
def starter(starter_model: Path) -> Iterator[GenerativeModel]:
    with load(starter_model, chat_template=NEVER, slots=1, threads=1, max_seq=4096) as model:
        yield model


@pytest.fixture(scope="module")
def tiny(tiny_llama: Path) -> Iterator[GenerativeModel]:
    with load(tiny_llama, chat_template=NEVER, slots=1, threads=1, max_seq=4096) as model:
        yield model


def random_schema(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    kinds = ["string", "pattern", "format", "integer", "number", "boolean", "enum", "const", "null"]
    if depth < 3:
        kinds += ["object", "array", "anyOf", "ref"] * 2
    match rng.choice(kinds):
        case "string":
            low = rng.randint(0, 4)
            return {"type": "string", "minLength": low, "maxLength": low + rng.randint(0, 12)}
        case "pattern":
            patterns = [r"^[A-Z]{2}-[0-9]{3}$", r"^(foo|bar)?[a-z]{1,4}$", r"^\d{4}$", r'^"[^"]{0,5}"$']
            return {"type": "string", "pattern": rng.choice(patterns)}
        case "format":
            return {"type": "string", "format": rng.choice(["date", "uuid", "ipv4", "date-time"])}
        case "integer":
            low = rng.randint(-50, 50)
            return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 500)}
        case "number":
            return {"type": "number"}
        case "enum":
            return {"enum": rng.sample(["a", 'q"uote', "new\nline", "é漢", 1, 2.5, None, True, "<b>"], 3)}
        case "const":
            return {"const": rng.choice(["x", 'a "b"', 7, None, [1, "two"], {"k": "v"}])}
        case "object":
            return random_object(rng, depth + 1)
        case "array":
            low = rng.randint(0, 2)
            items = random_schema(rng, depth + 1)
            return {"type": "array", "items": items, "minItems": low, "maxItems": low + rng.randint(0, 2)}
        case "anyOf":
            return {"anyOf": [random_schema(rng, depth + 1) for _ in range(2)]}
        case "ref":
            return {"$ref": "#/$defs/point"}
        case kind:
            return {"type": kind}


def random_object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(["city", "days", "an id", 'q"uote', "ünit", "list", "flag"], rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: random_schema(rng, depth) for name in names},
        "required": [name for name in names if rng.random() < 0.6],
        "additionalProperties": False,
    }


def parameters_of(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    point = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    return {**random_object(rng, 0), "$defs": {"point": {**point, "additionalProperties": False}}}


def check(model: GenerativeModel, seed: int) -> None:
    parameters = parameters_of(seed)
    tool = {"type": "function", "function": {"name": "act", "description": "", "parameters": parameters}}
    model.chat(
        [{"role": "user", "content": "Please act."}],
        tools=[tool], tool_choice="required", parallel_tool_calls=False, seed=seed, max_new_tokens=1500,
    )  # fmt: skip
    report = model.report
    assert report is not None
    (call,) = report.tool_calls
    assert call.error is None, f"{call.error}: {json.dumps(parameters)}"
    jsonschema.validate(call.arguments, parameters)


@pytest.mark.parametrize("seed", SAMPLE)
def test_a_required_call_of_a_random_model_fits_a_random_schema(tiny: GenerativeModel, seed: int) -> None:
    check(tiny, seed)


@pytest.mark.model
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", OF_STARTER)
def test_a_required_call_fits_a_random_schema(starter: GenerativeModel, seed: int) -> None:
    check(starter, seed)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", ALL)
def test_every_required_call_fits_its_schema(starter: GenerativeModel, seed: int) -> None:
    check(starter, seed)
