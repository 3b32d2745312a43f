"""What a session asks of tools and of permissions, in small protocols, and the tools one has.

Knows no particular tool. A permission policy that raises denies.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from app.sessions.records import Json
from app.sessions.turn.elicit import Answer

Effect = Literal["nothing", "read", "write", "execute", "network"]
Mode = Literal["ask", "read", "all", "none", "plan"]
Verdict = Literal["allow", "ask", "deny"]
MODES: tuple[Mode, ...] = ("ask", "read", "all", "none", "plan")
_WIDER: dict[Mode, frozenset[Mode]] = {
    "none": frozenset(MODES),
    "ask": frozenset(("ask", "read", "all")),
    "read": frozenset(("read", "all")),
    "all": frozenset(("all",)),
    "plan": frozenset(("plan", "read", "all")),
}


def is_as_wide(mode: Mode, other: Mode) -> bool:
    """Whether `mode` allows all that `other` does."""
    return mode in _WIDER[other]


def bounded(mode: Mode, above: Mode) -> Mode:
    """The mode of a session below another: its own, as far as the one above it now allows that."""
    if is_as_wide(above, mode):
        return mode
    if is_as_wide(mode, above) or (above == "plan" and mode == "ask"):
        return above
    return "none"


@dataclass(frozen=True)
class Returned:
    """What a call came to."""

    text: str
    is_error: bool = False
    line_count: int | None = None
    """Lines that a program printed; None for what no program printed."""


class NotBegunError(Exception):
    """A tool's code was not begun, because the call may no longer run; the text says why."""


@dataclass
class ToolRun:
    """What a running tool may use of the session that called it."""

    session_id: str
    call_id: str
    workspace: Path | None
    cancelled: asyncio.Event
    progress: Callable[[str], None]
    """Shows a piece of output while the tool runs."""
    ask: Callable[[Mapping[str, Any]], Awaitable[Answer]]
    """Asks the person: takes elicitation parameters with `message` and `requestedSchema`."""
    spawn: Callable[..., Awaitable[str]] | None = None
    """Runs a child session and returns its last words; None where no more are allowed."""
    offered: tuple[str, ...] = ()
    """Names of the tools the session offers."""
    mode: Mode = "ask"
    depth: int = 0
    """How many sessions are above this one."""
    grants: Any = None
    """What the decision about this call allows, for the tool's own checks."""
    rounds_left: int = 0
    """Replies the calling turn may still ask of the model."""
    deadline: float | None = None
    """`time.monotonic()` at which the session's time is over; None where it has no end."""
    context_window: int | None = None
    """Tokens the model holds at once, where a model is loaded."""
    refusal: Callable[[], str] = str
    """Why the call may no longer begin, "" where it may: asked right before the tool's own code runs."""
    add_file: Callable[[str, bytes], Awaitable[Any]] | None = None
    """Keeps a file that the tool made with the chat, and tells whoever listens. Raises FiresideError."""


