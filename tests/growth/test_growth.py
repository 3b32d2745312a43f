"""Hostile text costs what its length is: everything that reads text of models, tools, files and pages."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from app.commands.replies import _last_code
from app.frontend.markdown_style import own_style
from app.frontend.paste import Folds
from app.markdown.clean import Cleaner
from app.markdown.diff import DiffBody
from app.markdown.highlight import Highlighter
from app.markdown.literal import LiteralText
from app.markdown.markdown import MarkdownText
from app.markdown.maths import find_formula, to_unicode
from app.markdown.stream import MarkdownStream
from app.markdown.wrap import breaks
from app.oneshot.sinks import first_fenced_block
from app.sessions.store.search import match_expression
from app.terminal.output import sanitize
from app.terminal.reports import ReportFilter
from app.tui.transcript.search import of_words
from app.tui.transcript.selection import balanced
from backend.chat.parsing.literals import Malformed, read_literal
from backend.chat.parsing.replies import FenceFilter
from tests.backend.chat import roundtrip
from tests.backend.chat.parsing.test_parser_properties import TOYS, scraps_of, template_of
from tests.growth.cost import STEEPEST, steepness
from tests.growth.shapes import BLANKS, CODE, EVERYTHING, HTML, MARKDOWN, MODEL, SIGNS, Shape, mixed, shapes
from tools.builtin.html_text import html_to_text
from tools.docstring import read_docstring
from tools.printed import Printed

FAR = float("inf")
WIDTH = 92


def pieces(text: str, size: int = 6) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def drawn(text: str) -> None:
    body = MarkdownText(text, finished=True)
    body.layout(WIDTH)
    while body.settle(1.0):
        body.layout(WIDTH)


def streamed(text: str) -> None:
    body = MarkdownText()
    for piece in pieces(text):
        body.append(piece)
        body.layout(WIDTH)
    body.finish()
    body.layout(WIDTH)


def literally(text: str) -> None:
    body = LiteralText()
    for piece in pieces(text):
        body.append(piece)
        body.layout(WIDTH)


def printed(text: str) -> None:
    stream = MarkdownStream(io.StringIO(), own_style)
    for piece in pieces(text):
        stream.write(piece)
    stream.finish()


def selected(text: str) -> None:
    size = len(text)
    balanced(text, size // 3, 2 * size // 3)


def formulas(text: str) -> None:
    to_unicode.cache_clear()
    to_unicode(text[:2_000])
    for at in range(0, len(text), 3):
        find_formula(text, at)


def coloured(language: str) -> Callable[[str], None]:
    def work(text: str) -> None:
        lines = text.split("\n")
        Highlighter(language).advance(lines, len(lines), FAR)

    return work


def difference(text: str) -> None:
    body = DiffBody(f"--- a.py\n+++ b.py\n@@ -1,2 +1,2 @@\n {text}\n-{text}\n+{text}")
    body.layout(WIDTH)
    body.settle(FAR)


def literal(text: str) -> None:
    for said in (text, f"[{text}]", f'{{"a": "{text}"}}'):
        with suppress(Malformed, RecursionError):
            read_literal(said)


def fenced(text: str) -> None:
    reader = FenceFilter()
    for piece in pieces(f"```json\n{text}", 3):
        reader.feed(piece)
    reader.close()


def folded(text: str) -> None:
    folds = Folds()
    folds.fold("x\n" * 20)
    folds.unfold(text)
    folds.word_before(text)


def found(text: str) -> None:
    of_words(text[:2_000])
    match_expression(text[:2_000])


def in_escapes(text: str) -> None:
    printed = Printed()
    printed.told(printed.feed(text))
    printed.end()


TEXT = (*MARKDOWN, *BLANKS, *SIGNS)
TARGETS: dict[str, tuple[Callable[[str], object], tuple[str, ...], int]] = {
    "a page": (html_to_text, (*HTML, *BLANKS, *SIGNS), 128_000),
    "a docstring": (
        read_docstring,
        (":param a: ", "Args:\n", "note\n---\n", "a: b\n", "  a (b): c\n", *TEXT),
        32_000,
    ),
    "Markdown, drawn": (drawn, TEXT, 8_000),
    "Markdown, streamed": (streamed, TEXT, 8_000),
    "literal text, streamed": (literally, TEXT, 8_000),
    "Markdown, printed": (printed, TEXT, 8_000),
    "the first fence": (first_fenced_block, MARKDOWN, 32_000),
    "the last code": (_last_code, MARKDOWN, 32_000),
    "a selection": (selected, TEXT, 32_000),
    "controls": (sanitize, EVERYTHING, 128_000),
    "escapes": (in_escapes, SIGNS, 128_000),
    "reports of a terminal": (lambda text: ReportFilter(events=True).take(text), SIGNS, 128_000),
    "cleaning": (lambda text: Cleaner().feed(text, last=True), (*BLANKS, *SIGNS), 128_000),
    "wrapping": (lambda text: breaks(text, 40), TEXT, 32_000),
    "formulas": (formulas, MARKDOWN, 8_000),
    "a difference": (difference, (*CODE, *BLANKS), 32_000),
    "a literal": (literal, (*MODEL, *SIGNS), 32_000),
    "a fence of JSON": (fenced, (*MODEL, *BLANKS), 8_000),
    "folded pastes": (folded, SIGNS, 128_000),
    "a search": (found, SIGNS, 32_000),
    **{
        f"code in {name}": (coloured(name), (*CODE, *BLANKS, *SIGNS), 8_000)
        for name in ("python", "c", "javascript", "html", "bash", "yaml", "sql", "rust", "markdown", "json")
    },
}


def reply_of(name: str, size: int) -> tuple[Callable[[str], None], tuple[str, ...]]:
    template = template_of(name)

    def work(text: str) -> None:
        parser = template.parser(prompt="", tools=roundtrip.TOOLS)
        for piece in pieces(text, size):
            parser.feed(piece)
        parser.finish()

    scraps = [scrap for scrap in scraps_of(template) if scrap.strip()]
    return work, tuple(dict.fromkeys([*scraps, *MODEL, " ", "\n"]))


for toy in TOYS:
    TARGETS[f"a reply of {toy}, whole"] = (*reply_of(toy, 1 << 30), 16_000)
    TARGETS[f"a reply of {toy}, streamed"] = (*reply_of(toy, 5), 8_000)

KNOWN = {
    "a page": ("'</svg>' and blanks", "'<p>' and blanks"),
    "a docstring": ("'Args:\\n' repeated", "'note\\n---\\n' repeated", "':param a: ', then blanks"),
    "Markdown, drawn": ("'[a](b)' repeated", "'<a@b.c>' repeated", "'|' and blanks", "'[a][' nested"),
    "Markdown, streamed": ("'[a](b)' repeated", "'_a*' repeated", "'> ' repeated", "'[a]: b\\n' repeated"),
    "Markdown, printed": ("'```\\n' repeated", "'a | b\\n- | -\\n' repeated"),
    "the first fence": ("'```py\\n' repeated", "'~~' repeated"),
    "the last code": ("'```py\\n' repeated", "'`' repeated"),
    "a selection": ("'_' repeated", "'__' and blanks", "around: ['[]', '*']"),
    "a literal": ("one, then the other: ['999999999', '\\x1b[']",),
    "a fence of JSON": ("' ' repeated", "'\\n' repeated"),
    "code in c": ("'\\n' repeated", "' ' repeated"),
    "a reply of hermes, whole": ("'<tool_call>' repeated", "'<tool_call>{' on lines"),
    "a reply of hermes, streamed": ("'<tool_call>' repeated",),
}


def steep(name: str, chosen: list[Shape], largest: int) -> list[str]:
    work = TARGETS[name][0]
    work("warm")
    found = [(steepness(work, shape, largest), shape.name) for shape in chosen]
    return [f"{shape}: {times:.1f} times the work" for times, shape in found if times > STEEPEST]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TARGETS)
def test_hostile_text_costs_what_its_length_is(name: str) -> None:
    _, fragments, largest = TARGETS[name]
    every = [*shapes(fragments), *mixed(fragments, seed=7, count=100)]
    assert len(every) >= 400 or len(fragments) < 60
    found = {shape.name: shape for shape in (*every, *mixed(fragments, seed=1, count=400))}
    known = [found[shape] for shape in KNOWN.get(name, ())]
    assert not steep(name, [*known, *Random(name).sample(every, 6)], largest)


@pytest.mark.parametrize("target", ["the first fence", "Markdown, drawn", "Markdown, streamed"])
@pytest.mark.parametrize(
    "lines", ['> > \n"\\"\n', "> > \na\n", "> > >\na\n", "> > \n- a\n", "- > \na\n", "> -\na\n"]
)
def test_quotes_that_end_with_their_first_line_are_read_soon(target: str, lines: str) -> None:
    shape = Shape(f"{lines!r} repeated", lambda size: (lines * (size // len(lines) + 1))[:size])
    assert not steep(target, [shape], 8_000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_every_hostile_text_costs_what_its_length_is(name: str) -> None:
    _, fragments, largest = TARGETS[name]
    every = [*shapes(fragments), *mixed(fragments, seed=1, count=400)]
    assert len(every) >= 400
    # Shorter texts than the few above have: so many shapes take minutes.
    assert not steep(name, every, max(2_000, largest // 4))
