"""What a reader has to know of a reply that is not what it should be: it is said, and never shown as text."""

from __future__ import annotations

import json

import pytest

from backend.chat.parsing.parser import ENDS_UNBEGUN
from tests.backend.chat.toys import (
    HERMES,
    LLAMA3,
    MISTRAL,
    PLAIN,
    QWEN_XML,
    THINK,
    THINK_OPEN,
    anything,
    in_all_ways,
    tool,
)

HARMONY = (
    "{% for m in messages %}<|start|>{{ m.role }}<|channel|>final<|message|>"
    "{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)


# ---- the end of a thought that was not begun -----------------------------------------------


@pytest.mark.parametrize(
    "text", ["</think>\n\nHello", "\n</think>\n\n\nHello", "</think>\nHello", "</think> Hello"]
)
def test_no_blank_lines_lead_an_answer_behind_a_thoughts_end(text: str) -> None:
    message = in_all_ways(THINK, text)
    assert message.content.lstrip(" ") == "Hello"
    assert message.warnings == ()


@pytest.mark.parametrize("source", [THINK, THINK_OPEN], ids=["closed", "open"])
def test_a_second_end_before_the_answer_is_dropped(source: str) -> None:
    opened = "<think>\n" if source is THINK else ""
    message = in_all_ways(source, f"{opened}so\n</think>\n</think>\n\nHello")
    assert (message.reasoning, message.content, message.warnings) == ("so", "Hello", ())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I think so.\n</think>\n\nHello", "I think so.\n\n\nHello"),
        ("Hello</think>", "Hello"),
        ("a</think>b</think>c", "abc"),
        ("<think>x</think>\nHello</think> you", "Hello you"),
    ],
)
def test_an_end_behind_text_is_said_and_not_shown(text: str, shown: str) -> None:
    message = in_all_ways(THINK, text)
    assert message.content == shown
    assert message.warnings == (ENDS_UNBEGUN,)


@pytest.mark.parametrize(
    "text", ["Use `</think>` to end.", "Like so:\n```\n<p></think>\n```\nDone.", "`a` and `</think>`"]
)
def test_in_code_it_is_text(text: str) -> None:
    message = in_all_ways(THINK, text)
    assert (message.content, message.warnings) == (text, ())


def test_with_markers_kept_it_stays() -> None:
    message = in_all_ways(THINK, "so </think> Hello", reasoning_format="none")
    assert message.content == "so </think> Hello"


# ---- a call that nobody offered ------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (HERMES, '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'),
        (HERMES, 'Let me look.\n<tool_call>\n{"name": "now", "arguments": {"x": 1}}\n</tool_call>'),
        (QWEN_XML, "<tool_call>\n<function=now>\n</function>\n</tool_call>"),
        (MISTRAL, "[TOOL_CALLS]now[ARGS]{}"),
        (LLAMA3, '{"name": "now", "parameters": {}}'),
        (HARMONY, '<|channel|>commentary to=functions.now <|constrain|>json<|message|>{"a": 1}<|call|>'),
        (HARMONY, "<|channel|>analysis<|message|>hm<|end|><|start|>assistant to=functions.now<|message|>{}"),
    ],
)
def test_a_call_without_tools_is_told_by_its_name(source: str, text: str) -> None:
    message = in_all_ways(source, text)
    assert message.tool_calls == ()
    assert message.warnings == ("The model called the tool now, but no tools are offered.",)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (HERMES, "Hello."),
        (HERMES, "a <tool_call> tag"),
        (LLAMA3, '{"name": "Ada", "age": 36}'),
        (LLAMA3, 'Here: {"name": "now", "parameters": {}}'),
        (PLAIN, '<tool_call>{"name": "now", "arguments": {}}</tool_call>'),
        (HARMONY, "<|channel|>final<|message|>Hello<|return|>"),
    ],
)
def test_what_is_no_call_is_not_called_one(source: str, text: str) -> None:
    assert in_all_ways(source, text).warnings == ()


# ---- malformed calls -----------------------------------------------------------------------


def test_a_middle_call_that_is_not_closed_names_its_own_fault() -> None:
    def call(name: str, arguments: str) -> str:
        return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'

    text = "\n".join([call("a", "{}"), call("b", '{"x": "never closed}'), call("c", '{"y": 2}')])
    message = in_all_ways(HERMES, text, anything("a", "b", "c"))
    assert [one.name for one in message.tool_calls] == ["a", "b", "c"]
    assert [one.error for one in message.tool_calls] == [
        None,
        "the call is malformed: its brackets or quotes are not closed",
        None,
    ]
    assert not message.incomplete


def test_the_words_that_spoil_a_tagged_call_are_kept_with_its_fault() -> None:
    text = (
        "<tool_call>\n<function=run><parameter=cmd>\ntrue\n</parameter><parameter=\necho one\n</parameter>"
        "</function>\n</tool_call>"
    )
    (call,) = in_all_ways(QWEN_XML, text, [tool("run", cmd={"type": "string"})]).tool_calls
    assert json.loads(call.raw_arguments) == {"cmd": "true"}
    assert call.error is not None
    assert "after its argument 'cmd': <parameter= echo one </parameter>" in call.error


def test_a_long_spoiled_call_is_quoted_by_its_beginning() -> None:
    junk = "echo " * 5000
    text = f"<tool_call>\n<function=run>{junk}</function>\n</tool_call>"
    (call,) = in_all_ways_once(text)
    assert call.error is not None
    assert "before its arguments: echo echo" in call.error
    assert len(call.error) < 300


def in_all_ways_once(text: str):
    from tests.backend.chat.toys import reply

    return reply(QWEN_XML, text, [tool("run", cmd={"type": "string"})]).tool_calls
