"""Ids for calls whose format carries none."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from backend.types import ToolCall

_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 12


def with_ids(
    calls: Iterable[ToolCall], messages: Sequence[Mapping[str, Any]] = (), *, length: int | None = None
) -> tuple[ToolCall, ...]:
    """The calls, each with an id: the model's own, or a made-up one that no call of `messages` has.

    `length` is the template's `rules.id_length`: how many ASCII alphanumerics it demands.
    """
    taken = {str(call.get("id", "")) for message in messages for call in message.get("tool_calls") or ()}
    named: list[ToolCall] = []
    for call in calls:
        call_id = call.id
        while not call_id or (call_id in taken and not call.id):
            made = "".join(secrets.choice(_ALPHABET) for _ in range(length or _LENGTH))
            call_id = made if length else f"call_{made}"
        taken.add(call_id)
        named.append(replace(call, id=call_id))
    return tuple(named)
