"""Syntaxes without recorded cases, and what goes wrong in the field with calls."""

from __future__ import annotations

import json

import pytest

from backend.chat import ChatTemplate
from backend.types import ToolCallPiece
from tests.backend.chat import published, toys
from tests.backend.chat.toys import (
    HERMES,
    LLAMA3,
    MISTRAL,
    PLAIN,
    PYTHONIC,
    QWEN_XML,
    anything,
    in_all_ways,
    tool,
)


def calls_of(message):
    return [(call.name, call.arguments) for call in message.tool_calls]


def test_the_toy_templates_are_learned_by_their_names() -> None:
    named = {
        "hermes": HERMES,
        "qwen_xml": QWEN_XML,
        "llama3_json": LLAMA3,
        "pythonic": PYTHONIC,
        "mistral": MISTRAL,
    }
    assert {name: ChatTemplate(source).tool_call_format for name, source in named.items()} == {
        name: name for name in named
    }


# ---- bare JSON -----------------------------------------------------------------------------


def test_bare_json_is_a_call_at_the_start_of_a_reply() -> None:
    text = '{"name": "write_note", "parameters": {"text": "}B {c"}}'
    message = in_all_ways(LLAMA3, text, anything("write_note"))
    assert calls_of(message) == [("write_note", {"text": "}B {c"})]
    assert message.content == ""


@pytest.mark.parametrize(
    "text",
    [
        "int main(void) { return 0; }",
        '{"name": "unknown_tool", "parameters": {}}',
        '{"amount": 3, "name": "write_note"}',
        'Here: {"name": "write_note", "parameters": {}}',
        '{"name": 5}',
        "{",
        "{ not json",
        '{"name": "write_note"',
        "[1, 2]",
    ],
)
def test_other_braces_are_text_in_a_bare_json_format(text: str) -> None:
    message = in_all_ways(LLAMA3, text, anything("write_note"))
    assert (message.content, message.tool_calls) == (text, ())


def test_bare_json_is_text_when_no_tools_are_offered() -> None:
    text = '{"name": "write_note", "parameters": {}}'
    assert in_all_ways(LLAMA3, text).content == text
    assert in_all_ways(LLAMA3, text, anything("write_note"), tool_choice="none").content == text


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
@pytest.mark.parametrize("name", [name for name in published.names() if name.startswith("meta-llama")])
def test_the_published_llama_templates_read_bare_json(name: str) -> None:
    template = published.template(name)
    prompt = template.render(toys.USER, tools=anything("f"))
    message = template.parse('{"name": "f", "parameters": {"a": [1]}}', prompt=prompt, tools=anything("f"))
    assert calls_of(message) == [("f", {"a": [1]})]
    assert template.tool_call_format == "llama3_json"


# ---- a bare Python list --------------------------------------------------------------------


def test_a_python_list_of_calls() -> None:
    text = "[set_offset(x=-5, y=-2.25, on=True, tag=None, name='O\\'Neil'), stop()]"
    message = in_all_ways(PYTHONIC, text, anything("set_offset", "stop"))
    assert calls_of(message) == [
        ("set_offset", {"x": -5, "y": -2.25, "on": True, "tag": None, "name": "O'Neil"}),
        ("stop", {}),
    ]
    assert all(call.error is None for call in message.tool_calls)


def test_nested_python_values_and_brackets_in_texts() -> None:
    text = "[f(a={'k': [1, (2, 3)], 'q': \"x)]\"}, b='a, b=c', c=[[], {}])]"
    message = in_all_ways(PYTHONIC, text, anything("f"))
    assert calls_of(message) == [("f", {"a": {"k": [1, [2, 3]], "q": "x)]"}, "b": "a, b=c", "c": [[], {}]})]


@pytest.mark.parametrize(
    "value", ["__import__('os')", "open", "a.b", "1+1", "f(2)", "lambda: 1", "[x for x in y]"]
)
def test_expressions_are_refused_and_never_evaluated(value: str) -> None:
    message = in_all_ways(PYTHONIC, f"[f(x={value}), g(y=1)]", anything("f", "g"))
    assert message.tool_calls[0].name == "f"
    assert message.tool_calls[0].error is not None and "malformed" in message.tool_calls[0].error
    assert "x" not in message.tool_calls[0].arguments
    json.loads(message.tool_calls[0].raw_arguments)


