from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.bench.windows import pace_of, window_of, worst_share

STEP = 0.05


def times_of(steps: list[float]) -> list[float]:
    return list(accumulate(steps, initial=10.0))


def test_an_undisturbed_reply_keeps_all_of_its_speed() -> None:
    times = times_of([STEP] * 100)
    assert worst_share(times, pace_of(times), times[5], times[95], 1.0) == pytest.approx(1.0)


def test_a_reply_half_as_fast_keeps_half() -> None:
    alone, beside = times_of([STEP] * 100), times_of([2 * STEP] * 100)
    assert worst_share(beside, pace_of(alone), beside[0], beside[-1], 1.0) == pytest.approx(0.5)


def test_the_worst_window_counts_and_not_the_mean() -> None:
    steps = [STEP] * 40 + [4 * STEP] * 10 + [STEP] * 40
    beside, alone = times_of(steps), times_of([STEP] * 90)
    assert worst_share(beside, pace_of(alone), beside[0], beside[-1], 1.0) == pytest.approx(0.25)


def test_a_stall_shorter_than_the_window_is_averaged_over_it() -> None:
    steps = [STEP] * 40 + [0.55] + [STEP] * 40
    beside, alone = times_of(steps), times_of([STEP] * 81)
    assert worst_share(beside, pace_of(alone), beside[0], beside[-1], 1.0) == pytest.approx(0.5)


def test_only_what_happens_between_the_two_moments_counts() -> None:
    steps = [1.0] * 5 + [STEP] * 60 + [1.0] * 5
    beside, alone = times_of(steps), times_of([STEP] * 70)
    assert worst_share(beside, pace_of(alone), beside[6], beside[60], 1.0) == pytest.approx(1.0)


def test_a_span_shorter_than_the_window_is_one_window() -> None:
    alone, beside = times_of([STEP] * 20), times_of([2 * STEP] * 20)
    assert worst_share(beside, pace_of(alone), beside[2], beside[6], 1.0) == pytest.approx(0.5)


def test_speeds_are_compared_at_the_same_tokens() -> None:
    slowing = [STEP * (1 + index / 50) for index in range(100)]
    alone, beside = times_of(slowing), times_of([2 * step for step in slowing])
    kept = worst_share(beside, pace_of(alone), beside[0], beside[-1], 1.0)
    assert kept == pytest.approx(0.5, rel=0.05)


def test_single_slow_steps_alone_do_not_excuse_slow_ones_beside() -> None:
    smooth, stalled = times_of([STEP] * 60), times_of([STEP] * 30 + [5.0] + [STEP] * 29)
    assert pace_of(stalled)[-1] == pytest.approx(pace_of(smooth)[-1])


@pytest.mark.parametrize(("step", "window"), [(0.03, 1.0), (0.2, 2.0)])
def test_the_window_is_a_second_or_ten_steps(step: float, window: float) -> None:
    assert window_of(pace_of(times_of([step] * 50))) == pytest.approx(window)


@given(st.lists(st.floats(0.01, 0.5), min_size=2, max_size=60))
def test_the_share_is_never_negative(steps: list[float]) -> None:
    times = times_of(steps)
    assert worst_share(times, pace_of(times_of([STEP] * 60)), times[0], times[-1], 1.0) >= 0.0
