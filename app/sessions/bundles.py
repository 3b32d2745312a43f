"""Agent bundles: a .tar.gz with a configuration in YAML or JSON. Nothing of one is written anywhere.

A bundle comes from outside: each of its parts is read by what is needed of it, and within bounds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast

from app.sessions.agents import Agent, agent_from_wire
from app.sessions.errors import InvalidInputError
from app.sessions.import_text import JsonError, require_plain
from app.sessions.records import Json

CONFIG_NAMES = ("config.yaml", "config.yml", "config.json")
MAX_MEMBERS = 200
MAX_UNPACKED = 5_000_000
MAX_STREAMS = 200
"""Archives one behind the other; what is behind each is copied once."""
MAX_CONFIG = 200_000
MAX_PARTS = 20_000
"""Scalars, lists and objects in a configuration in YAML, which is read slowly."""
MAX_DEPTH = 32
_MAX_NUMBER_CHARS = 400
_BLOCK = 512
_PIECE = 64 * 1024
_GZIP = b"\x1f\x8b"
_FILES, _FOLDER, _NOTES = (b"0", b"\0", b"7"), b"5", (b"x", b"g", b"L")
"""Kinds of members. Notes are what a tar program has to say of a time, or of a name that is long."""


class _Member(NamedTuple):
    name: str
    kind: bytes
    content: bytes


def agent_from_bundle(bundle: bytes, filename: str = "") -> Agent:
    """The agent in a .tar.gz with a configuration.

    InvalidInputError for a bad archive, links, ways out of it, too much in it, no configuration; it
    names the file, the member, and in the configuration the line.
    """
    try:
        text, name = _config_of(_unpacked(bundle))
        agent = agent_from_wire(_parsed(text, name))
        if "://" in (agent.model or "") or (agent.model or "").lower().startswith(("server:", "unix:")):
            # The chats with it would go wherever the maker of the bundle likes.
            raise InvalidInputError("A bundle names a model of this machine, not one of a server.")
        return agent
    except InvalidInputError as err:
        if not filename:
            raise
        raise InvalidInputError(f"{filename}: {err.message}") from err


def _unpacked(bundle: bytes) -> bytes:
    """The archive, decompressed no further than it may be large."""
    found, packed, place = bytearray(), memoryview(bundle), 0
    streams = 0
    try:
        while bundle.startswith(_GZIP, place):
            streams += 1
            if streams > MAX_STREAMS:
                raise InvalidInputError(f"The bundle is too large: over {MAX_STREAMS} gzip streams.")
            reader = zlib.decompressobj(wbits=31)
            while not reader.eof:
                piece = packed[place : place + _PIECE]
                if not piece:
                    raise InvalidInputError("The bundle is not a .tar.gz archive: it ends too early.")
                found += reader.decompress(piece, MAX_UNPACKED + 1 - len(found))
                if len(found) > MAX_UNPACKED or reader.unconsumed_tail:
                    raise InvalidInputError(f"The bundle is too large: over {MAX_UNPACKED:,} bytes unpacked.")
                place += len(piece) - len(reader.unused_data)
    except zlib.error as err:
        raise InvalidInputError(f"The bundle is not a .tar.gz archive: {err}.") from err
    if not found:
        raise InvalidInputError("The bundle is not a .tar.gz archive.")
    return bytes(found)


def _config_of(archive: bytes) -> tuple[bytes, str]:
    found: tuple[bytes, str] | None = None
    for member in _members(archive):
        path = PurePosixPath(member.name)
        shown = repr(member.name[:80])
        if path.is_absolute() or ".." in path.parts:
            raise InvalidInputError(f"The bundle has a path that leads outside it: {shown}.")
        if member.kind in _NOTES or member.kind == _FOLDER:
            continue
        if member.kind not in _FILES:
            raise InvalidInputError(f"The bundle contains something that is not a plain file: {shown}.")
        if path.name in CONFIG_NAMES and len(path.parts) <= 2 and found is None:
            if len(member.content) > MAX_CONFIG:
                raise InvalidInputError(
                    f"The bundle's {shown} has {len(member.content):,} bytes, and may have {MAX_CONFIG:,}."
                )
            found = member.content, path.name
    if found is None:
        raise InvalidInputError("The bundle has no config.yaml.")
    return found


def _members(archive: bytes) -> Iterator[_Member]:
    place = 0
    for _ in range(MAX_MEMBERS + 1):
        header = archive[place : place + _BLOCK]
        if not header.strip(b"\0"):
            return
        name, kind, size = _header_of(header)
        place += _BLOCK
        if place + size > len(archive):
            raise InvalidInputError(f"The bundle ends within {name[:80]!r}.")
        yield _Member(name, kind, archive[place : place + size])
        place += -(-size // _BLOCK) * _BLOCK
    raise InvalidInputError(f"The bundle is too large: over {MAX_MEMBERS} members.")


def _header_of(header: bytes) -> tuple[str, bytes, int]:
    """The name, the kind and the size that the head of a member tells."""
    name = _text(header[:100])
    if header[257:262] == b"ustar" and header[262:263] == b"\0" and (start := _text(header[345:500])):
        name = f"{start}/{name}"
    blank = header[:148] + b" " * 8 + header[156:]
    if len(header) != _BLOCK or _octal(header[148:156]) != sum(blank):
        raise InvalidInputError("The bundle is not a .tar.gz archive: the head of a member is damaged.")
    size = _octal(header[124:136])
    if size is None:
        raise InvalidInputError(f"The bundle does not give the size of {name[:80]!r} in digits.")
    return name, header[156:157], size


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "replace")


def _octal(data: bytes) -> int | None:
    digits = data.strip(b" \0")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else None


# ---- the configuration ---------------------------------------------------------------------


def _parsed(text: bytes, name: str) -> Json:
    try:
        data = json.loads(text) if name.endswith(".json") else _of_yaml(text)
        require_plain(data)
    except ImportError as err:
        raise InvalidInputError("Reading config.yaml needs PyYAML; use config.json instead.") from err
    except (InvalidInputError, JsonError) as err:
        raise InvalidInputError(f"The bundle's {name} cannot be read: {str(err).rstrip('.')}.") from err
    except Exception as err:  # The parsers of both raise many kinds for text from outside.
        raise InvalidInputError(f"The bundle's {name} cannot be read: {str(err)[:300]}.") from err
    if not isinstance(data, dict):
        raise InvalidInputError(f"The bundle's {name} should be an object.")
    return cast(Json, data)


def _of_yaml(text: bytes) -> Any:
    """The value of a YAML text, read twice: first for what would make the second time very long."""
    import yaml

    depth = 0
    parse: Callable[..., Iterator[Any]] = cast(Any, yaml).parse
    for count, event in enumerate(parse(text, yaml.SafeLoader)):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise InvalidInputError(f"line {line} is an alias of another part, which is not accepted")
        if count > MAX_PARTS:
            raise InvalidInputError(f"line {line} is beyond {MAX_PARTS:,} parts")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InvalidInputError(f"line {line} is nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _is_long_number(event.value):
            raise InvalidInputError(f"line {line} contains a number that is too large")
    return yaml.safe_load(text)


def _is_long_number(text: str) -> bool:
    return len(text) > _MAX_NUMBER_CHARS and not text.strip("0123456789abcdefABCDEFxXo_:.+-")
