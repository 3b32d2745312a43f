"""Whatever a model writes, the parser neither raises nor depends on how the text was cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.chat import ChatTemplate
from backend.chat.format import ID, INDEX, KEY, NAME, TYPE, atoms
from backend.chat.writer import write_calls
from backend.types import ReasoningPiece, TextPiece, ToolCallPiece
from tests.backend.chat import published, roundtrip, toys

SCRAPS = [
    '{"name": "alpha_tool", "arguments": {"text": "x"}}',
    '{"name": "beta-tool", ',
    '"arguments": {"count": 1}}',
    "alpha_tool",
    "text",
    "{",
    "}",
    '"',
    "[",
    "]",
    ",",
    ":",
    "\n",
    " ",
    "hi",
    "<",
    "</",
    "1",
    "null",
    "'",
    "(",
    ")",
    "=",
    "\\",
    "é",
]
PLACES = {NAME: "alpha_tool", KEY: "text", INDEX: "0", ID: "x1", TYPE: "string"}
TOYS = {
    "hermes": toys.HERMES,
    "qwen": toys.QWEN_XML,
    "llama": toys.LLAMA3,
    "python": toys.PYTHONIC,
    "think": toys.THINK,
}
NAMES = [*TOYS, *published.names()[::4]]


def template_of(name: str) -> ChatTemplate:
    return ChatTemplate(TOYS[name]) if name in TOYS else published.template(name)


def scraps_of(template: ChatTemplate) -> list[str]:
    """Pieces of the format's own markers, whole calls, and junk."""
    texts = [*template.marker_texts, *(atom for mark in template.marker_texts for atom in atoms(mark))]
    for place, word in PLACES.items():
        texts = [text.replace(place, word) for text in texts]
    if template.format.calls:
        texts.append(write_calls(template.format, [("alpha_tool", {"text": "x", "count": 2})]))
    return texts + SCRAPS


def outcome(template: ChatTemplate, prompt: str, parts: list[str], reasoning_format: str) -> Any:
    parser = template.parser(prompt=prompt, tools=roundtrip.TOOLS, reasoning_format=reasoning_format)
    pieces: list[Any] = [piece for part in parts for piece in parser.feed(part)]
    message = parser.finish()
    pieces += message.pieces
    assert "".join(p.text for p in pieces if isinstance(p, TextPiece)) == message.content
    assert "".join(p.text for p in pieces if isinstance(p, ReasoningPiece)) == message.reasoning
    for index, call in enumerate(message.tool_calls):
        told = [p.arguments_delta for p in pieces if isinstance(p, ToolCallPiece) and p.index == index]
        assert call.raw_arguments.startswith("".join(told))
    return message.content, message.reasoning, message.tool_calls, message.incomplete


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_scraps_of_markers_are_read_the_same_whatever_the_increments(name: str, data: st.DataObject) -> None:
    template = template_of(name)
    prompt = template.render(toys.USER, tools=roundtrip.TOOLS)
    text = "".join(data.draw(st.lists(st.sampled_from(scraps_of(template)), max_size=12)))
    cut = data.draw(st.integers(0, len(text)))
    kind = data.draw(st.sampled_from(["auto", "none"]))
    whole = outcome(template, prompt, [text], kind)
    assert outcome(template, prompt, list(text), kind) == whole
    assert outcome(template, prompt, [text[:cut], text[cut:]], kind) == whole
