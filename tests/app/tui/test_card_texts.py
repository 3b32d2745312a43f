"""What strangers wrote is shown on a card without a character that a terminal would obey."""

from __future__ import annotations

import re
from typing import Any

import pytest
from textual.events import Key

from tests.app.tui.pilot import Running, running
from tests.app.tui.test_approvals import Asker, Recorder, asked, call

pytestmark = pytest.mark.timeout(60)
ODD = "a\x1b[8m\x9b31m\u202eb\u2066c\u2028d\x0be\x0cf\x85g\x07h\u200fi\ud800j"
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def nothing_raw(run: Running) -> str:
    text = "\n".join(run.screen())
    assert RAW.search(text) is None
    return text


async def test_a_call_its_names_and_the_field_that_edits_it() -> None:
    tool = Recorder()
    async with running(
        [[call(**{ODD: ODD, "path": ODD, "deep": [ODD, {ODD: 1}]})], ["done"]], tools=[tool]
    ) as run:
        await asked(run)
        nothing_raw(run)
        await run.pilot.press("e")
        await run.until(lambda: run.app.parts.approval.field.has_focus)
        nothing_raw(run)
        assert RAW.search(run.app.parts.approval.field.text) is None


@pytest.mark.parametrize("kind", ["string", "array", "choice"])
async def test_a_form_its_titles_its_choices_and_its_defaults(kind: str) -> None:
    field: dict[str, Any] = {
        "type": kind,
        "title": ODD,
        "description": ODD,
        "default": [ODD] if kind == "array" else ODD,
    }
    if kind == "choice":
        field = {"type": "string", "enum": [ODD, f"{ODD}2"], "title": ODD}
    properties = {ODD: field} if kind == "choice" else {ODD: field, "x": {"type": "string"}}
    tool = Asker(schema={"type": "object", "properties": properties})
    async with running([[call()], ["done"]], tools=[tool]) as run:
        await asked(run)
        if kind != "choice":
            await run.until(lambda: run.app.parts.approval.field.has_focus)
            text = run.app.parts.approval.field.text
            assert RAW.search(text) is None and text.count("\n") <= 4
        nothing_raw(run)


async def test_lines_that_come_together_fill_in_one_field() -> None:
    properties = {name: {"type": "string"} for name in ("one", "two")}
    tool = Asker(schema={"type": "object", "properties": properties, "required": ["one", "two"]})
    async with running([[call()], ["done"]], tools=[tool]) as run:
        await asked(run)
        field = run.app.parts.approval.field
        await run.until(lambda: field.has_focus)
        for char in "a\nb\nc\n":
            run.app.post_message(Key("enter", "\r") if char == "\n" else Key(char, char))
        await run.until(lambda: field.text.strip() == "a\nb\nc")
        await run.pilot.pause(0.1)
        assert field.text.strip() == "a\nb\nc"
        assert tool.answers == []


async def test_nothing_is_remembered_for_good_of_a_private_chat() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        run.app.chat.private = True
        await asked(run)
        rows = "\n".join(run.screen())
        assert "this chat" in rows and "always" not in rows
