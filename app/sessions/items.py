"""Items, the nodes of a session's tree: what was said, thought, called and returned.

Immutable values in the flat shape of the wire; the store links them, nothing here knows how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from app.characters import clean_fields
from app.sessions.errors import InvalidInputError
from app.sessions.records import Json, from_json, new_id, now, shallow, to_json

TITLE_CHARS = 60
MAX_BLOCKS = 256


@dataclass(frozen=True, kw_only=True)
class Item(Json):
    """What all items have. `model` is the name of the agent that made the item, `llm_model` the GGUF's.

    It is its own JSON object too: `item["call_id"]` and `item.call_id` are the same.
    """

    type: ClassVar[str] = ""
    prefix: ClassVar[str] = "item"
    id: str = ""
    response_id: str | None = None
    status: str = "completed"
    created_at: int = field(default_factory=now)
    model: str | None = None
    llm_model: str | None = None

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", new_id(self.prefix))
        clean_fields(self)
        self.update(id=self.id, type=self.type, **shallow(self))

    def to_wire(self) -> Json:
        """The item as a flat JSON object."""
        fields = to_json(self)
        return {"id": fields.pop("id"), "type": self.type, **fields}

    @property
    def searchable(self) -> str:
        """The text that a search finds this item by."""
        return ""


@dataclass(frozen=True, kw_only=True)
class Message(Item):
    """One turn of a person, the model, or a system note."""

    type: ClassVar[str] = "message"
    prefix: ClassVar[str] = "msg"
    role: str
    content: tuple[Json, ...] = ()
    agent: str | None = None
    is_meta: bool | None = None
    """Shown to the model, hidden from the person."""
    interrupted: bool | None = None
    finish: str | None = None
    """Why the model stopped: stop, length, cancelled, error ..."""
    usage: Json | None = None
    tokens: tuple[Json, ...] | None = None
    """Tokens with their probabilities, where the request asked for them."""
    schema_errors: tuple[str, ...] | None = None
    """Why a finished answer does not satisfy the schema it was asked for."""
    seconds: float | None = None
    """How long its reply took up to its end, without the time that a person was asked."""
    tokens_per_second: float | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)

    @property
    def searchable(self) -> str:
        """The text, and the names of what is attached."""
        return "\n".join(part for part in (self.text, *names_of(self.content)) if part)


@dataclass(frozen=True, kw_only=True)
class FunctionCall(Item):
    """A call the model made. `arguments` is its own text; `approved_arguments` what ran, if edited."""

    type: ClassVar[str] = "function_call"
    prefix: ClassVar[str] = "fc"
    name: str
    call_id: str
    arguments: str = "{}"
    approved_arguments: str | None = None
    error: str | None = None
    """Why the arguments cannot be used."""


DECLINED = "The user declined this call"
STOPPED = "Cancelled: the user stopped this before it had a result."
HAD_PRINTED = " It had printed:\n"
"""Before what a call had come to when it was stopped, for the model."""


@dataclass(frozen=True, kw_only=True)
class FunctionCallOutput(Item):
    """What a call returned, whole; the model may get it shortened."""

    type: ClassVar[str] = "function_call_output"
    prefix: ClassVar[str] = "fco"
    call_id: str
    output: str
    is_error: bool | None = None
    denied: bool | None = None
    stopped: bool | None = None
    """The person stopped the call while it ran; the output is what it had come to."""
    not_run: bool | None = None
    """The call never began: it could not run as it was written, or was stopped before."""
    line_count: int | None = None
    """Lines that a program printed: `output` may hold fewer, and notes. None for what none printed."""

    @property
    def shown(self) -> str:
        """The output as a person reads it: the notes about what they did are for the model."""
        if self.denied and self.output.startswith(DECLINED):
            return f"You declined this call{self.output.removeprefix(DECLINED)}"
        return self.output.removeprefix(STOPPED).removeprefix(HAD_PRINTED) if self.stopped else self.output

    @property
    def searchable(self) -> str:
        return self.output


@dataclass(frozen=True, kw_only=True)
class Reasoning(Item):
    """The model's thought before what follows."""

    type: ClassVar[str] = "reasoning"
    prefix: ClassVar[str] = "rs"
    summary: tuple[Json, ...] = ()
    content: tuple[Json, ...] = ()
    encrypted_content: str | None = None
    interrupted: bool | None = None

    @property
    def text(self) -> str:
        """The thought, or its summary where there is no more."""
        return text_of(self.content) or text_of(self.summary)

    @property
    def searchable(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class NativeTool(Item):
    """A record of a tool run elsewhere, kept as it came."""

    type: ClassVar[str] = "native_tool"
    item: Json


@dataclass(frozen=True, kw_only=True)
class Compaction(Item):
    """A summary that stands for everything up to `last_item_id`, which is kept."""

    type: ClassVar[str] = "compaction"
    prefix: ClassVar[str] = "cmp"
    summary: str
    last_item_id: str
    token_count: int = 0
    compacted_messages: int | None = None
    dropped: bool | None = None
    """The older turns were left out without a summary."""


@dataclass(frozen=True, kw_only=True)
class ErrorItem(Item):
    """Why a turn failed. The model never sees it."""

    type: ClassVar[str] = "error"
    prefix: ClassVar[str] = "err"
    source: str
    code: str
    message: str
    remediation: str | None = None


@dataclass(frozen=True, kw_only=True)
class SlashCommand(Item):
    """A command a person gave; for the record only."""

    type: ClassVar[str] = "slash_command"
    kind: str
    name: str
    arguments: str = ""
    output: str | None = None


@dataclass(frozen=True, kw_only=True)
class TerminalCommand(Item):
    """A shell command a person ran beside the chat, or what it printed."""

    type: ClassVar[str] = "terminal_command"
    kind: str
    input: str | None = None
    stdout: str | None = None
    stderr: str | None = None


ITEM_TYPES: dict[str, type[Item]] = {
    kind.type: kind
    for kind in (
        Message,
        FunctionCall,
        FunctionCallOutput,
        Reasoning,
        NativeTool,
        Compaction,
        ErrorItem,
        SlashCommand,
        TerminalCommand,
    )
}
_ROLES = ("user", "assistant", "system")


def item_from_wire(data: Mapping[str, Any]) -> Item:
    """The item a JSON object describes. InvalidInputError for an unknown type or a bad field."""
    kind = ITEM_TYPES.get(str(data.get("type")))
    if kind is None:
        raise InvalidInputError(f"There is no item type {str(data.get('type'))[:80]!r}.")
    item = from_json(kind, data, kind.type)
    if isinstance(item, Message):
        _check_message(item)
    return item


def user_message(content: str | Sequence[Mapping[str, Any]], **fields: Any) -> Message:
    """A person's message: a text, or content blocks as they are."""
    blocks = ([input_text(content)] if content else []) if isinstance(content, str) else content
    message = Message(role="user", content=tuple(dict(block) for block in blocks), **fields)
    _check_message(message)
    return message


def arguments_of(text: str) -> Json:
    """The arguments of a call as a model wrote them; none where that is no JSON object."""
    try:
        value: object = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast(Json, value) if isinstance(value, dict) else {}


def input_text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def reasoning_item(text: str, **fields: Any) -> Reasoning:
    """A thought as an item."""
    return Reasoning(content=({"type": "reasoning_text", "text": text},), **fields)


def text_of(blocks: Sequence[Mapping[str, Any]]) -> str:
    """The texts of content blocks, joined; malformed blocks are passed over."""
    texts = (block.get("text", block.get("summary_text")) for block in blocks)
    return "".join(text for text in texts if isinstance(text, str))


def names_of(blocks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the files in content blocks, where they are known."""
    names = (block.get("filename") for block in blocks if "file_id" in block)
    return [name for name in names if isinstance(name, str)]


def ends_with_thought(output: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a response was still thinking when it ended; `output` are its items on the wire."""
    for item in reversed(output):
        match item.get("type"):
            case "reasoning":
                return True
            case "message" if not item.get("content"):
                continue
            case _:
                return False
    return False


def title_of(message: Message) -> str:
    """The title a chat gets from its first message: its words, or else its files' names; 60 characters."""
    lines = (line for line in message.text.splitlines() if not line.startswith(("[attached", "[pasted")))
    words = " ".join(lines).split() or " ".join(names_of(message.content)).split()
    return " ".join(words)[:TITLE_CHARS].strip()


def _check_message(message: Message) -> None:
    if message.role not in _ROLES:
        raise InvalidInputError(
            f"message.role should be one of {', '.join(_ROLES)}, not {message.role[:40]!r}."
        )
    if len(message.content) > MAX_BLOCKS:
        raise InvalidInputError(f"A message may have at most {MAX_BLOCKS} content blocks.")
    for block in message.content:
        kind = block.get("type")
        if kind in ("input_text", "output_text", "text"):
            if not isinstance(block.get("text"), str):
                raise InvalidInputError(f"A block of type {kind} needs text.")
        elif kind in ("input_image", "input_file", "input_audio"):
            if not isinstance(block.get("file_id"), str):
                raise InvalidInputError(f"A block of type {kind} needs a file_id.")
        else:
            raise InvalidInputError(f"There is no content block type {str(kind)[:80]!r}.")
