"""The memory plan as a waterfall, and its verdict in words. Pure: it is given numbers and gives rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from app.models.catalog import LoadPlan
from app.terminal.figures import gib, gib_of
from app.terminal.glyphs import Glyphs
from app.tui.widgets.cells import Span, wrapped
from app.tui.widgets.rows import BLANK, ListRow

CONTEXTS = (4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144)
MOST_CHOICES = 5


def tokens(count: int) -> str:
    """A context as a choice: `8k`, `40k`; `2000` where it is no whole number of thousands."""
    return f"{count // 1024}k" if count % 1024 == 0 else f"{count}"


def context_choices(trained: int, planned: int) -> tuple[int, ...]:
    """The contexts offered: those around what the plan would take, the trained one the last."""
    steps = sorted({*(step for step in CONTEXTS if step < trained), trained, min(planned, trained)})
    place = steps.index(min(planned, trained))
    start = max(0, min(place - 1, len(steps) - MOST_CHOICES))
    return tuple(steps[start : start + MOST_CHOICES])


def bars(plan: LoadPlan, width: int) -> list[tuple[str, int, int, int, str]]:
    """The parts: name, bytes, first cell, cells, role. Each begins where the last one ended."""
    total = plan.total_bytes or max(plan.free_bytes, plan.needed_bytes, 1)
    weights = "weights"
    if plan.device == "gpu":
        weights = f"weights, {plan.layers_on_gpu} of {plan.layers} layers"
    left = total - plan.others_bytes - plan.needed_bytes
    parts = [
        ("in use by others", plan.others_bytes, "muted"),
        (weights, plan.weights_bytes, "primary"),
        (f"context, {plan.context:,} tokens", plan.context_bytes, "accent"),
        ("compute buffers", plan.compute_bytes, "accent"),
        ("free", left, "success") if left >= 0 else ("too much", -left, "error"),
    ]
    ends = [0]
    for _, count, _ in parts:
        ends.append(ends[-1] + count)
    cells = [min(width, round(end / total * width)) for end in ends]
    rows: list[tuple[str, int, int, int, str]] = []
    for (name, count, role), (start, end) in zip(parts, pairwise(cells), strict=True):
        # A part that is there has a cell, though it may be too small for one.
        start = min(start, width - 1) if count else start
        rows.append((name, count, start, max(end - start, 1 if count else 0), role))
    if left < 0:
        name, count, _, _, role = rows[-1]
        over = min(width, max(1, round(-left / max(plan.needed_bytes, 1) * width)))
        rows[-1] = (name, count, width - over, over, role)
    return rows


def waterfall(plan: LoadPlan, width: int, glyphs: Glyphs) -> list[ListRow]:
    """A pair of rows for each part: its name and size, and where it lies."""
    total = f"{plan.device} {gib(plan.total_bytes)}" if plan.total_bytes else plan.device
    rows = [ListRow((Span("memory plan", bold=True),), (Span(total, "muted"),)), BLANK]
    for name, count, start, cells, role in bars(plan, width):
        if name == "in use by others" and not plan.total_bytes:
            continue
        rows.append(ListRow((Span(name),), (Span(gib(count).removesuffix(" GiB"), bold=True),)))
        after = max(0, width - start - cells)
        rule, done = glyphs.rule, glyphs.meter
        bar = (Span(rule * start, "faint"), Span(done * cells, role), Span(rule * after, "faint"))
        rows.append(ListRow(bar))
    return rows


def verdict(plan: LoadPlan, larger: int | None = None) -> tuple[str, str, str]:
    """Whether it fits: a glyph's name, a sentence, a role. `larger` is a longer context that fits too."""
    if not plan.fits:
        whole = plan.total_bytes or plan.free_bytes
        return (
            "failed",
            f"does not fit, {gib_of(plan.needed_bytes, whole)}",
            "error",
        )
    if plan.partial:
        return "partial", f"{plan.layers_on_gpu} of {plan.layers} layers on gpu, slower", "warning"
    where = "fits" if plan.device == "gpu" else "fits, on the cpu"
    return "done", f"{where}; {tokens(larger)} would fit too" if larger else where, "success"


def fit(plan: LoadPlan, *, loaded: bool = False) -> tuple[str, str, str]:
    """The same in the few words of a list."""
    if not plan.fits:
        return "failed", "does not fit", "error"
    if plan.partial:
        return "partial", f"{plan.layers_on_gpu} of {plan.layers} on gpu", "warning"
    word = "gpu" if plan.device == "gpu" else "cpu"
    return "done", f"{word}, loaded" if loaded else word, "success"


def verdict_rows(plan: LoadPlan, larger: int | None, width: int, glyphs: Glyphs) -> list[ListRow]:
    """The verdict, and what was given up for it."""
    mark, words, role = verdict(plan, larger)
    sign = {"done": glyphs.done, "partial": glyphs.partial, "failed": glyphs.failed}[mark]
    rows = [ListRow((Span(f"{sign} ", role, bold=True), Span(words, bold=True)))]
    for note in plan.notes:
        rows += [ListRow((Span(line, "muted"),)) for line in wrapped(note, width)]
    return rows


def larger_that_fits(plan: LoadPlan, plans: Sequence[LoadPlan]) -> int | None:
    """The longest context that fits, where that is longer than this one's."""
    longest = max((other.context for other in plans if other.fits), default=0)
    return longest if longest > plan.context else None
