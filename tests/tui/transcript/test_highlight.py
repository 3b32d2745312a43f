from __future__ import annotations

from collections.abc import Iterator

import pytest
from pygments.token import Keyword

from app.tui.transcript import highlight
from app.tui.transcript.highlight import Highlighter, language_of

FAR = float("inf")
PYTHON = (
    'import os\n\n\n@wraps\nclass A(B):\n    def f(self):\n        """D."""\n        return len("x") + 1  # c'
)
SAMPLES = {
    "python": PYTHON,
    "c": "/* a\n b */\nint main(void) { return 0; } // x\n",
    "javascript": "const a = `b\n${c}\n`;\n/* d\n*/ f();\n",
    "bash": "cat <<EOF\nx $y\nEOF\nfor a in *; do echo $a; done\n",
    "json": '{"a": [1,\n true]}\n',
    "yaml": "a:\n  - b: |\n      text\n    c: 1\n",
    "html": "<p class='x'>\n<script>\nlet a;\n</script>\n",
    "rust": 'fn main() {\n    println!("{}", 1);\n}\n',
    "php": "<?php\necho 1; ?>\n",
    "made-up": "x\ny\n",
}


@pytest.mark.parametrize("language", SAMPLES)
def test_following_then_closing_equals_lexing_at_once(language: str) -> None:
    lines = SAMPLES[language].split("\n")
    followed = Highlighter(language)
    for count in range(1, len(lines)):
        followed.follow(lines[:count], count - 1)
    for styled, line in zip(followed.styled, lines, strict=False):
        assert "".join([text for text, _ in styled]) == line
    while followed.advance(lines, len(lines), True, 0):
        pass
    fresh = Highlighter(language)
    fresh.advance(lines, len(lines), True, FAR)
    assert followed.styled == fresh.styled


def test_roles_of_python() -> None:
    highlighter = Highlighter("python")
    lines = PYTHON.split("\n")
    highlighter.advance(lines, len(lines), True, FAR)
    roles = {text: style for line in highlighter.styled for text, style in line}
    assert roles["import"] == "keyword"
    assert roles["@wraps"] == "decorator"
    assert roles["A"] == roles["f"] == "function"
    assert roles["len"] == "builtin"
    assert roles["1"] == "number"
    assert roles["# c"] == "comment:i"


def test_a_block_that_opens_again_is_lexed_again() -> None:
    highlighter = Highlighter("python")
    lines = ["x = '''", "a"]
    highlighter.advance(lines, 2, True, FAR)
    lines += ["```", "'''"]
    highlighter.follow(lines, 3)
    highlighter.advance(lines, 4, True, FAR)
    fresh = Highlighter("python")
    fresh.advance(lines, 4, True, FAR)
    assert highlighter.styled == fresh.styled


def test_too_much_of_anything_stays_plain() -> None:
    for lines in (["x = 1" * 2000], ["x = 1"] * 100_000):
        highlighter = Highlighter("python")
        assert not highlighter.advance(lines, len(lines), True, FAR)
        assert highlighter.styled == []


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("python", "python"),
        ("Python title=x", "python"),
        ("{.python}", "python"),
        ("rust,ignore", "rust"),
        ("", ""),
        ("js:file.js", "js"),
        ("c++", "c++"),
        ("objective-c", "objective-c"),
    ],
)
def test_the_language_of_an_info_string(info: str, language: str) -> None:
    assert language_of(info) == language


class Wrong:
    """A lexer that loses text, then fails."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        yield 0, Keyword, "xx\n"
        yield 3, Keyword, "b\n"
        raise IndexError("no such state")


def test_a_lexer_that_is_wrong_costs_colours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highlight, "_lexer", lambda language: Wrong())
    highlighter = Highlighter("wrong")
    assert not highlighter.advance(["a", "b", "c"], 3, True, FAR)
    assert highlighter.styled == [[("a", "code")], [("b", "keyword")]]


@pytest.mark.parametrize("language", ["c", "javascript", "css", "java", "go"])
def test_a_comment_over_lines_is_one_as_soon_as_it_ends(language: str) -> None:
    lines = ["a { b }", "/* one", "   let two = 3;", "   end */", "a { b }", ""]
    highlighter = Highlighter(language)
    for count in range(1, len(lines)):
        highlighter.follow(lines[:count], count)
    assert [line[0][1] for line in highlighter.styled[1:4]] == ["comment:i"] * 3
    exact = Highlighter(language)
    exact.advance(lines, len(lines), True, FAR)
    assert highlighter.styled[:5] == exact.styled[:5]