@pytest.mark.parametrize("text", ["[1, 2, 3]", "[link](http://x)", "[unknown(x=1)]", "see [f(x=1)]", "["])
def test_other_brackets_are_text_in_a_python_format(text: str) -> None:
    message = in_all_ways(PYTHONIC, text, anything("f"))
    assert (message.content, message.tool_calls) == (text, ())


# ---- generic calls -------------------------------------------------------------------------


def test_a_template_without_syntax_takes_calls_only_when_asked_to() -> None:
    plain, asked = ChatTemplate(PLAIN), ChatTemplate(PLAIN, tool_call_format="generic")
    assert (plain.supports_tools, plain.tool_call_format) == (False, "generic")
    assert (asked.supports_tools, asked.tool_call_format) == (True, "generic")
    text = '{"tool_call": {"name": "shot", "arguments": {"name": "home_page", "width": 80}}}'
    tools = anything("shot")
    assert plain.parse(text, prompt=plain.render(toys.USER), tools=tools).content == text
    message = asked.parse(text, prompt=asked.render(toys.USER, tools=tools), tools=tools)
    assert calls_of(message) == [("shot", {"name": "home_page", "width": 80})]
    with pytest.raises(ValueError, match="generic"):
        ChatTemplate(PLAIN, tool_call_format="hermes")


@pytest.mark.parametrize("size", range(80))
def test_a_generic_call_cut_anywhere_neither_raises_nor_takes_back(size: int) -> None:
    template = ChatTemplate(PLAIN, tool_call_format="generic")
    text = '{"tool_call": {"name": "shot", "arguments": {"name": "home_page", "width": 80}}}'
    parser = template.parser(prompt=template.render(toys.USER), tools=anything("shot"))
    pieces = [piece for character in text[:size] for piece in parser.feed(character)]
    message = parser.finish()
    told = "".join(piece.arguments_delta for piece in pieces if hasattr(piece, "arguments_delta"))
    assert '{"name": "home_page", "width": 80}'.startswith(told)
    assert len(message.tool_calls) <= 1


@pytest.mark.parametrize(
    "text", ['{"tool": 1}', '{"tool_call": 5}', '{"tool_call": {"name": "nope"}}', "{}", "x {}"]
)
def test_other_json_is_text_in_the_generic_format(text: str) -> None:
    template = ChatTemplate(PLAIN, tool_call_format="generic")
    message = template.parse(text, prompt=template.render(toys.USER), tools=anything("shot"))
    assert (message.content, message.tool_calls) == (text, ())


def test_tools_of_a_template_that_prints_none_join_the_system_turn() -> None:
    template = ChatTemplate(PLAIN, tool_call_format="generic")
    tools = [tool("shot", width={"type": "integer"})]
    fresh = template.render(toys.USER, tools=tools)
    assert fresh.startswith("<|im_start|>system\n") and '"shot"' in fresh and '{"tool_call"' in fresh
    joined = template.render([{"role": "system", "content": "Be kind."}, *toys.USER], tools=tools)
    assert joined.count("<|im_start|>system") == 1 and joined.index("Be kind.") < joined.index('"shot"')
    called = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "shot", "arguments": '{"width": 3}'}}
        ],
    }
    history = template.render([*toys.USER, called, {"role": "tool", "content": "ok", "tool_call_id": "1"}])
    assert '{"tool_call": {"name": "shot", "arguments": {"width": 3}}}' in history and "ok" in history


# ---- field faults --------------------------------------------------------------------------


def test_empty_arguments_are_told_as_an_empty_object() -> None:
    message = in_all_ways(
        HERMES, '<tool_call>\n{"name": "list_tags", "arguments": {}}\n</tool_call>', anything("list_tags")
    )
    assert calls_of(message) == [("list_tags", {})]
    assert (message.content, message.tool_calls[0].raw_arguments) == ("", "{}")


