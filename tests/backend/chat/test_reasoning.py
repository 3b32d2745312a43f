from __future__ import annotations

import re
import sys

import pytest

from backend.chat import ChatTemplate
from backend.chat.learning.switches import Switches
from backend.types import EFFORT_LEVELS, HeldPiece, ReasoningMode, ReasoningPiece, TextPiece
from tests.backend.chat import published, roundtrip, toys
from tests.backend.chat.toys import HERMES, PLAIN, THINK, THINK_OPEN, USER, anything, in_all_ways

needs_templates = pytest.mark.skipif(not published.names(), reason=published.MISSING)
SWITCH = "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
OPT_IN = "{% if enable_thinking %}<think>\n{% endif %}"
TOGGLEABLE = THINK.replace("assistant\n{% endif %}", "assistant\n" + SWITCH + "{% endif %}")
OPTIONAL = THINK.replace("assistant\n{% endif %}", "assistant\n" + OPT_IN + "{% endif %}")


def published_modes() -> dict[str, str]:
    """The table of reasoning modes that came with the templates."""
    page = published.SHARED / "spec" / "chat-templates.md"
    if not page.exists():
        return {}
    rows = (re.split(r"(?<!\\)\|", line) for line in page.read_text(encoding="utf-8").splitlines())
    cells = [[cell.strip() for cell in row] for row in rows if len(row) > 7]
    modes = {"never", "always", "toggleable", "opt_in", "adaptive"}
    return {row[1]: row[2] for row in cells if row[2] in modes}


@pytest.mark.parametrize(
    ("source", "mode"),
    [
        (PLAIN, "never"),
        (THINK_OPEN, "always"),
        (TOGGLEABLE, "toggleable"),
        (OPTIONAL, "opt_in"),
        (THINK, "adaptive"),
    ],
)
def test_the_five_modes(source: str, mode: str) -> None:
    assert ChatTemplate(source).reasoning_mode == mode


@needs_templates
@pytest.mark.parametrize("name", published.names())
def test_the_mode_of_every_published_template_is_the_known_one(name: str) -> None:
    modes = published_modes()
    if not modes:
        pytest.skip("the table of modes is not here")
    assert published.template(name).reasoning_mode == modes[name]


@needs_templates
@pytest.mark.parametrize("name", published.names())
def test_switches_do_what_the_mode_promises(name: str) -> None:
    template = published.template(name)
    unset = template.render(USER)
    on = template.render(USER, enable_thinking=True)
    match template.reasoning_mode:
        case "always":
            with pytest.raises(ValueError, match="always thinks"):
                template.render(USER, enable_thinking=False)
        case "toggleable":
            off = template.render(USER, enable_thinking=False)
            assert off != unset
            assert not template.opens_thought(off)
            assert template.opens_thought(on) == template.opens_thought(unset)
        case "opt_in":
            assert on != unset
            assert not template.opens_thought(unset)
        case "never" | "adaptive":
            assert not template.opens_thought(unset)
            assert not template.opens_thought(template.render(USER, enable_thinking=False))


def test_switching_renders_the_block_closed_or_open() -> None:
    assert ChatTemplate(TOGGLEABLE).render(USER, enable_thinking=False).endswith("<think>\n\n</think>\n\n")
    assert ChatTemplate(OPTIONAL).render(USER, enable_thinking=True).endswith("<think>\n")
    with pytest.raises(ValueError, match="always thinks"):
        ChatTemplate(THINK_OPEN).render(USER, enable_thinking=False)


def test_the_switch_holds_for_every_turn() -> None:
    template = ChatTemplate(TOGGLEABLE)
    turns = [*USER, {"role": "assistant", "content": "a"}, *USER]
    for conversation in (USER, turns):
        assert template.render(conversation, enable_thinking=False).endswith("</think>\n\n")


@pytest.mark.parametrize("source", [PLAIN, THINK, TOGGLEABLE])
def test_an_unknown_effort_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="reasoning_effort must be one of none, minimal"):
        ChatTemplate(source).render(USER, reasoning_effort="extreme")


def test_levels_on_a_template_without_levels_switch_thinking() -> None:
    template = ChatTemplate(TOGGLEABLE)
    off, on = template.render(USER, enable_thinking=False), template.render(USER, enable_thinking=True)
    assert template.render(USER, reasoning_effort="none") == off
    assert {template.render(USER, reasoning_effort=level) for level in EFFORT_LEVELS[1:]} == {on}


