"""The text of a file: in which encoding it is, and how it joins a message."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def marked_encoding(data: bytes) -> str | None:
    """UTF-32 or UTF-16 by the mark at its start; None for all else, UTF-8 too."""
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def unmarked_wide(sample: bytes) -> str | None:
    """UTF-16 without its mark: text of Western languages has every second byte zero."""
    half = len(sample) // 2
    for first, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        zeros, others = sample[first::2].count(0), sample[1 - first :: 2].count(0)
        if half and zeros > half * 0.6 and others < half * 0.05:
            return encoding
    return None


def join_parts(prompt: str, parts: Sequence[tuple[str, str]]) -> str:
    """The prompt first, then each (name, text) fenced as a part of its own."""
    return "\n\n".join([prompt, *(fenced(name, text) for name, text in parts)])


def fenced(title: str, text: str) -> str:
    """`text` as a part of its own in a message: a fence longer than any inside, under its title."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    head = f"{title}:\n" if title else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{head}{fence}\n{text}{end}{fence}"
