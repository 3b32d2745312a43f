"""A sampler bound to a grammar: the drawn token is checked first, and more of the vocabulary is
filtered only when the grammar rejects it."""

from __future__ import annotations

from backend.engine.sampling import Sampler
from backend.native import Candidates, Context, GrammarSampler, Model
from backend.types import EngineError, GenerationConfig, Grammar

NEAREST = 256
"""How many of the likeliest tokens are tried before the whole vocabulary: 0.05 ms instead of 5."""


class ConstrainedSampler(Sampler):
    """Draws tokens that keep the reply within a grammar.

    A lazy grammar sleeps until one of its triggers appears in the text; until then it costs a
    search in the last few characters.
    """

    def __init__(
        self, model: Model, config: GenerationConfig, seed: int, max_seq: int, grammar: Grammar
    ) -> None:
        super().__init__(model, config, seed, max_seq)
        self._model = model
        self._grammar = grammar
        self._candidates = Candidates(model.n_vocab)
        self._bound: GrammarSampler | None = None
        self._recent: list[int] = []
        self._tail = b""
        self._triggers = [trigger.encode() for trigger in grammar.triggers]
        if not grammar.lazy:
            self._bound = GrammarSampler(model, grammar.text, root_rule=grammar.root)

    def draw(self, context: Context, row: int) -> int:
        if self._bound is None:
            token = super().draw(context, row)
            self._watch(token)
            return token
        token = self._constrained(context, row, self._bound)
        self._chain.accept(token)
        self._bound.accept(token)
        return token

    def accept(self, token: int) -> None:
        """Take note of a forced token. EngineError where the grammar does not allow it."""
        if self._bound is None:
            self._watch(token)
        else:
            if not self._bound.allows(token):
                raise EngineError("A forced token is not allowed by the grammar of this reply.")
            self._bound.accept(token)
        self._chain.accept(token)

    def _constrained(self, context: Context, row: int, grammar: GrammarSampler) -> int:
        candidates = self._candidates
        candidates.fill(context.logits(row))
        token = candidates.select(self._chain)
        if grammar.allows(token):
            return token
        for count in (NEAREST, self._model.n_vocab):
            candidates.fill(context.logits(row), nearest=count)
            if candidates.restrict(grammar):
                return candidates.select(self._chain)
        raise EngineError(
            "The grammar allows no further token here.",
            remedy="Check the grammar or the schema; it may be impossible to satisfy.",
        )

    def _watch(self, token: int) -> None:
        """Look for a trigger at the end of the text, and wake the grammar where it begins."""
        piece = self._model.piece(token)
        self._recent.append(token)
        self._tail += piece
        found = [(at, trigger) for trigger in self._triggers if (at := self._tail.find(trigger)) >= 0]
        if found:
            start = min(found)[0]
            self._wake(start)
            return
        longest = max(map(len, self._triggers), default=1)
        while self._recent and len(self._tail) - len(first := self._model.piece(self._recent[0])) >= longest:
            self._tail = self._tail[len(first) :]
            self._recent.pop(0)

    def _wake(self, start: int) -> None:
        """Bind the grammar from byte `start` of the recent tokens on."""
        before = 0
        tokens = list(self._recent)
        while tokens and before + len(piece := self._model.piece(tokens[0])) <= start:
            before += len(piece)
            tokens.pop(0)
        self._bound = GrammarSampler(
            self._model, self._grammar.text, root_rule=self._grammar.root, skip=start - before
        )
        for token in tokens:
            self._bound.accept(token)

    def close(self) -> None:
        super().close()
        if self._bound:
            self._bound.close()
            self._bound = None
