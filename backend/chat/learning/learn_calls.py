"""Reads the syntax of tool calls off renderings of known calls."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from backend.chat.format import ID, INDEX, KEY, NAME, TYPE, CallSyntax, CustomValues, Nesting, atoms, is_tag
from backend.chat.learning.marks import enclosing_object, path_to, split_between, with_index
from backend.chat.learning.probe import (
    ID_1,
    ID_2,
    KEY_1,
    KEY_2,
    NAME_1,
    NAME_2,
    NUMBER,
    TOOLS,
    VALUE_1,
    VALUE_2,
    Probe,
    assistant,
    call,
    user,
)  # fmt: skip
from backend.chat.learning.rules import call_form

ONE = {KEY_1: VALUE_1}
_PLACES = ((NAME_1, NAME), (NAME_2, NAME), (ID_1, ID), (ID_2, ID), (KEY_1, KEY), (KEY_2, KEY))
_NESTED = {"qna": "Qc", "qnb": 5}


class NotReadable(Exception):
    """The rendering does not show what the learner looks for."""


@dataclass(frozen=True)
class SeenCalls:
    """A call syntax as far as the calls alone show it, and the text around them.

    `before` reaches from the user's text to the first call's name (or object), `after` from the
    last call's end to the end of the rendering. `told_apart` is False when only one call can be
    printed: then section and call markers cannot be told apart.
    """

    syntax: CallSyntax
    before: str
    after: str
    told_apart: bool


class CallProbe:
    """Renders assistant turns with calls in the form the template wants."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        as_text, self.empty, with_tools = call_form(probe)
        self.printed = as_text is not None
        self._arguments: Callable[[Any], Any] = json.dumps if as_text else lambda value: value
        self._tools = TOOLS if with_tools else None

    def segment(self, *calls: tuple[str, Any, str], content: str | None = "", **extra: Any) -> str | None:
        """What is printed behind the user's text for one turn with these calls (name, arguments, id)."""
        made = [call(name, self._arguments(arguments), call_id) for name, arguments, call_id in calls]
        turn = assistant(content or self.empty, made, **extra)
        return self.probe.after_user([user(), turn], self._tools)

    def made(self) -> dict[str, Any]:
        """The known call as it stands in a message."""
        return call(NAME_1, self._arguments(ONE))

    def one(self, arguments: Any = None, **extra: Any) -> str | None:
        return self.segment((NAME_1, ONE if arguments is None else arguments, ID_1), **extra)

    def two(self) -> str | None:
        """Two calls in one turn, or None when the template refuses them or drops the second."""
        text = self.segment((NAME_1, ONE, ID_1), (NAME_2, {KEY_1: VALUE_2}, ID_2))
        return text if text and NAME_2 in text and VALUE_2 in text else None


def learn_calls(calls: CallProbe) -> SeenCalls | None:
    """The syntax of the calls a template prints, or None when they cannot be read."""
    single, double = calls.one(), calls.two()
    if not calls.printed or single is None:
        return None
    try:
        at_key = single.index(KEY_1) if KEY_1 in single else single.index(VALUE_1)
        found = enclosing_object(single, at_key, lambda value: value == ONE)
        if not found:
            return _learn_tagged(calls, single, double, at_key)
        return _learn_json(single, double, at_key) or _learn_tagged_json(single, double, found)
    except (NotReadable, ValueError, AttributeError, IndexError, RecursionError):
        return None


def _holds(name: str, *others: str) -> Callable[[Any], bool]:
    def wanted(value: Any) -> bool:
        text = json.dumps(value)
        return name in text and not any(other in text for other in others)

    return wanted


def _learn_json(single: str, double: str | None, at_key: int) -> SeenCalls | None:
    """Calls that are JSON objects holding the name too; None when the name is outside."""
    at_name = single.index(NAME_1)
    found = enclosing_object(single, min(at_key, at_name), lambda value: _holds(NAME_1)(value) and
                             VALUE_1 in json.dumps(value))  # fmt: skip
    if not found and at_name > at_key:
        found = enclosing_object(single, at_key, _holds(NAME_1))
    if not found:
        return None
    start, end, value = found
    syntax = CallSyntax(kind="json", members=tuple(value))
    if NAME_1 in value:
        syntax = replace(syntax, name_is_key=True)
    else:
        name_path, arguments_path = path_to(value, NAME_1), path_to(value, ONE)
        known = {path[0] for path in (name_path, arguments_path) if path}
        made_up = next(((key,) for key in value if key not in known and "id" in key.lower()), ())
        syntax = replace(
            syntax,
            name_path=name_path,
            arguments_path=arguments_path,
            id_path=path_to(value, ID_1) or made_up,
        )
    if double is None:
        return SeenCalls(syntax, single[:start], single[end:], told_apart=False)
    first = enclosing_object(double, double.index(VALUE_1), _holds(NAME_1, NAME_2))
    second = enclosing_object(double, double.index(VALUE_2), _holds(NAME_2, NAME_1))
    if not first or not second:
        raise NotReadable
    return _placed(syntax, double[: first[0]], double[first[1] : second[0]], double[second[1] :])


