from __future__ import annotations

import copy
import random
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend import ChatOutcome, GenerativeModel, PrefillProgress, StageEvent
from tests import tiny_gguf
from tests.backend.model_api.test_stream import until

Opener = Callable[..., GenerativeModel]
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 12}


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_66_chat_returns_the_text_and_a_stream_the_same_in_pieces(tiny: GenerativeModel) -> None:
    text = tiny.chat(user("hello"), **GREEDY)
    assert isinstance(text, str)
    pieces = list(tiny.chat(user("hello"), stream=True, **GREEDY))
    assert len(pieces) > 3
    assert "".join(pieces) == text


def test_67_the_callers_list_is_not_changed_and_nothing_is_remembered(tiny: GenerativeModel) -> None:
    turns = [*user("my name is the"), {"role": "assistant", "content": "hi"}, *user("what is it")]
    before = copy.deepcopy(turns)
    alone = tiny.chat(user("what is it"), **GREEDY)
    with_past = tiny.chat(turns, **GREEDY)
    assert turns == before
    assert with_past != alone
    assert tiny.chat(user("what is it"), **GREEDY) == alone


def test_67_messages_may_change_once_the_call_is_made(tiny: GenerativeModel) -> None:
    turns = user("hello")
    expected = tiny.chat(user("hello"), **GREEDY)
    stream = tiny.chat(turns, stream=True, **GREEDY)
    turns[0]["content"] = "another question altogether"
    assert "".join(stream) == expected


@pytest.mark.model
def test_68_a_shared_prefix_is_not_evaluated_again(starter: GenerativeModel) -> None:
    starter.handle.pipeline().engine.forget()
    turns = [{"role": "system", "content": "You are a terse assistant who names things."}]
    starter.chat([*turns, *user("Name a fruit.")], temperature=0, max_new_tokens=2)
    assert starter.report is not None
    assert starter.report.reused_tokens == 0
    first = starter.chat([*turns, *user("Name a city.")], temperature=0, max_new_tokens=3)
    assert starter.report.reused_tokens >= len(starter.tokenizer.encode(turns[0]["content"]))
    starter.handle.pipeline().engine.forget()
    assert starter.chat([*turns, *user("Name a city.")], temperature=0, max_new_tokens=3) == first
    assert starter.report.reused_tokens == 0


def test_68_chat_generate_and_sessions_share_the_cache(fresh: Opener) -> None:
    model = fresh()
    model.generate("hello you and the", **GREEDY)
    model.chat(user("hello you and the"), **GREEDY)
    assert model.report is not None
    assert model.report.reused_tokens == model.report.prompt_tokens - 2
    with model.chat_session() as chat:
        chat.send("hello you and the", **GREEDY)
        assert chat.report is not None
        assert chat.report.reused_tokens == chat.report.prompt_tokens - 2
    assert model.pipeline.engine.counters().built == 1


def test_69_the_report_is_a_chat_outcome(tiny: GenerativeModel) -> None:
    text = tiny.chat(user("hello"), **GREEDY)
    assert type(tiny.report) is ChatOutcome
    assert tiny.report.text == text
    assert tiny.report.tool_calls == ()
    list(tiny.chat(user("hello"), stream=True, temperature=0, max_new_tokens=3))
    assert tiny.report.new_tokens == 3


@pytest.mark.parametrize("media", ["images", "audio", "videos"])
def test_73_media_are_refused_for_now(tiny: GenerativeModel, media: str) -> None:
    with pytest.raises(ValueError, match=f"{media}: .* reads text only"):
        tiny.chat(user("hello"), **{media: [object()]})
    with tiny.chat_session() as chat:
        for ask in (chat.send, lambda text, **options: chat.complete(user(text), **options)):
            with pytest.raises(ValueError, match=f"{media}: .* reads text only"):
                ask("hello", **{media: [object()]})
        assert chat.messages == []


LONG = 15_000
"""Tokens of a reply that is to be cancelled: seconds of it, however late a busy machine hears of that."""


@pytest.fixture
def long(fresh: Opener, tmp_path: Path) -> GenerativeModel:
    """A model with room for a reply of so many tokens."""
    shape = replace(tiny_gguf.SHAPES["llama"], n_ctx=16384)
    return fresh(tiny_gguf.make_model(tmp_path / "long.gguf", shape=shape), max_seq=16384)


def test_closing_a_streamed_chat_cancels_the_reply(long: GenerativeModel) -> None:
    model = long
    stream = model.chat(user("hello"), stream=True, temperature=0, max_new_tokens=LONG, ignore_eos=True)
    next(stream)
    stream.close()
    until(lambda: model.report)
    assert model.report is not None
    assert model.report.finish == "cancelled"
    assert model.report.new_tokens < LONG


