"""Markdown of every block kind, and what it takes to compare two readings of it."""

from __future__ import annotations

from app.markdown.markdown import MarkdownText
from app.markdown.rows import COLOUR, Mode, Row

HOSTILE = "\x1b]52;c;aGk=\x07\x1b[31m\x9b2J\u2028\u2029\x85\x0c\x0b\0\ud800\udfff\u202e\u2066\u200f\x7f\x01"

MORE_SHARDS = (
    "-\t¦> > ¦0. ¦999999999. ¦- - -¦___¦~~~~ js x¦``` `¦<script>¦<!X¦<?p¦<![CDATA[¦]]>¦<p¦<x y='z'>¦</style>"
    "¦a|b|c|d¦\\|¦<http://a.b>¦<a@b.c>¦javascript:x¦[l](<u v>)¦[foo\nbar]: /x¦[b][a]¦&#27;¦&#x202e;¦&nbsp;"
    "¦\\\n¦  \n¦$5¦\\[x\n= y\\]¦$$\na\n$$¦/*¦*/¦\u1100¦\u1161¦\U0001f1e9¦\u05d0¦\u0645¦\u200b¦\ufeff"
    "¦\xad¦\xa0¦\u3000¦\u1680¦\ufdfa¦\u20e3¦\U000e0067¦\U000e007f¦\uffff¦\u115f¦\u2060¦\x1c¦\n\n\n"
).split("¦")

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
    "definitions over headings": "[foo\n(x\n===\nbar\n---\nz]: /x\n\n[c]:\n[c]:\n'x\n===\n"
    + "[a]\nline'\n\n[d\n===\ne\n",
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
    "marks in scripts without blanks": "**星号。**这是~~（删）~~的，*强调：*继续__注意：__请 snake_case "
    + "**“引”**和**“再”**用\n\n1. 前**（一）**后 **마크다운(Markdown)**은"
    + " **ﾊﾝｶｸ｡**ｶﾅ a**“b”**c **“\ufe00x”\ufe00**和\n",
    "breaks in cells": "| a<br>b | **c<br/>d** |\n|--|:-:|\n| 1<BR />2 | `x<br>y` <b>z</b> |\n"
    + "| <br> | 3<br |\n\n- one<br>two <br\n",
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
    "every html": "<script>\n\n*a*\n</script>\n<!-- b\n\nc -->\n<?php\n\nd ?>\n<!DOCTYPE\n\ne>\n<![CDATA[\n\n"
    + "f ]]>\n<p\n>g\n\n<x y='z'>\n*h*\n\ntext\n<x y>\n</style>\n\n- <textarea>\n\n  i\n\n  </textarea>\n",
    "html that ends in a quote": "> 0. <pre\n>",
    "quote that ends a block": "> - ```c\n>   /* x\n>\nafter\n\n- ~~~c++\n  /* y\n  z\n\n[a]\n\n"
    + ">\t1. <pre>\n>\n> \nx\n",
    "task under a line": "- [ ] one\n"
    + "more\n" * 6
    + "  ---\n- [x] two\n  ===\n- # [ ] three\n- [\u202e ] *\n",
    "tabs in quotes": ">> -\t*\n>>   e\n>\n\n2) >>-\t   y\n   >>   y\n \n>\t- a\n>\t\t- b\n>\n>\t\tc\n",
    "long lines to a tab": ">>- a\n" + "b\n" * 6 + ">>-\t\n>\n",
    "lists in quotes in lists": "1. > - a\n   >   - [ ] b\n   >     > c\n   >\n   > 2. d\n   e\n"
    + "2. > | x |\n   > |---|\n"
    + "   > | y |\n   >\n   > ~~~ js\n   > 1\n   > ~~~\n",
    "rare blanks": "\xa0\n\u3000a\nb\n\u1680  \nc\u2003\n\u2003\n- \xa0\n- \u3000x\n\n\u1680 \n"
    + "line\n" * 8
    + "\u3000\nend\n",
    "too many cells": "| a | b |\n|---|---|\n| `ls | wc` | 1 | 2 \\| 3 |\n|||x||\n| 1 | 2 | |\n"
    + "\n2) |x|y\n   -|-\n   1|2|3\n\n> - >|x\n>   >|-\n> > 1 | 2 \\|\n",
    "entities": "&amp; &ouml; &copy; &#35; &#0; &#x202e; &nbsp;&unknown; &#xD800;\n\n- &#9;x\n\n"
    + "```&amp;\n&amp;\n```\n",
    "escapes": "\\# no\n\\- no\n\n\\> no \\` \\[a\\](b) \\\\ \\q\n\n1\\. no\n\n| a\\|b | \\* |\n"
    + "|--|--|\n| \\\\ | `\\|` |\n",
    "autolinks": "<http://a.b?c=<d> <x@y.z> <javascript:x> www.e.f http://g.h. https://i.j/(k) [http://l](m)\n",
    "right to left": "\u0627\u0644\u0639 a \u05d0\u05d1 **\u05d2** `\u05d3`\n\n| \u05d0 | b |\n"
    + "|--|--|\n| \u200f1 | \u05d4 |\n",
    "joined signs": "\u1100\u1161\u11a8 \u1100 \U0001f1e9\U0001f1ea\U0001f1eb \u2764\ufe0f \u260e\ufe0e "
    + "1\ufe0f\u20e3 \U0001f3f4\U000e0067\U000e0062\U000e007f \u0301 x\u0301\u0302 \u0e01\u0e47 \u0928\u093f "
    + "\ufdfa\n\u0301\n\u200b\n\ufeff\n",
    "long words": "x" * 130 + " " + "\u4e16" * 70 + "\n\n- " + "y-" * 60 + "\n\n`" + "z" * 99 + "`  \n  a\n",
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
