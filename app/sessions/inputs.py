"""What is posted to a session, as typed values, and their shape on the wire: read here, and written here.

Looked at before anything is stored; a 400 says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from app.sessions.errors import InvalidInputError
from app.sessions.items import (
    FunctionCallOutput,
    Message,
    SlashCommand,
    TerminalCommand,
    item_from_wire,
    user_message,
)
from app.sessions.records import Json, new_id

if TYPE_CHECKING:
    from app.sessions.snapshot import Ack


@dataclass(frozen=True)
class Interrupt:
    """Stop what runs."""


@dataclass(frozen=True)
class Compact:
    """Summarise all turns but the last."""


@dataclass(frozen=True)
class Resolution:
    """The answer to a question: `{action, content?}`, as whoever asked may take it."""

    elicitation_id: str
    result: Mapping[str, Any]


Input: TypeAlias = (
    Message | FunctionCallOutput | SlashCommand | TerminalCommand | Interrupt | Compact | Resolution
)


@runtime_checkable
class Poster(Protocol):
    """Takes inputs in this process."""

    async def post(self, session_id: str, given: Input, /) -> Ack: ...


async def post(namespace: Any, session_id: str, given: Input) -> Any:
    """Post to a session; a namespace that stands for one behind a wire gets the shape of the wire."""
    if isinstance(namespace, Poster):
        return await namespace.post(session_id, given)
    return await namespace.post_event(session_id, input_to_wire(given))


def input_from_wire(event: object) -> Input:
    """The input that an event `{type, data}` describes. InvalidInputError for any other."""
    if not isinstance(event, Mapping):
        raise InvalidInputError(f"An event must be an object with a type, not {_kind(event)}.")
    fields = cast("Mapping[str, Any]", event)
    given: object = fields.get("data")
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInputError(f"The data of an event must be an object, not {_kind(given)}.")
    data = cast("Mapping[str, Any]", given or {})
    match str(fields.get("type")):
        case "message":
            if data.get("role", "user") != "user":
                raise InvalidInputError("Only messages of the user are posted.")
            return posted_message(data.get("content"))
        case "function_call_output":
            call_id, output = data.get("call_id"), data.get("output")
            if not isinstance(call_id, str) or not isinstance(output, str):
                raise InvalidInputError("A function_call_output needs a call_id and an output text.")
            return FunctionCallOutput(call_id=call_id, output=output)
        case "slash_command" | "terminal_command" as kind:
            item = item_from_wire({**data, "type": kind})
            return cast("SlashCommand | TerminalCommand", replace(item, id=new_id("item")))
        case "interrupt" | "stop_session":
            return Interrupt()
        case "compact":
            return Compact()
        case "approval":
            if not isinstance(elicitation_id := data.get("elicitation_id"), str):
                raise InvalidInputError("An approval needs the elicitation_id of what it answers.")
            return Resolution(elicitation_id, data)
        case kind:
            raise InvalidInputError(f"There is no input type {kind[:80]!r}.")


def input_to_wire(given: Input) -> Json:
    """The event that `input_from_wire` reads."""
    match given:
        case Message():
            return _event("message", role="user", content=list(given.content))
        case FunctionCallOutput():
            return _event("function_call_output", call_id=given.call_id, output=given.output)
        case SlashCommand() | TerminalCommand():
            return _event(given.type, **given.to_wire())
        case Interrupt():
            return _event("interrupt")
        case Compact():
            return _event("compact")
        case Resolution():
            return _event("approval", **{**given.result, "elicitation_id": given.elicitation_id})


def _event(kind: str, /, **data: Any) -> Json:
    return {"type": kind, "data": data}


def posted_message(content: object) -> Message:
    """A person's message: a text or content blocks, with something in them."""
    if isinstance(content, str):
        message = user_message(content)
    else:
        if not isinstance(content, list | tuple):
            raise InvalidInputError(f"content must be a text or a list of blocks, not {_kind(content)}.")
        blocks = cast("Sequence[object]", content)
        for block in blocks:
            if not isinstance(block, Mapping):
                raise InvalidInputError(f"A content block must be an object with a type, not {_kind(block)}.")
        message = user_message(cast("Sequence[Mapping[str, Any]]", blocks))
    return checked_message(message)


def checked_message(message: Message) -> Message:
    """The message, where a person may have said it."""
    if message.role != "user":
        raise InvalidInputError("Only messages of the user are posted.")
    if any(block.get("type") == "output_text" for block in message.content):
        raise InvalidInputError("A block of type output_text is what a model says; send input_text.")
    if not message.text.strip() and not any("file_id" in block for block in message.content):
        raise InvalidInputError("The message is empty: write a text, or attach a file.")
    return message


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
