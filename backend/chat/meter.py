"""Accounts for the work of a render: what a template loops over, makes and prints is bounded.

A unit of work stands for one step, and for 64 bytes made or looked at, so that the limit of work is
a limit of memory too.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Sequence, Sized, ValuesView
from typing import Any, cast

from jinja2 import pass_context
from jinja2.runtime import Context

from backend.chat.limits import LimitError

MAX_OUTPUT = 8 * 1024 * 1024
"""Most characters of one rendered prompt, and of any one text made on the way."""
MAX_WORK = 1_000_000
"""Units of work in one render."""
MAX_CHAIN = 40
"""Most filters that may wait for one another to give their next item."""

BYTES_PER_UNIT = 64
_CLOCK_EVERY = 64
_PIECE = 64 * 1024
_OPAQUE = 200
"""Characters of what stands for an object that is no plain data."""


class _Meter(threading.local):
    """The work of the render that runs on this thread; idle outside of a render."""

    active = False
    work = 0
    emitted = 0
    next_look = 0
    deadline = 0.0
    cpu_s = 0.0
    max_output = MAX_OUTPUT

    def start(self, cpu_s: float, max_output: int) -> None:
        self.active, self.work, self.emitted, self.next_look = True, 0, 0, 0
        self.cpu_s, self.deadline, self.max_output = cpu_s, time.thread_time() + cpu_s, max_output

    def stop(self) -> None:
        self.active = False

    def charge(self, units: int = 1) -> None:
        """Account for `units` of work that are about to be done."""
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

    def text(self, size: int, width: int = 1) -> None:
        """Account for a text of `size` characters of `width` bytes that is about to be made."""
        self.room(size)
        self.charge(1 + size * width // BYTES_PER_UNIT)

    def made(self, text: str) -> None:
        """Account for a text that was made."""
        self.text(len(text), char_width(text))

    def room(self, size: int) -> None:
        """Refuse a text of more than the most characters."""
        if size > MAX_OUTPUT:
            raise LimitError(f"it makes a text of more than {MAX_OUTPUT // 2**20} MB")

    def emit(self, size: int) -> None:
        self.emitted += size
        if self.emitted > 2 * self.max_output:
            raise LimitError(f"it prints more than {_told(self.max_output)}")


current = _Meter()


def _told(size: int) -> str:
    return f"{size // 2**20} MB" if size >= 2**20 else f"{size // 2**10} KB"


def char_width(text: str) -> int:
    """Bytes one character of `text` takes."""
    return 1 if text.isascii() else min(4, sys.getsizeof(text) // len(text))


# ---- walking through values ----------------------------------------------------------------


def look_through(value: object) -> None:
    """Charge for every item inside `value`: shared nesting can hide an endless structure."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            current.charge(1 + len(item) // BYTES_PER_UNIT)
        elif children := _children(item):
            current.charge(1 + len(children))
            stack += children


def _children(item: object) -> Sequence[object]:
    """What is inside one plain container, keys and values of a mapping in one row."""
    if isinstance(item, dict):
        mapping = cast("dict[object, object]", item)
        # A text as a key is looked at as often as its mapping; its hash and its place are known.
        return [*mapping.values(), *(key for key in mapping if not isinstance(key, str))]
    if isinstance(item, list | tuple):
        return cast("Sequence[object]", item)
    if isinstance(item, KeysView | ValuesView | ItemsView):
        view = cast("Iterable[object]", item)
        current.charge(1 + len(cast("Sized", item)))
        return list(view)
    return ()


def written_size(value: object, write: Callable[[str], str], *, between: int = 2, indent: int = 0) -> int:
    """The most characters `value` takes when it is written out, its texts by `write`.

    `between` characters stand around each item, and with `indent` a line break and that many blanks
    for each level. Charges for every item. Stops counting, by an error, where there is no room.
    """
    size = 0
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        current.charge()
        size += between + (1 + indent * depth if indent else 0)
        if isinstance(item, dict):
            children: list[object] = []
            for pair in cast("dict[object, object]", item).items():
                children += pair
        else:
            children = list(_children(item))
        if children or isinstance(item, dict | list | tuple):
            size += 30 + indent * (depth + 1)
            current.charge(len(children))
            stack += [(child, depth + 1) for child in children]
        elif isinstance(item, str):
            size += _escaped_size(item, write)
        elif isinstance(item, int):
            size += 8 + item.bit_length() // 3
        else:
            size += _OPAQUE
        current.room(size)
    return size


