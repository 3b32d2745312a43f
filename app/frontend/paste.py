"""Long pastes, folded to a word in the draft and unfolded when the message is sent. Pure text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FOLD_LINES = 8
FOLD_BYTES = 800
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")


def is_long(text: str) -> bool:
    """True for a paste that is folded: over 8 lines or 800 bytes."""
    return text.count("\n") >= FOLD_LINES or len(text.encode("utf-8", "replace")) > FOLD_BYTES


def normalized(text: str) -> str:
    """A paste with newlines only: terminals send carriage returns for them, other programs rarer ends."""
    return _LINE_END.sub("\n", text)


@dataclass
class Folds:
    """The folded pastes of one draft, by the word that stands for each."""

    _texts: dict[str, str] = field(default_factory=dict[str, str])

    def fold(self, text: str) -> str:
        """The word for `text`, `[pasted 120 lines]`; numbered where another paste has that word."""
        lines = text.rstrip("\n").count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return self.hold(f"[pasted {size}]", text)

    def hold(self, word: str, text: str) -> str:
        """Have a word in brackets stand for `text`; numbered where it stands for another one already."""
        name, number = word, 1
        while self._texts.get(name, text) != text:
            number += 1
            name = f"{word.removesuffix(']')}, {number}]"
        self._texts[name] = text
        return name

    def __bool__(self) -> bool:
        return bool(self._texts)

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self._texts)

    def text_of(self, word: str) -> str:
        """What a word stands for."""
        return self._texts[word]

    def split(self, draft: str) -> list[tuple[str, str | None]]:
        """The draft in pieces: (text, None) as written, (whole text, its word) for a paste."""
        if not self._texts:
            return [(draft, None)] if draft else []
        pattern = "|".join(map(re.escape, sorted(self._texts, key=len, reverse=True)))
        pieces: list[tuple[str, str | None]] = []
        for piece in re.split(f"({pattern})", draft):
            if piece in self._texts:
                pieces.append((self._texts[piece], piece))
            elif piece:
                pieces.append((piece, None))
        return pieces

    def unfold(self, draft: str) -> str:
        """The draft with every paste in full."""
        return "".join(text for text, _ in self.split(draft))

    def word_before(self, text: str) -> str | None:
        """The word that `text` ends with, so that one key removes all of it."""
        return next((word for word in self._texts if text.endswith(word)), None)

    def begins(self, draft: str) -> bool:
        """Whether a draft begins with a folded paste."""
        return draft.lstrip().startswith(self.words)

    def clear(self) -> None:
        """Forget all."""
        self._texts.clear()
