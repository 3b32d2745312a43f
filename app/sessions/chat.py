"""`SessionsChat`: one durable session with its stream, its files and the caller's own tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, overload

from app.sessions.chat_files import FilesNamespace, GetFile, Input, Paths, Upload, content_of, file_of
from app.sessions.client_tools import ClientTools, GetTools, SessionToolCallInfo, ToolCallable
from app.sessions.errors import FiresideError
from app.sessions.events import (
    TERMINAL_TYPES,
    ElicitationRequestEvent,
    OutputFileDoneEvent,
    SessionEvent,
    SessionStatusEvent,
)
from app.sessions.followed import Followed
from app.sessions.hook_contexts import TransportErrorCtx
from app.sessions.hooks import HookState, StreamHooks, call
from app.sessions.inputs import Interrupt, post, posted_message
from app.sessions.query import Gathered, Heard, OwnTurn, QueryResult, QueryStream, failure
from app.sessions.shapes import File
from app.sessions.snapshot import Ack, SessionSnapshot

__all__ = ["SessionToolCallInfo", "SessionsChat", "ToolCallable"]
REST_STATUSES = ("idle", "waiting")
BUSY_STATUSES = ("running", "launching", "waiting")


class Namespace(Protocol):
    """What the helper asks of a session manager, here or behind a wire."""

    async def get(self, session_id: str, /) -> SessionSnapshot: ...
    async def post_event(self, session_id: str, event: Mapping[str, Any], /) -> Ack: ...
    async def resolve_elicitation(
        self, session_id: str, elicitation_id: str, result: Mapping[str, Any], /
    ) -> None: ...
    async def subtree_busy(self, session_id: str, /, *, max_depth: int = 3) -> bool: ...
    def stream(self, session_id: str, /) -> AsyncGenerator[SessionEvent]: ...


@dataclass(eq=False)
class SessionsChat:
    """Binds one session to its manager. Construction does no I/O.

    `files_uploader(path)` keeps a file and `files_getter(file_id)` tells of one; both give a `File`.
    With `strict_tools` what a client tool raises ends the iteration; by default the model reads it.
    """

    namespace: Namespace
    files_uploader: Upload | None
    files_getter: GetFile | None
    session: SessionSnapshot
    tool_callables: Mapping[str, ToolCallable] | None = None
    agent_tools_getter: GetTools | None = None
    hooks: StreamHooks | None = None
    strict_tools: bool = False

    def __post_init__(self) -> None:
        self._tools = ClientTools(self.tool_callables, self.agent_tools_getter)
        self._hooks = self.hooks or StreamHooks()
        self._asked: set[str] = set()

    @classmethod
    def bind(
        cls,
        manager: Any,
        session: SessionSnapshot,
        *,
        tool_callables: Mapping[str, ToolCallable] | None = None,
        hooks: StreamHooks | None = None,
        strict_tools: bool = False,
    ) -> Self:
        """A helper for a session of a `SessionManager`, with its files."""
        files = manager.files.for_session(session.id)
        return cls(
            namespace=manager,
            files_uploader=files.upload,
            files_getter=files.get,
            session=session,
            tool_callables=tool_callables,
            agent_tools_getter=manager.agent_tools,
            hooks=hooks,
            strict_tools=strict_tools,
        )

    @classmethod
    async def create(
        cls,
        namespace: Any,
        bundle: bytes | None,
        *,
        filename: str = "agent.tar.gz",
        files_uploader: Upload | None = None,
        files_getter: GetFile | None = None,
        files_namespace: FilesNamespace | None = None,
        tool_callables: Mapping[str, ToolCallable] | None = None,
        agent_tools_getter: GetTools | None = None,
        hooks: StreamHooks | None = None,
        strict_tools: bool = False,
    ) -> Self:
        """Create a session, then bind to it.

        `files_namespace` wins over the single functions: it is narrowed to the new session.
        """
        session = await namespace.create(bundle, filename=filename)
        if files_namespace is not None:
            files = files_namespace.for_session(session.id)
            files_uploader, files_getter = files.upload, files.get
        return cls(
            namespace=namespace,
            files_uploader=files_uploader,
            files_getter=files_getter,
            session=session,
            tool_callables=tool_callables,
            agent_tools_getter=agent_tools_getter,
            hooks=hooks,
            strict_tools=strict_tools,
        )

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def agent_id(self) -> str:
        return self.session.agent_id

    @property
    def status(self) -> str:
        """As of the last `refresh`."""
        return self.session.status

    async def refresh(self) -> SessionSnapshot:
        """Read the session anew. FiresideError with status 404 where it is gone."""
        self.session = await self.namespace.get(self.session_id)
        return self.session

    async def tree_busy(self, *, max_depth: int = 3) -> bool:
        """Whether any sub-agent works; this session itself does not count."""
        return await self.namespace.subtree_busy(self.session_id, max_depth=max_depth)

    async def cancel(self) -> None:
        """Stop what runs; harmless when nothing does."""
        await post(self.namespace, self.session_id, Interrupt())

    async def post_event(self, event: Mapping[str, Any]) -> None:
        """Post an input event as it is."""
        await self.namespace.post_event(self.session_id, event)

    # ---- sending ---------------------------------------------------------------------------

    async def send(self, input: Input, *, files: Paths | None = None) -> AsyncGenerator[SessionEvent]:
        """Post a message and yield the session's events up to the end of the turn that answers it.

        FiresideError for a turn that died before its response existed, and for a stream that ends
        before the message could be posted. A failed response is yielded, not raised.
        """
        async with aclosing(self._turn(input, files)) as events:
            async for event, _ in events:
                yield event

    async def _turn(self, input: Input, files: Paths | None) -> AsyncGenerator[Heard]:
        await self._tools.check(self.agent_id, self.session_id)
        content = await content_of(input, files, self.files_uploader)
        async with aclosing(self._followed()) as followed:
            # Nothing is replayed: whoever posts before listening may miss the whole turn.
            if not await followed.ready():
                raise FiresideError("The session's stream ended before the message was posted.")
            ack = await post(self.namespace, self.session_id, posted_message(content))
            turn = OwnTurn(_item_id(ack))
            while (event := await self._next(followed)) is not None:
                yield event, turn.owns(event)
                followed.begin(event)
                if turn.ends_with(event):
                    return

    async def stream(self) -> AsyncGenerator[SessionEvent]:
        """All events of the session, turn after turn, until it is closed."""
        await self._tools.check(self.agent_id, self.session_id)
        async with aclosing(self._followed()) as followed:
            while (event := await self._next(followed)) is not None:
                yield event
                followed.begin(event)

    @overload
    async def query(
        self, input: Input, *, files: Paths | None = None, stream: Literal[False] = False
    ) -> QueryResult: ...
    @overload
    async def query(
        self, input: Input, *, files: Paths | None = None, stream: Literal[True]
    ) -> QueryStream: ...
    async def query(
        self, input: Input, *, files: Paths | None = None, stream: bool = False
    ) -> QueryResult | QueryStream:
        """Send a message and give its answer: whole, or as a stream that begins when it is iterated.

        What other turns say meanwhile is left out.
        """
        if stream:
            return QueryStream(lambda: self._turn(input, files), self._file)
        gathered = Gathered(self._file)
        async with aclosing(self._turn(input, files)) as events:
            async for event, is_own in events:
                if is_own:
                    await gathered.take(event)
                else:
                    gathered.pass_over(event)
        return gathered.result()

    async def await_turn(self, *, timeout: float | None = 1200.0) -> QueryResult:
        """Follow the turn that runs, or that the session is about to start by itself.

        The answer is whole, also where it had begun. Where nothing runs here or below, the result is
        empty at once. Time that runs out raises nothing: what came so far is returned. FiresideError
        where the turn fails before its response exists.
        """
        gathered = Gathered(self._file, whole=True)
        is_known = False
        try:
            async with asyncio.timeout(timeout) as limit, aclosing(self.stream()) as events:
                async for event in events:
                    await gathered.take(event)
                    if isinstance(event, TERMINAL_TYPES) or _is_rest(event):
                        break
                    if not is_known and not await self._is_busy():
                        # Only what arrived before it came to rest is still to be heard.
                        limit.reschedule(asyncio.get_running_loop().time())
                    is_known = True
        except TimeoutError:
            pass
        return gathered.result()

    # ---- parts -----------------------------------------------------------------------------

    def _followed(self) -> Followed:
        return Followed(
            self.namespace.stream(self.session_id),
            self.namespace,
            self.session_id,
            self._tools,
            HookState(self._hooks, self._tools.names),
            strict=self.strict_tools,
        )

    async def _next(self, followed: Followed) -> SessionEvent | None:
        """The next event, after its hooks."""
        try:
            event = await followed.next()
        except Exception as err:
            if not followed.is_broken:
                raise
            await call(self._hooks.on_transport_error, TransportErrorCtx(err))
            raise
        if event is not None:
            await followed.state.observe(event)
            if isinstance(event, ElicitationRequestEvent):
                await self._answer(followed.state, event)
        return event

    async def _answer(self, state: HookState, event: ElicitationRequestEvent) -> None:
        """Let the hook answer a question, once however many subscriptions hear of it."""
        if event.elicitation_id in self._asked:
            return
        self._asked.add(event.elicitation_id)
        result = await state.answer(event)
        target = event.params.get("target_session_id") or self.session_id
        await self.namespace.resolve_elicitation(str(target), event.elicitation_id, result)

    async def _is_busy(self) -> bool:
        """Whether a turn runs, or is going to: one waits in the queue, or for a sub-agent."""
        now = await self.namespace.get(self.session_id)
        return now.status in BUSY_STATUSES or bool(now.pending_inputs) or await self.tree_busy()

    async def _file(self, event: OutputFileDoneEvent) -> File:
        return await file_of(event, self.files_getter)


def _is_rest(event: SessionEvent) -> bool:
    """Whether a session comes to rest with an event. Raises FiresideError where that is a failure."""
    if not isinstance(event, SessionStatusEvent):
        return False
    if event.status == "failed":
        raise failure(event)
    return event.status in REST_STATUSES


def _item_id(ack: object) -> str | None:
    """The item that a message became, as far as whoever took it says so."""
    found: object = ack.get("item_id") if isinstance(ack, Mapping) else None  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
    return found if isinstance(found, str) else None
