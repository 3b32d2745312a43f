"""When two greedy replies count as equal: exactly, or up to a near tie where sums may round differently."""

from __future__ import annotations

import math

from backend import ChatOutcome

NEAR_TIE = 0.3


def assert_equal_up_to_near_ties(alone: ChatOutcome, other: ChatOutcome) -> None:
    """At the first differing token the run alone must give both tokens logprobs close together.

    Both ran greedily with `logprobs`.
    """
    assert alone.logprobs is not None and other.logprobs is not None
    for first, second in zip(alone.logprobs, other.logprobs, strict=False):
        if first.id != second.id:
            best = {token: logprob for token, _, logprob in first.top}
            assert first.logprob - best.get(second.id, -math.inf) < NEAR_TIE, (alone.text, other.text)
            return
    assert alone.text == other.text
