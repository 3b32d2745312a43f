from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.chat import ChatTemplate
from tests.backend.chat import published, roundtrip

AWKWARD = st.sampled_from(
    [
        "",
        "plain",
        ' "q" \\ b',
        "it's",
        "\nx\n",
        "  pad  ",
        "null",
        "5123123",
        "true",
        "a\u2028b",
        "é漢😀",
        "\ttab",
        "</parameter>",
        "a</arg_value>b",
        "<tool_call>",
        "</tool_call>",
        '{"a": 1}',
        "[1]",
        "one\ntwo",
        "<b>&'",
        "}",
        "```",
        "]",
        "<|tool_call_end|>",
        "</think>",
        "<function=x>",
        "<｜DSML｜invoke>",
    ]
)
TEXT = AWKWARD | st.text(
    st.characters(
        codec="utf-8",
        exclude_characters="<>[]{}|｜\r\x0b\x0c\x1c\x1d\x1e\x85\u2029",
        exclude_categories=["Cc", "Cs", "Co"],
    ),
    max_size=12,
)
LEAF = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.sampled_from([2.5, -0.25]) | AWKWARD
TREE = st.dictionaries(st.sampled_from(["a", "key_2"]), LEAF | st.lists(LEAF, max_size=2), max_size=2)
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXT,
        "more": TEXT,
        "count": st.integers(-(10**12), 10**12),
        "share": st.sampled_from([2.5, -0.25]),
        "flag": st.booleans(),
        "none": st.none(),
        "list": st.lists(LEAF | TREE, max_size=3),
        "tree": TREE,
    },
)
CALLS = st.lists(st.tuples(st.sampled_from(["alpha_tool", "beta-tool"]), ARGUMENTS), max_size=3)
CONTENT = st.sampled_from(["", "", "Some text.", "two\n\nlines < here", "a `code` }"])
THOUGHTS = st.sampled_from(["", "I think\nso.", "hm <b> ok"])

# What a template cannot express, and why.
NO_THOUGHT = {"Apriel-1.6-15b-Thinker-fixed": "marks only thoughts that the prompt began"}
NO_CONTENT = {"NVIDIA-Nemotron-Nano-v2": "prints the text of the last turn inside an open thought"}
NO_CONTENT_BESIDE_CALLS = {
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "prints the text in a turn of its own, behind the calls",
    "openai-gpt-oss-120b": "prints text beside calls as analysis",
}
ONE_CALL = {
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "separates calls in a way only the first of them shows",
}
NO_NULLS = {
    "MiniMax-M3": "leaves null out, and writes empty lists and objects as empty tags",
    "LFM2.5-8B-A1B": "prints Python text without escapes",
    "ByteDance-Seed-OSS": "prints nested values as Python, with quotes that JSON lookalikes break",
}


def is_readable(template_name: str, value: Any) -> bool:
    """Whether the family's own printing of `value` can be read back at all."""
    match template_name, value:
        case _, dict():
            return all(is_readable(template_name, item) for item in value.values())
        case _, list():
            return all(is_readable(template_name, item) for item in value)
        case ("LFM2.5-8B-A1B", str()):
            return not any(mark in value for mark in "'\"\\\n\t")
        case ("llama-cpp-deepseek-r1" | "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", str()):
            return "</think>" not in value
        case ("CohereForAI-c4ai-command-r-plus-tool_use", str()):
            return "\u2028" not in value
        case _:
            return True


def plain(value: Any) -> Any:
    """Nested values without what `NO_NULLS` families leave out: text stays, the rest is numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()} or {"a": 1}
    if isinstance(value, list):
        return [plain(item) for item in value] or [1]
    return 7 if value is None or value == "" or isinstance(value, str) else value


def expressible(name: str, template: ChatTemplate, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    if template.rules.one_call or name in ONE_CALL:
        calls = calls[:1]
    if name in NO_NULLS:
        calls = [
            (
                tool,
                {
                    key: plain(value) if key in ("list", "tree") else value
                    for key, value in arguments.items()
                    if key != "none"
                },
            )
            for tool, arguments in calls
        ]
    return [
        (tool, {key: value for key, value in arguments.items() if is_readable(name, value)})
        for tool, arguments in calls
    ]


def without_end(template: ChatTemplate, reply: str) -> str:
    """The reply as an engine hands it over: the end of the turn is swallowed."""
    reply = reply.removesuffix("<|tool_response>").partition("<｜end▁of▁sentence｜>")[0]
    reply = reply.partition("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>")[0]  # instructions behind the turn
    ends = sorted(template.format.end_of_turn, key=len, reverse=True)
    while end := next((each for each in ends if reply.rstrip().endswith(each)), ""):
        reply = reply.rstrip().removesuffix(end)
    return reply


TEMPLATES = [name for name in published.names() if published.learned(name).get("supports_tools")]


@pytest.mark.skipif(not TEMPLATES, reason=published.MISSING)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=CONTENT, thought=THOUGHTS, calls=CALLS)
def test_a_turn_that_a_template_prints_is_read_back(
    name: str, content: str, thought: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    template = published.template(name)
    calls = expressible(name, template, calls)
    thought = "" if name in NO_THOUGHT else thought
    content = "" if name in NO_CONTENT or (calls and name in NO_CONTENT_BESIDE_CALLS) else content
    if not content and not calls:
        if name in NO_CONTENT:
            return
        content = "x"
    prompt, reply = roundtrip.written(template, roundtrip.assistant_turn(content, thought, calls))
    reply = without_end(template, reply)
    whole = roundtrip.parsed(template, prompt, reply)
    for got, wanted in zip(whole.tool_calls, calls, strict=True):
        assert (got.name, got.arguments, got.error) == (*wanted, None)
        assert {k: type(v) for k, v in got.arguments.items()} == {k: type(v) for k, v in wanted[1].items()}
    assert whole.content.strip() == (content if content in reply else "")
    assert whole.reasoning == (thought if thought in reply else "")
    single = roundtrip.parsed(template, prompt, reply, width=1)
    assert (single.content, single.reasoning, single.tool_calls) == (
        whole.content,
        whole.reasoning,
        whole.tool_calls,
    )
