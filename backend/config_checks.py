"""The values of a generation's settings, checked: what cannot be is a ValueError that names the setting."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

INT_MAX = 2**31 - 1
_SHOWN = 60


def shown(value: object) -> str:
    """`value` as an error shows it: its representation, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def number(name: str, value: object, kind: type, low: float, high: float) -> Any:
    """`value` as a number of that kind, None for None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, not {shown(value)}")
    try:
        is_finite = math.isfinite(value)
    except OverflowError:
        raise ValueError(f"{name} is too large: {shown(value)}") from None
    if kind is int and is_finite and value != int(value):
        raise ValueError(f"{name} must be a whole number, not {shown(value)}")
    if math.isnan(value) or not low <= value <= high:
        bounds = f"at least {low:g}" if high in (math.inf, INT_MAX) else f"between {low:g} and {high:g}"
        raise ValueError(f"{name} must be {bounds}, not {shown(value)}")
    return kind(value)


def choice(name: str, value: object, choices: Sequence[str]) -> None:
    """One of the words, or None."""
    if value is not None and not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {shown(value)}")


def flag(name: str, value: object) -> None:
    """True, false or None."""
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, not {shown(value)}")


def grammar(value: object) -> None:
    """The text of a grammar, or None."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"grammar must be the text of a GBNF grammar, not {type(value).__name__}")


def mapping(name: str, value: object) -> None:
    """A mapping, or None."""
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, not {type(value).__name__}")


def tool_choice(value: object) -> None:
    """How a tool is chosen: a word, a name, the object that names one, or None."""
    if value is None or (isinstance(value, str) and value):
        return
    function = cast("Mapping[str, object]", value).get("function") if isinstance(value, Mapping) else None
    name = cast("Mapping[str, object]", function).get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise ValueError(
            "tool_choice must be auto, required, none, the name of a tool or "
            f'{{"type": "function", "function": {{"name": NAME}}}}, not {shown(cast(object, value))}'
        )


def stop_strings(value: object) -> tuple[str, ...]:
    """Texts that are not empty; one is accepted by itself."""
    strings = (value,) if isinstance(value, str) else value
    if not isinstance(strings, Sequence):
        raise ValueError(f"stop must be a non-empty text or a list of them, not {shown(value)}")
    for text in cast("Sequence[object]", strings):
        if not isinstance(text, str) or not text:
            raise ValueError(f"stop must be a non-empty text or a list of them, not {shown(value)}")
    return tuple(cast("Sequence[str]", strings))


def bias(value: Mapping[Any, Any]) -> dict[int, float]:
    """Token ids to numbers; JSON has the ids as texts."""
    found: dict[int, float] = {}
    for key, amount in value.items():
        try:
            token, found[int(key)] = int(key), float(amount)
        except (TypeError, ValueError, OverflowError):
            token = -1
        if token < 0 or math.isnan(found[token]):
            raise ValueError(f"logit_bias maps token ids to numbers, not {shown(key)} to {shown(amount)}")
    return found


def adapters(value: object) -> None:
    """Pairs of a file and a scale, or None."""
    if value is None:
        return
    told = f"lora must be a list of pairs of a file and a scale, not {shown(value)}"
    if not isinstance(value, list | tuple):
        raise ValueError(told)
    for pair in cast("Sequence[object]", value):
        if not isinstance(pair, list | tuple) or len(cast("Sequence[object]", pair)) != 2:
            raise ValueError(told)
        file, scale = cast("Sequence[object]", pair)
        if (
            not isinstance(file, str | os.PathLike)
            or isinstance(scale, bool)
            or not isinstance(scale, int | float)
        ):
            raise ValueError(told)
        if not math.isfinite(scale):
            raise ValueError(f"lora: a scale must be a number, not {scale}")
