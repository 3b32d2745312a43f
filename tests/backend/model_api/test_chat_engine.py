from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from backend import (
    ChatEngine,
    ChatOutcome,
    ContextOverflowError,
    EngineError,
    GenerationConfig,
    GenerativeModel,
    InProcessEngine,
    ModelLoadError,
    Piece,
    PrefillProgress,
    Request,
    TextPiece,
    load,
)
from backend.chat_engine import LoadSpec
from backend.prompt import MOST_KEPT

GREEDY = GenerationConfig(temperature=0, max_new_tokens=12)
ENDLESS = GenerationConfig(temperature=0, max_new_tokens=1900, ignore_eos=True)


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.fixture
async def engine(tiny_llama: Path) -> AsyncIterator[InProcessEngine]:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1}))
    yield engine
    await engine.unload()


async def answer(engine: ChatEngine, request: Request) -> list[Piece]:
    return [piece async for step in engine.submit(request) for piece in step]


async def ask(engine: ChatEngine, text: str, config: GenerationConfig = GREEDY) -> ChatOutcome:
    outcome = (await answer(engine, Request(messages=user(text), config=config)))[-1]
    assert isinstance(outcome, ChatOutcome)
    return outcome


def is_protocol(engine: ChatEngine) -> ChatEngine:
    return engine


# ---- submit --------------------------------------------------------------------------------


async def test_a_reply_comes_in_steps_and_ends_with_its_outcome(
    engine: InProcessEngine, tiny: GenerativeModel
) -> None:
    steps = [
        step async for step in is_protocol(engine).submit(Request(messages=user("hello"), config=GREEDY))
    ]
    assert all(steps)
    pieces = [piece for step in steps for piece in step]
    assert isinstance(pieces[0], PrefillProgress)
    outcome = pieces[-1]
    assert isinstance(outcome, ChatOutcome)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)) == outcome.text
    assert outcome.text == tiny.chat(user("hello"), config=GREEDY)
    assert len(steps) > 10


async def test_raw_text_is_answered_too(engine: InProcessEngine, tiny: GenerativeModel) -> None:
    pieces = await answer(engine, Request(text="hello you", config=GREEDY))
    assert isinstance(pieces[-1], ChatOutcome)
    assert pieces[-1].text == tiny.generate("hello you", raw=True, config=GREEDY)


async def test_n_replies_share_one_prompt(engine: InProcessEngine) -> None:
    config = GenerationConfig(temperature=1.5, seed=5, max_new_tokens=12)
    pieces = await answer(engine, Request(messages=user("hello"), config=config, n=3))
    outcomes = sorted((p for p in pieces if isinstance(p, ChatOutcome)), key=lambda outcome: outcome.reply)
    assert [outcome.reply for outcome in outcomes] == [0, 1, 2]
    assert [outcome.seed for outcome in outcomes] == [5, 6, 7]
    assert len({outcome.text for outcome in outcomes}) == 3
    for index, outcome in enumerate(outcomes):
        said = "".join(p.text for p in pieces if isinstance(p, TextPiece) and p.reply == index)
        assert said == outcome.text


@pytest.mark.parametrize("as_ids", [False, True])
async def test_a_forced_reply_is_written_as_it_stands(engine: InProcessEngine, as_ids: bool) -> None:
    text = "Hi there, 🌿!"
    forced = await engine.tokenize(text) if as_ids else text
    pieces = await answer(engine, Request(messages=user("hello"), forced=forced))
    assert isinstance(pieces[-1], ChatOutcome)
    assert (pieces[-1].text, pieces[-1].finish) == (text, "stop")


async def test_a_reply_can_go_on_inside_the_last_message(engine: InProcessEngine) -> None:
    turns = [*user("hello"), {"role": "assistant", "content": "Once upon"}]
    request = Request(messages=turns, config=GREEDY, continue_reply=True)
    rendered = await engine.render(request)
    assert rendered.text.endswith("<|im_start|>assistant\nOnce upon")
    assert (await answer(engine, request))[-1] != (await ask(engine, "hello"))


async def test_a_reply_of_a_model_without_a_template_can_go_on_too(base: GenerativeModel) -> None:
    turns = [*user("hello"), {"role": "assistant", "content": "Once upon"}]
    rendered = await InProcessEngine(base).render(Request(messages=turns, continue_reply=True))
    assert rendered.text == "user: hello\nassistant: Once upon"


async def test_many_replies_at_once_do_not_mix(engine: InProcessEngine) -> None:
    words = ["hello", "the", "you", "and"]
    alone = [(await ask(engine, word)).text for word in words]
    together = await asyncio.gather(*(ask(engine, word) for word in words * 3))
    assert [outcome.text for outcome in together] == alone * 3


