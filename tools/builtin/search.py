"""The tools that look through the workspace: files by name, lines by text or pattern."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from tools.builtin.files import must_be_folder
from tools.builtin.search_files import Walk, left_out_note, name_matches
from tools.context import ToolContext
from tools.definition import Attempt, ToolError, Touch, tool
from tools.process import run_process

_MOST = 200
_MOST_PATTERN = 10_000
"""A longer pattern is left to the process that searches: reading it takes its time."""
_MOST_NAMES = 1_000
"""Characters of a pattern of names: Python reads one of brackets again for each of them."""
_TIME_S = 20.0
_ROOM = str(Path(__file__).parents[2])
_SCRIPT = """import sys
sys.path.append(sys.argv[1])
from tools.builtin.search_files import main
sys.exit(main(sys.argv[2:]))"""
_PATH = Touch(paths=("path",))


def _must_be_findable(attempt: Attempt) -> None:
    _must_be_short(attempt.arguments["pattern"])
    must_be_folder(attempt)


def _must_be_short(pattern: str) -> None:
    if len(pattern) > _MOST_NAMES:
        raise ToolError(f"The pattern of names is longer than {_MOST_NAMES:,} characters.")


@tool(does="read", touch=_PATH, check=_must_be_findable)
def find_files(context: ToolContext, pattern: str, path: str = ".") -> str:
    """Find files by name; version control, caches and installed packages are left out.

    Args:
        pattern: `*.py` fits names at any depth, `src/**/test_*.py` paths from the folder on.
        path: The folder to look in, relative to the workspace.
    """
    _must_be_short(pattern)
    root = context.path(path)
    walk = Walk(root, context.place.bar_below(root))
    found: list[str] = []
    try:
        for one in walk:
            context.cancellation.raise_if_set()
            if name_matches(one.name, pattern):
                found.append(one.name)
            if len(found) > _MOST:
                found[_MOST:] = [f"[there are more than {_MOST} files; narrow the pattern]"]
                break
    except OSError as err:
        raise ToolError(f"{path} cannot be searched: {err.strerror or err}.") from err
    lines = found or [f"No file in {path} matches {pattern}."]
    return "\n".join([*lines, *filter(None, (left_out_note(walk.left_out),))])


def _must_be_searchable(attempt: Attempt) -> None:
    arguments = attempt.arguments
    if not arguments["text"]:
        raise ToolError("There is no text to look for.")
    _must_be_short(arguments.get("files", "*"))
    if attempt.path is not None and not attempt.path.exists():
        raise ToolError(f"There is no {arguments.get('path', '.')}.")
    if arguments.get("regex") is True and len(arguments["text"]) <= _MOST_PATTERN:
        try:
            re.compile(arguments["text"])
        except (re.error, RecursionError, OverflowError) as err:
            raise ToolError(f"text is not a regular expression: {err}.") from err


@tool(does="read", touch=_PATH, time_s=60.0, check=_must_be_searchable)
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
    _must_be_short(files)
    root = context.path(path)
    # A pattern may take for ever, and text in a large tree takes long: neither may hold this process.
    job = {
        "root": str(root),
        "workspace": str(context.workspace),
        "files": files,
        "pattern": text if regex else re.escape(text),
        "ignore_case": ignore_case,
        "hidden": [str(folder) for folder in context.place.hidden],
        "most": _MOST,
    }
    command = (sys.executable, "-I", "-S", "-c", _SCRIPT, _ROOM, json.dumps(job))
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
