"""Accounts for the work of a render: what a template loops over, makes and prints is bounded."""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, cast

from jinja2 import pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext

from backend.chat.renderer import LimitError

MAX_OUTPUT = 8 * 1024 * 1024
"""Most characters of one rendered prompt, and of any one text made on the way."""
MAX_WORK = 1_000_000
"""Units of work in one render: a loop round, a call, an item looked at, 64 characters handled."""
MAX_WIDTH = 10_000
"""Largest width argument of a padding function."""
MAX_WORDY = 256 * 1024
"""Most characters given to a filter that takes a text apart."""
MAX_DIGITS = 2_000
"""Most decimal digits of an integer that arithmetic may make."""

_CHARS_PER_UNIT = 64
_CLOCK_EVERY = 64
_BIT_LIMIT = int(MAX_DIGITS * 3.33)
_PADDING = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
_WIDE = re.compile(r"\d{5,}|\*")
_NESTED_WIDTH = re.compile(r"\{[^{}]*\{")
_LINEAR = frozenset(
    "abs d default e escape first forceescape format from_json indent int float join last"
    " length count list lower replace safe selectattr rejectattr map string tojson trim upper items dictsort"
    " boolean callable defined divisibleby eq equalto false filter ge gt greaterthan in integer iterable le"
    " lessthan lt mapping ne none number odd even sameas sequence test true undefined".split()
)