async def test_a_request_runs_once_at_a_time(engine: InProcessEngine) -> None:
    request = Request(messages=user("hello"), config=ENDLESS)
    replies = engine.submit(request)
    first = list(await anext(replies))
    with pytest.raises(ValueError, match="already running"):
        await answer(engine, request)
    engine.cancel(request.id)
    first += [piece async for step in replies for piece in step]
    assert isinstance(first[-1], ChatOutcome)
    assert first[-1].finish == "cancelled"
    assert (await ask(engine, "hello")).finish == "length"


@pytest.mark.timeout(60)
async def test_a_request_may_be_asked_again_at_once(engine: InProcessEngine) -> None:
    request = Request(messages=user("hello"), config=GREEDY)
    texts: set[str] = set()
    for _ in range(200):
        outcome = (await answer(engine, request))[-1]
        assert isinstance(outcome, ChatOutcome)
        texts.add(outcome.text)
    assert len(texts) == 1


# ---- cancelling ----------------------------------------------------------------------------


async def test_cancel_ends_a_reply_early(engine: InProcessEngine) -> None:
    request = Request(messages=user("hello"), config=ENDLESS)
    pieces: list[Piece] = []
    async for step in engine.submit(request):
        pieces += step
        if isinstance(step[-1], TextPiece):
            engine.cancel(request.id)
    assert isinstance(pieces[-1], ChatOutcome)
    assert pieces[-1].finish == "cancelled"
    assert pieces[-1].new_tokens < 1900
    engine.cancel(request.id)
    engine.cancel("unheard of")
    assert (await ask(engine, "hello")).finish == "length"


async def test_closing_the_iterator_cancels_the_reply(engine: InProcessEngine) -> None:
    replies = engine.submit(Request(messages=user("hello"), config=ENDLESS))
    assert await anext(replies)
    await replies.aclose()  # type: ignore[attr-defined]
    while (await engine.stats()).running:
        await asyncio.sleep(0.001)
    assert engine._model is not None
    rows = engine._model.pipeline.engine.counters().decoded_rows
    assert rows < 1900


async def test_cancelling_the_task_cancels_the_reply(engine: InProcessEngine) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in engine.submit(Request(messages=user("hello"), config=ENDLESS)):
            begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await ask(engine, "hello")).text


def test_an_event_loop_that_ends_too_early_harms_nobody(tiny_llama: Path) -> None:
    model = load(tiny_llama, threads=1)
    engine = InProcessEngine(model)
    loop = asyncio.new_event_loop()
    replies = engine.submit(Request(messages=user("hello"), config=ENDLESS))
    loop.run_until_complete(anext(replies))
    loop.close()
    assert model.generate("hello", config=GREEDY)
    del replies
    model.close()


# ---- count, render, tokenize ---------------------------------------------------------------


async def test_count_is_exact_also_for_what_does_not_fit(engine: InProcessEngine) -> None:
    for text in ("hello", "hello you " * 600):
        count = await engine.count(user(text))
        rendered = await engine.render(Request(messages=user(text)))
        assert count.exact and rendered.exact
        assert rendered.tokens is not None
        assert count.tokens == len(rendered.tokens)
        assert await engine.detokenize(rendered.tokens) == f"user\n{text}\nassistant\n"
    assert count.tokens > engine.card.max_seq
    with pytest.raises(ContextOverflowError) as caught:
        await ask(engine, "hello you " * 600)
    assert caught.value.needed == count.tokens


async def test_count_and_report_agree(engine: InProcessEngine) -> None:
    outcome = await ask(engine, "hello you")
    assert (await engine.count(user("hello you"))).tokens == outcome.prompt_tokens


async def test_text_becomes_ids_and_text_again(engine: InProcessEngine) -> None:
    ids = await engine.tokenize("hello 🌿")
    assert await engine.detokenize(ids) == "hello 🌿"


# ---- warm ----------------------------------------------------------------------------------


async def test_warm_fills_the_cache_for_the_next_request(engine: InProcessEngine) -> None:
    turns = user("hello you and the")
    await engine.warm(turns)
    stats = await engine.stats()
    rendered = await engine.render(Request(messages=turns, add_generation_prompt=False))
    assert stats.cached_tokens == len(rendered.tokens or ())
    outcome = await ask(engine, "hello you and the")
    assert outcome.reused_tokens >= stats.cached_tokens - 2


async def test_warm_gives_way_to_a_reply(engine: InProcessEngine) -> None:
    warming = asyncio.create_task(engine.warm(user("the " * 1500)))
    outcome = await ask(engine, "hello")
    assert outcome.finish == "length"
    await warming


async def test_warm_of_what_does_not_fit_ends(engine: InProcessEngine) -> None:
    await engine.warm(user("hello you " * 600))
    assert (await ask(engine, "hello")).text


