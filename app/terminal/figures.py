"""Figures in few characters, as every face writes them."""

from __future__ import annotations


def short_count(number: int) -> str:
    """Tokens as a meter writes them: 900, 1.2k, 8k for 8,192."""
    if number < 1000:
        return str(number)
    thousands = number / 1024 if number % 1024 == 0 else number / 1000
    return f"{thousands:.1f}".removesuffix(".0") + "k"
