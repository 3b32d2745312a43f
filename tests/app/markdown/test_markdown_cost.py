"""What a token costs, in characters read and rows made: counts that no machine changes."""

from __future__ import annotations

import pytest

from app.markdown.markdown import MarkdownText

CODE = "    def method(self, value: int) -> str:\n        return f'{value}' + \"abc\"  # comment\n\n"
PARAGRAPH = "Some **bold** text and `code`, long enough to wrap over a row of the screen at this width.\n\n"

BEFORE = {
    "empty": "",
    "400 paragraphs": PARAGRAPH * 400,
    "3,000 lines of code": "```python\n" + CODE * 1000,
    "3,000 lines of code in an item": "- x\n\n  ```python\n" + (CODE * 1000).replace("\n", "\n  "),
    "3,000 lines of code in a quote": "> ```python\n> " + (CODE * 1000).replace("\n", "\n> "),
    "200 items": "- item with **bold**\n" * 200 + "- ",
    "200 nested items": "".join(f"{'  ' * (at % 4)}- item {at}\n" for at in range(200)) + "- ",
    "200 rows": "| a | b | c |\n|---|---|--:|\n" + "| cell | **bold** | 12 |\n" * 200 + "| ",
    "1,000 lines": "12, 7, and a word\n" * 1000,
    "1,000 lines of indented code": "    x = 1\n" * 1000 + "    ",
    "1,000 lines of html": "<script>\n" + "  let x = 1;\n\n" * 500 + "  ",
    "300 definitions": "".join(f"[a{at}]: /u{at}\n" for at in range(300)) + "see [a1] ",
    "6,000 characters": "words and *more* words with `code`, " * 170,
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_token_costs_the_same_whatever_came_before(name: str) -> None:
    text = MarkdownText(BEFORE[name])
    text.layout(92)
    while text.settle(1):
        pass
    text.layout(92)
    read = text.read_characters
    tokens = ["word ", "x", ", ", "and\n" if "code" in name else "and ", "more "] * 6
    for token in tokens:
        rows = len(text.rows)
        text.append(token)
        changed = text.layout(92)
        # A column that widens moves a table; nothing else touches what stands above.
        assert changed >= rows - 3 or name == "200 rows"
    assert (text.read_characters - read) / len(tokens) < 1_000


@pytest.mark.parametrize("line", ["x = f(1)\n", "\n", "    return  # done\n"])
def test_a_line_of_code_is_laid_out_alone(line: str) -> None:
    text = MarkdownText(BEFORE["3,000 lines of code"])
    text.layout(92)
    while text.settle(1):
        pass
    text.layout(92)
    read = text.read_characters
    for _ in range(20):
        rows = len(text.rows)
        text.append(line)
        assert text.layout(92) >= rows - 2
    assert text.read_characters - read < 20 * 200


def test_ten_kilobytes_of_everything() -> None:
    source = (
        PARAGRAPH + "- a\n- b\n  - c\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> q\n\n"
    ) * 60
    text = MarkdownText()
    pieces = [source[at : at + 4] for at in range(0, len(source), 4)]
    for piece in pieces:
        text.append(piece)
        text.layout(92)
    assert text.read_characters / len(pieces) < 300


def test_a_message_that_is_never_shown_is_never_parsed() -> None:
    text = MarkdownText(PARAGRAPH * 100, finished=True)
    assert text.estimate(92) > 100
    assert text.read_characters == 0


def test_long_code_is_coloured_in_slices() -> None:
    text = MarkdownText("```python\n" + CODE * 1000 + "```\n", finished=True)
    text.layout(92)
    assert {run.style for row in text.rows[1:] for run in row.runs} == {"code"}
    slices = 0
    while text.settle(0):
        slices += 1
    assert slices > 100
    assert text.layout(92) < 5
    assert {"keyword", "function", "comment:i"} <= {run.style for row in text.rows for run in row.runs}