# ---- conversations -------------------------------------------------------------------------

ODD = "the and the"
"""A reply that is written below in tokens of one byte, and has tokens of its own."""


async def second_turn(engine: InProcessEngine, name: str | None, first: str, *, warm: bool = False) -> int:
    """How many tokens of a first turn's reply, spelled in odd tokens, the second one reuses."""
    spelled = [model_of(engine).handle.model.byte_tokens[byte] for byte in ODD.encode()]
    request = Request(messages=user(first), config=GREEDY, forced=spelled, conversation=name)
    outcome = (await answer(engine, request))[-1]
    assert isinstance(outcome, ChatOutcome)
    assert (outcome.text, outcome.new_tokens) == (ODD, len(ODD))
    turns = [*user(first), {"role": "assistant", "content": ODD}, *user("hello")]
    if warm:
        await engine.warm(turns, conversation=name)
    following = (await answer(engine, Request(messages=turns, config=GREEDY, conversation=name)))[-1]
    assert isinstance(following, ChatOutcome)
    return following.reused_tokens - outcome.prompt_tokens


def model_of(engine: InProcessEngine) -> GenerativeModel:
    model = engine._model
    assert model is not None
    return model


@pytest.mark.parametrize("warm", [False, True])
async def test_a_named_conversation_meets_the_cells_of_its_reply(engine: InProcessEngine, warm: bool) -> None:
    assert await second_turn(engine, "chat", "hello you", warm=warm) >= len(ODD) - 1


async def test_without_a_name_an_odd_reply_is_read_again(engine: InProcessEngine) -> None:
    assert await second_turn(engine, None, "hello you") < 3


async def test_who_spells_a_control_token_is_read_afresh(engine: InProcessEngine) -> None:
    assert await second_turn(engine, "chat", "hello<|im_end|>you") < 3


async def test_a_conversation_that_was_changed_is_read_as_it_is_now(engine: InProcessEngine) -> None:
    await second_turn(engine, "chat", "hello you")
    request = Request(messages=user("something else"), config=GREEDY, conversation="chat")
    plain = Request(messages=user("something else"), config=GREEDY)
    assert await engine.render(request) == await engine.render(plain)


async def test_the_oldest_conversations_are_forgotten(engine: InProcessEngine) -> None:
    for index in range(MOST_KEPT + 3):
        request = Request(messages=user("hi"), config=GREEDY, forced="x", conversation=f"c{index}")
        await answer(engine, request)
    kept = model_of(engine).pipeline.prompts._kept
    assert list(kept) == [f"c{index}" for index in range(3, MOST_KEPT + 3)]


# ---- load and unload -----------------------------------------------------------------------


async def test_load_tells_the_card_and_replaces_the_model(engine: InProcessEngine, tiny_base: Path) -> None:
    first = engine._model
    card = await engine.load(LoadSpec(str(tiny_base), {"threads": 1, "max_seq": 256}))
    assert card == engine.card
    assert (card.model_id, card.max_seq, card.kind) == (tiny_base.stem, 256, "base")
    assert first is not None and first.handle.closed
    assert (await ask(engine, "hello")).new_tokens == 12


async def test_a_failed_load_is_typed_and_the_next_one_works(tiny_llama: Path, tmp_path: Path) -> None:
    engine = InProcessEngine()
    with pytest.raises(ModelLoadError) as caught:
        await engine.load(LoadSpec(str(tmp_path / "gone.gguf")))
    assert caught.value.cause == "not_found"
    assert engine.closed
    with pytest.raises(ModelLoadError) as caught:
        await engine.load(LoadSpec(str(tiny_llama)), progress=lambda _: False)
    assert caught.value.cause == "cancelled"
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1}))
    assert (await ask(engine, "hello")).text
    await engine.unload()


async def test_a_load_that_is_given_up_leaves_no_model_behind(tiny_llama: Path) -> None:
    engine = InProcessEngine()
    begun, go_on = threading.Event(), threading.Event()

    def progress(_fraction: float) -> bool:
        begun.set()
        go_on.wait(5)
        return True

    loading = asyncio.create_task(engine.load(LoadSpec(str(tiny_llama), {"threads": 1}), progress))
    await asyncio.to_thread(begun.wait)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    go_on.set()
    assert engine.closed
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1}))
    assert (await ask(engine, "hello")).text
    await engine.unload()


async def test_unload_ends_running_replies_as_cancelled(engine: InProcessEngine) -> None:
    replies = engine.submit(Request(messages=user("hello"), config=ENDLESS))
    pieces = list(await anext(replies))
    await engine.unload()
    await engine.unload()
    pieces += [piece async for step in replies for piece in step]
    assert isinstance(pieces[-1], ChatOutcome)
    assert pieces[-1].finish == "cancelled"
    assert engine.closed


