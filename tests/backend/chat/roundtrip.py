"""Renders an assistant turn, cuts it out of the prompt, and parses it back."""

from __future__ import annotations

import json
from typing import Any

from backend.chat import ChatTemplate, ParsedReply
from backend.types import ReasoningPiece, TextPiece, ToolCallPiece

PROPERTIES: dict[str, Any] = {
    "text": {"type": "string"},
    "more": {"type": "string"},
    "count": {"type": "integer"},
    "share": {"type": "number"},
    "flag": {"type": "boolean"},
    "none": {"type": "null"},
    "list": {"type": "array"},
    "tree": {"type": "object"},
}


def tool(name: str) -> dict[str, Any]:
    properties = {key: {**schema, "description": "x"} for key, schema in PROPERTIES.items()}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


TOOLS = [tool("alpha_tool"), tool("beta-tool")]


def assistant_turn(content: str, thought: str, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": "assistant", "content": content}
    if thought:
        turn["reasoning_content"] = thought
    if calls:
        turn["tool_calls"] = [
            {"id": f"call{index:05d}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(arguments)}}
            for index, (name, arguments) in enumerate(calls)
        ]  # fmt: skip
    return turn


def written(template: ChatTemplate, turn: dict[str, Any]) -> tuple[str, str]:
    """The prompt and the reply that the template prints for `turn`."""
    turns = [{"role": "user", "content": "Quserask"}]
    thinking = True if template.switches.on else None
    prompt = template.render(turns, tools=TOOLS, enable_thinking=thinking)
    whole = template.render(
        [*turns, turn], tools=TOOLS, enable_thinking=thinking, add_generation_prompt=False
    )
    if whole.startswith(prompt):
        return prompt, whole[len(prompt) :]
    start = whole.index(template.format.header, whole.rindex("Quserask")) + len(template.format.header)
    return whole[:start], whole[start:]


def parsed(template: ChatTemplate, prompt: str, reply: str, width: int = 0) -> ParsedReply:
    """The reply parsed whole, or in increments of `width` characters; pieces must add up."""
    parser = template.parser(prompt=prompt, tools=TOOLS)
    pieces: list[Any] = []
    for start in range(0, len(reply), width or len(reply) or 1):
        pieces += parser.feed(reply[start : start + (width or len(reply))])
    message = parser.finish()
    pieces += message.pieces
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)) == message.content
    assert "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece)) == message.reasoning
    for index, call in enumerate(message.tool_calls):
        deltas = [
            piece.arguments_delta
            for piece in pieces
            if isinstance(piece, ToolCallPiece) and piece.index == index
        ]
        assert call.raw_arguments.startswith("".join(deltas))
        assert call.error is not None or "".join(deltas) == call.raw_arguments
    return message
