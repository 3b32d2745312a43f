"""What an MCP server's tool gave back, as words: texts as they are, everything else named with its kind and
size, because a result is read as text."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from tools.output import clean_text

_MOST_NAME = 200
_MOST_FILES = 64
_MEDIA = {"image": "picture", "audio": "recording"}
_UNREAD = "not shown, only the text of a result can be read"


def words_of(result: Any) -> str:
    """The content blocks of a `CallToolResult` as one text."""
    return "\n".join(map(_words, result.content))


def files_of(result: Any, stem: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of what a `CallToolResult` holds beside text; what has no name is called `stem`."""
    for number, block in enumerate(result.content[:_MOST_FILES], 1):
        match block.type:
            case "image" | "audio":
                name, kind, data = f"{stem}-{number}", block.mime_type, block.data
            case "resource" if isinstance(data := getattr(block.resource, "blob", None), str):
                name, kind = (
                    _last_part(str(block.resource.uri)) or f"{stem}-{number}",
                    block.resource.mime_type,
                )
            case _:
                continue
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError:
            continue
        has_end = "." in name.strip(".")
        yield (name if has_end else name + (mimetypes.guess_extension(kind or "") or "")), content


def _last_part(uri: str) -> str:
    try:
        path = urlsplit(uri).path
    except ValueError:
        return ""
    return _line(unquote(path).rstrip("/").rpartition("/")[2])


def _words(block: Any) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            return _unread(_MEDIA[block.type], block.mime_type, block.data)
        case "resource" if isinstance(text := getattr(block.resource, "text", None), str):
            return text
        case "resource":
            resource = block.resource
            return _unread(f"file {_line(resource.uri)}", resource.mime_type, getattr(resource, "blob", ""))
        case "resource_link":
            return _link(block)
        case _:
            return f"[{_line(block.type)}: {_UNREAD}]"


def _unread(what: str, kind: str | None, data: str) -> str:
    about = [what, *([_line(kind)] if kind else []), _size(len(data) * 3 // 4 - data[-2:].count("="))]
    return f"[{', '.join(about)}: {_UNREAD}]"


def _link(block: Any) -> str:
    about = [_line(block.title or block.name)]
    about += [_line(block.mime_type)] if block.mime_type else []
    about += [_size(block.size)] if isinstance(block.size, int) else []
    told = f": {_line(block.description)}" if block.description else ""
    return f"[link to {_line(block.uri)}, {', '.join(about)}{told}]"


def _line(text: object) -> str:
    """A server's word on one line, of bounded length."""
    line = " ".join(clean_text(str(text)).split())
    return line if len(line) <= _MOST_NAME else f"{line[:_MOST_NAME]}..."


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
