"""The engine of a demo: the real one, which writes what the demo says instead of what it draws.

Tokenizing, decoding, streaming and parsing are real; figures that a machine decides are pinned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from backend.chat_engine import LoadSpec, Progress, Request
from backend.engines.host import EngineHost
from backend.types import ChatCard, ChatOutcome, EngineError, Piece

FIRST_TOKEN_S = 0.041


class DemoEngine(EngineHost):
    """An engine child whose replies are `replies`, one after the other. A further one is an EngineError.

    `name` is shown as the model's; `tokens_per_second` as its speed.
    """

    def __init__(
        self, replies: Sequence[str], *, name: str | None, tokens_per_second: float, log: Path | None = None
    ) -> None:
        super().__init__(log=log)
        self._replies = list(replies)
        self._played = 0
        self._name = name
        self._speed = tokens_per_second

    @property
    def card(self) -> ChatCard:
        card = super().card
        return card if self._name is None else replace(card, model_id=self._name)

    @property
    def left(self) -> int:
        """Replies that nobody asked for yet."""
        return len(self._replies) - self._played

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        await super().load(spec, progress)
        return self.card

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        """Write the next reply. Closing the iterator cancels it."""
        if request.priority == "user":
            request = replace(request, forced=self._next())
        async for pieces in super().submit(request):
            yield [self._pinned(piece) if isinstance(piece, ChatOutcome) else piece for piece in pieces]

    def _next(self) -> str:
        if not self.left:
            raise EngineError(
                f"The demo has {len(self._replies)} replies, but one more is needed.",
                remedy="Add it to `replies` in the demo's file.",
            )
        self._played += 1
        return self._replies[self._played - 1]

    def _pinned(self, outcome: ChatOutcome) -> ChatOutcome:
        return replace(
            outcome,
            tokens_per_second=self._speed,
            time_to_first_token_s=FIRST_TOKEN_S,
            decode_s=outcome.new_tokens / self._speed,
        )
