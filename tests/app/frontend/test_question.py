from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from app.frontend.card_body import diff_rows
from app.frontend.form_field import Field, read_field
from app.frontend.question import Question, body_of
from app.sessions.events import ElicitationRequestEvent
from app.sessions.questions import CallQuestion, FormQuestion, RuleOption
from app.terminal.glyphs import ASCII, UNICODE, Glyphs
from app.terminal.text_rows import pieces, wrapped
from tools.permission.permissions import Decision
from tools.permission.preview import Preview

DIFF = """--- a
+++ b
@@ -1,9 +1,9 @@
 one
 two
 three
 four
-old = data["x"]
+old = data.get("y")
 six
 seven
 eight
"""


def rows(diff: str, cells: int = 60) -> list[str]:
    return ["".join(text for text, _ in row).rstrip() for row in diff_rows(diff, cells, UNICODE)]


def test_a_diff_has_numbers_signs_and_two_rows_around() -> None:
    assert [row.split() for row in rows(DIFF)] == [
        ["3", "three"],
        ["4", "four"],
        ["5", "-", "old", "=", 'data["x"]'],
        ["5", "+", "old", "=", 'data.get("y")'],
        ["6", "six"],
        ["7", "seven"],
    ]


def test_changed_words_are_marked() -> None:
    styled = [part for row in diff_rows(DIFF, 60, UNICODE) for part in row]
    marked = [text for text, style in styled if style.startswith("bold $diff-add on")]
    assert any(".get(" in text for text in marked)
    assert not any("old = data" in text for text in marked)


def test_lines_too_long_wrap_and_nothing_is_lost() -> None:
    long = "x" * 100
    found = "".join(rows(f"@@ -1 +1 @@\n-{long}\n+{long}y\n", 40))
    assert found.count("x") == 200
    assert found.endswith("y")


def test_controls_in_a_diff_are_written_out() -> None:
    found = "".join(rows("@@ -1 +1 @@\n-a\n+a\x1b[8m\u202eb\n"))
    assert "\u241b[8m" in found and "U+202E" in found


def form(schema: Any, policy: str | None = None) -> FormQuestion:
    return FormQuestion(message="", phase="tool_input", schema=schema, policy_name=policy)


def test_a_call_shows_every_argument_and_a_form_its_choices() -> None:
    arguments = {"command": "ls\n\u202eevil", "count": 3}
    asked = CallQuestion(
        message="Sure?",
        tool="run",
        call_id="c1",
        decision=Decision("ask", "Sure?", arguments=arguments),
        offers=(RuleOption("0", "session", "ls", {}),),
        target_session_id="child",
    )
    call = Question.of("s1", "e1", asked)
    assert (call.kind, call.session_id, call.tool) == ("call", "child", "run")
    assert call.offer("session") is not None and call.offer("always") is None
    shown = "\n".join("".join(text for text, _ in row) for row in body_of(call, 60, UNICODE).rows(0, 99))
    assert "ls" in shown and "U+202E" in shown and "3" in shown
    schema = {"properties": {"choice": {"enum": ["compact", "drop", "error"]}}}
    assert [(one.key, one.value) for one in Question.of("s1", "e1", form(schema, "context")).choices] == [
        ("1", {"choice": "compact"}),
        ("2", {"choice": "drop"}),
        ("3", {"choice": "error"}),
    ]


@pytest.mark.parametrize("schema", [{}, {"properties": 5}, {"properties": {"a": None}, "required": 1}])
def test_a_malformed_question_is_still_a_question(schema: Any) -> None:
    question = Question.of("s", "e1", form(schema))
    assert question.kind == "form"
    body_of(question, 40, UNICODE)


def test_a_question_is_the_json_of_its_request_too() -> None:
    decision = Decision("ask", "why", Preview("run", touches=("a", "b")), arguments={"n": 1})
    offers = (RuleOption("0", "session", "n", {"kind": "call", "text": "n", "scopes": ["session"]}),)
    call = CallQuestion(message="why", tool="run", call_id="c1", decision=decision, offers=offers)
    event = ElicitationRequestEvent(elicitation_id="e1", params=call)
    wire = json.loads(json.dumps(event.to_wire()))["params"]
    assert wire["details"] == {"call": "run", "diff": "", "sandbox": "", "touches": ["a", "b"]}
    assert wire["offers"] == [{"kind": "call", "text": "n", "scopes": ["session"], "id": "0"}]
    assert (wire["arguments"], wire["phase"], wire["message"]) == ({"n": 1}, "tool_call", "why")
    assert (call.url, call.policy_name, call.mode) == (None, "approvals", "form")
    above = call.asked_by("child").asked_by("parent")
    assert above["target_session_id"] == above.target_session_id == "child"
    assert above.decision is decision and {**above, "target_session_id": None} == {
        **call,
        "target_session_id": None,
    }


