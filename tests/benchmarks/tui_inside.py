"""`fireside` as its benchmark runs it: the engine writes forced replies, and tells on a pipe how it went."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import fireside
from app.frontend import engines
from backend.chat_engine import Count, Request
from backend.engines.host import EngineHost
from backend.types import ChatOutcome, GenerationConfig, Piece, TextPiece


@dataclass(frozen=True)
class Plan:
    """What the engine does instead of what it is asked. JSON-ready, because it is an argument."""

    told: int
    """Descriptor that a line goes to for every reply."""
    forced: str
    asked: str | None = None
    """What is answered in place of the whole conversation, so that its length costs nothing."""

    def request(self, given: Request) -> Request:
        """What is answered when `given` is asked."""
        if self.asked is None:
            return replace(given, forced=self.forced)
        messages = ({"role": "user", "content": self.asked},)
        return Request(messages=messages, config=GenerationConfig(), forced=self.forced, id=given.id)


class PlannedEngine(EngineHost):
    """An engine child that follows a `Plan`."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    async def count(self, *given: Any, **options: Any) -> Count:
        return Count(1) if self._plan.asked else await super().count(*given, **options)

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        if request.priority != "user":
            async for pieces in super().submit(request):
                yield pieces
            return
        first = 0.0
        async for pieces in super().submit(self._plan.request(request)):
            if not first and any(isinstance(piece, TextPiece) for piece in pieces):
                first = time.perf_counter()
            yield pieces
            if outcome := next((piece for piece in pieces if isinstance(piece, ChatOutcome)), None):
                self._tell(outcome, first)

    def _tell(self, outcome: ChatOutcome, first: float) -> None:
        told = asdict(
            Told(
                first,
                outcome.new_tokens,
                outcome.tokens_per_second,
                outcome.time_to_first_token_s,
                outcome.prompt_tokens,
                outcome.reused_tokens,
            )
        )
        os.write(self._plan.told, json.dumps(told).encode() + b"\n")


@dataclass(frozen=True)
class Told:
    """How one reply went."""

    first: float
    """When the first of it arrived in the face, by `time.perf_counter`."""
    tokens: int
    per_second: float
    first_token_s: float
    """From the request's arrival in the engine to its first token."""
    prompt: int
    reused: int


def command(plan: Plan, *arguments: str) -> list[str]:
    """What runs `fireside` with these arguments, by that plan."""
    return [sys.executable, "-m", "tests.benchmarks.tui_inside", json.dumps(asdict(plan)), *arguments]


def main() -> int:
    plan = Plan(**json.loads(sys.argv[1]))
    engines.make_engine = lambda **options: PlannedEngine(plan)
    sys.argv = [str(Path(fireside.__file__)), *sys.argv[2:]]
    return fireside.main()


if __name__ == "__main__":
    sys.exit(main())
