"""A sampler bound to a grammar: the drawn token is checked first, and more of the vocabulary is
filtered only when the grammar rejects it."""

from __future__ import annotations

import copy
import time

from backend.engine.forced import ForcedText
from backend.engine.request import EngineRequest
from backend.engine.sampling import Sampler
from backend.engine.thought import ThoughtMarks, ThoughtTracker
from backend.native import Context, Model
from backend.samplers import Candidates, GrammarSampler
from backend.types import EngineError, Grammar

NEAREST = 256
"""How many of the likeliest tokens are tried before the whole vocabulary: 0.05 ms instead of 5."""
MOST_REFUSED = 64
"""Tokens refused in one draw while a grammar sleeps, before it is called impossible."""
MOST_OPEN = 8
"""Tokens at the end of a forced text that what follows could still join to others."""
MOST_ACCEPT_S = 0.2
"""Processor time a grammar may take to move on by one token, usually a millionth of it: where its ways
double with each token, each takes many times longer than the one before."""
_MANY_WAYS = "Let its alternatives begin differently, so that each text has one way through it."
_CHECK = "Check the grammar or the schema; it may be impossible to satisfy."


class ConstrainedSampler(Sampler):
    """Draws tokens that keep the reply within a grammar.

    A lazy grammar sleeps until one of its triggers appears in the text; until then it costs a
    search in the last few characters.
    """

    def __init__(self, model: Model, request: EngineRequest, seed: int, max_seq: int) -> None:
        assert request.grammar is not None
        self._model = model
        self._grammar = request.grammar
        self._candidates = Candidates(model.n_vocab)
        # Compiled before it wakes: one that llama.cpp refuses fails here, alone.
        self._compiled = request.compiled or compiled(model, self._grammar)
        self._bound = None if self._grammar.lazy else self._compiled.clone()
        self._watch = _Watch(model, request.grammar, request.thought)
        # Logprobs are of what was sampled, and a bias may forbid the very tokens a text is made of.
        samples_all = request.config.logprobs is not None or bool(request.config.logit_bias)
        self._forced = None if samples_all else ForcedText(model)
        super().__init__(model, request.config, seed, max_seq)

    def draw(self, context: Context, row: int) -> int:
        if self._bound is None:
            return self._draw_asleep(context, row)
        token = self._constrained(context, row, self._bound)
        self._chain.accept(token)
        began = time.thread_time()
        self._bound.accept(token)
        if time.thread_time() - began > MOST_ACCEPT_S:
            raise EngineError("The grammar allows too many continuations at once.", remedy=_MANY_WAYS)
        return token

    def accept(self, token: int) -> None:
        """Take note of a forced token. EngineError where the grammar does not allow it."""
        if not self._take(token):
            raise EngineError("A token that was written is not allowed by the grammar of this reply.")
        self._chain.accept(token)

    def forced(self) -> list[int]:
        if self._bound is None or self._forced is None:
            return []
        text, is_end = self._forced.after(self._bound)
        return settled_tokens(self._model, text, is_end=is_end) if text else []

    def _draw_asleep(self, context: Context, row: int) -> int:
        """Draw freely, but no token that completes a trigger and goes on as the grammar forbids."""
        token = super().draw(context, row)
        refused: list[int] = []
        while not self._take(token):
            refused.append(token)
            if len(refused) > MOST_REFUSED:
                raise EngineError("The grammar allows nothing after its trigger.", remedy=_CHECK)
            self._candidates.fill(context.logits(row), without=refused)
            token = self._candidates.select(self._chain)
        if refused:  # The chain knows of the first that was refused, and of nothing since.
            self._chain.accept(token)
        return token

    def _take(self, token: int) -> bool:
        """Move on by a token that was not drawn under the grammar; False where it does not fit."""
        if self._bound is not None:
            if fits := self._bound.allows(token):
                self._bound.accept(token)
            return fits
        before = self._watch.copy()
        found = self._watch.feed(token)
        if found is None:
            return True
        self._bound = self._woken(*found)
        if self._bound is None:
            self._watch = before
        return self._bound is not None

    def _woken(self, tokens: list[int], skip: int) -> GrammarSampler | None:
        """The grammar behind `tokens`, begun at byte `skip` of the first; None where they do not fit."""
        if skip:
            inner = exact_tokens(self._model, self._model.piece(tokens[0])[skip:])
            if inner is None:
                return None
            tokens = inner + tokens[1:]
        grammar = self._compiled.clone()
        for token in tokens:
            if not grammar.allows(token):  # llama.cpp ends the process if it is accepted all the same.
                grammar.close()
                return None
            grammar.accept(token)
        return grammar

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
        raise EngineError("The grammar allows no further token here.", remedy=_CHECK)

    def close(self) -> None:
        super().close()
        if self._bound:
            self._bound.close()
            self._bound = None


