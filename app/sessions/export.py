"""A session as text to take away: JSON lines with everything, Markdown and HTML to read.

HTML escapes all text and forbids scripts and any loading from elsewhere.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC

from app.clock import moment
from app.files.attachments import picture_type
from app.sessions.file_records import SessionFile
from app.sessions.items import (
    Compaction,
    ErrorItem,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from app.sessions.records import Json
from app.sessions.store.rows import Node, SessionRecord
from app.sessions.turn.media import described, file_labels

FORMATS = ("jsonl", "markdown", "html")
VERSION = 1
MOST_EMBEDDED = 50_000_000
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = (
    "body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:0}"
    "section{margin:1.2rem 0}h2{font-size:.85rem;margin:0;opacity:.7}"
    "figure{margin:.8rem 0}figcaption{font-size:.85rem;opacity:.7}"
    "img{display:block;max-width:100%;max-height:32rem}"
    "details pre,.tool pre{font-family:ui-monospace,monospace;font-size:.85rem;opacity:.85}"
)


_MARKUP = re.compile(r"[\\`*_\[\]<>#&~|]")
"""What in a name would be Markdown."""


def render(
    format: str,
    record: SessionRecord,
    nodes: Sequence[Node],
    path: Sequence[Item],
    files: Sequence[SessionFile],
    contents: Mapping[str, bytes],
) -> str:
    """The export in one of `FORMATS`. A file whose content is not in `contents` is named, not written."""
    match format:
        case "jsonl":
            return _jsonl(record, nodes, files, contents)
        case "markdown":
            return _markdown(record, _described(path, files))
        case _:
            return _html(record, _described(path, files), contents)


def _described(path: Sequence[Item], files: Sequence[SessionFile]) -> list[Item]:
    """The items, whose messages name each file."""
    known = {file.id: file for file in files}
    return [
        replace(item, content=described(item.content, known)) if isinstance(item, Message) else item
        for item in path
    ]


def _jsonl(
    record: SessionRecord, nodes: Sequence[Node], files: Sequence[SessionFile], contents: Mapping[str, bytes]
) -> str:
    lines: list[Json] = [
        {
            "type": "fireside.session",
            "version": VERSION,
            "id": record.id,
            "agent": record.agent,
            "title": record.title,
            "labels": record.labels,
            "system": record.settings.get("system"),
            "created_at": record.created_at,
            "updated_at": record.updated_at,
            "leaf_id": record.leaf_id,
        }
    ]
    for file in files:
        line: Json = {"type": "fireside.file", "id": file.id, "name": file.name, "bytes": file.bytes}
        if file.id in contents:
            line["data"] = base64.b64encode(contents[file.id]).decode("ascii")
        lines.append(line)
    lines += [
        {"type": "fireside.item", "parent_id": node.parent_id, "item": node.item.to_wire()} for node in nodes
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _title(record: SessionRecord) -> str:
    return record.title or "Untitled chat"


def _date(seconds: int) -> str:
    return moment(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _name(message: Message) -> str:
    agent = " ".join((message.agent or "Assistant").split())
    return {"user": "You", "assistant": agent}.get(message.role, "System")


def _paired(path: Sequence[Item]) -> list[Item]:
    """The items with each result right behind its call, whichever of several ended first."""
    shown: list[Item] = []
    for item in path:
        place = _behind_call(shown, item) if isinstance(item, FunctionCallOutput) else len(shown)
        shown.insert(place, item)
    return shown


def _behind_call(shown: Sequence[Item], result: FunctionCallOutput) -> int:
    place = len(shown)
    for index, item in reversed(list(enumerate(shown))):
        if isinstance(item, Message):
            break
        answered = index + 1 < len(shown) and isinstance(shown[index + 1], FunctionCallOutput)
        if isinstance(item, FunctionCall) and item.call_id == result.call_id and not answered:
            place = index + 1
    return place


# ---- Markdown ------------------------------------------------------------------------------


def _markdown(record: SessionRecord, path: Sequence[Item]) -> str:
    parts = [f"# {' '.join(_title(record).split())}", f"*{_date(record.created_at)}*"]
    parts += [text for item in _paired(path) if (text := _markdown_of(item))]
    return "\n\n".join(parts) + "\n"


def _markdown_of(item: Item) -> str:
    match item:
        case Message(is_meta=True):
            return ""
        case Message():
            stopped = "\n\n*(stopped)*" if item.interrupted else ""
            return f"## {_name(item)}\n\n{item.text}{_attachments(item)}{stopped}"
        case Reasoning():
            quoted = "\n".join(f"> {line}" for line in item.text.splitlines())
            return f"> *Thought*\n>\n{quoted}"
        case FunctionCall():
            arguments = item.approved_arguments or item.arguments
            return f"**Call** `{' '.join(item.name.split())}`\n\n{_fenced(arguments, 'json')}"
        case FunctionCallOutput():
            return f"**Result**\n\n{_fenced(item.output)}"
        case Compaction():
            return f"*{_compaction(item)}.*\n\n{item.summary}".strip()
        case ErrorItem():
            return f"**Error** {item.message}"
        case _:
            return ""


def _compaction(item: Compaction) -> str:
    return "Older turns were left out" if item.dropped else "Summary of older turns"


def _attachments(message: Message) -> str:
    labels = (_MARKUP.sub(r"\\\g<0>", label) for label in file_labels(message.content))
    return "".join(f"\n\n*[attached: {label}]*" for label in labels)


def _fenced(text: str, language: str = "") -> str:
    """A fenced block whose fence is longer than any inside."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


