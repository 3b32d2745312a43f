"""What both sides of a comparison are given alike: prompt, sampler settings, context."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from backend.engine.params import EngineParams
from backend.native import ContextParams, Model
from backend.types import LIBRARY_DEFAULTS, BackendError

SEED = 7
CONFIG = replace(LIBRARY_DEFAULTS, ignore_eos=True)
"""The sampler chain a person gets by default; no reply ends early."""
BURST = 48
"""Most steps from one depth before going back to it, so that the context stays what it is called."""
LEAST_STEPS = 4
SLACK = 256
"""Cells beyond the depth: a burst, and what the replies wrote until all of them were under way."""

_PROSE = (
    "In the evening the old man put another log on the fire and told them how the harbour looked when he "
    "was a boy: forty boats with brown sails, a market on Thursdays, and at the end of the pier a lamp "
    "that his father lit by hand. Nobody remembered when it had last burned. The children asked for the "
    "lamp again, so he drew it on the back of a letter, with every rivet, and a figure beside it for size. "
)


class BenchError(BackendError):
    """A measurement could not be made."""


@dataclass(frozen=True)
class Setup:
    """The context of one measurement. JSON-ready, because it crosses to another process."""

    cells: int
    """Of each slot."""
    slots: int
    flash_attn: bool | None
    """None leaves the choice to llama.cpp, which only the bare loop can do."""
    n_batch: int
    n_ubatch: int
    n_threads: int
    n_gpu_layers: int
    kv_type: str = "f16"

    def for_bare(self) -> ContextParams:
        return ContextParams(
            n_ctx=self.cells * self.slots,
            n_seq_max=self.slots,
            n_batch=self.n_batch,
            n_ubatch=self.n_ubatch,
            n_threads=self.n_threads,
            flash_attn=self.flash_attn,
            kv_type=self.kv_type,
        )

    def for_engine(self, bytes_per_cell: float) -> EngineParams:
        return EngineParams(
            max_seq=self.cells,
            slots=self.slots,
            n_batch=self.n_batch,
            n_ubatch=self.n_ubatch,
            n_threads=self.n_threads,
            flash_attn=self.flash_attn,
            kv_type=self.kv_type,
            slot_bytes=round(bytes_per_cell * self.cells),
            abortable=self.n_gpu_layers == 0,
        )


class Prompts:
    """Prompts of any length over one text, tokenized once."""

    def __init__(self, model: Model) -> None:
        self._text = model.tokenize(_PROSE)
        if not self._text:
            raise BenchError("The vocabulary of this model cannot write the benchmark's text.")

    def of(self, length: int, *, skip: int = 0) -> list[int]:
        """`length` tokens of the text, repeated as often as needed, from token `skip` on."""
        start = skip % len(self._text)
        times = (start + length) // len(self._text) + 1
        return (self._text * times)[start : start + length]

    def with_tail(self, length: int, new: int, turn: int) -> list[int]:
        """A prompt of `length` tokens whose last `new` differ, from their first on, from turn to turn."""
        head = self.of(length - new)
        places: list[int] = []
        seen: set[int] = set()
        for place, token in enumerate(self._text):
            if token not in seen:
                seen.add(token)
                places.append(place)
        return head + self.of(new, skip=places[turn % len(places)])


def rate(burst: Callable[[float], tuple[int, float]], min_s: float) -> float:
    """Tokens per second over as many bursts as make `min_s`. `burst(seconds)` gives tokens and seconds."""
    tokens, spent = 0, 0.0
    while not tokens or spent < min_s:
        more, took = burst(min_s - spent)
        tokens += more
        spent += took
    return tokens / spent


def mean_time(once: Callable[[], float], min_s: float) -> float:
    """Seconds one run takes, over as many runs as make `min_s`."""
    times: list[float] = []
    while not times or sum(times) < min_s:
        times.append(once())
    return sum(times) / len(times)


def now() -> float:
    return time.perf_counter()
