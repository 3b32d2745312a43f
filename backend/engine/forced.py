"""Finds the text that a grammar leaves no choice about: there, nothing has to be sampled."""

from __future__ import annotations

import time

from backend.native import Model
from backend.samplers import Candidates, GrammarSampler

MOST_BYTES = 256
"""Of one forced text; 0.02 ms each. What is longer is found in parts."""
MOST_WALK_S = 0.2
"""Processor time of one search for forced text."""
_PROBES = b'"a 0\n}-'
"""Bytes of which most places that leave a choice allow two: 4 µs instead of 17."""
_NEEDED = {0x0A, *range(0x20, 0x7F), 0xC3, 0xE2, 0xF0}
"""A vocabulary without tokens for these bytes cannot tell what else a grammar allows."""


class ForcedText:
    """Asks a grammar byte by byte, through the vocabulary's one-byte tokens, what may come next."""

    def __init__(self, model: Model) -> None:
        tokens = model.byte_tokens
        self._end = model.eos
        self._is_able = tokens.keys() >= _NEEDED and self._end >= 0 and model.is_eog(self._end)
        self._bytes = {token: bytes([byte]) for byte, token in tokens.items()}
        self._probes = [tokens[byte] for byte in _PROBES] if self._is_able else []
        self._all = [*tokens.values(), self._end]
        self._candidates = Candidates(len(self._all))

    def after(self, grammar: GrammarSampler) -> tuple[bytes, bool]:
        """What must follow, in whole characters, and whether the reply is complete behind it."""
        if not self._is_able or (first := self._only(grammar)) is None or first == self._end:
            return b"", False
        walker = grammar.clone()
        try:
            return self._walk(walker, first)
        finally:
            walker.close()

    def _walk(self, walker: GrammarSampler, first: int) -> tuple[bytes, bool]:
        text, following = bytearray(), first
        until = time.thread_time() + MOST_WALK_S
        while following is not None and following != self._end and len(text) < MOST_BYTES:
            text += self._bytes[following]
            if time.thread_time() > until:
                break  # Its ways double with each byte; the sampler ends such a reply.
            walker.accept(following)
            following = self._only(walker)
        whole = _whole_characters(bytes(text))
        return whole, following == self._end and len(whole) == len(text)

    def _only(self, grammar: GrammarSampler) -> int | None:
        """The one token that the grammar takes next, None where there are several."""
        for tokens in (self._probes, self._all):
            self._candidates.offer(tokens)
            self._candidates.restrict(grammar)
            left = self._candidates.ids
            if len(left) > 1:
                return None
        return left[0] if left else None


def _whole_characters(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError as err:
        return text[: err.start]
    return text