def _learn_tagged_json(single: str, double: str | None, found: tuple[int, int, Any]) -> SeenCalls:
    """Calls whose name stands outside of a JSON object of arguments."""
    start, end, _ = found
    at_name = single.index(NAME_1)
    middle = _skeleton(single[at_name + len(NAME_1) : start], keys=False)
    syntax = CallSyntax(kind="tagjson")
    if double is None:
        seen = SeenCalls(syntax, _skeleton(single[:at_name]), _skeleton(single[end:]), told_apart=False)
    else:
        first = enclosing_object(double, double.index(VALUE_1), lambda value: value == ONE)
        second = enclosing_object(double, double.index(VALUE_2), lambda value: value == {KEY_1: VALUE_2})
        if not first or not second:
            raise NotReadable
        at_second = double.index(NAME_2)
        between = _skeleton(double[first[1] : at_second])
        middle = with_index(middle, _skeleton(double[at_second + len(NAME_2) : second[0]], keys=False))
        before = _skeleton(double[: double.index(NAME_1)])
        seen = _placed(syntax, before, between, _skeleton(double[second[1] :]))
    pattern = _id_pattern(seen.syntax.call_start or seen.before, middle)
    first_index = re.search(r"\d+", single[at_name + len(NAME_1) : start])
    index = int(first_index.group()) if first_index and INDEX in middle else 0
    return replace(seen, syntax=replace(seen.syntax, middle=middle, id_pattern=pattern, first_index=index))


def _id_pattern(call_start: str, middle: str) -> str:
    """Name and running number with nothing but fixed text between tags: that text is the id."""
    if INDEX not in middle or ID in middle + call_start:
        return ""
    parts = atoms(call_start)
    first = len(parts)
    while first and not is_tag(parts[first - 1]):
        first -= 1
    lead, tail = "".join(parts[first:]), middle.partition("<")[0]
    return "" if re.search(r"[\s\"'=]", lead + tail) else lead + NAME + tail


def _learn_tagged(calls: CallProbe, single: str, double: str | None, at_key: int) -> SeenCalls:
    """Calls whose arguments are written one by one, key and value apart."""
    both, with_number = (
        calls.one({KEY_1: VALUE_1, KEY_2: VALUE_2}),
        calls.one({KEY_1: NUMBER, KEY_2: VALUE_2}),
    )
    if both is None or with_number is None:
        raise NotReadable
    name_start, name_end = single.index(NAME_1), single[:at_key].rindex(NAME_1) + len(NAME_1)
    value_at = single.index(VALUE_1)
    text_start = _skeleton(single[at_key + len(KEY_1) : value_at])
    number_key = with_number.index(KEY_1) + len(KEY_1)
    number_at = with_number.index(str(NUMBER))
    number_start = _skeleton(with_number[number_key:number_at])
    text_end = _skeleton(both[both.index(VALUE_1) + len(VALUE_1) : both.index(KEY_2)])
    number_end = _skeleton(with_number[number_at + len(str(NUMBER)) : with_number.index(KEY_2)])
    quote = ("", "")
    if text_start != number_start and text_start.startswith(number_start) and text_end.endswith(number_end):
        quote = text_start[len(number_start) :], text_end[: len(text_end) - len(number_end)]
    value_start, words = number_start, {}
    if not quote[0] and text_start != number_start:
        value_start, words = _typed(text_start, number_start)
    middle = _skeleton(single[name_end:at_key])
    after = _skeleton(single[value_at + len(VALUE_1) :])[len(quote[1]) :]
    start, end, separator = split_between(middle, number_end, after)
    head_end = middle[: middle.rindex(start)] if start else middle
    syntax = CallSyntax(
        kind="tagged", head=_skeleton(single[name_start:name_end]), head_end=head_end, quote=quote,
        value_start=value_start, argument_start=start, argument_end=end, argument_separator=separator.strip(),
    )  # fmt: skip
    seen = SeenCalls(syntax, _skeleton(single[:name_start]), after[len(end) :], told_apart=False)
    if double is not None:
        seen = _two_tagged(syntax, double)
    return replace(seen, syntax=_learn_values(calls, seen.syntax, number_end, words))


def _two_tagged(syntax: CallSyntax, double: str) -> SeenCalls:
    closing = len(syntax.quote[1]) + len(syntax.argument_end.replace(KEY, KEY_1))
    first_end = double.index(VALUE_1) + len(VALUE_1) + closing
    second_end = double.index(VALUE_2) + len(VALUE_2) + closing
    at_second = double.index(NAME_2)
    second_key = double.rindex(KEY_1, 0, double.index(VALUE_2))
    middle = _skeleton(double[double[:second_key].rindex(NAME_2) + len(NAME_2) : second_key])
    start = syntax.argument_start
    head_end = with_index(syntax.head_end, middle[: middle.rindex(start)] if start else middle)
    first_index = re.search(r"\d+", syntax.head_end) if INDEX in head_end else None
    syntax = replace(syntax, head_end=head_end, first_index=int(first_index.group()) if first_index else 0)
    before, between = _skeleton(double[: double.index(NAME_1)]), _skeleton(double[first_end:at_second])
    return _placed(syntax, before, between, _skeleton(double[second_end:]))


