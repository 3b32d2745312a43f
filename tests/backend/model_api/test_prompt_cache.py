"""What is remembered of prompts: by one owner, whatever threads ask for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from backend import EngineError, GenerationConfig, GenerativeModel, InProcessEngine, Request
from backend.chat import sandbox
from backend.chat.renderer import Renderer
from backend.chat_engine import LoadSpec
from backend.prompt import MOST_KEPT, PromptBuilder
from backend.prompt_cache import MOST_RENDERED

ROUNDS = 4000
SHORT = GenerationConfig(temperature=0, max_new_tokens=4)
SYSTEM = {"role": "system", "content": "Be terse."}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


TOOL = {
    "type": "function",
    "function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}},
}


# ---- one owner -----------------------------------------------------------------------------


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def together(*actions: Callable[[int], object]) -> list[Exception]:
    """Each action over and over, on a thread of its own; what they raised."""
    raised: list[Exception] = []
    begin = threading.Barrier(len(actions))

    def repeat(action: Callable[[int], object]) -> None:
        begin.wait()
        try:
            for number in range(ROUNDS):
                if raised:
                    return
                action(number)
        except Exception as err:
            raised.append(err)

    threads = [threading.Thread(target=repeat, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("other", ["forget", "render", "keep"])
def test_what_one_thread_keeps_others_may_forget_and_render(tiny: GenerativeModel, other: str) -> None:
    builder = PromptBuilder(tiny.tokenizer, lambda: None, tiny.max_seq)

    def name(number: int) -> str:
        return f"chat {number % (MOST_KEPT * 2)}"

    def keep(number: int) -> None:
        builder.keep(f"{name(number)}/summary", (1, 2), "user: a")

    def forget(number: int) -> None:
        builder.forget(f"gone {number % 8}" if number % 16 else name(number))

    def render(number: int) -> None:
        builder.build(Request(messages=[user("a")], conversation=name(number)), GenerationConfig())

    actions = {"forget": (keep, forget), "render": (keep, forget, render), "keep": (keep, keep, keep)}
    assert together(*actions[other]) == []
    assert len(list(builder._kept)) <= MOST_KEPT


async def test_looks_at_prompts_wait_for_the_thread_that_prepares(tiny_llama: Path) -> None:
    """A template runs on one thread, so no conversation is forgotten in the midst of its rendering."""
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1}))
    pipeline = engine._model.pipeline
    seen: set[str] = set()
    parts = pipeline.prompts.parts

    def watched(*given: Any) -> list[str]:
        seen.add(threading.current_thread().name)
        return parts(*given)

    pipeline.prompts.parts = watched  # type: ignore[method-assign]
    request = Request(messages=[user("hello")], config=SHORT, conversation="chat")
    await engine.render(request)
    await engine.count([user("two")])
    async for _ in engine.submit(request):
        pass
    assert len(seen) == 1 and next(iter(seen)).startswith("fireside-prepare")
    await engine.unload()


async def test_a_closed_model_prepares_nothing_and_has_nothing_to_forget(tiny_llama: Path) -> None:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1}))
    pipeline = engine._model.pipeline
    await engine.unload()
    with pytest.raises(EngineError, match="closed"):
        pipeline.prepare(Request(messages=[user("hello")]))
    assert pipeline.forget("chat").result(1) is None


# ---- rendered once -------------------------------------------------------------------------


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each rendering had."""
    seen: list[int] = []
    render = Renderer.render

    def counted(self: Renderer, messages: Any, *given: Any, **named: Any) -> str:
        seen.append(len(messages))
        return render(self, messages, *given, **named)

    monkeypatch.setattr(Renderer, "render", counted)
    return seen


@pytest.fixture
def builder(tiny: GenerativeModel) -> PromptBuilder:
    return PromptBuilder(tiny.tokenizer, lambda: tiny.handle.template, tiny.max_seq)


def measured(builder: PromptBuilder, **fields: Any) -> str:
    fields.setdefault("messages", [SYSTEM, user("hello")])
    config = fields.pop("config", SHORT)
    return builder.measure(Request(**fields), config).text


def test_a_prompt_that_was_counted_is_not_rendered_again(builder: PromptBuilder, renders: list[int]) -> None:
    text = measured(builder)
    assert measured(builder) == text
    made = builder.build(Request(messages=[dict(SYSTEM), user("hello")], conversation="chat"), SHORT)
    assert made.text == text and len(renders) == 1
    made.tokens.clear()
    assert builder.build(Request(messages=[SYSTEM, user("hello")]), SHORT).tokens


