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
