from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.rules_inline.state_inline import StateInline

from app.markdown.emphasis import _kind, _State
from tests.app.markdown.samples import COLOUR, fresh_rows


def drawn(source: str, width: int = 92) -> list[list[tuple[str, str]]]:
    """Each row's texts with their attributes."""
    rows = fresh_rows(source, width, COLOUR)
    return [[(run.text, run.style.partition(":")[2]) for run in row.runs] for row in rows]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("**该星号不会被识别。**这是", [("该星号不会被识别。", "b"), ("这是", "")]),
        ("中文**“引用”**和", [("中文", ""), ("“引用”", "b"), ("和", "")]),
        ("他说：**“你好！”**她", [("他说：", ""), ("“你好！”", "b"), ("她", "")]),
        ("**注意：**请", [("注意：", "b"), ("请", "")]),
        ("这是**（重要）**的", [("这是", ""), ("（重要）", "b"), ("的", "")]),
        ("~~删除。~~后", [("删除。", "s"), ("后", "")]),
        ("前~~「引」~~後", [("前", ""), ("「引」", "s"), ("後", "")]),
        ("*強調、*です", [("強調、", "i"), ("です", "")]),
        ("**마크다운(Markdown)**은", [("마크다운(Markdown)", "b"), ("은", "")]),
        ("__注意：__请", [("注意：", "b"), ("请", "")]),
        ("字__（注意）__ b", [("字", ""), ("（注意）", "b"), (" b", "")]),
        ("字_“字”_。", [("字", ""), ("“字”", "i"), ("。", "")]),
        ("他说：\ufe00**“你好！”**她", [("他说：\ufe00", ""), ("“你好！”", "b"), ("她", "")]),
        ("**a。**b", [("a。", "b"), ("b", "")]),
        ("***两者。***都", [("两者。", "bi"), ("都", "")]),
        ("**甲。**乙**丙。**丁", [("甲。", "b"), ("乙", ""), ("丙。", "b"), ("丁", "")]),
    ],
)
def test_marks_beside_signs_of_scripts_without_blanks(source: str, wanted: list[tuple[str, str]]) -> None:
    assert drawn(source) == [wanted]


@pytest.mark.parametrize(
    "source", ["a**“b”**c", "变量_名_字", "snake_case_name", "** 空**", "2 * 3 * 4", "a**😀**b"]
)
def test_marks_that_are_none_stay(source: str) -> None:
    assert drawn(source) == [[(source, "")]]


@given(st.text(st.sampled_from("ab1 *_~.,(“”-!é\n\u00a0"), min_size=1), st.booleans())
def test_other_scripts_are_read_as_commonmark_says(text: str, splits: bool) -> None:
    assert not any(_kind(char).startswith("wide") for char in text)
    md = MarkdownIt("commonmark")
    for at, char in enumerate(text):
        if char in "*_~":
            ours = _State(text, md, {}, []).scanDelims(at, splits)
            assert ours == StateInline(text, md, {}, []).scanDelims(at, splits)


def test_a_cell_of_a_table_breaks_its_line() -> None:
    rows = [
        "".join(text for text, _ in row).rstrip()
        for row in drawn("| a | b |\n|--|--|\n| x<br>yy<BR />z | 1<br/>2 |\n")
    ]
    assert rows == ["a    b", "╌╌╌╌╌╌", "x    1", "yy   2", "z"]


def test_a_tag_in_code_and_other_tags_stay() -> None:
    assert "".join(text for text, _ in drawn("`a<br>b` <b>c</b> <br x>")[0]) == "a<br>b <b>c</b> <br x>"
