"""What is measured, and what it must reach. Each case yields the rows of its part of the table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from backend.bench.fresh import bare_interpreter, run_fresh
from backend.bench.pairs import (
    MIN_S,
    Comparison,
    Estimate,
    Neighbours,
    Target,
    Verdict,
    compare,
    estimate,
    sample,
)
from backend.bench.sides import Contender, Side
from backend.bench.workload import SLACK, BenchError, Setup, mean_time
from backend.memory import host_free_bytes

REFERENCE_S = 0.011
"""`python -c pass` on the machine the targets in milliseconds were written for."""
CANCEL_S = 0.2
_SHARE = 0.6
"""Of the free memory, what the contexts of a comparison may take."""
_PROMPT = 4000
_QUIET = Neighbours(lambda: (0, 0, 0))
"""For what no neighbour can change."""


@dataclass(frozen=True)
class ResultRow:
    """One line of the table. `unit` is that of `ours` and `theirs`; `ratio` is ours to theirs, or to
    what `name` says."""

    case: str
    name: str
    unit: str = ""
    ours: float | None = None
    theirs: float | None = None
    ratio: Estimate | None = None
    target: Target | None = None
    verdict: Verdict | None = None
    note: str = ""


class Bench:
    """The sides of every comparison, and how they are compared."""

    def __init__(
        self,
        path: str,
        engine: Side,
        bare: Side,
        whole: Side,
        *,
        pairs: int,
        quick: bool,
        min_s: float = MIN_S,
    ) -> None:
        self.path = path
        self.pairs = pairs
        self.quick = quick
        self.min_s = min_s
        self.about: dict[str, Any] = engine.call("describe")
        self.default = Setup(**self.about["setup"])
        self.engine, self.bare, self.whole = Contender(engine), Contender(bare), Contender(whole)
        self.neighbours = Neighbours()
        self.calibration = sample(
            lambda: mean_time(bare_interpreter, min_s), count=1 if quick else 5, neighbours=self.neighbours
        )

    def setup(self, cells: int, slots: int = 1, **changes: Any) -> Setup:
        """The default context with that many slots and cells. BenchError beyond what was trained."""
        if cells > self.about["trained"]:
            raise BenchError(f"The model was trained with {self.about['trained']} tokens of context.")
        return replace(self.default, cells=cells, slots=slots, **changes)

    def use(self, ours: Setup, theirs: Setup | None = None, *, contender: Contender | None = None) -> None:
        """Give both sides their contexts; one at a time where memory does not hold both."""
        contender = contender or self.engine
        if contender.has(ours) and self.bare.has(theirs or ours):
            return
        for one in (self.engine, self.bare, self.whole):
            one.release()
        size = ours.cells * ours.slots * self.about["bytes_per_cell"]
        room = host_free_bytes() * _SHARE
        if room and size > room:
            raise BenchError("There is not enough free memory for this context.")
        apart = bool(room) and 2 * size > room
        contender.use(ours, rival=self.bare if apart else None)
        self.bare.use(theirs or ours, rival=contender if apart else None)

    def pair(self, ours: Callable[[], float], theirs: Callable[[], float]) -> Comparison:
        return compare(ours, theirs, pairs=self.pairs, neighbours=self.neighbours)


def row_of(
    case: str, name: str, unit: str, result: Comparison, target: Target | None = None, note: str = ""
) -> ResultRow:
    verdict = target.judge(result.ratio) if target else None
    return ResultRow(case, name, unit, result.ours, result.theirs, result.ratio, target, verdict, note)


# ---- speed of writing ----------------------------------------------------------------------

_WRITE_TARGETS = {1: Target("at least", 0.98), 8: Target("at least", 0.95)}


def decode(bench: Bench) -> Iterator[ResultRow]:
    """1, 2, 4 and 8 sequences at several depths with both attentions, against the bare batched loop."""
    own = bool(bench.default.flash_attn)
    for flash, slots in itertools.product((own, not own), (1, 2, 4, 8)):
        if bench.quick and (flash != own or slots not in _WRITE_TARGETS):
            continue
        judged = flash == own and slots in _WRITE_TARGETS
        depths = (64,) if bench.quick else (64, 512, 1024, 2048) if judged else (64, 512, 2048)
        for depth in depths:
            attention = "on" if flash else "off"
            several = f"{slots} sequences" if slots > 1 else "alone"
            name = f"decode {several} at {depth:,} tokens, flash attention {attention}"
            yield _written(
                bench, "decode", name, depth, slots, {"flash_attn": flash}, _WRITE_TARGETS.get(slots)
            )


def auto(bench: Bench) -> Iterator[ResultRow]:
    """Alone at 1,024 tokens, against llama.cpp's own choice of attention."""
    if bench.default.n_gpu_layers:
        return
    name = "decode alone at 1,024 tokens, against llama.cpp's AUTO attention"
    row = _written(bench, "auto", name, 1024, 1, {}, Target("at least", 1.8), {"flash_attn": None})
    yield replace(row, note=row.note or attention_advice(row.ratio, flash=bool(bench.default.flash_attn)))


