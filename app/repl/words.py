"""Items of a chat in a few words: calls and their results, messages, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.frontend.call_words import target_of
from app.repl.page import ToolRow
from app.sessions.items import Compaction, FunctionCall, FunctionCallOutput, arguments_of
from app.sessions.turn.media import file_labels

_SHORT_RESULT = 48


def tool_row(call: FunctionCall | None, output: FunctionCallOutput, seconds: float | None) -> ToolRow:
    name = call.name if call else "tool"
    target = target_of(arguments_of(call.approved_arguments or call.arguments)) if call else ""
    took = "" if seconds is None else f", {_duration(seconds)}"
    lines = output.shown.strip().split("\n")
    if output.denied:
        return ToolRow(name, target, "refused", "not run", ())
    if output.not_run:
        return ToolRow(name, target, "not run", "", () if output.stopped else lines)
    if output.stopped:
        return ToolRow(name, target, "failed", f"stopped by you{took}", lines if output.shown.strip() else ())
    if output.is_error:
        return ToolRow(name, target, "failed", f"failed{took}", lines)
    if len(lines) == 1 and len(lines[0]) <= _SHORT_RESULT:
        return ToolRow(name, target, "done", f"{lines[0].removesuffix('.') or 'nothing'}{took}")
    number = len(lines) if output.line_count is None else output.line_count
    count = "1 line" if number == 1 else f"{number:,} lines"
    return ToolRow(name, target, "done", f"{count}{took}")


def shown_text(content: Sequence[Mapping[str, Any]]) -> str:
    """A message as it was written: folded parts by their words, what is attached in brackets."""
    words = (str(block.get("label") or block.get("text") or "") for block in content)
    return " ".join(["".join(words), *(f"[{label}]" for label in file_labels(content))]).strip()


def compacted(note: Compaction) -> str:
    return "the oldest turns were left out" if note.dropped else "older turns are summarised"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