def _typed(text_start: str, number_start: str) -> tuple[str, dict[str, str]]:
    """The value's start with TYPE in place of the word that tells the JSON type, and two words."""
    before, after = (
        _same_start(text_start, number_start),
        _same_start(text_start[::-1], number_start[::-1])[::-1],
    )
    before = before[: before.rindex('"') + 1] if '"' in before else before
    after = after[after.index('"') :] if '"' in after else after
    words = {
        "string": text_start[len(before) : len(text_start) - len(after)],
        "number": number_start[len(before) : len(number_start) - len(after)],
    }
    return before + TYPE + after, words


def _same_start(first: str, second: str) -> str:
    pairs = zip(first, second, strict=False)
    return "".join(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _learn_values(calls: CallProbe, syntax: CallSyntax, value_end: str, words: dict[str, str]) -> CallSyntax:
    """How values of each JSON type are written."""

    def written(value: Any) -> tuple[str, str] | None:
        """The type's word and the value's text."""
        text = calls.one({KEY_1: value, KEY_2: VALUE_2})
        if text is None or KEY_1 not in text or KEY_2 not in text or VALUE_2 not in text:
            return None
        body = _skeleton(text[text.index(KEY_1) + len(KEY_1) : text.rindex(KEY_2, 0, text.index(VALUE_2))])
        if not body.endswith(value_end):
            return None
        body = body[: len(body) - len(value_end)]
        before, _, after = syntax.value_start.partition(TYPE)
        pattern = re.escape(before) + ('([^"]*)' + re.escape(after) if words else "()")
        match = re.match(pattern, body, re.S)
        return (match.group(1), body[match.end() :]) if match else None

    if words:
        samples = {"boolean": True, "null": None, "array": ["Qa"], "object": _NESTED}
        shown = {kind: written(value) for kind, value in samples.items()}
        words |= {kind: text[0] for kind, text in shown.items() if text}
        syntax = replace(syntax, types=tuple(words.items()))
    nested, listed, multiline = written(_NESTED), written(["Qa", "Qb"]), written("x\ny")
    wrap = re.fullmatch(r"(<!\[CDATA\[)x\ny(\]\]>)", multiline[1] if multiline else "")
    if wrap:
        syntax = replace(syntax, wrap=(wrap.group(1), wrap.group(2)))
    return _learn_nesting(syntax, nested[1] if nested else None, listed[1] if listed else "")


def _learn_nesting(syntax: CallSyntax, nested: str | None, listed: str) -> CallSyntax:
    if nested is None:
        return syntax
    readers: tuple[tuple[Nesting, Callable[[str], Any]], ...] = (
        ("json", json.loads),
        ("python", ast.literal_eval),
    )
    for name, read in readers:
        try:
            if read(nested) == _NESTED:
                return replace(syntax, nested=name)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    if KEY in syntax.argument_end:
        item = re.match(
            re.escape(syntax.argument_start) + r"(\w+)" + re.escape(syntax.value_start) + "Qa", listed
        )
        return replace(syntax, nested="tree", item_tag=item.group(1) if item else "item")
    opening, closing = syntax.quote
    if not opening or "qna" not in nested:
        return syntax
    at_key = nested.index("qna")
    lead, tail = listed.index(opening), len(closing)
    custom = CustomValues(
        object_open=nested[:at_key].removesuffix(opening),
        key_end=nested[at_key + 3 : nested.index(opening, at_key + 3)].removeprefix(closing),
        object_separator=nested[nested.index(closing, nested.index("Qc")) + tail : nested.index("qnb")],
        object_close=nested[nested.index("5") + 1 :],
        list_open=listed[:lead],
        list_separator=listed[listed.index("Qa") + 2 + tail : listed.index("Qb") - len(opening)],
        list_close=listed[listed.index("Qb") + 2 + tail :],
    )
    return replace(syntax, nested="custom", custom=custom, bare_keys=nested[:at_key] == custom.object_open)


def _skeleton(text: str, *, keys: bool = True) -> str:
    """`text` with placeholders for the known names, ids and keys."""
    for word, place in _PLACES if keys else _PLACES[:4]:
        text = text.replace(word, place)
    return text


def _placed(syntax: CallSyntax, before: str, between: str, after: str) -> SeenCalls:
    start, end, separator = split_between(before, between, after)
    syntax = replace(syntax, call_start=start, call_end=end, separator=separator)
    return SeenCalls(syntax, before, after, told_apart=True)
