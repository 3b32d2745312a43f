from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backend import ChatOutcome, EngineError, GenerativeModel, StageEvent, TokenLogprob
from tests.backend.model_api.ties import assert_equal_up_to_near_ties

Opener = Callable[..., GenerativeModel]
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 10}
LONG: dict[str, Any] = {"temperature": 0, "max_new_tokens": 200, "ignore_eos": True}
PROMPTS = ["hello", "the and you", "hello you " * 30, "is", "and"]


class Watch:
    """How many replies decoded at once, and the order in which they ended."""

    def __init__(self, model: GenerativeModel) -> None:
        self.running = self.most = 0
        self.started: list[str] = []
        self.ended: list[str] = []
        model.set_stage_observer(self)

    def __call__(self, event: StageEvent) -> None:
        if event.stage == "tokenize":
            self.started.append(event.request_id)
        elif event.stage == "prefill":
            self.running += 1
            self.most = max(self.most, self.running)
        elif event.stage == "detokenize":
            self.running -= 1
            self.ended.append(event.request_id)


def test_53_replies_are_in_prompt_order_whatever_order_they_end_in(fresh: Opener) -> None:
    model = fresh(max_seq=1024, slots=4)
    whole = [str(model.generate(prompt, **LONG)) for prompt in PROMPTS]
    # The first reply never says what ends the others.
    stop = next(sign for sign in whole[1][:60] if sign not in whole[0])
    alone = [model.generate(prompt, stop=stop, **LONG) for prompt in PROMPTS]
    watch = Watch(model)
    assert model.generate_batch(PROMPTS, stop=stop, **LONG) == alone
    assert sorted(watch.ended) == sorted(watch.started)
    assert watch.ended[0] != watch.started[0]


@pytest.mark.model
def test_53_replies_of_a_real_model_are_in_prompt_order(starter: GenerativeModel) -> None:
    prompts = ["Say red.", "Say blue."]
    red, blue = starter.generate_batch(prompts, temperature=0, max_new_tokens=4)
    assert starter.generate_batch(prompts[::-1], temperature=0, max_new_tokens=4) == [blue, red]
    assert red != blue


def test_54_an_empty_list_gives_an_empty_list(tiny: GenerativeModel) -> None:
    assert tiny.generate_batch([]) == []
    assert tiny.generate([]) == []
    assert tiny.reports == []


def test_55_each_reply_is_the_one_of_its_prompt_alone(tiny: GenerativeModel) -> None:
    alone = [tiny.generate(prompt, **GREEDY) for prompt in PROMPTS]
    assert tiny.generate_batch(PROMPTS, **GREEDY) == alone


@pytest.mark.model
def test_55_each_reply_is_exactly_the_one_alone_on_smollm2(starter: GenerativeModel) -> None:
    prompts = ["Name a fruit.", "What is 2 + 2?", "Write one line about the sea."]
    alone = []
    for prompt in prompts:
        starter.handle.pipeline().engine.forget()
        alone.append(starter.generate(prompt, temperature=0, max_new_tokens=8))
    assert starter.generate_batch(prompts, temperature=0, max_new_tokens=8) == alone


@pytest.mark.model
def test_55_one_cache_for_all_differs_at_most_at_a_near_tie(starter_model: Path, fresh: Opener) -> None:
    model = fresh(starter_model, max_seq=512, slots=3, kv_cache_mode="continuous")
    options: dict[str, Any] = {"temperature": 0, "max_new_tokens": 6, "logprobs": 10}
    prompts = ["Name a fruit.", "What is 2 + 2?", "Say hello."]
    model.generate_batch(prompts, **options)
    for prompt, other in zip(prompts, model.reports, strict=True):
        model.pipeline.engine.forget()
        model.generate(prompt, **options)
        assert model.report is not None
        assert_equal_up_to_near_ties(model.report, other)


def test_55_replies_that_differ_without_a_tie_are_told_apart() -> None:
    def said(token: int, *top: tuple[int, str, float]) -> ChatOutcome:
        return ChatOutcome("stop", 1, text=str(token), logprobs=(TokenLogprob(token, "", -0.5, top),))

    alone = said(1, (1, "", -0.5), (2, "", -0.7), (3, "", -1.5))
    assert_equal_up_to_near_ties(alone, alone)
    assert_equal_up_to_near_ties(alone, said(2))
    for other in (said(3), said(4)):
        with pytest.raises(AssertionError):
            assert_equal_up_to_near_ties(alone, other)


