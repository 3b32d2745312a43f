"""What a template may do with values: operators and methods, each refused before it makes too much.

A method that is not named here is refused, so that a new Python brings no unbounded one.
"""

from __future__ import annotations

import re
import string
import sys
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, cast

from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, LoopContext, Macro
from jinja2.utils import Cycler, Joiner

from backend.chat.limits import LimitError
from backend.chat.meter import (
    BYTES_PER_UNIT,
    MAX_OUTPUT,
    char_width,
    current,
    look_through,
    loop,
    written_size,
)

MAX_WIDTH = 10_000
"""Largest width argument of a padding function."""
MAX_DIGITS = 2_000
"""Most decimal digits of an integer that arithmetic may make."""
MAX_FIELDS = 1_000
"""Most places that one format may fill."""
MAX_CASED = 1024 * 1024
"""Most characters whose case is changed: Python makes a text twelve times as large meanwhile."""

_BIT_LIMIT = int(MAX_DIGITS * 3.33)
_LONGEST_NUMBER = 400
_PERCENT = re.compile(r"%(\([^()]*\))?[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?")
_DIGITS = re.compile(r"\d+")
_BLANKS = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
_PADDING = frozenset({"center", "ljust", "rjust", "zfill"})
_CASING = frozenset({"capitalize", "casefold", "lower", "swapcase", "title", "upper"})
_BY_PAIRS = frozenset("lstrip rfind rindex rpartition rsplit rstrip strip".split())
"""Methods that may hold each character against each one of their argument."""
_SPLITTING = frozenset({"split", "rsplit", "splitlines"})
_PLAIN = frozenset(
    "count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric"
    " isprintable isspace istitle isupper lstrip partition removeprefix removesuffix rfind rindex rpartition"
    " rstrip startswith strip".split()
)
_OF_LISTS = frozenset("append clear copy count extend index insert pop remove reverse sort".split())
_COMPARING = frozenset({"count", "index", "remove", "sort"})
_OF_MAPPINGS = frozenset("clear copy get items keys pop popitem setdefault update values".split())
_OF_OTHERS: dict[type, frozenset[str]] = {
    LoopContext: frozenset({"cycle", "changed"}),
    Cycler: frozenset({"next", "reset"}),
    range: frozenset({"count", "index"}),
}


# ---- operators -----------------------------------------------------------------------------


