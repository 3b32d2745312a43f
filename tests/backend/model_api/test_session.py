from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from backend import (
    ChatOutcome,
    ChatSession,
    ContextOverflowError,
    GenerativeModel,
    Piece,
    PrefillProgress,
    QueueFullError,
    ReasoningPiece,
    Request,
    TextPiece,
    ToolCallPiece,
)
from backend.turns import Turn
from tests import tiny_gguf
from tests.backend.model_api.looks import fed as fullest_slot

Opener = Callable[..., GenerativeModel]
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 8}
DIGITS: dict[str, Any] = {
    **GREEDY,
    # Digits have one spelling in tokens, so a reply of digits is the same tokens when it is read again.
    "logit_bias": {tiny_gguf.bpe_vocab().id(digit): 100.0 for digit in "0123456789"},
}
ENDLESS: dict[str, Any] = {"temperature": 0, "max_new_tokens": 1500, "ignore_eos": True}


@pytest.fixture
def chat(tiny: GenerativeModel) -> Iterator[ChatSession]:
    with tiny.chat_session() as session:
        yield session


def roles(chat: ChatSession) -> list[str]:
    return [turn["role"] for turn in chat.messages]


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; the test's own timeout ends a vain wait."""
    pause = threading.Event()
    while not condition():
        pause.wait(0.002)


# ---- options -------------------------------------------------------------------------------


def test_74_options_have_their_defaults(tiny: GenerativeModel, chat: ChatSession) -> None:
    assert chat.messages == []
    assert chat.card.model_id == tiny.card.model_id
    assert (chat.card.max_active, chat.card.max_queued) == (1, 256)
    assert chat.tool_calls == ()


def test_74_options_are_forwarded(fresh: Opener) -> None:
    model = fresh(max_seq=256)
    options = {"system": "Be terse.", "model_id": "mine", "max_active": 2, "max_queued": 3}
    with model.chat_session(**options, default_budget=4) as chat:
        assert chat.messages == [{"role": "system", "content": "Be terse."}]
        assert chat.card.model_id == "mine"
        assert (chat.card.max_active, chat.card.max_queued) == (2, 3)
        chat.send("hello", temperature=0, ignore_eos=True)
        assert chat.report is not None
        assert chat.report.new_tokens == 4
        assert model.residency["pipeline"]["slots"] == 2