def test_fields_are_read_by_their_kind() -> None:
    assert read_field(Field("n", "n", "integer"), "3") == 3
    assert read_field(Field("n", "n", "boolean"), "yes") is True
    assert read_field(Field("n", "n", "array"), "[1]") == [1]
    for kind, text in (("integer", "x"), ("number", "x"), ("boolean", "x"), ("object", "{")):
        with pytest.raises(ValueError, match="please"):
            read_field(Field("n", "n", kind), text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(
            ("number", text)
            for text in ("nan", "NaN", "-nan", "inf", "-Infinity", "1e999", "1_000", "\u0664")
        ),
        *(("integer", text) for text in ("1_000", "\u0664", "1e3", "1.0", "", "9" * 5_000)),
        *(("array", text) for text in ("{}", "[NaN]", "[1e999]", "[-Infinity]", '"a"', "null")),
        *(("object", text) for text in ("[]", '{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', "true")),
    ],
)
def test_a_field_takes_what_json_can_say_and_nothing_else(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match="please"):
        read_field(Field("n", "n", kind), text)


def test_a_field_among_others_takes_one_of_its_choices() -> None:
    properties = {
        "colour": {"enum": ["red", "dark blue"]},
        "size": {"type": "integer", "enum": [1, 2], "default": 2},
        "least": {"type": "integer", "minimum": 3, "maximum": 5},
        "name": {"type": "string", "minLength": 2, "maxLength": 4},
    }
    schema = {"properties": properties, "required": ["colour", "size"]}
    question = Question.of("s", "e1", form(schema))
    colour, size, least, name = question.fields
    assert "red" in colour.title and "dark blue" in colour.title and "1" in size.title
    assert read_field(colour, "dark blue") == "dark blue"
    assert (read_field(size, "2"), read_field(least, "4"), read_field(name, "abc")) == (2, 4, "abc")
    for field, text in (
        (colour, "green"),
        (colour, ""),
        (size, "3"),
        (least, "6"),
        (name, "a"),
        (name, "abcde"),
    ):
        with pytest.raises(ValueError, match=r"please|needed"):
            read_field(field, text)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("C", "Z"))), st.integers(2, 30))
def test_pieces_fit_and_are_the_whole(text: str, cells: int) -> None:
    found = list(pieces(text, cells))
    assert "".join(found) == text
    assert all(cell_len(piece) <= cells for piece in found)


@settings(deadline=None)
@given(st.text("ab cd \n"), st.integers(1, 20))
def test_wrapped_words_are_all_there(text: str, cells: int) -> None:
    found = wrapped(text, cells)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(cell_len(row) <= cells for row in found)


def text_of_body(arguments: dict[str, Any], glyphs: Glyphs) -> list[str]:
    body = body_of(Question("e1", "s1", "call", "", tool="t", arguments=arguments), 60, glyphs)
    return ["".join(text for text, _ in row).rstrip() for row in body.rows(0, len(body))]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_name_looks_like_no_value_and_like_no_other_name(glyphs: Glyphs) -> None:
    rule = glyphs.aside
    honest = text_of_body({"command": "ls", "path": "x"}, glyphs)
    for name in (f"path {rule} x", f"command {rule} ls", f"command {rule} ls and more", f"path {rule}"):
        rows = text_of_body({name: "y"}, glyphs)
        assert not any(row.startswith((f"path {rule}", f"command {rule}")) for row in rows)
    assert text_of_body({"a": "x", "": "y"}, glyphs) != text_of_body({"a": "x\ny"}, glyphs)
    assert honest == [f"command {rule} ls", f"path    {rule} x"]


def test_choices_of_a_form_that_differ_look_different() -> None:
    event = form({"properties": {"it": {"enum": [1, "1", True, "True", None, ""]}}})
    labels = [choice.label for choice in Question.of("s", "e1", event).choices]
    assert len(set(labels)) == 6 and all(labels)
