"""A call that cannot run is nobody's question, and what is decided about is what runs."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.builtin.files import edit_file, list_files, read_file, write_file
from tools.builtin.notes import notes
from tools.builtin.search import find_files, search_text
from tools.builtin.shell import run_python, run_shell
from tools.builtin.web import fetch_page
from tools.context import Grants, ToolContext, call_digest
from tools.definition import Attempt, Tool, ToolError, Touch, tool
from tools.permission.permissions import Decision, decide
from tools.permission.rules import Mode
from tools.run import run
from tools.sandbox.bubblewrap import Sandbox
from tools.schema import ArgumentsError
from tools.workspace import Workspace


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def ask(made: Tool, space: Workspace | None, mode: Mode = "ask", /, **arguments: Any) -> Decision:
    return decide(Call(made.name, arguments), made, mode, (), space, sandbox=Sandbox("/bwrap"))


EDIT = {"path": "src/a.py", "old_text": "x = 1", "new_text": "x = 2"}


@pytest.mark.parametrize(
    ("made", "arguments", "said"),
    [
        (write_file, {"path": "a"}, "content is missing"),
        (write_file, {"path": "a", "content": "x", "mode": "0777"}, "mode is not a parameter"),
        (write_file, {"path": ["a"], "content": "x"}, "path"),
        (write_file, {"path": "a", "content": None}, "content"),
        (write_file, {"path": "", "content": "x"}, "1 to 4,096 characters"),
        (write_file, {"path": "a\0b", "content": "x"}, "zero byte"),
        (write_file, {"path": "src", "content": "x"}, "is a folder"),
        (write_file, {"path": "src/a.py/b.txt", "content": "x"}, "a.py is a file"),
        (write_file, {"path": "src/a.py/b/c.txt", "content": "x"}, "a.py is a file"),
        (edit_file, {**EDIT, "path": "src/none.py"}, "There is no file"),
        (edit_file, {**EDIT, "path": "src"}, "not a regular file"),
        (edit_file, {**EDIT, "old_text": "y = 1"}, "does not contain old_text"),
        (edit_file, {**EDIT, "old_text": ""}, "must not be empty"),
        (edit_file, {**EDIT, "new_text": "x = 1"}, "must differ"),
        (edit_file, {**EDIT, "path": "src/a.py/b"}, "a.py is a file"),
        (edit_file, {**EDIT, "path": "twice.txt", "old_text": "same"}, "2 times"),
        (read_file, {"path": "none.txt"}, "There is no none.txt"),
        (read_file, {"path": "src"}, "is a folder"),
        (read_file, {"path": "src/a.py/x"}, "src/a.py/x"),
        (read_file, {"path": "src/a.py", "start_line": "two"}, "start_line"),
        (read_file, {"path": "src/a.py", "line_count": float("nan")}, "not finite"),
        (list_files, {"path": "src/a.py"}, "is a file"),
        (list_files, {"path": "none"}, "There is no none"),
        (find_files, {"pattern": "*", "path": "src/a.py"}, "is a file"),
        (find_files, {}, "pattern is missing"),
        (search_text, {"text": ""}, "no text to look for"),
        (search_text, {"text": "(", "regex": True}, "not a regular expression"),
        (search_text, {"text": "x", "path": "none"}, "There is no none"),
        (run_shell, {"command": ""}, "it is empty"),
        (run_shell, {"command": " \n\t"}, "it is empty"),
        (run_shell, {"command": "ls\0"}, "zero byte"),
        (run_shell, {"command": "ls", "network": "perhaps"}, "network"),
        (run_shell, {"command": ["ls"]}, "command"),
        (run_shell, {"command": "ls", "timeout_s": "inf"}, "timeout_s"),
        (run_python, {"code": "\n"}, "it is empty"),
        (run_python, {}, "code is missing"),
        (fetch_page, {"url": "file:///etc/passwd"}, "http"),
        (fetch_page, {"url": ""}, "http"),
        (fetch_page, {"url": "http://u:p@example.com/"}, "user name"),
        (notes, {"action": "burn"}, "action"),
        (notes, {"action": "write", "name": "../x"}, "note's name"),
        (notes, {"action": "write", "name": "x", "text": "y" * 70_000}, "at most"),
    ],
)
@pytest.mark.parametrize("mode", ["ask", "read"])
def test_a_call_that_cannot_run_is_no_question(
    space: Workspace, made: Tool, arguments: dict[str, Any], said: str, mode: Mode
) -> None:
    (space.root / "twice.txt").write_text("same same")
    decision = ask(made, space, mode, **arguments)
    if decision.verdict == "allow":
        # Reading that asks nobody tells the same when it runs.
        assert made.does <= {"read"} and mode == "read"
        return
    assert decision.verdict == "deny" and decision.fault
    assert said in decision.reason
    assert decision.grants is None and decision.scope_offer == ()


def test_a_call_that_could_run_is_one(space: Workspace) -> None:
    for made, arguments in (
        (write_file, {"path": "new/folder/a.txt", "content": ""}),
        (edit_file, EDIT),
        (read_file, {"path": "src/a.py"}),
        (list_files, {}),
        (search_text, {"text": "(", "path": "src"}),
        (run_shell, {"command": "ls"}),
    ):
        decision = ask(made, space, **arguments)
        assert decision.verdict == "ask" and not decision.fault, decision.reason


@pytest.mark.parametrize("made", [run_shell, run_python, read_file, write_file])
def test_without_a_workspace_nothing_that_needs_one_is_asked_about(made: Tool) -> None:
    arguments = {name: "x" for name in made.parameters["required"]}
    assert ask(made, None, **arguments).fault


def test_nobody_who_may_not_read_is_told_what_is_there(space: Workspace) -> None:
    (space.root / "keys.txt").write_text("password = hunter2\n")
    wrong = {"path": "keys.txt", "old_text": "password = hunter", "new_text": "x"} | {
        "old_text": "password = h2"
    }
    assert "hunter2" not in ask(edit_file, space, "ask", **wrong).reason
    assert "hunter2" in ask(edit_file, space, "read", **wrong).reason
    assert "keys.txt" not in ask(read_file, space, "ask", path="key.txt").reason.replace("key.txt", "")


@pytest.mark.parametrize("path", ["../outside/a.txt", "link/a.txt", "../outside/none.txt", "link/none.txt"])
def test_outside_the_workspace_nothing_is_looked_at_unasked(space: Workspace, path: str) -> None:
    decision = ask(edit_file, space, "read", path=path, old_text="not there", new_text="x")
    assert decision.verdict == "ask" and "outside" in decision.reason
    assert ask(read_file, space, "read", path=path).verdict == "ask"
    assert ask(list_files, space, "read", path=path).verdict == "ask"


def test_secrets_are_not_looked_at_unasked(space: Workspace) -> None:
    (space.root / ".env").write_text("TOKEN=1\n")
    assert not ask(edit_file, space, "read", path=".env", old_text="TOKEN=2", new_text="x").fault
    assert not ask(read_file, space, "ask", path=".env.local").fault


@pytest.mark.parametrize("mode", ["none", "plan"])
def test_what_the_mode_refuses_is_refused_by_the_mode(space: Workspace, mode: Mode) -> None:
    decision = ask(edit_file, space, mode, **{**EDIT, "old_text": "not there"})
    assert decision.verdict == "deny" and not decision.fault
    assert not ask(write_file, space, "none", path="a").fault


# ---- converted arguments -------------------------------------------------------------------


@pytest.mark.parametrize("written", [True, "true", "True", "yes", 1, "1", "on", 1.0])
async def test_what_is_shown_of_the_network_is_what_runs(space: Workspace, written: Any) -> None:
    decision = ask(run_shell, space, command="ls", network=written)
    assert decision.arguments == {"command": "ls", "network": True}
    assert "network" in decision.preview.sandbox and "no network" not in decision.preview.sandbox
    assert "network │ true" in decision.preview.call


def test_a_rule_covers_a_call_however_its_arguments_are_written(space: Workspace) -> None:
    first = ask(run_shell, space, command="ls", network="true")
    rule = next(offer.rule for offer in first.scope_offer if offer.rule.kind == "argv")
    for written in (True, 1, "yes"):
        arguments = {"command": "ls", "network": written}
        assert decide(Call("run_shell", arguments), run_shell, "ask", (rule,), space).verdict == "allow"
    for other in ({"command": "ls"}, {"command": "ls", "network": "no"}):
        assert decide(Call("run_shell", other), run_shell, "ask", (rule,), space).verdict == "ask"


async def test_a_run_is_granted_for_the_converted_arguments_only(space: Workspace) -> None:
    took: list[Any] = []

    @tool(does="write", touch=Touch(paths=("path",)))
    def keep(path: str, count: int, tags: tuple[str, ...] = ()) -> None:
        took.append((path, count, tags))

    decision = ask(keep, space, path="a", count="3", tags=["x"])
    assert decision.arguments == {"path": "a", "count": 3, "tags": ["x"]}
    context = ToolContext(space=space, grants=decision.grants)
    for arguments in (decision.arguments, {"path": "a", "count": "3", "tags": ["x"]}):
        assert (await run(keep, arguments, context)).status == "done"
    assert (await run(keep, {**decision.arguments, "count": 4}, context)).status == "refused"
    assert took == [("a", 3, ("x",))] * 2


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Box:
    wide: int
    name: str = "b"


@tool
def odd(
    when: datetime.date, where: Path, colour: Colour, box: Box, ratio: float = 1.0, flag: bool = False
) -> str:
    return f"{when!r} {where!r} {colour!r} {box!r} {ratio!r} {flag!r}"


def test_types_of_python_are_shown_as_what_they_come_to() -> None:
    written = {"when": "2026-01-02", "where": "a//b/./c", "colour": "red", "box": {"wide": "7"}}
    checked = odd.checked({**written, "ratio": "2", "flag": "off"})
    assert checked["where"] == "a/b/c" and checked["box"] == {"wide": 7, "name": "b"}
    assert checked["ratio"] == 2.0 and checked["flag"] is False
    assert odd.checked(checked) == checked
    assert odd.validate(checked) == odd.validate({**written, "ratio": "2", "flag": "off"})


def test_a_type_that_hides_itself_keeps_what_was_given() -> None:
    from pydantic import BeforeValidator, SecretStr

    def louder(text: str) -> str:
        return f"{text}!"

    @tool
    def hidden(key: SecretStr, loud: Annotated[str, BeforeValidator(louder)], network: bool) -> None: ...

    checked = hidden.checked({"key": "k", "loud": "a", "network": "true"})
    assert checked == {"key": "k", "loud": "a", "network": True}


@given(st.sets(st.text(max_size=3), max_size=40))
def test_a_set_is_one_value_however_often_it_is_checked(names: set[str]) -> None:
    @tool(does="write")
    def keep(names: set[str]) -> None: ...

    checked = keep.checked({"names": list(names)})
    assert keep.checked(checked) == checked
    assert keep.validate(checked) == {"names": names}


@given(
    count=st.one_of(st.integers(), st.integers().map(str), st.floats(), st.booleans(), st.text()),
    names=st.one_of(st.lists(st.text() | st.integers()), st.text()),
    flag=st.one_of(st.booleans(), st.sampled_from(["true", "no", "1", "maybe"]), st.none()),
)
def test_checking_again_changes_nothing(count: Any, names: Any, flag: Any) -> None:
    @tool
    def some(count: int, names: list[str], flag: bool | None = None) -> None: ...

    arguments = {"count": count, "names": names, "flag": flag}
    try:
        checked = some.checked(arguments)
    except ArgumentsError:
        assert decide(Call("some", arguments), some, "all", (), None).fault
        return
    assert some.checked(checked) == checked
    assert some.validate(checked) == some.validate(arguments)
    assert decide(Call("some", arguments), some, "ask", (), None).grants == Grants(call_digest(some, checked))


# ---- checks of one's own -------------------------------------------------------------------


def test_a_tool_may_have_a_check_of_its_own(space: Workspace) -> None:
    seen: list[Attempt] = []

    def check(attempt: Attempt) -> None:
        seen.append(attempt)
        if attempt.arguments["amount"] < 0:
            raise ToolError("There is nothing to take away.")
        if attempt.arguments["amount"] > 100:
            raise RuntimeError("a bug")

    @tool(does="write", check=check)
    def pay(amount: int) -> None: ...

    assert ask(pay, space, amount="-1").reason == "There is nothing to take away."
    assert ask(pay, space, amount="5").verdict == "ask"
    assert ask(pay, space, amount=101).verdict == "ask"
    assert [attempt.arguments["amount"] for attempt in seen] == [-1, 5, 101]