def test_escapes_survive_every_cut() -> None:
    arguments = r'{"path":"C:\\tmp\\a.txt","body":"say \"hi\"\nend"}'
    text = f'<tool_call>{{"name":"save","arguments":{arguments}}}</tool_call>'
    message = in_all_ways(HERMES, text, anything("save"))
    assert calls_of(message) == [("save", {"path": "C:\\tmp\\a.txt", "body": 'say "hi"\nend'})]


def test_an_array_of_objects_in_awkward_chunks() -> None:
    parts = ['<tool_call>{"name":"total","arguments":{"items":', '[{"', 'qty":2},{"qty":5}]}}</tool_call>']
    message = toys.reply(HERMES, parts, anything("total"))
    assert calls_of(message) == [("total", {"items": [{"qty": 2}, {"qty": 5}]})]
    assert in_all_ways(HERMES, "".join(parts), anything("total")).tool_calls == message.tool_calls


def test_text_and_two_calls_in_one_chunk_without_the_inner_mark() -> None:
    text = 'I will do both.[TOOL_CALLS]add{"a": 2.5, "b": 1}[TOOL_CALLS]scale{"x": 4}'
    message = in_all_ways(MISTRAL, text, anything("add", "scale"))
    assert message.content == "I will do both."
    assert calls_of(message) == [("add", {"a": 2.5, "b": 1}), ("scale", {"x": 4})]


def test_a_malformed_argument_leaves_valid_json_and_an_error() -> None:
    good, bad = "<parameter=cmd>\ntrue\n</parameter>", "<parameter=\necho one\n</parameter>"
    text = f"<tool_call>\n<function=run>{good}{bad}</function>\n</tool_call>"
    message = in_all_ways(QWEN_XML, text, [tool("run", cmd={"type": "string"})])
    (call,) = message.tool_calls
    assert json.loads(call.raw_arguments) == {"cmd": "true"} == call.arguments
    assert call.error is not None
    assert message.content.strip() == ""


@pytest.mark.parametrize(
    "value", ["    if ok:\n        go()\n", "   ", "\tx", "", "\n", "a</parameter>b", "<parameter", "é"]
)
def test_exactly_one_framing_newline_is_taken_off_a_tagged_text(value: str) -> None:
    text = f"<tool_call>\n<function=edit>\n<parameter=old>\n{value}\n</parameter>\n</function>\n</tool_call>"
    message = in_all_ways(QWEN_XML, text, [tool("edit", old={"type": "string"})])
    assert calls_of(message) == [("edit", {"old": value})]


def test_text_behind_a_call_in_the_same_chunk_is_kept() -> None:
    text = 'before <tool_call>{"name":"t","arguments":{}}</tool_call> after'
    message = in_all_ways(HERMES, text, anything("t"))
    assert (message.content, calls_of(message)) == ("before  after", [("t", {})])


@pytest.mark.parametrize("source", [HERMES, QWEN_XML, MISTRAL], ids=["hermes", "qwen_xml", "mistral"])
def test_json_in_prose_or_a_fence_is_no_call(source: str) -> None:
    text = 'Here is a config sample:\n```json\n{"name": "demo", "arguments": {"a": 1}}\n```'
    message = in_all_ways(source, text, anything("demo"))
    assert (message.content, message.tool_calls) == (text, ())


@pytest.mark.parametrize(
    "text", ["a <tool_call> tag", "<tool_call>", "use `<tool_call>` or <function=", "<tool_call>\nprose"]
)
def test_markers_in_prose_stay_text(text: str) -> None:
    for source in (HERMES, QWEN_XML):
        message = in_all_ways(source, text, anything("t"))
        assert (message.content.strip(), message.tool_calls) == (text.strip(), ())


