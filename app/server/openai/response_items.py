"""Items of `/v1/responses`, on the wire and in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from app.server.errors import refused
from app.server.openai.body import mapping
from app.server.openai.calls import arguments_of, new_call_id
from app.server.openai.messages import text_of
from app.sessions.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
    input_text,
    output_text,
    reasoning_item,
)
from app.sessions.records import Json
from backend.types import ChatOutcome

MOST_ITEMS = 10_000
_KINDS = "An item is a message with a role, a function_call, a function_call_output or a reasoning."
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def items_of(given: object, model: str) -> list[Item]:
    """What a client says, as items. ApiError names the item that is wrong."""
    if isinstance(given, str):
        if not given:
            raise refused("The input is empty.", "input")
        return [Message(role="user", content=(input_text(given),))]
    if not isinstance(given, list) or not given:
        raise refused("input is a text or a list of items, with something in it.", "input")
    entries = cast("list[object]", given)
    if len(entries) > MOST_ITEMS:
        raise refused(f"A request has at most {MOST_ITEMS} items.", "input")
    return [_item(mapping(entry), f"input.{index}", model) for index, entry in enumerate(entries)]


def _item(entry: Json, where: str, model: str) -> Item:
    match entry:
        case {
            "type": "function_call",
            "name": str(name),
            "call_id": str(call_id),
            "arguments": str(arguments),
        }:
            return FunctionCall(name=name, call_id=call_id, arguments=arguments)
        case {"type": "function_call_output", "call_id": str(call_id)}:
            output = text_of(entry.get("output"), f"{where}.output", model)
            return FunctionCallOutput(call_id=call_id, output=output)
        case {"type": "reasoning"}:
            return reasoning_item(_thought(entry))
        case {"role": str(role)} if role in _ROLES and entry.get("type", "message") == "message":
            text = text_of(entry.get("content"), f"{where}.content", model)
            block = output_text(text) if role == "assistant" else input_text(text)
            return Message(role=_ROLES[role], content=(block,))
        case _:
            raise refused(_KINDS, where)


def _thought(entry: Json) -> str:
    blocks = [*_list(entry.get("content")), *_list(entry.get("summary"))]
    texts = [mapping(block).get("text") for block in blocks]
    return "".join(text for text in texts if isinstance(text, str))


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def made_of(outcome: ChatOutcome, response_id: str, llm_model: str, agent: str) -> list[Item]:
    """What a reply becomes: its thought, its text, its calls."""
    common: dict[str, Any] = {"response_id": response_id, "llm_model": llm_model, "model": agent}
    status = "incomplete" if outcome.finish == "length" else "completed"
    items: list[Item] = []
    if outcome.reasoning:
        items.append(reasoning_item(outcome.reasoning, **common))
    if outcome.text or not outcome.tool_calls:
        content = (output_text(outcome.text),)
        items.append(
            Message(
                role="assistant",
                content=content,
                agent=agent,
                status=status,
                finish=outcome.finish,
                usage={"input_tokens": outcome.prompt_tokens, "output_tokens": outcome.new_tokens},
                **common,
            )
        )
    for call in outcome.tool_calls:
        call_id = call.id or new_call_id()
        items.append(FunctionCall(name=call.name, call_id=call_id, arguments=arguments_of(call), **common))
    return items


def shown(item: Item) -> Json:
    """An item as a client gets it."""
    match item:
        case Message():
            blocks = [shown_text(item.text)] if item.role == "assistant" else [input_text(item.text)]
            return {
                "id": item.id,
                "type": "message",
                "role": item.role,
                "status": item.status,
                "content": blocks,
            }
        case FunctionCall():
            return shown_call(item.id, item.call_id, item.name, item.arguments)
        case FunctionCallOutput():
            return {
                "id": item.id,
                "type": "function_call_output",
                "call_id": item.call_id,
                "output": item.output,
                "status": item.status,
            }
        case Reasoning():
            return shown_thought(item.id, "".join(str(block.get("text", "")) for block in item.content))
        case _:
            return {"id": item.id, "type": item.type}


def shown_text(text: str) -> Json:
    """A part with text of the model."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def shown_thought(item_id: str, text: str, status: str = "completed") -> Json:
    """A thought of the model."""
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": item_id, "type": "reasoning", "summary": [], "content": content, "status": status}


def shown_call(item_id: str, call_id: str, name: str, arguments: str, status: str = "completed") -> Json:
    """A call of the model."""
    return {
        "id": item_id,
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def outputs(items: Sequence[Item]) -> list[Json]:
    """Items as the output of a response."""
    return [shown(item) for item in items]
