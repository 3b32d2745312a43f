from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from backend import native
from backend.chat.format import CallSyntax, ChatFormat, Thought
from backend.chat.grammar import reply_grammar
from backend.chat.parsing.parser import ReplyParser
from backend.grammar.schema import SchemaError
from backend.types import Grammar as Gbnf
from backend.types import TextPiece
from tests.backend.chat import published
from tests.backend.grammar.gbnf import Grammar, LlamaCpp
from tests.limits import processor_time

HERMES = ChatFormat(
    name="hermes",
    header="<|im_start|>assistant\n",
    thought=Thought("<think>", "</think>"),
    end_of_turn=("<|im_end|>",),
    calls=CallSyntax(
        kind="json",
        call_start="<tool_call>\n",
        call_end="</tool_call>",
        separator="\n",
        name_path=("name",),
        arguments_path=("arguments",),
        members=("name", "arguments"),
    ),
)
QWEN_XML = replace(
    HERMES,
    name="qwen_xml",
    calls=CallSyntax(
        kind="tagged",
        call_start="<tool_call>\n<function=",
        call_end="\n</function>\n</tool_call>",
        separator="\n",
        head_end=">\n",
        argument_start="<parameter=",
        value_start=">\n",
        argument_end="\n</parameter>",
    ),
)
BARE_JSON = replace(
    HERMES,
    name="llama3_json",
    thought=None,
    calls=CallSyntax(
        kind="json", name_path=("name",), arguments_path=("parameters",), members=("name", "parameters")
    ),
)
BARE_LIST = replace(
    HERMES,
    name="pythonic",
    thought=None,
    calls=CallSyntax(
        kind="tagged", section_start="[", section_end="]", separator=", ", head_end="(", call_end=")",
        value_start="=", argument_separator=", ", quote=("'", "'"), nested="python",
    ),
)  # fmt: skip
HARMONY = ChatFormat(
    name="harmony",
    header="<|start|>assistant",
    channels=True,
    thought=Thought("<|channel|>analysis<|message|>", "<|end|>"),
    calls=CallSyntax(
        kind="tagjson",
        call_start="<|channel|>commentary to=functions.",
        middle=" <|constrain|>json<|message|>",
        call_end="<|call|>",
        separator="<|start|>assistant",
    ),
)
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city"],
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": CITY}},
    {"type": "function", "function": {"name": "noop", "parameters": {"type": "object", "properties": {}}}},
]


def tool_grammar(chat_format: ChatFormat, tools: Any = (), **options: Any) -> Gbnf | None:
    return reply_grammar(chat_format, tools, **options).grammar


def accepts(chat_format: ChatFormat, text: str, tools: Any = TOOLS, **options: Any) -> bool:
    return _grammar(chat_format, tools, **options).accepts(text)


def _grammar(chat_format: ChatFormat, tools: Any = TOOLS, **options: Any) -> Grammar:
    found = tool_grammar(chat_format, tools, **options)
    assert found
    return Grammar.parse(found.text)


def hermes(arguments: Any, name: str = "weather") -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


# ---- tool_choice ---------------------------------------------------------------------------


def test_auto_sleeps_until_the_marker() -> None:
    found = tool_grammar(HERMES, TOOLS)
    assert found
    assert (found.lazy, found.triggers) == (True, ("<tool_call>",))
    grammar = Grammar.parse(found.text)
    assert grammar.accepts(hermes({"city": "Rome", "days": 3}))
    assert grammar.accepts(hermes({"city": "Rome"}) + "\n")
    assert grammar.accepts(hermes({}, "noop"))
    assert not grammar.allows("Hello")
    assert not grammar.allows(hermes({"city": "Rome"}) + "\nHello")


@pytest.mark.parametrize(
    "arguments", [{}, {"city": 5}, {"city": "x", "days": 8}, {"days": 1}, {"city": "x", "more": 1}, []]
)
def test_arguments_cannot_violate_the_schema(arguments: Any) -> None:
    assert not accepts(HERMES, hermes(arguments))