@pytest.mark.parametrize("method", ["generate", "generate_batch", "chat", "send"])
def test_ctrl_c_cancels_what_the_caller_waits_for(long: GenerativeModel, method: str) -> None:
    model = long
    caller = threading.get_ident()

    def interrupt(event: StageEvent) -> None:
        if event.stage == "prefill":
            model.set_stage_observer(None)
            signal.pthread_kill(caller, signal.SIGINT)

    model.set_stage_observer(interrupt)
    options: dict[str, Any] = {"temperature": 0, "max_new_tokens": LONG, "ignore_eos": True}
    with model.chat_session() as chat:
        asks: dict[str, Callable[[], Any]] = {
            "generate": lambda: model.generate("hello", **options),
            "generate_batch": lambda: model.generate_batch(["hello"], **options),
            "chat": lambda: model.chat(user("hello"), **options),
            "send": lambda: chat.send("hello", **options),
        }
        with pytest.raises(KeyboardInterrupt):
            asks[method]()
        until(lambda: not model.pipeline.engine.counters().running)
        assert model.pipeline.engine.counters().decoded_rows < LONG
        assert [turn["role"] for turn in chat.messages] in ([], ["user", "assistant"])
        assert chat.send("hello", **GREEDY) == chat.messages[-1]["content"]


@pytest.mark.parametrize("stream", [False, True, "events"])
def test_ctrl_c_while_a_request_starts_leaves_nothing_running(
    long: GenerativeModel, monkeypatch: pytest.MonkeyPatch, stream: Any
) -> None:
    pipeline = long.shared_pipeline()
    start = pipeline.start

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        start(*args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        long.chat(user("hello"), stream=stream, temperature=0, max_new_tokens=LONG, ignore_eos=True)
    until(lambda: long.report is not None and not pipeline.engine.counters().running)
    assert long.report is not None
    assert long.report.finish == "cancelled"


def test_cancelling_in_the_middle_of_a_prompt_leaves_the_rest_of_it_unread(long: GenerativeModel) -> None:
    model = long
    stream = model.chat(user("hello you " * 3000), stream="events", max_new_tokens=4)
    progress = next(stream)
    assert isinstance(progress, PrefillProgress)
    assert progress.total > 14_000
    stream.close()
    until(lambda: model.report)
    assert model.report is not None
    assert model.report.finish == "cancelled"
    assert model.pipeline.engine.counters().decoded_rows < progress.total
    cold = model.chat(user("hello"), **GREEDY)
    model.pipeline.engine.forget()
    assert model.chat(user("hello"), **GREEDY) == cold


def test_a_chat_without_a_template_stops_before_another_speakers_line(base: GenerativeModel) -> None:
    from backend import Request
    from backend.stream import Inbox

    inbox = Inbox()
    said = "Fine.\nuser: and you?\nassistant: well"
    base.pipeline.start(Request(messages=user("hello"), forced=said), inbox.put)
    *_, outcome = inbox
    assert isinstance(outcome, ChatOutcome)
    assert outcome.text.strip() == "Fine."
    assert (outcome.finish, outcome.stop_match) == ("stop", None)


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_gemma3", "tiny_recurrent", "tiny_hybrid"])
def test_requests_of_every_kind_from_many_threads_do_not_mix(
    name: str, request: pytest.FixtureRequest, fresh: Opener
) -> None:
    model = fresh(request.getfixturevalue(name), max_seq=512)
    words = ["hello", "the", "you and", "and the " * 20]
    alone = {word: model.generate(word, **GREEDY) for word in words}

    def left_early(word: str) -> Any:
        with model.chat_session() as chat:
            ask = chat.complete if word == "hello" else model.chat
            stream = ask(user(word), stream=True, temperature=0, max_new_tokens=300, ignore_eos=True)
            next(stream)
            stream.close()
        return alone[word]

    def sent(word: str) -> Any:
        with model.chat_session() as chat:
            return chat.send(word, **GREEDY)

    kinds: list[Callable[[str], Any]] = [
        lambda word: model.generate(word, **GREEDY),
        lambda word: model.generate_batch([word] * 4, **GREEDY)[3],
        lambda word: "".join(model.chat(user(word), stream=True, **GREEDY)),
        left_early,
        sent,
    ]
    choices = random.Random(name).choices([(kind, word) for kind in kinds for word in words], k=40)
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda choice: choice[0](choice[1]), choices))
    assert replies == [alone[word] for _, word in choices]
