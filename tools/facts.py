"""What one call would touch: its files, its commands, its address, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from tools.definition import Effect, Tool, ToolError
from tools.rules import canonical
from tools.shell_words import Command, parse_command, words_of
from tools.workspace import Place, Workspace

READING: frozenset[Effect] = frozenset(("read",))

_MOST_WORDS = 2_000
_FREE = ("timeout_s",)


@dataclass(frozen=True)
class Facts:
    """One call, looked at."""

    tool: Tool
    arguments: Mapping[str, Any]
    space: Workspace | None
    effects: frozenset[Effect]
    places: tuple[Place, ...]
    command: Command | None
    origin: str
    code_words: tuple[Place, ...]
    """Words of a command or program that lead to files which become code."""

    @property
    def root(self) -> str:
        return str(self.space.root) if self.space else ""

    @property
    def others(self) -> str:
        """The arguments beside the command, those without meaning for safety left out."""
        left_out = (self.tool.touch.command, *_FREE)
        return canonical({key: value for key, value in self.arguments.items() if key not in left_out})

    @property
    def touches_paths_only(self) -> bool:
        """Files are all that it reads or changes, so that a folder bounds it."""
        return bool(self.places) and not self.origin and self.effects <= {"read", "write"}

    @property
    def touches_an_origin_only(self) -> bool:
        """An address is all that it reaches."""
        return bool(self.origin) and not self.places and self.effects <= {"read", "network"}

    @property
    def outside(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places if not place.inside)

    @property
    def becomes_code(self) -> tuple[Place, ...]:
        written = tuple(place for place in self.places if place.code and self.effects != READING)
        return written + self.code_words


def look(arguments: Mapping[str, Any], tool: Tool, space: Workspace | None) -> Facts:
    """Look at a call. Raises ToolError for a path that leads nowhere, ValueError, OSError."""
    touch = tool.touch
    places = tuple(_places(arguments, tool, space))
    text = _string(arguments, touch.command)
    program = text or _string(arguments, touch.code)
    url = _string(arguments, touch.url)
    command = parse_command(text) if touch.command else None
    words = tuple(_code_words(program, command, space)) if program and space else ()
    origin = _origin(url) if url else ""
    return Facts(tool, arguments, space, tool.effects(arguments), places, command, origin, words)


def _places(arguments: Mapping[str, Any], tool: Tool, space: Workspace | None) -> Iterator[Place]:
    if space is None:
        if tool.touch.paths:
            raise ToolError("This chat has no workspace; start Fireside with --workspace FOLDER.")
        return
    for name in tool.touch.paths:
        value = arguments.get(name, _default(tool, name))
        for text in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield space.locate(text)


def _default(tool: Tool, name: str) -> Any:
    return tool.parameters["properties"].get(name, {}).get("default")


def _string(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name) if name else None
    return value if isinstance(value, str) else ""


def _origin(url: str) -> str:
    """Scheme, host and port; an unreadable address is its own origin, which nothing matches."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"?{url}"
    if not parts.hostname or "@" in parts.netloc:
        return f"?{url}"
    return f"{parts.scheme.lower()}://{parts.hostname}{port}"


def _code_words(program: str, command: Command | None, space: Workspace) -> Iterator[Place]:
    words: list[str] = []
    if command is not None and command.segments:
        for argv in command.segments:
            words += [part for word in argv[1:] for part in (word, word.rpartition("=")[2])]
    else:
        words += words_of(program)
    paths = [word for word in dict.fromkeys(words) if "/" in word or "." in word or word[:1] == "~"]
    for word in paths[:_MOST_WORDS]:
        try:
            place = space.locate(word)
        except ToolError:
            continue
        if place.code or place.hidden:
            yield place
