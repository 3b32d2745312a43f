"""The recorded cases, as they compare: blanks around text are free, the order of arguments is not."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from backend.chat import ParsedReply, ReplyParser
from backend.types import ReasoningPiece, TextPiece, ToolCallPiece
from tests.backend.chat import published

EXCEPTIONS: dict[str, str] = json.loads((Path(__file__).parent / "case_exceptions.json").read_text())
CASES = [case for case in published.recorded_cases() if case["id"] not in EXCEPTIONS]


def prompt_of(case: dict[str, Any]) -> str:
    template = published.template(case["template"].removesuffix(".jinja"))
    continued = case["continue_final_message"]
    return template.render(
        case["messages"],
        tools=case["tools"] or None,
        add_generation_prompt=case["kind"] != "continuation",
        continue_final_message=False if continued == "none" else continued,
        enable_thinking=None if template.reasoning_mode == "always" else case["enable_thinking"],
    )


def parser_of(case: dict[str, Any], prompt: str) -> ReplyParser:
    names = ("tools", "tool_choice", "parallel_tool_calls", "reasoning_format", "json_schema")
    template = published.template(case["template"].removesuffix(".jinja"))
    return template.parser(prompt=prompt, **{name: case[name] for name in names})


def increments(text: str, seed: int | None) -> list[str]:
    """The text whole (None), character by character (0), or cut at random."""
    if seed is None:
        return [text]
    generator, parts, start = random.Random(seed), [], 0
    while start < len(text):
        width = 1 if seed == 0 else generator.randint(1, 9)
        parts.append(text[start : start + width])
        start += width
    return parts


def comparable(arguments: str) -> str | None:
    """Arguments as ordered JSON; None when they are not JSON, which equals any that are not."""
    try:
        return json.dumps(json.loads(arguments))
    except ValueError:
        return None


def check(case: dict[str, Any], message: ParsedReply) -> None:
    expected = case["expected_delta"] if case["kind"] == "continuation" else case["expected"]
    assert message.content.strip() == expected["content"].strip()
    assert message.reasoning.strip() == expected["reasoning_content"].strip()
    got = [(call.name, call.id) for call in message.tool_calls]
    assert got == [(call["name"], call.get("id", "")) for call in expected["tool_calls"]]
    for call, wanted in zip(message.tool_calls, expected["tool_calls"], strict=True):
        assert comparable(call.to_message()["function"]["arguments"]) == comparable(wanted["arguments"])


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_recorded_reply_is_read_as_recorded_whatever_its_increments(case: dict[str, Any]) -> None:
    prompt = prompt_of(case)
    messages = []
    for seed in (None, 0, 1, 2):
        parser = parser_of(case, prompt)
        pieces = [piece for part in increments(case["input"], seed) for piece in parser.feed(part)]
        message = parser.finish()
        pieces += message.pieces
        check(case, message)
        assert "".join(p.text for p in pieces if isinstance(p, TextPiece)) == message.content
        assert "".join(p.text for p in pieces if isinstance(p, ReasoningPiece)) == message.reasoning
        for index, call in enumerate(message.tool_calls):
            told = [p.arguments_delta for p in pieces if isinstance(p, ToolCallPiece) and p.index == index]
            assert call.raw_arguments.startswith("".join(told))
        messages.append((message.content, message.reasoning, message.tool_calls, message.incomplete))
    assert all(message == messages[0] for message in messages)


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
@pytest.mark.parametrize("case", CASES[::5], ids=[case["id"] for case in CASES[::5]])
def test_every_prefix_of_a_reply_is_a_prefix_of_what_is_told_in_the_end(case: dict[str, Any]) -> None:
    prompt = prompt_of(case)
    whole = parser_of(case, prompt)
    whole_text = "".join(p.text for p in whole.feed(case["input"]) if isinstance(p, TextPiece))
    whole_text += "".join(p.text for p in whole.finish().pieces if isinstance(p, TextPiece))
    for size in range(0, len(case["input"]), 7):
        parser = parser_of(case, prompt)
        told = "".join(p.text for p in parser.feed(case["input"][:size]) if isinstance(p, TextPiece))
        assert whole_text.startswith(told)
        parser.finish()


def test_the_exceptions_are_few_and_say_why() -> None:
    assert len(EXCEPTIONS) < 5
    assert all(len(reason) > 40 for reason in EXCEPTIONS.values())
