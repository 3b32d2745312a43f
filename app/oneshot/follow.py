"""One turn of a chat as a one-shot follows it: tells the sink, collects the answer, refuses what would
have to be asked, because nobody is there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, get_args

from app.exits import ExitCode, Failure, session_failure
from app.files.attachments import Picture
from app.oneshot.job import OneShot, verdict
from app.oneshot.reading_progress import ReadingProgress
from app.oneshot.sinks import Answer, Sink
from app.sessions.chat import SessionsChat
from app.sessions.events import (
    TERMINAL_TYPES,
    ElicitationRequestEvent,
    FunctionCallArgumentsDeltaEvent,
    OutputFileDoneEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    ReasoningTextDeltaEvent,
    Response,
    ResponseEvent,
    SessionEvent,
    SessionNoticeEvent,
    SessionPrefillEvent,
    SessionSpeedEvent,
)
from app.sessions.hooks import ElicitationRequestCtx, StreamHooks
from app.sessions.items import FunctionCall, FunctionCallOutput, Message, Reasoning, arguments_of, input_text
from app.sessions.manager import SessionManager
from app.sessions.questions import CallQuestion
from app.sessions.snapshot import SessionSnapshot
from app.terminal.output import is_terminal, notify
from backend.types import ChatOutcome, Finish, ReasoningPiece, TextPiece, ToolCall

UNASKED = "nobody could be asked"
DECLINED_HERE = "the person at the terminal declined it"
# Nobody answers in time where nobody is there; the audit log then blames no person.
_NO_ANSWER = {"action": "cancel", "content": {"timeout": True}}
_SHOWN_ARGUMENTS = 200
_WORDS = (
    OutputTextDeltaEvent,
    ReasoningTextDeltaEvent,
    FunctionCallArgumentsDeltaEvent,
    ElicitationRequestEvent,
    OutputItemDoneEvent,
    SessionNoticeEvent,
    ResponseEvent,
)
"""What a person sees something of: no progress stands there any longer."""


@dataclass
class FollowedTurn:
    """Posts a message and follows the turn that answers it."""

    manager: SessionManager
    session: SessionSnapshot
    sink: Sink
    answer: Answer
    asks: bool = False
    """Whether a person at the terminal is asked about calls that need it."""
    _progress: ReadingProgress = field(default_factory=ReadingProgress)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _calls: dict[str, FunctionCall] = field(default_factory=dict[str, FunctionCall])
    _unasked: int = 0
    _streamed: set[str | None] = field(default_factory=set[str | None])
    _message: str | None = None
    _response: Response | None = None
    _speeds: list[SessionSpeedEvent] = field(default_factory=list[SessionSpeedEvent])
    _finish: str | None = None
    _schema_errors: tuple[str, ...] = ()
    _stopping: asyncio.Task[None] | None = None

    async def run(self, asked: str, pictures: Sequence[Picture] = ()) -> None:
        """Post the message and follow the turn that answers it. FiresideError where it cannot begin."""
        content = [input_text(asked)]
        for picture in pictures:
            kept = await self.manager.files.add(self.session.id, picture.file_name, picture.data)
            content.append({"type": "input_image", "file_id": kept.id})
        hooks = StreamHooks(on_elicitation_request=self._refuse)
        chat = SessionsChat.bind(self.manager, self.session, hooks=hooks)
        async with aclosing(chat.send(content)) as events:
            with self._progress:
                await self._follow(events)

    async def _follow(self, events: AsyncGenerator[SessionEvent]) -> None:
        async for event in events:
            if isinstance(event, SessionPrefillEvent):
                self._progress.show(event.done, event.total, event.reused)
            elif isinstance(event, _WORDS):
                self._progress.end()
            self.sink.take(event)
            self._take(event)

    def interrupt(self) -> None:
        """End the turn in good order."""
        self._stopping = asyncio.ensure_future(self.manager.interrupt(self.session.id))

    def end(self, job: OneShot) -> ExitCode:
        """Finish the answer; returns the exit code. Raises the Failure of a turn that failed."""
        response, reply = self._response, self.answer.replies[0]
        if response is None:
            raise Failure("no_answer", "The chat ended without an answer.", exit_code=ExitCode.FAILED)
        self._settle_outcome(response)
        if response.status == "failed":
            error = response.error or {}
            raise session_failure(
                str(error.get("code") or "error"),
                str(error.get("message") or "The turn failed."),
                str(error.get("remediation") or ""),
            )
        reason = (response.incomplete_details or {}).get("reason")
        if reason == "max_rounds":
            raise Failure(
                "max_turns",
                "The model was still calling tools when its number of turns was used up.",
                remedy="--max-turns allows more.",
                exit_code=ExitCode.FAILED,
            )
        assert reply.outcome is not None
        self.sink.take(reply.outcome)
        code = verdict(job, self.answer)
        self.sink.end(self.answer)
        if not self._unasked:
            return code
        unasked = (entry for entry in self.answer.denied if entry["reason"] == UNASKED)
        names = ", ".join(dict.fromkeys(entry["name"] for entry in unasked))
        calls = "1 call was" if self._unasked == 1 else f"{self._unasked} calls were"
        help_text = "--ask asks at a terminal, and `fireside help tools` says what --approve allows"
        notify(f"{calls} refused ({names}), because {UNASKED}; {help_text}")
        return ExitCode.DENIED if code is ExitCode.ANSWERED else code

    # ---- events ----------------------------------------------------------------------------

    def _take(self, event: SessionEvent) -> None:
        match event:
            case OutputTextDeltaEvent(delta=delta, message_id=message_id):
                self._streamed.add(message_id)
                self._say(delta, message_id)
            case ReasoningTextDeltaEvent(delta=delta) if not event.held:
                self._streamed.add(f"{event.message_id} thought")
                self._think(delta)
            case OutputItemDoneEvent(item=Message(role="assistant") as message):
                self._finish, self._schema_errors = message.finish, message.schema_errors or ()
                if message.text and not self._streamed & {message.id, None}:
                    self._say(message.text, message.id)
            case OutputItemDoneEvent(item=Reasoning() as thought):
                if not self.answer.replies[0].reasoning:
                    self._think(thought.text)
            case OutputItemDoneEvent(item=FunctionCall() as call):
                self._called(call)
            case OutputItemDoneEvent(item=FunctionCallOutput() as output):
                self._came_back(output)
            case ResponseEvent() if isinstance(event, TERMINAL_TYPES):
                self._response = event.response
            case _:
                self._take_other(event)

    def _take_other(self, event: SessionEvent) -> None:
        match event:
            case OutputFileDoneEvent():
                self.answer.files.append({"id": event.file_id, "filename": event.filename})
            case SessionNoticeEvent(message=message):
                notify(message)
            case SessionSpeedEvent():
                self._speeds.append(event)
            case _:
                pass

    def _say(self, text: str, message_id: str | None) -> None:
        reply = self.answer.replies[0]
        if message_id != self._message and reply.text and not reply.text.endswith("\n"):
            text = f"\n\n{text}"
        self._message = message_id
        piece = TextPiece(text)
        reply.take(piece)
        self.sink.take(piece)

    def _think(self, text: str) -> None:
        piece = ReasoningPiece(text)
        self.answer.replies[0].take(piece)
        self.sink.take(piece)

    def _called(self, call: FunctionCall) -> None:
        self._calls[call.call_id] = call

    def _came_back(self, output: FunctionCallOutput) -> None:
        """Tell a call once it is known whether it ran."""
        call = self._calls.get(output.call_id)
        if call is not None and is_terminal(sys.stderr):
            known = "refused: " if output.denied else "not run: " if output.not_run else ""
            known = known or ("failed: " if output.is_error else "")
            notify(f"{known}{call.name} {call.arguments[:_SHOWN_ARGUMENTS]}")
        if output.denied:
            self._denied(output)

    def _denied(self, output: FunctionCallOutput) -> None:
        call = self._calls.get(output.call_id)
        if call is None or any(entry["call_id"] == output.call_id for entry in self.answer.denied):
            return
        arguments = arguments_of(call.arguments)
        self._deny(call.call_id, call.name, arguments, output.output)

    def _deny(self, call_id: str, name: str, arguments: Mapping[str, Any], reason: str) -> None:
        entry = {"call_id": call_id, "name": name, "arguments": dict(arguments), "reason": reason}
        self.answer.denied.append(entry)

    async def _refuse(self, context: ElicitationRequestCtx) -> bool:
        asked = context.params
        if isinstance(asked, CallQuestion) and self.asks:
            from app.oneshot.asking import allows

            async with self._asking:
                if await allows(self.session.id, context.elicitation_id, asked):
                    return True
            self._deny(asked.call_id, asked.tool, asked.arguments, DECLINED_HERE)
            return False
        if isinstance(asked, CallQuestion):
            self._unasked += 1
            self._deny(asked.call_id, asked.tool, asked.arguments, UNASKED)
        target = context.target_session_id or self.session.id
        await self.manager.resolve_elicitation(target, context.elicitation_id, _NO_ANSWER)
        return False

    # ---- the end ---------------------------------------------------------------------------

    def _settle_outcome(self, response: Response) -> None:
        """The whole turn as one outcome: tokens and times of all its rounds together."""
        reply, speeds = self.answer.replies[0], self._speeds
        new = sum(speed.new_tokens for speed in speeds)
        decode_s = sum(
            speed.new_tokens / speed.tokens_per_second for speed in speeds if speed.tokens_per_second
        )
        reason = (response.incomplete_details or {}).get("reason")
        said: Any = {"max_output_tokens": "length", "max_rounds": "tool_calls"}.get(str(reason), self._finish)
        finish: Finish = said if said in get_args(Finish) else "stop"
        reply.outcome = ChatOutcome(
            finish=finish,
            prompt_tokens=sum(speed.prompt_tokens for speed in speeds),
            reused_tokens=sum(speed.reused_tokens for speed in speeds),
            new_tokens=new,
            prefill_s=sum(speed.time_to_first_token_s for speed in speeds),
            decode_s=decode_s,
            time_to_first_token_s=speeds[0].time_to_first_token_s if speeds else 0.0,
            tokens_per_second=new / decode_s if decode_s else 0.0,
            seed=speeds[-1].seed if speeds else 0,
            text=reply.text,
            reasoning=reply.reasoning,
            schema_errors=self._schema_errors,
            tool_calls=tuple(
                ToolCall(call.call_id, call.name, arguments_of(call.arguments), call.arguments, call.error)
                for call in self._calls.values()
            ),
        )
