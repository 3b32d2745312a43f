"""What one call would touch: its files, its commands, its address, found before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from tools.definition import NO_WORKSPACE, Effect, Tool, ToolError
from tools.permission import own
from tools.permission.led_to import is_led_to
from tools.permission.rules import canonical
from tools.permission.shell_words import Command, parse_command, words_of
from tools.workspace import Place, Workspace

READING: frozenset[Effect] = frozenset(("read",))

_MOST_WORDS = 2_000
_LONGEST_PATH = 4_096
_FREE = ("timeout_s",)


@dataclass(frozen=True)
class Facts:
    """One call, looked at."""

    tool: Tool
    arguments: Mapping[str, Any]
    space: Workspace | None
    effects: frozenset[Effect]
    places: tuple[Place, ...]
    """Where the arguments lead that are paths."""
    shown: Mapping[str, Path]
    """The same, by the texts of the arguments."""
    bounded: bool
    """Each argument that the tool declares as a path was one, and there was one."""
    command: Command | None
    origin: str
    named: tuple[Place, ...]
    """What words of a command, of code or of other arguments lead to, where that is off limits."""
    strays: tuple[str, ...]
    """Texts among the other arguments of a tool of somebody else that lead out of the workspace, or might."""
    unseen: bool
    """There are more such words than can be looked at."""

    @property
    def root(self) -> str:
        return str(self.space.root) if self.space else ""

    @property
    def others(self) -> str:
        """The arguments beside what the tool declares it touches, without those that have no meaning for
        safety and those that say what holds anyway."""
        touch, properties = self.tool.touch, self.tool.parameters.get("properties", {})
        left_out = {touch.command, touch.url, *touch.paths, *_FREE}
        usual = {name: one["default"] for name, one in properties.items() if "default" in one}
        kept = {name: value for name, value in self.arguments.items() if name not in left_out}
        return canonical({name: value for name, value in kept.items() if _differs(usual, name, value)})

    @property
    def leads(self) -> str:
        """Where the paths really lead, as one comparable text."""
        return canonical({text: str(path) for text, path in self.shown.items()})

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

    @cached_property
    def becomes_code(self) -> tuple[Place, ...]:
        if self.effects == READING or self.space is None:
            return tuple(place for place in self.named if not place.secret)
        root = self.space.root
        written = tuple(place for place in self.places if place.code or is_led_to(place.path, root))
        return written + tuple(place for place in self.named if not place.secret)

    @property
    def secrets(self) -> tuple[Place, ...]:
        return tuple(place for place in (*self.places, *self.named) if place.secret)


def look(
    arguments: Mapping[str, Any], tool: Tool, space: Workspace | None, no_space: str = NO_WORKSPACE
) -> Facts:
    """Look at a call. Raises ToolError for a path that leads nowhere, ValueError, OSError."""
    touch = tool.touch
    texts, bounded = _paths(arguments, tool)
    if space is None and touch.paths:
        raise ToolError(no_space)
    shown = {text: space.locate(text) for text in texts} if space else {}
    text = _string(arguments, touch.command)
    url = _string(arguments, touch.url)
    command = parse_command(text) if touch.command else None
    words = list(itertools.islice(_words(arguments, tool, command), _MOST_WORDS + 1))
    named = tuple(_off_limits(words[:_MOST_WORDS], space)) if space else ()
    return Facts(
        tool,
        arguments,
        space,
        tool.effects(arguments),
        tuple(shown.values()),
        {text: place.path for text, place in shown.items()},
        bounded,
        command,
        _origin(url) if url else "",
        named,
        tuple(itertools.islice(_strays(arguments, tool, space), 5)),
        len(words) > _MOST_WORDS,
    )


def _paths(arguments: Mapping[str, Any], tool: Tool) -> tuple[list[str], bool]:
    """The arguments that are paths, and whether each declared one is."""
    texts: list[str] = []
    bounded = True
    for name in tool.touch.paths:
        value = arguments.get(name, _default(tool, name))
        for text in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(text, str):
                texts.append(text)
            else:
                bounded = False
    return list(dict.fromkeys(texts)), bounded and bool(texts)


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


def _differs(usual: Mapping[str, Any], name: str, value: Any) -> bool:
    """Whether a value says something else than is usual; True is not 1 here."""
    return name not in usual or (type(value), value) != (type(usual[name]), usual[name])


def _words(arguments: Mapping[str, Any], tool: Tool, command: Command | None) -> Iterator[str]:
    """Everything that may be a path although no argument says so: each once."""
    return iter(dict.fromkeys(word for word in _all_words(arguments, tool, command) if _may_be_path(word)))


def _all_words(arguments: Mapping[str, Any], tool: Tool, command: Command | None) -> Iterator[str]:
    touch = tool.touch
    program = _string(arguments, touch.command) or _string(arguments, touch.code)
    if command is not None and command.segments:
        for argv in command.segments:
            yield from (part for word in argv[1:] for part in (word, word.rpartition("=")[2]))
    else:
        yield from words_of(program)
    declared = {touch.command, touch.code, touch.url, *touch.paths}
    # In what the tools that ship are given beside, a name is only a name: a text to write, to look for.
    if "nothing" in tool.does or own.is_for_files(tool) or own.keeps_notes(tool):
        return
    for name, value in arguments.items():
        if name not in declared:
            for text in _strings(value):
                yield text.removeprefix("file://")
                yield from words_of(text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in cast("Mapping[str, Any]", value).items():
            yield name
            yield from _strings(one)
    elif isinstance(value, list | tuple):
        for one in cast("Iterable[Any]", value):
            yield from _strings(one)


def _may_be_path(word: str) -> bool:
    return len(word) <= _LONGEST_PATH and ("/" in word or "." in word or word[:1] == "~")


def _strays(arguments: Mapping[str, Any], tool: Tool, space: Workspace | None) -> Iterator[str]:
    if own.is_for_files(tool) or own.keeps_notes(tool):
        return
    touch = tool.touch
    declared = {touch.command, touch.code, touch.url, *touch.paths}
    others = {name: value for name, value in arguments.items() if name not in declared}
    for text in _strings(others):
        for written in {text.removeprefix("file://"), unquote(text).removeprefix("file://")}:
            try:
                if written.strip() and (space is None or not space.locate(written).inside):
                    yield text
            except ToolError:
                # A text too long for a path is one beside the paths of a tool that names them.
                if not touch.paths:
                    yield text


def _off_limits(words: Iterable[str], space: Workspace) -> Iterator[Place]:
    for word in words:
        try:
            place = space.locate(word)
        except ToolError:
            continue
        if place.code or place.hidden or place.secret:
            yield place
