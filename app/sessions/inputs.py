"""What is posted to a session, looked at before anything is stored; a 400 says what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from app.sessions.errors import InvalidInputError
from app.sessions.items import Message, user_message
from app.sessions.records import Json


def read_event(event: object) -> tuple[str, Json]:
    """The type and the data of an input event."""
    if not isinstance(event, Mapping):
        raise InvalidInputError(f"An event must be an object with a type, not {_kind(event)}.")
    fields = cast("Mapping[str, Any]", event)
    data: object = fields.get("data")
    if data is not None and not isinstance(data, Mapping):
        raise InvalidInputError(f"The data of an event must be an object, not {_kind(data)}.")
    return str(fields.get("type")), dict(cast("Mapping[str, Any]", data or {}))


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
    if any(block.get("type") == "output_text" for block in message.content):
        raise InvalidInputError("A block of type output_text is what a model says; send input_text.")
    if not message.text.strip() and not any("file_id" in block for block in message.content):
        raise InvalidInputError("The message is empty: write a text, or attach a file.")
    return message


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
