"""One reply of the model while it is written: pieces become events, and items once it is done.

What is written so far is saved at least once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from app.characters import Joiner, clean_text
from app.sessions.errors import FiresideError
from app.sessions.events import (
    FunctionCallArgumentsDeltaEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    ReasoningStartedEvent,
    ReasoningTextDeltaEvent,
    SessionNoticeEvent,
    SessionPrefillEvent,
    SessionSpeedEvent,
    SessionUsageEvent,
)
from app.sessions.items import FunctionCall, Item, Message, output_text, reasoning_item
from app.sessions.records import Json, new_id
from app.sessions.store.rows import Writing
from backend.chat_engine import ChatEngine, Request
from backend.types import (
    ChatOutcome,
    HeldPiece,
    Piece,
    PrefillProgress,
    ReasoningPiece,
    TextPiece,
    TokenLogprob,
    ToolCall,
    ToolCallPiece,
)

if TYPE_CHECKING:
    from app.sessions.turn.state import TurnState

logger = logging.getLogger("fireside")

CHECKPOINT_S = 0.5


@dataclass(frozen=True)
class ReplyEnd:
    """What one reply came to: the calls to run, and why the model stopped."""

    calls: Sequence[FunctionCall]
    finish: str


async def write_reply(turn: TurnState, engine: ChatEngine, request: Request) -> ReplyEnd:
    """Let the model answer `request`. What it wrote is stored even if it fails or is stopped."""
    draft = _Draft(turn, engine.card.model_id)
    turn.request_id = request.id
    saving = asyncio.create_task(draft.save_now_and_then())
    try:
        steps = cast("AsyncGenerator[list[Piece]]", engine.submit(request))
        async with contextlib.aclosing(steps):
            async for pieces in steps:
                draft.take(pieces)
                if turn.interrupted:
                    # An engine that was still starting the request has not heard of it.
                    engine.cancel(request.id)
                # Pieces that arrive all at once must not outrun those that listen.
                await asyncio.sleep(0)
    except BaseException:
        await _end(saving)
        # Also when this very task is being cancelled: the words were seen.
        await asyncio.shield(asyncio.ensure_future(draft.store(broken=True)))
        raise
    finally:
        turn.request_id = None
        await _end(saving)
    return await draft.store()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


@dataclass
class _Draft:
    turn: TurnState
    llm_model: str
    message_id: str = field(default_factory=lambda: new_id("msg"))
    text: list[str] = field(default_factory=list[str])
    thought: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    tokens: list[Json] = field(default_factory=list[Json])
    outcome: ChatOutcome | None = None
    _text_door: Joiner = field(default_factory=Joiner)
    _thought_door: Joiner = field(default_factory=Joiner)
    _call_doors: defaultdict[int, Joiner] = field(default_factory=lambda: defaultdict(Joiner))
    _saved: int = 0
    _head: str = ""

    def __post_init__(self) -> None:
        if self.turn.continued is not None:
            self._head = self.turn.continued.text
            self.text.append(self._head)

    def take(self, pieces: Sequence[Piece]) -> None:
        """Show and keep the pieces of one engine step; after an interrupt, nothing of them."""
        turn = self.turn
        for piece in pieces:
            if isinstance(piece, ChatOutcome):
                self.outcome = piece
            elif not turn.interrupted:
                turn.begin_response()
                self._show_head()
                self._show(piece)

    def _show_head(self) -> None:
        """Tell once what a continued reply begins with, so that the deltas make up its text."""
        head, self._head = self._head, ""
        if head:
            self.turn.publish(
                OutputTextDeltaEvent(
                    delta=head,
                    message_id=self.message_id,
                    repeated=True,
                    response_id=self.turn.response_id,
                )
            )

    def _show(self, piece: Piece) -> None:
        publish = self.turn.publish
        match piece:
            case TextPiece():
                self.tokens += map(_token, piece.tokens)
                self._say(self._text_door.feed(piece.text))
            case ReasoningPiece():
                self._think(self._thought_door.feed(piece.text))
            case HeldPiece(text=text):
                self._open_thought()
                publish(self._thought(text, held=True))
            case ToolCallPiece():
                publish(
                    FunctionCallArgumentsDeltaEvent(
                        delta=self._call_doors[piece.index].feed(piece.arguments_delta),
                        index=piece.index,
                        name=piece.name,
                    )
                )
            case ToolCall():
                self.calls.append(piece)
            case PrefillProgress():
                publish(SessionPrefillEvent(done=piece.done, total=piece.total, reused=piece.reused))
            case ChatOutcome():
                pass

    def _say(self, text: str) -> None:
        if text:
            self.text.append(text)
            response_id = self.turn.response_id
            self.turn.publish(
                OutputTextDeltaEvent(delta=text, message_id=self.message_id, response_id=response_id)
            )

    def _think(self, text: str) -> None:
        self._open_thought()
        if text:
            self.thought.append(text)
            self.turn.publish(self._thought(text))

    def _thought(self, text: str, *, held: bool | None = None) -> ReasoningTextDeltaEvent:
        return ReasoningTextDeltaEvent(
            delta=text, message_id=self.message_id, held=held, response_id=self.turn.response_id
        )

    def _open_thought(self) -> None:
        if not self.thought:
            self.turn.publish(ReasoningStartedEvent(response_id=self.turn.response_id))

    async def save_now_and_then(self) -> None:
        """Checkpoints, until cancelled. One that fails is logged: the end of the reply will tell."""
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            size = len(self.text) + len(self.thought)
            if size == self._saved:
                continue
            self._saved = size
            turn = self.turn
            writing = Writing(
                turn.response_id,
                turn.live.id,
                turn.tip,
                turn.settings.agent.name,
                "".join(self.thought),
                "".join(self.text),
            )
            try:
                await turn.live.services.store.checkpoint(writing)
            except FiresideError:
                logger.exception("a reply being written could not be saved")

    async def store(self, *, broken: bool = False) -> ReplyEnd:
        """Write the reply's items, then publish them."""
        turn = self.turn
        interrupted = turn.interrupted or broken
        if not turn.interrupted and (rest := self._thought_door.end()):
            self._think(rest)
        if not turn.interrupted:
            self._say(self._text_door.end())
        items = self._items(interrupted)
        durable = not any(isinstance(item, FunctionCall) for item in items)
        outcome = self.outcome
        fields: Json = {}
        if outcome is not None:
            turn.response = replace(turn.response, usage=_usage(outcome, turn.response.usage))
            fields["last_total_tokens"] = outcome.prompt_tokens + outcome.new_tokens
        await turn.append(items, durable=durable, written=[turn.response_id], fields=fields)
        if outcome is not None and not interrupted:
            turn.begin_response()
        calls = [item for item in items if isinstance(item, FunctionCall)]
        if turn.interrupted:
            return ReplyEnd(calls, "cancelled")
        for item in items:
            # A call for the client is told when somebody waits for its result.
            if item.status != "action_required":
                turn.publish(OutputItemDoneEvent(item=item))
        if outcome is not None:
            for warning in outcome.warnings:
                turn.publish(SessionNoticeEvent(code="reply", message=warning))
            self._report(outcome)
        return ReplyEnd(calls, "error" if outcome is None else outcome.finish)

    def _items(self, interrupted: bool) -> list[Item]:
        turn = self.turn
        items: list[Item] = []
        name = turn.settings.agent.name
        common: dict[str, Any] = {
            "response_id": turn.response_id,
            "model": name,
            "llm_model": self.llm_model,
        }
        text, thought = "".join(self.text), "".join(self.thought)
        if interrupted and self._head:
            text = ""  # It was to be continued, and is there already.
        if not text and not thought and not self.calls and self.outcome is not None and not interrupted:
            text, thought = self.outcome.text, self.outcome.reasoning
        flag = True if interrupted else None
        if thought:
            items.append(reasoning_item(thought, interrupted=flag, **common))
        calls = [] if interrupted else self._calls(common)
        # A stopped reply without a word is written by the turn, where the history needs one.
        if text or (not calls and not interrupted) or (interrupted and thought):
            outcome = self.outcome
            finish = "cancelled" if turn.interrupted else "error" if outcome is None else outcome.finish
            items.append(
                Message(
                    id=self.message_id,
                    role="assistant",
                    agent=name,
                    content=(output_text(text),) if text else (),
                    status="incomplete" if interrupted or finish == "length" else "completed",
                    interrupted=flag,
                    finish=finish,
                    usage=None if outcome is None else _usage(outcome, None),
                    tokens=self._recorded(),
                    schema_errors=(outcome and outcome.schema_errors) or None,
                    seconds=round(turn.worked_s, 3),
                    tokens_per_second=round(outcome.tokens_per_second, 2) or None if outcome else None,
                    **common,
                )
            )
        return [*items, *calls]

    def _recorded(self) -> tuple[Json, ...] | None:
        """The tokens that are known, those of a continued reply's beginning too; they end the text."""
        head = self.turn.continued.tokens if self.turn.continued is not None else None
        if not self.tokens and self.outcome is not None and self.outcome.new_tokens:
            return None  # The end was not recorded, and without it the beginning tells nothing.
        return (*(head or ()), *self.tokens) or None

    def _calls(self, common: dict[str, Any]) -> list[FunctionCall]:
        calls = self.calls or list(self.outcome.tool_calls if self.outcome else ())
        clients = self.turn.settings.agent.client_tools
        items: list[FunctionCall] = []
        # A result is found by its call's id alone, so replies that are written side by side share none.
        beside = {id(turn): turn for turn in (self.turn, *self.turn.live.turns.values())}
        taken = {
            item.call_id for turn in beside.values() for item in turn.items if isinstance(item, FunctionCall)
        }
        for call in calls:
            call_id = _free_id(call.id, taken)
            taken.add(call_id)
            waits = call.name in clients and call.error is None
            items.append(
                FunctionCall(
                    name=call.name,
                    call_id=call_id,
                    arguments=call.to_message()["function"]["arguments"],
                    error=call.error,
                    status="action_required" if waits else "in_progress",
                    **common,
                )
            )
        return items

    def _report(self, outcome: ChatOutcome) -> None:
        turn = self.turn
        card = turn.live.services.lease.card
        if card is not None and card.server:
            for note in outcome.notes:
                turn.publish(SessionNoticeEvent(code="server", message=note))
        turn.publish(
            SessionUsageEvent(
                context_tokens=outcome.prompt_tokens + outcome.new_tokens,
                context_window=(card.max_seq or None) if card else None,
                usage_by_model={self.llm_model: dict(turn.response.usage or {})},
            )
        )
        turn.publish(
            SessionSpeedEvent(
                response_id=turn.response_id,
                tokens_per_second=outcome.tokens_per_second,
                time_to_first_token_s=outcome.time_to_first_token_s,
                prompt_tokens=outcome.prompt_tokens,
                reused_tokens=outcome.reused_tokens,
                new_tokens=outcome.new_tokens,
                seed=outcome.seed,
            )
        )


def _free_id(wanted: str, taken: set[str]) -> str:
    """A call's id that no other of the conversation has: a model may write ids as it likes."""
    found, number = clean_text(wanted) or new_id("call"), 1
    while found in taken:
        found, number = f"{clean_text(wanted)}_{number}", number + 1
    return found


def _usage(outcome: ChatOutcome, before: Json | None) -> Json:
    """Tokens of this reply, on top of those of the turn so far."""
    had = before or {}
    read = outcome.prompt_tokens + int(had.get("input_tokens", 0))
    written = outcome.new_tokens + int(had.get("output_tokens", 0))
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": read + written,
        "context_tokens": outcome.prompt_tokens + outcome.new_tokens,
    }


def _token(token: TokenLogprob) -> Json:
    top = [list(item) for item in token.top]
    return {"id": token.id, "text": token.text, "logprob": token.logprob, "top": top}