def test_only_offered_tools_can_be_called() -> None:
    assert not accepts(HERMES, hermes({}, "other"))


def test_required_binds_from_the_first_character() -> None:
    found = tool_grammar(HERMES, TOOLS, tool_choice="required")
    assert found
    assert not found.lazy
    grammar = Grammar.parse(found.text)
    assert grammar.accepts(hermes({"city": "Rome"}))
    assert grammar.accepts("<think>\nHm: <tool_call>?\n</think>\n\n" + hermes({"city": "Rome"}))
    assert not grammar.allows("Sure")
    assert not grammar.accepts("")
    assert not grammar.accepts("<think>only thoughts</think>")


def test_required_after_an_open_thought_needs_its_end() -> None:
    options = {"tool_choice": "required", "prime": "<think>\n"}
    assert accepts(HERMES, "Hm.\n</think>\n\n" + hermes({"city": "R"}), **options)
    assert not accepts(HERMES, hermes({"city": "R"}), **options)


def test_required_after_a_closed_thought_allows_no_second_one() -> None:
    options = {"tool_choice": "required", "prime": "<think>\n\n</think>\n\n"}
    assert accepts(HERMES, hermes({"city": "R"}), **options)
    assert not _grammar(HERMES, **options).allows("<think>")


@pytest.mark.parametrize(
    "choice", ["noop", {"type": "function", "function": {"name": "noop"}}, {"name": "noop"}]
)
def test_a_named_tool_is_the_only_one(choice: Any) -> None:
    assert accepts(HERMES, hermes({}, "noop"), tool_choice=choice)
    assert not accepts(HERMES, hermes({"city": "R"}), tool_choice=choice)


def test_a_name_that_is_not_offered_is_an_error() -> None:
    with pytest.raises(ValueError, match="Offered: weather, noop"):
        tool_grammar(HERMES, TOOLS, tool_choice="other")


def test_a_required_call_without_tools_is_an_error() -> None:
    with pytest.raises(ValueError, match="no tool"):
        tool_grammar(HERMES, [], tool_choice="required")
    with pytest.raises(ValueError, match="no tool"):
        tool_grammar(ChatFormat(), TOOLS, tool_choice="required")


def test_nothing_is_bound_without_tools_and_schema() -> None:
    assert tool_grammar(HERMES, TOOLS, tool_choice="none") is None
    assert tool_grammar(HERMES, []) is None
    assert tool_grammar(ChatFormat(), TOOLS) is None


def test_bare_functions_and_envelopes_are_the_same() -> None:
    bare = [tool["function"] for tool in TOOLS]
    assert tool_grammar(HERMES, bare) == tool_grammar(HERMES, TOOLS)


def test_parallel_calls_only_where_allowed() -> None:
    two = hermes({"city": "A"}) + "\n" + hermes({}, "noop")
    assert accepts(HERMES, two)
    assert not accepts(HERMES, two, parallel_tool_calls=False)
    assert accepts(HERMES, hermes({}, "noop"), parallel_tool_calls=False)


def test_the_number_of_calls_is_limited() -> None:
    grammar = _grammar(HERMES, tool_choice="required")
    calls = [hermes({}, "noop")] * 17
    assert grammar.accepts("\n".join(calls[:16]))
    assert grammar.accepts("\n".join(calls[:16]) + "\n")
    assert not grammar.accepts("\n".join(calls))


# ---- kinds of formats ----------------------------------------------------------------------


def xml(**arguments: str) -> str:
    body = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function=weather>\n{body}</function>\n</tool_call>"


def test_tagged_arguments_are_bound_one_by_one() -> None:
    assert accepts(QWEN_XML, xml(city="New\nYork  <b>", days="7"))
    assert accepts(QWEN_XML, xml(city=""))
    assert accepts(QWEN_XML, xml(city="5"))
    assert not accepts(QWEN_XML, xml(city="x", days="8"))
    assert not accepts(QWEN_XML, xml(city="x", days="seven"))
    assert not accepts(QWEN_XML, xml(days="7"))
    assert not accepts(QWEN_XML, xml(city="x", other="y"))


