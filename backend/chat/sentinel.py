"""Keeps untrusted text from becoming control tokens.

Before rendering, every control-token text inside messages and tools is broken by a private
character; the rendered prompt is cut at these, and each piece is tokenized on its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

_CANDIDATES = tuple(chr(code) for code in range(0xF640, 0xF660))


@lru_cache(maxsize=16)
def _by_first(special: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, tuple[str, ...]]]:
    """A pattern that finds first characters, and the texts by first character."""
    groups: dict[str, list[str]] = {}
    for text in special:
        groups.setdefault(text[0], []).append(text)
    pattern = re.compile("[" + "".join(re.escape(first) for first in groups) + "]")
    return pattern, {first: tuple(texts) for first, texts in groups.items()}


class Sentinel:
    """The private characters of one render, which its conversation does not hold.

    `character` breaks control tokens, `end` marks the end of a text to continue, and `media`
    stands for an image, a sound or a video.
    """

    def __init__(self, untrusted: object, special_tokens: Sequence[str]) -> None:
        """`special_tokens`: texts of the vocabulary's control and user-defined tokens.

        Blank ones and single characters are left out: ordinary text is full of them and they
        control nothing.
        """
        self._special = tuple(sorted({text for text in special_tokens if len(text) > 1 and text.strip()}))
        self._longest = max(map(len, self._special), default=0)
        whole = json.dumps(untrusted, ensure_ascii=False, default=str)
        free = [each for each in _CANDIDATES if each not in whole and f"u{ord(each):04x}" not in whole]
        self.character, self.end, self.media = (free + list(_CANDIDATES))[:3]

    def guard(self, value: Any) -> Any:
        """A copy of nested `value` in which no text holds or could complete a control token."""
        if not self._special:
            return value
        if isinstance(value, str):
            return self._guard_text(value)
        if isinstance(value, Mapping):
            mapping = cast("Mapping[Any, Any]", value)
            return {self.guard(key): self.guard(item) for key, item in mapping.items()}
        if isinstance(value, list | tuple):
            return [self.guard(item) for item in cast("Sequence[Any]", value)]
        return value

    def _guard_text(self, text: str) -> str:
        pattern, groups = _by_first(self._special)
        cuts: set[int] = set()
        for match in pattern.finditer(text):
            start = match.start()
            texts = groups[match.group()]
            if text.startswith(texts, start):
                cuts.add(start + 1)
            elif len(text) - start < self._longest and any(each.startswith(text[start:]) for each in texts):
                cuts.add(len(text))
        if not cuts:
            return text
        bounds = sorted(cuts)
        parts = [text[start:end] for start, end in zip([0, *bounds], [*bounds, len(text)], strict=True)]
        return self.character.join(parts)

    def cut(self, rendered: str, media_marker: str) -> list[str]:
        """The pieces of a rendered prompt; joined they are the prompt without sentinels."""
        escaped = f"\\u{ord(self.character):04x}"
        pieces = rendered.replace(escaped, self.character).split(self.character)
        return [piece.replace(self.media, media_marker) for piece in pieces if piece]
