"""The tools that run programs: a shell command, Python code.

Both run below the supervisor and, where bubblewrap works, in the sandbox; the approval says which.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace

from tools.context import ToolContext
from tools.definition import Attempt, ToolError, Touch, tool
from tools.output import Captured
from tools.process import LONGEST_ARGUMENT, Ended
from tools.sandbox.confine import NOTE_BYTES, run_confined
from tools.sandbox.escape import find_sandbox

_LONGEST_S = 600.0
_NOTE_BYTES = 128


def _must_run(attempt: Attempt) -> None:
    text = str(attempt.arguments.get("command", attempt.arguments.get("code")))
    if attempt.no_workspace:
        raise ToolError(attempt.no_workspace)
    if not text.strip():
        raise ToolError("There is nothing to run: it is empty.")
    if "\0" in text:
        raise ToolError("It cannot be run: it contains a zero byte.")
    if len(text.encode("utf-8", "replace")) > LONGEST_ARGUMENT:
        raise ToolError("It cannot be run: the system takes no more than 128 KiB at once.")


@tool(
    does="execute", touch=Touch(command="command"), subprocess=True, time_s=_LONGEST_S + 30, check=_must_run
)
async def run_shell(
    context: ToolContext, command: str, timeout_s: float = 120.0, network: bool = False
) -> Captured:
    """Run a shell command in the workspace and read what it writes. It gets no input.

    Args:
        command: The command line, given to one shell as it stands.
        timeout_s: Seconds it may take, at most 600.
        network: Whether it needs the network.
    """
    shell = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"
    options = ("--noprofile", "--norc") if shell.endswith("bash") else ()
    return await _run((shell, *options, "-c", command), context, timeout_s, network=network)


@tool(does="execute", touch=Touch(code="code"), subprocess=True, time_s=_LONGEST_S + 30, check=_must_run)
async def run_python(
    context: ToolContext, code: str, timeout_s: float = 60.0, network: bool = False
) -> Captured:
    """Run Python code as a program of its own, in the workspace, and read what it prints.

    Args:
        code: The program. Only what it prints is seen.
        timeout_s: Seconds it may take, at most 600.
        network: Whether it needs the network.
    """
    return await _run((sys.executable, "-I", "-c", code), context, timeout_s, network=network)


async def _run(command: Sequence[str], context: ToolContext, timeout_s: float, *, network: bool) -> Captured:
    time_s = min(max(timeout_s, 1.0), _LONGEST_S)
    sandbox = context.sandbox or await asyncio.to_thread(find_sandbox)
    if context.grants is not None and context.grants.confined:
        gap = await asyncio.to_thread(sandbox.gap, context.place)
        if network or gap:
            raise ToolError("It was allowed inside the sandbox only, and would run outside it.")
    room = context.limits.output_bytes - _NOTE_BYTES - NOTE_BYTES
    limits = replace(context.limits, time_s=time_s, output_bytes=room)
    try:
        ended, left = await run_confined(command, context, sandbox, limits, network=network)
    except (ValueError, UnicodeEncodeError) as err:
        raise ToolError(f"It cannot be run: {err}") from err
    context.cancellation.raise_if_set()
    text = ended.captured.text + _note(ended, time_s)
    if left:
        text += left if text.endswith("\n") else f"\n{left}"
    return replace(ended.captured, text=text)


def _note(ended: Ended, time_s: float) -> str:
    start = "\n" if ended.captured.text and not ended.captured.text.endswith("\n") else ""
    match ended.end:
        case "timed_out":
            return f"{start}[timed out after {time_s:g} s; everything it started was stopped]"
        case "too_much_output":
            return f"{start}[stopped, because it wrote too much]"
        case _ if ended.exit_code:
            return f"{start}[exit code {ended.exit_code}]"
        case _:
            return "" if ended.captured.text else "[no output, exit code 0]"
