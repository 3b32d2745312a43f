"""Messages as a template accepts them. One file, because each rule sees what the others left.

They are copies: the caller's objects are never changed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from backend.types import Message

MEDIA_MARKER = "<__media__>"
"""What stands in the prompt for an image, a sound or a video; the projector finds it there."""
_MEDIA_TYPES = frozenset({"image", "image_url", "input_image", "audio", "input_audio", "video", "video_url"})
_MAX_SCHEMA_DEPTH = 50
_MAX_TOOL_DEPTH = 150
"""Of a tool's definition; Python's JSON and the templates' macros end near a thousand."""
NO_ANSWER = "..."
"""What a turn says that is there, or not silent, only because the template demands it."""
THOUGHT_KEYS = ("reasoning_content", "reasoning", "thinking", "thought")


@dataclass(frozen=True)
class MessageRules:
    """What a template accepts in a conversation, found by rendering probes."""

    system: bool = True
    """False: a system turn is refused or dropped, so its text opens the first user turn."""
    early_system: bool = False
    """True: a system turn behind others is refused, or drops one, so its text opens the next user turn."""
    user_first: bool = False
    """True: a conversation that an assistant turn opens is refused, so a user turn is put before it."""
    no_silence: bool = False
    """True: an assistant turn without a text is refused, so it gets one."""
    alternate: bool = False
    """True: two turns of one role in a row are refused, so they are merged."""
    arguments_as_text: bool = False
    """True: a call's arguments are wanted as JSON text, not as a mapping."""
    one_call: bool = False
    """True: one assistant turn prints one call, so several are split over turns."""
    empty_content: str | None = ""
    """Content of an assistant turn that only calls: `None` for templates that print calls only then."""
    prints_calls: bool = True
    """False: calls of past turns are not printed, so they are written into the content."""
    content_hides_calls: bool = False
    """True: calls beside a text are not printed, so they are written into that text."""
    joins_content: bool = False
    """True: thought and text beside calls are refused, so the text is joined to the thought."""
    prints_results: bool = True
    """False: tool results are not printed, so they become user turns."""
    id_length: int | None = None
    """Length of the alphanumeric call ids that the template demands."""
    thought_key: str | None = None
    """Field of an assistant message that holds its thought; `content` means a content part."""
    text_parts: bool = False
    """True: content must be a list of parts (no text is accepted)."""