@pytest.mark.parametrize("option", [{"max_active": 0}, {"max_queued": -1}, {"default_budget": 0}])
def test_74_an_impossible_option_is_named(tiny: GenerativeModel, option: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        tiny.chat_session(**option)


def test_74_an_unknown_option_is_refused(tiny: GenerativeModel) -> None:
    with pytest.raises(TypeError, match="flavour"):
        tiny.chat_session(flavour="sweet")


def test_75_leaving_the_block_closes_the_session(tiny: GenerativeModel) -> None:
    with tiny.chat_session() as chat:
        assert chat.closed is False
    assert chat.closed is True


# ---- history -------------------------------------------------------------------------------


def test_76_the_system_turn_is_part_of_every_send(tiny: GenerativeModel) -> None:
    turns = [{"role": "system", "content": "the and you"}]
    with tiny.chat_session(system="the and you") as chat:
        for word in ("hello", "again"):
            turns.append({"role": "user", "content": word})
            text = chat.send(word, **DIGITS)
            assert text == tiny.chat(turns, **DIGITS)
            turns.append({"role": "assistant", "content": text})
        assert chat.messages == turns


def test_77_a_turn_joins_the_history_and_the_next_send_sees_it(
    tiny: GenerativeModel, chat: ChatSession
) -> None:
    first = chat.send("hello you", **DIGITS)
    assert chat.messages == [
        {"role": "user", "content": "hello you"},
        {"role": "assistant", "content": first},
    ]
    second = chat.send("again", **DIGITS)
    assert second == tiny.chat([*chat.messages[:2], {"role": "user", "content": "again"}], **DIGITS)
    assert roles(chat) == ["user", "assistant"] * 2


@pytest.mark.model
def test_77_turn_two_evaluates_only_its_new_tokens(starter: GenerativeModel) -> None:
    with starter.chat_session() as chat:
        chat.send("Name a fruit.", temperature=0, max_new_tokens=8)
        first = chat.report
        chat.send("Another.", temperature=0, max_new_tokens=2)
        second = chat.report
    assert first is not None and second is not None
    known = first.prompt_tokens + first.new_tokens
    added = len(starter.tokenizer.encode("<|im_end|>\nuserAnother.<|im_end|>\nassistant\n")) + 4
    # The newest two tokens of a slot are always evaluated anew.
    assert second.reused_tokens >= known - 3
    assert second.prompt_tokens - second.reused_tokens <= added + 3


@pytest.mark.parametrize("model", ["tiny", "spm"])
def test_77_a_sampled_reply_is_not_evaluated_again(model: str, request: pytest.FixtureRequest) -> None:
    loaded: GenerativeModel = request.getfixturevalue(model)
    with loaded.chat_session() as chat:
        for seed in range(4):
            # Spelled at random: tokenized again, most of these replies would be other tokens.
            chat.send("hello", temperature=2.0, top_k=0, top_p=1.0, min_p=0.0, seed=seed, max_new_tokens=40)
            first = chat.report
            chat.send("and you", **GREEDY)
            second = chat.report
            assert first is not None and second is not None
            assert second.reused_tokens >= first.prompt_tokens + first.new_tokens - 3
            chat.reset()


@pytest.mark.parametrize("model", ["tiny", "spm"])
def test_77_the_tokens_of_past_replies_spell_what_the_template_writes(
    model: str, request: pytest.FixtureRequest
) -> None:
    loaded: GenerativeModel = request.getfixturevalue(model)
    tokenizer = loaded.tokenizer
    pieces = ((token, tokenizer.piece(token)) for token in range(loaded.vocab_size))
    odd = {token: -math.inf for token, piece in pieces if not piece.isascii() or piece < b" "}
    odd |= dict.fromkeys(loaded.eos_token_ids, -math.inf)
    loaded.pipeline.engine.forget()
    with loaded.chat_session(system="say <|im_end|> and ") as chat:
        for seed, word in enumerate(("hello", " and ", "<|im_start|>you", "the\n")):
            chat.send(word, temperature=3.0, top_k=0, min_p=0.0, seed=seed, logit_bias=odd, max_new_tokens=25)
            assert chat.report is not None
            fed = fullest_slot(loaded)[: chat.report.prompt_tokens]
            written = tokenizer.decode(fed, skip_special_tokens=False)
            expected = tokenizer.decode(
                tokenizer.encode_prompt([loaded.render(chat.messages[:-1])]), skip_special_tokens=False
            )
            assert written.replace(" ", "") == expected.replace(" ", "")
            if model == "tiny":
                assert written == expected


def test_78_a_streamed_send_joins_the_history_when_its_iterator_ends(chat: ChatSession) -> None:
    stream = chat.send("hello", stream=True, **GREEDY)
    text = next(stream)
    assert roles(chat) == ["user"]
    text += "".join(stream)
    assert chat.messages[-1] == {"role": "assistant", "content": text}
    assert roles(chat) == ["user", "assistant"]


@pytest.mark.model
def test_78_a_real_reply_joins_the_history_when_it_is_read(starter: GenerativeModel) -> None:
    with starter.chat_session() as chat:
        stream = chat.send("Name a fruit.", stream=True, temperature=0, max_new_tokens=6)
        text = next(stream)
        assert roles(chat) == ["user"]
        text += "".join(stream)
        assert chat.messages[-1] == {"role": "assistant", "content": text}


def test_78_a_reader_that_stops_at_the_outcome_has_read_it_all(chat: ChatSession) -> None:
    for piece in chat.send("hello", stream="events", **GREEDY):
        if isinstance(piece, ChatOutcome):
            break
    assert chat.messages[-1] == {"role": "assistant", "content": chat.report and chat.report.text}


def test_78_the_last_answer_is_in_the_history_before_the_next_turn_begins(chat: ChatSession) -> None:
    seen: list[list[str]] = []
    real = chat._model.chat_request

    def spy(messages: Any, *rest: Any) -> Any:
        if threading.current_thread().name == "fireside-session":
            seen.append([turn["role"] for turn in messages])
        return real(messages, *rest)

    chat._model.chat_request = spy  # type: ignore[method-assign]
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: chat.send("hello", temperature=0, max_new_tokens=1), range(40)))
    finally:
        del chat._model.chat_request
    assert len(seen) == 40
    for turns in seen:
        assert all(first != second for first, second in pairwise(turns)), turns


# ---- streams that end early ----------------------------------------------------------------