def test_a_begun_function_tag_wakes_the_grammar_too() -> None:
    found = tool_grammar(QWEN_XML, TOOLS)
    assert found
    assert found.triggers == ("<tool_call>", "<function=")
    assert Grammar.parse(found.text).accepts(xml(city="x").removeprefix("<tool_call>\n"))


def raw(schema: Any, value: str, calls: CallSyntax | None = None) -> bool:
    tools = [{"name": "t", "parameters": {"type": "object", "properties": {"p": schema}, "required": ["p"]}}]
    text = f"<tool_call>\n<function=t>\n<parameter=p>\n{value}\n</parameter>\n</function>\n</tool_call>"
    return accepts(replace(QWEN_XML, calls=calls or QWEN_XML.calls), text, tools)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"enum": ["a b", 'q"', "x\ny", 5]}, ["a b", 'q"', "x\ny", "5"], ['"a b"', "6"]),
        ({"const": {"k": [None]}}, ['{"k": [null]}'], ["{k: [null]}", '{"k": ["null"]}']),
        ({"type": "string", "pattern": "^[a-z]+$"}, ["abc"], ["ABC", '"abc"']),
        ({"type": "string", "format": "date"}, ["2024-02-29"], ["2024-02-30"]),
        ({"type": "boolean"}, ["true", "False"], ["yes", '"true"']),
        ({"type": ["string", "null"]}, ["null", "None", "text"], []),
        ({"type": ["integer", "null"]}, ["null", "12"], ["x", "1.5"]),
        ({"type": "array", "items": {"type": "string"}}, ['["a", "b"]', "[]"], ["a, b", "[1]", "['a']"]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, ['{"n": 1}', "{}"], ['{"n": "x"}']),
        ({}, ["anything", "[1]"], []),
        ({"anyOf": [{"type": "integer"}, {"enum": ["auto"]}]}, ["5", "auto"], ["x", '"auto"']),
        ({"type": "string", "maxLength": 3}, ["abc"], ["abcd"]),
    ],
)
def test_raw_values_follow_their_schema(schema: Any, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if not raw(schema, value)] == []
    assert [value for value in bad if raw(schema, value)] == []


def test_a_raw_text_cannot_hold_its_closing_tag() -> None:
    assert not raw({"type": "string"}, "a</parameter>b")
    assert raw({"type": "string"}, "a</para")


def test_python_literals_in_nested_values_where_the_family_writes_them() -> None:
    calls = replace(QWEN_XML.calls, nested="python")
    schema = {"type": "object", "properties": {"a": {"type": "array"}, "b": {"type": "boolean"}}}
    assert raw(schema, "{'a': ['x', None, \"it's\"], 'b': True}", calls)
    assert raw(schema, '{"a": ["x", null], "b": true}', calls)
    assert not raw(schema, "{'a': 'x'}", calls)


