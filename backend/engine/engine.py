"""The engine: one thread that owns the only context of a model and runs the scheduler's steps.

Everybody else talks to it through an inbox; what it produces leaves through one callback, once
per step.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from backend.engine.params import EngineParams
from backend.engine.request import Ended, EngineRequest, unserved
from backend.engine.scheduler import ContextLostError, Outputs, Scheduler
from backend.native import Context, ContextParams, Model, log
from backend.types import EngineError, QueueFullError


@dataclass(frozen=True)
class EngineCounters:
    """What an engine is doing, and has done since its context was built."""

    slots: int
    running: int
    waiting: int
    cached_tokens: int
    """Tokens held by all slots."""
    steps: int
    decoded_rows: int
    """Rows evaluated, prompts and replies together."""
    built: int
    """How often a context was built."""


class Engine:
    """Continuous batching over one model.

    `plan(slots)` gives the parameters for that many slots, or fewer where memory is short.
    `deliver(outputs)` runs on the engine's thread, once per step, and must be quick.
    """

    def __init__(
        self,
        model: Model,
        plan: Callable[[int], EngineParams],
        deliver: Callable[[Outputs], None],
        *,
        slots: int,
        max_queued: int = 1024,
    ) -> None:
        self._model = model
        self._plan = plan
        self._deliver = deliver
        self._slots = slots
        self._max_queued = max_queued
        self._condition = threading.Condition()
        self._inbox: deque[EngineRequest] = deque()
        self._forgetting = False
        self._cancelled: set[str] = set()
        self._warming: set[str] = set()
        self._closing = False
        self._wanted_slots = slots
        self._context: Context | None = None
        self._scheduler: Scheduler | None = None
        self._built = 0
        self._thread = threading.Thread(target=self._run, name="fireside-engine", daemon=True)
        self._thread.start()
        _engines.add(self)

    # ---- for other threads -----------------------------------------------------------------

    @property
    def params(self) -> EngineParams:
        """The plan in force."""
        return self._plan(self._slots)

    @property
    def built(self) -> bool:
        """Whether a context exists."""
        return self._context is not None

    def submit(self, request: EngineRequest) -> None:
        """Queue a request. QueueFullError when the queue is full, EngineError after `close()`.

        Anything real ends the warm-ups that still run: their cells stay, their work stops.
        """
        with self._condition:
            if self._closing:
                raise EngineError("The engine was closed.", remedy="Load the model again.")
            waiting = self._waiting_count()
            if waiting + request.n > self._max_queued:
                raise QueueFullError(
                    f"{waiting} requests are waiting already, and the queue holds {self._max_queued}. "
                    f"Wait for one to finish, or cancel one."
                )
            self._inbox.append(request)
            if request.max_new_tokens == 0:
                self._warming.add(request.id)
            elif self._warming:
                for warm_up in list(self._warming):
                    self._cancel(warm_up)
            self._condition.notify()

    def cancel(self, request_id: str) -> None:
        """End a request as soon as possible, in the middle of a prompt too. Unknown ids are ignored."""
        with self._condition:
            self._cancel(request_id)
            self._condition.notify()

    def widen(self, slots: int) -> None:
        """Use more slots from the moment nothing runs. Never fewer than there are."""
        with self._condition:
            self._wanted_slots = max(self._wanted_slots, slots)
            self._condition.notify()

    def forget(self) -> None:
        """Empty the cache of every idle slot."""
        with self._condition:
            self._forgetting = True
            self._condition.notify()

    def counters(self) -> EngineCounters:
        """A snapshot; its parts may be one step apart."""
        scheduler = self._scheduler
        if scheduler is None:
            return EngineCounters(0, 0, self._waiting_count(), 0, 0, 0, self._built)
        cached = sum(len(slot.tokens) for slot in scheduler.slots)
        return EngineCounters(
            len(scheduler.slots),
            len(scheduler.running),
            self._waiting_count(),
            cached,
            scheduler.steps,
            scheduler.decoded_rows,
            self._built,
        )

    def close(self) -> None:
        """End everything that runs as cancelled, free the context, stop the thread. Waits for it."""
        with self._condition:
            self._closing = True
            if context := self._context:
                context.abort.raise_()
            self._condition.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _waiting_count(self) -> int:
        inbox = sum(request.n for request in list(self._inbox))
        return inbox + (self._scheduler.waiting_count if self._scheduler else 0)

    def _cancel(self, request_id: str) -> None:
        self._cancelled.add(request_id)
        if self._scheduler and self._context and self._scheduler.may_abort(request_id):
            self._context.abort.raise_()

    # ---- on the engine's thread ------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._condition:
                while not (
                    self._closing or self._inbox or self._cancelled or self._forgetting or self._busy()
                ):
                    self._condition.wait()
                # Cleared before the cancellations are read: one that comes later raises it anew.
                if self._context:
                    self._context.abort.clear()
                if self._closing:
                    break
            outputs: Outputs = []
            try:
                outputs = self._turn()
            except ContextLostError as err:
                outputs = self._lose_context(err)
            except Exception as err:  # Whatever it is, people who wait must be told.
                outputs = self._fail_all(EngineError(f"The engine failed: {err}"), err)
            self._hand_over(outputs)
        self._shut_down()

    def _turn(self) -> Outputs:
        outputs: Outputs = []
        if self._scheduler and self._wanted_slots > self._slots and not self._scheduler.running:
            outputs += self._widen()
        while self._inbox:
            outputs += self._take(self._inbox.popleft())
        if self._forgetting:
            self._forgetting = False
            if self._scheduler:
                self._scheduler.forget()
        outputs += self._end_cancelled()
        if self._scheduler and self._scheduler.busy:
            outputs += self._scheduler.step(self._cancelled)
        return outputs

    def _take(self, request: EngineRequest) -> Outputs:
        try:
            self._ready().add(request)
        except Exception as err:  # Whatever it is, whoever waits for this request must be told.
            error = err if isinstance(err, EngineError) else EngineError(f"The engine failed: {err}")
            error.__cause__ = None if error is err else err
            return [(request, end) for end in unserved(request, "error", error)]
        return []

    def _ready(self) -> Scheduler:
        """The scheduler over a context, built by the first request."""
        if self._scheduler is None:
            self._slots = max(self._slots, self._wanted_slots)
            self._context, self._scheduler = self._build()
        return self._scheduler

    def _build(self) -> tuple[Context, Scheduler]:
        params = self._plan(self._slots)
        self._slots = self._wanted_slots = params.slots
        cells = params.max_seq if params.unified else params.max_seq * params.slots
        try:
            context = Context(
                self._model,
                ContextParams(
                    n_ctx=cells,
                    n_seq_max=params.slots,
                    n_batch=params.n_batch,
                    n_ubatch=params.n_ubatch,
                    n_threads=params.n_threads,
                    flash_attn=params.flash_attn,
                    kv_type=params.kv_type,
                    kv_unified=params.unified,
                    swa_full=params.swa_full,
                ),
            )
        except MemoryError as err:
            raise EngineError(
                f"There was no memory for a context of {cells} tokens. {log.tail(2)}",
                remedy="Load the model with a smaller context (--ctx) or fewer slots (--slots).",
            ) from err
        self._built += 1
        return context, Scheduler(self._model, context, params)

    def _widen(self) -> Outputs:
        """Build the wider context in place of the narrow one; whoever waits moves along."""
        waiting = self._scheduler.withdraw() if self._scheduler else []
        if self._context:
            self._context.close()
        self._context = self._scheduler = None
        return [output for request in waiting for output in self._take(request)]

    def _end_cancelled(self) -> Outputs:
        with self._condition:
            cancelled, self._cancelled = self._cancelled, set()
        return self._scheduler.cancel(cancelled) if cancelled and self._scheduler else []

    def _hand_over(self, outputs: Outputs) -> None:
        if outputs:
            if self._warming:
                self._warming -= {request.id for request, output in outputs if isinstance(output, Ended)}
            self._deliver(outputs)

    def _lose_context(self, err: ContextLostError) -> Outputs:
        outputs = self._fail_all(EngineError(f"Decoding failed: {err}"), err)
        if self._context:
            self._context.close()
        self._context = self._scheduler = None
        return outputs

    def _fail_all(self, error: EngineError, cause: Exception | None = None) -> Outputs:
        if cause:
            error.__cause__ = cause
        return self._scheduler.end_all("error", error) if self._scheduler else []

    def _shut_down(self) -> None:
        outputs = self._scheduler.end_all("cancelled") if self._scheduler else []
        for request in self._inbox:
            outputs += [(request, end) for end in unserved(request, "cancelled")]
        if self._context:
            self._context.close()
        self._context = self._scheduler = None
        self._hand_over(outputs)

    def _busy(self) -> bool:
        return self._scheduler is not None and self._scheduler.busy


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _close_engines() -> None:
    """A thread inside native code must not outlive the interpreter."""
    for engine in list(_engines):
        engine.close()
