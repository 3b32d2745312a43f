"""What a person sees before deciding about a call: every character of it, and the change it makes.

Nothing is summed up: a change of any size is there whole, in a time near its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.permission.line_diff import Change, changes
from tools.permission.visible import clean, one_row, visible

__all__ = ["Preview", "clean", "one_row", "show_call", "show_change", "value_label", "value_text", "visible"]

_AROUND = 3
"""Unchanged lines shown around a change."""
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null|NaN|-?Infinity")
_RULES = re.compile(r"[\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f|\u00a6]| :(?= |\Z)")
_NO_END = "⟨no newline at the end⟩"


@dataclass(frozen=True)
class Preview:
    """One call as it is shown for approval; all text is free of control characters but newlines."""

    call: str
    diff: str = ""
    """A unified diff of the file it changes; "" where it changes none, or where there can be none."""
    sandbox: str = ""
    """Whether what it runs is confined, "" where it runs nothing."""
    touches: tuple[str, ...] = ()
    """One line for each thing it touches, and for what cannot be shown of it."""

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(part for part in (self.call, self.diff, *self.touches, self.sandbox) if part)


def show_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The exact call. Each line of a value carries a rule, so that no value can imitate a field."""
    lines = [visible(name)]
    labels = {key: value_label(key) for key in arguments}
    width = max(map(len, labels.values()), default=0)
    for key, value in arguments.items():
        label = labels[key]
        for line in value_text(value).split("\n"):
            lines.append(f"  {label:<{width}} │ {line}")
            label = ""
    return "\n".join(lines)


def value_label(name: str) -> str:
    """The name of an argument in one row: never empty, without the signs that stand behind it."""
    return _RULES.sub(lambda found: f"⟨U+{ord(found[0][-1]):04X}⟩", one_row(name)) or "⟨empty⟩"


def value_text(value: object) -> str:
    """One argument, readable: no two of them are written alike."""
    if not isinstance(value, str):
        return visible(json.dumps(value, ensure_ascii=False, default=repr))
    if not value:
        return "⟨empty⟩"
    shown = visible(value)
    return f"{shown}⟨a text⟩" if _SCALAR.fullmatch(value) or _poses_as_nested(value) else shown


def _poses_as_nested(text: str) -> bool:
    """Whether a text looks like a list or an object, which is written in one row."""
    if "\n" in text or text[:1] + text[-1:] not in ("[]", "{}"):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def show_change(name: str, old: bytes | None, new: bytes) -> str:
    """A unified diff from `old` (None: no such file) to `new`; `name` is `visible` already.

    Every line that comes or goes is in it, bytes that are no UTF-8 by their number. "" where both are
    equal, or where an empty file is made.
    """
    before, after = _lines(old or b""), _lines(new)
    found = changes(before, after)
    if not found:
        return ""
    rows = ["--- /dev/null" if old is None else f"--- {name}", f"+++ {name}"]
    for hunk in _hunks(found):
        rows += _hunk_rows(hunk, before, after)
    return "\n".join(rows)


def _lines(data: bytes) -> list[str]:
    """The lines, each with its newline where it has one."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    last = lines.pop()
    return [*(f"{line}\n" for line in lines), *([last] if last else ())]


def _hunks(found: Sequence[Change]) -> Iterator[list[Change]]:
    """Changes that are near each other, together."""
    hunk = [found[0]]
    for change in found[1:]:
        if change[0] - hunk[-1][1] > 2 * _AROUND:
            yield hunk
            hunk = []
        hunk.append(change)
    yield hunk


def _hunk_rows(hunk: Sequence[Change], before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    above = min(_AROUND, hunk[0][0])
    below = min(_AROUND, len(before) - hunk[-1][1])
    first, last = hunk[0][0] - above, hunk[-1][1] + below
    start, end = hunk[0][2] - above, hunk[-1][3] + below
    yield f"@@ -{_range(first, last)} +{_range(start, end)} @@"
    place = first
    for gone, kept, came, stays in hunk:
        yield from (f" {_shown(line)}" for line in before[place:gone])
        yield from (f"-{_shown(line)}" for line in before[gone:kept])
        yield from (f"+{_shown(line)}" for line in after[came:stays])
        place = kept
    yield from (f" {_shown(line)}" for line in before[place:last])


def _range(first: int, last: int) -> str:
    count = last - first
    return str(first + 1) if count == 1 else f"{first + 1 if count else first},{count}"


def _shown(line: str) -> str:
    return visible(line[:-1]) if line.endswith("\n") else f"{visible(line)}{_NO_END}"