def test_a_word_beside_the_value_tells_its_type() -> None:
    calls = CallSyntax(
        kind="tagged", call_start='<invoke name="', call_end="</invoke>", head_end='">',
        argument_start='<p name="', value_start='" string="\ue004">', argument_end="</p>",
        types=(("string", "true"), ("number", "false"), ("boolean", "false"), ("null", "false"),
               ("array", "false"), ("object", "false")),
    )  # fmt: skip
    dsml = replace(HERMES, calls=calls)
    schema = {"type": "object", "properties": {"v": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}
    tools = [{"name": "t", "parameters": schema}]
    for text, good in (
        ('<p name="v" string="true">x</p>', True),
        ('<p name="v" string="true">5</p>', True),
        ('<p name="v" string="false">5</p>', True),
        ('<p name="v" string="false">x</p>', False),
        ('<p name="v" string="false">"x"</p>', False),
        ("", True),
    ):
        assert accepts(dsml, f'<invoke name="t">{text}</invoke>', tools) == good, text
    assert reply_grammar(dsml, tools).warnings == ()


def test_values_as_tags_within_tags() -> None:
    calls = CallSyntax(
        kind="tagged", call_start='<invoke name="', call_end="</invoke>", head_end='">',
        argument_start="<", value_start=">", argument_end="</\ue003>", nested="tree",
    )  # fmt: skip
    tree = replace(HERMES, calls=calls)
    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "s": {"type": "string"}},
        "required": ["x"],
    }
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": point}}, "required": ["l"]}
    tools = [{"name": "t", "parameters": schema}]

    def call(inside: str) -> str:
        return f'<invoke name="t">{inside}</invoke>'

    assert accepts(tree, call("<l><item><x>1</x><s>a b</s></item><item><x>2</x></item></l>"), tools)
    assert accepts(tree, call("<l></l>"), tools)
    assert not accepts(tree, call("<l><item><s>a</s></item></l>"), tools)
    assert not accepts(tree, call("<l><item><x>a</x></item></l>"), tools)
    assert not accepts(tree, call("<k></k>"), tools)


def test_bare_json_calls_are_bound_and_other_text_is_free() -> None:
    found = tool_grammar(BARE_JSON, TOOLS)
    assert found
    assert not found.lazy
    grammar = Grammar.parse(found.text)
    assert grammar.accepts('{"name": "weather", "parameters": {"city": "}B {c"}}')
    assert not grammar.accepts('{"name": "weather", "parameters": {"city": 5}}')
    assert not grammar.accepts('{"name": "other", "parameters": {}}')
    for text in ("int main(void) { return 0; }", "{ not json", "", '{"named": 1}', 'Well: {"name": "x"}'):
        assert grammar.accepts(text), text


def test_bare_list_calls_are_bound_and_other_text_is_free() -> None:
    grammar = _grammar(BARE_LIST)
    assert grammar.accepts("[weather(city='Rome', days=3), noop()]")
    assert grammar.accepts('[weather(city="it\'s")]')
    assert not grammar.accepts("[weather(city=5)]")
    assert grammar.accepts("[1] weather(city=5)")
    assert grammar.accepts("Hello")


def test_a_call_required_in_a_format_without_markers() -> None:
    assert accepts(BARE_JSON, '{"name": "noop", "parameters": {}}', tool_choice="required")
    assert not _grammar(BARE_JSON, tool_choice="required").allows("Hello")


def test_harmony_calls_in_both_headers() -> None:
    found = tool_grammar(HARMONY, TOOLS)
    assert found
    assert found.triggers == ("to=functions.",)
    grammar = Grammar.parse(found.text)
    for head in (" <|constrain|>json", "<|channel|>commentary json", ""):
        assert grammar.accepts(f'to=functions.weather{head}<|message|>{{"city": "R"}}')
    assert not grammar.accepts('to=functions.weather<|message|>{"city": 1}')


def test_harmony_required_and_bound_answers() -> None:
    thought = "<|channel|>analysis<|message|>Hm.<|end|>"
    call = "<|channel|>commentary to=functions.noop <|constrain|>json<|message|>{}"
    required = _grammar(HARMONY, tool_choice="required")
    assert required.accepts(call)
    assert required.accepts(thought + "<|start|>assistant" + call)
    assert not required.allows("<|channel|>final")
    answer = _grammar(HARMONY, [], json_schema={"type": "integer"})
    assert answer.accepts("<|channel|>final<|message|>5")
    assert answer.accepts(thought + "<|start|>assistant<|channel|>final <|constrain|>json<|message|>5")
    assert not answer.allows("<|channel|>final<|message|>x")


# ---- a bound answer ------------------------------------------------------------------------


