"""A link says where it leads, whatever its text says, wherever it is shown."""

from __future__ import annotations

import pytest

from app.frontend.markdown_style import own_style
from app.markdown.links import SHOWN_CHARS, target_note, web_address
from app.markdown.markdown import MarkdownText
from app.markdown.rows import COLOUR, Mode
from app.markdown.stream import render_block

MODES = (COLOUR, Mode(plain=True), Mode(ascii=True), Mode(link_targets=True))
TRAPS = {
    "[https://bank.com](https://evil.com)": "https://evil.com",
    "[click here](https://evil.com/x)": "https://evil.com/x",
    "[**https://bank.com**](https://evil.com)": "https://evil.com",
    "[`https://bank.com`](https://evil.com)": "https://evil.com",
    "[https://bank.com][1]\n\n[1]: https://evil.com": "https://evil.com",
    "[bank.com]\n\n[bank.com]: https://evil.com": "https://evil.com",
    "![https://bank.com](https://evil.com/a.png)": "https://evil.com/a.png",
    "[![https://bank.com](a.png)](https://evil.com)": "https://evil.com",
    "[https://bank.com](mailto:a@evil.com)": "a@evil.com",
    "[https://bank.com](https://bank.com@evil.com)": "@evil.com",
    "[https://bank.com](https://bank.com.evil.com/)": "https://bank.com.evil.com/",
    "[https://bank.com/](https://bank.com/other)": "https://bank.com/other",
    "| a |\n|---|\n| [https://bank.com](https://evil.com) |": "https://evil.com",
    "# [https://bank.com](https://evil.com)": "https://evil.com",
    "> - [https://bank.com](https://evil.com)": "https://evil.com",
}


def shown(source: str, mode: Mode) -> str:
    text = MarkdownText(source, finished=True)
    text.layout(160, mode)
    while text.settle(1.0):
        text.layout(160, mode)
    return "\n".join(row.text for row in text.rows)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", TRAPS)
def test_a_link_whose_text_is_not_its_target_shows_the_target(source: str, mode: Mode) -> None:
    assert TRAPS[source] in shown(source, mode)
    assert TRAPS[source] in render_block(source, 160, own_style())


@pytest.mark.parametrize(
    "source",
    [
        "<https://bank.com>",
        "https://bank.com/a?b=c",
        "[https://bank.com](https://bank.com)",
        "[bank.com](https://bank.com/)",
        "<a@b.org>",
    ],
)
def test_a_link_that_says_where_it_leads_says_it_once(source: str) -> None:
    assert "(" not in shown(source, COLOUR).replace(source, "")


@pytest.mark.parametrize(
    ("source", "host"),
    [
        ("https://b\u0430nk.com/x", "xn--bnk-6cd.com"),
        ("[https://b\u0430nk.com](https://b\u0430nk.com)", "xn--bnk-6cd.com"),
        ("<https://b\u0430nk.com>", "xn--bnk-6cd.com"),
        ("https://xn--bnk-6cd.com", "xn--bnk-6cd.com"),
        ("mail [me](mailto:a@b\u0430nk.com)", "xn--bnk-6cd.com"),
    ],
)
def test_a_host_in_other_letters_is_marked(source: str, host: str) -> None:
    assert f"not plain letters: {host}" in shown(source, COLOUR)


def test_a_long_target_shows_its_host_whole() -> None:
    host = f"{'a' * 60}.{'b' * 60}.evil.com"
    note = target_note("x", f"https://{host}/{'c' * 500}", whole=False)
    assert host in note and len(note) < len(host) + 60
    assert target_note("x", f"https://evil.com/{'c' * 500}", whole=True).count("c") > SHOWN_CHARS


def test_a_target_brings_no_control_along() -> None:
    note = target_note("x", "https://e.com/\u202e\x1b\n\u200b")
    assert note.startswith(" (https://e.com/") and note.isprintable()


@pytest.mark.parametrize(
    "target", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://a@b.c"]
)
def test_nothing_but_web_addresses_becomes_a_link_of_the_terminal(target: str) -> None:
    assert web_address(target) is None