def test_79_closing_a_streamed_send_cancels_the_decode(chat: ChatSession) -> None:
    stream = chat.send("hello", stream=True, **ENDLESS)
    text = next(stream)
    stream.close()
    stream.close()
    assert chat.messages[-1] == {"role": "assistant", "content": text, "interrupted": True}
    until(lambda: chat.report)
    assert chat.report is not None
    assert chat.report.finish == "cancelled"
    assert chat.report.new_tokens < 1500


def test_79_the_turn_after_a_closed_one_runs_normally(tiny: GenerativeModel, chat: ChatSession) -> None:
    stream = chat.send("hello", stream=True, **{**ENDLESS, **DIGITS, "max_new_tokens": 1500})
    next(stream)
    stream.close()
    text = chat.send("and you", **DIGITS)
    assert text == tiny.chat(chat.messages[:-1], **DIGITS)
    assert chat.messages[-1] == {"role": "assistant", "content": text}
    assert roles(chat) == ["user", "assistant"] * 2


@pytest.mark.model
def test_79_cancelling_a_real_model_keeps_its_cells(starter: GenerativeModel) -> None:
    with starter.chat_session() as chat:
        stream = chat.send("Count to fifty.", stream=True, temperature=0, max_new_tokens=200)
        next(stream)
        stream.close()
        assert chat.send("Say hello.", temperature=0, max_new_tokens=4)
        assert chat.report is not None
        assert chat.report.reused_tokens > 20


def test_a_stream_closed_before_its_first_piece_takes_the_user_turn_back(chat: ChatSession) -> None:
    chat.send("hello", **GREEDY)
    before = chat.history()
    for _ in range(20):
        chat.send("unheard", stream=True, **ENDLESS).close()
        assert chat.messages == before
    chat.send("hello", **GREEDY)
    assert roles(chat) == ["user", "assistant"] * 2


def test_a_stream_that_was_complete_but_never_read_is_taken_back(chat: ChatSession) -> None:
    stream = chat.send("unheard", stream=True, **GREEDY)
    until(lambda: chat.report)
    stream.close()
    assert chat.messages == []


def test_an_abandoned_stream_is_closed(chat: ChatSession) -> None:
    stream = chat.send("hello", stream=True, **ENDLESS)
    next(stream)
    del stream
    gc.collect()
    assert chat.messages[-1]["interrupted"] is True
    assert chat.send("again", **GREEDY)


def test_closing_from_another_thread_ends_a_blocked_reader(chat: ChatSession) -> None:
    stream = chat.send("hello", stream=True, **ENDLESS)
    text = [next(stream)]
    closer = threading.Thread(target=stream.close)
    closer.start()
    text += stream
    closer.join()
    assert chat.messages[0]["content"] == "hello"
    assert chat.messages[1]["interrupted"] is True
    assert "".join(text).startswith(chat.messages[1]["content"])


def test_a_reply_after_a_closed_one_holds_none_of_its_text(tiny: GenerativeModel, chat: ChatSession) -> None:
    expected = tiny.generate("second question", **GREEDY)
    for _ in range(10):
        chat.reset()
        stream = chat.send("the first question", stream=True, **ENDLESS)
        next(stream)
        stream.close()
        chat.reset()
        assert chat.send("second question", **GREEDY) == expected


def test_an_interrupted_turn_is_part_of_the_next_prompt(tiny: GenerativeModel, chat: ChatSession) -> None:
    stream = chat.send("hello", stream=True, **ENDLESS)
    text = next(stream)
    stream.close()
    assert text in tiny.render(chat.messages)
    assert "interrupted" not in tiny.render(chat.messages)


@pytest.mark.parametrize(
    ("piece", "began"),
    [
        (TextPiece("a"), True),
        (ReasoningPiece("a"), True),
        (ToolCallPiece(0, "look", "{"), True),
        (PrefillProgress(1, 2, 0), False),
        (ChatOutcome("cancelled", 1), False),
    ],
)
def test_whatever_the_model_writes_begins_a_turn(piece: Piece, began: bool) -> None:
    turn = Turn(lambda: Request(text="a"), keeps_history=True, commit=print, on_outcome=print)
    turn.note(piece)
    assert turn.began is began
    assert not turn.is_whole


# ---- failures ------------------------------------------------------------------------------


