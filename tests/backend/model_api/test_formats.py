"""Thinking and tools through the whole model API, on tiny models with chat templates of their own.

Replies are forced or constrained: random weights say nothing by themselves.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend import GenerativeModel, load
from backend.chat_engine import Request
from backend.stream import Inbox
from backend.types import (
    ChatOutcome,
    GenerationConfig,
    ReasoningPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
)

HERMES = """{%- if tools %}{{ '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{ messages[0].content + '\\n\\n' }}{% endif %}
{{- '# Tools\\n<tools>' }}{% for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}
{{- '\\n</tools>\\nCall with <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content and loop.last %}
{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- (call.function.arguments if call.function.arguments is string else call.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}{% endfor %}{{ '<|im_end|>\\n' }}
{%- elif message.role == 'user' %}{{ '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if THINKING %}{{ '<think>\\n' }}{% else %}{{ CLOSED }}{% endif %}{% endif %}"""

CLOSED = "'<think>\\n\\n</think>\\n\\n'"
TOGGLEABLE = HERMES.replace("THINKING", "enable_thinking is not defined or enable_thinking").replace(
    "CLOSED", CLOSED
)
OPT_IN = HERMES.replace("THINKING", "enable_thinking is defined and enable_thinking").replace(
    "CLOSED", CLOSED
)
ALWAYS = HERMES.replace("THINKING", "true").replace("CLOSED", CLOSED)
ADAPTIVE = HERMES.replace("THINKING", "false").replace("CLOSED", "''")
NEVER = ADAPTIVE.replace("{{- '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}", "{{- '' }}")

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"type": "integer", "maximum": 9}},
            "required": ["city", "days"],
        },
    },
}
HI = [{"role": "user", "content": "hi"}]
CALL = 'Let me see.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>'


def load_with(path: Path, template: str, **options: Any) -> GenerativeModel:
    return load(path, chat_template=template, threads=1, slots=2, max_seq=1024, **options)


@pytest.fixture(scope="module")
def model(tiny_llama: Path) -> Iterator[GenerativeModel]:
    with load_with(tiny_llama, TOGGLEABLE) as loaded:
        yield loaded


def forced(model: GenerativeModel, text: str, **config: Any) -> list[Any]:
    """The pieces of a reply that is written as told."""
    fields = {key: config.pop(key) for key in ("tools",) if key in config}
    request = Request(messages=HI, forced=text, config=GenerationConfig(**config), **fields)
    inbox = Inbox()
    model.pipeline.start(request, inbox.put)
    return list(inbox)


# ---- 16 to 25: what a template is probed for ---------------------------------------------------


@pytest.mark.parametrize(
    ("number", "template", "mode"),
    [(16, NEVER, "never"), (17, ALWAYS, "always"), (18, TOGGLEABLE, "toggleable"),
     (19, OPT_IN, "opt_in"), (20, ADAPTIVE, "adaptive")],
)  # fmt: skip
def test_16_to_21_reasoning_mode(tiny_llama: Path, number: int, template: str, mode: str) -> None:
    with load_with(tiny_llama, template) as loaded:
        assert loaded.reasoning_mode == mode
        assert loaded.supports_thinking is (mode != "never")
        assert loaded.card.reasoning_mode == mode


def test_22_24_25_tools_of_a_template(model: GenerativeModel) -> None:
    assert model.supports_tools
    assert model.tool_call_format == "hermes"
    assert model.template_renders_tools


def test_23_no_template_no_tools(tiny_base: Path) -> None:
    with load(tiny_base, threads=1) as base:
        assert not base.supports_tools
        assert base.tool_call_format == "generic"
        assert not base.template_renders_tools


def test_22_generic_tools_only_when_asked_for(tiny_llama: Path) -> None:
    with load(tiny_llama, threads=1) as plain:
        assert not plain.supports_tools
        with pytest.raises(ValueError, match="generic"):
            plain.chat(HI, tools=[WEATHER])
    with load(tiny_llama, threads=1, tool_call_format="generic", max_seq=2048) as generic:
        assert generic.supports_tools
        prompt = generic.render(HI, tools=[WEATHER])
        assert "weather" in prompt  # 28: a system turn is created for the tools block
        assert prompt.index("weather") < prompt.index("hi")
        text = generic.chat(
            HI, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, seed=1, max_new_tokens=200
        )
        assert generic.report is not None
        assert [call.name for call in generic.report.tool_calls] == ["weather"], text


# ---- 27 to 37: rendering -----------------------------------------------------------------------


def test_27_envelope_and_bare_tools_render_the_same(model: GenerativeModel) -> None:
    assert model.render(HI, tools=[WEATHER]) == model.render(HI, tools=[WEATHER["function"]])


def test_30_calls_and_results_render(model: GenerativeModel) -> None:
    call = ToolCall("id1", "weather", {"city": "Rome", "days": 1})
    turns = [
        *HI,
        {"role": "assistant", "content": "", "tool_calls": [call.to_message()]},
        {"role": "tool", "tool_call_id": "id1", "content": "sunny"},
    ]
    prompt = model.render(turns, tools=[WEATHER])
    assert '"city": "Rome"' in prompt
    assert "<tool_response>\nsunny" in prompt


def test_31_thinking_off_renders_the_block_closed(model: GenerativeModel) -> None:
    assert model.render(HI, enable_thinking=False).endswith("<think>\n\n</think>\n\n")


def test_32_thinking_on_renders_the_block_open(tiny_llama: Path) -> None:
    with load_with(tiny_llama, OPT_IN) as opt_in:
        assert opt_in.render(HI, enable_thinking=True).endswith("<think>\n")
        assert opt_in.render(HI).endswith("</think>\n\n")


def test_33_a_model_that_always_thinks_has_no_off_switch(tiny_llama: Path) -> None:
    with load_with(tiny_llama, ALWAYS) as always, pytest.raises(ValueError, match="always thinks"):
        always.render(HI, enable_thinking=False)


def test_34_35_effort_levels(tiny_llama: Path, model: GenerativeModel) -> None:
    with pytest.raises(ValueError, match="reasoning_effort"):
        model.render(HI, reasoning_effort="enormous")
    levels = TOGGLEABLE.replace(
        "'<|im_start|>assistant\\n' }}\n{%- if enable",
        "'<|im_start|>assistant\\n' }}\n{%- if reasoning_effort %}{{ '[' + reasoning_effort + ']' }}"
        "{% endif %}{%- if enable",
    )
    with load_with(tiny_llama, levels) as leveled:
        assert leveled.render(HI, reasoning_effort="high") != leveled.render(HI, reasoning_effort="low")
        assert "[high]" in leveled.render(HI, config={"reasoning_effort": "high"})


# ---- 62, 70 to 72: replies ---------------------------------------------------------------------


def test_70_a_call_is_no_text(model: GenerativeModel) -> None:
    pieces = forced(model, CALL, tools=(WEATHER,), enable_thinking=False)
    outcome = pieces[-1]
    assert isinstance(outcome, ChatOutcome)
    assert outcome.text.strip() == "Let me see."
    assert outcome.finish == "tool_calls"
    (call,) = outcome.tool_calls
    assert (call.name, call.arguments) == ("weather", {"city": "Rome", "days": 2})
    assert len(call.id) == 9
    assert pieces[-2] == call
    deltas = "".join(piece.arguments_delta for piece in pieces if isinstance(piece, ToolCallPiece))
    assert json.loads(deltas) == call.arguments
    assert "<tool_call>" not in "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def test_72_reasoning_is_kept_apart(model: GenerativeModel) -> None:
    pieces = forced(model, "I must greet.\n</think>\n\nHello!")
    outcome = pieces[-1]
    assert outcome.reasoning.strip() == "I must greet."
    assert outcome.text.strip() == "Hello!"
    assert 0 < outcome.reasoning_tokens < outcome.new_tokens
    assert any(isinstance(piece, ReasoningPiece) for piece in pieces)


def test_reasoning_format_none_leaves_the_markers(model: GenerativeModel) -> None:
    outcome = forced(model, "I must greet.\n</think>\n\nHello!", reasoning_format="none")[-1]
    assert outcome.reasoning == ""
    assert "</think>" in outcome.text


THOUGHT = "<think>\nI must greet.\n</think>\n\nHello!"


@pytest.mark.parametrize("template", [NEVER, None])
def test_reasoning_format_on_reads_thoughts_that_the_template_does_not_show(
    tiny_llama: Path, tiny_base: Path, template: str | None
) -> None:
    with load_with(tiny_llama, template) if template else load(tiny_base, threads=1, max_seq=1024) as loaded:
        assert forced(loaded, THOUGHT)[-1].text.startswith("<think>")
        assert forced(loaded, THOUGHT, reasoning_format="none")[-1].text.startswith("<think>")
        pieces = forced(loaded, THOUGHT, reasoning_format="on")
        outcome = pieces[-1]
        assert (outcome.reasoning.strip(), outcome.text) == ("I must greet.", "Hello!")
        assert 0 < outcome.reasoning_tokens < outcome.new_tokens
        assert any(isinstance(piece, ReasoningPiece) for piece in pieces)
        assert forced(loaded, "Hello!", reasoning_format="on")[-1].text == "Hello!"


def test_a_thought_read_by_on_is_left_out_of_history_as_the_template_does(tiny_llama: Path) -> None:
    with load_with(tiny_llama, NEVER) as loaded:
        said = {"role": "assistant", "content": "Hello!"}
        thought = {**said, "reasoning_content": "I must greet."}
        assert loaded.render([*HI, thought, *HI]) == loaded.render([*HI, said, *HI])


def test_on_holds_an_assumed_thought_to_its_budget(tiny_llama: Path) -> None:
    with load_with(tiny_llama, NEVER) as loaded:
        loaded.chat(
            HI, reasoning_format="on", reasoning_budget=0, temperature=0, max_new_tokens=24, ignore_eos=True
        )
        assert loaded.report is not None
        assert loaded.report.reasoning_tokens == 0


@pytest.mark.parametrize(
    ("template", "config", "told"),
    [
        (NEVER, {"enable_thinking": True}, "cannot be made to think"),
        (NEVER, {"reasoning_effort": "high"}, "not a thinking model"),
        (NEVER, {"enable_thinking": False}, ""),
        (NEVER, {"reasoning_effort": "none"}, ""),
        (ALWAYS, {"enable_thinking": False}, "always thinks"),
        (ALWAYS, {"enable_thinking": True}, ""),
        (TOGGLEABLE, {"enable_thinking": True, "reasoning_effort": "low"}, ""),
    ],
)
def test_a_model_says_what_it_cannot_do_about_thinking(
    tiny_llama: Path, template: str, config: dict[str, Any], told: str
) -> None:
    with load_with(tiny_llama, template) as loaded:
        unmet = loaded.card.unmet_thinking(GenerationConfig(**config))
    assert told in unmet
    assert bool(unmet) == bool(told)


def test_a_thought_cut_by_the_limit_stays_a_thought(model: GenerativeModel) -> None:
    outcome = forced(model, "I must greet them all", max_new_tokens=3)[-1]
    assert outcome.finish == "length"
    assert outcome.text == ""
    assert outcome.reasoning


def test_the_engine_closes_a_thought_that_spent_its_budget(model: GenerativeModel) -> None:
    model.chat(HI, reasoning_budget=5, temperature=0, max_new_tokens=60, ignore_eos=True)
    report = model.report
    assert report is not None
    assert 0 < report.reasoning_tokens <= 5 + len(model.tokenizer.encode("\n</think>\n\n", special=True))
    assert report.text


def test_71_a_switch_for_one_call_does_not_stick(model: GenerativeModel) -> None:
    before = model.render(HI)
    model.chat(HI, enable_thinking=False, max_new_tokens=2)
    assert model.render(HI) == before
    assert before.endswith("<think>\n")


def test_37_tools_alone_change_no_switch(model: GenerativeModel) -> None:
    assert model.render(HI, tools=[WEATHER]).endswith("<think>\n")


def test_a_schema_binds_the_answer_and_not_the_thought(model: GenerativeModel) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    text = model.chat(HI, json_schema=schema, reasoning_budget=4, temperature=1, seed=3, max_new_tokens=120)
    assert isinstance(json.loads(text)["n"], int)
    assert model.report is not None
    assert model.report.reasoning


@pytest.mark.parametrize("budget", [0, 1, 5])
@pytest.mark.parametrize(
    "grammar", ['root ::= "yes" | "no"', 'root ::= open-thought\nopen-thought ::= "yes"']
)
def test_an_end_inside_the_thought_leaves_no_answer_out_that_a_grammar_asks_for(
    model: GenerativeModel, budget: int, grammar: str
) -> None:
    ends = dict.fromkeys(model.handle.eog_tokens, 50.0)
    text = model.chat(
        HI, grammar=grammar, reasoning_budget=budget, logit_bias=ends, temperature=0, max_new_tokens=60
    )
    assert text in ("yes", "no")
    assert model.report is not None and model.report.finish == "stop"


@pytest.mark.parametrize(
    ("answer", "told"), [("6", ()), ("7", ("the number must be a multiple of 3, not 7",))]
)
def test_what_no_grammar_holds_an_answer_to_is_told(
    model: GenerativeModel, tiny_base: Path, answer: str, told: tuple[str, ...]
) -> None:
    schema = {"type": "integer", "minimum": int(answer), "maximum": int(answer), "multipleOf": 3}
    model.chat(HI, json_schema=schema, enable_thinking=False, max_new_tokens=20)
    assert model.report is not None
    assert (model.report.text, model.report.schema_errors) == (answer, told)
    with load(tiny_base, threads=1) as base:
        base.generate("Say a number:", json_schema=schema, max_new_tokens=20)
        assert base.report is not None
        assert (base.report.text, base.report.schema_errors) == (answer, told)


def test_an_answer_that_was_cut_is_held_to_nothing(model: GenerativeModel) -> None:
    schema = {"type": "string", "minLength": 20, "not": {"type": "string"}}
    model.chat(HI, json_schema=schema, enable_thinking=False, max_new_tokens=1)
    assert model.report is not None
    assert (model.report.finish, model.report.schema_errors) == ("length", ())


def test_a_marker_that_is_no_control_token_ends_the_turn_too(tiny_llama: Path) -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|done|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    with load_with(tiny_llama, source) as loaded:
        pieces = forced(loaded, "hello<|done|><|user|>and more", max_new_tokens=60)
    outcome = pieces[-1]
    assert (outcome.text, outcome.finish) == ("hello", "stop")


def test_a_grammar_that_does_not_compile_fails_its_request(model: GenerativeModel) -> None:
    with pytest.raises(ValueError, match="does not compile"):
        model.chat(HI, grammar="root ::= nothing")
    assert model.chat(HI, max_new_tokens=2, enable_thinking=False) is not None


@pytest.mark.parametrize("seed", range(4))
def test_a_required_call_fits_its_schema(model: GenerativeModel, seed: int) -> None:
    model.chat(
        HI, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, enable_thinking=False,
        temperature=1.2, seed=seed, max_new_tokens=200,
    )  # fmt: skip
    assert model.report is not None
    (call,) = model.report.tool_calls
    assert call.error is None
    assert call.arguments["city"] in ("Rome", "Oslo")
    assert call.arguments["days"] <= 9


# ---- 83 to 90: sessions with tools -------------------------------------------------------------


REQUIRED = {
    "tool_choice": "required", "parallel_tool_calls": False, "enable_thinking": False,
    "temperature": 1.0, "seed": 5, "max_new_tokens": 200,
}  # fmt: skip


def test_83_reset_keeps_the_system_turn(model: GenerativeModel) -> None:
    with model.chat_session(system="Be brief.") as chat:
        chat.send("hi", max_new_tokens=2)
        chat.reset()
        assert chat.messages == [{"role": "system", "content": "Be brief."}]
        chat.reset(keep_system=False)
        assert chat.messages == []


def test_84_86_87_88_89_a_tool_round(model: GenerativeModel) -> None:
    with model.chat_session(tools=[WEATHER]) as chat:
        chat.send("hi", **REQUIRED)
        (call,) = chat.tool_calls
        assert chat.report is not None
        assert chat.report.finish == "tool_calls"
        assert chat.messages[-1]["tool_calls"] == [call.to_message()]
        chat.add_tool_result(call.id, "sunny", name="weather")
        assert chat.messages[-1] == {
            "role": "tool", "tool_call_id": call.id, "content": "sunny", "name": "weather",
        }  # fmt: skip
        before = len(chat.messages)
        reply = chat.respond(tools=[], enable_thinking=False, max_new_tokens=4)
        assert chat.messages[before:] == [{"role": "assistant", "content": reply}]
        assert chat.tool_calls == ()


def test_88_a_result_without_a_name_has_none(model: GenerativeModel) -> None:
    with model.chat_session() as chat:
        chat.add_tool_result("id1", "ok")
        assert chat.messages == [{"role": "tool", "tool_call_id": "id1", "content": "ok"}]


def test_87_text_that_looks_like_a_call_is_text_when_no_tools_were_offered(model: GenerativeModel) -> None:
    outcome = forced(model, CALL, enable_thinking=False)[-1]
    assert outcome.tool_calls == ()
    assert "<tool_call>" in outcome.text


def test_85_tools_on_a_model_without_a_format_change_nothing(tiny_base: Path) -> None:
    with load(tiny_base, threads=1) as base, base.chat_session() as chat:
        with pytest.raises(ValueError, match="tool"):
            chat.send("hi", tools=[WEATHER])
        assert chat.messages == []
        with pytest.raises(ValueError, match="tool"):
            base.chat_session(tools=[WEATHER])


def test_90_respond_works_on_a_history_edited_by_hand(model: GenerativeModel) -> None:
    with model.chat_session() as chat:
        chat.messages.extend([*HI, {"role": "assistant", "content": "hello"}, *HI])
        assert isinstance(chat.respond(max_new_tokens=3, enable_thinking=False), str)
        assert [turn["role"] for turn in chat.messages] == ["user", "assistant", "user", "assistant"]


def test_a_reply_continues_a_prefilled_turn(model: GenerativeModel) -> None:
    turns = [*HI, {"role": "assistant", "content": "Hello, wor"}]
    request = Request(
        messages=turns, continue_reply=True, config=GenerationConfig(max_new_tokens=4, enable_thinking=False)
    )
    inbox = Inbox()
    model.pipeline.start(request, inbox.put)
    outcome = list(inbox)[-1]
    assert isinstance(outcome, ChatOutcome)
    rendered = model.pipeline.prepare(request).result()
    assert rendered.text.endswith("Hello, wor")