def check_binop(operator: str, left: Any, right: Any) -> None:
    """Refuse an operation whose result would be too large."""
    current.charge()
    if isinstance(left, int) and isinstance(right, int):
        _check_integers(operator, left, right)
    elif operator == "+":
        _check_sum(left, right)
    elif operator == "*":
        for sequence, count in ((left, right), (right, left)):
            if isinstance(count, int) and isinstance(sequence, str):
                current.text(len(sequence) * max(count, 0), char_width(sequence) if sequence else 1)
            elif isinstance(count, int) and isinstance(sequence, list | tuple):
                current.charge(1 + len(cast("Sized", sequence)) * max(count, 0) // 8)
    elif operator == "%" and isinstance(left, str):
        check_percent(left, right)


def _check_integers(operator: str, left: int, right: int) -> None:
    bits = left.bit_length() + right.bit_length()
    if operator == "**":
        bits = left.bit_length() * max(right, 0)
    check_bits(bits)


def check_bits(bits: int) -> None:
    """Refuse a number of more than the most digits."""
    if bits > _BIT_LIMIT:
        raise LimitError(f"it computes a number of more than {MAX_DIGITS:,} digits")


def _check_sum(left: Any, right: Any) -> None:
    if isinstance(left, str) and isinstance(right, str):
        width = max(char_width(text) if text else 1 for text in (left, right))
        current.text(len(left) + len(right), width)
    elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
        current.charge(1 + (len(cast("Sized", left)) + len(cast("Sized", right))) // 8)


# ---- formats -------------------------------------------------------------------------------


def check_percent(layout: str, values: Any) -> None:
    """Refuse `layout % values` where its widths and values would make too long a text."""
    fields = layout.count("%")
    padding = 0
    _check_fields(fields)
    for found in _PERCENT.finditer(layout):
        name, *widths = found.groups()
        # A name with brackets in it would hide what follows it.
        if "*" in widths or (name is None and layout.startswith("(", found.start() + 1)):
            raise LimitError("it formats with a width that cannot be read")
        padding += _padding(width for width in widths if width)
    _check_formatted(layout, fields, padding, values)


def check_format(layout: str, values: Any) -> None:
    """Refuse `layout.format` where its widths and values would make too long a text."""
    fields, padding = 0, 0
    for _, name, spec, _ in string.Formatter().parse(layout):
        if name is None:
            continue
        fields += 1
        _check_fields(fields)
        if "{" in (spec or ""):
            raise LimitError("it formats with a width that cannot be read")
        padding += _padding(_DIGITS.findall(spec or ""))
    _check_formatted(layout, fields, padding, values)


def _check_fields(fields: int) -> None:
    if fields > MAX_FIELDS:
        raise LimitError(f"it formats more than {MAX_FIELDS:,} values at once")


def _padding(widths: Iterable[str]) -> int:
    found = list(widths)
    if any(len(width) > 4 for width in found):
        raise LimitError("it formats with a width of more than four digits")
    return sum(map(int, found))


def _check_formatted(layout: str, fields: int, padding: int, values: Any) -> None:
    parts: Sequence[Any] = cast("Sequence[Any]", values) if isinstance(values, tuple) else (values,)
    longest = max((written_size(part, ascii) for part in parts), default=0)
    current.text(len(layout) + padding + fields * (longest + _LONGEST_NUMBER))


# ---- calls ---------------------------------------------------------------------------------


def before_call(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Account for a call, or refuse it. Returns the positional arguments it is to be made with."""
    current.charge(2)
    if isinstance(target, LoopContext):
        return (loop(args[0]), *args[1:]) if args else args
    if isinstance(target, Macro | BlockReference | Joiner):
        current.charge(len(args) + len(kwargs))
        return args
    look_through((*args, *kwargs.values()))
    name = str(getattr(target, "__name__", ""))
    wrapped = getattr(getattr(target, "__wrapped__", None), "__self__", None)
    owner = getattr(target, "__self__", None) if wrapped is None else wrapped
    if isinstance(owner, str):
        if name in ("format", "format_map") and wrapped is None:
            raise SecurityError(f"str.{name} is offered to chat templates only by its name")
        _check_text_method(owner, name, args, kwargs)
    elif isinstance(owner, list | tuple):
        _check_list_method(cast("Sequence[Any]", owner), name, args)
    elif isinstance(owner, dict):
        _check_mapping_method(cast("dict[Any, Any]", owner), name, args, kwargs)
    elif isinstance(owner, int | float | bytes | type) or name not in _OF_OTHERS.get(
        type(cast("object", owner)), (name,)
    ):
        kind = owner if isinstance(owner, type) else type(owner)
        raise SecurityError(f"{kind.__name__}.{name} is not offered to chat templates")
    elif isinstance(target, type):
        current.charge(8 + 2 * _length(*args) + 2 * len(kwargs))
    return args


def _length(*values: object) -> int:
    return sum(len(value) for value in values if isinstance(value, Sized))


def _check_list_method(owner: Sequence[Any], name: str, args: Sequence[Any]) -> None:
    if name not in _OF_LISTS:
        raise SecurityError(f"{type(owner).__name__}.{name} is not offered to chat templates")
    if name in _COMPARING:
        look_through(owner)
    current.charge(4 + (len(owner) + _length(*args)) // 8)


def _check_mapping_method(
    owner: Mapping[Any, Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    if name not in _OF_MAPPINGS:
        raise SecurityError(f"{type(owner).__name__}.{name} is not offered to chat templates")
    current.charge(4)
    if name == "copy":
        current.charge(sys.getsizeof(owner) // BYTES_PER_UNIT)
    elif name == "update":
        current.charge(2 * (_length(*args) + len(kwargs)))


def _check_text_method(owner: str, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Refuse a str method that would make far more text than it was given."""
    values = (*args, *kwargs.values())
    width = char_width(owner) if owner else 1
    if name in _BY_PAIRS:
        check_pairs(owner, values)
    if name in ("format", "format_map"):
        check_format(owner, values)
    elif name in _PADDING:
        for value in values:
            if isinstance(value, int):
                check_width(value)
                current.text(value, 4)
    elif name == "expandtabs":
        size = next((value for value in values if isinstance(value, int)), 8)
        check_width(size)
        current.text(len(owner) + owner.count("\t") * max(size, 0), width)
    elif name == "replace":
        check_replace(owner, *args[:2])
    elif name == "join":
        _check_join(owner, args)
    elif name in _CASING:
        check_casing(owner)
    elif name in _SPLITTING:
        current.charge(_parts(owner, name, values))
    elif name not in _PLAIN:
        raise SecurityError(f"str.{name} is not offered to chat templates")
    current.charge(1 + len(owner) * width // BYTES_PER_UNIT)


def check_pairs(text: str, values: Iterable[Any]) -> None:
    """Account for the work of a method that holds every character against every one of an argument."""
    for value in values:
        if isinstance(value, str):
            current.charge(1 + len(text) * len(value) // 256)


def check_width(width: int) -> None:
    """Refuse to pad to a width that no prompt needs."""
    if abs(width) > MAX_WIDTH:
        raise LimitError(f"it pads a text to more than {MAX_WIDTH:,} characters")


def check_casing(text: str) -> None:
    """Refuse to change the case of a very long text; account for a shorter one."""
    if len(text) > MAX_CASED:
        raise LimitError(f"it changes the case of more than {MAX_CASED // 2**20} MB of text")
    current.charge(len(text) // 8)


def check_replace(text: str, old: Any = "", new: Any = "") -> None:
    """Refuse a replacement that makes too long a text."""
    if not isinstance(old, str) or not isinstance(new, str):
        return
    found = text.count(old) if old else len(text) + 1
    width = max(char_width(part) if part else 1 for part in (text, new))
    current.text(len(text) + found * max(0, len(new) - len(old)), width)


def _check_join(owner: str, args: Sequence[Any]) -> None:
    if not args:
        return
    if not isinstance(args[0], str | list | tuple):
        raise LimitError("it joins something that is not a list; use the filter join")
    parts = cast("Sequence[Any]", args[0])
    texts = [part for part in parts if isinstance(part, str)]
    width = max((char_width(text) for text in (owner, *texts) if text), default=1)
    current.text(len(owner) * len(parts) + sum(map(len, texts)), width)


def _parts(text: str, name: str, values: Sequence[Any]) -> int:
    """Units for the parts a text is split into, each an object of its own."""
    separator = next((value for value in values if isinstance(value, str)), None)
    signs = [separator] if separator and name != "splitlines" else _BLANKS
    count = sum(map(text.count, signs))
    most = next((value for value in values if type(value) is int and value >= 0), MAX_OUTPUT)
    return 2 * (1 + min(count, most))
