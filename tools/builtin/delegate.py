"""The tool that gives a task to a child session, which never has more rights than its parent.

Starting the child is the session manager's; this file bounds depth, number, tools, mode, rounds and
time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tools.context import Cancellation, ToolContext
from tools.definition import ToolError, tool
from tools.permission.permissions import Mode

DEEPEST = 2
AT_ONCE = 4

# Each allows all that the one before it does. "plan" stands beside them: it reads without asking.
_MODES: tuple[Mode, ...] = ("none", "ask", "read", "all")


@dataclass(frozen=True)
class SpawnRequest:
    """What a child session is started with."""

    task: str
    tools: tuple[str, ...]
    """Names the child may be offered, all of them offered to the parent too."""
    mode: Mode
    depth: int
    rounds: int
    """Rounds of calls it may make."""
    time_s: float
    parent_session_id: str
    call_id: str
    cancellation: Cancellation


Spawn: TypeAlias = Callable[[SpawnRequest], Awaitable[str]]
"""Starts a child, waits for its end and returns its last answer. Cancelled: it ends the child."""


@dataclass
class Delegation:
    """The rights of one session that may delegate; one object for all its calls."""

    spawn: Spawn
    tools: tuple[str, ...] = ()
    mode: Mode = "ask"
    depth: int = 0
    """0 for the session a person talks to."""
    rounds: int = 20
    """Rounds left to this session."""
    deadline: float | None = None
    """`time.monotonic()` at which this session's time is over."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def start(self, task: str, wanted: tuple[str, ...], time_s: float, context: ToolContext) -> str:
        """Run one child within these rights, waiting while four run. Raises ToolError."""
        if self.depth >= DEEPEST:
            raise ToolError(f"Tasks are handed on at most {DEEPEST} levels deep; do this one yourself.")
        if self.rounds < 1:
            raise ToolError("No rounds are left to hand on.")
        if unknown := sorted(set(wanted) - set(self.tools)):
            raise ToolError(f"You cannot hand on tools you do not have: {', '.join(unknown)[:200]}.")
        async with self._slots:
            left_s = time_s if self.deadline is None else min(time_s, self.deadline - time.monotonic())
            if left_s <= 0:
                raise ToolError("No time is left to hand on.")
            request = SpawnRequest(
                task,
                wanted or self.tools,
                self.mode,
                self.depth + 1,
                self.rounds,
                left_s,
                context.session_id,
                context.call_id,
                context.cancellation,
            )
            return await self.spawn(request)


def narrower(one: Mode, other: Mode) -> Mode:
    """The mode that allows no more than either, for a child whose agent names one of its own."""
    if "plan" in (one, other):
        rest = other if one == "plan" else one
        return "plan" if rest in ("plan", "read", "all") else "none"
    return _MODES[min(_MODES.index(one), _MODES.index(other))]


_LONGEST_S = 3600.0


@tool(does="nothing", time_s=_LONGEST_S + 60)
async def delegate(
    context: ToolContext, task: str, tools: tuple[str, ...] = (), timeout_s: float = 600.0
) -> str:
    """Give a task to a helper with an empty conversation and read its answer. Several run at once.

    Args:
        task: All the helper needs to know; it sees nothing of this conversation.
        tools: Names of your own tools it may use; all of them when empty.
        timeout_s: Seconds it may take, at most 3,600.
    """
    if context.delegation is None:
        raise ToolError("This chat cannot hand on tasks.")
    if not task.strip():
        raise ToolError("The task is empty.")
    time_s = min(max(timeout_s, 1.0), _LONGEST_S)
    return await context.delegation.start(task, tools, time_s, context)
