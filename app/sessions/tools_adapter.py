"""The meeting with the `tools` package: its tools as a session's, its permissions as the policy.

Imported only where such tools are given; nothing else in this room knows that package.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from app import paths
from app.open_stores import open_files
from app.sessions.errors import FiresideError, InvalidInputError
from app.sessions.records import Json
from app.sessions.turn.arguments import UnfitError, fitting
from app.sessions.turn.toolbox import (
    Decision,
    Effect,
    Mode,
    ModePolicy,
    NotBegunError,
    Returned,
    SessionTool,
    ToolRun,
)
from tools.context import (
    Answer,
    Cancellation,
    Delegation,
    Form,
    Limits,
    SpawnRequest,
    ToolContext,
    ToolFile,
)
from tools.definition import NO_WORKSPACE, Tool, ToolError, tool
from tools.permission.permissions import decide
from tools.permission.rules import Rule
from tools.permission.scope_options import ScopeOption, why_not_obeyed
from tools.registry import ToolRegistry, UnknownToolError
from tools.run import run
from tools.sandbox.aside import Aside, AsideError, Kept
from tools.sandbox.bubblewrap import Sandbox
from tools.sandbox.escape import find_sandbox
from tools.schema import ArgumentsError
from tools.workspace import PathError, Workspace

LEAST_OUTPUT_BYTES = 1024
ASIDE_FOLDER = "aside"
ANOTHER_FOLDER = "Make that folder again, or start Fireside with --workspace FOLDER."
logger = logging.getLogger("fireside")

_T = TypeVar("_T")
_RULE_FIELDS = frozenset(item.name for item in fields(Rule))


@dataclass
class ToolsAdapter:
    """What all tools of a manager share. A private room keeps nothing on a disk."""

    private: bool = False
    _spaces: dict[Path, Workspace] = field(default_factory=dict[Path, Workspace])
    _delegations: dict[str, Delegation] = field(default_factory=dict[str, Delegation])
    _sandbox: Sandbox | None = None
    _aside: Aside | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def tools(self, given: Iterable[Any]) -> list[SessionTool]:
        """`given` as a session's tools.

        Functions become tools, a text is a pattern of names (`read_*,now`) in the registry of
        built-in, installed and the user's own tools, a registry gives all it has. InvalidInputError names
        what is no tool.
        """
        found: list[SessionTool] = []
        own: ToolRegistry | None = None
        for item in given:
            if isinstance(item, ToolRegistry):
                found += self._loaded(item, "*")
            elif isinstance(item, str):
                own = own or ToolRegistry(
                    user_folder=paths.config_file().parent / "tools", is_own=paths.is_own
                )
                found += self._loaded(own, item)
            else:
                found.append(self._tool(item))
        return found

    def _loaded(self, registry: ToolRegistry, pattern: str) -> list[SessionTool]:
        try:
            loaded = registry.load(registry.select([pattern]))
        except UnknownToolError as err:
            raise InvalidInputError(str(err)) from err
        for warning in registry.warnings:
            logger.warning("%s", warning)
        return [self._tool(item) for item in loaded.values()]

    def _tool(self, item: Any) -> SessionTool:
        if isinstance(item, Tool):
            return AdaptedTool(item, self)
        if isinstance(item, SessionTool):
            return item
        if not callable(item):
            raise InvalidInputError(f"{item!r} is not a tool; make one with the `tool` decorator.")
        return AdaptedTool(tool(item), self)

    def space(self, folder: Path | None) -> tuple[Workspace | None, str]:
        """The workspace at a folder, with Fireside's own folders hidden in it; None where there is none any
        more, and why, for a call that needs one."""
        if folder is None:
            return None, NO_WORKSPACE
        try:
            # It may have gone since it was first looked at.
            if self._spaces.get(folder) is None or not folder.is_dir():
                self._spaces.pop(folder, None)
                hidden = (paths.data_dir(), paths.state_dir(), paths.config_file().parent, *open_files())
                self._spaces[folder] = Workspace.at(folder, hidden=hidden)
            return self._spaces[folder], ""
        except PathError as err:
            return None, f"{err} {ANOTHER_FOLDER}"

    def sandbox(self) -> Sandbox:
        """How commands are confined here; looked for once. Takes a moment: not on the event loop."""
        # An approval and the call it allows, and calls side by side, must mean the same one.
        with self._looking:
            if self._sandbox is None:
                self._sandbox = find_sandbox()
            return self._sandbox

    @property
    def aside(self) -> Aside:
        """Where files that a run left and that would become code are kept; a private room's end with it."""
        if self._aside is None:
            self._aside = Aside(None if self.private else paths.data_dir() / ASIDE_FOLDER)
        return self._aside

    def delegation(self, context: ToolRun) -> Delegation | None:
        """The right to hand tasks on: one object for all calls of a session."""
        spawn = context.spawn
        if spawn is None:
            return None

        async def start(request: SpawnRequest) -> str:
            return await spawn(
                request.task,
                tools=list(request.tools),
                approve=request.mode,
                max_rounds=request.rounds,
                time_s=request.time_s,
            )

        found = self._delegations.setdefault(context.session_id, Delegation(start))
        found.spawn = start
        found.tools = context.offered
        found.mode = context.mode
        found.depth = context.depth
        found.rounds = context.rounds_left
        found.deadline = context.deadline
        return found

    def folder(self, name: str) -> Path | None:
        """A folder of our own data for what tools keep; None where nothing may be kept."""
        return None if self.private else paths.make_private_dir(paths.data_dir() / name)


