"""The sampler of one sequence: llama.cpp's own chain, built from a `GenerationConfig`.

Logits never cross into Python, except for logprobs and for a token that a grammar rejects.
"""

from __future__ import annotations

import importlib
from typing import Any

from backend.native import C, Context, Model
from backend.samplers import SamplerChain, dry_sampler, logit_bias_sampler
from backend.types import GenerationConfig, TokenLogprob

DRY_BREAKERS = ("\n", ":", '"', "*")
"""Texts a repetition is not followed across; llama.cpp's own defaults."""
_HUGE = 1e6
"""As good as infinite for a logit. Infinities would make the probabilities not a number, and
llama.cpp then draws the vocabulary's last token."""
_GREEDY_BELOW = 1e-6
"""Temperatures under this are greedy; dividing by them overflows."""


def looks_back(config: GenerationConfig, max_seq: int) -> int:
    """How many of the latest tokens this config's penalties consider."""
    penalized = (config.repeat_penalty or 1.0) != 1.0 or config.frequency_penalty or config.presence_penalty
    reach = 64 if config.repeat_last_n is None else config.repeat_last_n
    reach = (max_seq if reach < 0 else min(reach, max_seq)) if penalized else 0
    return max_seq if config.dry_multiplier else reach


def build_chain(model: Model, config: GenerationConfig, seed: int, max_seq: int) -> SamplerChain:
    """The chain in llama.cpp's order: bias, penalties, DRY, top-n-sigma, top-k first of the filters,
    typical, top-p, min-p, XTC, temperature, draw. A filter that is off costs nothing: it is not there."""
    chain = SamplerChain()
    bias = {token: min(amount, _HUGE) for token, amount in (config.logit_bias or {}).items()}
    if config.ignore_eos:
        bias |= {token: float("-inf") for token in eog_tokens(model)}
    if bias:
        chain.add(logit_bias_sampler(model.n_vocab, bias))
    _add_penalties(chain, model, config, max_seq)
    temperature = 1.0 if config.temperature is None else _bounded(config.temperature)
    if temperature < _GREEDY_BELOW and not config.dynatemp_range:
        chain.add(C.llama_sampler_init_greedy())
    elif config.mirostat:
        chain.add(C.llama_sampler_init_temp(temperature))
        tau = 5.0 if config.mirostat_tau is None else _bounded(config.mirostat_tau)
        eta = 0.1 if config.mirostat_eta is None else _bounded(config.mirostat_eta)
        if config.mirostat == 1:
            chain.add(C.llama_sampler_init_mirostat(model.n_vocab, seed, tau, eta, 100))
        else:
            chain.add(C.llama_sampler_init_mirostat_v2(seed, tau, eta))
    else:
        _add_filters(chain, config, seed)
        if config.dynatemp_range:
            chain.add(C.llama_sampler_init_temp_ext(temperature, _bounded(config.dynatemp_range), 1.0))
        else:
            chain.add(C.llama_sampler_init_temp(temperature))
        chain.add(C.llama_sampler_init_dist(seed))
    return chain


class Sampler:
    """Draws the tokens of one sequence, and remembers what its penalties look back on."""

    def __init__(self, model: Model, config: GenerationConfig, seed: int, max_seq: int) -> None:
        self._chain = build_chain(model, config, seed, max_seq)
        self._reach = looks_back(config, max_seq)

    def read(self, prompt: list[int]) -> None:
        """Show the penalties the end of the prompt."""
        for token in prompt[-self._reach :] if self._reach else ():
            self._chain.accept(token)

    def draw(self, context: Context, row: int) -> int:
        """Sample from a batch row's logits."""
        return self._chain.sample(context, row)

    def accept(self, token: int) -> None:
        """Take note of a token that was not drawn here."""
        self._chain.accept(token)

    def forced(self) -> list[int]:
        """Tokens that must come next, whatever the model says. Each is still to be accepted."""
        return []

    def close(self) -> None:
        self._chain.close()


def _bounded(value: float) -> float:
    return max(-_HUGE, min(value, _HUGE))


def _add_penalties(chain: SamplerChain, model: Model, config: GenerationConfig, max_seq: int) -> None:
    repeat = 1.0 if config.repeat_penalty is None else _bounded(config.repeat_penalty)
    frequency, presence = _bounded(config.frequency_penalty or 0.0), _bounded(config.presence_penalty or 0.0)
    last = 64 if config.repeat_last_n is None else config.repeat_last_n
    if repeat != 1.0 or frequency or presence:
        # llama.cpp takes room for as many tokens as it is told of, 8 GB at the most.
        last = max_seq if last < 0 else min(last, max_seq)
        chain.add(C.llama_sampler_init_penalties(model.n_vocab, last, repeat, frequency, presence))
    if config.dry_multiplier:
        base = 1.75 if config.dry_base is None else config.dry_base
        allowed = 2 if config.dry_allowed_length is None else config.dry_allowed_length
        chain.add(dry_sampler(model, config.dry_multiplier, base, allowed, max_seq, DRY_BREAKERS))


def _add_filters(chain: SamplerChain, config: GenerationConfig, seed: int) -> None:
    if config.top_n_sigma is not None and config.top_n_sigma > 0:
        chain.add(C.llama_sampler_init_top_n_sigma(config.top_n_sigma))
    if config.top_k:  # Without it the rest sorts the whole vocabulary: 9.3 ms instead of 0.09 at 152k.
        chain.add(C.llama_sampler_init_top_k(config.top_k))
    if config.typical_p is not None and config.typical_p < 1:
        chain.add(C.llama_sampler_init_typical(config.typical_p, 1))
    if config.top_p is not None and config.top_p < 1:
        chain.add(C.llama_sampler_init_top_p(config.top_p, 1))
    if config.min_p:
        chain.add(C.llama_sampler_init_min_p(config.min_p, 1))
    if config.xtc_probability:
        threshold = 0.1 if config.xtc_threshold is None else config.xtc_threshold
        chain.add(C.llama_sampler_init_xtc(config.xtc_probability, threshold, 1, seed))


def eog_tokens(model: Model) -> tuple[int, ...]:
    """Every token that ends a generation, in id order. Walks the vocabulary's special tokens."""
    return tuple(token for token in model.special_tokens if model.is_eog(token))


def logprob_row(model: Model, context: Context, row: int) -> Any:
    """Natural-log probabilities of a batch row before any filter: a numpy array of n_vocab floats."""
    numpy: Any = importlib.import_module("numpy")
    logits = numpy.ctypeslib.as_array(context.logits(row)).astype(numpy.float64)
    shifted = logits - logits.max()
    return shifted - numpy.log(numpy.exp(shifted).sum())


def token_logprob(model: Model, logprobs: Any, token: int, top: int) -> TokenLogprob:
    """The chosen token's logprob with its `top` most probable alternatives, best first."""
    numpy: Any = importlib.import_module("numpy")
    best: list[int] = []
    if top:
        top = min(top, len(logprobs))
        unsorted = numpy.argpartition(logprobs, -top)[-top:]
        best = sorted((int(i) for i in unsorted), key=lambda i: -logprobs[i])

    def text(one: int) -> str:
        return model.piece(one).decode("utf-8", "replace")

    alternatives = tuple((one, text(one), float(logprobs[one])) for one in best)
    return TokenLogprob(token, text(token), float(logprobs[token]), alternatives)