GOOD = '<tool_call>\n{"name": "b", "arguments": {"x": 1}}\n</tool_call>'
BROKEN = [
    '<tool_call>\n{"name": "a", "arguments": {"x": }}\n</tool_call>',
    '<tool_call>\n{"name": "a", "arguments": {"x": "never closed}}\n</tool_call>',
    '<tool_call>\n{"name": "a", "arguments": {"x": [1, 2}}\n</tool_call>',
    '<tool_call>\n{"name": "a", "arguments": [1]}\n</tool_call>',
    '<tool_call>\n{"name": "nobody", "arguments": {}}\n</tool_call>',
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_malformed_call_keeps_its_siblings_and_becomes_an_error(broken: str) -> None:
    for text, place in ((f"{broken}\n{GOOD}", 1), (f"{GOOD}\n{broken}", 0)):
        message = in_all_ways(HERMES, text, anything("a", "b"))
        assert len(message.tool_calls) == 2
        assert (message.tool_calls[place].name, message.tool_calls[place].arguments) == ("b", {"x": 1})
        assert message.tool_calls[place].error is None
        assert message.tool_calls[1 - place].error


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"name": "a", "arguments": {"x": 1}', {"x": 1}),
        ('{"name": "a", "arguments": {"x": 1}}}', {"x": 1}),
        ('{"name": "a", "parameters": {"x": 1}}', {"x": 1}),
        ('{"name": "a", "arguments": "{\\"x\\": 1}"}', {"x": 1}),
        ('{"name": "a", "arguments": null}', {}),
        ('{"name": "a"}', {}),
        ('{"arguments": {"x": 1}, "name": "a"}', {"x": 1}),
    ],
)
def test_slips_that_leave_no_doubt_are_read(text: str, arguments: dict) -> None:
    message = in_all_ways(HERMES, f"<tool_call>\n{text}\n</tool_call>\n{GOOD}", anything("a", "b"))
    assert calls_of(message) == [("a", arguments), ("b", {"x": 1})]
    assert (message.content.strip(), message.tool_calls[0].error) == ("", None)


LOOSE = [
    '[{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}]',
    '```json\n{"name": "a", "arguments": {"x": 1}}\n```',
    '{"type": "function", "function": {"name": "a", "arguments": {"x": 1}}}',
    "{'name': 'a', 'arguments': {'x': 1}}",
    '{{"name": "a", "arguments": {"x": 1}}}',
    'a\n{"x": 1}',
    '{"name": "a", "arguments": "{\\"x\\": 1}"}',
]


def test_llamas_semicolon_stands_between_two_calls_and_in_prose() -> None:
    call = '{"name": "a", "parameters": {"x": 1}}'
    message = in_all_ways(LLAMA3, f"{call}; {call}", anything("a"))
    assert (calls_of(message), message.content) == ([("a", {"x": 1})] * 2, "")
    message = in_all_ways(LLAMA3, f"{call}; done", anything("a"))
    assert (calls_of(message), message.content) == ([("a", {"x": 1})], "; done")


@pytest.mark.parametrize("text", LOOSE)
@pytest.mark.parametrize("source", [HERMES, QWEN_XML], ids=["hermes", "qwen_xml"])
def test_another_shape_behind_the_formats_own_mark_is_a_call(source: str, text: str) -> None:
    reply = f"Now: <tool_call>\n{text}\n</tool_call>\n<tool_call>\n{text}\n</tool_call> after"
    message = in_all_ways(source, reply, anything("a", "b"))
    names = ["a", "b"] if text.startswith("[") else ["a"]
    assert [call.name for call in message.tool_calls] == names * 2
    assert message.tool_calls[0].arguments == {"x": 1}
    assert all(call.error is None for call in message.tool_calls)
    assert message.content == "Now:  after"


