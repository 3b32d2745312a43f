from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.tui.transcript.tool_entry import ToolCall as ToolEntry
from backend.engines.scripted import Pause
from backend.types import ToolCall
from tests.app.tui.pilot import Running, running
from tools.context import Form, ToolContext
from tools.definition import Effect, Tool, tool

pytestmark = pytest.mark.timeout(60)  # each starts the whole program


class Recorder(Tool):
    """A tool that writes, and records with what it was called."""

    calls: list[dict[str, Any]]

    def __init__(self, effect: Effect = "write", **fields: Any) -> None:
        calls: list[dict[str, Any]] = []

        async def keep(arguments: dict[str, Any], context: ToolContext) -> str:
            calls.append(arguments)
            return await self.kept(context)

        schema = {"type": "object", "properties": {}}
        super().__init__(
            "keep", keep, frozenset((effect,)), summary="Keep a text.", schema_override=schema, source="test"
        )
        vars(self).update(calls=calls, **fields)

    async def kept(self, context: ToolContext) -> str:
        return "kept"


@dataclass(frozen=True)
class SchemaForm(Form):
    """A form of whatever a JSON Schema asks for."""

    asked: dict[str, Any] = field(default_factory=dict)

    @property
    def schema(self) -> dict[str, Any]:
        return self.asked


class Asker(Recorder):
    """A tool that asks the person for something."""

    answers: list[Any]

    def __init__(self, schema: dict[str, Any]) -> None:
        super().__init__("nothing", answers=[], form=SchemaForm("Which one?", asked=schema))

    async def kept(self, context: ToolContext) -> str:
        self.answers.append(await context.ask(vars(self)["form"]))
        return str(self.answers[-1])


def call(call_id: str = "c1", name: str = "keep", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments)


async def asked(run: Running, text: str = "do it") -> None:
    """Send a message and wait until the card takes keys."""
    await run.send(text)
    await run.until(lambda: run.app.parts.approval.question is not None)
    await run.until(lambda: run.app.parts.approval.armed)


async def chosen(run: Running, key: str) -> None:
    """Choose what is remembered, and wait until its rule is shown whole."""
    await run.pilot.press(key)
    await run.until(lambda: any("enter allows and remembers it" in row for row in run.screen()))


async def test_what_is_wrong_with_arguments_is_told_until_they_change() -> None:
    async with running([[call(text="x")], ["done"]], tools=[Recorder()]) as run:
        await asked(run)
        await run.pilot.press("e")
        await run.until(lambda: run.app.parts.approval.field.has_focus)
        await run.pilot.press("x", "enter")
        await run.until(lambda: any("That is not JSON" in row for row in run.screen()))
        await run.pilot.press("backspace")
        await run.until(lambda: not any("That is not JSON" in row for row in run.screen()))


async def test_an_answer_that_does_not_fit_begins_the_next_row() -> None:
    async with running([[call(text="x")], ["done"]], tools=[Recorder()], size=(60, 20)) as run:
        await asked(run)
        rows = run.screen()
        for said in ("once", "this chat", "always", "edit", "no, go on", "no, stop"):
            assert any(f" {said}" in row for row in rows), said


async def test_once_runs_exactly_what_was_shown() -> None:
    tool = Recorder()
    async with running([[call(path="notes.txt", text="hello")], ["done"]], tools=[tool]) as run:
        await asked(run)
        rows = "\n".join(run.screen())
        assert "approve?" in rows and "keep" in rows and "notes.txt" in rows and "hello" in rows
        assert run.app.parts.approval.has_focus
        assert "1 asking" in rows
        await run.pilot.press("y")
        await run.until(lambda: run.texts("answer") == ["done"])
        assert tool.calls == [{"path": "notes.txt", "text": "hello"}]
        assert run.app.parts.approval.question is None
        assert run.app.parts.draft.has_focus


async def test_keys_are_ignored_at_first_and_never_typed_through() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await run.send("do it")
        await run.until(lambda: run.app.parts.approval.question is not None)
        if not run.app.parts.approval.armed:
            await run.pilot.press("y", "enter", "a")
            assert run.app.parts.approval.question is not None
        assert tool.calls == []
        await run.until(lambda: run.app.parts.approval.armed)
        await run.pilot.press("enter", "q", "7")
        assert run.app.parts.approval.question is not None
        assert tool.calls == []


async def test_a_half_typed_message_keeps_the_keys() -> None:
    tool = Recorder()
    gate = asyncio.Event()
    async with running([[Pause(until=gate), call(text="x")], ["done"]], tools=[tool]) as run:
        await run.send("do it")
        await run.until(lambda: run.app.chat.busy)
        await run.type("yes, and")
        gate.set()
        await run.until(lambda: run.app.parts.approval.armed)
        assert run.app.parts.draft.has_focus
        await run.pilot.pause()
        assert "tab answers" in "\n".join(run.screen())
        await run.type(" yay")
        assert run.app.parts.draft.text == "yes, and yay"
        assert tool.calls == []
        await run.pilot.press("tab")
        await run.until(lambda: run.app.parts.approval.has_focus)
        await run.pilot.press("tab")
        await run.until(lambda: run.app.parts.draft.has_focus)
        await run.pilot.press("tab")
        await run.until(lambda: run.app.parts.approval.has_focus)
        await run.pilot.press("y")
        await run.until(lambda: tool.calls == [{"text": "x"}])