# ---- HTML ----------------------------------------------------------------------------------


def _html(record: SessionRecord, path: Sequence[Item], contents: Mapping[str, bytes]) -> str:
    title = html.escape(_title(record))
    pictures = _Pictures(contents)
    body = "\n".join(text for item in _paired(path) if (text := _html_of(item, pictures)))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(CSP)}">\n'
        f'<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<p>{_date(record.created_at)}</p>\n{body}\n</body>\n</html>\n"
    )


class _Pictures:
    """What is attached, as parts of a page: pictures are in it, up to `MOST_EMBEDDED` bytes of them."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        self._left = MOST_EMBEDDED

    def of(self, message: Message) -> str:
        """A figure for each file of a message: the picture itself where it is one, and its name."""
        blocks = [block for block in message.content if "file_id" in block]
        return "".join(
            f"<figure>{self._picture(block, label)}<figcaption>{html.escape(label)}</figcaption></figure>"
            for block, label in zip(blocks, file_labels(blocks), strict=True)
        )

    def _picture(self, block: Json, label: str) -> str:
        content = self._contents.get(str(block["file_id"]), b"")
        # What the content is decides, never a name: a page may hold scripts, a picture of these kinds not.
        kind = picture_type(content)
        if not kind or len(content) > self._left:
            return ""
        self._left -= len(content)
        data = base64.b64encode(content).decode("ascii")
        return f'<img alt="{html.escape(label)}" src="data:{kind};base64,{data}">'


def _html_of(item: Item, pictures: _Pictures) -> str:
    match item:
        case Message(is_meta=True):
            return ""
        case Message():
            text = item.text + ("\n(stopped)" if item.interrupted else "")
            return _section(_name(item), text, figures=pictures.of(item))
        case Reasoning():
            return f"<details><summary>Thought</summary><pre>{html.escape(item.text)}</pre></details>"
        case FunctionCall():
            return _section(f"Call {item.name}", item.approved_arguments or item.arguments, "tool")
        case FunctionCallOutput():
            return _section("Result", item.output, "tool")
        case Compaction():
            return _section(
                "Older turns left out" if item.dropped else "Summary of older turns", item.summary
            )
        case ErrorItem():
            return _section("Error", item.message)
        case _:
            return ""


def _section(name: str, text: str, kind: str = "message", *, figures: str = "") -> str:
    body = f"<h2>{html.escape(name)}</h2><pre>{html.escape(text)}</pre>{figures}"
    return f'<section class="{kind}">{body}</section>'
