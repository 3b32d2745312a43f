"""The engine's side of a comparison: the same measurements as the bare loop's, through `Engine`.

Times are taken on the engine's own thread when it hands tokens over, as it does to every reader.
"""

from __future__ import annotations

import queue
import random
import threading
from collections import deque
from collections.abc import Collection
from dataclasses import asdict
from typing import Any, TypeVar

from backend.bench.windows import pace_of, window_of, worst_share
from backend.bench.workload import (
    BURST,
    CONFIG,
    LEAST_STEPS,
    SEED,
    BenchError,
    Prompts,
    Setup,
    mean_time,
    now,
    rate,
)
from backend.engine.engine import Engine
from backend.engine.request import Delta, Ended, EngineRequest, Output, Progress
from backend.engine.scheduler import Outputs
from backend.handle import open_model
from backend.load_options import LoadOptions
from backend.memory import host_free_bytes

SETTLE_STEPS = 8
"""Tokens a reply writes before something happens to it."""
_STRAGGLE = 128
"""Steps within which all replies of a request are under way."""
_TRIES = 8
Kind = TypeVar("Kind", Progress, Delta, Ended)


class OurEngine:
    """Drives one `Engine` at a time over a loaded model."""

    def __init__(self, path: str, threads: int | None) -> None:
        self._handle = open_model(path, LoadOptions(threads=threads))
        self._handle.retain()
        self._prompts = Prompts(self._handle.model)
        self._outputs: queue.SimpleQueue[tuple[float, Outputs]] = queue.SimpleQueue()
        self._rest: deque[tuple[EngineRequest, Output]] = deque()
        self._moment = 0.0
        self._engine: Engine | None = None
        self._turn = 0
        self._reading_s: dict[int, float] = {}

    def describe(self) -> dict[str, Any]:
        """The model, and the context that a load of it gets by default."""
        handle = self._handle
        params, plan, info = handle.engine_params(1), handle.plan, handle.info
        setup = Setup(
            cells=params.max_seq,
            slots=1,
            flash_attn=params.flash_attn,
            n_batch=params.n_batch,
            n_ubatch=params.n_ubatch,
            n_threads=params.n_threads,
            n_gpu_layers=plan.n_gpu_layers,
            kv_type=params.kv_type,
        )
        return {
            "name": info.name or info.path.name,
            "description": handle.model.description,
            "trained": info.n_ctx_train,
            "bytes_per_cell": self._bytes_per_cell,
            "free_bytes": host_free_bytes(),
            "setup": asdict(setup),
        }

    def open(self, setup: Setup) -> None:
        """Start an engine, in place of the one before."""
        self.close()
        params = setup.for_engine(self._bytes_per_cell)
        self._engine = Engine(self._handle.model, lambda _slots: params, self._deliver, slots=params.slots)

    def close(self) -> None:
        """Stop the engine and free its context."""
        if self._engine:
            self._engine.close()
        self._engine = None
        self._outputs = queue.SimpleQueue()
        self._rest.clear()

    # ---- measurements ----------------------------------------------------------------------

    def write(self, depth: int, min_s: float) -> float:
        """Tokens per second of all slots together, from `depth` tokens of context on."""
        prompt = self._prompts.of(depth)

        def burst(seconds: float) -> tuple[int, float]:
            return self._timed([self._submit(prompt, BURST + _STRAGGLE, n=self._slots)], seconds)

        return rate(burst, min_s)

    def read(self, length: int, new: int, min_s: float) -> float:
        """Seconds from a prompt of `length` tokens, the last `new` of them unseen, to its first token."""
        return mean_time(lambda: self._first_token(length, new), min_s)

    def cancel_reading(self, length: int, share: float) -> float:
        """Seconds from a cancellation to the end, at `share` of the reading of a prompt."""
        whole_s = self._reading_s.get(length) or self._first_token(length, length)
        self._reading_s[length] = whole_s
        for earlier in range(_TRIES):
            self._open.forget()
            # A reply follows, so that there is something to cancel where reading was quicker than told.
            request = self._submit(self._prompts.of(length), BURST + _STRAGGLE)
            self._until(request, Progress)
            threading.Event().wait(whole_s * share / 2**earlier)
            took, ended = self._cancelled(request)
            if ended.finish == "cancelled":
                return took
        raise BenchError("The reply ended before it could be cancelled.")

    def cancel_writing(self, depth: int) -> float:
        """Seconds from a cancellation to the end, while a reply is written in every slot."""
        request = self._submit(self._prompts.of(depth), BURST + _STRAGGLE, n=self._slots)
        for _ in range(SETTLE_STEPS * self._slots):
            self._until(request, Delta)
        return self._cancelled(request)[0]

    def scattered(self, depth: int, writers: int, seed: int, min_s: float) -> tuple[float, int]:
        """Tokens per second of `writers` replies that are left over after random arrivals and ends,
        and the tokens of context that they then have."""
        chance = random.Random(seed)
        written: list[int] = []

        def burst(seconds: float) -> tuple[int, float]:
            stay, tokens = self._arrivals(depth, writers, chance)
            written.append(tokens)
            return self._timed(stay, seconds)

        return rate(burst, min_s), depth + sum(written) // (writers * len(written))

    def beside_prompt(self, depth: int, writers: int, length: int) -> dict[str, float]:
        """How `writers` replies fare while a prompt of `length` tokens is read.

        `worst` is a share of their own speed without it, at the same tokens: that of the worst
        window of the worst of them. `window_s` and `prompt_s` are seconds.
        """
        beside, began, ended = self._token_times(depth, writers, length, self._open.params.max_seq - depth)
        most = max(len(times) for times in beside)
        alone, _, _ = self._token_times(depth, writers, 0, most + 1)
        pace = pace_of(alone[-1])
        window_s = window_of(pace)
        worst = min(worst_share(times, pace, began, ended, window_s) for times in beside)
        return {"worst": worst, "window_s": window_s, "prompt_s": ended - began}

    # ---- driving ---------------------------------------------------------------------------

    @property
    def _bytes_per_cell(self) -> float:
        return self._handle.plan.kv_cache_bytes / self._handle.plan.n_ctx

    @property
    def _open(self) -> Engine:
        if self._engine is None:
            raise BenchError("The engine is not open.")
        return self._engine

    @property
    def _slots(self) -> int:
        return self._open.params.slots

    def _deliver(self, outputs: Outputs) -> None:
        self._outputs.put((now(), outputs))

    def _submit(self, tokens: list[int], steps: int, *, n: int = 1) -> EngineRequest:
        request = EngineRequest(tokens, CONFIG, SEED, steps, n=n)
        self._open.submit(request)
        return request

    def _hand_over(self) -> tuple[float, Outputs]:
        """What one step delivered, and when; or what `_until` left of it."""
        if self._rest:
            outputs = list(self._rest)
            self._rest.clear()
            return self._moment, outputs
        moment, outputs = self._outputs.get()
        for _, output in outputs:
            if isinstance(output, Ended) and output.error:
                raise BenchError(f"The engine failed: {output.error}") from output.error
        return moment, outputs

    def _until(self, request: EngineRequest, kind: type[Kind]) -> tuple[float, Kind]:
        """The next output of that kind for a request, and when it came."""
        while True:
            self._moment, outputs = self._hand_over()
            self._rest.extend(outputs)
            while self._rest:
                owner, output = self._rest.popleft()
                if owner is request and isinstance(output, kind):
                    return self._moment, output

    def _cancelled(self, request: EngineRequest) -> tuple[float, Ended]:
        asked = now()
        self._open.cancel(request.id)
        moment, ended = self._until(request, Ended)
        for _ in range(request.n - 1):
            moment, ended = self._until(request, Ended)
        return moment - asked, ended

    def _timed(self, requests: Collection[EngineRequest], seconds: float) -> tuple[int, float]:
        """Tokens and seconds of these replies, from the first step that gives all of them a token."""
        writers = sum(request.n for request in requests)
        began, steps = 0.0, 0
        while True:
            moment, outputs = self._hand_over()
            mine = [output for request, output in outputs if request in requests]
            if any(isinstance(output, Ended) for output in mine):
                raise BenchError("A reply ended before it was measured.")
            tokens = sum(isinstance(output, Delta) for output in mine)
            if tokens < writers:
                if began and tokens:
                    raise BenchError("A reply fell behind the others.")
                continue
            if not began:
                began = moment
                continue
            steps += 1
            spent = moment - began
            if steps == BURST or (spent >= seconds and steps >= LEAST_STEPS):
                break
        for request in requests:
            self._cancelled(request)
        return steps * writers, spent

    def _first_token(self, length: int, new: int) -> float:
        self._turn += 1
        prompt = self._prompts.with_tail(length, new, self._turn)
        if new < length:
            self._until(self._submit(prompt[: length - new], 0), Ended)
        else:
            self._open.forget()
        began = now()
        request = self._submit(prompt, 1)
        moment, _ = self._until(request, Delta)
        self._until(request, Ended)
        return moment - began

    def _arrivals(self, depth: int, writers: int, chance: random.Random) -> tuple[list[EngineRequest], int]:
        """Replies come to random places and short ones end, until only `writers` long ones are left;
        those, and the tokens they wrote meanwhile."""
        arrivals = 3 * self._slots
        lasting = chance.sample(range(arrivals), writers)
        most = self._open.params.max_seq - depth
        stay: list[EngineRequest] = []
        for arrival in range(arrivals):
            prompt = self._prompts.of(depth, skip=chance.randrange(1000))
            if arrival in lasting:
                stay.append(self._submit(prompt, most))
            else:
                self._submit(prompt, chance.randrange(2, 12))
        written = dict.fromkeys(stay, 0)
        ends = arrivals - writers
        while ends or not all(written.values()):
            for request, output in self._hand_over()[1]:
                ends -= isinstance(output, Ended)
                if isinstance(output, Delta) and request in written:
                    written[request] += 1
        return stay, sum(written.values())

    def _token_times(
        self, depth: int, writers: int, length: int, steps: int
    ) -> tuple[list[list[float]], float, float]:
        """When each of `writers` replies got each token, up to `steps`; and when a prompt of `length`
        tokens came (none if 0) and when it was read, which ends the replies."""
        self._open.forget()
        request = self._submit(self._prompts.of(depth), steps, n=writers)
        times: list[list[float]] = [[] for _ in range(writers)]
        began = ended = 0.0
        reader: EngineRequest | None = None
        left = writers + bool(length)
        while left:
            moment, outputs = self._hand_over()
            for owner, output in outputs:
                left -= isinstance(output, Ended)
                if not isinstance(output, Delta):
                    continue
                if owner is request:
                    times[output.reply].append(moment)
                elif owner is reader:
                    ended = moment
                    self._open.cancel(request.id)
            if length and reader is None and all(len(one) >= SETTLE_STEPS for one in times):
                began = now()
                reader = self._submit(self._prompts.of(length, skip=5), 1)
        return times, began, ended
