"""The one grammar: CommonMark with tables, strike-through and formulas, read by markdown-it.

Footnotes with numbers and smart quotes are left out: they look back at finished text.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from app.tui.transcript.maths import maths_rule

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

MAX_NESTING = 60
"""Lists and quotes around a block; each list counts twice."""


@cache
def parser() -> MarkdownIt:
    """The parser, made once."""
    from markdown_it import MarkdownIt

    md = MarkdownIt("commonmark", {"inline_definitions": True, "maxNesting": MAX_NESTING})
    md.enable(["table", "strikethrough"])
    md.block.ruler.at("reference", _reference)
    md.inline.ruler.before("escape", "maths", maths_rule)
    md.inline.ruler.at("link", _link)
    md.inline.ruler.at("image", _image)
    return md


def _reference(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Link definitions, but not `[^1]: word`: a footnote stays where it stands."""
    from markdown_it.rules_block import reference

    at = state.bMarks[start_line] + state.tShift[start_line]
    return not state.src.startswith("[^", at) and reference(state, start_line, end_line, silent)


def _link(state: StateInline, silent: bool) -> bool:
    from markdown_it.rules_inline import link

    return _may_link(state, "[") and link(state, silent) and _note_end(state, silent)


def _image(state: StateInline, silent: bool) -> bool:
    from markdown_it.rules_inline import image

    return _may_link(state, "!") and image(state, silent) and _note_end(state, silent)


def _note_end(state: StateInline, silent: bool) -> bool:
    """Have the token of a link's end, or of a picture, say where its source ends (`meta["end"]`)."""
    if not silent:
        state.tokens[-1].meta = {"end": state.pos}
    return True


def _may_link(state: StateInline, sign: str) -> bool:
    """No bracket closes what is not closed later; without this a row of brackets is read once for each."""
    return state.src[state.pos] == sign and state.src.find("]", state.pos) > 0
