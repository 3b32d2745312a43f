"""The text of a file from outside, and the JSON in it: bounded in bytes, values, depth and numbers."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

from app.bounded import read_bounded
from app.sessions.errors import InvalidInputError

MAX_BYTES = 200_000_000
MAX_LISTS = 3_000_000
"""Lists and objects in one JSON text, as far as their brackets tell."""
MAX_PARTS = 12_000_000
"""Commas and colons in one, which stand for its values."""
MAX_DEPTH = 32
"""Of what is kept as it is."""
MAX_NUMBER = 2**63 - 1
_MAX_DIRECTORY = 8_000_000
"""Bytes of a zip archive's list of its files."""


class JsonError(ValueError):
    """Why a JSON text is not taken; a part of a sentence."""


def content_of(path: Path) -> bytes:
    """The content of an export, out of the archive that it may be in. InvalidInputError says why not."""
    try:
        content = read_bounded(path, MAX_BYTES)
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or err
        raise InvalidInputError(f"{path} cannot be read: {reason}.") from err
    return _unzipped(path.name, content) if content[:2] == b"PK" else content


def parsed(text: str) -> Any:
    """The value of a JSON text. JsonError says why it is not taken."""
    if text.count("[") + text.count("{") > MAX_LISTS:
        raise JsonError(f"it contains more than {MAX_LISTS:,} lists and objects")
    if text.count(",") + text.count(":") > MAX_PARTS:
        raise JsonError(f"it contains more than {MAX_PARTS:,} values")
    try:
        return json.loads(text)
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    except ValueError as err:
        raise JsonError(str(err)) from err


def require_plain(value: Any) -> None:
    """JsonError unless `value` can be kept and written again: flat enough, with numbers that JSON has."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for one in level:
            match one:
                case dict():
                    if not all(isinstance(key, str) for key in cast("dict[Any, Any]", one)):
                        raise JsonError("a name in it is not text")
                    below += cast("dict[Any, Any]", one).values()
                case list():
                    below += cast("list[Any]", one)
                case str() | bool() | None:
                    pass
                case int() if abs(one) <= MAX_NUMBER:
                    pass
                case float() if math.isfinite(one):
                    pass
                case int() | float():
                    raise JsonError("it contains a number that is too large")
                case _:
                    raise JsonError(f"it contains a {type(one).__name__}, which JSON cannot express")
        if not below:
            return
        level = below
    raise JsonError(f"it is nested more than {MAX_DEPTH} deep")


def _unzipped(name: str, content: bytes) -> bytes:
    try:
        _check_directory(name, content)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            inner = next(
                (item for item in archive.infolist() if item.filename.endswith("conversations.json")), None
            )
            if inner is None or inner.file_size > MAX_BYTES:
                raise InvalidInputError(
                    f"{name} contains no conversations.json that is small enough to read."
                )
            if inner.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InvalidInputError(f"{name} is compressed in a way that is not supported.")
            with archive.open(inner) as file:
                # What the archive says of its size need not be true.
                text = file.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, ValueError, struct.error, zlib.error) as err:
        raise InvalidInputError(f"{name} is a damaged archive: {err}.") from err
    if len(text) > MAX_BYTES:
        raise InvalidInputError(f"{name} contains no conversations.json that is small enough to read.")
    return text


def _check_directory(name: str, content: bytes) -> None:
    """Refuse a list of files that would take all memory before anything of it can be looked at."""
    end = content.rfind(b"PK\5\6")
    size = int.from_bytes(content[end + 12 : end + 16], "little") if end >= 0 else 0
    if size > _MAX_DIRECTORY or content.count(b"PK\1\2") > _MAX_DIRECTORY // 46:
        raise InvalidInputError(f"{name} contains too many files.")