def test_a_schema_binds_the_answer_and_not_the_thought() -> None:
    grammar = _grammar(HERMES, [], json_schema=CITY)
    assert grammar.accepts('{"city": "R"}')
    assert grammar.accepts('<think>Any "text" {here}</think>\n\n{"city": "R"}')
    assert not grammar.accepts("<think>x</think>\n\nHello")
    assert not grammar.accepts('{"city": 1}')
    opened = _grammar(HERMES, [], json_schema=CITY, prime="<think>\n")
    assert opened.accepts('so\n</think>\n{"city": "R"}')
    assert not opened.accepts('{"city": "R"}')


def test_a_schema_beside_tools_leaves_both_ways() -> None:
    grammar = _grammar(HERMES, TOOLS, json_schema={"type": "integer"})
    assert grammar.accepts("5")
    assert grammar.accepts(hermes({"city": "R"}))
    assert not grammar.allows("Hello")
    called = _grammar(HERMES, TOOLS, json_schema={"type": "integer"}, tool_choice="required")
    assert not called.allows("5")
    answered = _grammar(HERMES, TOOLS, json_schema={"type": "integer"}, tool_choice="none")
    assert answered.accepts("5")
    assert not answered.allows("<tool_call>")


def test_a_wrapped_answer() -> None:
    wrapped = replace(HERMES, content_start="<|START_TEXT|>", content_end="<|END_TEXT|>")
    assert accepts(wrapped, "<|START_TEXT|>5", [], json_schema={"type": "integer"})
    assert accepts(wrapped, "5", [], json_schema={"type": "integer"}, prime="<|START_TEXT|>")
    assert not accepts(wrapped, "5", [], json_schema={"type": "integer"})


def test_a_thought_stands_only_where_one_is_allowed_or_open() -> None:
    answer, thought = '{"city": "R"}', "<think>Hm.</think>\n\n"
    for options in ({"tools": []}, {}):
        free = _grammar(HERMES, json_schema=CITY, **options)
        silent = _grammar(HERMES, json_schema=CITY, allows_thought=False, **options)
        assert free.accepts(answer)
        assert free.accepts(thought + answer)
        assert not free.allows(thought + "<think>")
        assert silent.accepts(answer)
        assert not silent.allows("<think>")
    opened = _grammar(HERMES, [], json_schema=CITY, prime="<think>\n", allows_thought=False)
    assert opened.accepts("Hm.</think>" + answer)
    required = _grammar(HERMES, tool_choice="required", allows_thought=False)
    assert not required.allows("<think>")
    assert required.accepts(hermes({"city": "R"}))


@pytest.mark.parametrize("chat_format", [HERMES, BARE_JSON, HARMONY])
@pytest.mark.parametrize("tools", [[], TOOLS])
def test_a_bound_answer_is_its_value_and_nothing_around_it(chat_format: ChatFormat, tools: Any) -> None:
    grammar = _grammar(chat_format, tools, json_schema=CITY)
    head = "<|channel|>final<|message|>" if chat_format.channels else ""
    answer = head + '{"city": "R"}'
    assert grammar.accepts(answer)
    for more in ("\n", " ", "<", "<|im_end|>"):
        assert not grammar.allows(answer + more), more
    for blank in ("\n", " "):
        assert not grammar.accepts(head + blank + '{"city": "R"}')


@pytest.mark.parametrize("chat_format", [HERMES, QWEN_XML, HARMONY])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_no_grammar_spells_the_end_of_a_turn(chat_format: ChatFormat, choice: str) -> None:
    found = tool_grammar(replace(chat_format, end_of_turn=("<|stop|>",)), TOOLS, tool_choice=choice)
    assert found
    assert "stop" not in found.text


def test_an_impossible_answer_is_an_error() -> None:
    with pytest.raises(SchemaError, match="cannot be satisfied"):
        tool_grammar(HERMES, TOOLS, json_schema={"type": "integer", "minimum": 5, "maximum": 3})


