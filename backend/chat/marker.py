"""Marker texts as a grammar takes them: which whitespace counts, and what the prompt already holds."""

from __future__ import annotations

import re

from backend.chat.format import PLACEHOLDERS
from backend.grammar.rulebook import GAP

_LINE_BREAK = re.compile(r"[ \t]*\n\s*")
_GAPS = re.compile(rf"\s*{GAP}[\s{GAP}]*")
_TAG = re.compile(r"<[^<>]+>|\[/?[A-Z_]{2,}\]")


def tidy(text: str) -> str:
    """Marker text in which each run of whitespace with a line break is a gap."""
    return _GAPS.sub(GAP, _LINE_BREAK.sub(GAP, text))


def after_prime(marker: str, prime: str) -> str:
    """What is left of `marker` to write when the reply continues `prime`."""
    prime = prime.rstrip()
    for length in range(min(len(marker), len(prime)), 1, -1):
        if prime.endswith(marker[:length]):
            left = marker[length:]
            return left if left.startswith(" ") else left.lstrip()
    return marker


def trigger_of(opening: str) -> str:
    """The text whose appearance tells that a call begins, or "" where only brackets would tell.

    It ends with the last whole tag when nothing but brackets or a begun tag follows: a model may
    put other whitespace there.
    """
    head = re.split(f"[{PLACEHOLDERS}{GAP}]", opening, maxsplit=1)[0].strip()
    tags = list(_TAG.finditer(head))
    if tags:
        rest = head[tags[-1].end() :].strip()
        if not rest.strip("[{(") or rest.startswith("<"):
            head = head[: tags[-1].end()]
    return head if head.strip("[{(\"' \n\t") else ""
