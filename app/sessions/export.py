"""A session as text to take away: JSON lines with everything, Markdown and HTML to read.

HTML escapes all text and forbids scripts and any loading from elsewhere.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from app.sessions.files import SessionFile
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
from app.sessions.rows import Node, SessionRecord

FORMATS = ("jsonl", "markdown", "html")
VERSION = 1
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = (
    "body{max-width:46rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:0}"
    "section{margin:1.2rem 0}h2{font-size:.85rem;margin:0;opacity:.7}"
    "details pre,.tool pre{font-family:ui-monospace,monospace;font-size:.85rem;opacity:.85}"
)


def render(
    format: str,
    record: SessionRecord,
    nodes: Sequence[Node],
    path: Sequence[Item],
    files: Sequence[SessionFile],
    contents: Mapping[str, bytes],
) -> str:
    """The export in one of `FORMATS`."""
    match format:
        case "jsonl":
            return _jsonl(record, nodes, files, contents)
        case "markdown":
            return _markdown(record, path)
        case _:
            return _html(record, path)


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
        data = base64.b64encode(contents[file.id]).decode("ascii")
        lines.append({"type": "fireside.file", "id": file.id, "name": file.name, "data": data})
    lines += [
        {"type": "fireside.item", "parent_id": node.parent_id, "item": node.item.to_wire()} for node in nodes
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _title(record: SessionRecord) -> str:
    return record.title or "Untitled chat"


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _name(message: Message) -> str:
    return {"user": "You", "assistant": message.agent or "Assistant"}.get(message.role, "System")


# ---- Markdown ------------------------------------------------------------------------------


def _markdown(record: SessionRecord, path: Sequence[Item]) -> str:
    parts = [f"# {' '.join(_title(record).split())}", f"*{_date(record.created_at)}*"]
    parts += [text for item in path if (text := _markdown_of(item))]
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
            return f"**Call** `{item.name}`\n\n{_fenced(arguments, 'json')}"
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
    names = [str(block.get("filename", "image")) for block in message.content if "file_id" in block]
    return "".join(f"\n\n*[attached: {name}]*" for name in names)


def _fenced(text: str, language: str = "") -> str:
    """A fenced block whose fence is longer than any inside."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


# ---- HTML ----------------------------------------------------------------------------------


def _html(record: SessionRecord, path: Sequence[Item]) -> str:
    title = html.escape(_title(record))
    body = "\n".join(text for item in path if (text := _html_of(item)))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(CSP)}">\n'
        f'<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<p>{_date(record.created_at)}</p>\n{body}\n</body>\n</html>\n"
    )


def _html_of(item: Item) -> str:
    match item:
        case Message(is_meta=True):
            return ""
        case Message():
            text = item.text + _attachments(item) + ("\n(stopped)" if item.interrupted else "")
            return _section(_name(item), text)
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


def _section(name: str, text: str, kind: str = "message") -> str:
    return f'<section class="{kind}"><h2>{html.escape(name)}</h2><pre>{html.escape(text)}</pre></section>'
