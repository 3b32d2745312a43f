"""Figures in few characters, as every face writes them."""

from __future__ import annotations


def short_count(number: int) -> str:
    """Tokens as a meter writes them: 900, 1.2k, 8k for 8,192."""
    if number < 1000:
        return str(number)
    thousands = number / 1024 if number % 1024 == 0 else number / 1000
    return f"{thousands:.1f}".removesuffix(".0") + "k"


def byte_size(count: int) -> str:
    """A size as a person reads it: `912 bytes`, `1.1 kB`, `120 kB`, `2.3 GB`."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if count >= scale:
            return f"{count / scale:,.{0 if count >= 100 * scale else 1}f} {unit}"
    return f"{count} bytes"


def gib(count: float) -> str:
    """Bytes of memory, of disk, or of a model, in the one unit that all of these are told in: `2.3 GiB`."""
    return "<0.1 GiB" if 0 < count < (1 << 30) / 20 else f"{count / (1 << 30):,.1f} GiB"


def gib_of(part: float, whole: float) -> str:
    """A part of an amount of memory: `5.2 of 8.0 GiB`."""
    return f"{gib(part).removesuffix(' GiB')} of {gib(whole)}"


def reading(done: int, total: int, reused: int) -> str:
    """That a prompt is read: `reading 4,306 tokens`, and how far it is once that is known."""
    count = total - reused
    words = f"reading {count:,} token{'' if count == 1 else 's'}"
    return words if done <= reused or not total else f"{words}, {done * 100 // total} %"


def duration(seconds: float) -> str:
    """`0.4 s`, `3.2 s`, `41 s`, `2 m 05 s`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest:02} s"
