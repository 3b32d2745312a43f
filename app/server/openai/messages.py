"""Turns of a conversation as clients send them, made into those that the engine takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from app.server.errors import ApiError, refused
from app.server.openai.body import mapping

_ROLES = ("system", "developer", "user", "assistant", "tool")
_TEXT = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
"""Types of text parts, and the field with the text."""
_MEDIA = {
    "image_url": "pictures",
    "input_image": "pictures",
    "input_audio": "audio",
    "file": "files",
    "input_file": "files",
    "video_url": "videos",
}


def turns_of(messages: Sequence[object], model: str) -> list[dict[str, Any]]:
    """The turns. ApiError names the message that is wrong; nothing but known fields reaches a template."""
    return [_turn(message, f"messages.{index}", model) for index, message in enumerate(messages)]


def _turn(message: object, where: str, model: str) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise refused("A message has to be an object with a role and content.", where)
    given = cast("Mapping[str, object]", message)
    role = given.get("role")
    if role not in _ROLES:
        known = ", ".join(_ROLES)
        raise refused(f"The role of a message is one of {known}.", f"{where}.role")
    turn: dict[str, Any] = {"role": role}
    turn["content"] = text_of(given.get("content"), f"{where}.content", model)
    if role in ("system", "developer", "user") and given.get("content") is None:
        raise refused(f"A message of the role {role} needs content.", f"{where}.content")
    if isinstance(name := given.get("name"), str):
        turn["name"] = name
    if role == "assistant":
        if calls := given.get("tool_calls"):
            turn["tool_calls"] = _calls(calls, f"{where}.tool_calls")
        thought = given.get("reasoning_content") or given.get("reasoning")
        if isinstance(thought, str):
            turn["reasoning_content"] = thought
    if role == "tool":
        if not isinstance(call_id := given.get("tool_call_id"), str):
            raise refused(
                "A message of a tool needs the tool_call_id that it answers.", f"{where}.tool_call_id"
            )
        turn["tool_call_id"] = call_id
    return turn


def text_of(content: object, where: str, model: str) -> str:
    """The text of some content: nothing, text, or parts of text. ApiError for anything else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise refused("Content has to be text or a list of parts.", where)
    parts = cast("list[object]", content)
    return "".join(_part(part, f"{where}.{index}", model) for index, part in enumerate(parts))


def _part(part: object, where: str, model: str) -> str:
    if not isinstance(part, Mapping):
        raise refused("A part of content has to be an object with a type.", where)
    given = cast("Mapping[str, object]", part)
    kind = given.get("type")
    if isinstance(kind, str) and (medium := _MEDIA.get(kind)):
        raise ApiError(
            400, f"{model} takes no {medium}, only text.", code="unsupported_content", param=f"{where}.type"
        )
    field = _TEXT.get(kind) if isinstance(kind, str) else None
    text = given.get(field) if field else None
    if not isinstance(text, str):
        raise refused("A part of content has to be of type text, with its text.", where)
    return text


def _calls(calls: object, where: str) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise refused("tool_calls has to be a list.", where)
    return [_call(call, f"{where}.{index}") for index, call in enumerate(cast("list[object]", calls))]


def _call(call: object, where: str) -> dict[str, Any]:
    given = mapping(call)
    function = mapping(given.get("function"))
    name, arguments = function.get("name"), function.get("arguments", "{}")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise refused("A call needs a function with a name, and arguments as a text of JSON.", where)
    return {
        "id": str(given.get("id") or ""),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
