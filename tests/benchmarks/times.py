"""Rows of times: each is held against a limit that is meant for a machine of the reference's speed."""

from __future__ import annotations

from dataclasses import replace

from backend.bench.cases import REFERENCE_S, ResultRow
from backend.bench.pairs import Estimate, Target


def timed(case: str, name: str, took: Estimate, unit: Estimate, limit_s: float, note: str = "") -> ResultRow:
    """The row of a time in seconds. `unit` is what `python -c pass` takes here and now."""
    of = unit.median
    ratio = replace(took, median=took.median / of, low=took.low / of, high=took.high / of)
    target = Target("at most", limit_s / REFERENCE_S)
    return ResultRow(
        case, name, "ms", 1000 * took.median, 1000 * of, ratio, target, target.judge(ratio), note
    )
