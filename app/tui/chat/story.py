"""What a session's items look like on the page: one entry each, and the row with the name of who answers.

Pure: items in, entries out. What is being written is `reply`'s matter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from app.clock import moment
from app.clock import now as time_now
from app.frontend.call_words import target_of
from app.frontend.draft import draft_of
from app.frontend.model_name import short_name
from app.sessions.items import (
    Compaction,
    ErrorItem,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    NativeTool,
    Reasoning,
    SlashCommand,
    TerminalCommand,
    arguments_of,
)
from app.terminal.figures import byte_size, duration
from app.tui.transcript.entries import Answer, ErrorEntry, NameRow, Note, Thought, UserTurn
from app.tui.transcript.entry import Entry
from app.tui.transcript.picture_entry import PictureRow
from app.tui.transcript.tool_entry import State, ToolCall

STOPPED_BY_YOU = "stopped by you"
NOT_RUN = "not run"
_FILES = ("input_file", "input_audio")
CUT, CUT_THINKING = "cut off", "cut off while it thought"
"""What a name row tells of a reply that reached its limit."""
SILENT = "ended without an answer"
"""What it tells of a reply that the model ended without a word or a call."""


@dataclass
class Story:
    """The entries of a chat's active path. `entries` are in order; calls are found by their id."""

    name: str = "model"
    """Who answers, where an item does not say which model it was."""
    entries: list[Entry] = field(default_factory=list[Entry])
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    names: dict[str, NameRow] = field(default_factory=dict[str, NameRow])
    """The name row of each response."""
    items: dict[str, Item] = field(default_factory=dict[str, Item])

    def tell(self, items: Iterable[Item]) -> list[Entry]:
        """Add items in their order; returns the new entries."""
        new: list[Entry] = []
        for item in items:
            if item.id not in self.items:
                self.items[item.id] = item
                new += self._entries(item)
        self.entries += new
        return new

    def _entries(self, item: Item) -> list[Entry]:
        match item:
            case Message(role="user"):
                return [] if item.is_meta else user_entries(item)
            case Message(role="assistant"):
                return self._answer(item)
            case Reasoning():
                return [*self._name(item), Thought(item.text, id=item.id)]
            case FunctionCall():
                return [*self._name(item), self._call(item)]
            case FunctionCallOutput():
                self._result(item)
                return []
            case Compaction():
                return [compaction_note(item)]
            case ErrorItem():
                return [error_entry(item)]
            case _:
                return other_entries(item)

    def _name(self, item: Item) -> list[Entry]:
        """The name row of the item's response, once."""
        if item.response_id is None or item.response_id in self.names:
            return []
        row = NameRow(short_name(item.llm_model) if item.llm_model else self.name)
        self.names[item.response_id] = row
        return [row]

    def _answer(self, item: Message) -> list[Entry]:
        head = self._name(item)
        row = self.names.get(item.response_id or "")
        if row is not None:
            before = next(islice(reversed(self.items.values()), 1, None), None)
            row.facts = stored_facts(item, thinking=isinstance(before, Reasoning) and not item.text)
        return [*head, Answer(item.text, id=item.id)]

    def _call(self, item: FunctionCall) -> ToolCall:
        call = ToolCall(
            item.name,
            target_of(arguments_of(item.approved_arguments or item.arguments)),
            arguments=item.arguments,
            approved_arguments=item.approved_arguments,
            state="waits",
            id=item.id,
        )
        self.calls[item.call_id] = call
        return call

    def _result(self, item: FunctionCallOutput) -> None:
        call = self.calls.get(item.call_id)
        if call is None:
            return
        call.output = item.shown
        end_call(call, item)


def user_entries(item: Message) -> list[Entry]:
    """A person's message: its words, pastes as the words that stand for them, files as rows."""
    text, folds = draft_of(item.content)
    files: list[str] = []
    pictures: list[Entry] = []
    for block in item.content:
        kind = block.get("type")
        if kind == "input_image":
            name, size = file_words(block)
            file_id = str(block.get("file_id") or "")
            pictures.append(PictureRow(name, size=size, file_id=file_id, id=item.id))
        elif kind in _FILES:
            files.append("  ".join(part for part in file_words(block) if part))
    return [
        UserTurn(
            text.strip("\n"), time=clock(item.created_at), attachments=files, id=item.id, in_full=folds.unfold
        ),
        *pictures,
    ]


