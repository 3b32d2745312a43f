"""Finds out by rendering which conversations a template accepts."""

from __future__ import annotations

import json
from typing import Any

from backend.chat.adapt import THOUGHT_KEYS, MessageRules
from backend.chat.learning.probe import (
    CONTENT,
    ID_2,
    KEY_1,
    NAME_1,
    NAME_2,
    RESULT,
    SYSTEM,
    SYSTEM_2,
    THOUGHT,
    TOOLS,
    USER,
    USER_2,
    VALUE_1,
    VALUE_2,
    Probe,
    assistant,
    call,
    result,
    user,
)  # fmt: skip

LONG_ID = "call_qidlongerthannine"
MISTRAL_ID_LENGTH = 9
_ARGUMENTS = {KEY_1: VALUE_1}
_LATE_SYSTEM = [
    {"role": "system", "content": SYSTEM},
    user(),
    assistant(CONTENT),
    {"role": "system", "content": SYSTEM_2},
    user(USER_2),
]


def message_rules(probe: Probe) -> MessageRules:
    """The rules of the template behind `probe`. At most 18 renders."""
    as_text, empty, with_tools = call_form(probe)
    prints_calls = as_text is not None
    tools = TOOLS if with_tools else None
    arguments = json.dumps if as_text else dict[str, Any]
    two_calls = [call(NAME_1, arguments(_ARGUMENTS)), call(NAME_2, arguments({KEY_1: VALUE_2}), ID_2)]
    two = probe.render([user(), assistant(empty, two_calls)], tools) if prints_calls else ""
    key = thought_key(probe)
    one = call(NAME_1, arguments(_ARGUMENTS))
    beside = probe.after_user([user(), assistant(CONTENT, [one])], tools) if prints_calls else NAME_1
    both = {key: THOUGHT} if key not in (None, "content") else {}
    refused = bool(both) and prints_calls and (
        probe.render([user(), assistant(CONTENT, [one], **both)], tools) is None
    )  # fmt: skip
    strict = not _shows(probe, [user(), user(USER_2)], USER, USER_2)
    return MessageRules(
        system=_shows(probe, [{"role": "system", "content": SYSTEM}, user()], SYSTEM),
        early_system=not _holds(probe.render(_LATE_SYSTEM), SYSTEM, SYSTEM_2, USER_2),
        user_first=strict and not _holds(probe.render([assistant(CONTENT), user(USER_2)]), USER_2),
        no_silence=strict and not _holds(probe.render([user(), assistant(), user(USER_2)]), USER_2),
        alternate=strict,
        arguments_as_text=bool(as_text),
        one_call=prints_calls and (two is None or NAME_2 not in two or VALUE_2 not in two),
        empty_content=empty,
        prints_calls=prints_calls,
        content_hides_calls=beside is not None and NAME_1 not in beside,
        joins_content=refused and beside is not None,
        prints_results=_prints_results(probe, empty, arguments, with_tools) if prints_calls else
        _shows(probe, [user(), assistant(CONTENT), result()], RESULT),
        id_length=_id_length(probe, empty, arguments, with_tools) if prints_calls else None,
        thought_key=key,
        text_parts=_wants_parts(probe),
    )  # fmt: skip


def call_form(probe: Probe) -> tuple[bool | None, str | None, bool]:
    """How calls in history are wanted: arguments as text (None: calls are never printed), the
    content of a turn that only calls, and whether the tools must be offered to see them."""
    best, found = -1, (None, "", False)
    for as_text, empty in ((False, ""), (True, ""), (False, None), (True, None)):
        if best >= 2:
            break
        turn = assistant(empty, [call(NAME_1, json.dumps(_ARGUMENTS) if as_text else _ARGUMENTS)])
        for tools in (TOOLS, None):
            text = probe.after_user([user(), turn], tools) or ""
            if NAME_1 in text and VALUE_1 in text:
                break
        else:
            continue
        if '\\"' + KEY_1 in text:
            score = 0
        elif "{'" + KEY_1 in text:
            score = 1
        else:
            score = 2 if as_text else 3
        if score > best:
            best, found = score, (as_text, empty, tools is not None)
    return found


def thought_key(probe: Probe) -> str | None:
    """The field of an assistant message whose text is printed in front of its content or calls."""
    form, empty, with_tools = call_form(probe)
    for key in THOUGHT_KEYS:
        turn = assistant(CONTENT, **{key: THOUGHT})
        if _in_order(probe.after_user([user(), turn]), THOUGHT, CONTENT):
            return key
    parts = [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": CONTENT}]
    if is_part_text(probe.after_user([user(), assistant(parts)])):
        return "content"
    if form is None:
        return None
    arguments = json.dumps(_ARGUMENTS) if form else _ARGUMENTS
    for key in THOUGHT_KEYS:
        turn = assistant(empty, [call(NAME_1, arguments)], **{key: THOUGHT})
        if _in_order(probe.after_user([user(), turn], TOOLS if with_tools else None), THOUGHT, NAME_1):
            return key
    return None


def is_part_text(text: str | None) -> bool:
    """Whether parts were printed as thought and text, and not dumped as a list."""
    if not _in_order(text, THOUGHT, CONTENT):
        return False
    assert text is not None
    around = text[max(0, text.index(THOUGHT) - 30) : text.index(CONTENT)]
    return not any(mark in around for mark in ("'type", '"type', "type'", 'type"', "{type", "[type"))


def _in_order(text: str | None, first: str, second: str) -> bool:
    return text is not None and first in text and second in text and text.index(first) < text.index(second)


def _shows(probe: Probe, messages: list[dict[str, Any]], *words: str) -> bool:
    return any(_holds(probe.render(messages, tools), *words) for tools in (None, TOOLS))


def _holds(text: str | None, *words: str) -> bool:
    return text is not None and all(word in text for word in words)


def _prints_results(probe: Probe, empty: str | None, arguments: Any, with_tools: bool) -> bool:
    turns = [user(), assistant(empty, [call(NAME_1, arguments(_ARGUMENTS))]), result()]
    text = probe.render(turns, TOOLS if with_tools else None)
    return text is not None and RESULT in text


def _id_length(probe: Probe, empty: str | None, arguments: Any, with_tools: bool) -> int | None:
    turn = assistant(empty, [call(NAME_1, arguments(_ARGUMENTS), LONG_ID)])
    text = probe.render([user(), turn], TOOLS if with_tools else None)
    return MISTRAL_ID_LENGTH if text is None else None


def _wants_parts(probe: Probe) -> bool:
    """Whether plain text is dropped and a list of parts is printed."""
    if _shows(probe, [user()], USER):
        return False
    return _shows(probe, [{"role": "user", "content": [{"type": "text", "text": USER}]}], USER)
