"""Writes calls as a format's text, for histories and descriptions that no template prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from backend.chat.adapt import mapping
from backend.chat.format import ID, INDEX, KEY, NAME, TYPE, CallSyntax, ChatFormat
from backend.chat.parsing.values import type_of
from backend.chat.registry import GENERIC


def write_calls(chat_format: ChatFormat, calls: Sequence[tuple[str, Any]]) -> str:
    """The calls (name, arguments) as the model would write them; generic ones without a syntax."""
    syntax = chat_format.calls or GENERIC
    written = [_call(syntax, name, arguments, number) for number, (name, arguments) in enumerate(calls)]
    return syntax.section_start + syntax.separator.join(written) + syntax.section_end


def _call(syntax: CallSyntax, name: str, arguments: Any, number: int) -> str:
    match syntax.kind:
        case "json":
            body = json.dumps(_object(syntax, name, arguments, number), ensure_ascii=False)
        case "tagjson":
            body = NAME + syntax.middle + json.dumps(arguments, ensure_ascii=False)
        case "tagged":
            members = mapping(arguments)
            body = syntax.head + syntax.head_end + syntax.argument_separator.join(
                _argument(syntax, key, value) for key, value in members.items()
            )  # fmt: skip
    index = str(number + syntax.first_index)
    text = syntax.call_start + body + syntax.call_end
    return text.replace(NAME, name).replace(INDEX, index).replace(ID, f"call{number}")


def _object(syntax: CallSyntax, name: str, arguments: Any, number: int) -> dict[str, Any]:
    if syntax.name_is_key:
        return {name: arguments}
    value: dict[str, Any] = {}
    paths = {syntax.name_path: name, syntax.arguments_path: arguments}
    if syntax.id_path:
        paths[syntax.id_path] = str(number)
    order = {member: place for place, member in enumerate(syntax.members)}
    for path, item in sorted(paths.items(), key=lambda pair: order.get(pair[0][0], 99) if pair[0] else 99):
        node = value
        for step in path[:-1]:
            node = node.setdefault(step, {})
        node[path[-1]] = item
    return value


def _argument(syntax: CallSyntax, key: str, value: Any) -> str:
    word = dict(syntax.types).get({"integer": "number"}.get(type_of(value), type_of(value)), "")
    start = (syntax.argument_start + KEY + syntax.value_start).replace(TYPE, word)
    return (start + _value(syntax, value) + syntax.argument_end).replace(KEY, key)


def _value(syntax: CallSyntax, value: Any) -> str:
    if isinstance(value, str):
        if syntax.quote[0] in ("'", '"'):
            return repr(value) if syntax.quote[0] == "'" else json.dumps(value, ensure_ascii=False)
        return syntax.quote[0] + value + syntax.quote[1]
    if syntax.literal and syntax.nested == "python":
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def tools_block(tools: Sequence[Mapping[str, Any]], chat_format: ChatFormat) -> str:
    """The system text that offers tools, for templates that do not print them."""
    functions = [tool["function"] for tool in tools]
    listed = "\n".join(json.dumps(function, ensure_ascii=False) for function in functions)
    example = write_calls(chat_format, [("NAME", {"PARAMETER": "VALUE"})])
    return (
        f"You may call these tools, described as JSON:\n{listed}\n\n"
        f"To call one, write exactly this, with its name and arguments, and nothing after it:\n{example}\n"
        f"The result comes with the next message. Answer without a call when none is needed."
    )