@pytest.mark.parametrize(
    "schema", [{"type": "strnig"}, {"$ref": "#/nope"}, {"type": "string", "pattern": "["}]
)
def test_a_mistake_is_an_error_in_an_answers_schema_and_a_warning_in_a_tools(schema: Any) -> None:
    for tools in ([], TOOLS):
        with pytest.raises(SchemaError, match="has a mistake at #: "):
            reply_grammar(HERMES, tools, json_schema=schema)
    tool = {"name": "odd", "parameters": {"type": "object", "properties": {"p": schema}}}
    found = reply_grammar(HERMES, [tool], json_schema={"type": "integer"})
    assert found.grammar
    assert any("odd#/properties/p" in warning for warning in found.warnings)


def test_what_the_grammar_leaves_open_is_checked_on_the_answer() -> None:
    schema = {"type": "integer", "multipleOf": 3}
    for tools in ([], TOOLS):
        check = reply_grammar(HERMES, tools, json_schema=schema).answer_check
        assert check
        assert check.violations("6") == ()
        assert check.violations("7") == ("the number must be a multiple of 3, not 7",)
        assert check.violations("7 and") == ("the answer is not valid JSON",)
    odd = [{"name": "odd", "parameters": {"type": "object", "properties": {"p": schema}}}]
    assert reply_grammar(HERMES, odd, json_schema=CITY).answer_check is None
    assert reply_grammar(HERMES, odd).answer_check is None


# ---- bad schemas ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "bound", "word"),
    [
        ({"type": "object", "properties": {"p": {"type": "string", "pattern": r"(a)\1"}}}, True, "'pattern'"),
        (
            {
                "type": "object",
                "properties": {"p": {"type": "integer", "minimum": 5, "maximum": 3}},
                "required": ["p"],
            },
            True,
            "'minimum'",
        ),
        ({"type": "object", "required": ["p"], "properties": {"p": {"$ref": "#"}}}, False, "any object"),
        ({"type": "string"}, False, "any object"),
        ({"type": "object", "description": "x" * 2_000_000}, False, "any object"),
        ({"$ref": "#/$defs/missing"}, False, "'$ref'"),
    ],
)
def test_one_bad_schema_never_breaks_the_other_tools(schema: Any, bound: bool, word: str) -> None:
    tools = [*TOOLS, {"name": "bad", "parameters": schema}]
    for chat_format in (HERMES, QWEN_XML):
        found = reply_grammar(chat_format, tools)
        assert found.grammar
        assert any("bad" in warning and word in warning for warning in found.warnings), found.warnings
    grammar = Grammar.parse(tool_grammar(HERMES, tools).text)  # type: ignore[union-attr]
    assert grammar.accepts(hermes({"city": "R"}))
    assert not grammar.accepts(hermes({"city": 1}))
    assert grammar.accepts(hermes({"p": "x"} if not bound else {"p": 4}, "bad")) or bound
    assert not grammar.accepts(hermes([], "bad"))


@pytest.mark.parametrize("name", ["web-search", "fs.read", "tool_2", "größe", 'odd"name'])
def test_tool_names_are_written_as_they_are(name: str, llama_cpp: LlamaCpp) -> None:
    tools = [{"name": name, "parameters": {"type": "object", "properties": {}}}]
    found = tool_grammar(HERMES, tools)
    assert found
    call = json.dumps({"name": name, "arguments": {}}, ensure_ascii=False)
    assert llama_cpp.accepts(found.text, f"<tool_call>\n{call}\n</tool_call>")


def test_the_tools_are_not_changed() -> None:
    before = json.dumps(TOOLS)
    tool_grammar(QWEN_XML, TOOLS, tool_choice="required", json_schema=CITY)
    assert json.dumps(TOOLS) == before


# ---- every published template --------------------------------------------------------------