def _escaped_size(text: str, write: Callable[[str], str]) -> int:
    """How long a text is as `write` writes it, in pieces, so that a long one is never made."""
    size = 0
    for at in range(0, len(text), _PIECE):
        size += len(write(text[at : at + _PIECE]))
        current.text(size, 1)
    return size + 2


def json_writer(ensure_ascii: bool) -> Callable[[str], str]:
    """Writes a text as JSON does."""
    return lambda text: json.dumps(text, ensure_ascii=ensure_ascii)


def text_of(value: object) -> str:
    """`value` as text, refused before it becomes too long."""
    if isinstance(value, str):
        return str(value)
    if _children(value):
        written_size(value, repr)
    return str(value)


# ---- what the compiled template calls ------------------------------------------------------


class Rounds(Iterator[Any]):
    """An iterator whose rounds are charged. `chain` counts the iterators that it waits for."""

    __slots__ = ("_items", "chain")

    def __init__(self, items: Iterable[Any], chain: int = 1) -> None:
        if chain > MAX_CHAIN:
            raise LimitError(f"it puts more than {MAX_CHAIN} filters into one another")
        current.charge(8)
        self._items = iter(items)
        self.chain = chain

    def __next__(self) -> Any:
        current.charge()
        return next(self._items)


def loop(value: Any) -> Any:
    """The iterable of a `for`, charged by its length or, when that is unknown, round by round."""
    if isinstance(value, Sized):
        current.charge(4 + len(value))
        return value
    return value if isinstance(value, Rounds) else Rounds(value)


def operand(value: Any) -> Any:
    """An operand of a comparison, a key or a tuple, where nested values are walked by C code."""
    if isinstance(value, str):
        current.charge(1 + len(value) // 1024)
    elif isinstance(value, list | tuple | dict | KeysView | ValuesView | ItemsView):
        look_through(cast("object", value))
    return cast("Any", value)


def container(value: Any) -> Any:
    """What is looked into by `in`: a mapping is not walked."""
    if isinstance(value, dict):
        current.charge()
        return cast("Any", value)
    return operand(value)


def literal(value: Any) -> Any:
    """A list or mapping that the template spells out."""
    current.charge(2 + 2 * len(cast("Sized", value)))
    return value


def sliced(value: Any) -> Any:
    """A text or list that is about to be cut, which copies it."""
    if isinstance(value, str):
        current.charge(1 + len(value) * char_width(value) // BYTES_PER_UNIT)
    elif isinstance(value, list | tuple):
        current.charge(1 + len(cast("Sized", value)) // 8)
    return cast("Any", value)


def concat(left: Any, *rest: Any) -> str:
    return joined((left, *rest), "")


def joined(values: Iterable[Any], between: str) -> str:
    """The values as texts, put together."""
    texts: list[str] = []
    size = 0
    for value in values:
        text = text_of(value)
        texts.append(text)
        size += len(text) + len(between)
        current.text(size)
        current.charge(len(text) * (char_width(text) - 1) // BYTES_PER_UNIT if text else 0)
    return between.join(texts)


def definition(value: Any) -> Any:
    """Stands in front of a macro's definition, which makes an object each time."""
    current.charge(8)
    return value


@pass_context
def finalize(_context: Context, value: Any) -> Any:
    """Called on every printed value: bounds the output before it is joined."""
    text = text_of(value)
    current.charge()
    current.emit(len(text))
    return text


def bounded_join(chunks: Iterable[str]) -> str:
    parts: list[str] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > current.max_output:
            raise LimitError(f"it makes a text of more than {_told(current.max_output)}")
        current.made(chunk)
    return "".join(parts)
