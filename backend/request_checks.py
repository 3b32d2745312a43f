"""Looks at what a caller hands over, turns, tools and prompts, so that a wrong one is a ValueError which
says what is wrong with which of them, before anything is queued."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, cast, get_args

from backend.chat_engine import Request
from backend.config_checks import shown
from backend.types import GenerationConfig, Message, Priority

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
    if not isinstance(stream, bool | str) or stream not in choices:
        raise ValueError(f"stream must be one of {', '.join(map(repr, choices))}, not {stream!r:.40}")


def check_flags(**flags: object) -> None:
    """ValueError where one of the named values is neither true nor false."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false, not {shown(value)}")


def check_whole(name: str, value: object, least: int, *, optional: bool = False) -> None:
    """ValueError where a value is not a whole number of at least `least`, nor None where that will do."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, not {shown(value)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {shown(value)}")


def check_ids(ids: object, name: str = "ids") -> Sequence[int]:
    """`ids` themselves. ValueError where they are not a list of token ids."""
    if isinstance(ids, str | bytes | bytearray) or not isinstance(ids, Iterable):
        raise ValueError(f"{name} must be a list of token ids, not {_kind(ids)}")
    found = list(cast("Iterable[object]", ids))
    for token in found:
        if isinstance(token, bool) or not isinstance(token, int):
            raise ValueError(f"each of the {name} must be the id of a token, not {shown(token)}")
    return cast("list[int]", found)


def check_texts(texts: object, name: str) -> Sequence[str]:
    """`texts` themselves. ValueError where they are not a list of texts."""
    if not isinstance(texts, Sequence) or isinstance(texts, str | bytes | bytearray):
        raise ValueError(f"{name} must be a list of texts, not {_kind(texts)}")
    for index, text in enumerate(cast("Sequence[object]", texts)):
        check_prompt(text, f"{name}[{index}]")
    return cast("Sequence[str]", texts)


def check_request(request: object) -> None:
    """ValueError where a request is not one, or a field of it is of the wrong kind."""
    if not isinstance(request, Request):
        raise ValueError(f"request must be a backend.Request, not {_kind(request)}")
    if (request.messages is None) == (request.text is None):
        raise ValueError("a request contains either messages or text")
    if request.messages is not None:
        check_messages(request.messages)
    else:
        check_prompt(request.text, "text")
    if request.tools is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise ValueError("tools of a request must be a list of definitions, not None")
    check_tools(request.tools)
    if not isinstance(request.config, GenerationConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"config of a request must be a GenerationConfig, not {_kind(request.config)}")
    check_whole("n", request.n, 1)
    if request.priority not in get_args(Priority):
        raise ValueError(f"priority must be user or background, not {shown(request.priority)}")
    check_flags(
        continue_reply=request.continue_reply,
        add_generation_prompt=request.add_generation_prompt,
        is_lasting=request.is_lasting,
    )
    if request.forced is not None and not isinstance(request.forced, str):
        check_ids(request.forced, "forced")
    for name, value in (("conversation", request.conversation or ""), ("id", request.id)):
        check_prompt(value, name)
    if request.prior is not None:
        prior = cast(object, request.prior)
        if not isinstance(prior, tuple) or len(cast("tuple[object, ...]", prior)) != 2:
            raise ValueError("prior must be a pair of a text and its token ids")
        check_prompt(request.prior[0], "the text of prior")
        if not isinstance(request.prior[1], Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"the ids of prior must be a list, not {_kind(request.prior[1])}")


def refuse_media(model_id: str, images: object, audio: object, videos: object) -> None:
    """ValueError where a model that reads text only is given anything else, or no list at all."""
    for name, media in (("images", images), ("audio", audio), ("videos", videos)):
        if not isinstance(media, Sized) or isinstance(media, str | bytes | Mapping):
            raise ValueError(
                f"{name} must be a list, not {_kind(cast(object, media))}; leave it out where there are none"
            )
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
