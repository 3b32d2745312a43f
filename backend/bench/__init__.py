"""`fireside bench`: the engine held against a bare llama.cpp loop, in one run on one machine.

Importing it costs nothing; measuring starts processes of its own and takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backend.bench.cases import Bench, ResultRow
    from backend.bench.sides import Side

_QUICK_PAIRS = 3
PAIRS = 10


@dataclass(frozen=True)
class Options:
    """What to measure, and how thoroughly. An impossible value is a ValueError that says so."""

    model: str | None = None
    quick: bool = False
    only: tuple[str, ...] = ()
    """Names of cases; none means all, or the quick ones."""
    pairs: int = PAIRS
    threads: int | None = None

    def __post_init__(self) -> None:
        from backend.bench.cases import CASES

        if unknown := [name for name in self.only if name not in CASES]:
            raise ValueError(f"There is no case {unknown[0]!r}. The cases are {', '.join(CASES)}.")
        if self.pairs < 1:
            raise ValueError(f"At least one pair must be measured, not {self.pairs}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The cases to measure, in the table's order."""
        from backend.bench.cases import CASES, QUICK

        wanted = self.only or (QUICK if self.quick else tuple(CASES))
        return tuple(name for name in CASES if name in wanted)


Launch = Callable[..., "Side"]
"""Makes a side from its kind and arguments."""


def run(
    options: Options,
    *,
    begun: Callable[[Bench], None] = lambda _bench: None,
    measured: Callable[[ResultRow], None] = lambda _row: None,
    launch: Launch | None = None,
    min_s: float | None = None,
) -> dict[str, Any]:
    """Measure; everything that was found, JSON-ready.

    `begun` is told once the sides are up, `measured` of every row as it comes. `launch` makes the
    sides, each in a process of its own unless told otherwise; `min_s` is how long a measurement
    lasts. Raises ModelLoadError and BenchError.
    """
    from backend.bench.cases import CASES, Bench
    from backend.bench.pairs import MIN_S
    from backend.bench.report import as_json
    from backend.bench.sides import RemoteSide
    from backend.loading import check_file, find_model

    path = find_model(options.model)
    check_file(path)
    start: Launch = launch or RemoteSide
    sides: list[Side] = []

    def side(kind: str, *arguments: Any) -> Side:
        sides.append(start(kind, str(path.absolute()), *arguments))
        return sides[-1]

    rows: list[ResultRow] = []
    try:
        engine = side("engine", options.threads)
        layers = engine.call("describe")["setup"]["n_gpu_layers"]
        bench = Bench(
            str(path.absolute()),
            engine,
            side("bare", layers),
            side("whole", options.threads),
            pairs=min(options.pairs, _QUICK_PAIRS) if options.quick else options.pairs,
            quick=options.quick,
            min_s=MIN_S if min_s is None else min_s,
        )
        begun(bench)
        for name in options.names:
            for row in _rows(name, CASES[name](bench)):
                rows.append(row)
                measured(row)
        return as_json(bench, rows)
    finally:
        for one in sides:
            one.close()


def _rows(name: str, case: Any) -> Any:
    """The rows of a case; one that says why where it cannot be measured here."""
    from backend.bench.cases import ResultRow
    from backend.bench.workload import BenchError

    try:
        yield from case
    except BenchError as err:
        yield ResultRow(name, name, note=str(err))


def main(
    model: str | None = None,
    as_json: bool = False,
    quick: bool = False,
    only: tuple[str, ...] = (),
    pairs: int = PAIRS,
) -> int:
    """Measure and print, line by line or as one JSON object. Returns the exit code."""
    import json

    from backend.bench.report import head, line

    options = Options(model, quick, only, pairs)
    if as_json:
        print(json.dumps(run(options)))
        return 0
    run(
        options,
        begun=lambda bench: print("\n".join(head(bench)), flush=True),
        measured=lambda row: print(line(row), flush=True),
    )
    return 0
