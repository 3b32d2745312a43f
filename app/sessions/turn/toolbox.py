"""The tools that a manager has, who decides about their calls, and how wide the modes are."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from app.sessions.records import Json

if TYPE_CHECKING:
    from app.sessions.tools_adapter import Decision, Mode, Tool

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


class Policy(Protocol):
    """Decides about calls, in a thread of its own. One that raises denies."""

    def decide(
        self, tool: Tool, arguments: Json, *, mode: Mode, rules: Sequence[Json], workspace: Path | None
    ) -> Decision:
        """What is to be done about a call. `rules` are the saved ones for this tool as it is now."""
        ...


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

    tools: Mapping[str, Tool] = field(default_factory=dict[str, "Tool"])

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Toolbox:
        """A toolbox; of two tools of one name the later one counts."""
        return cls({tool.name: tool for tool in tools})

    def offered(self, names: Sequence[str] | None, mode: Mode) -> dict[str, Tool]:
        """The tools whose names fit one of the patterns in `names`; None offers all."""
        found = {
            name: tool
            for name, tool in self.tools.items()
            if names is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
        }
        if mode == "plan":
            found = {name: tool for name, tool in found.items() if tool.does <= {"nothing", "read"}}
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
