"""`SessionManager`: everything a face needs of conversations, so that no face goes around it.

Owns the store, the engine and the open sessions of one process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from app.sessions.agents import Agent, Agents, agent_from_wire
from app.sessions.archive import LibraryOperations
from app.sessions.bundles import agent_from_bundle
from app.sessions.engine_operations import EngineOperations
from app.sessions.errors import InvalidInputError
from app.sessions.events import (
    SessionEvent,
    SessionModelEvent,
    SessionReasoningEffortEvent,
    SessionSettingsEvent,
)
from app.sessions.inputs import Compact, Input, Interrupt, Resolution, checked_message, input_from_wire
from app.sessions.items import (
    FunctionCallOutput,
    Item,
    Message,
    SlashCommand,
    TerminalCommand,
    item_from_wire,
)
from app.sessions.open_sessions import folder_of
from app.sessions.records import Json, new_id
from app.sessions.snapshot import SNAPSHOT_ITEMS, Ack, SessionSnapshot
from app.sessions.store.ledger import Rule
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import Order, Store
from app.sessions.tree import TreeOperations, copies
from app.sessions.turn.engine_lease import EngineLease
from app.sessions.turn.settings import Defaults, checked
from app.sessions.turn.toolbox import MODES, Policy, Toolbox
from backend.chat_engine import ChatEngine, LoadSpec

if TYPE_CHECKING:
    from app.sessions.chat import SessionsChat
    from app.sessions.hooks import StreamHooks
    from app.sessions.tools_adapter import Mode, Shelf, Tool, ToolsAdapter


_PERMISSIONS = frozenset(("approve", "tools"))


class SessionManager(TreeOperations, LibraryOperations, EngineOperations):
    """All conversations of a store, on one engine. An async context manager.

    `engine` is a ChatEngine, loaded or not (None: one in this process), `model` what to load into
    it when it is first needed. `store` is a Store, a path, or None for the one in the data folder.
    `tools` are what sessions may offer: functions, tools, names or patterns of registered ones, or a
    whole registry. `approve` is one of ask, read, all, none and plan.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        engine: ChatEngine | None = None,
        store: Store | str | os.PathLike[str] | None = None,
        tools: Any = None,
        approve: Mode = "ask",
        workspace: str | Path | None = None,
        policy: Policy | None = None,
    ) -> None:
        if approve not in MODES:
            raise InvalidInputError(f"approve must be one of {', '.join(MODES)}, not {approve!r}.")
        if engine is None:
            from backend.engines.local import InProcessEngine

            engine = InProcessEngine()
        if store is None:
            store = Store.default()
        opened = store if isinstance(store, Store) else Store(Path(store))
        self.agents = Agents()
        self._adapter, found = _adapted(tools, private=opened.private)
        super().__init__(
            opened,
            EngineLease(engine, LoadSpec(model)),
            Toolbox.of(found),
            self._adapter,
            policy or self._adapter,
            Defaults(approve=approve, workspace=folder_of(workspace)),
        )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.store.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop what runs, write the rest, free the model."""
        await self.stop()
        await self._lease.unload()
        await self.store.close()

    # ---- making and reading ----------------------------------------------------------------

    async def create(
        self,
        agent: str | Agent | bytes | None = None,
        *,
        filename: str = "agent.tar.gz",
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        reasoning_effort: str | None = None,
        workspace: str | Path | None = None,
        initial_items: Sequence[Mapping[str, Any]] = (),
        bundle: bytes | None = None,
    ) -> SessionSnapshot:
        """A new session of an agent: a registered one's name, one given here, or one in a bundle.

        A bundle is the bytes of a `.tar.gz`; `filename` is what errors call it.
        """
        if isinstance(agent, bytes):
            agent, bundle = None, agent
        if bundle is not None:
            chosen = agent_from_bundle(bundle, filename)
        elif isinstance(agent, Agent):
            chosen = agent
        else:
            chosen = self.agents.get(agent or "fireside")
        settings = checked({"reasoning_effort": reasoning_effort, "workspace": folder_of(workspace)})
        record = SessionRecord(
            id=new_id("sess"),
            agent=chosen.to_wire(),
            title=title,
            labels=dict(labels or {}),
            settings={name: value for name, value in settings.items() if value is not None},
        )
        items = copies([item_from_wire(item) for item in initial_items])
        await self.store.add_session(record, items)
        return await self.get(record.id)

    async def create_from_agent_id(self, agent_id: str, **fields: Any) -> SessionSnapshot:
        """As `create`, by the id of a registered agent."""
        return await self.create(self.agents.get(agent_id), **fields)

    async def get(self, session_id: str, *, include_items: bool = True) -> SessionSnapshot:
        """The session now, with the newest 200 items of its active path."""
        record = await self.record(session_id)
        newest: list[Item] = []
        if include_items:
            newest = await self.store.branch(record.leaf_id, limit=SNAPSHOT_ITEMS + 1, order="desc")
        live = self._live.get(session_id)
        agent, settings, card = agent_from_wire(record.agent), record.settings, self._lease.card
        return SessionSnapshot(
            id=record.id,
            agent_id=agent.id,
            agent_name=agent.name,
            status=record.status,
            created_at=record.created_at,
            updated_at=record.updated_at,
            title=record.title,
            labels=record.labels,
            reasoning_effort=settings.get("reasoning_effort"),
            items=newest[:SNAPSHOT_ITEMS][::-1],
            has_more_items=len(newest) > SNAPSHOT_ITEMS,
            llm_model=card.model_id if card else settings.get("model"),
            model_override=settings.get("model"),
            context_window=(card.max_seq or None) if card else None,
            last_total_tokens=record.last_total_tokens,
            last_task_error=record.last_error,
            archived=record.archived,
            pinned=record.pinned,
            parent_session_id=record.parent_id,
            workspace=settings.get("workspace") or self._services.defaults.workspace,
            draft=record.draft,
            pending_elicitations=live.pending_with_children() if live else [],
            pending_inputs=[item.to_wire() for item in await self.store.queued(session_id)],
        )

    async def list_items(
        self, session_id: str, *, limit: int = 100, after: str | None = None, order: Order = "asc"
    ) -> list[Item]:
        """A page of the active path's items."""
        record = await self.record(session_id)
        return await self.store.branch(record.leaf_id, limit=limit, after=after, order=order)

    async def stream(self, session_id: str) -> AsyncGenerator[SessionEvent]:
        """Live events, from a heartbeat on. Ends when the session is closed."""
        live = await self.live(session_id)
        subscription = live.bus.subscribe()
        self.follow(live)
        try:
            async for event in subscription:
                yield event
        finally:
            subscription.close()

    # ---- inputs ----------------------------------------------------------------------------

    async def post(self, session_id: str, given: Input) -> Ack:
        """Take one input. 400 for a message that nobody can have said."""
        live = await self.live(session_id)
        match given:
            case Message():
                return Ack(True, (await live.post(checked_message(given))).id)
            case FunctionCallOutput():
                live.give_client_result(given.call_id, given.output)
                return Ack(True)
            case SlashCommand() | TerminalCommand():
                await live.record_item(given)
                return Ack(True, live.record.leaf_id)
            case Interrupt():
                live.interrupt()
            case Compact():
                await self.compact(session_id)
            case Resolution():
                await self.resolve_elicitation(session_id, given.elicitation_id, given.result)
        return Ack(False)

    async def post_event(self, session_id: str, event: Mapping[str, Any]) -> Ack:
        """As `post`, for an event `{type, data}` of the wire. 400 for a type that is not known and for wrong
        data."""
        return await self.post(session_id, input_from_wire(event))

    async def interrupt(self, session_id: str) -> None:
        """Stop what runs in a session; harmless when nothing does."""
        (await self.live(session_id)).interrupt()

    async def compact(self, session_id: str) -> None:
        """Summarise all turns but the last; the events tell how it went. 409 while a turn runs."""
        live = await self.live(session_id)
        async with live.writing():
            live.refuse_if_busy()
            response_id = new_id("resp")
            await live.set_status("running", response_id)
            await live.start_turn(response_id, live.record.leaf_id, compacts=True)

    async def resolve_elicitation(
        self, session_id: str, elicitation_id: str, result: Mapping[str, Any]
    ) -> None:
        """Answer a question of a session or of one below it. Late and repeated answers are harmless."""
        live = await self.live(session_id)
        if live.elicitations.resolve(elicitation_id, result):
            return
        for other in list(self._live.values()):
            above = other.parent
            while above is not None and above is not live:
                above = above.parent
            if above is live and other.elicitations.resolve(elicitation_id, result):
                return

    # ---- settings --------------------------------------------------------------------------

    async def configure(
        self,
        session_id: str,
        *,
        config: Any = None,
        system: str | None = None,
        tools: Sequence[str] | str | None = None,
        approve: str | None = None,
        overflow: str | None = None,
        max_rounds: int | None = None,
        workspace: str | Path | None = None,
        reset: Sequence[str] = (),
    ) -> None:
        """Change settings of a session for its next turns; what is None stays as it is.

        Mode and tools hold at once, in a running turn too: a call that they refuse is not run, and an
        open question about it is answered with no.
        `reset` names settings that go back to what the agent, the manager or the default says.
        """
        folder = folder_of(workspace)
        if folder is not None and not Path(folder).is_dir():
            raise InvalidInputError(f"A chat works in a folder, and {folder} is not one.")
        changes: Json = {"config": config, "system": system, "tools": tools, "approve": approve}
        changes |= {"overflow": overflow, "max_rounds": max_rounds, "workspace": folder}
        given = {name: value for name, value in changes.items() if value is not None}
        if both := sorted(given.keys() & set(reset)):
            raise InvalidInputError(f"{', '.join(both)}: set it or unset it, not both.")
        given |= dict.fromkeys(reset)
        if tools is not None:
            names = cast("list[str]", checked({"tools": tools})["tools"])
            if missing := self._services.toolbox.missing(names):
                raise InvalidInputError(f"No tool matches {', '.join(missing)}.")
        await self._set(session_id, given)

    async def set_reasoning_effort(self, session_id: str, effort: str | None) -> None:
        """Set the effort level; None takes the choice back."""
        await self._set(session_id, {"reasoning_effort": effort})
        (await self.live(session_id)).publish(SessionReasoningEffortEvent(reasoning_effort=effort))

    async def set_model_override(self, session_id: str, model: str | None) -> None:
        """Use another model for the next turns; None goes back to the default, blank is an error."""
        await self._set(session_id, {"model": model})
        (await self.live(session_id)).publish(SessionModelEvent(model=model))

    async def settings(self, session_id: str) -> Json:
        """Each setting as `{value, origin}`."""
        return (await self.live(session_id)).settings.to_wire()

    async def _set(self, session_id: str, changes: Mapping[str, Any]) -> None:
        try:
            kept = checked(changes)
        except ValueError as err:
            raise InvalidInputError(str(err)) from err
        live = await self.live(session_id)
        async with live.writing():
            merged = {**live.record.settings, **kept}
            merged = {name: value for name, value in merged.items() if value is not None}
            await live.update(Change(fields={"settings": merged}))
            if _PERMISSIONS & kept.keys():
                self._services.changes.tell()
            live.publish(SessionSettingsEvent(settings=live.settings.to_wire()))

    async def tools(self, session_id: str) -> list[Json]:
        """The tools there are: `name`, `description`, and whether the session offers each."""
        settings, toolbox = (await self.live(session_id)).settings, self._services.toolbox
        offered = toolbox.offered(settings.tools, settings.approve)
        return [
            {"name": name, "description": tool.description, "offered": name in offered}
            for name, tool in toolbox.tools.items()
        ]

    async def rules(self, session_id: str | None = None) -> list[Json]:
        """Saved permission rules: those for always, and a session's own.

        One that allows nothing any more has a `fault`, which says why as the end of a sentence.
        """
        return [self._told(rule) for rule in await self.ledger.rules(session_id)]

    def _told(self, rule: Rule) -> Json:
        tool, fault = self._services.toolbox.tools.get(rule.tool), ""
        if self._adapter is not None:
            from app.sessions.tools_adapter import why_ignored

            fault = why_ignored(rule.rule)
        if tool is not None and tool.digest != rule.definition:
            fault = "its tool has changed since"
        return {**rule.to_wire(), "fault": fault} if fault else rule.to_wire()

    async def revoke(self, rule_id: str) -> None:
        """Take a saved rule back; from now on no call runs because of it."""
        await self.ledger.revoke(rule_id)
        self._services.changes.tell()

    @property
    def shelf(self) -> Shelf:
        """What runs of commands left that would become code, kept for a person to allow or drop."""
        from app.sessions.tools_adapter import Shelf, ToolsAdapter

        self._adapter = self._adapter or ToolsAdapter(self.store.private)
        return Shelf(self._adapter.aside)

    # ---- the helper ------------------------------------------------------------------------

    async def sessions_chat(
        self,
        bundle: bytes | None = None,
        *,
        agent: str | Agent | None = None,
        filename: str = "agent.tar.gz",
        tool_callables: Mapping[str, Callable[..., Any]] | None = None,
        hooks: StreamHooks | None = None,
        strict_tools: bool = False,
    ) -> SessionsChat:
        """A new session with the helper bound to it; without bundle and agent, the default agent."""
        from app.sessions.chat import SessionsChat

        session = await self.create(agent, bundle=bundle, filename=filename)
        return SessionsChat.bind(
            self, session, tool_callables=tool_callables, hooks=hooks, strict_tools=strict_tools
        )

    async def agent_tools(self, agent_id: str, session_id: str | None = None) -> list[Json]:
        """The entries of an agent's tools, as a session has them or else as it is registered."""
        if session_id is None:
            return list(self.agents.get(agent_id).to_wire()["tools"])
        return list((await self.record(session_id)).agent.get("tools") or [])


def _adapted(tools: Any, *, private: bool) -> tuple[ToolsAdapter | None, list[Tool]]:
    """What all tools share, and the tools; nothing is imported where there are none."""
    if tools is None or tools == ():
        return None, []
    from app.sessions.tools_adapter import ToolsAdapter

    adapter = ToolsAdapter(private)
    several = isinstance(tools, Iterable) and not isinstance(tools, str)
    return adapter, adapter.tools(cast("Iterable[Any]", tools) if several else [cast(Any, tools)])
