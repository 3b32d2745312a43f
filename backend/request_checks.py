"""Looks at what a caller hands over, turns, tools and prompts, so that a wrong one is a ValueError which
says what is wrong with which of them, before anything is queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from backend.types import Message

_MEDIA = ("image", "audio", "video")
_HINT = "fireside.tool_definition(function) makes a definition of a function"


def check_messages(messages: object) -> Sequence[Message]:
    """`messages` themselves. ValueError where they are no list of turns of text."""
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes | bytearray):
        raise ValueError(
            f"messages must be a list of turns, each a mapping such as "
            f"{{'role': 'user', 'content': 'Hello'}}, not {_kind(messages)}"
        )
    for index, turn in enumerate(cast("Sequence[object]", messages)):
        _check_turn(turn, f"messages[{index}]")
    return cast("Sequence[Message]", messages)


def check_content(content: object, where: str = "content") -> None:
    """ValueError where the content of a turn is neither nothing, nor text, nor a list of text parts."""
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list | tuple):
        raise ValueError(f"Content must be text or a list of parts, not {_kind(content)} ({where})")
    for part in cast("Sequence[object]", content):
        if isinstance(part, str):
            continue
        if not isinstance(part, Mapping):
            raise ValueError(f"A content part must be a mapping with a type, not {_kind(part)} ({where})")
        kind = cast("Mapping[str, object]", part).get("type")
        if isinstance(kind, str) and any(medium in kind for medium in _MEDIA):
            raise ValueError(f"This model reads text only, and {where} contains a part of type {kind[:40]!r}")


def check_tools(tools: object) -> tuple[Mapping[str, Any], ...]:
    """The definitions in `tools`, none for None. ValueError for anything that is no definition."""
    if tools is None:
        return ()
    if not isinstance(tools, Sequence) or isinstance(tools, str | bytes | bytearray):
        raise ValueError(f"tools must be a list of definitions, not {_kind(tools)}; {_HINT}")
    for index, tool in enumerate(cast("Sequence[object]", tools)):
        _check_tool(tool, f"tools[{index}]")
    return tuple(cast("Sequence[Mapping[str, Any]]", tools))


def check_prompt(prompt: object, where: str = "prompt") -> str:
    """`prompt` itself. ValueError where it is no text."""
    if not isinstance(prompt, str):
        raise ValueError(f"{where} must be text, not {_kind(prompt)}")
    return prompt


def check_stream(stream: object, choices: Sequence[object] = (False, True, "events")) -> None:
    """ValueError where `stream` is none of the choices."""
    if stream not in choices:
        raise ValueError(f"stream must be one of {', '.join(map(repr, choices))}, not {stream!r:.40}")


def check_flag(value: object, name: str) -> bool:
    """`value` itself. ValueError where it is neither true nor false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {value!r:.40}")
    return value


def refuse_media(model_id: str, images: Sequence[Any], audio: Sequence[Any], videos: Sequence[Any]) -> None:
    """ValueError where a model that reads text only is given anything else."""
    for name, media in (("images", images), ("audio", audio), ("videos", videos)):
        if len(media):
            raise ValueError(f"{name}: {model_id} reads text only")


def _check_turn(turn: object, where: str) -> None:
    if not isinstance(turn, Mapping):
        raise ValueError(f"{where} must be a mapping with a role and content, not {_kind(turn)}")
    turn = cast("Mapping[str, object]", turn)
    if not isinstance(turn.get("role"), str):
        raise ValueError(f"A message needs a role, and {where} has none")
    check_content(turn.get("content"), f"the content of {where}")
    calls = turn.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list | tuple):
        raise ValueError(f"tool_calls of {where} must be a list, not {_kind(calls)}")
    for call in cast("Sequence[Mapping[str, object]]", calls):
        if not isinstance(call, Mapping) or not _holds_mapping(call, "function"):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"A call in tool_calls of {where} must be a mapping with a function")


def _check_tool(tool: object, where: str) -> None:
    if callable(tool):
        name = getattr(tool, "__name__", type(tool).__name__)
        raise ValueError(
            f"{where} is the function {name}, and a model is offered definitions: "
            f"give fireside.tool_definition({name}) instead"
        )
    if not isinstance(tool, Mapping):
        raise ValueError(f"{where} must be a mapping, not {_kind(tool)}; {_HINT}")
    envelope = cast("Mapping[str, object]", tool)
    if not _holds_mapping(envelope, "function"):
        raise ValueError(f"{where}: function must be a mapping, not {_kind(envelope['function'])}; {_HINT}")
    function = cast("Mapping[str, object]", envelope.get("function") or envelope)
    if not _holds_mapping(function, "parameters"):
        raise ValueError(f"{where}: parameters must be a JSON Schema, which is a mapping")


def _holds_mapping(value: Mapping[str, object], key: str) -> bool:
    """Whether a mapping has a mapping under `key`, or nothing there."""
    inner = value.get(key)
    return not inner or isinstance(inner, Mapping)


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
