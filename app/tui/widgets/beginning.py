"""What a draft begins with: a command only where its first character was typed, whoever asks. Pure text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DOUBLED = re.compile(r"\s*(?:/(?=/+(?![/\s]))|!(?=!))")
"""Two marks before a word: the first of them is not sent. `// like this` is sent as it stands."""
_MARKED = re.compile(
    r"\s*(?:!\s*\S"  # a shell line, or two marks
    r"|/{2,}(?![/\s])"
    r"|/(?:[A-Za-z0-9?][\w-]*\s|[^\s/]*\s*\Z))"  # what may be a command's name, and any word by itself
)
"""What would be a command or a shell line, or lose a mark, if keys had written it."""


@dataclass
class Beginning:
    """Whether the first character of a draft was typed.

    One that came to be the first because others went counts as typed while nothing was pasted.
    """

    typed: bool = True
    _mixed: bool = False
    """Whether something of the draft was pasted."""

    def reset(self, *, typed: bool = True) -> None:
        """Another draft stands there."""
        self.typed, self._mixed = typed, not typed

    def pasted(self, *, first: bool) -> None:
        """Something was pasted; `first` with nothing but blanks before it."""
        self._mixed = True
        if first:
            self.typed = False

    def written(self, text: str) -> None:
        """Something was written with nothing but blanks before it: a key's character, or more at once."""
        if text.strip():
            self.typed = len(text.strip()) == 1 or not self._mixed

    def uncovered(self) -> None:
        """Another character is the first one now, and nobody knows whose it was."""
        self.typed = not self._mixed


def without_double(text: str) -> str:
    """The message that keys have written: of two marks before a word only one is sent."""
    found = _DOUBLED.match(text)
    return text[: found.end() - 1] + text[found.end() :] if found else text


def with_double(text: str) -> str:
    """What keys have to write so that `text` is the message: the way back from `without_double`."""
    if not _MARKED.match(text):
        return text
    blanks = len(text) - len(text.lstrip())
    return text[:blanks] + text[blanks] + text[blanks:]
