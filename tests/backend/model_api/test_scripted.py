from __future__ import annotations

import asyncio

import pytest

from backend import (
    ChatEngine,
    ChatOutcome,
    EngineError,
    GenerationConfig,
    Piece,
    ReasoningPiece,
    Request,
    ScriptedEngine,
    TextPiece,
    ToolCall,
)
from backend.chat_engine import LoadSpec
from backend.engines.scripted import Pause

HELLO = Request(messages=[{"role": "user", "content": "hello there"}])


async def play(engine: ChatEngine, request: Request = HELLO) -> list[list[Piece]]:
    return [step async for step in engine.submit(request)]


async def test_scripts_are_played_in_order_one_step_at_a_time() -> None:
    engine = ScriptedEngine([["Hi", " you."], ["Bye."]])
    assert await play(engine) == [
        [TextPiece("Hi")],
        [TextPiece(" you.")],
        [ChatOutcome("stop", 1, new_tokens=2, text="Hi you.")],
    ]
    assert (await play(engine))[-1] == [ChatOutcome("stop", 1, new_tokens=1, text="Bye.")]
    with pytest.raises(EngineError, match="no reply for request 3"):
        await play(engine)
    assert engine.requests == [HELLO] * 3


async def test_thoughts_and_calls_make_the_outcome() -> None:
    call = ToolCall("1", "look", {"at": "sky"})
    engine = ScriptedEngine([[ReasoningPiece("hm"), "Let me see.", call]])
    *_, [outcome] = await play(engine, Request(text="hello", config=GenerationConfig(seed=4)))
    assert isinstance(outcome, ChatOutcome)
    assert (outcome.finish, outcome.tool_calls) == ("tool_calls", (call,))
    assert (outcome.reasoning, outcome.text, outcome.seed) == ("hm", "Let me see.", 4)


async def test_a_scripted_outcome_stands_as_it_is() -> None:
    outcome = ChatOutcome("length", 9, text="told")
    assert (await play(ScriptedEngine([["a", outcome, "never"]])))[-1] == [outcome]


async def test_a_scripted_error_is_raised_where_it_stands() -> None:
    engine = ScriptedEngine([["a", EngineError("the child died")], ["b"]])
    seen: list[Piece] = []
    with pytest.raises(EngineError, match="the child died"):
        async for step in engine.submit(HELLO):
            seen += step
    assert seen == [TextPiece("a")]
    assert await play(engine)


async def test_a_pause_holds_until_its_event() -> None:
    gate = asyncio.Event()
    replies = ScriptedEngine([["a", Pause(until=gate), "b"]]).submit(HELLO)
    assert await anext(replies) == [TextPiece("a")]
    waiting = asyncio.ensure_future(anext(replies))
    done, _ = await asyncio.wait([waiting], timeout=0.01)
    assert not done
    gate.set()
    assert await waiting == [TextPiece("b")]


async def test_cancel_ends_a_pause_and_the_reply() -> None:
    engine = ScriptedEngine([["a", Pause(until=asyncio.Event()), "never"]])
    steps: list[list[Piece]] = []
    async for step in engine.submit(HELLO):
        steps.append(step)
        engine.cancel(HELLO.id)
    assert steps == [[TextPiece("a")], [ChatOutcome("cancelled", 1, new_tokens=1, text="a")]]
    engine.cancel(HELLO.id)


async def test_several_replies_each_have_an_outcome() -> None:
    script = [TextPiece("one"), TextPiece("two", reply=1)]
    steps = await play(ScriptedEngine([script]), Request(text="hello", n=2))
    assert [step[0] for step in steps[2:]] == [
        ChatOutcome("stop", 1, new_tokens=1, text="one"),
        ChatOutcome("stop", 1, new_tokens=1, text="two", reply=1),
    ]


async def test_unload_cancels_what_runs_and_refuses_what_follows() -> None:
    engine = ScriptedEngine([["a", Pause(until=asyncio.Event())], ["b"]])
    replies = engine.submit(HELLO)
    await anext(replies)
    await engine.unload()
    [[outcome]] = [step async for step in replies]
    assert isinstance(outcome, ChatOutcome)
    assert outcome.finish == "cancelled"
    assert engine.closed
    with pytest.raises(EngineError, match="No model is loaded"):
        await play(engine)
    card = await engine.load(LoadSpec("story-teller"))
    assert card.model_id == "story-teller" == engine.card.model_id
    assert (await play(engine))[0] == [TextPiece("b")]


async def test_it_answers_the_rest_of_the_seam() -> None:
    engine = ScriptedEngine()
    fractions: list[float] = []
    await engine.load(LoadSpec(), lambda fraction: fractions.append(fraction) is None)
    assert fractions == [1.0]
    assert (await engine.count([{"role": "user", "content": "three little words"}])).tokens == 3
    assert (await engine.render(HELLO)).text == "user: hello there"
    assert await engine.detokenize(await engine.tokenize("é 🌿")) == "é 🌿"
    await engine.warm(HELLO.messages or ())
    assert engine.warmed == [HELLO.messages]
    stats = await engine.stats()
    assert (stats.running, stats.slots, stats.max_seq) == (0, engine.card.max_active, engine.card.max_seq)
    with pytest.raises(ValueError, match="makes no embeddings"):
        await engine.embed(["hello"])
