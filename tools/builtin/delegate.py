"""The tool that gives a task to a child session, which never has more rights than its parent."""

from __future__ import annotations

from tools.context import ToolContext
from tools.definition import ToolError, tool

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