OTHERS: dict[str, dict[str, Any]] = {
    "another message": {"messages": [SYSTEM, user("hallo")]},
    "one more": {"messages": [SYSTEM, user("hello"), {"role": "assistant", "content": "hi"}, user("and")]},
    "another role": {"messages": [user("Be terse."), user("hello")]},
    "a tool": {"tools": [TOOL]},
    "a turn that is not opened": {"add_generation_prompt": False},
    "a thought that is off": {"config": SHORT.over(GenerationConfig(enable_thinking=False))},
    "one that is on": {"config": SHORT.over(GenerationConfig(enable_thinking=True))},
    "an effort": {"config": SHORT.over(GenerationConfig(reasoning_effort="high"))},
    "a list of parts": {"messages": [SYSTEM, {**user(""), "content": [{"type": "text", "text": "hello"}]}]},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_the_text_depends_on_is_rendered_by_itself(
    builder: PromptBuilder, tiny: GenerativeModel, renders: list[int], other: dict[str, Any]
) -> None:
    fresh = PromptBuilder(tiny.tokenizer, lambda: tiny.handle.template, tiny.max_seq)
    expected = measured(fresh, **other)
    alone = len(renders)
    measured(builder)
    before = len(renders)
    assert measured(builder, **other) == expected
    assert len(renders) - before == alone >= 1


def test_a_conversation_that_its_caller_changed_is_rendered_again(builder: PromptBuilder) -> None:
    messages = [SYSTEM, user("hello")]
    measured(builder, messages=messages)
    messages[1]["content"] = "goodbye"
    assert "goodbye" in measured(builder, messages=messages)


def test_messages_that_are_more_than_plain_values_are_rendered_each_time(
    builder: PromptBuilder, renders: list[int]
) -> None:
    class Word(str):
        pass

    for _ in range(2):
        measured(builder, messages=[user(Word("hello"))])
    assert len(renders) == 2


def test_a_prompt_of_yesterday_is_rendered_again(
    tiny: GenerativeModel, monkeypatch: pytest.MonkeyPatch, renders: list[int]
) -> None:
    now = datetime(2026, 3, 1, 23, 59, 30)
    monkeypatch.setattr(sandbox, "clock", lambda: now)
    template = type(tiny.handle.template)("{{ datetime }} {{ messages[-1].content }}", name="dated")
    hourly = type(tiny.handle.template)(
        "{{ strftime_now('%H:%M') }} {{ messages[-1].content }}", name="hourly"
    )
    renders.clear()
    dated = PromptBuilder(tiny.tokenizer, lambda: template, tiny.max_seq)
    timed = PromptBuilder(tiny.tokenizer, lambda: hourly, tiny.max_seq)
    for _ in range(2):
        assert measured(dated).startswith("March 01") and measured(timed).startswith("23:59")
    assert len(renders) == 2
    now += timedelta(minutes=1)
    assert measured(dated).startswith("March 02") and measured(timed).startswith("00:00")


def test_the_tokens_of_a_reply_are_met_by_a_prompt_that_was_counted_before(
    builder: PromptBuilder, renders: list[int]
) -> None:
    turns = [SYSTEM, user("hello")]
    usual = builder.build(Request(messages=turns, conversation="chat"), SHORT)
    spelled = (*usual.tokens, 5, 6, 7)
    known = usual.text + "odd"
    later = [*turns, {"role": "assistant", "content": "odd"}, user("and")]
    plain = builder.measure(Request(messages=later), SHORT)
    builder.keep("chat", spelled, known)
    before = len(renders)
    made = builder.build(Request(messages=later, conversation="chat"), SHORT)
    assert tuple(made.tokens[: len(spelled)]) == spelled and made.text == plain.text
    assert builder.measure(Request(messages=later), SHORT).tokens == plain.tokens
    given = builder.measure(Request(messages=later, prior=(known, (9, 9))), SHORT)
    assert given.tokens[:2] == [9, 9]
    assert len(renders) - before == 1  # A request that names tokens is a prompt of its own.


def test_nothing_of_a_conversation_is_rendered_from_memory_once_it_is_forgotten(
    builder: PromptBuilder, renders: list[int]
) -> None:
    measured(builder)
    builder.forget("chat")
    assert not builder._kept._rendered
    measured(builder)
    assert len(renders) == 2


def test_few_renderings_are_remembered(builder: PromptBuilder) -> None:
    for number in range(MOST_RENDERED * 2):
        measured(builder, messages=[user(str(number))])
    assert len(builder._kept._rendered) == MOST_RENDERED


async def test_a_count_is_that_of_the_prompt_that_follows(tiny_llama: Path, renders: list[int]) -> None:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1}))
    _ = engine.card
    first = [SYSTEM, user("hello")]
    reply = {"role": "assistant", "content": "hm"}
    for said, goes_on in ((first, False), ([*first, reply, user("and")], False), ([*first, reply], True)):
        renders.clear()
        shape: dict[str, Any] = {"conversation": "chat", "continue_reply": goes_on}
        counted = (await engine.count(said, (), SHORT, **shape)).tokens
        request = Request(messages=said, config=SHORT, add_generation_prompt=not goes_on, **shape)
        steps = [piece async for pieces in engine.submit(request) for piece in pieces]
        assert steps[-1].prompt_tokens == counted  # type: ignore[union-attr]
        assert len(renders) == await _renders_alone(engine, request, renders)
    await engine.unload()


async def _renders_alone(engine: InProcessEngine, request: Request, renders: list[int]) -> int:
    """How often one look at a prompt runs the template; `renders` stays as it is."""
    before = len(renders)
    engine._model.pipeline.prompts._kept._rendered.clear()
    await engine.render(request)
    alone = len(renders) - before
    del renders[before:]
    return alone
