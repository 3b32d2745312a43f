from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.bench.pairs import (
    Estimate,
    Neighbours,
    Target,
    compare,
    estimate,
    processor_ticks,
    sample,
)

speeds = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=40)


def quiet() -> Neighbours:
    return Neighbours(lambda: (0, 0, 0))


def neighbours_with(shares: Iterator[float]) -> Neighbours:
    """Every second question, which is the one after a pair, finds the next of `shares`."""
    ticks = [0, 0, 0]
    asked = count()

    def clock() -> tuple[int, int, int]:
        if next(asked) and next(asked_after) % 2:
            ticks[0] += 1000
            ticks[1] += round(1000 * next(shares))
        return ticks[0], ticks[1], ticks[2]

    asked_after = count()
    return Neighbours(clock)


@given(speeds)
def test_the_interval_holds_the_median_and_lies_among_the_values(values: list[float]) -> None:
    found = estimate(values)
    assert found.low <= found.median <= found.high
    assert {found.low, found.high} <= set(values)
    assert found.median == statistics.median(values)


@pytest.mark.parametrize(
    ("number", "low", "high"),
    [(1, 1, 1), (3, 1, 3), (5, 1, 5), (8, 2, 7), (10, 2, 9), (15, 4, 12), (20, 6, 15)],
)
def test_the_interval_is_the_narrowest_that_covers_nine_in_ten(number: int, low: int, high: int) -> None:
    found = estimate([float(value) for value in range(1, number + 1)])
    assert (found.low, found.high) == (low, high)


def ratio(median: float, low: float, high: float, *, noisy: int = 0) -> Estimate:
    return Estimate(median, low, high, 10, noisy=noisy)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (ratio(1.00, 0.97, 1.02), "reached"),
        (ratio(0.97, 0.95, 0.99), "reached"),  # The interval reaches it, the median lacks under 2 %.
        (ratio(0.97, 0.96, 0.975), "missed"),  # The interval does not reach it.
        (ratio(0.95, 0.90, 1.10), "missed"),  # The median lacks over 2 %, however wide the interval.
        (ratio(1.00, 0.97, 1.02, noisy=1), "unclear"),
        (ratio(0.50, 0.40, 0.60, noisy=1), "unclear"),
    ],
)
def test_a_least_value_is_judged_by_interval_and_median(found: Estimate, verdict: str) -> None:
    assert Target("at least", 0.98).judge(found) == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (ratio(0.45, 0.40, 0.48), "reached"),
        (ratio(0.505, 0.49, 0.52), "reached"),
        (ratio(0.505, 0.502, 0.52), "missed"),
        (ratio(0.52, 0.40, 0.60), "missed"),
    ],
)
def test_a_most_value_is_judged_the_other_way_round(found: Estimate, verdict: str) -> None:
    assert Target("at most", 0.5).judge(found) == verdict


def test_few_pairs_or_noisy_ones_support_no_claim() -> None:
    assert Estimate(1.0, 1.0, 1.0, 10).is_claim
    assert not Estimate(1.0, 1.0, 1.0, 9).is_claim
    assert not Estimate(1.0, 1.0, 1.0, 10, noisy=1).is_claim


def test_sides_take_turns_first_after_one_unmeasured_run_of_each() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return 1.0

    compare(lambda: side("a"), lambda: side("b"), pairs=4, neighbours=quiet())
    assert "".join(order) == "ab" + "abbaabba"


def test_the_ratio_is_the_median_of_the_ratios_of_pairs() -> None:
    ours, theirs = iter([9.0, 1.0, 4.0, 9.0]), iter([9.0, 1.0, 2.0, 3.0])
    found = compare(lambda: next(ours), lambda: next(theirs), pairs=3, neighbours=quiet())
    assert found.ratio.median == 2.0
    assert (found.ours, found.theirs) == (4.0, 2.0)


def test_a_pair_beside_a_busy_neighbour_is_taken_again() -> None:
    ours = iter([1.0, 1.0, 50.0, 1.0, 1.0])
    shares = iter([0.0, 0.5, 0.01, 0.03])
    found = compare(lambda: next(ours), lambda: 1.0, pairs=3, neighbours=neighbours_with(shares))
    assert (found.ratio.high, found.ratio.repeats, found.ratio.noisy) == (1.0, 1, 0)


def test_where_it_never_falls_quiet_the_quietest_pairs_are_kept_and_counted() -> None:
    ours = iter([1.0, 1.0, 2.0, 3.0, 4.0])
    shares = iter([0.9, 0.2, 0.8, 0.1])
    found = compare(lambda: next(ours), lambda: 1.0, pairs=2, neighbours=neighbours_with(shares))
    assert (found.ratio.low, found.ratio.high) == (2.0, 4.0)
    assert (found.ratio.repeats, found.ratio.noisy) == (2, 2)


def test_single_measurements_are_repeated_alike() -> None:
    values = iter([1.0, 9.0, 3.0])
    found = sample(lambda: next(values), count=2, neighbours=neighbours_with(iter([0.0, 0.5, 0.0])))
    assert (found.median, found.repeats, found.noisy) == (2.0, 1, 0)


def test_neighbours_are_what_is_busy_beside_the_own_processes() -> None:
    clock = iter([(1000, 100, 50), (2000, 900, 250), (2000, 900, 250)])
    neighbours = Neighbours(lambda: next(clock))
    assert neighbours.share() == pytest.approx(0.6)
    assert neighbours.share() == 0.0


def write_process(proc: Path, pid: int, parent: int, ticks: tuple[int, int, int, int]) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    middle = " ".join("0" for _ in range(9))
    used = " ".join(map(str, ticks))
    (folder / "stat").write_text(f"{pid} (a) b (c) S {parent} {middle} {used} 20 0")


def test_own_time_is_that_of_the_whole_tree_and_of_children_that_ended(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 10 20 800 30 1 2 7 0 0\ncpu0 1 1 1 1\n")
    own = os.getpid()
    write_process(tmp_path, own, 1, (1, 2, 3, 4))
    write_process(tmp_path, own + 1, own, (10, 0, 0, 0))
    write_process(tmp_path, own + 2, own + 1, (0, 100, 0, 0))
    write_process(tmp_path, own + 3, 1, (5000, 0, 0, 0))
    assert processor_ticks(tmp_path) == (970, 140, 120)


def test_a_system_that_does_not_tell_counts_as_quiet(tmp_path: Path) -> None:
    assert processor_ticks(tmp_path) == (0, 0, 0)
    assert Neighbours(lambda: processor_ticks(tmp_path)).share() == 0.0
