"""One open session: who listens, what runs, what waits. One file, because it is one state.

Turns come and go; this stays.
Every change to the conversation passes through here, store first, event second.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from app.characters import clean_text
from app.sessions.errors import NOT_WAITING, ConflictError, FiresideError, InvalidInputError, not_found
from app.sessions.events import (
    ElicitationRequestEvent,
    ElicitationResolvedEvent,
    OutputItemDoneEvent,
    SessionBranchEvent,
    SessionEvent,
    SessionInputConsumedEvent,
    SessionQueueEvent,
    SessionStatusEvent,
    SessionTitleEvent,
)
from app.sessions.file_records import SessionFile
from app.sessions.items import Item, Message, title_of
from app.sessions.records import ASKED_ONCE, Json, is_asked_once, new_id, plain
from app.sessions.shapes import PendingElicitation
from app.sessions.store.ledger import Ledger
from app.sessions.store.recovery import recover_session
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import Store
from app.sessions.turn.elicit import Elicitations
from app.sessions.turn.engine_lease import EngineLease
from app.sessions.turn.event_bus import EventBus
from app.sessions.turn.files import SessionFiles
from app.sessions.turn.media import blocks_of, described, file_ids, new_messages, require_senses
from app.sessions.turn.settings import Defaults, Settings, resolve, within
from app.sessions.turn.toolbox import Changes, Policy, Toolbox

if TYPE_CHECKING:
    from app.sessions.tools_adapter import Delegation, ToolsAdapter
    from app.sessions.turn.state import TurnState


class ChildWatch(Protocol):
    """Knows which sessions work for which."""

    def of(self, session_id: str) -> Sequence[LiveSession]:
        """The children of a session."""
        ...

    def working(self, session_id: str) -> bool:
        """Whether one of them is busy."""
        ...

    def delegation(self, turn: TurnState) -> Delegation | None:
        """How a tool of this turn hands a task on; None where it may not."""
        ...

    async def settled(self, child: LiveSession) -> None:
        """A session came to rest: its parent is told."""


class BeginTurn(Protocol):
    """Begins to answer what stands at `tip`, the end of the branch `items`."""

    def __call__(
        self,
        live: LiveSession,
        response_id: str,
        tip: str | None,
        items: Sequence[Item],
        continued: Message | None,
        compacts: bool,
        /,
    ) -> TurnState: ...


@dataclass
class Services:
    """What all sessions of one manager share."""

    store: Store
    ledger: Ledger
    files: SessionFiles
    lease: EngineLease
    toolbox: Toolbox
    adapter: ToolsAdapter | None
    """None where there are no tools."""
    policy: Policy | None
    defaults: Defaults
    children: ChildWatch
    changes: Changes
    begin_turn: BeginTurn


class LiveSession:
    """A session this process has open. Its mutating methods take turns behind `gate`."""

    def __init__(self, services: Services, record: SessionRecord, parent: LiveSession | None = None) -> None:
        self.services = services
        self.record = record
        self.parent = parent
        self.bus = EventBus()
        self.gate = asyncio.Lock()
        self.elicitations = Elicitations(self.publish)
        self.turns: dict[str, TurnState] = {}
        self.queue: list[Message] = []
        self.client_results: dict[str, asyncio.Future[str]] = {}
        self.useless_compactions = 0
        self.told: dict[str, str] = {}
        """The last notice of each kind that was told, so that none is told with every message."""
        self.closed = False
        self.deadline: float | None = None
        """`time.monotonic()` at which the time its parent gave it is over."""
        self._owned = False
        self.foreign_until = 0
        """Number of the last item that may be another process's; what comes after it is our own."""
        self._known: tuple[str | None, list[Item]] = (None, [])

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return bool(self.turns)

    @property
    def settings(self) -> Settings:
        """What holds now; below another session never more than that one has."""
        own = resolve(self.record, self.services.defaults)
        return own if self.parent is None else within(own, self.parent.settings, self.services.toolbox)

    # ---- telling ---------------------------------------------------------------------------

    def publish(self, event: SessionEvent) -> None:
        """Tell the subscribers; questions are told to those of every ancestor too."""
        self.bus.publish(event)
        if self.parent is not None and isinstance(event, ElicitationRequestEvent | ElicitationResolvedEvent):
            if isinstance(event, ElicitationRequestEvent):
                event = replace(event, params=event.params.asked_by(self.id))
            self.parent.publish(event)

    async def set_status(self, status: str, response_id: str | None = None, **fields: Any) -> None:
        """Move to `status`, in the store and then for the subscribers."""
        await self.update(Change(fields={"status": status, **fields}))
        self.publish_status(status, response_id)

    def resting_status(self, end: str) -> str:
        """The session's status after a turn that ended as `end`."""
        if end == "failed":
            return "failed"
        return "waiting" if self.services.children.working(self.id) else "idle"

    # ---- changing --------------------------------------------------------------------------

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[None]:
        """One at a time, and only where this process may write. ConflictError otherwise."""
        async with self.gate:
            await self._own()
            yield

    async def _own(self) -> None:
        if self.closed:
            raise ConflictError("This chat was closed.")
        if self._owned:
            return
        store = self.services.store
        store.locks.take(self.id)
        # Whoever had it before may have changed it, or died in the middle.
        await recover_session(store, await store.session(self.id))
        self.record = await store.session(self.id)
        self.queue = [item for item in await store.queued(self.id) if isinstance(item, Message)]
        self.foreign_until = await store.last_seq(self.id)
        self._owned = True

    @property
    def owned(self) -> bool:
        """Whether this process holds the session."""
        return self._owned

    async def update(self, change: Change, *, durable: bool = True) -> None:
        """Write a change and follow it in memory."""
        before = self.record
        leaf = change.fields.get("leaf_id", before.leaf_id)
        if change.items and change.move_leaf:
            leaf = change.items[-1].id
        # Before the write, so that whoever decides by the leaf meanwhile sees where it goes.
        self.record = replace(before, leaf_id=leaf)
        try:
            await self.services.store.apply(self.id, change, durable=durable)
        except FiresideError:
            if self.record.leaf_id == leaf:
                self.record = replace(self.record, leaf_id=before.leaf_id)
            raise
        fields = {key: value for key, value in change.fields.items() if key != "leaf_id"}
        self.record = replace(self.record, **fields)

    async def post(self, message: Message) -> Message:
        """Take a person's message: it starts a turn, or waits for the running one. Durable on return."""
        async with self.writing():
            message = await self.admit(message, strict=True)
            if self.busy:
                await self.update(Change(enqueue=[message]))
                self.queue.append(message)
                self.publish_queue()
                return message
            waiting, self.queue = self.queue, []
            await self.begin([*waiting, message], dequeue=[item.id for item in waiting])
            return message

    async def admit(self, message: Message, *, strict: bool = False) -> Message:
        """The message with its files named, before it is stored.

        FiresideError where the model that is loaded for it cannot take one, and with `strict` where one
        is not there.
        """
        ids = file_ids(message.content)
        if not ids:
            return message
        files = await self.services.files.named(self.id, ids)
        if strict and (missing := next((file_id for file_id in ids if file_id not in files), None)):
            raise not_found("file", missing)
        self._require_senses(files.values())
        return replace(message, content=described(message.content, files))

    def _require_senses(self, files: Iterable[SessionFile]) -> None:
        card = self.services.lease.card_of(self.settings.model)
        if card is not None:
            require_senses(card, files)

    async def record_item(self, item: Item) -> None:
        """Add an item that needs no answer. ConflictError while a turn runs."""
        async with self.writing():
            self.refuse_if_busy()
            await self.update(Change(items=[item], parent=self.record.leaf_id))
            self.publish(OutputItemDoneEvent(item=item))

    async def begin(self, inputs: Sequence[Message], *, dequeue: Sequence[str] = ()) -> None:
        """Append inputs to the active path and start the turn that answers them."""
        response_id = new_id("resp")
        fields: Json = {"status": "running", "last_error": None}
        title = title_of(inputs[0]) if self.record.title is None and inputs else ""
        if title:
            fields["title"] = title
        labels = self.record.labels
        if self.record.leaf_id is not None and is_asked_once(labels):
            fields["labels"] = {name: value for name, value in labels.items() if name not in ASKED_ONCE}
        leaf, (tip, items) = self.record.leaf_id, self._known
        await self.update(Change(items=inputs, parent=leaf, dequeue=dequeue, fields=fields))
        if tip == leaf:
            self._known = (self.record.leaf_id, [*items, *inputs])
        self.publish_status("running", response_id)
        self.publish_consumed(inputs, response_id)
        if dequeue:
            self.publish_queue()
        if title:
            self.publish(SessionTitleEvent(title=title))
        await self.start_turn(response_id, self.record.leaf_id)

    async def start_turn(
        self,
        response_id: str,
        tip: str | None,
        *,
        continued: Message | None = None,
        compacts: bool = False,
    ) -> TurnState:
        """Answer what stands at `tip`."""
        branch = await self._branch(tip)
        turn = self.services.begin_turn(self, response_id, tip, branch, continued, compacts)
        self.turns[response_id] = turn
        return turn

    async def _branch(self, tip: str | None) -> Sequence[Item]:
        """That of the last turn is known; a long one takes a moment to read."""
        return self._known[1] if tip == self._known[0] else await self.services.store.branch(tip)

    async def rerun(self, tip: str | None, *, n: int = 1, continued: Message | None = None) -> list[str]:
        """Answer `tip` anew on `n` branches at once; the first to be written is the active one."""
        if continued is None:
            ids = file_ids(blocks_of(new_messages(await self._branch(tip))))
            self._require_senses((await self.services.files.named(self.id, ids)).values())
        ids = [new_id("resp") for _ in range(n)]
        before = self.record.leaf_id
        await self.branch_to(tip, tip)
        await self.set_status("running", ids[0], last_error=None)
        for response_id in ids:
            turn = await self.start_turn(response_id, tip, continued=continued)
            turn.instead = before if before != tip else None
        return ids

    async def branch_to(self, item_id: str | None, leaf: str | None) -> None:
        """Make the branch that ends at `leaf` the active one."""
        await self.update(Change(fields={"leaf_id": leaf}))
        self.publish(SessionBranchEvent(item_id=item_id, parent_id=None, active=leaf))

    def refuse_if_busy(self) -> None:
        """ConflictError while a turn runs."""
        if self.busy:
            raise ConflictError("A reply is being written; stop it first.", code="turn_running")

    async def take_queue(self, turn: TurnState) -> Sequence[Message]:
        """Move what waits into a running turn, unless a question is open."""
        async with self.gate:
            if not self.queue or len(self.turns) > 1 or self.elicitations.pending:
                return ()
            waiting, self.queue = self.queue, []
            await turn.append(waiting, dequeue=[item.id for item in waiting])
            self.publish_consumed(waiting, turn.response_id)
            self.publish_queue()
            return waiting

    async def turn_ended(self, turn: TurnState, status: str, error: Json | None) -> None:
        """After a turn's terminal event: answer what waits, or come to rest."""
        async with self.gate:
            self.turns.pop(turn.response_id, None)
            self._known = (turn.tip, turn.items)
            if self.turns:
                return
            if self.queue and not self.closed:
                waiting, self.queue = self.queue, []
                await self.begin(waiting, dequeue=[item.id for item in waiting])
                return
            resting = self.resting_status(status)
            if self.record.status != resting:
                await self.update(Change(fields={"status": resting, "last_error": error}))
            self.publish_status(resting, turn.response_id, error)
        await self.services.children.settled(self)

    async def change_queue(self, item_id: str, content: Message | None) -> None:
        """Replace a waiting message, or remove it. ConflictError once it was sent."""
        async with self.writing():
            place = next((index for index, item in enumerate(self.queue) if item.id == item_id), None)
            if place is None:
                raise ConflictError("That message has been sent or removed already.")
            if content is None:
                await self.update(Change(dequeue=[item_id]))
                del self.queue[place]
            else:
                await self.services.store.requeue(self.id, content)
                self.queue[place] = content
            self.publish_queue()

    def pending_with_children(self) -> list[PendingElicitation]:
        """The open questions of this session and of those below it."""
        found = self.elicitations.pending
        for child in self.services.children.of(self.id):
            for event in child.pending_with_children():
                found.append(PendingElicitation({**event, "params": event.params.asked_by(child.id)}))
        return found

    def give_client_result(self, call_id: str, output: str) -> None:
        """The result of a call that the client ran. InvalidInputError where nobody waits for it."""
        waiting = self.client_results.get(clean_text(call_id))
        if waiting is None:
            raise InvalidInputError(f"No call {call_id[:80]!r} waits for a result.", code=NOT_WAITING)
        if not waiting.done():
            waiting.set_result(output)

    # ---- stopping --------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop every running turn; harmless when there is none."""
        for turn in list(self.turns.values()):
            turn.interrupt()

    async def close(self) -> None:
        """Stop, wait for the end, end the subscriptions, give the lock back."""
        self.closed = True
        self.interrupt()
        tasks = [turn.task for turn in self.turns.values() if turn.task is not None]
        if tasks:
            await asyncio.wait(tasks)
        self.bus.close()
        self.services.store.locks.release(self.id)

    # ---- small events ----------------------------------------------------------------------

    def publish_status(self, status: str, response_id: str | None, error: Json | None = None) -> None:
        working = sum(child.busy for child in self.services.children.of(self.id))
        self.publish(
            SessionStatusEvent(
                conversation_id=self.id,
                status=status,
                response_id=response_id,
                error=error,
                background_task_count=working or None,
            )
        )

    def publish_queue(self) -> None:
        self.publish(SessionQueueEvent(inputs=tuple(item.to_wire() for item in self.queue)))

    def publish_consumed(self, inputs: Sequence[Item], response_id: str) -> None:
        for item in inputs:
            self.publish(
                SessionInputConsumedEvent(
                    item_id=item.id, type_=item.type, data=plain(item), response_id=response_id
                )
            )
