"""The calls of one reply, run together: checked, approved, run, and each given exactly one result."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.characters import Joiner
from app.sessions.events import (
    ClientTaskCancelEvent,
    FunctionCallOutputDeltaEvent,
    OutputItemDoneEvent,
    PolicyDeniedEvent,
    ResponseRetryEvent,
)
from app.sessions.items import HAD_PRINTED, STOPPED, FunctionCall, FunctionCallOutput, Item
from app.sessions.questions import FormQuestion
from app.sessions.records import Json
from app.sessions.store.rows import Change
from app.sessions.turn.approvals import Approval, denial
from app.sessions.turn.arguments import UnfitError, fitting, read
from app.sessions.turn.files import producing

if TYPE_CHECKING:
    from app.sessions.tools_adapter import Decision, Form, Tool
    from app.sessions.turn.state import TurnState

logger = logging.getLogger("fireside")

STOP_S = 5.0
MAX_ERROR_CHARS = 4000
MAX_DELTA_CHARS = 16_384
MAX_STOPPED_CHARS = 8_192
"""Of what a call had printed when it was stopped: the end of it is kept."""
TELL_EVERY_S = 0.05


class Calls:
    """Runs the calls of a turn's reply."""

    def __init__(self, turn: TurnState) -> None:
        self._turn = turn
        self._live = turn.live
        self._clients = turn.settings.agent.client_tools
        self._unfit: list[tuple[FunctionCall, str]] = []
        """Calls that could not run as they were written, and why."""
        self._printing: dict[str, _LiveOutput] = {}
        """What the calls that were begun have printed."""

    async def run(self, calls: Sequence[FunctionCall]) -> None:
        """Run all calls and store their results; a stopped turn gets "cancelled" for what is open."""
        if not calls:
            return
        tasks = {asyncio.create_task(self._one(call), name=f"call {call.name}"): call for call in calls}
        stopping = asyncio.create_task(self._turn.stopped.wait())
        waiting = set(tasks)
        try:
            while waiting and not stopping.done():
                done, _ = await asyncio.wait({*waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
                waiting -= done
        finally:
            stopping.cancel()
            for task in waiting:
                task.cancel()
            if waiting:
                await asyncio.wait(waiting, timeout=STOP_S)
        missing = [call for call in calls if not self._has_result(call)]
        for call in missing:
            if call.name in self._clients:
                self._turn.publish(ClientTaskCancelEvent(task_id=call.id, call_id=call.call_id))
            await self._finish(call, self._stopped(call))
        for task in set(tasks) - waiting:
            if not task.cancelled() and (err := task.exception()) is not None:
                raise err
        self._tell_retry()

    def _tell_retry(self) -> None:
        """The model is about to write a call again that could not run."""
        turn = self._turn
        turn.misses = turn.misses + 1 if self._unfit else 0
        if not self._unfit or turn.interrupted or not turn.rounds_left:
            return
        call, why = self._unfit[0]
        turn.publish(
            ResponseRetryEvent(
                source="tool",
                tool_name=call.name,
                attempt=turn.misses,
                max_attempts=turn.misses - 1 + turn.rounds_left,
                delay_seconds=0.0,
                error={"code": "invalid_call", "message": why},
            )
        )

    def _has_result(self, call: FunctionCall) -> bool:
        return any(
            isinstance(item, FunctionCallOutput) and item.call_id == call.call_id
            for item in self._turn.items[_place(self._turn.items, call) :]
        )

    def _output(
        self,
        call: FunctionCall,
        text: str,
        *,
        is_error: bool = False,
        denied: bool = False,
        stopped: bool = False,
        line_count: int | None = None,
        not_run: bool = False,
    ) -> FunctionCallOutput:
        return FunctionCallOutput(
            call_id=call.call_id,
            output=text,
            is_error=is_error or None,
            denied=denied or None,
            stopped=stopped or None,
            not_run=not_run or None,
            line_count=line_count,
            response_id=self._turn.response_id,
            model=call.model,
        )

    def _stopped(self, call: FunctionCall) -> FunctionCallOutput:
        """What a call that was stopped had come to."""
        live = self._printing.get(call.call_id)
        if live is None or not live.printed:
            return self._output(call, STOPPED, is_error=True, stopped=True, not_run=live is None)
        text = f"{STOPPED}{HAD_PRINTED}{live.printed}"
        return self._output(call, text, is_error=True, stopped=True, line_count=live.line_count)

    async def _one(self, call: FunctionCall) -> None:
        producing.set((self._live.id, self._turn.response_id))
        try:
            settled, output = await self._answered(call)
        except UnfitError as err:
            self._unfit.append((call, str(err)))
            settled, output = call, self._output(call, str(err), is_error=True, not_run=True)
        await self._finish(settled, output)

    async def _answered(self, call: FunctionCall) -> tuple[FunctionCall, FunctionCallOutput]:
        """The call as it is kept, and its output. Raises UnfitError for one that cannot run."""
        client = self._clients.get(call.name)
        tool = None if client is not None else self._known(call.name)
        if client is None and tool is None:
            names = ", ".join(sorted([*self._offered, *self._clients])) or "none"
            raise UnfitError(f"No tool named {call.name[:80]!r}. Available: {names}.")
        if tool is not None and tool.name not in self._offered:
            return call, self._refused(call, await Approval(self._turn, call, tool).decide({}))
        arguments = read(call)
        if client is not None:
            await asyncio.to_thread(fitting, call.name, client.get("parameters") or {}, arguments)
            return call, await self._from_client(call)
        assert tool is not None
        return await self._from_tool(call, tool, arguments)

    @property
    def _offered(self) -> Mapping[str, Tool]:
        """What the session offers at this moment."""
        settings = self._turn.settings
        return self._live.services.toolbox.offered(settings.tools, settings.approve)

    def _known(self, name: str) -> Tool | None:
        """A tool that is offered, would be but for the mode, or was when the model began to write."""
        toolbox, settings = self._live.services.toolbox, self._turn.settings
        tool = toolbox.offered(settings.tools, "all").get(name)
        return toolbox.tools.get(name) if tool is None and name in self._turn.offered else tool

    async def _from_client(self, call: FunctionCall) -> FunctionCallOutput:
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._live.client_results[call.call_id] = waiting
        # Told only now: an answer must find somebody who waits for it.
        self._turn.publish(OutputItemDoneEvent(item=call))
        try:
            return self._output(call, await waiting)
        finally:
            self._live.client_results.pop(call.call_id, None)

    async def _from_tool(
        self, call: FunctionCall, tool: Tool, arguments: Json
    ) -> tuple[FunctionCall, FunctionCallOutput]:
        approval = Approval(self._turn, call, tool)
        decision = await approval.decide(arguments)
        if decision.verdict != "allow":
            return call, self._refused(call, decision)
        if approval.edited is not None:
            text = json.dumps(approval.edited, ensure_ascii=False)
            call = replace(call, approved_arguments=text)
            await self._live.update(Change(settled=[call]))
        # Nothing is waited for between this look and the start.
        if why := approval.withdrawn(decision):
            return call, self._withdrawn(call, decision, why)
        return call, await self._run(call, approval, decision)

    def _withdrawn(self, call: FunctionCall, decision: Decision, why: str) -> FunctionCallOutput:
        return self._refused(call, replace(decision, verdict="deny", origin="mode", reason=why))

    def _refused(self, call: FunctionCall, decision: Decision) -> FunctionCallOutput:
        if decision.fault:
            self._unfit.append((call, decision.reason))
            return self._output(call, denial(decision), is_error=True, not_run=True)
        if decision.origin != "person":
            self._turn.publish(
                PolicyDeniedEvent(conversation_id=self._live.id, reason=decision.reason, phase="tool_call")
            )
        if decision.stop:
            self._turn.stop()
        return self._output(call, denial(decision), denied=True)

    async def _run(self, call: FunctionCall, approval: Approval, decision: Decision) -> FunctionCallOutput:
        from app.sessions.tools_adapter import ToolContext

        turn, live = self._turn, self._live
        shown = self._printing[call.call_id] = _LiveOutput(turn, call.call_id)

        async def ask(form: Form) -> Json | None:
            question = FormQuestion(
                message=form.message, phase="tool_input", tool=call.name, schema=form.schema
            )
            with self._turn.asking():
                answer = await live.elicitations.ask(question)
            return answer.content if answer.accepted else None

        context = ToolContext(
            session_id=live.id,
            call_id=call.call_id,
            grants=decision.grants,
            delegation=live.services.children.delegation(turn),
            on_progress=shown.add,
            asker=ask,
            loop=asyncio.get_running_loop(),
            refusal=lambda: approval.withdrawn(decision),
        )
        try:
            assert live.services.adapter is not None
            result = await live.services.adapter.run(
                approval.tool,
                decision.arguments,
                context,
                workspace=turn.settings.folder,
                window=turn.context_window,
                add_file=self._add_file,
            )
        except Exception as err:  # What a call needs may fail to be there; that is the model's to read.
            logger.info("tool %s failed", call.name, exc_info=True)
            text = f"The tool failed: {type(err).__name__}: {err}"
            return self._output(call, text[:MAX_ERROR_CHARS], is_error=True)
        finally:
            shown.end()
        if result.status == "refused":
            return self._withdrawn(call, decision, result.text)
        is_error = result.status != "done"
        return self._output(call, result.text, is_error=is_error, line_count=result.line_count)

    async def _add_file(self, name: str, content: bytes) -> None:
        await self._live.services.files.add(self._live.id, name, content, made=True)

    async def _finish(self, call: FunctionCall, output: FunctionCallOutput) -> None:
        turn = self._turn
        done = replace(call, status="completed")
        turn.items[_place(turn.items, call)] = done
        await turn.append([output], settled=[done])
        if turn.interrupted:
            return
        turn.publish(OutputItemDoneEvent(item=done))
        turn.publish(OutputItemDoneEvent(item=output))


class _LiveOutput:
    """A running call's output, told at most twenty times a second: a flood must not cut listeners off."""

    def __init__(self, turn: TurnState, call_id: str) -> None:
        self._turn = turn
        self._call_id = call_id
        self._text = ""
        self._lines = 0
        self.printed = ""
        """The end of all that was taken, as it is shown."""
        self._joiner = Joiner()
        self._due: asyncio.TimerHandle | None = None
        self._told = 0.0

    def add(self, text: str) -> None:
        """Take a piece. Of what comes between two tellings the end is kept."""
        text = self._joiner.feed(text)
        self._lines += text.count("\n")
        self._text = _with(self._text, text)[-MAX_DELTA_CHARS:]
        self.printed = _with(self.printed, text)[-MAX_STOPPED_CHARS:].removeprefix("\r")
        if self._due is None:
            loop = asyncio.get_running_loop()
            wait = max(0.0, self._told + TELL_EVERY_S - loop.time())
            self._due = loop.call_later(wait, self.flush)

    @property
    def line_count(self) -> int:
        """Lines that were printed so far, those that are no longer kept included."""
        return self._lines + (not self.printed.endswith("\n"))

    def end(self) -> None:
        """Tell the rest."""
        self._text += self._joiner.end()
        self.flush()

    def flush(self) -> None:
        """Tell what there is."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        text, self._text = self._text, ""
        if text and not self._turn.interrupted:
            self._told = asyncio.get_running_loop().time()
            self._turn.publish(FunctionCallOutputDeltaEvent(call_id=self._call_id, delta=text))


def _with(told: str, piece: str) -> str:
    """What was told with one more piece; a carriage return at its beginning starts the open line again."""
    if not piece.startswith("\r"):
        return told + piece
    start = told.rfind("\n") + 1
    return f"{told[:start]}{piece[1:]}" if start else piece


def _place(items: Sequence[Item], call: FunctionCall) -> int:
    return next(index for index, item in enumerate(items) if item.id == call.id)
