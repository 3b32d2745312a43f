"""`ScriptedEngine`: a `ChatEngine` without a model, for tests, demos and screenshots.

It plays scripts in order, one per request, and records what it was asked. (For scripted replies
at a real model's speed, force them through the in-process engine with `Request.forced`.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from backend.chat_engine import Count, EngineStats, LoadSpec, Progress, Rendered, Request, Tool
from backend.types import (
    ChatCard,
    ChatOutcome,
    EngineError,
    Finish,
    GenerationConfig,
    Message,
    Piece,
    ReasoningPiece,
    TextPiece,
    ToolCall,
)

CARD = ChatCard(
    model_id="scripted",
    architecture="scripted",
    parameters=0,
    quantization="none",
    max_seq=8192,
    supports_tools=True,
    supports_thinking=True,
    reasoning_mode="toggleable",
    tool_call_format="hermes",
    max_active=8,
)


@dataclass(frozen=True)
class Pause:
    """Wait: for some seconds, or until an event is set."""

    seconds: float = 0.0
    until: asyncio.Event | None = None


Step = str | Piece | Pause | BaseException
"""A string is a piece of visible text; an exception is raised."""


@dataclass
class ScriptedEngine:
    """Plays `scripts`; a request beyond the last one is an EngineError."""

    scripts: Sequence[Sequence[Step]] = ()
    card: ChatCard = CARD
    requests: list[Request] = field(default_factory=list[Request])
    """Every request that was submitted, in order."""
    warmed: list[Sequence[Message]] = field(default_factory=list[Sequence[Message]])
    forgotten: list[str] = field(default_factory=list[str])
    """Every conversation that was to be forgotten, in order."""
    residency: dict[str, Any] = field(default_factory=lambda: {"devices": [], "pipeline": {}, "notes": []})
    closed: bool = False
    _cancelled: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        """Take the name of the asked-for model."""
        if progress:
            progress(1.0)
        self.closed = False
        if spec.source:
            self.card = replace(self.card, model_id=spec.source)
        return self.card

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        """Play the next script; each step is delivered as one engine step."""
        if self.closed:
            raise EngineError("No model is loaded.", remedy="Load one first.")
        index = len(self.requests)
        self.requests.append(request)
        if index >= len(self.scripts):
            raise EngineError(f"The script has no reply for request {index + 1}.")
        cancelled = self._cancelled.setdefault(request.id, asyncio.Event())
        played: list[Piece] = []
        finish: Finish = "stop"
        left = request.n
        try:
            for step in self.scripts[index]:
                if cancelled.is_set():
                    finish = "cancelled"
                    break
                match step:
                    case Pause():
                        await _pause(step, cancelled)
                    case BaseException():
                        raise step
                    case ChatOutcome():
                        yield [step]
                        left -= 1
                        if not left:
                            return
                    case _:
                        piece = TextPiece(step) if isinstance(step, str) else step
                        played.append(piece)
                        yield [piece]
            if cancelled.is_set():
                finish = "cancelled"
            for reply in range(request.n - left, request.n):
                yield [_outcome(played, finish, request.config.seed or 0, reply)]
        finally:
            self._cancelled.pop(request.id, None)

    def cancel(self, request_id: str) -> None:
        if event := self._cancelled.get(request_id):
            event.set()

    async def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        config: GenerationConfig | None = None,
        conversation: str | None = None,
        continue_reply: bool = False,
    ) -> Count:
        """A token for every word."""
        return Count(sum(len(str(turn.get("content") or "").split()) for turn in messages))

    async def render(self, request: Request) -> Rendered:
        lines = [f"{turn['role']}: {turn.get('content')}" for turn in request.messages or ()]
        return Rendered("\n".join(lines) or request.text or "", None)

    async def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    async def detokenize(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise ValueError("A scripted engine makes no embeddings.")

    async def warm(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        conversation: str | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        self.warmed.append(messages)

    async def forget(self, conversation: str) -> None:
        self.forgotten.append(conversation)

    async def stats(self) -> EngineStats:
        return EngineStats(len(self._cancelled), 0, self.card.max_active, 0, self.card.max_seq)

    async def unload(self) -> None:
        for event in self._cancelled.values():
            event.set()
        self.closed = True


async def _pause(pause: Pause, cancelled: asyncio.Event) -> None:
    """Wait for the pause to end, or for a cancellation."""
    waits: list[asyncio.Task[Any]] = [asyncio.create_task(cancelled.wait())]
    if pause.until is not None:
        waits.append(asyncio.create_task(pause.until.wait()))
    else:
        waits.append(asyncio.create_task(asyncio.sleep(pause.seconds)))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _outcome(played: Sequence[Piece], finish: Finish, seed: int, reply: int) -> ChatOutcome:
    texts = [piece for piece in played if isinstance(piece, TextPiece) and piece.reply == reply]
    thoughts = [piece for piece in played if isinstance(piece, ReasoningPiece) and piece.reply == reply]
    calls = tuple(piece for piece in played if isinstance(piece, ToolCall))
    return ChatOutcome(
        finish="tool_calls" if calls and finish == "stop" else finish,
        prompt_tokens=1,
        new_tokens=len(texts) + len(thoughts) + len(calls),
        seed=seed,
        text="".join(piece.text for piece in texts),
        reasoning="".join(piece.text for piece in thoughts),
        tool_calls=calls,
        reply=reply,
    )
