from __future__ import annotations

import pytest

from app.markdown.markdown import MarkdownText
from app.markdown.rows import COLOUR, Mode, Row
from tests.app.markdown.samples import settled_rows

PLAIN = Mode(plain=True)
ASCII = Mode(plain=True, ascii=True, link_targets=True)


def rows(source: str, width: int = 60, mode: Mode = COLOUR) -> list[Row]:
    return settled_rows(MarkdownText(source, finished=True), width, mode)


def shown(source: str, width: int = 60, mode: Mode = COLOUR) -> list[str]:
    return [row.text for row in rows(source, width, mode)]


def styles(row: Row) -> list[tuple[str, str]]:
    return [(run.text, run.style) for run in row.runs]


def test_attributes() -> None:
    assert styles(rows("a **b *c*** ~~d~~ `e` *`f`*")[0]) == [
        ("a ", "text"),
        ("b ", "text:b"),
        ("c", "text:bi"),
        (" ", "text"),
        ("d", "text:s"),
        (" ", "text"),
        ("e", "chip"),
        (" ", "text"),
        ("f", "chip:i"),
    ]
    assert shown("~~d~~ `e`", mode=PLAIN) == ["~d~ `e`"]


def test_headings() -> None:
    assert styles(rows("## A *b*\ntext")[0]) == [("A ", "text:b"), ("b", "text:bi")]
    assert shown("text\n# A\nmore\n\n#### B\nend") == ["text", "", "A", "", "more", "", "B", "", "end"]
    assert shown("## A", mode=PLAIN) == ["## A"]
    assert shown("- x\n  # A\n  y") == ["- x", "", "  A", "", "  y"]


def test_a_list_hangs_on_muted_marks() -> None:
    assert shown("- one two three four five\n- b", 16) == ["- one two three", "  four five", "- b"]
    assert styles(rows("7. x\n1. y")[1])[0] == ("8. ", "muted")
    assert shown("* a\n\n  more\n+ b") == ["- a", "", "  more", "", "- b"]


def test_tasks() -> None:
    assert styles(rows("- [x] done *it*")[0])[:2] == [("- ", "muted"), ("[x] ", "muted")]
    assert shown("- [ ] one two three four", 18) == ["- [ ] one two", "      three four"]
    assert shown("[x] no item") == ["[x] no item"]


def test_quotes_and_rules() -> None:
    quote = rows("> a\n> - b")
    assert [row.text for row in quote] == ["╎ a", "╎ - b"]
    assert styles(quote[0])[0] == ("╎", "faint")
    assert shown("a\n\n***\n\nb", 30) == ["a", "", "╌" * 10, "", "b"]
    assert shown("> a\n\n---", 30, ASCII) == [": a", "", "-" * 10]


def test_line_breaks_of_the_reply_stay() -> None:
    assert shown("Roses are red,\nviolets are blue.") == ["Roses are red,", "violets are blue."]


def test_code_in_colour() -> None:
    block = rows("```python title=x\ndef f():  # c\n    return 'x' * 20\n```", 16)
    assert [row.text for row in block] == ["python", "def f():  # c", "    return 'x' *", " 20"]
    assert {row.ground for row in block} == {"code"}
    assert [row.wraps for row in block] == [False, False, True, False]
    assert ("def", "keyword") in styles(block[1])
    assert ("# c", "comment:i") in styles(block[1])
    assert shown("```\nx\n```") == ["x"]
    assert shown("```") == [""]


def test_code_without_colour() -> None:
    assert shown("```python\nx\n```", mode=PLAIN) == ["╌╌ python ╌╌╌", "  x", "╌╌╌"]
    assert shown("```\nx\n```", mode=ASCII) == ["---", "  x", "---"]
    assert all(row.ground == "page" for row in rows("```diff\n+x\n```", mode=PLAIN))


def test_code_in_an_item_keeps_its_indent() -> None:
    block = rows("- a\n  ```\n  x\n  ```")
    assert [(row.text, row.indent, row.ground) for row in block] == [("- a", 2, "page"), ("  x", 2, "code")]


def test_tabs_of_code_reach_their_columns() -> None:
    assert shown("```\na\tb\n\tc\n```") == ["a   b", "    c"]


def test_a_diff_has_signs_and_tints() -> None:
    block = rows("```diff\n@@ -1 +1 @@\n-a\n+b\n c\n```")
    assert [row.ground for row in block[1:]] == ["code", "removed", "added", "code"]
    assert styles(block[2]) == [("-", "removed:b"), ("a", "code")]
    assert styles(block[3]) == [("+", "added:b"), ("b", "code")]


