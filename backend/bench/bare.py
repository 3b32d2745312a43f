"""The loop everything is held against: llama.cpp, its sampler chain, and nothing else.

No scheduler, no text, no end tokens, no threads: what a program gets that only decodes and samples.
"""

from __future__ import annotations

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
from backend.engine.prefix_cache import common_prefix
from backend.engine.sampling import build_chain
from backend.native import Batch, C, Context, Model
from backend.samplers import SamplerChain


class BareLoop:
    """All slots of a context write side by side, from the same prompt."""

    def __init__(self, path: str, n_gpu_layers: int) -> None:
        model = Model.load(path, n_gpu_layers=n_gpu_layers)
        if model is None:
            raise BenchError("llama.cpp did not load the model.")
        self._model = model
        self._prompts = Prompts(model)
        self._context: Context | None = None
        self._batch = Batch(1)
        self._chains: list[SamplerChain] = []
        self._held: list[int] = []
        self._turn = 0

    def open(self, setup: Setup) -> None:
        """Build the context, in place of the one before."""
        self.close()
        self._context = Context(self._model, setup.for_bare())
        self._batch = Batch(max(setup.n_batch, setup.slots))
        self._chains = [
            build_chain(self._model, CONFIG, SEED + slot, setup.cells) for slot in range(setup.slots)
        ]

    def close(self) -> None:
        """Free the context."""
        for chain in self._chains:
            chain.close()
        if self._context:
            self._context.close()
        self._chains, self._context, self._held = [], None, []

    # ---- measurements ----------------------------------------------------------------------

    def write(self, depth: int, min_s: float) -> float:
        """Tokens per second of all slots together, from `depth` tokens of context on."""
        prompt = self._prompts.of(depth)
        return rate(lambda seconds: self._burst(prompt, seconds), min_s)

    def read(self, length: int, new: int, min_s: float) -> float:
        """Seconds from a prompt of `length` tokens, the last `new` of them unseen, to its first token."""
        return mean_time(lambda: self._first_token(length, new), min_s)

    # ---- the loop --------------------------------------------------------------------------

    @property
    def _open(self) -> Context:
        if self._context is None:
            raise BenchError("The bare loop has no context.")
        return self._context

    def _burst(self, prompt: list[int], seconds: float) -> tuple[int, float]:
        slots = range(len(self._chains))
        self._fill(prompt)
        tokens = self._step(slots, [prompt[-1]] * len(slots), len(prompt) - 1)
        began, steps = now(), 0
        while True:
            tokens = self._step(slots, tokens, len(prompt) + steps)
            steps += 1
            spent = now() - began
            if steps == BURST or (spent >= seconds and steps >= LEAST_STEPS):
                return steps * len(slots), spent

    def _step(self, slots: range, tokens: list[int], position: int) -> list[int]:
        context, batch = self._open, self._batch
        batch.clear()
        for slot in slots:
            batch.add(slot, position, [tokens[slot]], outputs=1)
        self._decode()
        return [chain.sample(context, row) for row, chain in enumerate(self._chains)]

    def _first_token(self, length: int, new: int) -> float:
        self._turn += 1
        prompt = self._prompts.with_tail(length, new, self._turn)
        if new < length:
            self._extend(prompt[: length - new])
        else:
            self._open.wipe(0)
            self._held = []
        began = now()
        self._extend(prompt, last=True)
        self._chains[0].sample(self._open, self._batch.rows - 1)
        return now() - began

    def _fill(self, prompt: list[int]) -> None:
        """Leave all tokens of `prompt` but the last in every slot."""
        context, keep = self._open, prompt[:-1]
        self._extend(keep)
        for slot in range(1, len(self._chains)):
            if self._cuts and context.highest(slot) >= len(keep):
                context.drop(slot, len(keep))
            if context.highest(slot) != len(keep) - 1 or not self._cuts:
                context.wipe(slot)
                context.copy(0, slot)

    def _extend(self, tokens: list[int], *, last: bool = False) -> None:
        """Make slot 0 hold exactly `tokens`, reading only what it lacks; logits for the last if asked."""
        context = self._open
        kept = common_prefix(self._held, tokens)
        if context.highest(0) != kept - 1:
            context.drop(0, kept)
            if not self._cuts or context.highest(0) != kept - 1:
                context.wipe(0)
                kept = 0
        for start in range(kept, len(tokens), self._batch.capacity):
            chunk = tokens[start : start + self._batch.capacity]
            wanted = last and start + len(chunk) == len(tokens)
            self._batch.clear()
            self._batch.add(0, start, chunk, outputs=int(wanted))
            self._decode()
        self._held = list(tokens)

    def _decode(self) -> None:
        if code := C.llama_decode(self._open.handle, self._batch.raw):
            raise BenchError(f"llama_decode returned {code} in the bare loop.")

    @property
    def _cuts(self) -> bool:
        return self._model.can_cut and not self._model.n_swa