def envelopes(tools: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Tools in the OpenAI envelope, each with a description and parameters; bare functions are wrapped."""
    wrapped: list[dict[str, Any]] = []
    for tool in tools or ():
        function = cast("dict[str, Any]", _copied(dict(tool.get("function") or tool)))
        function.pop("type", None)
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise ValueError(f"A tool needs a name, and this one has none: {_short(tool)}")
        function.setdefault("description", "")
        if not isinstance(function["description"], str):
            function["description"] = "" if function["description"] is None else str(function["description"])
        nothing = {"type": "object", "properties": dict[str, Any]()}
        function["parameters"] = mapping(_well_formed(function.get("parameters"))) or nothing
        wrapped.append({"type": "function", "function": function})
    return wrapped


def _copied(value: object, depth: int = 0) -> object:
    """A copy of JSON data. What a schema nests deeper than anybody reads becomes an empty one."""
    if isinstance(value, Mapping):
        if depth > _MAX_TOOL_DEPTH:
            return {}
        items = cast("Mapping[str, object]", value).items()
        return {key: _copied(item, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        if depth > _MAX_TOOL_DEPTH:
            return []
        return [_copied(item, depth + 1) for item in cast("Sequence[object]", value)]
    return value


_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE_SCHEMA = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")

_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("required", "enum", "examples"), (list,)),
    **dict.fromkeys(("description", "title", "format", "pattern"), (str,)),
    "type": (str, list),
}


def _well_formed(schema: object) -> Any:
    """A schema whose keywords are of the kind that templates take for granted; its meaning stays.

    What a keyword cannot be says nothing: `properties: null` are none, a property that is `true` is `{}`.
    """
    if isinstance(schema, bool) or not isinstance(schema, dict):
        return schema is not False and {}
    known = cast("dict[str, Any]", schema)
    formed: dict[str, Any] = {}
    for key, value in known.items():
        if key in _SCHEMAS_BY_NAME:
            formed[key] = {name: _well_formed(part) for name, part in mapping(value).items()}
        elif key in _SCHEMA_LISTS or (key == "items" and isinstance(value, list)):
            if isinstance(value, list):
                formed[key] = [_well_formed(part) for part in cast("list[object]", value)]
        elif key in _ONE_SCHEMA:
            if isinstance(value, dict) or (key == "items" and value is True):
                formed[key] = _well_formed(cast("object", value))
            elif isinstance(value, bool):
                formed[key] = value
        elif key == "description" and value is not None:
            formed[key] = str(value)
        elif isinstance(value, _KINDS.get(key, object)):
            formed[key] = value
    return formed


def possible(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copies of enveloped tools as templates know them: with properties, be it none, and without those that
    no value may have."""
    copies = copy.deepcopy([dict(tool) for tool in tools])
    for tool in copies:
        tool["function"]["parameters"].setdefault("properties", {})
        todo: list[object] = [tool["function"]["parameters"]]
        while todo:
            schema = mapping(todo.pop())
            properties = mapping(schema.get("properties"))
            for name in [name for name, part in properties.items() if part is False]:
                del properties[name]
            todo += [part for part in (*properties.values(), schema.get("items")) if part]
    return copies


def mapping(value: object) -> dict[str, Any]:
    """`value` itself when it is a dict, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def described(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copies of enveloped tools whose parameters all have a description and a type, as some demand."""
    copies = copy.deepcopy([dict(tool) for tool in tools])
    for tool in copies:
        properties = mapping(tool["function"]["parameters"].get("properties"))
        for schema in map(mapping, properties.values()):
            schema.setdefault("description", "")
            _fill_types(schema)
    return copies


def _fill_types(schema: dict[str, Any], depth: int = 0) -> None:
    """Give every part of a schema a type but null: macros that print types recur endlessly on others."""
    if depth > _MAX_SCHEMA_DEPTH:
        return
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = [each for each in cast("list[object]", kind) if each != "null"] or "string"
    schema["type"] = "string" if kind == "null" else kind
    if schema["type"] == "array":
        schema["items"] = mapping(schema.get("items"))
        _fill_types(schema["items"], depth + 1)
    if schema["type"] == "object":
        schema["additionalProperties"] = mapping(schema.get("additionalProperties"))
        _fill_types(schema["additionalProperties"], depth + 1)
    for child in map(mapping, mapping(schema.get("properties")).values()):
        _fill_types(child, depth + 1)


def normalize(messages: Sequence[Message], *, media_marker: str = MEDIA_MARKER) -> list[dict[str, Any]]:
    """Deep copies with text content, `developer` as `system`, parsed arguments, and tool results named and
    in the order of their calls.

    Raises ValueError for a message that is not one.
    """
    turns: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in messages:
        role = message.get("role")
        if not isinstance(role, str):
            raise ValueError(f"A message needs a role, and this one has none: {_short(message)}")
        turn: dict[str, Any] = copy.deepcopy(dict(message))
        turn["role"] = role = "system" if role == "developer" else role
        turn["content"] = text_of(turn.get("content"), media_marker)
        calls = [_call(call) for call in turn.pop("tool_calls", None) or ()]
        if calls:
            turn["tool_calls"] = calls
            names |= {call["id"]: call["function"]["name"] for call in calls}
        if role == "tool" and not turn.get("name"):
            turn["name"] = names.get(str(turn.get("tool_call_id", "")), "")
        if turns and role == "system" == turns[-1]["role"]:
            turns[-1]["content"] = _joined(turns[-1]["content"], turn["content"])
            continue
        turns.append(turn)
    _order_results(turns)
    return turns


def _order_results(turns: list[dict[str, Any]]) -> None:
    """Most templates link a result and its call by nothing but their places."""
    for index, turn in enumerate(turns):
        ids: list[str] = [call["id"] for call in turn.get("tool_calls", ())]
        if len(ids) < 2 or len(set(ids)) < len(ids):
            continue
        end = index + 1
        while end < len(turns) and turns[end]["role"] == "tool":
            end += 1
        places = {call_id: place for place, call_id in enumerate(ids)}
        results = turns[index + 1 : end]
        if all("tool_call_id" in result for result in results):
            results.sort(key=lambda result: places.get(str(result["tool_call_id"]), len(ids)))
            turns[index + 1 : end] = results


def text_of(content: object, media_marker: str = MEDIA_MARKER) -> str:
    """The text of a message's content: None is empty, parts are joined, media become markers."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise ValueError(f"Content must be text or a list of parts, not {type(content).__name__}")
    texts: list[str] = []
    for part in cast("Sequence[object]", content):
        if isinstance(part, str):
            texts.append(part)
            continue
        piece = mapping(part)
        kind = piece.get("type")
        if kind in _MEDIA_TYPES:
            texts.append(media_marker)
        elif isinstance(text := piece.get("text"), str):
            texts.append(text)
        elif kind != "thinking":
            raise ValueError(f"A content part must be text or media, not {_short(part)}")
    return "".join(texts)


def thought_of(turn: Mapping[str, Any]) -> str:
    """The thought an assistant message carries, under any of its usual names."""
    return next((turn[key] for key in THOUGHT_KEYS if isinstance(turn.get(key), str)), "")


def adapt(turns: Sequence[Mapping[str, Any]], rules: MessageRules) -> list[dict[str, Any]]:
    """`normalize`d turns, rewritten to what `rules` say the template accepts."""
    adapted: list[dict[str, Any]] = [dict(turn) for turn in turns]
    if rules.one_call:
        adapted = _split_calls(adapted)
    if not rules.prints_results:
        adapted = [_result_as_user(turn) if turn["role"] == "tool" else turn for turn in adapted]
    if not rules.system or rules.early_system:
        first = 1 if rules.system and adapted and adapted[0]["role"] == "system" else 0
        adapted = [*adapted[:first], *_fold_system(adapted[first:])]
    if rules.alternate:
        adapted = _merge(adapted)
    if rules.user_first:
        adapted = _opened_by_user(adapted)
    if rules.id_length:
        adapted = [_with_short_ids(turn, rules.id_length) for turn in adapted]
    return [_shape(turn, rules) for turn in adapted]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """One call in the OpenAI envelope with its arguments as a mapping where they parse as one."""
    function: Mapping[str, Any] = call.get("function") or call
    arguments: Any = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            arguments = {"arguments": arguments}
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    return {
        "id": str(call.get("id") or ""),
        "type": "function",
        "function": {"name": str(function.get("name", "")), "arguments": arguments},
    }


def _shape(turn: dict[str, Any], rules: MessageRules) -> dict[str, Any]:
    turn = dict(turn)
    if turn["role"] == "assistant":
        if rules.joins_content and turn.get("tool_calls") and (thought := thought_of(turn)):
            turn |= {"reasoning_content": _joined(thought, turn["content"]), "content": ""}
        _place_thought(turn, rules.thought_key)
        if rules.no_silence and not turn["content"] and not turn.get("tool_calls"):
            turn["content"] = NO_ANSWER
    if turn.get("tool_calls"):
        if not turn["content"]:
            turn["content"] = rules.empty_content
        if rules.arguments_as_text:
            turn["tool_calls"] = [_with_text_arguments(call) for call in turn["tool_calls"]]
    if rules.text_parts and isinstance(turn["content"], str):
        turn["content"] = [{"type": "text", "text": turn["content"]}]
    return turn


def _place_thought(turn: dict[str, Any], key: str | None) -> None:
    thought = thought_of(turn)
    for name in THOUGHT_KEYS:
        turn.pop(name, None)
    if not thought or key is None:
        return
    if key == "content":
        turn["content"] = [
            {"type": "thinking", "thinking": thought},
            {"type": "text", "text": turn["content"]},
        ]
    else:
        turn[key] = thought


def _with_text_arguments(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    text = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": {**function, "arguments": text}}


def _split_calls(turns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One call per assistant turn, each followed by its own results."""
    split: list[dict[str, Any]] = []
    index = 0
    while index < len(turns):
        turn = turns[index]
        index += 1
        calls: list[dict[str, Any]] = turn.get("tool_calls") or []
        if len(calls) < 2:
            split.append(turn)
            continue
        results: list[dict[str, Any]] = []
        while index < len(turns) and turns[index]["role"] == "tool":
            results.append(turns[index])
            index += 1
        for number, call in enumerate(calls):
            bare = {"role": "assistant", "content": ""}
            split.append({**(bare if number else turn), "tool_calls": [call]})
            split += [result for result in results if result.get("tool_call_id") == call["id"]]
        known = {call["id"] for call in calls}
        split += [result for result in results if result.get("tool_call_id") not in known]
    return split


def _result_as_user(turn: Mapping[str, Any]) -> dict[str, Any]:
    name = f" of {turn['name']}" if turn.get("name") else ""
    return {"role": "user", "content": f"Result{name}:\n{turn['content']}"}


def _fold_system(turns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    folded: list[dict[str, Any]] = []
    waiting = ""
    for turn in turns:
        if turn["role"] == "system":
            waiting = _joined(waiting, turn["content"])
        elif waiting and turn["role"] == "user":
            folded.append({**turn, "content": _joined(waiting, turn["content"])})
            waiting = ""
        else:
            folded.append(turn)
    if waiting:
        folded.append({"role": "user", "content": waiting})
    return folded


def _merge(turns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = []
    for turn in turns:
        last = merged[-1] if merged else None
        same = last is not None and last["role"] == turn["role"] in ("user", "assistant")
        if last is not None and last["role"] == "tool" and turn["role"] == "user":
            merged.append({"role": "assistant", "content": NO_ANSWER})
        if last is None or not same or last.get("tool_calls"):
            merged.append(turn)
            continue
        both = {**last, **turn, "content": _joined(last["content"], turn["content"])}
        if thought := _joined(thought_of(last), thought_of(turn)):
            both["reasoning_content"] = thought
        merged[-1] = both
    return merged


def _opened_by_user(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first = 1 if turns and turns[0]["role"] == "system" else 0
    if first < len(turns) and turns[first]["role"] == "assistant":
        return [*turns[:first], {"role": "user", "content": NO_ANSWER}, *turns[first:]]
    return turns


def _with_short_ids(turn: dict[str, Any], length: int) -> dict[str, Any]:
    turn = dict(turn)
    if turn.get("tool_calls"):
        turn["tool_calls"] = [{**call, "id": short_id(call["id"], length)} for call in turn["tool_calls"]]
    if turn["role"] == "tool":
        turn["tool_call_id"] = short_id(str(turn.get("tool_call_id", "")), length)
    return turn


def short_id(call_id: str, length: int) -> str:
    """`call_id` itself when it is `length` ASCII alphanumerics, else a digest of it that is."""
    if len(call_id) == length and call_id.isalnum() and call_id.isascii():
        return call_id
    import hashlib

    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _joined(first: str, second: str) -> str:
    return f"{first}\n\n{second}" if first and second else first or second


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