async def test_a_scope_says_what_it_allows_and_holds() -> None:
    tool = Recorder()
    scripts = [[call("c1", text="a")], ["one"], [call("c2", text="a")], ["two"]]
    async with running(scripts, tools=[tool]) as run:
        await asked(run)
        assert "keep: exactly this call" in "\n".join(run.screen())
        await chosen(run, "s")
        assert tool.calls == []
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["one"])
        await run.ask("again")
        assert len(tool.calls) == 2
        rules = await run.app.manager.rules(run.app.chat.id)
        assert [rule["scope"] for rule in rules] == ["session"]


async def test_refusing_with_a_reason_goes_on() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["understood"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("n")
        await run.until(lambda: run.app.parts.approval.field.has_focus)
        await run.type("not today")
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["understood"])
        assert tool.calls == []
        result = next(item for item in await run.items() if item.type == "function_call_output")
        assert "not today" in result.output


async def test_refusing_and_stopping_ends_the_turn() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["never"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("x")
        await run.until(lambda: not run.app.chat.busy)
        assert tool.calls == []
        assert run.texts("answer") == []


async def test_escape_while_asked_answers_no_and_stops() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["never"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.chat.busy)
        assert tool.calls == []
        assert run.app.parts.approval.question is None


async def test_edited_arguments_are_shown_again_and_run_as_shown() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("e")
        field = run.app.parts.approval.field
        await run.until(lambda: field.has_focus)
        field.load_text('{"text": "x"')
        await run.pilot.press("enter")
        await run.until(lambda: "not JSON" in "\n".join(run.screen()))
        field.load_text('{"text": "mine\\u001b[2J"}')
        await run.pilot.press("enter")
        await run.until(lambda: "mine\u241b[2J" in "\n".join(run.screen()))
        assert "this chat" not in "\n".join(run.screen())
        assert tool.calls == []
        await run.until(lambda: run.app.parts.approval.armed)
        await run.pilot.press("y")
        await run.until(lambda: tool.calls == [{"text": "mine\x1b[2J"}])
        shown = next(entry for entry in run.entries if entry.kind == "tool")
        assert "mine" in str(shown.approved_arguments) and '"x"' in shown.arguments


async def test_every_character_of_a_call_is_shown() -> None:
    tool = Recorder()
    text = "safe\x1b[8m; rm -rf\u202e x" + " " * 300 + "\n" + "tail"
    async with running([[call(text=text)], ["done"]], tools=[tool], size=(100, 40)) as run:
        await asked(run)
        rows = "\n".join(run.screen())
        assert "\u241b[8m; rm -rf" in rows and "U+202E" in rows and "300 spaces" in rows and "tail" in rows


async def test_a_change_of_a_file_is_shown_as_a_diff(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    change = call(name="edit_file", path="a.py", old_text="two", new_text="2")
    async with running([[change], ["done"]], tools="edit_file", workspace=tmp_path, size=(100, 40)) as run:
        await asked(run)
        rows = "\n".join(run.screen())
        assert "edit_file" in rows and "+1 -1" in rows
        assert "- two" in rows and "+ 2" in rows
        await run.pilot.press("y")
        await run.until(lambda: run.texts("answer") == ["done"])
        assert (tmp_path / "a.py").read_text() == "one\n2\nthree\n"


async def test_two_questions_are_counted_and_come_one_after_the_other() -> None:
    tool = Recorder()
    both = [call("c1", text="first"), call("c2", text="second")]
    async with running([both, ["done"]], tools=[tool]) as run:
        await asked(run)
        assert "1 of 2" in "\n".join(run.screen())
        assert "2 asking" in "\n".join(run.screen())
        await run.pilot.press("y")
        await run.until(lambda: len(run.app.chat.facts.questions) == 1)
        await run.until(lambda: run.app.parts.approval.armed)
        await run.pilot.press("y")
        await run.until(lambda: run.texts("answer") == ["done"])
        assert [one["text"] for one in tool.calls] == ["first", "second"]


async def test_a_question_with_choices_is_answered_by_a_key() -> None:
    schema = {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}}
    tool = Asker(schema=schema)
    async with running([[call()], ["done"]], tools=[tool]) as run:
        await asked(run)
        rows = "\n".join(run.screen())
        assert "Which one?" in rows and "red" in rows and "blue" in rows
        await run.pilot.press("2")
        await run.until(lambda: tool.answers == [{"colour": "blue"}])


async def test_a_form_asks_field_by_field() -> None:
    properties = {"name": {"type": "string"}, "count": {"type": "integer"}}
    tool = Asker(schema={"type": "object", "properties": properties, "required": ["name", "count"]})
    async with running([[call()], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.until(lambda: run.app.parts.approval.field.has_focus)
        await run.type("box")
        await run.pilot.press("enter")
        await run.type("many")
        await run.pilot.press("enter")
        await run.until(lambda: "whole number" in "\n".join(run.screen()))
        run.app.parts.approval.field.load_text("3")
        await run.pilot.press("enter")
        await run.until(lambda: tool.answers == [{"name": "box", "count": 3}])


async def test_another_chat_that_asks_is_counted() -> None:
    tool = Recorder()
    gate = asyncio.Event()
    async with running([[Pause(until=gate), call(text="x")], ["done"]], tools=[tool]) as run:
        await run.send("do it")
        await run.until(lambda: run.app.chat.busy)
        first = run.app.chat
        await run.pilot.press("ctrl+n")
        await run.until(lambda: run.app.chat is not first)
        gate.set()
        await run.until(lambda: first.facts.asking == 1)
        await run.until(lambda: "1 asking" in "\n".join(run.screen()))
        assert run.app.parts.approval.question is None
        assert first.id is not None
        await run.app.chats.open_chat(first.id)
        await run.until(lambda: run.app.parts.approval.armed and run.app.parts.approval.has_focus)
        await run.pilot.press("y")
        await run.until(lambda: tool.calls == [{"text": "x"}])


async def test_shift_tab_changes_what_asks() -> None:
    async with running([["ok"]], tools=[Recorder()]) as run:
        await run.ask("hi")
        for mode in ("read", "all", "plan", "ask"):
            await run.pilot.press("shift+tab")
            await run.until(lambda mode=mode: run.app.chat.facts.approve == mode)
            await run.until(lambda mode=mode: f"tools {mode}" in run.screen()[-1])


async def test_a_chat_without_a_message_says_what_it_runs_unasked() -> None:
    async with running([["ok"]], tools=[Recorder()], approve="all", start={"approve": "all"}) as run:
        await run.until(lambda: "tools all" in run.screen()[-1])
        await run.pilot.press("shift+tab")
        await run.until(lambda: "tools plan" in run.screen()[-1])


async def test_a_mode_that_refuses_answers_the_open_question() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["I see."]], tools=[tool]) as run:
        await run.send("hi")
        await run.until(lambda: run.app.parts.approval.question is not None)
        await run.app.chat.manager.configure(await run.app.chat.ensure(), approve="plan")
        await run.until(lambda: run.app.parts.approval.question is None)
        await run.until(lambda: "I see." in "\n".join(run.screen()))
        assert tool.calls == [] and "not run" in "\n".join(run.screen())


@tool(does="execute")
def launch(command: str, network: bool = False) -> str:
    return f"{command} {network}"


async def test_what_became_of_edited_arguments_is_shown() -> None:
    async with running([[call(name="launch", command="ls")], ["done"]], tools=[launch]) as run:
        await asked(run)
        question = run.app.parts.approval.question
        assert question is not None
        edited = {"arguments": {"command": "ls", "network": "yes"}}
        await run.app.chat.answer(question, "accept", edited)
        await run.until(lambda: run.texts("answer") == ["done"])
        [entry] = [one for one in run.entries if isinstance(one, ToolEntry)]
        assert entry.approved_arguments == '{"command": "ls", "network": true}'
        assert entry.output == "ls True"


async def test_calls_of_one_id_in_two_rounds_are_two() -> None:
    scripts = [[call(text="x")], [call(text="y")], ["done"]]
    async with running(scripts, tools=[Recorder("nothing")]) as run:
        await run.ask("go")
        entries = [one for one in run.entries if isinstance(one, ToolEntry)]
        assert [entry.state for entry in entries] == ["done", "done"]


async def test_a_wider_rule_is_shown_before_it_is_saved(tmp_path: Path) -> None:
    scripts = [[call(name="run_shell", command="git status")], ["one"]]
    async with running(scripts, tools="run_shell", workspace=tmp_path) as run:
        await asked(run)
        assert "exactly `git status`" in "\n".join(run.screen())
        await run.pilot.press("w")
        await run.until(lambda: "`git status` with any paths" in "\n".join(run.screen()))
        await chosen(run, "s")
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["one"])
        rules = await run.app.manager.rules(run.app.chat.id)
        assert "with any paths" in str(rules[0]["rule"]["text"])


async def test_the_rounds_of_the_command_line_hold() -> None:
    scripts = [[call(text=str(number))] for number in range(3)]
    tool = Recorder("nothing")
    async with running(scripts, tools=[tool], start={"max_turns": 1}) as run:
        await run.send("do it")
        await run.until(lambda: any("number of rounds" in row for row in run.screen()))
        await run.until(lambda: not run.app.chat.busy)
        assert len(run.engine.requests) == 1
