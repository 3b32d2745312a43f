"""How much is done in one go while hostile text streams into the screen: keys are read between two steps.

Counted in characters that parsers are given, which no machine changes.
"""

from __future__ import annotations

from random import Random

import pytest

from app.markdown.highlight import Highlighter
from app.markdown.markdown import MarkdownText
from tests.growth.shapes import BLANKS, MARKDOWN, SIGNS, Shape, mixed, shapes

SIZE = 12_000
MOST_AT_ONCE = 30_000
MOST_IN_ALL = 20 * SIZE
EVERY = [*shapes((*MARKDOWN, *BLANKS, *SIGNS)), *mixed((*MARKDOWN, *BLANKS, *SIGNS), seed=3, count=100)]
HOSTILE = (
    "'[a](b)' repeated",
    "'*' and blanks",
    "'_a*' repeated",
    "'[' repeated",
    "'`' in words",
    "'> ' repeated",
)


def steps(shape: Shape) -> list[int]:
    """What each frame reads while the text streams in, some characters a frame."""
    text = shape.make(SIZE)
    body = MarkdownText()
    found: list[int] = []
    for at in range(0, len(text), 24):
        body.append(text[at : at + 24])
        rows = len(body.rows)
        changed = body.layout(92)
        found.append(0 if changed == len(body.rows) == rows else body.last_work)
    return found


def too_much(chosen: list[Shape]) -> list[str]:
    found: list[str] = []
    for shape in chosen:
        done = steps(shape)
        if max(done) > MOST_AT_ONCE or sum(done) > MOST_IN_ALL:
            found.append(f"{shape.name}: {max(done):,} at once, {sum(done):,} in all")
    return found


@pytest.mark.timeout(60)
def test_no_step_of_a_stream_is_long() -> None:
    known = [shape for shape in EVERY if shape.name in HOSTILE]
    assert len(known) == len(HOSTILE)
    assert not too_much([*known, *Random(5).sample(EVERY, 6)])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_step_of_any_stream_is_long() -> None:
    assert len(EVERY) >= 400
    assert not too_much(EVERY)


def test_what_waited_is_shown_with_the_rest() -> None:
    text = "*a " * 2_000
    body = MarkdownText()
    for at in range(0, len(text), 24):
        body.append(text[at : at + 24])
        body.layout(92)
    shown = sum(len(row.text) for row in body.rows)
    assert shown > 0.8 * len(text)
    body.finish()
    body.layout(92)
    fresh = MarkdownText(text, finished=True)
    fresh.layout(92)
    assert body.rows == fresh.rows


@pytest.mark.parametrize("language", ["c", "python", "html", "sql"])
def test_24_000_lines_of_code_are_coloured_a_line_at_a_time(language: str) -> None:
    lines = [""] * 24_000
    highlighter = Highlighter(language)
    highlighter.follow(lines, len(lines))
    assert not highlighter.styled
    for done in range(1, 50):
        highlighter.advance(lines, len(lines), 0)
        assert len(highlighter.styled) == done
