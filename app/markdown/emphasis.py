"""Where emphasis and strike-through begin and end, beside scripts that put no blanks between words too.

CommonMark asks for a blank or a sign between such a mark and a word. In Chinese, Japanese and Korean
neither is written, and the mark of `**词。**词` would stay a mark.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from markdown_it.common.utils import isMdAsciiPunct, isPunctChar, isWhiteSpace
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline.state_inline import Scanned, StateInline

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markdown_it.utils import EnvType

Kind = Literal["blank", "sign", "wide sign", "wide word", "word"]
_WORDS: tuple[Kind, ...] = ("word", "wide word")
_SELECTORS = range(0xFE00, 0xFE10)


@lru_cache(maxsize=4096)
def _kind(char: str) -> Kind:
    if isWhiteSpace(ord(char)):
        return "blank"
    is_wide = unicodedata.east_asian_width(char) in "WFH" and not (
        unicodedata.category(char) == "So" and not "\u3000" <= char < "\u3400"  # a picture
    )
    if isMdAsciiPunct(ord(char)) or isPunctChar(char):
        return "wide sign" if is_wide else "sign"
    return "wide word" if is_wide else "word"


class _State(StateInline):
    """A text that is read for what is in it."""

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:
        """Whether the marks at `start` may begin or end something, by what is on both sides of them."""
        end = start
        while end < self.posMax and self.src[end] == self.src[start]:
            end += 1
        at = start - 1
        while at > 0 and ord(self.src[at]) in _SELECTORS:  # it says how the sign before it is drawn
            at -= 1
        left = _kind(self.src[at]) if start else "blank"
        right = _kind(self.src[end]) if end < self.posMax else "blank"
        opens, closes = _may_begin(left, right), _may_begin(right, left)
        if not canSplitWord:
            # An underscore belongs to a word that goes on behind it, but not where only signs meet.
            opens, closes = (
                opens and (not closes or left not in _WORDS or _is_border(right, left)),
                closes and (not opens or right not in _WORDS or _is_border(left, right)),
            )
        return Scanned(opens, closes, end - start)


def _may_begin(before: Kind, after: Kind) -> bool:
    """Whether marks between two characters may belong to what is on the side of `after`."""
    return after != "blank" and (after != "sign" or before != "word")


def _is_border(inside: Kind, outside: Kind) -> bool:
    """Whether a sign is inside, and outside a word of a script that needs no blank before it."""
    return inside in ("sign", "wide sign") and outside == "wide word"


class InlineParser(ParserInline):
    """The parser of inline text, with these rules."""

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        """Read `src`; its tokens are put behind `tokens`."""
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens
