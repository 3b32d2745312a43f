"""Styled rows as the bytes a terminal takes: spans of a theme's roles become SGR codes.

The page's own ground and text stay the terminal's: only what differs from plain text is coloured.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from app.markdown.rows import Mode, Row, split_style
from app.terminal.glyphs import Glyphs
from app.terminal.output import one_row
from app.terminal.theming import CODE, REVERSE, TONES, Palette, Tone

Span = tuple[str, str]
"""A text and its style: attributes, `$tone`, and `on $tone` for a ground."""

_SGR = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "strike": "9"}
_LETTERS = {"b": "bold", "i": "italic", "s": "strike", "u": "underline"}
_ROLES = {
    "muted": "$muted",
    "faint": "$faint",
    "link": "underline $accent",
    "chip": "on $chip",
    "added": "bold $diff_add",
    "removed": "bold $diff_remove",
}
_GROUNDS = {"code": "$code_background", "added": "$diff_add_background", "removed": "$diff_remove_background"}
RESET = "\x1b[0m"
FILL = "\x1b[K"
"""Extends a ground to the right end without cells, so that copied code has no blanks behind it."""


class TerminalStyle:
    """Writes spans for one terminal. Texts are clean already; what they say is never looked at."""

    def __init__(self, palette: Palette, glyphs: Glyphs) -> None:
        self.palette = palette
        self.glyphs = glyphs
        self._codes: dict[str, str] = {}

    @property
    def mode(self) -> Mode:
        """How Markdown is laid out for this terminal."""
        return Mode(plain=not self.palette.tones, ascii=not self.glyphs.unicode, link_targets=True)

    def write(self, spans: Sequence[Span]) -> str:
        return "".join(self._span(one_row(text), style) for text, style in spans)

    def body(self, row: Row, width: int) -> str:
        """One row of a laid-out text."""
        ground = _GROUNDS.get(row.ground, "") if self.palette.tones else ""
        on = f" on {ground}" if ground else ""
        text = "".join(self._span(run.text, self._of_key(run.style) + on) for run in row.runs)
        if row.wraps:
            room = max(0, width - len(row.text))
            text += self._span(" " * room + self.glyphs.cut_right, f"$faint{on}")
        if not ground:
            return text
        code = self._code(on.strip())
        return f"{text}{code}{FILL}{RESET}" if code else text

    def _of_key(self, key: str) -> str:
        role, letters = split_style(key)
        words = [_LETTERS[letter] for letter in letters]
        if role in CODE:
            style = self.palette.syntax[role]
            words += [*style.attributes, f"${style.role}"]
        elif role in _ROLES:
            words.append(_ROLES[role])
        return " ".join(words)

    def _span(self, text: str, style: str) -> str:
        code = self._code(style)
        return f"{code}{text}{RESET}" if code and text else text

    def _code(self, style: str) -> str:
        found = self._codes.get(style)
        if found is None:
            found = self._codes[style] = self._sgr(style)
        return found

    def _sgr(self, style: str) -> str:
        words = style.split()
        on_ground = self.palette.tones and "on" in words
        if on_ground and not any(_is_color(word, before) for before, word in pairwise(["", *words])):
            words.insert(0, "$text")
        numbers: list[str] = []
        is_ground = False
        for word in words:
            if word == "on":
                is_ground = True
            elif word.startswith("$"):
                tone = cast(Tone, word[1:])
                # On a ground of ours the terminal's own text need not be readable.
                if tone in TONES and (tone != "text" or on_ground):
                    numbers += self._tone(tone, is_ground)
                is_ground = False
            elif word in _SGR:
                numbers.append(_SGR[word])
        return f"\x1b[{';'.join(dict.fromkeys(numbers))}m" if numbers else ""

    def _tone(self, tone: Tone, is_ground: bool) -> list[str]:
        palette = self.palette
        base = 48 if is_ground else 38
        match palette.depth:
            case "truecolor":
                color = palette.hex(tone)
                rgb = (str(int(color[place : place + 2], 16)) for place in (1, 3, 5))
                return [f"{base};2;{';'.join(rgb)}"]
            case "256":
                return [f"{base};5;{palette.colors[tone].index}"]
            case _:
                return [] if is_ground else self._few_colors(tone)

    def _few_colors(self, tone: Tone) -> list[str]:
        attributes = self.palette.attributes
        words = [_SGR[word] for word in attributes.get(tone, ())] if tone in attributes else []
        number = self.palette.ansi[tone] if self.palette.depth else None
        if number is None or number == REVERSE:
            return words
        return [*words, str(30 + number if number < 8 else 82 + number)]


def _is_color(word: str, before: str) -> bool:
    """Whether a word of a style colours the text itself."""
    return word.startswith("$") and before != "on"
