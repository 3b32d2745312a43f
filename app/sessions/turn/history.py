"""The model's view of a conversation: items as chat turns, well-formed whatever happened to them.

Every call has exactly one result, results stand in the order of their calls, two turns of a person
never follow one another, long results are cut in the middle, and a message that was refused as too
long does not keep later ones from fitting. The items themselves stay whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from app.characters import clean
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
from app.sessions.turn.arguments import too_deep
from app.sessions.turn.media import label_of

Turn = dict[str, Any]

INTERRUPTED = "[The user stopped this reply.]"
"""Said in the person's next turn: at the end of the reply, a small model would learn to end by it."""
NO_RESULT = "[This call has no result.]"
BACKGROUND = (
    "[Background: a summary of the earlier part of this conversation. It is a record, not a request.]"
)
DROPPED = "[The earlier part of this conversation was left out.]"
TOO_LONG = "[A message that did not fit into the context was left out here.]"
MIN_TOOL_CHARS = 400


def turns_of(
    items: Sequence[Item],
    *,
    system: str | None = None,
    files: Mapping[str, Json] | None = None,
    tool_chars: int | None = None,
    mark_interrupted: bool = True,
) -> list[Turn]:
    """The chat turns for a model. `files` is what stands for each file id, `tool_chars` the most
    characters of one tool result."""
    reader = _Reader(files or {}, tool_chars, mark_interrupted)
    kept, note = after_compaction(items)
    if system:
        reader.system.append(system)
    if note:
        reader.user([{"type": "text", "text": note}])
    refused = _refused_as_too_long(kept)
    for item in kept:
        if item.id in refused:
            reader.user([{"type": "text", "text": TOO_LONG}])
        else:
            reader.take(item)
    return reader.done()


def _refused_as_too_long(items: Sequence[Item]) -> frozenset[str]:
    """The messages of the person that ended in an overflow before anything was said to them."""
    refused: set[str] = set()
    waiting: list[str] = []
    for item in items:
        match item:
            case Message(role="user"):
                waiting.append(item.id)
            case ErrorItem(code="context_overflow"):
                refused.update(waiting)
                waiting.clear()
            case _:
                waiting.clear()
    return frozenset(refused)


def after_compaction(items: Sequence[Item]) -> tuple[Sequence[Item], str]:
    """The items that the last compaction left, and the note that stands for the others."""
    places = [index for index, item in enumerate(items) if isinstance(item, Compaction)]
    if not places:
        return items, ""
    note = cast(Compaction, items[places[-1]])
    end = next((index for index, item in enumerate(items) if item.id == note.last_item_id), -1)
    opening = [item for item in items[: end + 1] if isinstance(item, Message) and item.role == "system"]
    text = DROPPED if note.dropped else f"{BACKGROUND}\n{note.summary}"
    return [*opening, *items[end + 1 :]], text


def cut_middle(text: str, limit: int) -> str:
    """`text` with its head and tail, at most `limit` characters, and a note of what is missing."""
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit} of {len(text)} characters left out ...]\n"
    keep = max(0, limit - len(note))
    head = (keep * 2) // 3
    return text[:head] + note + text[len(text) - (keep - head) :]


@dataclass
class _Asked:
    """A call of the last reply, and what it returned so far."""

    call_id: str
    shown_id: str
    """One that no other call of the reply has."""
    name: str
    output: str | None = None


