"""The one grammar: CommonMark with tables, strike-through and formulas, read by markdown-it.

Footnotes with numbers and smart quotes are left out: they look back at finished text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from app.markdown.maths import maths_rule

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

MAX_NESTING = 60
"""Lists and quotes around a block; each list counts twice."""
_FEW_BRACKETS = 12
_MOST_AROUND = 6
_LONGEST_LABEL = 1_000
_LONGEST_TARGET = 3_000
_QUOTED = "quoted lines"
_MOST_QUOTED = MAX_NESTING
"""How often each line may be looked at on average: a quote in another one looks again."""
_BRACKET = re.compile(r"\\.|[\[\]]", re.DOTALL)


@cache
def parser() -> MarkdownIt:
    """The parser, made once."""
    from markdown_it import MarkdownIt

    from app.markdown.emphasis import InlineParser

    md = MarkdownIt("commonmark", {"inline_definitions": True, "maxNesting": MAX_NESTING})
    rules = md.inline.ruler.get_active_rules(), md.inline.ruler2.get_active_rules()
    md.inline = InlineParser()
    md.inline.ruler.enableOnly(rules[0])
    md.inline.ruler2.enableOnly(rules[1])
    md.enable(["table", "strikethrough"])
    md.block.ruler.at("reference", _reference)
    # The same rules as before ask it whether they end.
    md.block.ruler.at("blockquote", _quote, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    md.inline.ruler.before("escape", "maths", maths_rule)
    md.inline.ruler.at("link", _link)
    md.inline.ruler.at("image", _image)
    return md


def _reference(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Link definitions, but not `[^1]: word`: a footnote stays where it stands."""
    from markdown_it.rules_block import reference

    at = state.bMarks[start_line] + state.tShift[start_line]
    return not state.src.startswith("[^", at) and reference(state, start_line, end_line, silent)


def _quote(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Quotes, as long as looking for their ends takes few times the text.

    The rule reads on to the next empty line each time, and may then take only two lines of all these.
    """
    from markdown_it.rules_block import blockquote

    if silent:
        return blockquote(state, start_line, end_line, silent)
    spent = state.env.get(_QUOTED, 0)
    if spent > _MOST_QUOTED * len(state.bMarks):
        return False
    line = start_line
    while line < end_line and state.bMarks[line] + state.tShift[line] < state.eMarks[line]:
        line += 1
    state.env[_QUOTED] = spent + line - start_line
    return blockquote(state, start_line, end_line, silent)


def _link(state: StateInline, silent: bool) -> bool:
    from markdown_it.rules_inline import link

    return state.src[state.pos] == "[" and _bounded(link, state, state.pos, silent)


def _image(state: StateInline, silent: bool) -> bool:
    from markdown_it.rules_inline import image

    opens = state.src.startswith("![", state.pos)
    return opens and _bounded(image, state, state.pos + 1, silent)


def _bounded(
    rule: Callable[[StateInline, bool], bool], state: StateInline, bracket: int, silent: bool
) -> bool:
    """Try a rule that begins at a bracket on what can belong to a link, and not on all that follows.

    The rules read what is in brackets again for each that is around, and to the end for one that is not
    closed. Among many brackets those without a partner, or deep around others, are text.
    """
    if (pairs := _pairs(state.src)) is None:
        return state.src.find("]", bracket) > 0 and rule(state, silent) and _note_end(state, silent)
    end, height = pairs.get(bracket, (0, 0))
    if not end or height > _MOST_AROUND or end - bracket > _LONGEST_LABEL:
        return False
    whole = state.posMax
    if state.src.startswith("[", end + 1):
        label, around = pairs.get(end + 1, (0, 0))
        reach = label + 1 if label and not around else end + 1
    else:
        reach = end + _LONGEST_TARGET
    state.posMax = min(whole, reach)
    found = rule(state, silent)
    state.posMax = whole
    return found and _note_end(state, silent)


@lru_cache(maxsize=64)
def _pairs(text: str) -> dict[int, tuple[int, int]] | None:
    """For each bracket its partner, and how many are around each other in between; None for few brackets."""
    if text.count("[") <= _FEW_BRACKETS:
        return None
    pairs: dict[int, tuple[int, int]] = {}
    stack: list[tuple[int, int]] = []
    for found in _BRACKET.finditer(text):
        if found[0] == "[":
            stack.append((found.start(), 0))
        elif found[0] == "]" and stack:
            start, height = stack.pop()
            pairs[start] = found.start(), height
            if stack:
                above, most = stack.pop()
                stack.append((above, max(most, height + 1)))
    return pairs


def _note_end(state: StateInline, silent: bool) -> bool:
    """Have the token of a link's end, or of a picture, say where its source ends (`meta["end"]`)."""
    if not silent:
        state.tokens[-1].meta = {"end": state.pos}
    return True
