from __future__ import annotations

from collections.abc import Iterator

import pytest
from pygments.token import Keyword

from app.markdown import highlight
from app.markdown.highlight import Highlighter, language_of

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


def styled(language: str, lines: list[str]) -> list[list[tuple[str, str]]]:
    highlighter = Highlighter(language)
    assert not highlighter.advance(lines, len(lines), FAR)
    return highlighter.styled


@pytest.mark.parametrize("language", SAMPLES)
def test_a_line_is_coloured_alike_while_a_block_grows_and_at_once(language: str) -> None:
    lines = SAMPLES[language].split("\n")
    followed = Highlighter(language)
    for count in range(1, len(lines)):
        followed.follow(lines[:count], count - 1)
    for line, text in zip(followed.styled, lines, strict=False):
        assert "".join([part for part, _ in line]) == text
    while followed.advance(lines, len(lines), 0):
        pass
    assert followed.styled == styled(language, lines)


def test_roles_of_python() -> None:
    roles = {text: style for line in styled("python", PYTHON.split("\n")) for text, style in line}
    assert roles["import"] == "keyword"
    assert roles["@wraps"] == "decorator"
    assert roles["A"] == roles["f"] == "function"
    assert roles["len"] == "builtin"
    assert roles["1"] == "number"
    assert roles["# c"] == "comment:i"


def test_too_much_of_anything_stays_plain() -> None:
    assert styled("python", ["x = 1" * 2000, "x = 1"]) == [
        [("x = 1" * 2000, "code")],
        [("x ", "code"), ("=", "operator"), (" ", "code"), ("1", "number")],
    ]
    assert len(styled("python", ["x = 1"] * 100_000)) < 100_000


def test_a_block_of_slow_lines_goes_on_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter(range(1000))
    monkeypatch.setattr(highlight, "thread_time", lambda: next(spent))
    assert len(styled("python", ["x = 1"] * 100)) < 10


def test_a_lexer_gets_one_line_of_bounded_length(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    class Asked:
        aliases = ("asked",)

        def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
            given.append(text)
            yield 0, Keyword, text

    monkeypatch.setattr(highlight, "_lexer", lambda language: Asked())
    lines = ["a", "b" * 5000, "", "c" * 300]
    assert [line for (line, _), *_ in filter(None, styled("asked", lines))] == [
        text for text in lines if text
    ]
    assert given == ["a\n", "\n", "c" * 300 + "\n"]


def test_much_new_code_waits_for_its_time() -> None:
    highlighter = Highlighter("python")
    lines = ["x = 1"] * 5000
    highlighter.follow(lines, 5000)
    assert highlighter.styled == []
    assert highlighter.advance(lines, 5000, 0)
    assert len(highlighter.styled) == 1


def test_every_language_that_is_coloured_is_there() -> None:
    for language in highlight.LEXERS:
        assert Highlighter(language).advance(["x"], 1, 0) is False
        assert highlight._lexer(language) is not None, language


def test_other_languages_are_shown_without_colours() -> None:
    assert styled("autohotkey", ["x := 1"]) == []


def test_a_script_in_a_page_is_one_up_to_its_end() -> None:
    lines = ["<script>", "let a = 1;", "let b;", "</script>", "<p>let</p>"]
    found = styled("html", lines)
    assert found[1][0] == found[2][0] == ("let", "keyword")
    assert ("let", "keyword") not in found[4]


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
    """A lexer that loses text, or fails."""

    aliases = ("wrong",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, object, str]]:
        yield 0, Keyword, "xx\n" if text == "a\n" else text
        raise IndexError("no such state")


def test_a_lexer_that_is_wrong_costs_colours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highlight, "_lexer", lambda language: Wrong())
    assert styled("wrong", ["a", "b", ""]) == [[("a", "code")], [("b", "keyword")], []]


@pytest.mark.parametrize("language", ["c", "javascript", "css", "java", "go", "sql", "php", "rust", "kotlin"])
def test_a_comment_over_lines_is_one_from_its_first_line_on(language: str) -> None:
    lines = ["a { b }", "x /* one", "   let two = 3;", "   end */ y", "a { b }", ""]
    if language == "php":
        lines = ["<?php", *lines]
    found = styled(language, lines)[-6:]
    assert found[1][-1] == ("/* one", "comment:i")
    assert found[2] == [("   let two = 3;", "comment:i")]
    assert found[3][0] == ("   end */", "comment:i")
    assert found[3][-1][0].strip() == "y"
    assert found[4] == found[0]


def test_a_comment_sign_in_a_text_opens_none() -> None:
    for line in ('x = "/*"', "x = 1 // /*", "/* a */ b"):
        assert styled("c", [line, "int y"])[1][0] == ("int", "keyword")