@pytest.mark.parametrize(
    "text",
    ["[1, 2]", '{"a": 1}', '[{"name": "nobody"}]', "a tool", '["name"]', "[{'name'"],
)
@pytest.mark.parametrize("source", [HERMES, QWEN_XML], ids=["hermes", "qwen_xml"])
def test_what_names_no_tool_behind_a_mark_stays_text(source: str, text: str) -> None:
    reply = f"<tool_call>\n{text}\n</tool_call>"
    assert in_all_ways(source, reply, anything("a")).content == reply


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mistralai-Mistral-Nemo-Instruct-2407", '[TOOL_CALLS]a{"x": 1}'),
        ("mistralai-Mistral-Nemo-Instruct-2407", '[TOOL_CALLS] {"name": "a", "arguments": {"x": 1}}'),
        ("unsloth-mistral-Devstral-Small-2507", '[TOOL_CALLS] [{"name": "a", "arguments": {"x": 1}}]'),
        ("unsloth-mistral-Devstral-Small-2507", '[TOOL_CALLS]a[CALL_ID]123456789[ARGS]{"x": 1}'),
        ("moonshotai-Kimi-K2", '<|tool_call_begin|>a:0<|tool_call_argument_begin|>{"x": 1}<|tool_call_end|>'),
        (
            "moonshotai-Kimi-K2",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.a<|tool_call_argument_begin|>"
            '{"x": 1}<|tool_call_end|><|tool_calls_section_end|>',
        ),
    ],
)
def test_a_neighbouring_versions_shape_is_a_call(name: str, text: str) -> None:
    template, tools = published.template(name), anything("a")
    prompt = template.render(toys.USER, tools=tools)
    for parts in toys.everywhere(text):
        parser = template.parser(prompt=prompt, tools=tools)
        for part in parts:
            parser.feed(part)
        message = parser.finish()
        assert calls_of(message) == [("a", {"x": 1})]
        assert (message.content, message.tool_calls[0].error) == ("", None)


def test_arguments_that_break_the_schema_are_an_error_with_the_values() -> None:
    tools = [tool("a", x={"type": "integer"})]
    (call,) = in_all_ways(
        HERMES, '<tool_call>{"name": "a", "arguments": {"x": "no"}}</tool_call>', tools
    ).tool_calls
    assert call.arguments == {"x": "no"} and call.error is not None


def test_a_call_cut_by_the_token_limit_is_incomplete() -> None:
    message = in_all_ways(HERMES, '<tool_call>\n{"name": "a", "arguments": {"x": "unfini', anything("a"))
    assert message.incomplete
    assert message.tool_calls[0].error == "the reply ended before the call was complete"


@pytest.mark.parametrize("name", ["web-search", "fs.read", "tool2", "größe", "mcp:server/do", "a b"])
@pytest.mark.parametrize("source", [HERMES, QWEN_XML, MISTRAL], ids=["hermes", "qwen_xml", "mistral"])
def test_tool_names_may_hold_any_characters(source: str, name: str) -> None:
    template, tools = ChatTemplate(source), [tool(name, q={"type": "string"})]
    call = {"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": '{"q": "ferns"}'}}
    turns = [*toys.USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    prompt = template.render(toys.USER, tools=tools)
    text = template.render(turns, tools=tools, add_generation_prompt=False)[len(prompt) :]
    assert calls_of(in_all_ways(source, text.removesuffix("<|im_end|>\n"), tools)) == [(name, {"q": "ferns"})]


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
def test_a_broken_harmony_header_costs_only_its_message() -> None:
    template = published.template("openai-gpt-oss-120b")
    text = (
        "<|channel|>commentary??<|end|><|start|>assistant<|channel|>analysis<|message|>plan<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Done.<|end|>"
    )
    for parts in toys.everywhere(text):
        parser = template.parser(prompt=template.render(toys.USER))
        for part in parts:
            parser.feed(part)
        message = parser.finish()
        assert (message.content, message.reasoning) == ("Done.", "plan")


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
@pytest.mark.parametrize("name", ["web-search", "fs.read", "größe"])
def test_harmony_reads_any_tool_name(name: str) -> None:
    template, tools = published.template("openai-gpt-oss-120b"), anything(name)
    head = f"<|start|>assistant<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>"
    text = head + '{"q": "ferns"}<|call|>'
    message = template.parse(text, prompt=template.render(toys.USER, tools=tools), tools=tools)
    assert calls_of(message) == [(name, {"q": "ferns"})]


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
@pytest.mark.parametrize(
    ("recipient", "error"),
    [("functions.nope", "no tool named 'nope'"), ("python", "no tool named 'python'"), ("a", None)],
)
def test_a_harmony_call_is_never_dropped_in_silence(recipient: str, error: str | None) -> None:
    template, tools = published.template("openai-gpt-oss-120b"), anything("a", "b")
    first = '<|channel|>commentary to=functions.b <|constrain|>json<|message|>{"x": 1}<|call|>'
    text = f"{first}<|start|>assistant<|channel|>commentary to={recipient} json<|message|>{{}}<|call|>"
    for parts in toys.everywhere(text):
        parser = template.parser(prompt=template.render(toys.USER, tools=tools), tools=tools)
        pieces = [piece for part in parts for piece in parser.feed(part)]
        message = parser.finish()
        assert [call.name for call in message.tool_calls] == ["b", recipient.removeprefix("functions.")]
        assert (error or "None") in str(message.tool_calls[1].error)
        told = [piece for piece in [*pieces, *message.pieces] if isinstance(piece, ToolCallPiece)]
        assert "".join(piece.arguments_delta for piece in told if piece.index == 0) == '{"x": 1}'


def test_values_of_tagged_calls_follow_the_schema() -> None:
    properties = {
        "s": {"type": "string"},
        "n": {"type": ["string", "null"]},
        "u": {"anyOf": [{"type": "string"}, {"type": "number"}]},
        "i": {"type": "integer"},
        "r": {"$ref": "#/$defs/flag"},
        "l": {"type": "array"},
        "e": {"enum": [1, "one"]},
    }
    tools = [tool("f", **properties)]
    tools[0]["function"]["parameters"]["$defs"] = {"flag": {"type": "boolean"}}
    written = {"s": "5123123", "n": "null", "u": "7", "i": "7", "r": "True", "l": "[1, 2]", "e": "1"}
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in written.items())
    message = in_all_ways(QWEN_XML, f"<tool_call>\n<function=f>\n{body}</function>\n</tool_call>", tools)
    assert message.tool_calls[0].arguments == {
        "s": "5123123",
        "n": None,
        "u": 7,
        "i": 7,
        "r": True,
        "l": [1, 2],
        "e": 1,
    }


