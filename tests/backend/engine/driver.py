"""Runs the engine on a small model and collects what comes out: a step at a time, or on its thread."""

from __future__ import annotations

import queue
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from backend.engine.engine import Engine
from backend.engine.params import EngineParams
from backend.engine.request import Delta, Ended, EngineRequest, Progress
from backend.engine.scheduler import Outputs, Scheduler
from backend.native import Batch, Context, ContextParams, Model
from backend.types import GenerationConfig, TokenLogprob

GREEDY = GenerationConfig(temperature=0.0)
WAIT_S = 60


@cache
def load(path: Path) -> Model:
    """The model of a file, loaded once per run."""
    model = Model.load(path)
    assert model is not None
    return model


def words(count: int, *, start: int = 0) -> list[int]:
    """`count` ordinary tokens of a tiny vocabulary that do not repeat soon."""
    return [(start * 31 + index * 7 + index * index // 5) % 250 for index in range(count)]


def ask(
    tokens: Sequence[int], *, new: int = 12, seed: int = 1, config: GenerationConfig = GREEDY, **fields: Any
) -> EngineRequest:
    return EngineRequest(list(tokens), config, seed, new, **fields)


@dataclass
class Outcome:
    """Everything one reply was."""

    ids: list[int] = field(default_factory=list)
    text: str = ""
    logprobs: list[TokenLogprob] = field(default_factory=list)
    ends: list[Ended] = field(default_factory=list)

    @property
    def ended(self) -> Ended:
        assert len(self.ends) == 1, self.ends
        return self.ends[0]


class Collector:
    """Sorts outputs by request and reply."""

    def __init__(self) -> None:
        self.replies: dict[tuple[str, int], Outcome] = {}
        self.progress: dict[str, list[Progress]] = {}

    def take(self, outputs: Outputs) -> None:
        for request, output in outputs:
            if isinstance(output, Progress):
                self.progress.setdefault(request.id, []).append(output)
                continue
            reply = self.replies.setdefault((request.id, output.reply), Outcome())
            if isinstance(output, Delta):
                assert not reply.ends, "a delta after the end"
                reply.ids += output.ids
                reply.text += output.text
                reply.logprobs += output.logprobs
            else:
                reply.ends.append(output)

    def of(self, request: EngineRequest, reply: int = 0) -> Outcome:
        return self.replies.get((request.id, reply), Outcome())

    def all_of(self, request: EngineRequest) -> list[Outcome]:
        return [self.of(request, reply) for reply in range(request.n)]


class FaultyContext:
    """A real context whose `decode` first asks `fault(batch)` for a code to return instead."""

    def __init__(self, context: Context, fault: Callable[[Batch], int]) -> None:
        self._real = context
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def decode(self, batch: Batch) -> int:
        return self._fault(batch) or self._real.decode(batch)


class Stepper:
    """A scheduler over a context of its own, moved by hand."""

    def __init__(
        self,
        path: Path,
        *,
        slots: int = 1,
        max_seq: int = 512,
        fault: Callable[[Batch], int] | None = None,
        **fields: Any,
    ) -> None:
        self.model = load(path)
        self.params = EngineParams(**{"max_seq": max_seq, "slots": slots, "n_threads": 1, **fields})
        params = self.params
        context = Context(
            self.model,
            ContextParams(
                n_ctx=max_seq if params.unified else max_seq * slots,
                n_seq_max=slots,
                n_batch=params.n_batch,
                n_ubatch=params.n_ubatch,
                n_threads=params.n_threads,
                kv_unified=params.unified,
                swa_full=params.swa_full,
            ),
        )
        self.context: Any = FaultyContext(context, fault) if fault else context
        self.scheduler = Scheduler(self.model, self.context, params)
        self.seen = Collector()
        self.callback: object = None
        """Kept alive for llama.cpp, which calls it."""

    def __enter__(self) -> Stepper:
        return self

    def __exit__(self, *_: object) -> None:
        self.scheduler.end_all("cancelled")
        self.context.close()

    def add(self, tokens: Sequence[int], **fields: Any) -> EngineRequest:
        request = ask(tokens, **fields)
        self.scheduler.add(request)
        return request

    def step(self, cancelled: Container[str] = ()) -> None:
        self.scheduler.step(cancelled)
        self.drain()
        self.check()

    def cancel(self, *requests: EngineRequest) -> None:
        self.scheduler.cancel({request.id for request in requests})
        self.drain()

    def drain(self) -> None:
        self.seen.take(self.scheduler.drain())

    def finish(self, *, most_steps: int = 5000) -> None:
        """Step until nothing runs or waits."""
        for _ in range(most_steps):
            if not self.scheduler.busy:
                return
            self.step()
        raise AssertionError("the scheduler never came to an end")

    def until(self, condition: Callable[[], bool], *, most_steps: int = 5000) -> None:
        for _ in range(most_steps):
            if condition():
                return
            self.step()
        raise AssertionError("this never happened")

    def run(self, tokens: Sequence[int], **fields: Any) -> Outcome:
        request = self.add(tokens, **fields)
        self.finish()
        return self.seen.of(request)

    def check(self) -> None:
        """What must hold between any two steps."""
        homes = [sequence.home.id for sequence in self.scheduler.running]
        assert len(homes) == len(set(homes)), f"a slot is shared: {homes}"
        for sequence in self.scheduler.running:
            held = sequence.home.tokens
            assert held == sequence.tokens[: len(held)], "a slot holds what its reply never said"
        for slot in self.scheduler.slots:
            assert self.context.highest(slot.id) == len(slot.tokens) - 1, f"slot {slot.id} lies"


def alone(path: Path, tokens: Sequence[int], **fields: Any) -> Outcome:
    """The reply of a fresh context that nobody shares."""
    params = {name: fields.pop(name) for name in ("swa_full", "max_seq", "n_ubatch") if name in fields}
    with Stepper(path, **params) as stepper:
        return stepper.run(tokens, **fields)


class Live:
    """An engine on its own thread."""

    def __init__(self, path: Path, *, slots: int = 1, most_slots: int | None = None, **fields: Any) -> None:
        self.model = load(path)
        self.fields = {
            "max_seq": 512,
            "n_threads": 1,
            **{k: v for k, v in fields.items() if k != "max_queued"},
        }
        self.most_slots = most_slots or 64
        self.outputs: queue.SimpleQueue[Outputs] = queue.SimpleQueue()
        self.seen = Collector()
        self.engine = Engine(
            self.model, self._plan, self.outputs.put, slots=slots, max_queued=fields.get("max_queued", 1024)
        )

    def _plan(self, slots: int) -> EngineParams:
        return EngineParams(slots=min(slots, self.most_slots), **self.fields)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def submit(self, tokens: Sequence[int], **fields: Any) -> EngineRequest:
        request = ask(tokens, **fields)
        self.engine.submit(request)
        return request

    def next(self) -> None:
        """Wait for one step's outputs."""
        self.seen.take(self.outputs.get(timeout=WAIT_S))

    def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            self.next()

    def wait(self, *requests: EngineRequest) -> list[Outcome]:
        """The replies of these requests, all of them ended."""
        self.until(lambda: all(reply.ends for r in requests for reply in self.seen.all_of(r)))
        return [reply for r in requests for reply in self.seen.all_of(r)]

    def run(self, tokens: Sequence[int], **fields: Any) -> Outcome:
        return self.wait(self.submit(tokens, **fields))[0]

    def close(self) -> None:
        """Close the engine and take what it still said."""
        self.engine.close()
        while not self.outputs.empty():
            self.next()