@runtime_checkable
class SessionTool(Protocol):
    """A tool as a session sees it. `parameters` is a JSON Schema."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def digest(self) -> str:
        """Changes whenever the tool does; saved rules hold it."""
        ...

    def effects(self, arguments: Mapping[str, Any]) -> frozenset[Effect]:
        """What one call would do."""
        ...

    async def run(self, arguments: Mapping[str, Any], context: ToolRun) -> Returned:
        """The result for the model. What it raises becomes an error the model reads.

        NotBegunError where `context.refusal` had something to say before its own code ran.
        """
        ...


@dataclass(frozen=True)
class Decision:
    """What a policy says of one call. `offers` are rules a person may save, each with its `text`."""

    verdict: Verdict
    reason: str = ""
    origin: str = "mode"
    offers: tuple[Json, ...] = ()
    preview: str = ""
    grants: Any = None
    """Handed to the tool when the call runs."""
    details: Json = field(default_factory=dict[str, Any])
    """Parts of the preview for a face that shows them one by one."""
    fault: bool = False
    """With "deny": nobody refused it, it cannot run, and `reason` tells the model why."""


class Policy(Protocol):
    """Decides about calls. `rules` are the saved ones for this tool and its present definition."""

    def decide(
        self,
        tool: SessionTool,
        arguments: Mapping[str, Any],
        *,
        mode: Mode,
        rules: Sequence[Json],
        workspace: Path | None,
    ) -> Decision: ...


@runtime_checkable
class RuleReader(Protocol):
    """A policy that can tell of a saved rule whether it still counts."""

    def why_not_obeyed(self, rule: Json) -> str:
        """Why a rule allows nothing any more, as the end of a sentence; "" where it may."""
        ...


class ModePolicy:
    """The modes, and rules that cover exactly the arguments they were made for.

    Knows no sandbox: what executes, and what uses the network, asks in the mode "all" too.
    """

    def decide(
        self,
        tool: SessionTool,
        arguments: Mapping[str, Any],
        *,
        mode: Mode,
        rules: Sequence[Json],
        workspace: Path | None,
    ) -> Decision:
        """Allow what `mode` or a rule allows, ask for the rest."""
        if mode == "none":
            return Decision("deny", "tools are switched off here (approve=none)")
        does = tool.effects(arguments) - {"nothing"}
        if mode == "plan" and not does <= {"read"}:
            return Decision("deny", "only tools that read may be used while planning")
        if not does:
            return Decision("allow", "it touches nothing", "tool")
        unasked: frozenset[Effect] = frozenset(("read", "write") if mode == "all" else ("read",))
        if mode in ("read", "plan", "all") and does <= unasked:
            return Decision("allow", f"approve={mode}")
        # Compared as JSON: to Python, 1 and true are equal.
        if any(_as_text(rule.get("arguments")) == _as_text(dict(arguments)) for rule in rules):
            return Decision("allow", "a saved rule", origin="rule")
        text = f"{tool.name} with exactly these arguments"
        offer = {"arguments": dict(arguments), "text": text}
        preview = json.dumps(dict(arguments), ensure_ascii=False, indent=1)
        wish = " and ".join(_VERBS[effect] for effect in sorted(does))
        return Decision("ask", f"{tool.name} wants to {wish}", "mode", (offer,), preview)


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


_VERBS: dict[Effect, str] = {
    "nothing": "run",
    "read": "read",
    "write": "change files",
    "execute": "run a command",
    "network": "use the network",
}


async def decide(
    policy: Policy,
    tool: SessionTool,
    arguments: Mapping[str, Any],
    *,
    mode: Mode,
    rules: Sequence[Json],
    workspace: Path | None,
) -> Decision:
    """The policy's decision; one that cannot be evaluated is a no."""
    try:
        # It may read files for a diff, which is no work for the event loop.
        return await asyncio.to_thread(
            policy.decide, tool, arguments, mode=mode, rules=rules, workspace=workspace
        )
    except Exception as err:  # Whatever a policy does wrong must not let a call through.
        return Decision("deny", f"the permission rules could not be evaluated: {err}", "policy")


class Changes:
    """Counts the changes of what chats allow: modes, tools and rules. Whoever waits hears of the next."""

    def __init__(self) -> None:
        self.number = 0
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Something was changed."""
        self.number += 1
        self._next.set()
        self._next = asyncio.Event()

    async def after(self, number: int) -> None:
        """Return once more than `number` changes were told."""
        while self.number <= number:
            await self._next.wait()


@dataclass(frozen=True)
class Toolbox:
    """The tools a manager has, by name."""

    tools: Mapping[str, SessionTool] = field(default_factory=dict[str, SessionTool])

    @classmethod
    def of(cls, tools: Iterable[SessionTool]) -> Toolbox:
        """A toolbox; of two tools of one name the later one counts."""
        return cls({tool.name: tool for tool in tools})

    def offered(self, names: Sequence[str] | None, mode: Mode) -> dict[str, SessionTool]:
        """The tools whose names fit one of the patterns in `names`; None offers all."""
        found = {
            name: tool
            for name, tool in self.tools.items()
            if names is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
        }
        if mode == "plan":
            found = {name: tool for name, tool in found.items() if tool.effects({}) <= {"nothing", "read"}}
        return found

    def withheld(self, name: str, names: Sequence[str] | None, mode: Mode) -> str:
        """Why a tool is not offered, "" where it is."""
        if name in self.offered(names, mode):
            return ""
        if name in self.offered(names, "all"):
            return f"{name} is not offered while planning: only tools that read are."
        return f"{name} is not among the tools of this chat."

    def missing(self, names: Sequence[str]) -> list[str]:
        """The patterns that fit no tool."""
        return [name for name in names if not fnmatch.filter(self.tools, name)]


def definition(name: str, description: str, parameters: Mapping[str, Any]) -> Json:
    """A tool in the OpenAI envelope."""
    function = {"name": name, "description": description, "parameters": dict(parameters)}
    return {"type": "function", "function": function}
