from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from backend import GenerativeModel, StageEvent

Opener = Callable[..., GenerativeModel]
STAGES = ["tokenize", "prefill", "decode", "detokenize"]


def generate(model: GenerativeModel) -> None:
    model.generate("hello you", temperature=0, max_new_tokens=6)


def test_99_each_stage_arrives_once_in_order_and_off_the_callers_thread(fresh: Opener) -> None:
    model = fresh()
    events: list[tuple[StageEvent, int]] = []
    model.set_stage_observer(lambda event: events.append((event, threading.get_ident())))
    for _ in range(2):
        events.clear()
        generate(model)
        assert [event.stage for event, _ in events] == STAGES
        assert len({event.request_id for event, _ in events}) == 1
        assert threading.get_ident() not in {thread for _, thread in events}
        assert all(event.duration_s >= 0 for event, _ in events)


def test_99_events_count_tokens(fresh: Opener) -> None:
    model = fresh()
    tokens: dict[str, int] = {}
    model.set_stage_observer(lambda event: tokens.update({event.stage: event.tokens}))
    generate(model)
    assert model.report is not None
    assert tokens["tokenize"] == model.report.prompt_tokens
    assert tokens["prefill"] == model.report.prompt_tokens
    generate(model)
    assert tokens["prefill"] == model.report.prompt_tokens - model.report.reused_tokens == 2
    assert tokens["decode"] == tokens["detokenize"] == 6


def test_99_every_request_of_a_batch_has_its_own_events(fresh: Opener) -> None:
    model = fresh(max_seq=512)
    stages: dict[str, list[str]] = {}
    model.set_stage_observer(lambda event: stages.setdefault(event.request_id, []).append(event.stage))
    model.generate_batch(["a", "b", "c"], temperature=0, max_new_tokens=4)
    assert list(stages.values()) == [STAGES] * 3


def test_100_only_detokenize_carries_the_final_text_and_no_tower_ran(fresh: Opener) -> None:
    model = fresh()
    events: list[StageEvent] = []
    model.set_stage_observer(events.append)
    generate(model)
    assert model.report is not None
    assert [event.text for event in events] == [None, None, None, model.report.text]
    assert "vision" not in {event.stage for event in events}


def test_101_none_detaches(fresh: Opener) -> None:
    model = fresh()
    events: list[StageEvent] = []
    model.set_stage_observer(events.append)
    model.set_stage_observer(None)
    generate(model)
    assert events == []
    model.set_stage_observer(events.append)
    generate(model)
    model.set_stage_observer(None)
    generate(model)
    assert [event.stage for event in events] == STAGES


def test_an_observer_that_raises_is_logged_once_and_detached(
    fresh: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    model = fresh()
    seen: list[str] = []

    def observer(event: StageEvent) -> None:
        seen.append(event.stage)
        raise ZeroDivisionError("the gauge broke")

    model.set_stage_observer(observer)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            generate(model)
    assert model.report is not None
    assert model.report.finish == "length"
    assert seen == ["tokenize"]
    assert len(caplog.records) == 1
