"""llama.cpp's samplers, wrapped: chains that draw tokens, and grammars that allow them."""

from __future__ import annotations

import copy
import ctypes
import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from backend.grammar.check import GrammarError
from backend.native import C, Context, Model, sample


class SamplerChain:
    """A chain of llama.cpp samplers, of one sequence. `close()` frees it."""

    def __init__(self) -> None:
        self.handle = C.llama_sampler_chain_init(C.llama_sampler_chain_default_params())

    def add(self, sampler: Any) -> None:
        C.llama_sampler_chain_add(self.handle, sampler)

    def sample(self, context: Context, row: int) -> int:
        """Draw a token from a batch row's logits, and accept it."""
        return sample(self.handle, context.handle, row)

    def accept(self, token: int) -> None:
        """Tell the chain of a token that it did not draw (a prompt's, a forced one)."""
        C.llama_sampler_accept(self.handle, token)

    def close(self) -> None:
        if self.handle:
            C.llama_sampler_free(self.handle)
            self.handle = None


def logit_bias_sampler(n_vocab: int, bias: Mapping[int, float]) -> Any:
    """A sampler that adds to logits, by token id."""
    entries = (C.llama_logit_bias * len(bias))(*bias.items())
    return C.llama_sampler_init_logit_bias(n_vocab, len(bias), entries)


def dry_sampler(
    model: Model, multiplier: float, base: float, allowed_length: int, last_n: int, breakers: Sequence[str]
) -> Any:
    """The DRY repetition penalty with its sequence breakers."""
    texts = (ctypes.c_char_p * len(breakers))(*(text.encode() for text in breakers))
    return C.llama_sampler_init_dry(
        model.vocab, multiplier, base, allowed_length, last_n, texts, len(breakers)
    )


class GrammarSampler:
    """A GBNF grammar with the state of one reply. GrammarError when llama.cpp refuses it."""

    def __init__(self, model: Model, text: str, *, root_rule: str = "root") -> None:
        self.handle = C.llama_sampler_init_grammar(model.vocab, text.encode(), root_rule.encode())
        if not self.handle:
            # The log's last line may be of anything, and llama.cpp does not log its reason.
            raise GrammarError("The grammar does not compile: llama.cpp refuses it.")
        self._one = Candidates(1)

    def clone(self) -> GrammarSampler:
        """The same grammar in the same state, to be closed by itself."""
        twin = copy.copy(self)
        twin.handle, twin._one = C.llama_sampler_clone(self.handle), Candidates(1)
        return twin

    def allows(self, token: int) -> bool:
        """Whether the grammar takes this token next."""
        self._one.set_one(token)
        return self._one.restrict(self)

    def accept(self, token: int) -> None:
        """Move on. Only for a token that `allows` was true for: llama.cpp ends the process else."""
        C.llama_sampler_accept(self.handle, token)

    def close(self) -> None:
        if self.handle:
            C.llama_sampler_free(self.handle)
            self.handle = None

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.close()


class Candidates:
    """A `llama_token_data_array` over numpy memory, for the draws that a grammar looks into."""

    def __init__(self, capacity: int) -> None:
        self._numpy: Any = importlib.import_module("numpy")
        layout = [("id", "i4"), ("logit", "f4"), ("p", "f4")]
        self._rows = self._numpy.zeros(capacity, dtype=layout)
        self._ids = self._numpy.arange(capacity, dtype="i4")
        self._raw = C.llama_token_data_array()
        self._raw.data = self._rows.ctypes.data_as(ctypes.POINTER(C.llama_token_data))

    def fill(self, logits: Any, *, nearest: int | None = None, without: Sequence[int] = ()) -> None:
        """Take a row of logits: all tokens or the `nearest` likeliest. Those of `without` never win."""
        values = self._numpy.ctypeslib.as_array(logits)
        if nearest is None or nearest >= len(values):
            self._rows["id"], self._rows["logit"], count = self._ids, values, len(values)
        else:
            best = self._numpy.argpartition(values, -nearest)[-nearest:]
            count = nearest
            self._rows["id"][:count], self._rows["logit"][:count] = best, values[best]
        for token in without:
            self._rows["logit"][:count][self._rows["id"][:count] == token] = float("-inf")
        self._reset(count)

    def offer(self, tokens: Sequence[int]) -> None:
        """Take these tokens, all equally likely."""
        count = len(tokens)
        self._rows["id"][:count], self._rows["logit"][:count] = tokens, 1.0
        self._reset(count)

    def set_one(self, token: int) -> None:
        self._rows[0] = (token, 1.0, 0.0)
        self._reset(1)

    @property
    def ids(self) -> list[int]:
        """The tokens that are left."""
        return self._rows["id"][: self._raw.size].tolist()

    def _reset(self, count: int) -> None:
        self._raw.size, self._raw.selected, self._raw.sorted = count, -1, False

    def restrict(self, grammar: GrammarSampler) -> bool:
        """Keep what the grammar allows; False when that is nothing."""
        C.llama_sampler_apply(grammar.handle, ctypes.byref(self._raw))
        count = self._raw.size
        allowed = self._rows[:count][self._numpy.isfinite(self._rows["logit"][:count])]
        self._rows[: len(allowed)] = allowed
        self._reset(len(allowed))
        return len(allowed) > 0

    def select(self, chain: SamplerChain) -> int:
        """The token a chain draws from these; nothing is accepted."""
        C.llama_sampler_apply(chain.handle, ctypes.byref(self._raw))
        return self._raw.data[self._raw.selected].id
