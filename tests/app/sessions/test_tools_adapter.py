from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.sessions import tools_adapter
from app.sessions.errors import InvalidInputError
from app.sessions.events import ElicitationRequestEvent, FunctionCallOutputDeltaEvent
from app.sessions.items import FunctionCallOutput
from app.sessions.store.ledger import AuditEntry
from app.sessions.store.ledger import Rule as SavedRule
from app.sessions.store.store import Store
from backend.engines.scripted import CARD, ScriptedEngine
from backend.types import ToolCall
from tests.app.sessions.conftest import EchoTool, MakeRoom, Room, listening
from tools.builtin.delegate import delegate
from tools.builtin.files import read_file, write_file
from tools.builtin.shell import run_shell
from tools.context import Field, Form, ToolContext
from tools.definition import tool
from tools.registry import ToolRegistry
from tools.sandbox.bubblewrap import Sandbox
from tools.sandbox.escape import find_sandbox

LONG_S = f"600.{os.getpid()}"
"""How long a command of this run would sleep: seconds that no other process sleeps."""


def sleeps(seconds: str) -> bool:
    """Whether any process on this machine is a `sleep` of so many seconds."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().split(b"\0")
        except OSError:  # It has just ended.
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            return True
    return False


def called(name: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments)


async def results(chat: Room) -> list[str]:
    return [item.output for item in await chat.items() if isinstance(item, FunctionCallOutput)]


async def answered(chat: Room, *answers: dict[str, Any]) -> list[dict[str, Any]]:
    """Post a message and answer the questions that come; returns what was asked."""
    asked: list[dict[str, Any]] = []
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        for number, answer in enumerate(answers, 1):
            event: ElicitationRequestEvent = await heard.kind(ElicitationRequestEvent, count=number)
            asked.append(event.params)
            await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, answer)
        await heard.status("idle")
    return asked


async def test_a_file_is_written_once_its_diff_was_approved(room: MakeRoom, tmp_path: Path) -> None:
    space = tmp_path / "space"
    space.mkdir()
    script = [called("write_file", path="note.txt", content="kept\n")]
    chat = await room(script, ["ok"], tools=[write_file], workspace=space)
    [asked] = await answered(chat, {"action": "accept"})
    assert (space / "note.txt").read_text() == "kept\n"
    assert "+kept" in asked["details"]["diff"] and asked["offers"]


async def test_an_offered_scope_lets_the_next_call_pass(room: MakeRoom, tmp_path: Path) -> None:
    space = tmp_path / "space"
    space.mkdir()
    scripts = [[called("write_file", f"c{n}", path=f"{n}.txt", content="x")] for n in range(2)]
    chat = await room(scripts[0], scripts[1], ["ok"], tools=[write_file], workspace=space)
    [asked] = await answered(chat, {"action": "accept", "content": {"scope": "session", "rule": "0"}})
    assert [offer["id"] for offer in asked["offers"]] == ["0", "1"]
    assert sorted(path.name for path in space.iterdir()) == ["0.txt", "1.txt"]
    [rule] = await chat.manager.rules(chat.session_id)
    assert rule["scope"] == "session"


async def test_approval_of_edited_arguments_runs_exactly_those(room: MakeRoom, tmp_path: Path) -> None:
    space = tmp_path / "space"
    space.mkdir()
    script = [called("write_file", path="a.txt", content="theirs")]
    chat = await room(script, ["ok"], tools=[write_file], workspace=space)
    edited = {"path": "b.txt", "content": "mine"}
    await answered(chat, {"action": "accept", "content": {"arguments": edited}})
    assert [(path.name, path.read_text()) for path in space.iterdir()] == [("b.txt", "mine")]


@pytest.mark.parametrize("path", ["../space-old/secret.txt", "link/secret.txt"])
async def test_a_path_out_of_the_workspace_asks_even_when_everything_is_allowed(
    room: MakeRoom, tmp_path: Path, path: str
) -> None:
    space, other = tmp_path / "space", tmp_path / "space-old"
    space.mkdir()
    other.mkdir()
    (other / "secret.txt").write_text("secret")
    (space / "link").symlink_to(other)
    chat = await room(
        [called("read_file", path=path)], ["ok"], tools=[read_file], workspace=space, approve="all"
    )
    await answered(chat, {"action": "decline"})
    assert "secret" not in (await results(chat))[0].replace("secret.txt", "")


async def test_no_tool_sees_our_own_data(room: MakeRoom, tmp_path: Path, isolated_home: Path) -> None:
    data = isolated_home / ".local/share/fireside"
    data.mkdir(parents=True)
    (data / "chats.db").write_text("rows")
    chat = await room(
        [called("read_file", path=str(data / "chats.db"))],
        ["ok"],
        tools=[read_file],
        workspace=tmp_path,
        approve="all",
    )
    await chat.say()
    assert "rows" not in (await results(chat))[0]


async def test_a_function_becomes_a_tool_and_what_it_streams_is_heard(room: MakeRoom) -> None:
    @tool(does="nothing")
    async def count(context: ToolContext, to: int) -> str:
        "Count."
        context.progress("one ")
        answer = await context.ask(Form("Go on?", [Field("sure", kind="boolean")]))
        return f"{to} {answer}"

    chat = await room([called("count", to=3)], ["ok"], tools=[count])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        delta: FunctionCallOutputDeltaEvent = await heard.kind(FunctionCallOutputDeltaEvent)
        assert delta.delta == "one "
        event: ElicitationRequestEvent = await heard.kind(ElicitationRequestEvent)
        answer = {"action": "accept", "content": {"sure": True}}
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, answer)
        await heard.status("idle")
    assert await results(chat) == ["3 {'sure': True}"]


async def test_an_interrupt_ends_a_running_command_with_all_it_started(
    room: MakeRoom, tmp_path: Path
) -> None:
    script = [called("run_shell", command=f"echo on; sleep {LONG_S} & wait")]
    chat = await room(script, ["ok"], tools=[run_shell], workspace=tmp_path, approve="all")
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        await heard.kind(FunctionCallOutputDeltaEvent)
        await chat.manager.interrupt(chat.session_id)
        await heard.status("idle")
    result = (await results(chat))[0]
    assert result.startswith("Cancelled") and result.endswith("had printed:\non\n")
    while sleeps(LONG_S):
        await asyncio.sleep(0.01)


async def test_a_private_chat_keeps_no_output_file(
    room: MakeRoom, tmp_path: Path, isolated_home: Path
) -> None:
    script = [called("run_shell", command="seq 1 90000")]
    chat = await room(script, ["ok"], tools=[run_shell], workspace=tmp_path, approve="all", store=Store(None))
    await chat.say()
    assert "89999" in (await results(chat))[0]
    assert not [path for path in isolated_home.rglob("*") if path.is_file()]


async def test_a_private_chat_leaves_its_words_nowhere(
    room: MakeRoom, tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, scratch, word = tmp_path / "space", tmp_path / "scratch", "quicksilver"
    for folder in (space, scratch):
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))

    def whisper() -> str:
        "Say it."
        return f"{word} returned " * 20_000

    script = [f"{word} said", called("whisper")]
    chat = await room(script, ["ok"], tools=[whisper], workspace=space, approve="all", store=Store(None))
    (tmp_path / "given.txt").write_text(f"{word} attached")
    helper = await chat.manager.sessions_chat()
    await chat.manager.set_draft(helper.session_id, f"{word} typed")
    result = await helper.query(f"{word} asked", files=[tmp_path / "given.txt"])
    assert result.text == f"{word} saidok"
    await chat.manager.aclose()
    places = (space, scratch, isolated_home)
    left = [path for folder in places for path in folder.rglob("*") if path.is_file()]
    assert [path for path in left if word.encode() in path.read_bytes()] == []


async def test_7_a_task_is_handed_on_to_a_child_with_no_more_rights(room: MakeRoom) -> None:
    @tool(does="write")
    def change() -> str:
        "Change."
        return "changed"

    scripts = [
        [called("delegate", task="do it")],
        [called("change")],
        ["child is done"],
        ["parent is done"],
    ]
    chat = await room(*scripts, tools=[delegate, change])
    async with listening(chat.manager, chat.session_id) as heard:
        await chat.post("go")
        event: ElicitationRequestEvent = await heard.kind(ElicitationRequestEvent)
        target = event.params["target_session_id"]
        assert target != chat.session_id
        assert await chat.manager.subtree_busy(chat.session_id)
        await chat.manager.resolve_elicitation(chat.session_id, event.elicitation_id, {"action": "decline"})
        await heard.status("idle")
    assert await results(chat) == ["child is done"]
    [child] = await chat.manager.child_sessions(chat.session_id)
    assert child["id"] == target and child["last_message_preview"] == "child is done"
    assert not await chat.manager.subtree_busy(chat.session_id)


async def test_a_child_has_the_rounds_that_are_left_to_its_parent(room: MakeRoom) -> None:
    @tool(does="nothing")
    def look() -> str:
        "Look."
        return "seen"

    scripts = [
        [called("look")],
        [called("delegate", task="do it")],
        [called("look")],
        [called("look")],
        ["parent is done"],
    ]
    chat = await room(*scripts, tools=[delegate, look])
    await chat.manager.configure(chat.session_id, max_rounds=4)
    await chat.say()
    [child] = await chat.manager.child_sessions(chat.session_id)
    assert (await chat.manager.settings(child["id"]))["max_rounds"]["value"] == 2
    assert len(chat.engine.requests) == 5


async def test_at_the_last_round_nothing_is_handed_on(room: MakeRoom) -> None:
    chat = await room([called("delegate", task="do it")], tools=[delegate])
    await chat.manager.configure(chat.session_id, max_rounds=1)
    await chat.say()
    assert "No rounds are left" in (await results(chat))[0]
    assert await chat.manager.child_sessions(chat.session_id) == []


async def test_a_childs_child_has_the_time_that_is_left_to_its_parent(room: MakeRoom) -> None:
    deadlines: list[float | None] = []

    async def look(arguments: dict[str, Any], context: Any) -> str:
        deadlines.append((await chat.manager.live(context.session_id)).deadline)
        return "seen"

    scripts = [
        [called("delegate", task="do it", timeout_s=50)],
        [called("look"), called("delegate", "c2", task="do it for me", timeout_s=3000)],
        [called("look")],
        ["grandchild is done"],
        ["child is done"],
        ["parent is done"],
    ]
    chat = await room(*scripts, tools=[delegate, EchoTool("look", action=look)])
    began = time.monotonic()
    await chat.say()
    assert await results(chat) == ["child is done"]
    first, second = deadlines
    assert first is not None and second is not None
    assert began + 50 <= first <= time.monotonic() + 50 and second <= first


@pytest.mark.parametrize(("window", "most"), [(2048, 2048), (512, 1024), (1 << 20, 16_384)])
async def test_a_result_takes_no_more_than_the_context_can_hold(
    room: MakeRoom, window: int, most: int
) -> None:
    @tool(does="nothing")
    def flood() -> str:
        "Flood."
        return "word " * 100_000

    engine = ScriptedEngine(card=replace(CARD, max_seq=window))
    chat = await room([called("flood")], ["ok"], tools=[flood], engine=engine)
    await chat.manager.configure(chat.session_id, overflow="error")
    await chat.say()
    assert most // 2 < len((await results(chat))[0]) <= most


async def test_the_sandbox_that_an_approval_tells_of_is_the_one_a_call_runs_in(
    room: MakeRoom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Sandbox] = []
    used: list[Sandbox | None] = []

    def look_once() -> Sandbox:
        made.append(Sandbox(None))
        return made[-1]

    @tool(does="execute", subprocess=True)
    def peek(context: ToolContext) -> str:
        "Peek."
        used.append(context.sandbox)
        return "seen"

    monkeypatch.setattr(tools_adapter, "find_sandbox", look_once)
    calls = [called("peek", f"c{number}") for number in range(3)]
    chat = await room(calls, ["ok"], tools=[peek], workspace=tmp_path)
    [asked, *_] = await answered(chat, *[{"action": "accept"}] * 3)
    assert "not sandboxed" in asked["details"]["sandbox"]
    assert len(made) == 1 and all(one is made[0] for one in used) and len(used) == 3


async def test_what_is_no_tool_is_refused_at_once(room: MakeRoom) -> None:
    with pytest.raises(InvalidInputError, match="not a tool"):
        await room(tools=[42])


async def test_tools_are_named_by_pattern_or_come_from_a_registry(room: MakeRoom) -> None:
    chat = await room([called("calculate", expression="6*7")], ["42"], tools=["calc*", "now"])
    await chat.say()
    assert await results(chat) == ["42"]
    offered = [entry["function"]["name"] for entry in chat.engine.requests[0].tools]
    assert offered == ["calculate", "now"]
    everything = await room(tools=ToolRegistry(plugins=False))
    assert "run_shell" in (await everything.manager.live(everything.session_id)).services.toolbox.tools
    with pytest.raises(InvalidInputError, match=r"No tool (named|matches)"):
        await room(tools="levitate")


async def test_a_rule_that_is_no_longer_obeyed_is_told_as_such(room: MakeRoom, tmp_path: Path) -> None:
    script = [called("run_shell", command="make")]
    chat = await room(script, ["ok"], tools=[run_shell, read_file], workspace=tmp_path)
    old: dict[str, Any] = {"kind": "argv", "values": ["make"], "others": "{}", "workspace": str(tmp_path)}
    rules = [
        SavedRule("run_shell", {"tool": "run_shell", "digest": run_shell.digest, **old}, run_shell.digest),
        SavedRule("read_file", {"tool": "read_file", "digest": "x", **old}, "another definition"),
        SavedRule("run_shell", {"tool": "run_shell", "odd": 1, "kind": "argv"}, run_shell.digest),
    ]
    entry = AuditEntry(chat.session_id, "c", "run_shell", "{}", "allow", "person", "")
    for rule in rules:
        await chat.manager.ledger.add(rule, entry)
    faults = [rule.get("fault", "") for rule in await chat.manager.rules(chat.session_id)]
    assert sorted(faults) == [
        "it cannot be read",
        "its tool has changed since",
        "make may run or change whatever its arguments or files say",
    ]
    (params,) = await answered(chat, {"action": "decline"})
    assert params["offers"] == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("private", [False, True])
async def test_what_a_command_left_that_would_become_code_waits_for_a_person(
    room: MakeRoom, tmp_path: Path, isolated_home: Path, private: bool
) -> None:
    if not find_sandbox().proven:
        pytest.skip("no sandbox works here")
    space = tmp_path / "space"
    space.mkdir()
    script = [called("run_shell", command="n=rc; echo evil > .nvim$n; echo done")]
    store = Store(None) if private else None
    chat = await room(script, ["ok"], tools=[run_shell], workspace=space, approve="all", store=store)
    await chat.say()
    [told] = await results(chat)
    assert told.startswith("done\n[moved aside")
    assert not (space / ".nvimrc").exists()
    [kept] = await chat.manager.shelf.all()
    assert (kept["path"], kept["reason"], kept["workspace"]) == (".nvimrc", "made", str(space))
    assert await chat.manager.shelf.text("1") == "evil\n"
    assert private != any(path.is_file() for path in isolated_home.rglob("aside/*/*"))
    assert await chat.manager.shelf.allow(kept["id"]) == space / ".nvimrc"
    assert (space / ".nvimrc").read_text() == "evil\n"
    assert await chat.manager.shelf.all() == []
    with pytest.raises(InvalidInputError, match="nothing was moved aside"):
        await chat.manager.shelf.drop("1")