def test_56_reports_are_in_order_and_report_is_the_last_prompts(tiny: GenerativeModel) -> None:
    texts = tiny.generate_batch(PROMPTS, **GREEDY)
    assert all(type(report) is ChatOutcome for report in tiny.reports)
    assert [report.text for report in tiny.reports] == texts
    assert tiny.report == tiny.reports[-1]
    prompts = [tiny.render([{"role": "user", "content": prompt}]) for prompt in PROMPTS]
    lengths = [len(tiny.tokenizer.encode(prompt, special=True)) for prompt in prompts]
    assert [report.prompt_tokens for report in tiny.reports] == lengths


@pytest.mark.model
def test_56_a_real_models_reports_are_in_order(starter: GenerativeModel) -> None:
    prompts = ["Say red.", "Say blue in a whole long sentence."]
    texts = starter.generate_batch(prompts, temperature=0, max_new_tokens=3)
    assert [report.text for report in starter.reports] == texts
    assert starter.reports[0].prompt_tokens < starter.reports[1].prompt_tokens


def test_57_max_active_changes_only_the_scheduling(fresh: Opener) -> None:
    model = fresh(max_seq=1024)
    together = model.generate_batch(PROMPTS, **LONG)
    watch = Watch(model)
    assert model.generate_batch(PROMPTS, max_active=1, **LONG) == together
    assert watch.most == 1
    assert watch.ended == watch.started
    assert model.generate_batch(PROMPTS, max_active=2, **LONG) == together
    assert watch.most == 2


@pytest.mark.model
def test_57_a_real_model_says_the_same_one_by_one(starter: GenerativeModel) -> None:
    prompts = ["Name a fruit.", "Name a city."]
    together = starter.generate_batch(prompts, temperature=0, max_new_tokens=5)
    assert starter.generate_batch(prompts, max_active=1, temperature=0, max_new_tokens=5) == together


def test_58_by_default_all_prompts_decode_at_once(fresh: Opener) -> None:
    model = fresh(max_seq=512)
    watch = Watch(model)
    model.generate_batch(["hello", "the", "is", "and"], **LONG)
    assert watch.most == 4
    assert model.residency["pipeline"]["slots"] == 4
    assert model.pipeline.engine.counters().built == 1


def test_58_a_wider_batch_widens_the_engine_once(fresh: Opener) -> None:
    model = fresh(max_seq=256)
    first = model.generate("hello", **GREEDY)
    for _ in range(2):
        assert model.generate_batch(["hello"] * 12, **GREEDY) == [first] * 12
    assert model.residency["pipeline"]["slots"] == 12
    assert model.pipeline.engine.counters().built == 2


def test_58_more_prompts_than_slots_wait(fresh: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.model.MOST_SLOTS", 3)
    model = fresh(max_seq=256)
    watch = Watch(model)
    replies = model.generate_batch([f"hello {n}" for n in range(10)], temperature=0, max_new_tokens=200)
    assert len(set(replies)) > 5
    assert watch.most == 3


def test_one_failed_prompt_ends_the_batch_and_the_model_stays_usable(small: GenerativeModel) -> None:
    with pytest.raises(ValueError, match="context window"):
        small.generate_batch(["hello", "hello you " * 100, "the"], max_new_tokens=100, ignore_eos=True)
    assert small.generate_batch(["a", "b"], **GREEDY)


def test_closing_the_model_ends_a_batch(fresh: Opener) -> None:
    model = fresh()
    begun = threading.Event()
    model.set_stage_observer(lambda event: begun.set() if event.stage == "prefill" else None)
    caught: list[object] = []

    def work() -> None:
        try:
            caught.append(
                model.generate_batch(["hello"] * 3, max_active=1, max_new_tokens=2000, ignore_eos=True)
            )
        except (ValueError, EngineError) as err:
            caught.append(err)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    model.close()
    thread.join()
    assert caught


def test_a_text_is_no_list_of_prompts(tiny: GenerativeModel) -> None:
    with pytest.raises(ValueError, match="list of prompts"):
        tiny.generate_batch("hello")
