"""Markdown of every block kind, and what it takes to compare two readings of it."""

from __future__ import annotations

from app.tui.transcript.markdown import MarkdownText
from app.tui.transcript.rows import COLOUR, Mode, Row

HOSTILE = "\x1b]52;c;aGk=\x07\x1b[31m\x9b2J\u2028\u2029\x85\x0c\x0b\0\ud800\udfff\u202e\u2066\u200f\x7f\x01"

SAMPLES = {
    "setext": "one\ntwo\n\nAbove\n=====\ntext\nBelow\n---\nrest\n***\n",
    "nested lists": "- a\n- b\n  - c\n    still c\n  - d\n\n    second of d\n- e\n\n\n- f\n\nafter\n",
    "ordered": "3. three\n4. four\n   1. one\n   2. two\n\n   back in four\n9. next\n4) another list\n",
    "fence in item": "1. x\n   ```python\n   def f():\n\n       return 1\n   ```\n   after\n2. y\n",
    "quotes": "> one\nlazy\n> - a\n>   - b\n>\n> ## head\n> text\n\n> other\n",
    "fence in quote": "> ```js\n> let a = 1\n>\n> let b\n> ```\n> end\n\n> ```\n> open\nnot code\n",
    "table": "| a | b |\n|---|:-:|\n| 1 | **2** |\n| long words in it | x\\|y |\n| c |\n\nafter\n",
    "table in item": "- x\n  | h | i |\n  |---|--:|\n  | 1 | 2 |\n  | 3 | 4 |\n- y\n",
    "table in quote": "> | h | i |\n> |---|--:|\n> | 1 | 2 |\n> | 3 | 4 |\nlazy\n",
    "table takes an item": "- a | b\n|---|---|\n| 1 | 2 |\n\n- x\n- a | b\n|---|---|\n",
    "table ends": "|a|\n|-|\n> quote\n\n|a|\n|-|\n\nb\n|x|\n",
    "rule or heading": "para\n---\n- - -\n* * *\n- x\n- - y\n---\n",
    "fences": "~~~ py title\nx\n```\n~~~~\nt\n````\n```\ninner\n```\n````\n```py|x\n|---|---|\n",
    "fence without end": "text\n```\nlast\nline",
    "definitions": "[foo], [Foo][] and [bar][baz]\n\n[foo]: http://x\n'title'\n[baz]: <http://y> \"t\"\nx\n",
    "half a title": "[foo2]: /u\n'unfinished title\nends'\npara [foo2]\n\n[a\nb]: /c\n",
    "footnotes": "text[^1] and[^note]\n\n[^1]: word\n[^note]: More words here.\n",
    "html": "<div>\nhello\n\n*para*\n</div>\n\n<!-- a\n\nb -->\nx <b>y</b>\n<pre>\na\n\nb</pre>\nz\n",
    "indented": "    code\n\n    more\n\npara\n    lazy\n\n\tcode\twith tab\n",
    "tabs": "-\ttab\n\n\tpara\n\t- inner\n\n\t\tcode?\n1.\tone\n\t2\n>\tq\n",
    "empty items": "- a\n-\n- c\n-\n\n  not in it\n10. \n    ~~~\n    x\n",
    "tasks": "- [ ] to do\n- [x] done\n- [X]\n- [x](u)\n  - [ ] inner [a]\n\n[a]: /b\n",
    "inline": '*a **b `c d`* e** ~~f [g *h*](i "j")~~ <http://l.m> ![n *o*](p) q_r_s 2 * 3 < 4 \\*t\\*\n',
    "inline over lines": "`code\nspan` *em\nph* **x\n\ny** a  \nb\\\nc &amp; &#x1F525; &#27;\n",
    "urls": "see https://a.b/c_d?e=*f*. And (http://g.h/i) or http://j.k/l(m)\n",
    "maths": "$x^2$ \\(\\frac{a}{b}\\) costs $5 or $6, `$y$` \\[\n\\sum_{i=1}^n i\n\\]\n\n$$\na = b\n$$\n",
    "wide": "你好世界你好 👩‍👩‍👧 e\u0301 **粗体字** `代码` 🇩🇪 ✌🏽\n\n| 名 | x |\n|:-:|--|\n| 世界 | 👍 |\n",
    "deep": "- - - - a\n        - b\n\n> > > > c\n> > d\n\n1. - > - x\n     > y\n",
    "links of our own": "[a]: /1\n[b]: /2\n[a] [b]\n\n- [c]\n\n[c]: /3\n",
    "carriage returns": "one\r\ntwo\r\n\r\n```c\r\nint\tx; /* a\r\nb */\r\n```\r\nlast\rline\r",
    "hostile": f"a{HOSTILE}b\n\n- {HOSTILE}\n\n```{HOSTILE}\n{HOSTILE}\n```\n"
    + f"\n| {HOSTILE} |\n|---|\n| {HOSTILE} |\n",
    "long paragraph": "words *and* `code`, **bold**, [l](u), snake_case, 2 * 3 < 4 and $5. " * 12 + "\n\nz\n",
    "long lines to a heading": "".join(f"{at} line  \n" for at in range(9)) + "===\nnext\n",
    "long lines to a table": "line *of* `it`  \n" * 9 + "| a | b |  \n|---|---|\n| 1 | 2 |\n",
    "long lines in an item": "- > x\n" + "lazy line\n" * 4 + "  > one\n" * 4 + "  2. no item\n+ item\n",
    "long lines of code": "- a\n\n      code\n\n      more\n      on\n  >\n      new\n\n\n      x\n\n  p\n",
    "long html": "> <pre>\n" + "> x\n>\n" * 5 + "> </pre> y\n> text\n\n<p>\n" + "a *b*\n" * 9 + "\nc\n",
    "diff": "```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n```\n",
}

WIDTHS = (12, 24, 40, 92)
MODES = (COLOUR, Mode(plain=True), Mode(plain=True, ascii=True, link_targets=True))


def settled_rows(text: MarkdownText, width: int, mode: Mode) -> list[Row]:
    """The rows when nothing is left to improve."""
    text.layout(width, mode)
    while text.settle(0.01):
        pass
    text.layout(width, mode)
    return text.rows


def fresh_rows(source: str, width: int, mode: Mode) -> list[Row]:
    """The rows of one reading of the whole source."""
    return settled_rows(MarkdownText(source, finished=True), width, mode)