class Shelf:
    """What runs of commands left that would become code, moved out of their workspaces."""

    def __init__(self, aside: Aside) -> None:
        self._aside = aside

    async def all(self) -> list[Json]:
        """All of it, the oldest first: `id`, `workspace`, `path` in it, `reason`, `at` in Unix seconds."""
        return [asdict(kept) for kept in await asyncio.to_thread(self._aside.all)]

    async def text(self, which: str) -> str:
        """What one holds, by its id or number. InvalidInputError where there is none."""
        return await self._do(which, self._aside.text)

    async def allow(self, which: str) -> Path:
        """Put one back where it was made; its path. InvalidInputError where that is not possible."""
        return await self._do(which, self._aside.allow)

    async def drop(self, which: str) -> None:
        """Delete one. InvalidInputError where that is not possible."""
        await self._do(which, self._aside.drop)

    async def _do(self, which: str, act: Callable[[Kept], _T]) -> _T:
        try:
            return await asyncio.to_thread(lambda: act(self._aside.find(which)))
        except AsideError as err:
            raise InvalidInputError(str(err)) from err


@dataclass(frozen=True)
class AdaptedTool:
    """A tool of the `tools` package, as a session sees it."""

    tool: Tool
    room: ToolsAdapter

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def description(self) -> str:
        return self.tool.description

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.tool.parameters

    @property
    def digest(self) -> str:
        return self.tool.digest

    def effects(self, arguments: Mapping[str, Any]) -> frozenset[Effect]:
        return self.tool.effects(arguments) if arguments else self.tool.does

    def checked(self, arguments: Mapping[str, Any]) -> Json:
        """The arguments as JSON of what its function is going to get. Raises UnfitError."""
        try:
            found = self.tool.checked(arguments)
        except ArgumentsError as err:
            raise UnfitError(str(err)) from err
        # What such a tool takes is known by its schema alone.
        by_schema = self.tool.schema_override is not None
        return fitting(self.name, self.parameters, found) if by_schema else found

    async def run(self, arguments: Mapping[str, Any], context: ToolRun) -> Returned:
        """Run it within what its approval granted; cancelling this ends all it started."""

        async def ask(form: Form) -> Answer:
            answer = await context.ask({"message": form.message, "requestedSchema": form.schema})
            return answer.content if answer.accepted else None

        room, cancellation = self.room, Cancellation()
        space, no_space = await asyncio.to_thread(room.space, context.workspace)
        try:
            given = ToolContext(
                session_id=context.session_id,
                call_id=context.call_id,
                space=space,
                no_space=no_space,
                limits=_limits(context.context_window),
                cancellation=cancellation,
                grants=context.grants,
                sandbox=await asyncio.to_thread(room.sandbox) if self.tool.subprocess else None,
                output_folder=room.folder("outputs"),
                notes_folder=room.folder("notes"),
                aside=room.aside,
                delegation=room.delegation(context),
                on_progress=context.progress,
                asker=ask,
                loop=asyncio.get_running_loop(),
                refusal=context.refusal,
            )
        except ToolError as err:
            return Returned(str(err), is_error=True)
        try:
            result = await run(self.tool, arguments, given)
        finally:
            cancellation.set()
        if result.status == "refused":
            raise NotBegunError(result.text)
        lost = await _kept(given.files, context)
        return Returned("\n".join((result.text, *lost)), result.status != "done", result.line_count)


