"""The MCP servers of the settings file: one table `[mcp.NAME]` for each. Connects to none unasked.

A project never names a server: only the person's own file counts.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from app import paths
from app.characters import quote
from app.settings import config
from app.settings.kinds import SettingError

if TYPE_CHECKING:
    from tools.definition import Tool
    from tools.mcp.servers import McpServerConfig
    from tools.registry import ToolRegistry

logger = logging.getLogger("fireside")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_FIELDS = frozenset(("command", "url", "environment", "reading"))
_SCRIPTS = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".pl", ".php", ".lua", ".jar")
_WILD = re.compile(r"[*?\[]")


def servers(wanted: Iterable[str] = ("*",), file: Path | None = None) -> list[McpServerConfig]:
    """The servers that may have a tool of one of the names or patterns in `wanted`.

    SettingError names the file and what in it cannot be used.
    """
    file = file or paths.config_file()
    given = config.table("mcp", file)
    if not given:
        return []
    patterns = _parts(wanted)
    return [
        _server(name, fields, f"{file}: [mcp.{name}]")
        for name, fields in given.items()
        if any(_may_fit(pattern, name) for pattern in patterns)
    ]


def mcp_tools(*names: str) -> list[Tool]:
    """The tools of servers that fit one of `names`, which may be patterns: to hand to a `SessionManager`.

    What is wrong with a server is logged. SettingError names what in the settings file cannot be used.
    """
    found, warnings = _connected(names)
    for warning in warnings:
        logger.warning("%s", warning)
    return [made for made in found if any(fnmatchcase(made.name, name) for name in _parts(names))]


def add_tools(registry: ToolRegistry, wanted: Iterable[str] = ("*",)) -> None:
    """Add all tools of the servers that may have one of the names or patterns in `wanted` to `registry`."""
    found, warnings = _connected(wanted)
    for made in found:
        registry.add(made)
    registry.warnings += warnings


def _connected(wanted: Iterable[str]) -> tuple[Sequence[Tool], Sequence[str]]:
    """Connect for as long as the program runs; the tools, and what is to be said of servers that fail."""
    if not (configured := servers(wanted)):
        return (), ()
    # Most people have no such server, and this import costs a third of a second.
    from tools.mcp.connection import McpConnection

    connection = McpConnection(configured)
    return connection.tools, connection.warnings


def _parts(wanted: Iterable[str]) -> list[str]:
    return [part.strip() for text in wanted for part in text.split(",")]


def _may_fit(pattern: str, server: str) -> bool:
    """Whether a tool of the server, NAME_TOOL, could fit the pattern."""
    start, fixed = f"{server}_", _WILD.split(pattern)[0]
    return fixed.startswith(start) or (fixed != pattern and start.startswith(fixed))


def _server(name: str, fields: Any, where: str) -> McpServerConfig:
    from tools.mcp.servers import McpServerConfig

    if not _NAME.fullmatch(name):
        raise SettingError(f"{where}: a server's name has 1 to 32 letters, digits, - and _.")
    if not isinstance(fields, dict):
        raise SettingError(f"{where} is a table: write [mcp.{name}] on a line of its own.")
    values = cast("dict[str, Any]", fields)
    if unknown := sorted(values.keys() - _FIELDS):
        raise SettingError(
            f"{where} expects {', '.join(sorted(_FIELDS))}, not {', '.join(map(quote, unknown[:3]))}."
        )
    command, url = values.get("command"), values.get("url")
    if (command is None) == (url is None):
        raise SettingError(f"{where} needs either a command to start or a url.")
    if url is not None and not (isinstance(url, str) and url.startswith(("http://", "https://"))):
        raise SettingError(f"{where}: url must be an http:// or https:// address, not {quote(url)}.")
    environment = values.get("environment", {})
    if not isinstance(environment, dict) or not all(
        isinstance(value, str) for value in cast("dict[str, Any]", environment).values()
    ):
        raise SettingError(f"{where}: environment must be a table of strings.")
    program = _texts(command, f"{where}: command", least=1) if command is not None else ()
    for index, part in enumerate(program):
        if (os.sep in part if index == 0 else part.endswith(_SCRIPTS)) and not part.startswith((os.sep, "-")):
            # It would be whatever has this name in the current folder.
            raise SettingError(f"{where}: command names {quote(part)} by its full path.")
    return McpServerConfig(
        name,
        program,
        url or "",
        cast("dict[str, str]", environment),
        _texts(values.get("reading", []), f"{where}: reading"),
    )


def _texts(value: Any, where: str, *, least: int = 0) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    fits = isinstance(value, list) and all(isinstance(item, str) and item for item in items)
    if not fits or len(items) < least:
        raise SettingError(f'{where} must be a list of strings, such as ["program", "argument"].')
    return tuple(items)