def attention_advice(ratio: Estimate | None, *, flash: bool) -> str:
    """What to set on a processor that decodes faster with flash attention; empty where it does not."""
    if ratio is None or ratio.high >= 1 or flash:
        return ""
    return "flash attention is faster on this processor: `fireside config set load.flash_attn on` keeps it"


def _written(
    bench: Bench,
    case: str,
    name: str,
    depth: int,
    slots: int,
    changes: dict[str, Any],
    target: Target | None,
    bare_changes: dict[str, Any] | None = None,
) -> ResultRow:
    try:
        # One context for all depths that fit beside each other, so that it is built once.
        cells = depth + SLACK if depth + SLACK > 2304 or bench.about["trained"] < 2304 else 2304
        ours = bench.setup(cells, slots, **changes)
        bench.use(ours, replace(ours, **(bare_changes or {})))
        result = bench.pair(
            lambda: bench.engine.call("write", depth, bench.min_s),
            lambda: bench.bare.call("write", depth, bench.min_s),
        )
    except BenchError as err:
        return ResultRow(case, name, note=str(err))
    return row_of(case, name, "tok/s", result, target)


def slots(bench: Bench) -> Iterator[ResultRow]:
    """4 of 8 slots after random arrivals and ends, against 4 neighbouring slots of the bare loop."""
    depth, writers = 64, 4
    seeds, reached = itertools.count(1), [depth]
    ours = bench.setup(depth + 1024 + SLACK, 8)
    bench.use(ours, replace(ours, slots=writers))

    def scattered() -> float:
        speed, reached[0] = bench.engine.call("scattered", depth, writers, next(seeds), bench.min_s)
        return speed

    result = bench.pair(scattered, lambda: bench.bare.call("write", reached[0], bench.min_s))
    name = "decode in 4 of 8 slots, after random arrivals and ends"
    yield row_of("slots", name, "tok/s", result, note=f"at about {reached[0]:,} tokens")


def pipeline(bench: Bench) -> Iterator[ResultRow]:
    """`GenerativeModel.stream_generate`, until its last text is read."""
    setup = bench.setup(512)
    bench.use(setup, contender=bench.whole)
    result = bench.pair(
        lambda: bench.whole.call("write", 64, bench.min_s), lambda: bench.bare.call("write", 64, bench.min_s)
    )
    bench.whole.release()
    yield row_of("pipeline", "stream_generate alone at 64 tokens, text included", "tok/s", result)


# ---- reading -------------------------------------------------------------------------------


def prefill(bench: Bench) -> Iterator[ResultRow]:
    """Cold prompts, against the bare loop with the same rows at a time and with llama.cpp's 512."""
    target = Target("at least", 0.97)
    lengths = (64,) if bench.quick else (64, 1024)
    for length in lengths:
        setup = bench.setup(max(lengths) + SLACK)
        bench.use(setup)
        yield row_of("prefill", f"prefill of {length:,} tokens", "tok/s", _read(bench, length), target)
    if bench.default.n_ubatch != 512 and not bench.quick:
        setup = bench.setup(lengths[-1] + SLACK)
        bench.use(setup, replace(setup, n_batch=512, n_ubatch=512))
        name = f"prefill of {lengths[-1]:,} tokens, against llama.cpp's default of 512 rows at a time"
        yield row_of("prefill", name, "tok/s", _read(bench, lengths[-1]))


def _read(bench: Bench, length: int) -> Comparison:
    return bench.pair(
        lambda: length / bench.engine.call("read", length, length, bench.min_s),
        lambda: length / bench.bare.call("read", length, length, bench.min_s),
    )


def first_token(bench: Bench) -> Iterator[ResultRow]:
    """A prompt whose beginning is in the cache, against the same one cold."""
    length, new = (256, 32) if bench.quick else (512, 32)
    bench.use(bench.setup(length + SLACK))
    result = bench.pair(
        lambda: 1000 * bench.engine.call("read", length, new, bench.min_s),
        lambda: 1000 * bench.engine.call("read", length, length, bench.min_s),
    )
    name = f"first token, {length - new} of {length} tokens in the cache, against none"
    yield row_of("first-token", name, "ms", result)