def test_a_table() -> None:
    source = "| Name | N |\n|:--|--:|\n| a `b` | 1 |\n| long name | 100 |\n"
    assert shown(source) == ["Name          N", "╌" * 15, "a b           1", "long name   100"]
    table = rows(source)
    assert styles(table[0])[0] == ("Name", "text:b")
    assert styles(table[1]) == [("╌" * 15, "faint")]


def test_the_widest_column_of_a_wide_table_wraps() -> None:
    source = f"| a | b |\n|---|---|\n| x | {'word ' * 12}|\n"
    table = shown(source, 36)
    assert table[0] == "a   b"
    assert table[2:] == ["x   " + "word " * 5 + "word", "    " + "word " * 5 + "word"]


def test_a_table_too_narrow_for_columns_becomes_records() -> None:
    source = "| Name | Value | Note |\n|---|---|---|\n| aaa | bbb | a long note it is |\n| c | d | e |\n"
    assert shown(source, 24) == [
        "Name   aaa",
        "Value  bbb",
        "Note   a long note it is",
        "╌╌╌",
        "Name   c",
        "Value  d",
        "Note   e",
    ]


def test_cells_that_no_column_is_there_for_stay_visible() -> None:
    source = "| a | b |\n|---|---|\n| `ls | wc` | 1 | 2 \\| 3 |\n| 1 | 2 | |\n"
    assert shown(source)[2:] == ["`ls   wc` | 1 | 2 | 3", "1     2"]
    found = [source[run.offset :] for run in rows(source)[2].runs if run.text.startswith(("wc", " 3"))]
    assert [text[:3] for text in found] == ["wc`"]


def test_a_growing_row_moves_no_column() -> None:
    text = MarkdownText("| a | b |\n|---|---|\n| x | y |\n| much wider than")
    text.layout(60)
    assert text.rows[0].text == "a   b"
    text.append(" | z |\n")
    text.layout(60)
    assert text.rows[0].text == "a                 b"


def test_wide_characters_align() -> None:
    assert shown("| 名前 | x |\n|---|---|\n| ab | 1 |\n") == ["名前   x", "╌" * 8, "ab     1"]


def test_links() -> None:
    link = rows("[text](http://x.y 'title') <http://a.b> http://c.d/e.")[0]
    found = [(run.text, run.style, run.href) for run in link.runs if run.href]
    assert found == [
        ("text", "link:u", "http://x.y"),
        ("http://a.b", "link:u", "http://a.b"),
        ("http://c.d/e", "link:u", "http://c.d/e"),
    ]
    assert shown("[text](http://x.y) <http://a.b>", mode=ASCII) == ["text (http://x.y) http://a.b"]
    assert shown("![a cat](cat.png)") == ["image: a cat (cat.png)"]


@pytest.mark.parametrize(
    "source",
    [
        "keep 3<x and y>1 ok",
        "List<Item>",
        "<name>value</name>",
        "<!-- note -->",
        "see [1] and [/opt/x] then [bold",
    ],
)
def test_what_looks_like_markup_is_shown(source: str) -> None:
    assert shown(source) == [source]


def test_footnotes_stay_where_they_stand() -> None:
    source = "text[^1]\n\n[^1]: word\n[^2]: two words"
    assert shown(source) == source.split("\n")


def test_an_entity_names_no_control_character() -> None:
    assert shown("a&#27;b &amp; &lt;c&gt; &#x202e;") == ["a\ufffdb & <c> "]


def test_rows_know_their_place_in_the_source() -> None:
    source = "# A\n\n- one two\n\n```\nx\n```\n"
    assert [source[row.offset :].split("\n")[0] for row in rows(source) if row.runs] == ["A", "one two", "x"]


def test_blocks_and_code_of_the_source() -> None:
    source = "intro\r\n\r\n```py x\r\na\t= 1\x07\r\n\r\nb\r\n```\r\n\r\n    in\n"
    text = MarkdownText(source, finished=True)
    blocks = text.code_blocks()
    assert [(block.language, block.code) for block in blocks] == [("py", "a\t= 1\x07\n\nb\n"), ("", "in\n")]
    assert source[blocks[0].start : blocks[0].end] == "```py x\r\na\t= 1\x07\r\n\r\nb\r\n```"
    assert text.block_at(2) == (0, 5)
    assert text.block_at(20) == (blocks[0].start, blocks[0].end)


def test_code_survives_width_and_mode() -> None:
    text = MarkdownText("Intro\n\n")
    for piece in ("```py\n", "x = 1\n", "y = 2\n", "```\n"):
        text.append(piece)
        text.layout(40)
    text.finish()
    for width, mode in ((20, COLOUR), (60, PLAIN), (40, COLOUR)):
        text.layout(width, mode)
        assert {"x = 1", "y = 2"} <= {row.text.strip() for row in text.rows}
    assert text.code_blocks()[0].code == "x = 1\ny = 2\n"