def make_sampler(model: Model, request: EngineRequest, seed: int, max_seq: int) -> Sampler:
    if request.grammar is None:
        return Sampler(model, request.config, seed, max_seq)
    return ConstrainedSampler(model, request, seed, max_seq)


class _Watch:
    """Looks for a trigger at the end of a reply's text. Inside a thought only its end can be one."""

    def __init__(self, model: Model, grammar: Grammar, thought: ThoughtMarks | None) -> None:
        self._model = model
        self._triggers = [trigger.encode() for trigger in grammar.triggers]
        self._tracker = ThoughtTracker(thought) if thought else None
        closer = thought.closer.encode() if thought else b""
        self._closing = [trigger for trigger in self._triggers if closer and trigger.startswith(closer)]
        self._longest = max(map(len, self._triggers), default=1)
        self._recent: list[int] = []
        self._tail = b""

    def copy(self) -> _Watch:
        """The same state again, for taking a token back."""
        twin = copy.copy(self)
        twin._recent = list(self._recent)
        twin._tracker = copy.copy(self._tracker)
        return twin

    def feed(self, token: int) -> tuple[list[int], int] | None:
        """Where a trigger is complete: the tokens it stands in, and its first byte in the first of them."""
        piece = self._model.piece(token)
        inside = self._tracker is not None and self._tracker.open
        if self._tracker:
            self._tracker.feed(piece)
        self._recent.append(token)
        self._tail += piece
        triggers = self._closing if inside else self._triggers
        starts = [at for trigger in triggers if (at := self._tail.find(trigger)) >= 0]
        if starts:
            return self._from(min(starts))
        if inside and self._tracker and not self._tracker.open:
            self._recent, self._tail = [token], piece  # What was thought is no part of a trigger.
        self._shorten()
        return None

    def _from(self, start: int) -> tuple[list[int], int]:
        tokens, before = list(self._recent), 0
        while before + len(piece := self._model.piece(tokens[0])) <= start:
            before += len(piece)
            tokens.pop(0)
        return tokens, start - before

    def _shorten(self) -> None:
        """Forget tokens that no trigger can reach any more."""
        while self._recent:
            first = len(self._model.piece(self._recent[0]))
            if len(self._tail) - first < self._longest:
                return
            self._tail = self._tail[first:]
            self._recent.pop(0)


def exact_tokens(model: Model, text: bytes) -> list[int] | None:
    """Tokens whose bytes are exactly `text`, or None: for half a character there are none."""
    try:
        readable = text.decode()
    except UnicodeDecodeError:
        return None
    # A SentencePiece vocabulary puts a space in front, unless something stands there.
    for lead in ("", "\x01"):
        tokens = model.tokenize(lead + readable)
        while tokens and b"".join(map(model.piece, tokens)) != text:
            tokens.pop(0)
        if tokens:
            return tokens
    return None


def settled_tokens(model: Model, text: bytes, *, is_end: bool) -> list[int]:
    """Tokens a model would write for the beginning of `text`, whatever follows.

    What follows may join the last token, and with it those in front that make one word, or one row of
    signs, with it: they are left out.
    """
    tokens = exact_tokens(model, text) or []
    if is_end:
        return tokens
    for _ in range(min(len(tokens), MOST_OPEN)):
        right = model.piece(tokens.pop())
        # A blank before a word is a part of the word.
        if tokens and _sort(model.piece(tokens[-1])[-1]) not in ("blank", _sort(right[0])):
            break
    return tokens


def _sort(byte: int) -> str:
    """What a character is to a tokenizer, which joins those of one sort."""
    char = chr(byte)
    return "word" if byte >= 0x80 or char.isalnum() else "blank" if char.isspace() else "sign"


def compiled(model: Model, grammar: Grammar) -> GrammarSampler:
    """A grammar as llama.cpp reads it. GrammarError where it refuses."""
    return GrammarSampler(model, grammar.text, root_rule=grammar.root)
