"""Shows what was measured: lines of text as they come, or one JSON-ready object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from backend.bench.cases import REFERENCE_S, Bench, ResultRow
from backend.bench.pairs import LEAST_PAIRS
from backend.gguf.file import shown

_WIDTH = 74


def head(bench: Bench) -> Iterator[str]:
    """What is measured, and how."""
    about, default = bench.about, bench.default
    yield f"{shown(about['name'])} ({shown(about['description'])}), {default.n_threads} threads"
    yield f"Flash attention is {_on(default.flash_attn)} by default here: {why(bench)}."
    if bench.quick:
        yield f"Quick: {bench.pairs} pairs a row and few rows. This is a look, and supports no claim."
    else:
        yield f"Each ratio is the median of {bench.pairs} interleaved pairs, with its 90 % interval."
    yield (
        f"Calibration: `python -c pass` takes {1000 * bench.calibration.median:.1f} ms "
        f"(targets in milliseconds are for a machine where it takes {1000 * REFERENCE_S:.0f})."
    )
    if bench.calibration.noisy:
        yield "Other processes are busy: verdicts wait for a quiet machine."
    yield ""
    yield f"{'':{_WIDTH}}{'Fireside':>10}{'bare':>10}         ratio [90 %]        target"


def line(row: ResultRow) -> str:
    text = f"{row.name:<{_WIDTH}}"
    text += _value(row.ours, row.unit) + _value(row.theirs, row.unit)
    if row.ratio:
        text += f"  {row.ratio.median:6.3f} [{row.ratio.low:.3f} {row.ratio.high:.3f}]"
    if row.target:
        text += f"  {row.target.kind} {row.target.value:.3g}: {row.verdict}"
    if row.ratio and row.ratio.repeats:
        text += f", {row.ratio.repeats} repeated"
    if row.ratio and row.ratio.noisy:
        text += f", {row.ratio.noisy} not quiet"
    if row.note:
        text += f"  ({shown(row.note, 200)})"
    return text.rstrip()


def as_json(bench: Bench, rows: list[ResultRow]) -> dict[str, Any]:
    """Everything that was measured. Times are in the unit of their row, sizes in MiB."""
    return {
        "model": {
            "name": bench.about["name"],
            "description": bench.about["description"],
            "path": bench.path,
        },
        "context": {key: value for key, value in asdict(bench.default).items() if key != "slots"},
        "attention": {"flash_attn": bench.default.flash_attn, "why": why(bench)},
        "quick": bench.quick,
        "pairs": bench.pairs,
        "is_claim": bench.pairs >= LEAST_PAIRS and not bench.quick,
        "calibration": {
            "python_s": bench.calibration.median,
            "reference_s": REFERENCE_S,
            "noisy": bench.calibration.noisy,
        },
        "rows": [asdict(row) for row in rows],
    }


def why(bench: Bench) -> str:
    """Why that attention is the default."""
    default = bench.default
    if default.n_gpu_layers:
        return "layers run on a GPU"
    if default.flash_attn:
        return "memory is short, and it needs less"
    return "the layers run on the CPU, where it slows down long chats on most machines"


def _on(flash: bool | None) -> str:
    return "on" if flash else "off"


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return " " * 10
    digits = 0 if value >= 1000 or unit == "MiB" else 1
    return f"{value:>10,.{digits}f}"