# ---- beside others -------------------------------------------------------------------------


def writers(bench: Bench) -> Iterator[ResultRow]:
    """Four replies beside a 4,000-token prompt: the worst window of the worst of them."""
    length = min(_PROMPT, bench.about["trained"] - 2 * SLACK)
    bench.use(bench.setup(length + SLACK, 5))
    found: list[dict[str, float]] = []

    def worst() -> float:
        found.append(bench.engine.call("beside_prompt", 64, 4, length))
        return found[-1]["worst"]

    ratio = sample(worst, count=1 if bench.quick else max(3, bench.pairs // 3), neighbours=bench.neighbours)
    target = Target("at least", 0.5)
    last = found[-1]
    yield ResultRow(
        "writers",
        f"4 replies beside a {length:,}-token prompt: speed kept in the worst window",
        ratio=ratio,
        target=target,
        verdict=target.judge(ratio),
        note=f"windows of {last['window_s']:.1f} s, prompt read in {last['prompt_s']:.1f} s",
    )


def cancel(bench: Bench) -> Iterator[ResultRow]:
    """From the cancellation to the end, at moments spread over a prompt, and while four write."""
    length = min(256 if bench.quick else 1024, bench.about["trained"] - SLACK)
    count = max(bench.pairs, 3)
    shares = itertools.cycle([0.05 + 0.75 * index / count for index in range(count)])
    bench.use(bench.setup(length + SLACK, 4))
    moments: dict[str, Callable[[], float]] = {
        "while its prompt is read": lambda: bench.engine.call("cancel_reading", length, next(shares)),
        "while 4 replies are written": lambda: bench.engine.call("cancel_writing", 64),
    }
    unit_s = bench.calibration.median
    target = Target("at most", CANCEL_S / REFERENCE_S)
    for when, measure in moments.items():
        times: list[float] = []

        def timed(measure: Callable[[], float] = measure, times: list[float] = times) -> float:
            times.append(measure())
            return times[-1]

        took = sample(timed, count=count, neighbours=bench.neighbours)
        ratio = replace(took, median=took.median / unit_s, low=took.low / unit_s, high=took.high / unit_s)
        yield ResultRow(
            "cancel",
            f"cancel {when}, as a multiple of `python -c pass`",
            "ms",
            1000 * took.median,
            1000 * unit_s,
            ratio,
            target,
            target.judge(ratio),
            note=f"longest {1000 * max(times):.0f} ms",
        )


# ---- the process ---------------------------------------------------------------------------


def startup(bench: Bench) -> Iterator[ResultRow]:
    """A new interpreter: import, load, first token."""
    parts: list[dict[str, float]] = []

    def whole() -> float:
        parts.append(run_fresh("startup", bench.path, bench.default.n_threads))
        return 1000 * parts[-1]["whole"]

    result = bench.pair(whole, lambda: 1000 * mean_time(bare_interpreter, bench.min_s))
    yield row_of("startup", "start to first token, as a multiple of `python -c pass`", "ms", result)
    for name in ("import", "load", "first_token"):
        part = estimate([1000 * one[name] for one in parts])
        yield ResultRow("startup", f"of that, {name.replace('_', ' ')}", "ms", part.median)


def memory(bench: Bench) -> Iterator[ResultRow]:
    """Peak resident memory of the model API and of a bare loop, each in its own process."""
    cells = min(8192, bench.about["trained"])
    setup = bench.setup(cells)
    for one in (bench.engine, bench.bare, bench.whole):
        one.release()
    result = compare(
        lambda: run_fresh("engine_memory", bench.path, cells, setup.n_threads)["peak"] / 2**20,
        lambda: run_fresh("bare_memory", bench.path, _plain(setup))["peak"] / 2**20,
        pairs=1 if bench.quick else 3,
        neighbours=_QUIET,
    )
    yield row_of("memory", f"peak memory at {cells:,} cells", "MiB", result, Target("at most", 1.3))


def _plain(setup: Setup) -> dict[str, Any]:
    return dict(vars(setup))


CASES: dict[str, Callable[[Bench], Iterator[ResultRow]]] = {
    "decode": decode,
    "auto": auto,
    "prefill": prefill,
    "first-token": first_token,
    "writers": writers,
    "slots": slots,
    "cancel": cancel,
    "pipeline": pipeline,
    "startup": startup,
    "memory": memory,
}
QUICK = ("decode", "prefill", "cancel")
