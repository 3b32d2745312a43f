"""What a person sees before deciding about a call: every character of it, and the change it makes.

Refuses to hide anything: controls, invisible characters and padding are written out.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PADDING = re.compile(r" {12,}|\n(?: *\n){3,}")
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]")
"""Letters and signs that are drawn as nothing."""
_MOST_LINES = 4_000
_MOST_SHOWN = 2_000


@dataclass(frozen=True)
class Preview:
    """One call as it is shown for approval; all text is free of control characters but newlines."""

    call: str
    diff: str = ""
    """A unified diff of the file it changes, "" where it changes none."""
    sandbox: str = ""
    """Whether what it runs is confined, "" where it runs nothing."""
    touches: tuple[str, ...] = ()
    """One line for each thing it touches."""


def visible(text: str) -> str:
    """`text` with every control, bidirectional, invisible or odd character, and long padding, spelled
    out; newlines stay."""
    return _PADDING.sub(_padding, "".join(map(_visible_character, text)))


def show_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The exact call. Each line of a value carries a rule, so that no value can imitate a field."""
    lines = [visible(name)]
    labels = {key: visible(key).replace("\n", "⏎") for key in arguments}
    width = max(map(len, labels.values()), default=0)
    for key, value in arguments.items():
        label = labels[key]
        for line in visible(_text(value)).split("\n"):
            lines.append(f"  {label:<{width}} │ {line}")
            label = ""
    return "\n".join(lines)


def show_change(name: str, old: bytes | None, new: bytes) -> str:
    """A unified diff from `old` (None: no such file) to `new`, cut where it is very long."""
    before, after = _lines(old or b""), _lines(new)
    if (old is not None and b"\0" in old) or b"\0" in new:
        return f"{name}: binary, {len(old or b''):,} bytes before, {len(new):,} after"
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    middle = (len(before) - start - end) + (len(after) - start - end)
    if middle > _MOST_LINES:
        return f"{name}: {len(before) - start - end:,} lines become {len(after) - start - end:,} lines"
    # Comparing only what differs, with three lines around it, keeps the time near the change's size.
    first, last = max(start - 3, 0), max(end - 3, 0)
    part = difflib.unified_diff(
        before[first : len(before) - last],
        after[first : len(after) - last],
        "/dev/null" if old is None else name,
        name,
        lineterm="",
    )
    shown = [visible(_shifted(line, first)) for line in part]
    if len(shown) > _MOST_SHOWN:
        shown = [*shown[:_MOST_SHOWN], f"[... {len(shown) - _MOST_SHOWN:,} more lines of the diff ...]"]
    return "\n".join(shown)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _visible_character(char: str) -> str:
    if char == "\n" or (char.isascii() and char.isprintable()):
        return char
    if char < "\x20":
        return chr(0x2400 + ord(char))
    if char == "\x7f":
        return "␡"
    kind = unicodedata.category(char)
    if kind[0] in "CZ" or (kind == "Mn" and char > "\ufdff") or _BLANK.match(char):
        return f"⟨U+{ord(char):04X}⟩"
    return char


def _padding(found: re.Match[str]) -> str:
    count = len(found[0])
    if found[0][0] == " ":
        return f"⟨{count} spaces⟩"
    return f"\n⟨{found[0].count(chr(10)) - 1} empty lines⟩\n"


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[-1]:
        return [*lines[:-1], f"{lines[-1]}⟨no newline at the end⟩"]
    return lines[:-1]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


_HUNK = re.compile(r"^@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


def _shifted(line: str, by: int) -> str:
    """A hunk's header with the lines that were left out counted in."""
    found = _HUNK.match(line) if by else None
    if found is None:
        return line
    return f"@@ -{int(found[1]) + by}{found[2]} +{int(found[3]) + by}{found[4]} @@"
