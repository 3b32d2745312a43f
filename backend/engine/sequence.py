"""One reply on its way: its tokens, its slot, its sampler, its text and its clock."""

from __future__ import annotations

import time
from collections import deque

from backend.engine.detokenize import TextStream
from backend.engine.prefix_cache import Slot
from backend.engine.request import Delta, Ended, EngineRequest
from backend.engine.sampling import Sampler
from backend.engine.thought import ThoughtMeter
from backend.native import Model
from backend.types import Finish, TokenLogprob


class Sequence:
    """One reply of a request. `tokens` are all known ones; the slot holds those already evaluated."""

    def __init__(self, model: Model, request: EngineRequest, reply: int, max_seq: int) -> None:
        self.request = request
        self.reply = reply
        self.tokens = list(request.tokens)
        self.prompt_length = len(request.tokens)
        self.limit = min(request.max_new_tokens, max_seq - self.prompt_length)
        """Most new tokens: what was asked for, and what the context holds."""
        self.slot: Slot | None = None
        self.sampler: Sampler | None = None
        self.leader: Sequence | None = None
        """The first of `n` replies; the others start from its cells."""
        self.output_row = -1
        self.step_start = 0
        """How many tokens the slot held before the step that now runs."""
        self.reused = 0
        self.forced_tokens = 0
        """How many of its tokens the grammar left no choice about."""
        self.done = False
        self._model = model
        self._shown = request.shown_specials
        self._text = TextStream(self._visible_piece, request.stop + request.role_stops)
        forced = request.forced
        self.forced: deque[int] | None = None if forced is None else deque(forced)
        self._override: deque[int] = deque(request.prefix)
        self._meter: ThoughtMeter | None = None
        if request.thought and request.thought_budget:
            self._meter = ThoughtMeter(request.thought, request.thought_budget)
            if self._meter.is_spent_at_once():
                self._override.extend(request.thought_budget.closer)
        self._end_token: int | None = None
        self._next_rows = 1
        self._hid = False
        """Whether a control token was left out of the text."""
        self._admitted = self._first = self._last = 0.0

    @property
    def seed(self) -> int:
        """The request's seed, one further per reply; never 2**32 - 1, which llama.cpp reads as random."""
        return (self.request.seed + self.reply) % (2**32 - 1)

    @property
    def home(self) -> Slot:
        """The slot of a running sequence."""
        assert self.slot is not None
        return self.slot

    @property
    def pending(self) -> int:
        """Known tokens whose cells are not in the cache yet."""
        return len(self.tokens) - len(self.slot.tokens if self.slot else ())

    @property
    def new_tokens(self) -> int:
        return len(self.tokens) - self.prompt_length

    @property
    def started(self) -> bool:
        """Whether its first token is known, so that it is a writer and no longer a prompt."""
        return len(self.tokens) > self.prompt_length

    @property
    def writes(self) -> bool:
        """False for a warm-up and for a reply that is forced to be empty: only the prompt is read."""
        return self.request.max_new_tokens > 0 and self.request.forced != ()

    @property
    def writes_next(self) -> bool:
        """Whether only what it wrote last separates it from its next token: one row, or a forced text's."""
        return self.started and 0 < self.pending <= self._next_rows

    @property
    def may_start(self) -> bool:
        """False while the first of `n` replies still reads the prompt that this one shares."""
        return not self.leader or self.leader.started or self.leader.done

    @property
    def is_background(self) -> bool:
        return self.request.priority == "background"

    def admitted(self, slot: Slot, kept: int) -> None:
        """It owns `slot`, which holds the first `kept` of its tokens."""
        self.slot = slot
        if not self._admitted:
            self._admitted = time.perf_counter()
            self.reused = kept

    def next_forced(self) -> int | None:
        """The id to write instead of a sampled one."""
        if self._override:
            return self._override.popleft()
        return self.forced.popleft() if self.forced else None

    @property
    def is_free(self) -> bool:
        """Whether nothing but its grammar says what it writes next."""
        return self.forced is None and not self._override

    def accept(self, token: int, logprob: TokenLogprob | None) -> tuple[Delta, Finish | None]:
        """Take a new token; what it adds to the text, and whether it ends the reply."""
        self._next_rows = 1
        return self._accept(token, logprob)

    def accept_forced(self, token: int) -> tuple[Delta, Finish | None]:
        """Take a token the grammar leaves no choice about; its row is decoded with the next."""
        self._next_rows += self.started
        self.forced_tokens += 1
        return self._accept(token, None)

    def _accept(self, token: int, logprob: TokenLogprob | None) -> tuple[Delta, Finish | None]:
        self.tokens.append(token)
        self._last = time.perf_counter()
        self._first = self._first or self._last
        text, finish = self._advance(token)
        logprobs = () if logprob is None else (logprob,)
        return Delta(self.reply, (token,), text, logprobs, self._first - self._admitted), finish

    def _advance(self, token: int) -> tuple[str, Finish | None]:
        if self._model.is_eog(token):
            self._end_token = token
            # Hidden even where a format shows it: what ends a reply is no part of its transcript.
            ending = "" if self._shown is not None else self._model.piece(token).decode("utf-8", "replace")
            return self._text.flush() + ending, "stop"
        text = self._text.push(token)
        if self._text.match is not None:
            return text, "stop" if self._text.match in self.request.role_stops else "stop_string"
        budget = self.request.thought_budget
        if budget and self._meter and self._meter.feed(self._model.piece(token)):
            self._override.extend(budget.closer)
        if self.forced is not None and not self.forced and not self._override:
            return text + self._text.flush(), "stop"
        if self.new_tokens >= self.limit:
            return text + self._text.flush(), "length"
        return text, None

    def _visible_piece(self, token: int) -> bytes:
        hidden = self._shown is not None and token not in self._shown and self._model.is_control(token)
        self._hid = self._hid or hidden
        return b"" if hidden else self._model.piece(token)

    def rest(self) -> Delta | None:
        """Text still held when the reply is ended from outside."""
        text = self._text.flush()
        return Delta(self.reply, (), text) if text else None

    def ended(self, finish: Finish, error: Exception | None = None) -> Ended:
        """The report of a finished reply."""
        now = time.perf_counter()
        submitted = self.request.submitted
        admitted = self._admitted or now
        first = self._first or now
        match = self._text.match
        return Ended(
            reply=self.reply,
            finish=finish,
            prompt_tokens=self.prompt_length,
            reused_tokens=self.reused,
            new_tokens=self.new_tokens,
            forced_tokens=self.forced_tokens,
            queue_s=admitted - submitted,
            prefill_s=first - admitted,
            decode_s=(self._last - self._first) if self._first else 0.0,
            time_to_first_token_s=first - submitted,
            end_token=self._end_token,
            stop_match=None if match in self.request.role_stops else match,
            is_cut=match is not None or self._hid,
            seed=self.seed,
            error=error,
        )

    def close(self) -> None:
        """Free the native sampler."""
        self.done = True
        if self.sampler:
            self.sampler.close()
            self.sampler = None