async def _kept(files: Sequence[ToolFile], context: ToolRun) -> list[str]:
    """Keep what a tool made; a sentence for each file that could not be kept."""
    lost: list[str] = []
    for file in files:
        if context.add_file is None:
            lost.append(f"[{file.name} was not kept: this chat keeps no files]")
            continue
        try:
            await context.add_file(file.name, file.content)
        except FiresideError as err:
            lost.append(f"[{file.name} was not kept: {err.message}]")
    return lost


class AdaptedPolicy:
    """The permissions of the `tools` package; a plain mode policy for any other tool."""

    def __init__(self, room: ToolsAdapter) -> None:
        self._room = room
        self._plain = ModePolicy()

    def decide(
        self,
        tool: SessionTool,
        arguments: Mapping[str, Any],
        *,
        mode: Mode,
        rules: Sequence[Json],
        workspace: Path | None,
    ) -> Decision:
        """What the rules and the mode say of what the call would touch."""
        if not isinstance(tool, AdaptedTool):
            return self._plain.decide(tool, arguments, mode=mode, rules=rules, workspace=workspace)
        space, no_space = self._room.space(workspace)
        saved = [rule for data in rules if (rule := _rule(data)) is not None]
        call = _Call(tool.name, arguments)
        sandbox = self._room.sandbox() if tool.tool.subprocess else None
        found = decide(call, tool.tool, mode, saved, space, no_space=no_space, sandbox=sandbox)
        preview = found.preview
        parts = (preview.call, preview.diff, *preview.touches, preview.sandbox)
        return Decision(
            found.verdict,
            found.reason,
            "tool" if found.fault else "rule" if found.rule_id else "mode",
            tuple(map(_offer, found.scope_offer)),
            "\n".join(part for part in parts if part),
            found.grants,
            {
                "call": preview.call,
                "diff": preview.diff,
                "sandbox": preview.sandbox,
                "touches": list(preview.touches),
            },
            found.fault,
        )

    def why_not_obeyed(self, rule: Json) -> str:
        """Why a saved rule allows nothing any more, as the end of a sentence; "" where it may."""
        if "kind" not in rule:
            return ""
        found = _rule(rule)
        return "it cannot be read" if found is None else why_not_obeyed(found)


def _limits(context_window: int | None) -> Limits:
    """What a call may use: its output is at most a byte for each token of the context.

    A token is at least a byte, and of usual text about four: one result takes a quarter of the window.
    """
    limits = Limits()
    if context_window is None:
        return limits
    return replace(limits, output_bytes=min(limits.output_bytes, max(context_window, LEAST_OUTPUT_BYTES)))


@dataclass(frozen=True)
class _Call:
    name: str
    arguments: Mapping[str, Any]


def _offer(offer: ScopeOption) -> Json:
    return {**asdict(offer.rule), "text": offer.text, "scopes": [offer.scope]}


def _rule(data: Json) -> Rule | None:
    """A saved rule; one that is not understood allows nothing."""
    known: Json = {name: value for name, value in data.items() if name in _RULE_FIELDS}
    try:
        known["values"] = tuple(cast("list[str]", known.get("values", ())))
        # The text of an id tells which rule decided; ours are kept elsewhere.
        known["id"] = known.get("id") or "saved"
        return Rule(**known)
    except TypeError:
        return None
