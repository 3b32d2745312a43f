"""The tools that look through the workspace: files by name, lines by text or pattern."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from tools.context import ToolContext
from tools.definition import ToolError, Touch, tool
from tools.process import run_process
from tools.search_files import name_matches, walk

_MOST = 200
_TIME_S = 20.0
_SCRIPT = Path(__file__).with_name("search_files.py")
_PATH = Touch(paths=("path",))


@tool(does="read", touch=_PATH)
def find_files(context: ToolContext, pattern: str, path: str = ".") -> str:
    """Find files by name; version control, caches and installed packages are left out.

    Args:
        pattern: `*.py` fits names at any depth, `src/**/test_*.py` paths from the folder on.
        path: The folder to look in, relative to the workspace.
    """
    root = context.path(path)
    found: list[str] = []
    for name, _ in walk(root, context.place.hidden):
        context.cancellation.raise_if_set()
        if name_matches(name, pattern):
            found.append(name)
        if len(found) > _MOST:
            return "\n".join([*found[:_MOST], f"[there are more than {_MOST} files; narrow the pattern]"])
    return "\n".join(found) or f"No file in {path} fits {pattern}."


@tool(does="read", touch=_PATH, time_s=60.0)
async def search_text(
    context: ToolContext,
    text: str,
    path: str = ".",
    files: str = "*",
    regex: bool = False,
    ignore_case: bool = False,
) -> str:
    """Search the lines of text files; each hit is `file:line: text`.

    Args:
        text: What to look for, as it stands, or a Python regular expression when `regex` is true.
        path: The file or folder to look in, relative to the workspace.
        files: Only files of this name or pattern, as in find_files.
        regex: Take `text` as a regular expression.
        ignore_case: Take capital and small letters as equal.
    """
    if not text:
        raise ToolError("There is no text to look for.")
    root = context.path(path)
    if not root.exists():
        raise ToolError(f"There is no {path}.")
    # A pattern may take for ever, and text in a large tree takes long: neither may hold this process.
    job = {
        "root": str(root),
        "files": files,
        "pattern": text if regex else re.escape(text),
        "ignore_case": ignore_case,
        "hidden": [str(folder) for folder in context.place.hidden],
        "most": _MOST,
    }
    command = (sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(job))
    ended = await run_process(
        command,
        folder=context.workspace,
        limits=replace(context.limits, time_s=_TIME_S, memory_bytes=1 << 30),
        cancellation=context.cancellation,
    )
    found = ended.captured.text
    context.cancellation.raise_if_set()
    if ended.end == "timed_out":
        raise ToolError(f"The search took longer than {_TIME_S:g} s; it found so far:\n{found}")
    if ended.exit_code not in (0, None):
        raise ToolError(found.strip() or "The search failed.")
    return found.rstrip("\n") or f"No line in {path} has that text."