@needs_templates
def test_levels_a_template_knows_reach_it() -> None:
    gpt, hunyuan = published.template("openai-gpt-oss-120b"), published.template("tencent-Hy3")
    assert "Reasoning: high" in gpt.render(USER, reasoning_effort="high")
    assert "Reasoning: low" in gpt.render(USER, reasoning_effort="minimal")
    assert "Reasoning: high" in gpt.render(USER, reasoning_effort="max")
    assert "reasoning_effort:low" in hunyuan.render(USER, reasoning_effort="low")
    assert hunyuan.render(USER, reasoning_effort="none") == hunyuan.render(USER)
    assert hunyuan.opens_thought(hunyuan.render(USER, reasoning_effort="xhigh"))
    cohere = published.template("Cohere2MoE")
    assert not cohere.opens_thought(cohere.render(USER, reasoning_effort="none"))
    deepseek = published.template("deepseek-ai-DeepSeek-V4")
    assert not deepseek.opens_thought(deepseek.render(USER, reasoning_effort="none"))
    assert deepseek.opens_thought(deepseek.render(USER, reasoning_effort="low"))
    solar = published.template("upstage-Solar-Open-100B")
    assert "<|think|><|end|>" in solar.render(USER, enable_thinking=False)


# ---- reading thoughts ----------------------------------------------------------------------


def test_a_closing_tag_cut_anywhere_never_leaks() -> None:
    message = in_all_ways(THINK, "<think>weigh it</think>ANSWER")
    assert (message.reasoning, message.content, message.incomplete) == ("weigh it", "ANSWER", False)


def test_the_prompt_tells_whether_the_thought_is_open() -> None:
    text = "compare sizes first\n</think>\n\nThe second one."
    opened = in_all_ways(THINK_OPEN, text)
    written = in_all_ways(THINK, "<think>\n" + text)
    assert (opened.reasoning, opened.content) == ("compare sizes first", "The second one.")
    assert (written.reasoning, written.content) == (opened.reasoning, opened.content)


def test_a_thought_cut_by_the_limit_stays_a_thought() -> None:
    message = in_all_ways(THINK, "<think>first consider the outer ring, then ")
    assert message.content == ""
    assert message.reasoning == "first consider the outer ring, then"
    assert message.incomplete


def test_tags_in_an_answer_are_text() -> None:
    answer = "Models wrap thoughts in `<think>` and `</think>` marks."
    message = in_all_ways(THINK, f"<think>ok</think>{answer}")
    assert (message.reasoning, message.content) == ("ok", answer)


def test_tags_in_the_users_words_change_nothing() -> None:
    template = ChatTemplate(THINK)
    asked = 'Please explain <think>x</think> and <details type="reasoning">y</details>'
    prompt = template.render([{"role": "user", "content": asked}])
    assert asked in prompt
    message = template.parse("Sure.", prompt=prompt)
    assert (message.reasoning, message.content) == ("", "Sure.")
    unclosed = template.render([{"role": "user", "content": "what is <think>"}])
    assert not template.opens_thought(unclosed)


def test_format_none_keeps_thought_and_markers_in_the_text() -> None:
    text = "I'm\nthinking\n</think>\n\nHello"
    message = in_all_ways(THINK_OPEN, text, reasoning_format="none")
    assert (message.content, message.reasoning) == ("<think>\n" + text, "")


def test_a_continued_message_goes_on_where_it_stood() -> None:
    template = ChatTemplate(THINK)
    turns = [*USER, {"role": "assistant", "content": "Hello, ", "reasoning_content": "hm"}]
    prompt = template.render(turns, continue_final_message=True)
    assert prompt.endswith("<think>\nhm\n</think>\n\nHello, ")
    message = template.parse("\n\nworld", prompt=prompt)
    assert (message.content, message.reasoning) == ("\n\nworld", "")
    turns = [*USER, {"role": "assistant", "content": "", "reasoning_content": "I am"}]
    prompt = template.render(turns, continue_final_message=True)
    message = template.parse(" sure\n</think>\n\nYes", prompt=prompt)
    assert (message.content, message.reasoning) == ("Yes", " sure")


BOTH = HERMES.replace(
    "{{ m.content }}",
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}",
)
CALL = '<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize("tail", ["a <", "a <tool", "a <think", "a  ", "a\n", "<"])
def test_what_the_prompt_holds_of_a_reply_is_never_told_again(tail: str) -> None:
    template = ChatTemplate(HERMES)
    turns = [*USER, {"role": "assistant", "content": tail}]
    prompt = template.render(turns, continue_final_message=True, tools=anything("a"))
    for width in (1, 50):
        parser = template.parser(prompt=prompt, tools=anything("a"))
        for start in range(0, len("b c"), width):
            parser.feed("b c"[start : start + width])
        assert parser.finish().content == "b c"


def test_a_call_in_a_thought_counts_only_if_the_thought_is_never_closed() -> None:
    inside = in_all_ways(BOTH, f"<think>\nI could {CALL} but no.\n</think>\n\nDone.", anything("a"))
    assert (inside.tool_calls, inside.content) == ((), "Done.")
    assert CALL in inside.reasoning
    unclosed = in_all_ways(BOTH, f"<think>\nLet me call.\n{CALL}", anything("a"))
    assert [call.name for call in unclosed.tool_calls] == ["a"]
    assert (unclosed.reasoning, unclosed.content) == ("Let me call.", "")


