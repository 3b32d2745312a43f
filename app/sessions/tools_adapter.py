"""The meeting with the `tools` package: its tools as a session's, its permissions as the policy.

Imported only where such tools are given; nothing else in this room knows that package.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from app import paths
from app.open_stores import open_files
from app.sessions.errors import FiresideError, InvalidInputError
from app.sessions.records import Json, plain
from app.sessions.turn.arguments import UnfitError, fitting
from tools.context import Cancellation as Cancellation
from tools.context import Delegation as Delegation
from tools.context import Form as Form
from tools.context import Limits, ToolFile
from tools.context import SpawnRequest as SpawnRequest
from tools.context import ToolContext as ToolContext
from tools.definition import NO_WORKSPACE, tool
from tools.definition import Tool as Tool
from tools.permission.permissions import Decision as Decision
from tools.permission.permissions import decide
from tools.permission.rules import Mode as Mode
from tools.permission.rules import Rule
from tools.permission.rules import Scope as Scope
from tools.permission.scope_options import ScopeOption as ScopeOption
from tools.permission.scope_options import why_not_obeyed
from tools.registry import ToolRegistry, UnknownToolError
from tools.run import ToolResult as ToolResult
from tools.run import run
from tools.sandbox.aside import Aside, AsideError, Kept
from tools.sandbox.bubblewrap import Sandbox
from tools.sandbox.escape import find_sandbox
from tools.workspace import PathError, Workspace

LEAST_OUTPUT_BYTES = 1024
ASIDE_FOLDER = "aside"
ANOTHER_FOLDER = "Make that folder again, or start Fireside with --workspace FOLDER."
logger = logging.getLogger("fireside")

_T = TypeVar("_T")
AddFile: TypeAlias = Callable[[str, bytes], Awaitable[Any]]
"""Keeps a file of this name and content with the chat, and tells whoever listens. Raises FiresideError."""
_RULE_FIELDS = frozenset(item.name for item in fields(Rule))


@dataclass
class ToolsAdapter:
    """What all tools of a manager share. A private room keeps nothing on a disk."""

    private: bool = False
    _spaces: dict[Path, Workspace] = field(default_factory=dict[Path, Workspace])
    _sandbox: Sandbox | None = None
    _aside: Aside | None = None
    _looking: threading.Lock = field(default_factory=threading.Lock)

    def tools(self, given: Iterable[Any]) -> list[Tool]:
        """`given` as a session's tools.

        Functions become tools, a text is a pattern of names (`read_*,now`) in the registry of
        built-in, installed and the user's own tools, a registry gives all it has. InvalidInputError names
        what is no tool.
        """
        found: list[Tool] = []
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
                found.append(_made(item))
        return found

    def _loaded(self, registry: ToolRegistry, pattern: str) -> list[Tool]:
        try:
            loaded = registry.load(registry.select([pattern]))
        except UnknownToolError as err:
            raise InvalidInputError(str(err)) from err
        for warning in registry.warnings:
            logger.warning("%s", warning)
        return list(loaded.values())

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

    def folder(self, name: str) -> Path | None:
        """A folder of our own data for what tools keep; None where nothing may be kept."""
        return None if self.private else paths.make_private_dir(paths.data_dir() / name)

    def decide(
        self, tool: Tool, arguments: Json, *, mode: Mode, rules: Sequence[Json], workspace: Path | None
    ) -> Decision:
        """What the rules and the mode say of what the call would touch."""
        if tool.schema_override is not None and mode != "none":
            try:
                # What such a tool takes is known by its schema alone.
                arguments = fitting(tool.name, tool.parameters, arguments)
            except UnfitError as err:
                return Decision("deny", str(err), mode=mode, origin="tool", fault=True, arguments=arguments)
        space, no_space = self.space(workspace)
        saved = [rule for data in rules if (rule := _rule(data)) is not None]
        sandbox = self.sandbox() if tool.subprocess else None
        return decide(
            _Call(tool.name, arguments), tool, mode, saved, space, no_space=no_space, sandbox=sandbox
        )

    async def run(
        self,
        tool: Tool,
        arguments: Json,
        context: ToolContext,
        *,
        workspace: Path | None,
        window: int | None,
        add_file: AddFile,
    ) -> ToolResult:
        """Run a call in `workspace` within what its approval granted; cancelling this ends all it started.

        `context` says what the session knows of the call, `window` how many tokens its model holds at once.
        """
        space, no_space = await asyncio.to_thread(self.space, workspace)
        sandbox = await asyncio.to_thread(self.sandbox) if tool.subprocess else None
        context = replace(
            context,
            space=space,
            no_space=no_space,
            limits=_limits(window),
            sandbox=sandbox,
            output_folder=self.folder("outputs"),
            notes_folder=self.folder("notes"),
            aside=self.aside,
        )
        try:
            result = await run(tool, arguments, context)
        finally:
            context.cancellation.set()
        if result.status == "refused":
            return result
        return replace(result, text="\n".join((result.text, *await _lost(context.files, add_file))))


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


async def _lost(files: Sequence[ToolFile], add_file: AddFile) -> list[str]:
    """Keep what a tool made; a sentence for each file that could not be kept."""
    lost: list[str] = []
    for file in files:
        try:
            await add_file(file.name, file.content)
        except FiresideError as err:
            lost.append(f"[{file.name} was not kept: {err.message}]")
    return lost


def why_ignored(rule: Json) -> str:
    """Why a saved rule allows nothing any more, as the end of a sentence; "" where it may."""
    if "kind" not in rule:
        return ""
    found = _rule(rule)
    return "it cannot be read" if found is None else why_not_obeyed(found)


def saved(option: ScopeOption) -> Json:
    """The rule that a person is offered, as it is kept."""
    return plain({**asdict(option.rule), "text": option.text, "scopes": [option.scope]})


def _made(item: Any) -> Tool:
    if isinstance(item, Tool):
        return item
    if not callable(item):
        raise InvalidInputError(f"{item!r} is not a tool; make one with the `tool` decorator.")
    return tool(item)


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