class _Meter(threading.local):
    """The work of the render that runs on this thread; idle outside of a render."""

    active = False
    work = 0
    emitted = 0
    next_look = 0
    deadline = 0.0
    cpu_s = 0.0

    def start(self, cpu_s: float) -> None:
        self.active, self.work, self.emitted, self.next_look = True, 0, 0, 0
        self.cpu_s, self.deadline = cpu_s, time.thread_time() + cpu_s

    def stop(self) -> None:
        self.active = False

    def charge(self, units: int = 1) -> None:
        if not self.active:
            return
        self.work += units
        if self.work < self.next_look:
            return
        self.next_look = self.work + _CLOCK_EVERY
        if self.work > MAX_WORK:
            raise LimitError(f"it does more than {MAX_WORK:,} steps of work")
        if time.thread_time() > self.deadline:
            raise LimitError(f"it takes more than {self.cpu_s:g} s")

    def text(self, size: int) -> None:
        """Account for a text of `size` characters that is about to be made or was made."""
        if size > MAX_OUTPUT:
            raise LimitError(f"it makes a text of more than {MAX_OUTPUT // 2**20} MB")
        self.charge(1 + size // _CHARS_PER_UNIT)

    def emit(self, size: int) -> None:
        self.emitted += size
        if self.emitted > 2 * MAX_OUTPUT:
            raise LimitError(f"it prints more than {MAX_OUTPUT // 2**20} MB")


current = _Meter()


def look_through(value: object) -> None:
    """Charge for every item inside `value`: shared nesting can hide an endless structure."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            current.charge(1 + len(item) // _CHARS_PER_UNIT)
        elif isinstance(item, dict):
            mapping = cast("dict[object, object]", item)
            current.charge(1 + len(mapping))
            stack += mapping.values()
            stack += (key for key in mapping if isinstance(key, tuple))
        elif isinstance(item, list | tuple):
            sequence = cast("Sequence[object]", item)
            current.charge(1 + len(sequence))
            stack += sequence


# ---- what the compiled template calls ------------------------------------------------------


def loop(value: Any) -> Any:
    """The iterable of a `for`, charged by its length or, when that is unknown, round by round."""
    if isinstance(value, Sized):
        current.charge(1 + len(value))
        return value
    return iterator(value)


def iterator(value: Iterable[Any]) -> Iterator[Any]:
    for item in value:
        current.charge()
        yield item


def operand(value: Any) -> Any:
    """An operand of a comparison or a tuple, where nested values are walked by C code."""
    if isinstance(value, str):
        current.charge(1 + len(value) // 1024)
    elif isinstance(value, list | tuple | dict):
        look_through(cast("object", value))
    return cast("Any", value)


def sliced(value: Any) -> Any:
    """A text or list that is about to be cut, which copies it."""
    if isinstance(value, str):
        current.charge(1 + len(value) // _CHARS_PER_UNIT)
    elif isinstance(value, list | tuple):
        current.charge(1 + len(cast("Sized", value)) // 8)
    return cast("Any", value)


def concat(left: Any, *rest: Any) -> str:
    texts: list[str] = []
    size = 0
    for value in (left, *rest):
        operand(value)
        texts.append(str(value))
        size += len(texts[-1])
        current.text(size)
    return "".join(texts)


# ---- operators, calls, filters -------------------------------------------------------------


def check_binop(operator: str, left: Any, right: Any) -> None:
    if operator == "+":
        if isinstance(left, str) and isinstance(right, str):
            current.text(len(left) + len(right))
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            current.charge(1 + (len(cast("list[Any]", left)) + len(cast("list[Any]", right))) // 8)
    elif operator == "*":
        for sequence, count in ((left, right), (right, left)):
            if isinstance(sequence, str | list | tuple) and isinstance(count, int):
                size = len(cast("Sequence[Any]", sequence)) * max(count, 0)
                current.text(size if isinstance(sequence, str) else size * _CHARS_PER_UNIT)
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() + right.bit_length())
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int):
            _check_bits(left.bit_length() * max(right, 0))
    elif isinstance(left, str):
        if _WIDE.search(left):
            raise LimitError("it formats with a width of more than four digits")
        look_through(right)


def _check_bits(bits: int) -> None:
    if bits > _BIT_LIMIT:
        raise LimitError(f"it computes a number of more than {MAX_DIGITS:,} digits")


def check_method(owner: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a str method that would make far more text than it was given."""
    values = (*args, *kwargs.values())
    if name in _PADDING and any(isinstance(value, int) and value > MAX_WIDTH for value in values):
        raise LimitError(f"it pads a text to more than {MAX_WIDTH:,} characters")
    if name in ("format", "format_map"):
        if _WIDE.search(owner) or _NESTED_WIDTH.search(owner):
            raise LimitError("it formats with a width of more than four digits")
        look_through(values)
        current.text(len(owner) + sum(len(value) for value in values if isinstance(value, str)))
    elif name == "replace" and len(args) >= 2 and isinstance(args[1], str):
        old = str(args[0])
        found = owner.count(old) if old else len(owner) + 1
        current.text(len(owner) + found * max(0, len(args[1]) - len(old)))
    elif name == "join" and args and isinstance(args[0], Sized):
        parts = cast("Sequence[Any]", args[0])
        current.text(len(owner) * len(parts) + sum(len(part) for part in parts if isinstance(part, str)))
    elif name in ("translate", "encode", "maketrans"):
        raise SecurityError(f"str.{name} is not offered to chat templates")


def metered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or test whose work is charged by what goes in and what comes out."""
    leading = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for value in args[leading:]:
            operand(value)
            if isinstance(value, range):
                current.charge(len(value) // 8)
            if isinstance(value, str) and name not in _LINEAR:
                if len(value) > MAX_WORDY:
                    raise LimitError(f"its filter {name} takes at most {MAX_WORDY:,} characters")
                current.charge(len(value) // 8)
        for value in (*args[leading + 1 :], *kwargs.values()):
            if isinstance(value, int) and value > MAX_WIDTH:
                raise LimitError(f"it asks for a width of more than {MAX_WIDTH:,}")
        result = function(*args, **kwargs)
        if isinstance(result, str):
            current.text(len(result))
        elif isinstance(result, Iterator):
            return iterator(cast("Iterator[Any]", result))
        elif isinstance(result, list):
            current.charge(len(cast("list[Any]", result)))
        return cast("Any", result)

    return wrapped


def before_call(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    current.charge()
    if isinstance(target, LoopContext):
        return (loop(args[0]), *args[1:]) if args else args
    owner = getattr(target, "__self__", None) or getattr(
        getattr(target, "__wrapped__", None), "__self__", None
    )
    name = str(getattr(target, "__name__", ""))
    if isinstance(owner, str):
        check_method(owner, name, args, kwargs)
        current.charge(1 + len(owner) // _CHARS_PER_UNIT)
    elif isinstance(owner, int | float | bytes):
        raise SecurityError(f"{type(owner).__name__}.{name} is not offered to chat templates")
    else:
        sizes = [
            len(cast("Sized", value)) for value in (owner, *args) if isinstance(value, list | dict | tuple)
        ]
        current.charge(sum(sizes) // 8)
    return args


@pass_context
def finalize(_context: Context, value: Any) -> Any:
    """Called on every printed value: bounds the output before it is joined."""
    if not isinstance(value, str):
        look_through(value)
        value = str(value)
    current.charge()
    current.emit(len(value))
    return cast("Any", value)


def bounded_join(chunks: Iterable[str]) -> str:
    parts: list[str] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        current.text(size if size > MAX_OUTPUT else len(chunk))
    return "".join(parts)