WORDS = st.text("abc XYZ0123456789_-é漢", min_size=1, max_size=12).filter(lambda text: text == text.strip())
PROPERTIES: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "text": ({"type": "string"}, WORDS),
    "kind": ({"type": "string", "enum": ["one", "two words"]}, st.sampled_from(["one", "two words"])),
    "count": ({"type": "integer", "minimum": -5, "maximum": 500}, st.integers(-5, 500)),
    "ratio": ({"type": "number", "minimum": 0, "maximum": 1}, st.sampled_from([0.5, 0.25, 1.0, 0.0])),
    "flag": ({"type": "boolean"}, st.booleans()),
    "items": ({"type": "array", "items": {"type": "string"}, "maxItems": 3}, st.lists(WORDS, max_size=3)),
    "spot": (
        {
            "type": "object",
            "properties": {"label": {"type": "string"}, "x": {"type": "integer"}},
            "required": ["label"],
            "additionalProperties": False,
        },
        st.fixed_dictionaries({"label": WORDS}, optional={"x": st.integers(0, 99)}).map(
            lambda spot: dict(sorted(spot.items()))
        ),
    ),
    "day": ({"type": "string", "format": "date"}, st.dates().map(str)),
}
WRONG: dict[str, Any] = {
    "kind": "three",
    "count": 501,
    "ratio": 1.5,
    "items": ["a", "b", "c", "d"],
    "spot": {"x": 1},
    "day": "today",
}