def test_a_lone_bracket_is_released_at_once() -> None:
    template = ChatTemplate(HERMES)
    parser = template.parser(prompt=template.render(toys.USER), tools=anything("a"))
    told = [[piece.text for piece in parser.feed(part)] for part in ["1 <", " 2", "<tool", "box"]]
    assert told == [["1 "], ["< 2"], [], ["<toolbox"]]


@pytest.mark.skipif(not published.names(), reason=published.MISSING)
@pytest.mark.parametrize(
    "name",
    ["openai-gpt-oss-120b", "deepseek-ai-DeepSeek-V3.1", "Qwen3-Coder", "moonshotai-Kimi-K2", "GLM-4.6"],
)
@pytest.mark.parametrize(
    "text", ['Here:\n```json\n{"name": "demo", "arguments": {}}\n```', "totally { fine }"]
)
def test_json_in_prose_is_no_call_in_published_formats(name: str, text: str) -> None:
    template, tools = published.template(name), anything("demo")
    prompt = template.render(toys.USER, tools=tools)
    for parts in ([text], list(text)):
        parser = template.parser(prompt=prompt, tools=tools)
        pieces = [piece for part in parts for piece in parser.feed(part)]
        message = parser.finish()
        assert (message.content, message.tool_calls) == (text, ())
        assert "".join(piece.text for piece in [*pieces, *message.pieces]) == text


def test_a_history_with_broken_arguments_still_renders_valid_json() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"x": "unfini'}}
    turns = [*toys.USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    text = ChatTemplate(HERMES).render(turns, tools=anything("a"), add_generation_prompt=False)
    written = text.rpartition("<tool_call>")[2].partition("</tool_call>")[0]
    assert json.loads(written)["arguments"] == {"arguments": '{"x": "unfini'}


@pytest.mark.parametrize("value", ["NaN", "1e999", "-Infinity"])
def test_a_number_that_is_not_finite_is_an_error(value: str) -> None:
    template = ChatTemplate(PLAIN, tool_call_format="generic")
    text = f'{{"tool_call": {{"name": "shot", "arguments": {{"width": {value}}}}}}}'
    message = template.parse(text, prompt=template.render(toys.USER), tools=anything("shot"))
    assert message.tool_calls[0].error is not None
    assert "finite" in message.tool_calls[0].error
