"""What a chat format costs: replies bound to a schema against free ones, and parsing against decoding.

Run on a quiet machine, from the repository, in an environment with the starter model:
    python -m tests.benchmarks.formats [--pairs N] [--quick]
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from backend import GenerativeModel, load
from backend.bench.cases import row_of
from backend.bench.pairs import LEAST_PAIRS, MIN_S, Target, compare
from backend.bench.report import line
from backend.chat import ChatTemplate

STRING, NUMBER = {"type": "string", "maxLength": 40}, {"type": "integer", "minimum": 0, "maximum": 9999}
SCHEMAS: dict[str, dict[str, Any]] = {
    "flat": {
        "type": "object",
        "properties": {"name": STRING, "age": NUMBER, "email": STRING, "active": {"type": "boolean"}},
        "required": ["name", "age", "email", "active"],
    },
    "list": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"title": STRING, "year": NUMBER},
            "required": ["title", "year"],
        },
        "minItems": 4,
        "maxItems": 6,
    },
    "choices": {
        "type": "object",
        "properties": {
            "colour": {"enum": ["red", "green", "blue"]},
            "size": {"enum": ["small", "medium", "large"]},
            "labels": {"type": "array", "items": {"enum": ["new", "sale", "last"]}, "maxItems": 3},
            "note": STRING,
        },
        "required": ["colour", "size", "labels", "note"],
    },
    "nested": {
        "type": "object",
        "properties": {
            "user": {
                "type": "object",
                "properties": {"name": STRING, "address": {"$ref": "#/$defs/address"}},
                "required": ["name", "address"],
            },
            "total": {"type": "number"},
        },
        "required": ["user", "total"],
        "$defs": {
            "address": {
                "type": "object",
                "properties": {"street": STRING, "city": STRING, "zip": {"pattern": "^[0-9]{5}$"}},
                "required": ["street", "city", "zip"],
            }
        },
    },
    "text": {
        "type": "object",
        "properties": {"summary": {"type": "string", "minLength": 150, "maxLength": 400}},
        "required": ["summary"],
    },
}
TEMPLATE = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>assistant\\n' }}"  # noqa: E501
DECODE_S_PER_TOKEN = 1 / 110
"""The pace that parsing is held against."""


def decode_speed(model: GenerativeModel, prompt: str, **config: Any) -> Callable[[], float]:
    """Tokens per second of whole replies, over at least half a second of decoding."""
    seeds = itertools.count(1)

    def measure() -> float:
        tokens, seconds = 0, 0.0
        while seconds < MIN_S:
            model.generate(prompt, seed=next(seeds), max_new_tokens=120, **config)
            report = model.report
            assert report is not None
            tokens, seconds = tokens + report.new_tokens - 1, seconds + report.decode_s
        return tokens / seconds

    return measure


def parse_share(template: ChatTemplate, characters: int) -> float:
    """Seconds of parsing per token (4 characters), as a share of decoding one."""
    text = ("Some prose with a < sign and more. " * (characters // 35 + 1))[:characters]
    prompt = template.render([{"role": "user", "content": "hi"}])
    parser = template.parser(prompt=prompt)
    began = time.perf_counter()
    for start in range(0, len(text), 4):
        parser.feed(text[start : start + 4])
    parser.finish()
    return (time.perf_counter() - began) / (characters / 4) / DECODE_S_PER_TOKEN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS)
    parser.add_argument("--quick", action="store_true", help="three pairs, which support no claim")
    options = parser.parse_args()
    pairs = 3 if options.quick else options.pairs
    with load(slots=1, max_seq=2048) as model:
        for name, schema in SCHEMAS.items():
            shown = f"Fill in this JSON schema: {json.dumps(schema)}"
            for label, prompt, least in (("", "Make something up.", 0.85), (", shown", shown, 0.9)):
                bound = decode_speed(model, prompt, json_schema=schema)
                free = decode_speed(model, prompt, ignore_eos=True)
                row = row_of("schema", f"{name}{label}", "tok/s", compare(bound, free, pairs=pairs),
                             Target("at least", least))  # fmt: skip
                print(line(row), flush=True)
    template = ChatTemplate(TEMPLATE)
    short, long = parse_share(template, 1_000), parse_share(template, 100_000)
    print(
        f"parsing: {short:.2%} of decoding at 110 tok/s in a reply of 1,000 characters, {long:.2%} in 100,000"
    )


if __name__ == "__main__":
    main()
