"""The arguments of a call, made fit before anybody decides about it.

Who decides, what a person sees, what a rule covers and what runs: all take the value made here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from app.characters import clean
from app.sessions.items import FunctionCall
from app.sessions.records import Json

MAX_DEPTH = 100


class UnfitError(Exception):
    """A call cannot run, whoever allows it; the text tells the model why."""


def fitting(name: str, parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> Json:
    """A copy of the arguments, if they satisfy the JSON Schema `parameters`. Raises UnfitError.

    What the schema says and this does not understand is passed over.
    """
    from backend.grammar.validate import violations  # the first call loads it

    if too_deep(arguments):
        raise UnfitError(f"The arguments of {name} are nested too deeply.")
    try:
        found: Json = json.loads(json.dumps(arguments, allow_nan=False))
    except ValueError as err:
        raise UnfitError(f"The arguments of {name} contain a number that is not finite.") from err
    if faults := violations(found, parameters):
        raise UnfitError(f"The arguments of {name} do not fit: {'; '.join(faults)}.")
    return found


def too_deep(value: Any) -> bool:
    """Whether a JSON value is nested more than 100 deep."""
    todo: list[tuple[Any, int]] = [(value, 0)]
    while todo:
        one, depth = todo.pop()
        if depth > MAX_DEPTH:
            return True
        if isinstance(one, Mapping):
            todo += [(item, depth + 1) for item in cast("Mapping[str, Any]", one).values()]
        elif isinstance(one, list | tuple):
            todo += [(item, depth + 1) for item in cast("list[Any]", one)]
    return False


def read(call: FunctionCall) -> Json:
    """The arguments as the model wrote them. Raises UnfitError where it wrote something else."""
    if call.error is not None:
        raise _unread(call, call.error)
    try:
        value: object = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as err:
        raise _unread(call, "its arguments cannot be read") from err
    if not isinstance(value, dict):
        raise _unread(call, "its arguments have no names")
    if too_deep(value):
        raise _unread(call, "its arguments are nested too deeply")
    # A half of a pair that is written as an escape became one by reading it.
    return clean(cast(Json, value))


def _unread(call: FunctionCall, why: str) -> UnfitError:
    return UnfitError(f"The call of {call.name} cannot be run: {why}. Write the whole call again.")
