"""Decides what goes into the next decode. One file, because it alone owns slots and sequences.

There is no prefill phase and no decode phase: every step feeds each running sequence some of
the tokens that are known but not yet in its slot's cells. Admit, fill, decode, accept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container

from backend.engine import constrained, sampling
from backend.engine.admission import Admission
from backend.engine.pacing import Pacer
from backend.engine.params import EngineParams
from backend.engine.prefix_cache import PrefixCache, Slot, common_prefix
from backend.engine.request import Delta, EngineRequest, Output, Progress, belongs
from backend.engine.sequence import Sequence
from backend.grammar.check import GrammarError
from backend.native import Batch, Context, Model, log
from backend.types import ContextOverflowError, EngineError, Finish

Outputs = list[tuple[EngineRequest, Output]]
WORTH_KEEPING = 128
"""Tokens whose cells are worth a file, or being taken from one."""
COPY_BYTES_PER_S = 4e9
"""About what memory copies; a fork copies a whole slot."""


def _slot_id(sequence: Sequence) -> int:
    return sequence.home.id


class ContextLostError(Exception):
    """llama.cpp failed inside a decode; the context must be built anew."""


class Scheduler:
    """Runs sequences over the slots of one context, a step at a time. One thread uses it."""

    def __init__(self, model: Model, context: Context, params: EngineParams) -> None:
        self.max_seq = min(params.max_seq, context.cells_per_slot)
        self.steps = 0
        self.decoded_rows = 0
        self.running: list[Sequence] = []
        self._model = model
        self._context = context
        self._batch = Batch(params.n_batch)
        self._pacer = Pacer(params.n_batch, abortable=params.abortable)
        self._cache = PrefixCache(context, params.slots, window=model.n_swa, can_cut=model.can_cut)
        self._admission = Admission(
            self._cache, self._pacer, copy_s=params.slot_bytes / COPY_BYTES_PER_S, can_fork=not params.unified
        )
        self._unified_cells = params.max_seq if params.unified else None
        self._n_ubatch = params.n_ubatch
        self._reading: Sequence | None = None
        self._outputs: Outputs = []
        self._waiting: deque[Sequence] = deque()
        self._background: deque[Sequence] = deque()
        self._leaving: set[str] = set()
        """Conversations to be forgotten of which something still runs."""

    # ---- what others may ask ---------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._background or self.running)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting) + len(self._background)

    @property
    def slots(self) -> list[Slot]:
        return self._cache.slots

    def add(self, request: EngineRequest) -> None:
        """Queue a request's replies. ContextOverflowError where the prompt leaves no room for one."""
        if len(request.tokens) + bool(request.max_new_tokens) > self.max_seq:
            raise ContextOverflowError(len(request.tokens), self.max_seq)
        queue = self._background if request.priority == "background" else self._waiting
        leader: Sequence | None = None
        for reply in range(request.n):
            sequence = Sequence(self._model, request, reply, self.max_seq)
            sequence.leader = leader
            leader = leader or sequence
            queue.append(sequence)

    def may_abort(self, request_id: str) -> bool:
        """Whether the decode that now runs reads this request's prompt. Called from other threads.

        Replies are decoded apart from prompts and for one token at a time, so nobody else's
        rows are lost by an abort.
        """
        reading = self._reading
        return reading is not None and reading.request.id == request_id

    def drain(self) -> Outputs:
        """What happened since the last call. A step that fails half-way still tells of its first half."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def end_all(self, finish: Finish, error: Exception | None = None) -> None:
        """End everything that runs or waits."""
        for sequence in [*self.running, *self.withdraw()]:
            self._end(sequence, finish, error)

    def withdraw(self) -> list[Sequence]:
        """Take away everything that waits, for another scheduler."""
        waiting = [*self._waiting, *self._background]
        self._waiting.clear()
        self._background.clear()
        return waiting

    def adopt(self, waiting: list[Sequence]) -> None:
        """Queue what another scheduler of the same `max_seq` let go; what is written already stays."""
        for sequence in waiting:
            (self._background if sequence.is_background else self._waiting).append(sequence)

    def cancel(self, request_ids: set[str]) -> None:
        """End these requests between two steps, keeping what their slots hold."""
        for queue in (self._waiting, self._background):
            for sequence in [s for s in queue if s.request.id in request_ids]:
                queue.remove(sequence)
                self._end(sequence, "cancelled")
        for sequence in [s for s in self.running if s.request.id in request_ids]:
            self._end(sequence, "cancelled")

    def forget(self, conversation: str | None = None) -> None:
        """Empty every idle slot; or those of a conversation, the others once it has left them."""
        for slot in self._idle():
            if conversation is None or belongs(slot.conversation, conversation):
                self._cache.forget(slot)
        if conversation is not None and self._is_here(conversation):
            self._leaving.add(conversation)

    def _is_here(self, conversation: str) -> bool:
        there = (*self.running, *self._waiting, *self._background)
        return any(belongs(sequence.request.conversation, conversation) for sequence in there)

    def _leave(self) -> None:
        """Empty what is idle now of conversations that are to be forgotten."""
        for conversation in list(self._leaving):
            for slot in self._idle():
                if belongs(slot.conversation, conversation):
                    self._cache.forget(slot)
            if not self._is_here(conversation):
                self._leaving.discard(conversation)

    # ---- one step --------------------------------------------------------------------------

    def step(
        self, cancelled: Container[str] = (), *, admit: bool = True, flush: Callable[[], None] | None = None
    ) -> None:
        """Admit, then one token for every writer, then a chunk of the prompts.

        Writers and prompts are decoded apart. llama.cpp would split them anyway, and a prompt
        row evaluated alone can round differently from the same row among others: a reply must
        not depend on who else was there. A prompt of `cancelled` is not begun. `flush` is called
        between the two, so that nobody's next words wait for somebody else's prompt.
        """
        if admit:
            self._admit()
        key = self._key_of_step()
        writers = [s for s in self._able(key) if s.writes_next]
        self._write(writers)
        # Only now: a cache that was full may have ended a reply whose prompt was to be read.
        prompts = [s for s in self._able(key) if not s.writes_next]
        if writers and prompts and flush:
            flush()
        self._read(prompts, len(writers), cancelled)
        self.steps += 1

    def _able(self, key: str) -> list[Sequence]:
        return [s for s in self.running if s.request.adapter_key == key and s.pending]

    def _write(self, writers: list[Sequence]) -> None:
        """Decode what each writer wrote last, and sample the next.

        One row of each goes into one decode. A forced text is several: it is decoded by itself, so
        that it rounds as it does when nobody else is there.
        """
        if together := [s for s in writers if s.pending == 1]:
            began = time.perf_counter()
            if not self._decode(together):
                return
            self._pacer.record_writers(len(together), time.perf_counter() - began)
        apart = [s for s in writers if s not in together]
        for sequence in together:
            self._take_token(sequence)
        for sequence in apart:
            if not self._decode([sequence]):
                return
            self._take_token(sequence)

    def _decode(self, writers: list[Sequence]) -> bool:
        """Evaluate everything these have pending; False where the step is to be tried again."""
        self._batch.clear()
        # llama.cpp joins slots into one pass only in ascending order (4 replies: 29 ms, else 45).
        for sequence in sorted(writers, key=_slot_id):
            self._put(sequence, sequence.pending)
        if code := self._context.decode(self._batch):
            self._recover(code, writers)
        return not code

    def _read(self, prompts: list[Sequence], n_writers: int, cancelled: Container[str]) -> None:
        """Decode as many prompt rows as the pacer allows, one sequence after another."""
        began, rows = time.perf_counter(), 0
        for sequence, take in self._shares(prompts, self._pacer.prompt_rows(n_writers)):
            self._batch.clear()
            self._put(sequence, take)
            self._reading = sequence
            # Whoever cancels either finds it in `_reading` and aborts, or is seen here.
            code = 2 if sequence.request.id in cancelled else self._context.decode(self._batch)
            self._reading = None
            if code:
                # The rest waits a step: a raised abort flag would hit it too, a full cache end it.
                self._recover(code, [sequence])
                break
            rows += take
            self._advance(sequence)
        if rows:
            self._pacer.record_prompt(n_writers, rows, time.perf_counter() - began)

    def _put(self, sequence: Sequence, take: int) -> None:
        """Add the next `take` known tokens of a sequence to the batch."""
        slot = sequence.home
        start = len(slot.tokens)
        run = sequence.tokens[start : start + take]
        complete = take == sequence.pending and sequence.writes
        row = self._batch.add(slot.id, start, run, outputs=int(complete))
        sequence.output_row = row if complete else -1
        sequence.step_start = start
        slot.tokens += run
        self.decoded_rows += take

    def _shares(self, prompts: list[Sequence], budget: int) -> list[tuple[Sequence, int]]:
        """Rows of each prompt for this step. Background ones read only when nobody else does.

        The oldest gets half; the rest goes to the shortest, so that a short prompt never waits
        for a long one and a long one always moves.
        """
        reading = [s for s in prompts if not s.is_background] or prompts
        if not reading or budget <= 0:
            return []
        rows = {reading[0]: min(reading[0].pending, (budget + 1) // 2)}
        budget -= rows[reading[0]]
        for sequence in sorted(reading, key=lambda s: s.pending):
            take = min(sequence.pending - rows.get(sequence, 0), budget)
            rows[sequence] = rows.get(sequence, 0) + take
            budget -= take
        return [(s, self._never_one(s, take)) for s, take in rows.items() if take > 0]

    def _never_one(self, sequence: Sequence, take: int) -> int:
        """`take`, changed so that no row is evaluated alone (it may round differently) where avoidable."""
        pending = sequence.pending
        if pending - take == 1:
            take += 1 if take < self._batch.capacity else -1
        if take == 1 and pending > 2:
            take = 2
        if take > 2 and take % self._n_ubatch == 1:
            take -= 1 if pending - take else 2
        return take

    def _admit(self) -> None:
        for queue in (self._waiting, self._background):
            for sequence in list(queue):
                if queue is self._background and self._waiting:
                    return
                if not sequence.may_start:
                    continue
                while not self._has_room(sequence):
                    if not self._preempt(sequence):
                        return
                queue.remove(sequence)
                try:
                    self._start(sequence)
                except GrammarError as err:
                    self._end(sequence, "error", err)
                    continue
                except Exception as err:  # It fails alone.
                    error = EngineError(str(err))
                    error.__cause__ = err
                    self._end(sequence, "error", error)
                    continue
                self._emit(sequence, self._progress(sequence))
                if not sequence.pending:  # A warm-up whose prompt is already in the cache.
                    self._end(sequence, "stop")

    def _has_room(self, sequence: Sequence) -> bool:
        return bool(self._idle()) and self._fits(sequence)

    def _preempt(self, sequence: Sequence) -> bool:
        """Make the newest background reply wait again, losing nothing; False where `sequence` may not."""
        background = [s for s in self.running if s.is_background]
        if sequence.is_background or not background:
            return False
        self._release(background[-1])
        self._background.appendleft(background[-1])
        return True

    def _start(self, sequence: Sequence) -> None:
        if sequence.sampler is None and sequence.writes:
            sequence.sampler = constrained.make_sampler(
                self._model, sequence.request, sequence.seed, self.max_seq
            )
            sequence.sampler.read(sequence.request.tokens)
        busy = [s.slot for s in self.running if s.slot]
        # The last token is evaluated again, because sampling needs its logits; and the one before
        # it, because a row evaluated alone can round differently.
        wanted = sequence.tokens[:-2] if sequence.writes else sequence.tokens
        self._restore(sequence.request, wanted)
        slot, kept = self._admission.place(wanted, sequence.request.adapter_key, self._idle(), busy)
        slot.conversation = sequence.request.conversation
        slot.is_lasting = sequence.request.is_lasting
        sequence.admitted(slot, kept)
        self.running.append(sequence)

    def _restore(self, request: EngineRequest, wanted: list[int]) -> None:
        """Put what a file held into an idle slot, where that saves more reading than any slot does."""
        kept, request.kept = request.kept, None
        if kept is None or request.adapter_key:
            return
        held = max(slot.shared(wanted, "") for slot in self._cache.slots)
        useful = common_prefix(kept.tokens, wanted)
        # llama.cpp saves no more than the window of a sliding cache: nothing can be cut off.
        can_cut = self._cache.can_cut and not self._cache.window
        if useful - held < WORTH_KEEPING or not (can_cut or useful == len(kept.tokens)):
            return
        slot = min(self._idle(), key=lambda slot: (len(slot.tokens) > 0, slot.last_used))
        self._cache.restore(slot, kept.tokens, kept.cells)

    def unkept(self) -> list[Slot]:
        """Idle slots with enough that may be kept in a file and is in none."""
        return [
            slot
            for slot in self._idle()
            if slot.is_lasting and not slot.adapter_key and len(slot.tokens) - slot.kept >= WORTH_KEEPING
        ]

    def cells_of(self, slot: Slot) -> bytearray:
        """The bytes of a slot's cells, which a file is about to hold."""
        slot.kept = len(slot.tokens)
        return self._context.cells_of(slot.id)

    def _key_of_step(self) -> str:
        """Adapters act on the whole context, so a step serves one key: the longest waiting one's."""
        return (
            min(self.running, key=lambda s: s.request.submitted).request.adapter_key if self.running else ""
        )

    def _advance(self, sequence: Sequence) -> None:
        """A chunk of a prompt was read: report it, and sample if it was the last."""
        if sequence.output_row >= 0:
            self._take_token(sequence)
            return
        self._emit(sequence, self._progress(sequence))
        if not sequence.pending:  # A warm-up is done when its prompt is in the cache.
            self._end(sequence, "stop")

    def _take_token(self, sequence: Sequence) -> None:
        """Write the next token, and what the grammar forces instead of the first or behind any."""
        try:
            if sequence.started or not self._force(sequence):
                self._sample(sequence)
                self._force(sequence)
        except (EngineError, GrammarError) as err:
            self._end(sequence, "error", err)

    def _force(self, sequence: Sequence) -> bool:
        """Write what the grammar leaves no choice about; whether there was anything."""
        sampler = sequence.sampler
        if sampler is None or not sequence.is_free:  # It has ended, or is told what to write.
            return False
        tokens = sampler.forced()[: self._batch.capacity - 1]
        for token in tokens:
            sampler.accept(token)
            self._wrote(sequence, *sequence.accept_forced(token))
            if sequence.done or not sequence.is_free:
                break
        return bool(tokens)

    def _sample(self, sequence: Sequence) -> None:
        row, sampler = sequence.output_row, sequence.sampler
        assert sampler is not None
        token = sequence.next_forced()
        wants_logprobs = sequence.request.config.logprobs
        distribution = (
            None if wants_logprobs is None else sampling.logprob_row(self._model, self._context, row)
        )
        if token is None:
            token = sampler.draw(self._context, row)
        else:
            sampler.accept(token)
        logprob = None
        if wants_logprobs is not None:
            logprob = sampling.token_logprob(self._model, distribution, token, wants_logprobs)
        self._wrote(sequence, *sequence.accept(token, logprob))

    def _wrote(self, sequence: Sequence, delta: Delta, finish: Finish | None) -> None:
        self._emit(sequence, delta)
        if finish:
            self._end(sequence, finish)

    # ---- ends and trouble ------------------------------------------------------------------

    def _emit(self, sequence: Sequence, output: Output) -> None:
        self._outputs.append((sequence.request, output))

    def _end(self, sequence: Sequence, finish: Finish, error: Exception | None = None) -> None:
        self._release(sequence)
        if rest := sequence.rest():
            self._emit(sequence, rest)
        self._emit(sequence, sequence.ended(finish, error))
        sequence.close()

    def _release(self, sequence: Sequence) -> None:
        if sequence in self.running:
            self.running.remove(sequence)
        if sequence.slot:
            sequence.slot.last_used = time.monotonic()
            sequence.slot = None
        self._leave()

    def _recover(self, code: int, sequences: list[Sequence]) -> None:
        """A decode did not finish: every slot goes back to where the step found it.

        1 means no room, 2 aborted; anything else loses the context.
        """
        if code not in (1, 2):
            raise ContextLostError(f"llama_decode returned {code}. {log.tail(3)}")
        for sequence in sequences:
            self._cache.cut(sequence.home, sequence.step_start)
        if code == 1:
            self._make_room()

    def _make_room(self) -> None:
        """A unified cache is full: forget idle slots, oldest first, and then end the newest reply."""
        held = sorted((slot for slot in self._idle() if slot.tokens), key=lambda slot: slot.last_used)
        if held:
            self._cache.forget(held[0])
            return
        error = EngineError(
            "The cache shared by all replies is full, so this reply was ended.",
            remedy="Run fewer replies at once, or load the model with a larger context (--ctx).",
        )
        newest = next((s for s in reversed(self.running) if s.is_background), self.running[-1])
        self._end(newest, "error", error)

    def _fits(self, sequence: Sequence) -> bool:
        """In a unified cache, whether this reply's worst case fits beside the running ones'."""
        if self._unified_cells is None or not self.running:
            return True
        promised = sum(s.prompt_length + s.limit for s in self.running)
        return promised + sequence.prompt_length + sequence.limit <= self._unified_cells

    def _idle(self) -> list[Slot]:
        busy = {s.slot.id for s in self.running if s.slot}
        return [slot for slot in self._cache.slots if slot.id not in busy]

    def _progress(self, sequence: Sequence) -> Progress:
        held = len(sequence.slot.tokens) if sequence.slot else 0
        return Progress(min(held, sequence.prompt_length), sequence.prompt_length, sequence.reused)