async def test_without_a_model_everything_is_an_engine_error() -> None:
    engine = InProcessEngine()
    assert engine.closed
    engine.cancel("nobody")
    for ask_it in (
        lambda: ask(engine, "hello"),
        lambda: engine.count(user("hello")),
        lambda: engine.render(Request(text="hello")),
        lambda: engine.tokenize("hello"),
        lambda: engine.detokenize([1]),
        lambda: engine.embed(["hello"]),
        lambda: engine.warm(user("hello")),
        lambda: engine.stats(),
    ):
        with pytest.raises(EngineError, match="No model is loaded"):
            await ask_it()


# ---- refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "either messages or text"),
        ({"messages": [], "text": None}, "messages is empty"),
        ({"text": "a", "n": 0}, "n must be at least 1"),
        ({"text": "a", "forced": [10**6]}, "forced: 1000000 is not a token"),
        ({"text": "a", "config": GenerationConfig(logit_bias={10**6: 1.0})}, "logit_bias: 1000000"),
        ({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "look"}]}, "tool-call format"),
        ({"messages": [{"content": "a"}]}, "needs a role"),
    ],
)
async def test_a_request_that_cannot_be_is_a_value_error(
    engine: InProcessEngine, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        await answer(engine, Request(**fields))
    assert (await ask(engine, "hello")).text


async def test_an_embedding_model_embeds_and_does_not_answer(tiny_embedding: Path) -> None:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny_embedding), {"threads": 1}))
    with pytest.raises(ValueError, match="embedding model"):
        await ask(engine, "hello")
    with pytest.raises(ValueError, match="embedding model"):
        await engine.warm(user("hello"))
    first, second = await engine.embed(["hello", "the cat"])
    assert first != second
    await engine.unload()


async def test_residency_and_stats_tell_what_is_there(engine: InProcessEngine) -> None:
    assert engine.residency["pipeline"]["kv_cache_bytes"] == 0
    await ask(engine, "hello")
    assert engine.residency["pipeline"]["kv_cache_bytes"] > 0
    stats = await engine.stats()
    assert (stats.running, stats.waiting, stats.slots, stats.max_seq) == (0, 0, 1, 2048)
    assert stats.cached_tokens > 12


SECRET = "the cat sat on the mat and nobody is to know where it went after that"


def cells(engine: InProcessEngine) -> list[str]:
    """What each slot holds, as text."""
    model = engine._model
    assert model is not None
    scheduler = model.pipeline.engine._scheduler
    return [] if scheduler is None else [model.tokenizer.decode(slot.tokens) for slot in scheduler.slots]


async def test_no_slot_holds_a_conversation_that_is_forgotten(tiny_llama: Path) -> None:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1, "slots": 3}))
    for name, text in (
        ("open", "hello there"),
        ("private", SECRET),
        ("private/summary", f"in short: {SECRET}"),
    ):
        await answer(engine, Request(messages=user(text), config=GREEDY, conversation=name))
    assert any(SECRET in held for held in cells(engine))
    await engine.forget("private")
    await answer(engine, Request(messages=user("hello there"), config=GREEDY, conversation="open"))
    assert not any(SECRET[:20] in held for held in cells(engine))
    assert any("hello" in held for held in cells(engine))
    assert list(engine._model.pipeline.prompts._kept) == ["open"]
    await engine.unload()
    await engine.forget("private")


async def test_what_still_runs_is_forgotten_when_it_ends(tiny_llama: Path) -> None:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny_llama), {"threads": 1, "slots": 2}))
    request = Request(messages=user(SECRET), config=ENDLESS, conversation="private", n=2)
    steps = engine.submit(request)
    await anext(steps)
    await engine.forget("private")
    await steps.aclose()
    await answer(engine, Request(messages=user("hello"), config=GREEDY))
    assert not any(SECRET[:20] in held for held in cells(engine))
    assert engine._model.pipeline.engine._scheduler._leaving == set()
    await engine.unload()


async def test_an_unload_ends_a_load_that_runs(tiny_llama: Path) -> None:
    engine, begun = InProcessEngine(), threading.Event()

    def progress(fraction: float) -> bool:
        begun.set()
        return unloaded.wait(5)

    unloaded = threading.Event()
    loading = asyncio.create_task(engine.load(LoadSpec(str(tiny_llama), {"threads": 1}), progress))
    await asyncio.to_thread(begun.wait, 5)
    await engine.unload()
    unloaded.set()
    with pytest.raises(ModelLoadError) as raised:
        await loading
    assert raised.value.cause == "cancelled"
    assert engine.closed
