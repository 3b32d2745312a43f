from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from backend import ChatOutcome, GenerativeModel, PrefillProgress, Request, TextPiece
from backend.reply import Delivery
from backend.stream import Inbox, Stream

Opener = Callable[..., GenerativeModel]
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 24}


def until(condition: Callable[[], object]) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.002)


def forced(model: GenerativeModel, text: str) -> list[str]:
    """The text pieces of a reply that is made to say `text`."""
    inbox = Inbox()
    request = Request(messages=[{"role": "user", "content": "hello"}], forced=text)
    model.pipeline.start(request, inbox.put)
    return [piece.text for piece in inbox if isinstance(piece, TextPiece)]


# ---- pieces --------------------------------------------------------------------------------


def test_59_joined_pieces_are_what_generate_returns(tiny: GenerativeModel, base: GenerativeModel) -> None:
    for model in (tiny, base):
        pieces = list(model.stream_generate("hello you", **GREEDY))
        assert "".join(pieces) == model.generate("hello you", **GREEDY)
        assert len(pieces) > 3
        assert all(pieces)


@pytest.mark.model
def test_59_60_a_real_models_pieces_and_ids_are_its_text(starter: GenerativeModel) -> None:
    options: dict[str, Any] = {"temperature": 0, "max_new_tokens": 8}
    text = starter.generate("Name a fruit.", **options)
    assert "".join(starter.stream_generate("Name a fruit.", **options)) == text
    ids = [
        token for ids in starter.stream_generate("Name a fruit.", decode=False, **options) for token in ids
    ]
    assert starter.tokenizer.decode(ids) == text


def test_60_ids_decode_to_the_text(tiny: GenerativeModel) -> None:
    options = {**GREEDY, "reasoning_format": "none"}
    steps = list(tiny.stream_generate("hello you", decode=False, **options))
    assert all(type(step) is list and all(type(token) is int for token in step) for step in steps)
    ids = [token for step in steps for token in step]
    assert len(ids) == 24
    assert tiny.tokenizer.decode(ids) == "".join(tiny.stream_generate("hello you", **options))


def test_60_ids_hold_the_token_that_ended_the_reply(tiny: GenerativeModel) -> None:
    end = tiny.eos_token_ids[0]
    assert list(tiny.stream_generate("hello", decode=False, logit_bias={end: 1000.0}, **GREEDY)) == [[end]]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("model", ["tiny", "spm", "base"])
def test_62_special_tokens_are_shown_or_hidden(model: str, raw: bool, request: pytest.FixtureRequest) -> None:
    loaded: GenerativeModel = request.getfixturevalue(model)
    specials = loaded.handle.model.special_tokens
    mixed = dict.fromkeys(specials, 14.0)
    for bias in (*({token: 1000.0} for token in specials), mixed):
        options = {"temperature": 1.0, "seed": 3, "max_new_tokens": 6, "raw": raw, "logit_bias": bias}
        ids = [token for step in loaded.stream_generate("hello", decode=False, **options) for token in step]
        shown = "".join(loaded.stream_generate("hello", skip_special_tokens=False, **options))
        written = loaded.tokenizer.decode(ids, skip_special_tokens=False)
        assert shown.strip() == written.strip()
        assert loaded.report is not None
        assert loaded.report.text == shown
        hidden = "".join(loaded.stream_generate("hello", **options))
        assert hidden.strip() == loaded.tokenizer.decode(ids).strip()


@pytest.mark.parametrize("model", ["tiny", "spm", "base", pytest.param("starter", marks=pytest.mark.model)])
def test_61_no_piece_splits_a_character(model: str, request: pytest.FixtureRequest) -> None:
    text = "Hi 🌿🐝é 你好 👩‍👧 ok"
    pieces = forced(request.getfixturevalue(model), text)
    assert "".join(pieces) == text
    for emoji in "🌿🐝👩👧":
        assert sum(emoji in piece for piece in pieces) == 1
    assert "\ufffd" not in "".join(pieces)


def test_61_each_character_arrives_with_its_last_byte(tiny: GenerativeModel) -> None:
    assert forced(tiny, "🌿🐝🍄") == ["🌿", "🐝", "🍄"]


def test_61_bytes_that_are_no_text_are_replaced(tiny: GenerativeModel) -> None:
    text = "".join(tiny.stream_generate("hello", temperature=2.0, seed=1, max_new_tokens=200))
    assert "\ufffd" in text
    assert text.encode()


# ---- life of a stream ----------------------------------------------------------------------


