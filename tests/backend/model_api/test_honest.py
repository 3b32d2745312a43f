"""What a caller asked for is done, refused, or told: never passed over in silence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend import ChatOutcome, GenerativeModel, StageEvent, load
from tests.backend.model_api.test_formats import (
    ADAPTIVE,
    ALWAYS,
    HI,
    NEVER,
    OPT_IN,
    TOGGLEABLE,
    WEATHER,
    load_with,
)

Opener = Callable[..., GenerativeModel]
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 4}


# ---- loading -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", 5, "", ["f32"]])
def test_6_a_type_that_llama_cpp_does_not_compute_with_is_refused(tiny_llama: Path, dtype: Any) -> None:
    with pytest.raises(ValueError, match="compute_dtype must be undefined or f32, not"):
        load(tiny_llama, compute_dtype=dtype)


@pytest.mark.parametrize("name", ["hermes", "mistral", "nonsense", "", 5])
@pytest.mark.parametrize("model", ["tiny_llama", "tiny_base"])
def test_24_a_call_format_that_the_template_does_not_write_is_refused_at_the_load(
    model: str, name: Any, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(ValueError, match="tool_call_format"):
        load(request.getfixturevalue(model), tool_call_format=name)


def test_24_a_template_takes_its_own_name_and_no_other(tiny_llama: Path) -> None:
    with load_with(tiny_llama, ALWAYS, tool_call_format="hermes") as model:
        assert model.tool_call_format == "hermes"
        assert "weather" in model.render(HI, tools=[WEATHER])
    with pytest.raises(ValueError, match=r"its chat template writes hermes. Leave it out"):
        load_with(tiny_llama, ALWAYS, tool_call_format="mistral")


# ---- tools ---------------------------------------------------------------------------------


def test_85_render_refuses_tools_as_chat_does(tiny: GenerativeModel) -> None:
    told: set[str] = set()
    for offer in (
        lambda: tiny.chat(HI, tools=[WEATHER]),
        lambda: tiny.render(HI, tools=[WEATHER]),
        lambda: tiny.chat_session(tools=[WEATHER]),
    ):
        with pytest.raises(ValueError, match="has no tool-call format") as raised:
            offer()
        told.add(str(raised.value))
    assert len(told) == 1
    assert tiny.render(HI, tools=[]) == tiny.render(HI)


# ---- thinking ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "asked", "told"),
    [
        (NEVER, {}, ""),
        (NEVER, {"enable_thinking": False, "reasoning_effort": "none"}, ""),
        (NEVER, {"enable_thinking": True}, "cannot be made to think"),
        (NEVER, {"reasoning_effort": "high"}, "not a thinking model"),
        (NEVER, {"reasoning_budget": 9}, "reasoning_budget has no effect"),
        (ALWAYS, {"enable_thinking": True}, ""),
        (ALWAYS, {"reasoning_effort": "low"}, ""),
        (TOGGLEABLE, {"enable_thinking": False}, ""),
        (TOGGLEABLE, {"enable_thinking": True, "reasoning_effort": "low"}, ""),
        (
            TOGGLEABLE,
            {"enable_thinking": False, "reasoning_effort": "high"},
            "reasoning_effort has no effect",
        ),
        (OPT_IN, {"enable_thinking": True}, ""),
        (OPT_IN, {"enable_thinking": False}, ""),
        (ADAPTIVE, {"enable_thinking": False}, "decides by itself"),
        (ADAPTIVE, {"enable_thinking": True}, "decides by itself"),
        (ADAPTIVE, {"reasoning_effort": "none"}, "decides by itself"),
    ],
)
def test_what_a_template_cannot_do_about_thinking_is_told_in_the_report(
    tiny_llama: Path, template: str, asked: dict[str, Any], told: str
) -> None:
    with load_with(tiny_llama, template) as model, model.chat_session() as chat:
        chat.send("hello", **GREEDY, **asked)
        assert chat.report is not None
        model.generate("hello", **GREEDY, **asked)
        assert model.report is not None
        assert chat.report.notes == model.report.notes
    assert len(chat.report.notes) == bool(told)
    assert told in "".join(chat.report.notes)


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("low", ""),
        ("high", ""),
        ("max", "given high, the nearest of low, medium, high"),
        ("none", "always thinks"),
    ],
)
def test_a_level_that_the_template_does_not_know_is_told_with_the_one_it_became(
    tiny_llama: Path, level: str, told: str
) -> None:
    template = "{{- 'Reasoning: ' + (reasoning_effort|default('medium')) }}\n" + ALWAYS
    with load_with(tiny_llama, template) as model:
        model.chat(HI, reasoning_effort=level, **GREEDY)
        assert model.report is not None
        assert told in "".join(model.report.notes)
        assert len(model.report.notes) == bool(told)


def test_without_a_template_the_switches_change_nothing_and_that_is_told(base: GenerativeModel) -> None:
    for asked in ({"enable_thinking": True}, {"reasoning_effort": "low"}, {"reasoning_budget": 5}):
        base.generate("hello", **GREEDY, **asked)
        assert base.report is not None
        assert len(base.report.notes) == 1
    base.generate("hello", **GREEDY, enable_thinking=False)
    assert base.report.notes == ()


@pytest.mark.parametrize("asked", [{"enable_thinking": False}, {"reasoning_effort": "none"}])
def test_33_what_always_thinks_refuses_before_anything_is_queued(
    tiny_llama: Path, asked: dict[str, Any]
) -> None:
    with load_with(tiny_llama, ALWAYS) as model, model.chat_session() as chat:
        for ask in (
            lambda: chat.send("hello", stream=True, **asked),
            lambda: model.chat(HI, stream=True, **asked),
            lambda: model.stream_generate("hello", **asked),
            lambda: model.generate("hello", **asked),
            lambda: model.render(HI, **asked),
        ):
            with pytest.raises(ValueError, match="always thinks"):
                ask()
        assert chat.messages == []


@pytest.mark.parametrize("template", [NEVER, ALWAYS, TOGGLEABLE])
def test_34_an_unknown_effort_is_refused_before_anything_is_queued(tiny_llama: Path, template: str) -> None:
    with load_with(tiny_llama, template) as model, model.chat_session() as chat:
        for ask in (
            lambda: chat.send("hello", stream=True, reasoning_effort="extreme"),
            lambda: model.stream_generate("hello", reasoning_effort="extreme"),
            lambda: model.render(HI, reasoning_effort="extreme"),
        ):
            with pytest.raises(ValueError, match="reasoning_effort must be one of none, minimal, low"):
                ask()


# ---- the history ---------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["read", "close", "drop"])
@pytest.mark.parametrize("keep_system", [True, False])
def test_83_a_reset_during_a_turn_leaves_a_clean_history(fresh: Opener, end: str, keep_system: bool) -> None:
    with fresh().chat_session(system="Be terse.") as chat:
        clean = [{"role": "system", "content": "Be terse."}] if keep_system else []
        chat.send("before", **GREEDY)
        stream = chat.send("hello", stream=True, temperature=0, max_new_tokens=40, ignore_eos=True)
        next(stream)
        chat.reset(keep_system=keep_system)
        assert chat.messages == clean
        if end == "read":
            assert "".join(stream)
        elif end == "close":
            stream.close()
        del stream
        assert chat.messages == clean
        assert chat.tool_calls == ()
        alone = chat.send("hello", **GREEDY)
        assert [turn["role"] for turn in chat.messages[len(clean) :]] == ["user", "assistant"]
        chat.reset(keep_system=keep_system)
        assert chat.send("hello", **GREEDY) == alone


def test_83_a_turn_that_waited_while_the_history_was_reset_is_its_first(fresh: Opener) -> None:
    with fresh().chat_session() as chat:
        running = chat.send("one", stream=True, temperature=0, max_new_tokens=40, ignore_eos=True)
        next(running)
        replies: list[str] = []
        waiting = threading.Thread(target=lambda: replies.append(chat.send("two", **GREEDY)))
        waiting.start()
        chat.reset()
        "".join(running)
        waiting.join()
        assert [(turn["role"], turn["content"]) for turn in chat.messages] == [
            ("user", "two"),
            ("assistant", replies[0]),
        ]


def test_83_a_history_with_an_odd_turn_is_reset_too(tiny: GenerativeModel) -> None:
    with tiny.chat_session(system="Be terse.") as chat:
        chat.messages += [5, None, {}]  # type: ignore[list-item]
        chat.reset()
        assert chat.messages == [{"role": "system", "content": "Be terse."}]


# ---- the observer --------------------------------------------------------------------------


def test_99_prefill_lasts_from_the_slot_to_the_first_token(fresh: Opener) -> None:
    model = fresh()
    events: dict[str, dict[str, StageEvent]] = {}
    model.set_stage_observer(
        lambda event: events.setdefault(event.request_id, {}).update({event.stage: event})
    )
    # One slot: the second waits for the first.
    streams = [
        model.stream_generate(word, stream="events", temperature=0, max_new_tokens=60, ignore_eos=True)
        for word in ("one", "two")
    ]
    outcomes = [[*stream][-1] for stream in streams]
    for stages, outcome in zip(events.values(), outcomes, strict=True):
        assert isinstance(outcome, ChatOutcome)
        assert stages["prefill"].duration_s == outcome.prefill_s
        assert stages["decode"].duration_s == outcome.decode_s
    assert outcomes[1].queue_s > outcomes[1].prefill_s