class _Reader:
    """Collects turns; calls and their results stay together.

    Results are stored as they come. Most templates tell by the order alone which call one belongs to.
    """

    def __init__(self, files: Mapping[str, Json], tool_chars: int | None, mark_interrupted: bool) -> None:
        self._files = files
        self._tool_chars = tool_chars
        self._mark = mark_interrupted
        self._turns: list[Turn] = []
        self._thought = ""
        self._response: str | None = None
        self._asked: list[_Asked] = []
        self._stopped = False
        """Whether the last reply was stopped, and the model has yet to be told."""
        self.system: list[str] = []

    def take(self, item: Item) -> None:
        match item:
            case Message(role="user"):
                self.user([part for block in item.content if (part := self._part(block))])
            case Message(role="assistant"):
                self._assistant(item)
            case Message():
                if self._turns:
                    self.user([{"type": "text", "text": f"[note] {item.text}"}])
                else:
                    self.system.append(item.text)
            case Reasoning():
                self._thought = item.text
            case FunctionCall():
                self._call(item)
            case FunctionCallOutput():
                self._result(item)
            case _:
                pass

    def user(self, parts: list[Json]) -> None:
        self._close_calls()
        self._thought = ""
        if self._stopped and parts:
            parts = [{"type": "text", "text": INTERRUPTED}, *parts]
            self._stopped = False
        last = self._turns[-1] if self._turns else None
        if last is not None and last["role"] == "user":
            last["content"] = _joined(last["content"], parts)
        elif parts:
            self._turns.append({"role": "user", "content": _joined("", parts)})

    def done(self) -> list[Turn]:
        self._close_calls()
        system = "\n\n".join(text for text in self.system if text)
        return [*([{"role": "system", "content": system}] if system else []), *self._turns]

    def _assistant(self, item: Message) -> None:
        self._close_calls()
        text = item.text
        if item.interrupted and self._mark:
            self._stopped = bool(text)
            # Without a word there would be no turn between two of the person's.
            text = text or INTERRUPTED
        last = self._turns[-1] if self._turns else None
        if last is not None and last["role"] == "assistant" and "tool_calls" not in last:
            last["content"] = "\n\n".join(part for part in (last["content"], text) if part)
            return
        self._open_assistant(text, item.response_id)

    def _open_assistant(self, text: str, response_id: str | None) -> Turn:
        turn: Turn = {"role": "assistant", "content": text}
        if self._thought:
            turn["reasoning_content"] = self._thought
        self._thought = ""
        self._response = response_id
        self._turns.append(turn)
        return turn

    def _call(self, item: FunctionCall) -> None:
        last = self._turns[-1] if self._turns else None
        same = last is not None and last["role"] == "assistant" and self._response == item.response_id
        answered = any(asked.output is not None for asked in self._asked)
        if last is None or not same or self._thought or answered:
            self._close_calls()
            last = self._open_assistant("", item.response_id)
        arguments = item.arguments if item.approved_arguments is None else item.approved_arguments
        function = {"name": item.name, "arguments": _object_text(arguments)}
        calls: list[Json] = last.setdefault("tool_calls", [])
        taken = {asked.shown_id for asked in self._asked}
        shown, number = item.call_id, 1
        while shown in taken:
            shown, number = f"{item.call_id}_{number}", number + 1
        calls.append({"id": shown, "type": "function", "function": function})
        self._asked.append(_Asked(item.call_id, shown, item.name))

    def _result(self, item: FunctionCallOutput) -> None:
        waiting = (asked for asked in self._asked if asked.call_id == item.call_id and asked.output is None)
        if (asked := next(waiting, None)) is None:
            return
        output = item.output
        if self._tool_chars is not None:
            output = cut_middle(output, max(self._tool_chars, MIN_TOOL_CHARS))
        asked.output = output

    def _close_calls(self) -> None:
        for asked in self._asked:
            content = NO_RESULT if asked.output is None else asked.output
            turn = {"role": "tool", "tool_call_id": asked.shown_id, "name": asked.name, "content": content}
            self._turns.append(turn)
        self._asked = []

    def _part(self, block: Json) -> Json | None:
        file_id = block.get("file_id")
        if isinstance(file_id, str):
            return self._files.get(file_id) or {"type": "text", "text": f"[{label_of(block)}]"}
        text = block.get("text")
        return {"type": "text", "text": text} if isinstance(text, str) and text else None


def _joined(content: Any, parts: list[Json]) -> Any:
    """Texts become one text; where something else is among them, a list of parts."""
    had = list(cast("list[Json]", content)) if isinstance(content, list) else []
    if isinstance(content, str) and content:
        had = [{"type": "text", "text": content}]
    joined = [*had, *parts]
    if all(part["type"] == "text" for part in joined):
        return "\n\n".join(part["text"] for part in joined)
    return joined


def _object_text(arguments: str) -> str:
    """Arguments as a JSON object: a template may refuse what a model wrote wrongly."""
    if not arguments:
        return "{}"
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or too_deep(value):
        return json.dumps({"raw": arguments})
    # Half a character that is written as an escape would become one again where this is read.
    return json.dumps(clean(cast(Json, value)), ensure_ascii=False) if "\\u" in arguments else arguments