def test_63_closing_early_stops_only_the_delivery(fresh: Opener) -> None:
    model = fresh()
    stream = model.stream_generate("hello", temperature=0, max_new_tokens=300, ignore_eos=True)
    next(stream)
    stream.close()
    stream.close()
    assert list(stream) == []
    until(lambda: model.report)
    assert model.report is not None
    assert (model.report.finish, model.report.new_tokens) == ("length", 300)
    assert model.generate("hello", **GREEDY)


def test_64_the_report_is_set_when_the_reply_is_complete(fresh: Opener) -> None:
    model = fresh()
    stream = model.stream_generate("hello", temperature=0, max_new_tokens=1500, ignore_eos=True)
    first = next(stream)
    assert model.report is None
    text = first + "".join(stream)
    assert model.report is not None
    assert (model.report.new_tokens, model.report.text) == (1500, text)


def test_65_a_slow_reader_loses_nothing(fresh: Opener) -> None:
    model = fresh()
    stream = model.stream_generate("hello", temperature=0, max_new_tokens=200, ignore_eos=True)
    first = next(stream)
    until(lambda: model.report)
    assert model.report is not None
    assert first + "".join(stream) == model.report.text


def test_65_the_producer_is_not_the_callers_thread(fresh: Opener) -> None:
    model = fresh()
    threads: set[int] = set()
    model.set_stage_observer(lambda event: threads.add(threading.get_ident()))
    list(model.stream_generate("hello", **GREEDY))
    assert threads
    assert threading.get_ident() not in threads


def test_65_two_streams_may_be_read_in_turn(tiny: GenerativeModel) -> None:
    texts = [tiny.generate(word, **GREEDY) for word in ("hello", "the")]
    streams = [tiny.stream_generate(word, **GREEDY) for word in ("hello", "the")]
    assert ["".join(stream) for stream in reversed(streams)] == texts[::-1]


def test_events_are_typed_and_end_with_the_outcome(tiny: GenerativeModel) -> None:
    events = list(tiny.stream_generate("hello", stream="events", **GREEDY))
    assert isinstance(events[0], PrefillProgress)
    assert events[0].total == len(
        tiny.tokenizer.encode(tiny.render([{"role": "user", "content": "hello"}]), special=True)
    )
    assert isinstance(events[-1], ChatOutcome)
    assert sum(isinstance(event, ChatOutcome) for event in events) == 1
    assert "".join(event.text for event in events if isinstance(event, TextPiece)) == events[-1].text


def test_a_long_prompt_tells_its_progress(tiny: GenerativeModel) -> None:
    tiny.handle.pipeline().engine.forget()
    events = list(tiny.stream_generate("hello you " * 150, stream="events", **GREEDY))
    progress = [event for event in events if isinstance(event, PrefillProgress)]
    assert [event.done for event in progress] == [0, 512]
    assert {event.total for event in progress} == {progress[0].total}


# ---- the iterator by itself ----------------------------------------------------------------


class Ends:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def stream(self, items: Any) -> Stream[Any]:
        return Stream(iter(items), self.seen.append, lambda: self.seen.append("end"))


def test_a_stream_that_is_read_ends_once() -> None:
    ends = Ends()
    stream = ends.stream([1, 2])
    assert list(stream) == [1, 2]
    stream.close()
    del stream
    assert ends.seen == ["end"]


def test_a_stream_that_is_left_is_closed_once() -> None:
    ends = Ends()
    with ends.stream([1, 2]) as stream:
        assert next(stream) == 1
    assert list(stream) == []
    del stream
    assert ends.seen == [None]


def test_a_stream_whose_source_fails_is_closed_with_the_error() -> None:
    error = OSError("gone")

    def items() -> Any:
        yield 1
        raise error

    ends = Ends()
    stream = ends.stream(items())
    assert next(stream) == 1
    with pytest.raises(OSError, match="gone"):
        next(stream)
    assert list(stream) == []
    assert ends.seen == [error]


def test_a_sink_that_fails_harms_no_other_reply(fresh: Opener) -> None:
    model = fresh()

    def sink(_deliveries: list[Delivery]) -> None:
        raise OSError("the pipe is gone")

    model.pipeline.start(Request(text="hello"), sink)
    assert model.generate("hello", **GREEDY)


def test_an_inbox_waits_for_every_outcome() -> None:
    inbox = Inbox(2)
    first, second = (ChatOutcome("stop", 1, reply=index) for index in range(2))
    pieces: list[Delivery] = [first, TextPiece("late", reply=1), second, TextPiece("after the end")]
    inbox.put(pieces)
    assert list(inbox) == pieces[:3]