def file_words(block: Mapping[str, Any]) -> tuple[str, str]:
    """Name and size of an attached file."""
    size = block.get("bytes")
    name = str(block.get("filename") or "file")
    return name, byte_size(size) if isinstance(size, int) else ""


def clock(seconds: int) -> str:
    """The time of day of a message; its date where that is another one."""
    then, now = moment(seconds).timetuple(), moment(time_now()).timetuple()
    if (then.tm_year, then.tm_yday) == (now.tm_year, now.tm_yday):
        return time.strftime("%H:%M", then)
    return f"{then.tm_mday} {time.strftime('%b', then)}"


def stored_facts(item: Message, *, thinking: bool = False) -> tuple[str, ...]:
    """What is known of a reply from the store; `thinking`: it ended with its thought."""
    spent = None if item.seconds is None else duration(item.seconds)
    if item.interrupted:
        return (f"stopped after {spent}" if spent else "stopped",)
    known = [spent] if spent else []
    if item.tokens_per_second and spent:
        known.append(f"{item.tokens_per_second:,.0f} tok/s")
    if item.finish == "length":
        return (*known, CUT_THINKING if thinking else CUT)
    if item.finish == "stop" and not item.text:
        return (*known, SILENT)
    if known:
        return tuple(known)
    tokens = (item.usage or {}).get("output_tokens")
    return (f"{tokens:,} token{'' if tokens == 1 else 's'}",) if isinstance(tokens, int) else ()


def ends_without_words(output: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a response, by its items on the wire, ended without a word and without a call."""
    return bool(output) and output[-1].get("type") == "message" and not output[-1].get("content")


def compaction_note(item: Compaction) -> Note:
    """Turns that were summarised or left out."""
    turns = item.compacted_messages
    what = f"{turns} messages" if turns else "older turns"
    if item.dropped:
        return Note(f"{what} left out, the model no longer sees them", lost=True, id=item.id)
    return Note(f"{what} summarised", item.summary, id=item.id)


def error_entry(item: ErrorItem) -> ErrorEntry:
    """Why a turn failed, as it was stored."""
    sentence, _, cause = item.message.partition("\n")
    return ErrorEntry(sentence, cause, remedy=item.remediation or "", id=item.id)


def other_entries(item: Item) -> list[Entry]:
    """Records of commands, and of tools that ran elsewhere."""
    match item:
        case TerminalCommand():
            output = "".join(part for part in (item.stdout, item.stderr) if part)
            return [ToolCall("!", item.input or "", output=output, facts=lines_of(output), id=item.id)]
        case SlashCommand():
            return [Note(f"/{item.name} {item.arguments}".strip(), item.output or "", id=item.id)]
        case NativeTool():
            name = str(item.item.get("type", "tool"))
            return [ToolCall(name, output=json.dumps(item.item, ensure_ascii=False, indent=1), id=item.id)]
        case Message(role="system"):
            return [Note("system note", item.text, id=item.id)]
        case _:
            return []


def end_call(call: ToolCall, item: FunctionCallOutput, seconds: float | None = None) -> None:
    """The call has its result."""
    state: State = "done"
    facts = count_words(item.line_count) if item.line_count is not None else lines_of(item.output)
    if item.denied or item.not_run:
        state, facts, seconds = "denied", NOT_RUN, None
    elif item.stopped:
        state, facts = "failed", STOPPED_BY_YOU
    elif item.is_error:
        state, facts = "failed", "failed"
    elif call.diff:
        facts = ""  # its lines are told as those of a change
    if seconds is not None:
        spent = f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
        facts = f"{facts}, {spent}" if facts else spent
    call.end(state, facts)


def lines_of(output: str) -> str:
    """`41 lines`; empty for no output."""
    if not output:
        return ""
    return count_words(output.rstrip("\n").count("\n") + 1)


def count_words(lines: int) -> str:
    """`41 lines`; empty for none."""
    return f"{lines:,} line{'s' * (lines != 1)}" if lines else ""


def common_start(before: Story, after: Story) -> int:
    """With how many entries of the same items two stories begin. What is of no item is in none of both."""
    count = 0
    for one, other in zip(_keys(before), _keys(after), strict=False):
        if one != other or not one:
            break
        count += 1
    return count


def _keys(story: Story) -> Iterator[str]:
    """What each entry stands for: its item, or the response whose name it is."""
    named = {id(row): response_id for response_id, row in story.names.items()}
    return (entry.id or named.get(id(entry), "") for entry in story.entries)