@st.composite
def calls(draw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of a tool, and arguments that satisfy them, in order."""
    # Sorted, since one family's template prints members in the order of their names.
    names = sorted(draw(st.sets(st.sampled_from(sorted(PROPERTIES)), min_size=1, max_size=5)))
    required = [name for name in names if draw(st.booleans())]
    chosen = [name for name in names if name in required or draw(st.booleans())] or names[:1]
    schema = {
        "type": "object",
        "properties": {name: {**PROPERTIES[name][0], "description": "d"} for name in names},
        "required": required,
    }
    return schema, {name: draw(PROPERTIES[name][1]) for name in chosen}


def calling() -> list[str]:
    """The templates that print calls."""
    known = {name: published.learned(name) for name in published.names()}
    calling = {name for name, told in known.items() if told.get("supports_tools")}
    return sorted(name for name in calling if "prints_calls" in known[name]["rules"])


def rendered_calls(name: str, tools: list[dict[str, Any]], made: list[dict[str, Any]]) -> str:
    """What the template prints of an assistant's turn with these calls, from the first trigger on."""
    template = published.template(name)
    turn = {"role": "assistant", "content": "", "tool_calls": made}
    user = {"role": "user", "content": "Quserask"}
    text = template.render([user, turn], tools=tools, add_generation_prompt=False)
    return text[text.rindex("Quserask") + len("Quserask") :]


def made_call(name: str, arguments: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return {
        "id": f"callabcd{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
    }


def reader(name: str, schema: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    """Tells whether the grammar of a template takes the template's own rendering of a call."""
    template = published.template(name)
    tools = [{"name": "look_up", "description": "d", "parameters": schema}]
    found = tool_grammar(template.format, tools, parallel_tool_calls=False)
    assert found
    grammar = Grammar.parse(found.text)

    def accepts(arguments: dict[str, Any]) -> bool:
        text = rendered_calls(name, tools, [made_call("look_up", arguments)])
        if not found.lazy:
            header = template.format.header.strip()
            start = text.index(header) + len(header)
            return _takes(grammar, text[start:].lstrip(), template.format)
        starts = [text.index(trigger) for trigger in found.triggers if trigger in text]
        assert starts, (found.triggers, text)
        return _takes(grammar, text[min(starts) :], template.format)

    return accepts


def _takes(grammar: Grammar, text: str, chat_format: ChatFormat) -> bool:
    """Whether the grammar takes the text up to the end of the turn."""
    ends = ("</s>", "<|call|>", "<|START_OF_TURN_TOKEN|>", *(end.strip() for end in chat_format.end_of_turn))
    for cut in range(len(text), 0, -1):
        rest = text[cut:].strip()
        if (not rest or rest.startswith(ends)) and grammar.accepts(text[:cut].rstrip()):
            return True
    return False


one_by_one = settings(
    max_examples=8,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
CALLING = calling() or [pytest.param("none", marks=pytest.mark.skip(published.MISSING))]


@pytest.mark.parametrize("name", CALLING)
def test_rendered_calls_are_accepted_and_violations_are_not(name: str) -> None:
    @one_by_one
    @given(calls(), st.randoms(use_true_random=False))
    def check(call: tuple[dict[str, Any], dict[str, Any]], source: Any) -> None:
        schema, arguments = call
        accepts = reader(name, schema)
        assert accepts(arguments), arguments
        wrong = [key for key in arguments if key in WRONG]
        assume(wrong)
        key = source.choice(wrong)
        assert not accepts({**arguments, key: WRONG[key]}), (key, arguments)

    check()


@pytest.mark.parametrize("name", CALLING)
def test_a_forced_call_is_never_text_wherever_it_is_cut(name: str) -> None:
    template = published.template(name)
    prompt = template.render([{"role": "user", "content": "hi"}], tools=TOOLS)
    found = template.reply_grammar(TOOLS, tool_choice="weather", parallel_tool_calls=False, prompt=prompt)
    assert found.grammar
    grammar = Grammar.parse(found.grammar.text)
    reply = grammar.sample(random.Random(7), grammar.shortest())
    for cut in range(len(reply) + 1):
        for broken in ("", "\ufffd"):  # Half a character reads as a replacement character.
            parsed = template.parse(reply[:cut] + broken, prompt=prompt, tools=TOOLS, tool_choice="weather")
            assert parsed.content == "", reply[:cut]
    whole = template.parse(reply, prompt=prompt, tools=TOOLS, tool_choice="weather")
    assert [call.name for call in whole.tool_calls] == ["weather"]
    assert not whole.incomplete


def test_what_a_free_reply_leaves_undecided_is_text() -> None:
    parser = ReplyParser(HERMES, tools=TOOLS)
    parser.feed("1 <")
    assert parser.finish().content == "1 <"
    forced = ReplyParser(HERMES, tools=TOOLS, forced=True)
    told = forced.feed("Sure\ufffd") + forced.feed("! <tool_")
    assert "".join(piece.text for piece in told if isinstance(piece, TextPiece)) == "Sure\ufffd! "
    assert forced.finish().content == "Sure\ufffd! "


@pytest.mark.parametrize("name", CALLING)
def test_every_template_compiles_in_llama_cpp(name: str, llama_cpp: LlamaCpp) -> None:
    chat_format = published.template(name).format
    for choice in ("auto", "required", "weather"):
        found = reply_grammar(chat_format, TOOLS, tool_choice=choice, json_schema=None)
        assert found.grammar
        assert found.warnings == ()
        assert llama_cpp.compiles(found.grammar.text)
    bound = tool_grammar(chat_format, [], json_schema=CITY)
    assert bound
    assert llama_cpp.compiles(bound.text)


@pytest.fixture(scope="module")
def llama_cpp(tiny_llama: Any) -> Any:
    model = native.Model.load(tiny_llama, vocab_only=True)
    assert model
    yield LlamaCpp(model)
    model.close()


def test_hostile_tools_leave_the_others_and_the_chat_alone() -> None:
    patterns = {f"p{i}": {"type": "string", "pattern": f".*a{i}.{{{i % 30}}}b"} for i in range(300)}
    hostile = [
        {"name": f"evil{i}", "parameters": {"type": "object", "properties": patterns | {f"q{i}": {}}}}
        for i in range(100)
    ]
    numbered = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    good = {"name": "good", "parameters": numbered}
    with processor_time(8):
        found = reply_grammar(HERMES, [good, *hostile], tool_choice="required")
    assert found.grammar is not None and '"\\"n\\":"' in found.grammar.text
    told = [warning for warning in found.warnings if "may be any object" in warning]
    assert 50 < len(told) <= 100


def test_a_tool_nested_without_end_is_offered_without_its_depths() -> None:
    deep = json.loads('{"type":"object","properties":{"a":' * 300 + "{}" + "}}" * 300)
    made = {"type": "function", "function": {"name": "deep", "parameters": deep}}
    found = reply_grammar(HERMES, [made], tool_choice="required")
    assert found.grammar is not None