def test_a_send_that_does_not_fit_takes_its_user_turn_back(small: GenerativeModel) -> None:
    with small.chat_session() as chat:
        chat.send("hello", **GREEDY)
        before = chat.history()
        for stream in (False, True):
            with pytest.raises(ContextOverflowError) as caught:
                list(chat.send("hello you " * 100, stream=stream))
            assert str(caught.value.needed) in str(caught.value)
            assert chat.messages == before
        assert chat.send("short", **GREEDY)
        assert roles(chat) == ["user", "assistant"] * 2


def test_a_send_that_fails_before_its_first_token_takes_its_user_turn_back(chat: ChatSession) -> None:
    with pytest.raises(ValueError, match="Content must be text"):
        chat.send(7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="temprature"):
        chat.send("hello", temprature=1)
    with pytest.raises(ValueError, match="images"):
        chat.send("hello", images=[object()])
    assert chat.messages == []
    assert chat.send("hello", **GREEDY)


def test_a_send_that_fails_after_its_first_token_keeps_both_turns(chat: ChatSession) -> None:
    stream = chat.send("hello", stream="events", **ENDLESS)
    piece = next(piece for piece in stream if isinstance(piece, TextPiece))
    pipeline = chat.engine.pipeline
    for reply in list(pipeline._replies.values()):
        reply.fail(OSError("the disk is gone"))
    with pytest.raises(Exception, match="the disk is gone"):
        list(stream)
    assert chat.messages[-1]["content"].startswith(piece.text)
    assert chat.messages[-1]["interrupted"] is True
    assert chat.send("again", **GREEDY)


def test_truncating_a_prompt_leaves_the_history_whole(small: GenerativeModel) -> None:
    with small.chat_session(system="rule") as chat:
        dropped: list[int] = []
        for number in range(8):
            chat.send(f"question {number}", overflow="truncate_oldest", **DIGITS)
            assert chat.report is not None
            dropped.append(chat.report.truncated)
        assert dropped[0] == 0 < dropped[-1]
        assert dropped == sorted(dropped)
        assert roles(chat) == ["system"] + ["user", "assistant"] * 8


def test_most_turns_of_a_truncated_chat_are_not_read_anew(fresh: Opener) -> None:
    with fresh(max_seq=512).chat_session(system="rule") as chat:
        whole: list[bool] = []
        for number in range(60):
            chat.send(f"question {number}", overflow="truncate_oldest", **DIGITS)
            assert chat.report is not None
            if chat.report.truncated:
                whole.append(chat.report.reused_tokens < chat.report.prompt_tokens / 2)
        assert len(whole) > 30
        assert 0 < sum(whole) <= len(whole) / 4


# ---- several threads -----------------------------------------------------------------------


