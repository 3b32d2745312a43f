from __future__ import annotations

from app.markdown.diff import DiffBody
from app.markdown.rows import COLOUR, Mode, Row

DIFF = """--- src/config.py
+++ src/config.py
@@ -37,6 +37,6 @@
 import tomllib
 
 def load(path):
     data = tomllib.loads(path.read_text())
-    timeout = data["timeout"]
+    timeout = data.get("timeout_s", 30.0)
     return Settings(timeout=timeout)
@@ -90,2 +90,3 @@
 one
+two
 three"""


def laid(source: str, width: int = 60, mode: Mode = COLOUR) -> list[Row]:
    body = DiffBody(source)
    assert body.layout(width, mode) == 0
    assert body.layout(width, mode) == len(body.rows)
    return body.rows


def test_a_diff_shows_numbers_signs_and_two_lines_around_each_change() -> None:
    assert [row.text.rstrip() for row in laid(DIFF)] == [
        " 39   def load(path):",
        " 40       data = tomllib.loads(path.read_text())",
        ' 41 -     timeout = data["timeout"]',
        ' 41 +     timeout = data.get("timeout_s", 30.0)',
        " 42       return Settings(timeout=timeout)",
        "╌" * 60,
        " 90   one",
        " 91 + two",
        " 92   three",
    ]


def test_changed_words_stand_out_and_rows_have_their_ground() -> None:
    rows = laid(DIFF)
    assert [row.ground for row in rows[2:5]] == ["removed", "added", "page"]
    changed = [run.text for run in rows[3].runs if run.style == "added:b"]
    assert "".join(changed).strip("+ ").startswith(".get")
    assert next(run.text for run in rows[3].runs if run.style == "text") == "    timeout = data"
    plain = laid(DIFF, mode=Mode(plain=True))
    assert any(run.style == "added:bu" for run in plain[3].runs)


def test_runs_lead_back_to_the_source() -> None:
    for row in laid(DIFF, 24):
        for run in row.runs:
            if run.offset >= 0:
                assert DIFF[run.offset : run.offset + len(run.text)] == run.text


def test_long_lines_wrap_below_their_code() -> None:
    rows = laid("@@ -1 +1 @@\n-a\n+" + "x" * 50, 30)
    assert [row.text for row in rows[1:]] == ["  1 + " + "x" * 24, "      " + "x" * 24, "      xx"]
    assert [row.wraps for row in rows[1:]] == [True, True, False]


def test_what_is_no_diff_is_shown_as_it_is() -> None:
    assert [row.text.strip() for row in laid("a.bin: binary, 12 bytes before, 14 after")] == [
        "a.bin: binary, 12 bytes before, 14 after"
    ]


def test_counts_are_those_of_the_lines() -> None:
    assert DiffBody(DIFF).counts == (2, 1)


def test_unchanged_lines_take_the_colours_of_their_language() -> None:
    body = DiffBody(DIFF)
    body.layout(60)
    while body.settle(0.01):
        pass
    assert body.layout(60) == 0
    styles = {run.text.strip(): run.style for run in body.rows[0].runs}
    assert styles["def"] == "keyword"
    assert [row.text for row in body.rows] == [row.text for row in laid(DIFF)]
    assert body.rows[2:4] == laid(DIFF)[2:4]
    assert not body.settle(0.01)
    assert body.layout(60) == len(body.rows)


def test_a_diff_of_no_known_language_stays_plain() -> None:
    source = DIFF.replace(".py", ".unheard")
    body = DiffBody(source)
    body.layout(60)
    assert not body.settle(1)
    body.layout(60)
    assert body.rows == laid(source)
