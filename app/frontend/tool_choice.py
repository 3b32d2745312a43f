"""Which tools there are for a command, and which of them it chose. Never trusts a project by itself."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from app import paths
from app.exits import Failure, usage
from app.settings import mcp
from tools.definition import Tool
from tools.registry import ToolRegistry, UnknownToolError, split_choices
from tools.trust import TrustBook


def registry(
    project: Path | None, files: Sequence[Path] = (), wanted: Sequence[str] = ("*",)
) -> ToolRegistry:
    """All tools of this person here: built-in, `files`, their own folder, a trusted project, plugins.

    Those of MCP servers too, where the settings name one that may have a tool of a name or pattern in
    `wanted`; that connects to it, for as long as the program runs.
    """
    found = ToolRegistry(
        files=files,
        user_folder=paths.config_file().parent / "tools",
        project=project,
        trust=trust_book(),
        is_own=paths.is_own,
    )
    mcp.add_tools(found, wanted)
    return found


def trust_book() -> TrustBook:
    """Which projects this person trusts."""
    return TrustBook(paths.require_own(paths.data_dir() / "trust.json"))


def choose(
    values: Sequence[str], project: Path | None, hidden: Sequence[str] = ()
) -> tuple[list[Tool], list[str]]:
    """The tools that the values of `--tools` name, loaded, and what is to be said of the rest.

    Those that fit a pattern of `hidden` are left out.
    A usage failure for a name that fits nothing, a file without tools, and when none can be loaded.
    """
    patterns, files = split_choices(values)
    for file in files:
        if not file.is_file():
            raise usage(f"There is no tool file {file}.", "`--tools` accepts names of tools and .py files.")
    found = registry(project, files, patterns)
    try:
        names = list(found.select(patterns))
    except UnknownToolError as err:
        raise unknown(err, patterns, found) from err
    names += [one.name for one in found.manifests() if one.source == "file"]
    away = [part.strip() for text in hidden for part in text.split(",")]
    names = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in away)]
    tools = found.load(dict.fromkeys(names))
    if not tools:
        reason = " ".join(found.warnings) or "No tool was named."
        raise usage(f"There is no tool to offer. {reason}", "`fireside tools list` shows all.")
    return list(tools.values()), found.warnings


def unknown(err: UnknownToolError, names: Sequence[str], found: ToolRegistry) -> Failure:
    """The failure of a name that fits no tool; it says so where an untrusted project has one."""
    hidden = [one.name for one in found.untrusted if one.name in names]
    if hidden:
        return usage(
            f"{', '.join(hidden)} belongs to this project, which is not trusted, so it is not loaded.",
            "Read the file; then `fireside trust`, or name it yourself with --tools FILE.",
        )
    return usage(str(err))