def test_80_sends_from_several_threads_run_one_after_another(chat: ChatSession) -> None:
    said = [f"word {number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        replies = dict(zip(said, pool.map(lambda text: chat.send(text, **GREEDY), said), strict=True))
    assert roles(chat) == ["user", "assistant"] * 12
    for user, assistant in zip(chat.messages[::2], chat.messages[1::2], strict=True):
        assert assistant["content"] == replies.pop(user["content"])
    assert not replies


def test_80_turns_start_on_the_sessions_own_thread(tiny: GenerativeModel) -> None:
    seen: list[str] = []
    with tiny.chat_session() as chat:
        turns: Any = chat._turns
        start = turns._start
        turns._start = lambda turn: (seen.append(threading.current_thread().name), start(turn))
        chat.send("hello", **GREEDY)
        chat.send("hello", **GREEDY)
    assert seen == ["fireside-session", "fireside-session"]


def test_80_a_second_turn_of_a_thread_that_has_not_read_its_first_is_refused(chat: ChatSession) -> None:
    for _ in range(20):
        first = chat.send("hello", stream=True, **GREEDY)
        with pytest.raises(ValueError, match="before the next turn"):
            chat.send("too early", **GREEDY)
        with pytest.raises(ValueError, match="before the next turn"):
            chat.complete([{"role": "user", "content": "too early"}], **GREEDY)
        assert "".join(first) == chat.messages[-1]["content"]
        assert [turn["content"] for turn in chat.messages[::2]] == ["hello"]
        chat.reset()


def test_80_streams_may_be_made_ahead_and_read_in_order(chat: ChatSession) -> None:
    first, second = (chat.send(word, stream=True, **GREEDY) for word in ("one", "two"))
    texts = ["".join(first), "".join(second)]
    assert [turn["content"] for turn in chat.messages] == ["one", texts[0], "two", texts[1]]


def test_80_a_stream_may_be_read_by_another_thread(chat: ChatSession) -> None:
    stream = chat.send("hello", stream=True, **GREEDY)
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit("".join, stream).result()
    assert chat.messages[-1]["content"] == text
    assert chat.send("again", **GREEDY)


# ---- report, complete, reset ---------------------------------------------------------------


def test_81_the_report_is_none_and_then_the_last_outcome(chat: ChatSession) -> None:
    assert chat.report is None
    text = chat.send("hello", **GREEDY)
    assert isinstance(chat.report, ChatOutcome)
    assert chat.report.text == text
    assert chat.report.new_tokens == 8
    "".join(chat.send("again", stream=True, temperature=0, max_new_tokens=3))
    assert chat.report.new_tokens == 3


def test_82_complete_leaves_the_history_as_it_was(tiny: GenerativeModel, chat: ChatSession) -> None:
    chat.send("hello", **GREEDY)
    before = chat.history()
    turns = [{"role": "user", "content": "something else"}]
    expected = tiny.chat(turns, **GREEDY)
    assert chat.complete(turns, **GREEDY) == expected
    assert "".join(chat.complete(turns, stream=True, **GREEDY)) == expected
    assert chat.messages == before
    assert turns == [{"role": "user", "content": "something else"}]
    assert chat.report is not None
    assert chat.report.text == expected


def test_82_complete_runs_beside_a_turn_where_two_may(fresh: Opener) -> None:
    with fresh(max_seq=512).chat_session(max_active=2) as chat:
        stream = chat.send("hello", stream=True, **{**ENDLESS, "max_new_tokens": 200})
        next(stream)
        assert chat.complete([{"role": "user", "content": "aside"}], **GREEDY)
        assert roles(chat) == ["user"]
        "".join(stream)
        assert roles(chat) == ["user", "assistant"]


def test_83_reset_keeps_the_system_turn_unless_told(tiny: GenerativeModel) -> None:
    with tiny.chat_session(system="Be terse.") as chat:
        expected = chat.send("hello", **GREEDY)
        chat.reset()
        assert chat.messages == [{"role": "system", "content": "Be terse."}]
        assert chat.send("hello", **GREEDY) == expected
        chat.reset(keep_system=False)
        assert chat.messages == []


def test_90_respond_goes_on_from_an_edited_history(tiny: GenerativeModel, chat: ChatSession) -> None:
    chat.send("the code is 41", **GREEDY)
    chat.messages[0]["content"] = "the code is 73"
    del chat.messages[1]
    text = chat.respond(**GREEDY)
    assert text == tiny.chat([{"role": "user", "content": "the code is 73"}], **GREEDY)
    assert roles(chat) == ["user", "assistant"]


def test_90_an_edited_history_gives_what_a_cold_start_gives(chat: ChatSession, fresh: Opener) -> None:
    chat.send("the code is 41", **DIGITS)
    chat.send("what is it", **DIGITS)
    chat.messages[0]["content"] = "the code is 73"
    turns = [*chat.history(), {"role": "user", "content": "tell me"}]
    assert chat.send("tell me", **DIGITS) == fresh().chat(turns, **DIGITS)


def test_history_is_a_deep_copy(chat: ChatSession) -> None:
    chat.messages.append({"role": "user", "content": [{"type": "text", "text": "hi"}]})
    copy = chat.history()
    copy[0]["content"][0]["text"] = "changed"
    copy.append({})
    assert chat.messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


# ---- closing -------------------------------------------------------------------------------


def test_91_close_cancels_the_live_turn_and_drops_the_waiting_ones(tiny: GenerativeModel) -> None:
    chat = tiny.chat_session()
    live = chat.send("hello", stream=True, **ENDLESS)
    next(live)
    with ThreadPoolExecutor(2) as pool:
        queued = [pool.submit(chat.send, "queued", **GREEDY) for _ in range(2)]
        until(lambda: chat._turns.waiting == 2)
        chat.close()
        for future in queued:
            with pytest.raises(ValueError, match="closed before this turn began"):
                future.result()
    "".join(live)
    assert chat.report is not None
    assert chat.report.finish == "cancelled"
    assert [turn["content"] for turn in chat.messages[::2]] == ["hello"]


def test_91_every_turn_after_close_is_refused_and_closing_twice_is_harmless(tiny: GenerativeModel) -> None:
    chat = tiny.chat_session()
    chat.close()
    chat.close()
    for ask in (
        lambda: chat.send("hello"),
        lambda: chat.send("hello", stream=True),
        lambda: chat.complete([{"role": "user", "content": "hello"}]),
    ):
        with pytest.raises(ValueError, match="the session is closed"):
            ask()
    chat.messages.append({"role": "user", "content": "hello"})
    with pytest.raises(ValueError, match="the session is closed"):
        chat.respond()
    with pytest.raises(ValueError, match="closed"):
        _ = chat.engine.pipeline


def test_91_the_engine_goes_with_its_last_user(fresh: Opener) -> None:
    model = fresh()
    chat = model.chat_session()
    model.close()
    assert chat.send("hello", **GREEDY)
    assert not model.handle.closed
    chat.close()
    assert model.handle.closed


def test_91_closing_a_send_from_another_thread_returns_what_there_is(tiny: GenerativeModel) -> None:
    chat = tiny.chat_session()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(chat.send, "hello", **{**ENDLESS, "max_new_tokens": 1900})
        until(lambda: chat._turns._running and chat._turns._running[0].text)
        chat.close()
        text = future.result()
    assert chat.report is not None
    assert chat.report.text == text
    assert chat.messages[-1] == {"role": "assistant", "content": text, "interrupted": True}


# ---- engine, budget, queue -----------------------------------------------------------------


def test_92_two_sessions_share_one_engine(tiny: GenerativeModel, chat: ChatSession) -> None:
    with tiny.chat_session() as other:
        assert other.engine.pipeline is chat.engine.pipeline
        other.send("hello", **GREEDY)
    assert other.engine.closed
    assert not chat.engine.closed
    card = chat.card
    chat.send("hello", **GREEDY)
    assert chat.card == card


def test_93_default_budget_bounds_a_reply_that_names_none(tiny: GenerativeModel) -> None:
    with tiny.chat_session(default_budget=5) as chat:
        for options, expected in (({}, 5), ({"max_new_tokens": 9}, 9), ({"max_new_tokens": 2}, 2)):
            chat.send("hello", config=options, temperature=0, ignore_eos=True)
            assert chat.report is not None
            assert chat.report.new_tokens == expected
            assert chat.report.finish == "length"


def test_94_more_waiting_turns_than_max_queued_are_refused(tiny: GenerativeModel) -> None:
    with tiny.chat_session(max_queued=2) as chat:
        live = chat.send("live", stream=True, **GREEDY)
        with ThreadPoolExecutor(2) as pool:
            queued = [pool.submit(chat.send, f"queued {n}", **GREEDY) for n in range(2)]
            until(lambda: chat._turns.waiting == 2)
            with pytest.raises(QueueFullError, match="2 turns are waiting"):
                chat.send("refused", stream=True)
            "".join(live)
            for future in queued:
                future.result()
        said = sorted(turn["content"] for turn in chat.messages[::2])
        assert said == ["live", "queued 0", "queued 1"]


def test_94_without_a_queue_turns_may_still_follow_one_another(tiny: GenerativeModel) -> None:
    with tiny.chat_session(max_queued=0) as chat:
        for _ in range(30):
            chat.send("hello", temperature=0, max_new_tokens=1)
        live = chat.send("live", stream=True, **GREEDY)
        with pytest.raises(QueueFullError):
            chat.send("refused", stream=True)
        "".join(live)


def test_events_of_a_turn_are_typed_and_end_with_the_outcome(chat: ChatSession) -> None:
    events = list(chat.send("hello", stream="events", **GREEDY))
    assert isinstance(events[0], PrefillProgress)
    assert isinstance(events[-1], ChatOutcome)
    texts = [piece.text for piece in events if isinstance(piece, TextPiece)]
    assert "".join(texts) == events[-1].text == chat.messages[-1]["content"]


def test_the_first_turn_of_a_session_tells_the_stage_observer(fresh: Opener) -> None:
    model = fresh()
    stages: list[str] = []
    model.set_stage_observer(lambda event: stages.append(event.stage))
    with model.chat_session() as chat:
        chat.send("hello", **GREEDY)
    assert stages == ["tokenize", "prefill", "decode", "detokenize"]


def test_an_idle_session_holds_no_thread(tiny: GenerativeModel) -> None:
    sessions = [tiny.chat_session() for _ in range(5)]
    for chat in sessions:
        chat.send("hi", max_new_tokens=1)
    until(lambda: all(thread.name != "fireside-session" for thread in threading.enumerate()))
    for chat in sessions:
        chat.close()