def test_text_held_in_a_thought_is_shown_but_told_only_once() -> None:
    template = ChatTemplate(BOTH)
    parser = template.parser(prompt=template.render(USER, tools=anything("a")), tools=anything("a"))
    shown = [piece for part in ["<think>x ", CALL[:20], CALL[20:]] for piece in parser.feed(part)]
    assert "".join(piece.text for piece in shown if isinstance(piece, HeldPiece)) == CALL
    closing = parser.feed(" no</think>ok")
    assert "".join(piece.text for piece in closing if isinstance(piece, ReasoningPiece)) == f" {CALL} no"
    assert "".join(piece.text for piece in closing if isinstance(piece, TextPiece)) == "ok"


def test_a_fence_around_a_schema_bound_answer_is_never_shown() -> None:
    message = in_all_ways(PLAIN, '```json\n{"a": "`x`"}\n```', json_schema={"type": "object"})
    assert message.content == '{"a": "`x`"}'
    assert in_all_ways(PLAIN, '{"a": 1}', json_schema={"type": "object"}).content == '{"a": 1}'


# ---- cost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "thought", "call", "tagged call", "held"])
def test_the_work_for_a_character_does_not_grow_with_the_reply(kind: str) -> None:
    source, start = {
        "text": (HERMES, ""),
        "thought": (BOTH, "<think>"),
        "call": (HERMES, '<tool_call>{"name": "a", "arguments": {"x": "'),
        "tagged call": (toys.QWEN_XML, "<tool_call>\n<function=a>\n<parameter=x>\n"),
        "held": (BOTH, '<think><tool_call>{"name": "a", "arguments": {"x": "'),
    }[kind]
    tools = [toys.tool("a", x={"type": "string"})]
    template = ChatTemplate(source)
    prompt = template.render(USER, tools=tools)

    def calls_per_character(size: int) -> float:
        """Python functions entered; C code only looks at what is new, or `buffered` would grow."""
        parser = template.parser(prompt=prompt, tools=tools)
        parser.feed(start)
        words = "lorem < ipsum\n"
        entered = 0

        def count(_frame: object, event: str, _argument: object) -> None:
            nonlocal entered
            entered += event == "call"

        sys.setprofile(count)
        try:
            for character in (words * (size // len(words) + 1))[:size]:
                parser.feed(character)
        finally:
            sys.setprofile(None)
        if kind != "held":
            assert len(parser.stream.text) < 100
        return entered / size

    assert calls_per_character(20_000) < 1.2 * calls_per_character(1_000)


PROMPTED = {
    "Apriel-1.6-15b-Thinker-fixed": "its thought begins with words that the prompt puts into its mouth",
}


@needs_templates
@pytest.mark.parametrize(
    "name", [name for name in published.names() if published.learned(name).get("supports_tools")]
)
@pytest.mark.parametrize("thinking", [None, True, False])
def test_a_reply_to_a_tool_result_begins_where_the_prompt_ends(name: str, thinking: bool | None) -> None:
    template = published.template(name)
    if name in PROMPTED or (thinking is False and template.reasoning_mode == "always"):
        return
    called = roundtrip.assistant_turn("", "", [("alpha_tool", {"text": "x"})])
    result = {"role": "tool", "tool_call_id": "call00000", "content": "fine"}
    prompt = template.render([*USER, called, result], tools=roundtrip.TOOLS, enable_thinking=thinking)
    message = template.parse("Sunny </x> it is.", prompt=prompt, tools=roundtrip.TOOLS)
    assert message.tool_calls == ()
    assert {message.content, message.reasoning} == {"Sunny </x> it is.", ""}
    assert bool(message.reasoning) == template.opens_thought(prompt)


@needs_templates
def test_llama_calls_behind_the_python_tag_are_read() -> None:
    template = published.template("meta-llama-Llama-3.1-8B-Instruct")
    text = '<|python_tag|>{"name": "f", "parameters": {"a": 1}}'
    message = template.parse(text, prompt=template.render(USER, tools=anything("f")), tools=anything("f"))
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", {"a": 1})]
    assert message.content == ""


@pytest.mark.parametrize(
    ("mode", "unset", "on", "off"),
    [
        ("never", False, False, False),
        ("always", True, True, True),
        ("toggleable", True, True, False),
        ("adaptive", True, True, False),
        ("opt_in", False, True, False),
    ],
)
def test_a_thought_is_allowed_as_the_mode_and_the_switch_say(
    mode: ReasoningMode, unset: bool, on: bool, off: bool
) -> None:
    switches = Switches(mode)
    assert switches.allows_thought(None, None) == unset
    assert switches.allows_thought(True, None) == switches.allows_thought(None, "high") == on
    assert switches.allows_thought(False, None) == switches.allows_thought(None, "none") == off


@needs_templates
@pytest.mark.parametrize("name", published.names())
def test_an_answer_bound_to_a_schema_begins_at_once_where_a_model_does_not_think(name: str) -> None:
    template = published.template(name)
    prompt = template.render(USER)
    found = template.reply_grammar(None, json_schema={"type": "integer"}, prompt=prompt).grammar
    assert found
    thinks = template.reasoning_mode not in ("never", "opt_in") or template.opens_thought(prompt)
    assert ("thought" in found.text) <= thinks
