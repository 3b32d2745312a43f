"""The engine: one thread that owns the only context of a model and runs the scheduler's steps.

Everybody else talks to it through an inbox; what it produces leaves through one callback, once
per step.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from backend.engine.params import EngineParams
from backend.engine.prefix_cache import Slot
from backend.engine.request import Ended, EngineRequest, unserved
from backend.engine.scheduler import ContextLostError, Outputs, Scheduler
from backend.native import Context, ContextParams, Model, log
from backend.types import BackendError, EngineError, QueueFullError

KEEP_AFTER_S = 20.0
"""Quiet seconds after which what the slots hold goes to files: not while somebody types the next turn."""
Keep: TypeAlias = Callable[[str, list[int], bytearray], None]
"""Given a conversation, the tokens of its slot, and the bytes of their cells."""


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
    `deliver(outputs)` runs on the engine's thread, once per step, and must be quick. So does `keep`,
    set by whoever has files for cells: it is called when nothing was asked for `keep_after_s`
    seconds, and at the end.
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
        self._forgetting: list[str | None] = []
        self._opening = False
        self._cancelled: set[str] = set()
        self._warming: set[str] = set()
        self._closing = False
        self._wanted_slots = slots
        self._context: Context | None = None
        self._params: EngineParams | None = None
        self._scheduler: Scheduler | None = None
        self._built = 0
        self._outputs: Outputs = []
        self.keep: Keep | None = None
        self.keep_after_s = KEEP_AFTER_S
        self._thread = threading.Thread(target=self._run, name="fireside-engine", daemon=True)
        self._thread.start()
        _engines.add(self)

    # ---- for other threads -----------------------------------------------------------------

    @property
    def params(self) -> EngineParams:
        """The plan in force: that of the context, or of the one to be built."""
        return self._params or self._plan(self._wanted_slots)

    @property
    def built(self) -> bool:
        """Whether a context exists."""
        return self._context is not None

    def open(self) -> None:
        """Build the context now if there is none, while the first request is still being prepared."""
        with self._condition:
            if self._scheduler is None and not self._closing:
                self._opening = True
                self._condition.notify()

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
                    f"{waiting} requests are waiting, and the queue takes at most {self._max_queued}. "
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

    def forget(self, conversation: str | None = None) -> None:
        """Empty the cache of every idle slot; or of what a conversation and `NAME/...` left or will leave."""
        with self._condition:
            self._forgetting.append(conversation)
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
                is_quiet = False
                while not (is_quiet or self._closing or self._is_asked() or self._busy()):
                    is_quiet = not self._condition.wait(self.keep_after_s if self._unkept() else None)
                # Cleared before the cancellations are read: one that comes later raises it anew.
                if self._context:
                    self._context.abort.clear()
                if self._closing:
                    break
                # Together: a cancellation never overtakes the request that it is for.
                arrived, cancelled = list(self._inbox), self._cancelled
                self._inbox.clear()
                self._cancelled = set()
            try:
                if is_quiet:
                    self._keep_one()
                self._turn(arrived, cancelled)
            except Exception as err:  # Whatever it is, people who wait must be told.
                self._lose_context(err)
            self._hand_over()
        self._shut_down()

    def _is_asked(self) -> bool:
        return bool(self._inbox or self._cancelled or self._forgetting or self._opening)

    def _turn(self, arrived: list[EngineRequest], cancelled: set[str]) -> None:
        if self._opening:
            self._opening = False
            with contextlib.suppress(Exception):  # The request that needs it will be told.
                self._ready()
        for request in arrived:
            self._take(request)
        forgetting, self._forgetting = self._forgetting, []
        if not (scheduler := self._scheduler):
            return
        if cancelled:
            scheduler.cancel(cancelled)
        for conversation in forgetting:
            scheduler.forget(conversation)
        if self._widens and not scheduler.running:
            scheduler = self._widen(scheduler)
        if scheduler and scheduler.busy:
            # The set is read while the step runs, so it must be the one that others add to.
            scheduler.step(self._cancelled, admit=not self._widens, flush=self._hand_over)

    def _unkept(self) -> list[Slot]:
        return self._scheduler.unkept() if self.keep and self._scheduler else []

    def _keep_one(self) -> bool:
        """Give the bytes of one slot to `keep`; False where there is none that it wants."""
        unkept, scheduler = self._unkept(), self._scheduler
        if not unkept or not self.keep or not scheduler:
            return False
        # The one used last first: at the end of the program there may not be time for all.
        slot = max(unkept, key=lambda slot: slot.last_used)
        self.keep(slot.conversation, list(slot.tokens), scheduler.cells_of(slot))
        return True

    def _take(self, request: EngineRequest) -> None:
        try:
            self._ready().add(request)
        except Exception as err:  # Whatever it is, whoever waits for this request must be told.
            self._outputs += [(request, end) for end in unserved(request, "error", _told(err))]

    def _ready(self) -> Scheduler:
        """The scheduler over a context, built by the first request."""
        if self._scheduler is None:
            asked = self._wanted_slots
            params = self._plan(asked)
            self._context, self._scheduler = self._build(params)
            self._params = params
            with self._condition:
                self._slots = params.slots
                if self._wanted_slots == asked:  # Else somebody asked for more meanwhile.
                    self._wanted_slots = params.slots
        return self._scheduler

    def _build(self, params: EngineParams) -> tuple[Context, Scheduler]:
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
                f"There was not enough memory for a context of {cells} tokens. {log.tail(2)}",
                remedy="Load the model with a smaller context (--ctx) or fewer slots (--slots).",
            ) from err
        if params.adapters and not context.apply_adapters(params.adapters):
            context.close()
            raise EngineError(f"The LoRA adapters could not be applied. {log.tail(2)}")
        self._built += 1
        return context, Scheduler(self._model, context, params)

    @property
    def _widens(self) -> bool:
        return self._wanted_slots > self._slots

    def _widen(self, narrow: Scheduler) -> Scheduler | None:
        """Build the wider context in place of the narrow one; whoever waits moves along."""
        if self._plan(self._wanted_slots).slots <= self._slots:
            self._wanted_slots = self._slots
            return narrow
        waiting = narrow.withdraw()
        self._drop_context()
        try:
            self._ready().adopt(waiting)
        except Exception as err:
            self._wanted_slots = self._slots
            narrow.adopt(waiting)
            narrow.end_all("error", _told(err))
            self._outputs += narrow.drain()
        return self._scheduler

    def _lose_context(self, err: Exception) -> None:
        """What the cells hold is unknown now: everybody is told, and the next request builds anew."""
        if self._scheduler:
            self._scheduler.end_all("error", _told(err))
        self._drop_context()

    def _drop_context(self) -> None:
        if self._scheduler:
            self._outputs += self._scheduler.drain()
        if self._context:
            self._context.close()
        self._context = self._scheduler = None

    def _hand_over(self) -> None:
        if self._scheduler:
            self._outputs += self._scheduler.drain()
        outputs, self._outputs = self._outputs, []
        if outputs:
            self._warming -= {request.id for request, output in outputs if isinstance(output, Ended)}
            self._deliver(outputs)

    def _shut_down(self) -> None:
        if self._scheduler:
            self._scheduler.end_all("cancelled")
        with contextlib.suppress(Exception):  # What is not kept is read again.
            while self._keep_one():
                pass
        self._drop_context()
        for request in self._inbox:
            self._outputs += [(request, end) for end in unserved(request, "cancelled")]
        self._inbox.clear()
        self._hand_over()

    def _busy(self) -> bool:
        return self._scheduler is not None and self._scheduler.busy


def _told(err: Exception) -> BackendError:
    """The error as those who wait get it."""
    if isinstance(err, BackendError):
        return err
    what = f"Decoding failed: {err}" if isinstance(err, ContextLostError) else f"The engine failed: {err}"
    error = EngineError(what)
    error.__cause__ = err
    return error


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _close_engines() -> None:
    """A thread inside native code must not outlive the interpreter."""
    for engine in list(_engines):
        engine.close()
