"""Hostile texts by a grammar: fragments that open, close or half-open something, repeated, nested and mixed.

A shape makes a text of about any length, so that what reading it costs can be held against its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from random import Random
from typing import NamedTuple


class Shape(NamedTuple):
    name: str
    make: Callable[[int], str]
    """A text of about so many characters, at least one fragment long."""


MARKDOWN = (
    *(
        "*",
        "**",
        "_",
        "__",
        "***a ",
        "a_b_",
        "*a**",
        "~~",
        "~",
        "`",
        "``",
        "`a``",
        "[",
        "]",
        "![",
        "[[",
        "[a](b)",
    ),
    *("[a](", "[a][", "[a]: b\n", "[a", "](", "](<", '![a](b "', "<", "<a", '<a b="', "</a>", "<!--", "-->"),
    *(
        "<http://a>",
        "<a@b.c>",
        "http://a.b/",
        "https://(",
        "www.",
        "&",
        "&amp;",
        "&#",
        "&#x41;",
        "&lt",
        "\\",
        "\\\\",
    ),
    *(
        "\\*",
        "$",
        "$$",
        "\\(",
        "\\[",
        "\\frac{",
        "{",
        "}",
        "$a",
        "^{",
        "_{",
        "\\begin{align}",
        "|",
        "| a ",
        "|-",
    ),
    *(
        "a | b\n- | -\n",
        "|\n|-\n|",
        "\\|",
        "> ",
        ">",
        "- ",
        "* - ",
        "1. ",
        "10) ",
        "- [ ] ",
        "  - a\n",
        "\t- a\n",
    ),
    *(
        "# ",
        "#",
        "a\n=\n",
        "a\n-\n",
        "---\n",
        "***\n",
        "```\n",
        "~~~\n",
        "````",
        "```py\n",
        "    a\n",
        "\ta\n",
    ),
    *(
        "<pre>\n",
        "<script>",
        "<?",
        "<![CDATA[",
        "<div>\n\n",
        "[^1]: ",
        "[^1]",
        "*[a](b",
        "**[",
        "`[",
        "_a*",
        "![",
    ),
)
BLANKS = (
    " ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\n\n",
    " \n",
    "\u00a0",
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "  \n",
    "\\\n",
)
SIGNS = (
    *(
        "a",
        "A",
        "0",
        "9" * 9,
        "1,",
        "1.",
        "-",
        "+",
        "=",
        ",",
        ".",
        ":",
        ";",
        "!",
        "?",
        "'",
        '"',
        "''",
        '"""',
        "/",
    ),
    *(
        "//",
        "/*",
        "*/",
        "(",
        ")",
        "()",
        "{}",
        "[]",
        "%",
        "@",
        "@a",
        "#a",
        "\0",
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1b]0;",
    ),
    *(
        "\u0301",
        "e\u0301",
        "\u200d",
        "\U0001f468\u200d",
        "\U0001f1e6",
        "\ufe0f",
        "\u3042",
        "\ud800",
        "\u202e",
        "\uff5c",
    ),
    *(
        "a b ",
        "a-b-",
        "aA",
        "a.b.",
        "a@b.",
        "a/b/",
        "//a",
        "x=",
        "x='",
        'x="',
        "<<E\n",
        "\\x",
        "\\u12",
        "\\n",
        "%s",
    ),
)
MODEL = (
    *(
        "<tool_call>",
        "</tool_call>",
        "<tool_call>{",
        "<tool_call>\n",
        '{"name": "',
        '{"name": "f", "arguments": {',
    ),
    *(
        '{"a": ',
        '{"a": [',
        '["',
        '"a", ',
        '"\\',
        '\\"',
        '"}',
        "}}",
        "]}",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[TOOL_CALLS] [{",
    ),
    *(
        "<think>",
        "</think>",
        "<|",
        "|>",
        "<|im_end|>",
        "<|channel|>",
        "<|message|>",
        "<|start|>",
        "<|call|>",
        "to=f ",
    ),
    *(
        "<function=f>",
        "<parameter=a>",
        "</parameter>",
        "</function>",
        "<｜",
        "functions.f:0",
        "```json\n",
        "```json",
    ),
    *(
        "<|python_tag|>",
        "f(",
        "f(a=",
        "[f(a='",
        "',",
        "<arg_key>a</arg_key>",
        "<arg_value>",
        "<call>",
        "]]>",
        "<![CDATA[",
    ),
)
HTML = (
    *(
        "<p>",
        "</p>",
        "<p",
        "<a href=",
        '<a href="',
        "<a href='x' ",
        "<a href=x>b</a>",
        "href",
        " href = ",
        "<a ",
        "<a/",
    ),
    *(
        "<title>",
        "</title",
        "<textarea>",
        "</textarea ",
        "<script>",
        "</script",
        "<style>",
        "</s",
        "<noscript>",
        "<svg>",
    ),
    *(
        "</svg>",
        "<select>",
        "<iframe>",
        "<pre>",
        "</pre>",
        "<li>",
        "<td>",
        "<h1>",
        "<ul><li>",
        "</ul>",
        "<!-",
        "<!--",
        "--",
    ),
    *(
        "<!",
        "<?",
        "</",
        "< ",
        "&#1",
        "&#x",
        "&amp",
        "&amp;lt;",
        "&notit;",
        "&" + "a" * 40,
        "&#" + "9" * 40,
        "<A",
        "</A>",
    ),
)
CODE = (
    *(
        '"',
        "'",
        "`",
        '"""',
        "'''",
        'r"',
        'f"{',
        "f'{a",
        "b'",
        "{{",
        "{%",
        "{#",
        "${",
        "#{",
        "$(",
        "%{",
        "<<EOF\n",
        "<<~E\n",
    ),
    *(
        "/*",
        "*/",
        "/**",
        "//",
        "#",
        "--",
        "--[[",
        "[=[",
        "(*",
        "{-",
        "<!--",
        "<%",
        "<?php",
        "?>",
        "=begin\n",
        "\\",
        "\\\n",
    ),
    *(
        "def f(",
        "class A",
        "@a",
        "a.b(",
        "fn f<",
        "a::b",
        "#include",
        "#define ",
        "a: b\n",
        "- a\n",
        "? ",
        ": ",
        "|\n",
        ">\n",
    ),
    *(
        "[a]\n",
        "a=b\n",
        "a = ",
        "0x",
        "1e",
        "1_",
        "0b",
        "a<b<",
        "a(b(",
        "if a",
        "end\n",
        "begin ",
        "SELECT ",
        "/a/",
        "s/a/",
    ),
)
SETS = {"markdown": MARKDOWN, "blanks": BLANKS, "signs": SIGNS, "model": MODEL, "html": HTML, "code": CODE}
EVERYTHING = tuple(dict.fromkeys(fragment for fragments in SETS.values() for fragment in fragments))

_PARTNERS = {
    "(": ")",
    "[": "]",
    "{": "}",
    "<": ">",
    "*": "*",
    "_": "_",
    "`": "`",
    '"': '"',
    "'": "'",
    "$": "$",
}


def shapes(fragments: Sequence[str] = EVERYTHING) -> Iterator[Shape]:
    """Every simple shape of the fragments: each repeated, nested, by lines, in a word, behind a head."""
    for fragment in fragments:
        yield from _shapes_of(fragment)


def mixed(fragments: Sequence[str], seed: int, count: int) -> Iterator[Shape]:
    """`count` mixed shapes, others for each seed: two or three fragments in turn, or one around others."""
    dice = Random(seed)
    for _ in range(count):
        few = dice.sample(fragments, dice.choice((2, 2, 3)))
        kind = dice.choice(("in turn", "one, then the other", "by lines", "around"))
        yield Shape(f"{kind}: {few!r}", _mixture(kind, few))


def pairs(fragments: Sequence[str]) -> Iterator[Shape]:
    """Two fragments in turn, for every pair."""
    for few in permutations(fragments, 2):
        yield Shape(f"in turn: {list(few)!r}", _mixture("in turn", few))


def _shapes_of(fragment: str) -> Iterator[Shape]:
    closing = "".join(_PARTNERS.get(char, "") for char in reversed(fragment))
    said = repr(fragment)
    yield Shape(f"{said} repeated", lambda size: _filled(fragment, size))
    yield Shape(f"{said} on lines", lambda size: _filled(f"{fragment}\n", size))
    yield Shape(f"{said} and blanks", lambda size: _filled(f"{fragment} ", size))
    yield Shape(f"{said} in words", lambda size: _filled(f"a{fragment}b ", size))
    yield Shape(f"{said}, then letters", lambda size: fragment + "a" * size)
    yield Shape(f"letters, then {said}", lambda size: "a" * size + fragment)
    yield Shape(f"{said} in paragraphs", lambda size: _filled(f"{fragment}\n\n", size))
    yield Shape(f"{said}, then blanks", lambda size: fragment + " " * size + "x")
    if closing:
        yield Shape(f"{said} nested", lambda size: _nested(fragment, closing, size))


def _mixture(kind: str, few: Sequence[str]) -> Callable[[int], str]:
    first, rest = few[0], "".join(few[1:])
    match kind:
        case "in turn":
            return lambda size: _filled(first + rest, size)
        case "one, then the other":
            return lambda size: _filled(first, size // 2) + _filled(rest, size // 2)
        case "by lines":
            return lambda size: _filled(f"{first}\n{rest}\n", size)
        case _:
            return lambda size: first + _filled(rest, size) + first


def _filled(fragment: str, size: int) -> str:
    return fragment * max(1, size // len(fragment))


def _nested(opening: str, closing: str, size: int) -> str:
    depth = max(1, size // (len(opening) + len(closing)))
    return opening * depth + "a" + closing * depth
