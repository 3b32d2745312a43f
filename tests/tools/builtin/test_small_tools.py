from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.tools.conftest import Use
from tools.builtin.clock import now
from tools.builtin.delegate import delegate
from tools.builtin.notes import notes
from tools.context import Delegation, SpawnRequest, ToolContext


async def test_the_time_in_a_zone(use: Use) -> None:
    assert "(UTC+0900)" in (await use(now, timezone="Asia/Tokyo")).text
    assert "UTC" in (await use(now)).text


@pytest.mark.parametrize("zone", ["Nowhere/None", "../../etc/passwd", "/etc/passwd", "x" * 5000, "a\0b"])
async def test_a_zone_that_is_none(use: Use, zone: str) -> None:
    assert "no time zone" in (await use(now, timezone=zone)).text


@pytest.fixture
def keeping(tmp_path: Path) -> ToolContext:
    return ToolContext(notes_folder=tmp_path / "notes")


async def test_notes_are_kept_privately(use: Use, keeping: ToolContext, tmp_path: Path) -> None:
    assert (await use(notes, keeping, action="list")).text == "There are no notes."
    await use(notes, keeping, action="write", name="todo", text="one")
    await use(notes, keeping, action="append", name="todo", text="two")
    assert (await use(notes, keeping, action="read", name="todo")).text == "one\ntwo"
    assert (await use(notes, keeping, action="list")).text == "todo"
    assert (tmp_path / "notes").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "notes" / "todo.md").stat().st_mode & 0o777 == 0o600
    await use(notes, keeping, action="delete", name="todo")
    assert "no note todo" in (await use(notes, keeping, action="read", name="todo")).text


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 65, "a\0", "a\n"])
async def test_a_notes_name_is_never_a_path(
    use: Use, keeping: ToolContext, tmp_path: Path, name: str
) -> None:
    assert (await use(notes, keeping, action="write", name=name, text="x")).status == "failed"
    assert not list(tmp_path.rglob("*.md"))


async def test_a_linked_note_is_not_followed(use: Use, keeping: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").symlink_to(tmp_path / "outside" / "a.txt")
    assert (await use(notes, keeping, action="read", name="a")).status == "failed"
    assert (await use(notes, keeping, action="write", name="a", text="x")).status == "failed"
    assert (tmp_path / "outside" / "a.txt").read_text() == "out"


async def test_a_linked_notes_folder_is_not_followed(use: Use, keeping: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "outside" / "a.md").write_text("out")
    (tmp_path / "outside").chmod(0o755)
    (tmp_path / "notes").symlink_to(tmp_path / "outside")
    for action in ("list", "read", "write", "append", "delete"):
        result = await use(notes, keeping, action=action, name="a", text="x")
        assert (result.status, "out" in result.text.split()) == ("failed", False), action
    assert (tmp_path / "outside" / "a.md").read_text() == "out"
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0o755


async def test_notes_are_bounded(use: Use, keeping: ToolContext) -> None:
    assert "at most" in (await use(notes, keeping, action="write", name="a", text="x" * 70_000)).text


async def test_a_chat_without_notes(use: Use) -> None:
    assert "keeps no notes" in (await use(notes, action="list")).text


# ---- delegate ------------------------------------------------------------------------------


async def hand_on(delegation: Delegation | None, use: Use, **arguments: object) -> str:
    context = ToolContext(delegation=delegation, session_id="parent", call_id="c1")
    return (await use(delegate, context, **arguments)).text


async def test_a_child_gets_its_task_and_no_more_rights_than_its_parent(use: Use) -> None:
    started: list[SpawnRequest] = []

    async def spawn(request: SpawnRequest) -> str:
        started.append(request)
        return "the answer"

    parent = Delegation(
        spawn, tools=("read_file", "now"), mode="read", rounds=7, deadline=time.monotonic() + 60
    )
    assert await hand_on(parent, use, task="look", tools=["now"], timeout_s=3000) == "the answer"
    assert await hand_on(parent, use, task="look") == "the answer"
    first, second = started
    assert (first.task, first.tools, second.tools) == ("look", ("now",), ("read_file", "now"))
    assert (first.mode, first.rounds, first.depth) == ("read", 7, 1)
    assert first.time_s <= 60
    assert (first.parent_session_id, first.call_id) == ("parent", "c1")
    assert "do not have: run_shell" in await hand_on(parent, use, task="x", tools=["run_shell"])
    assert len(started) == 2


@pytest.mark.parametrize(
    ("delegation", "said"),
    [
        (None, "cannot hand on"),
        ({"depth": 2}, "2 levels deep"),
        ({"rounds": 0}, "No rounds"),
        ({"deadline": 0.0}, "No time"),
    ],
)
async def test_limits_of_handing_on(use: Use, delegation: dict[str, float] | None, said: str) -> None:
    async def spawn(request: SpawnRequest) -> str:
        raise AssertionError("started")

    made = None if delegation is None else Delegation(spawn, **delegation)  # type: ignore[arg-type]
    assert said in await hand_on(made, use, task="x")
    assert "empty" in await hand_on(Delegation(spawn), use, task="  ")


async def test_four_run_at_once_and_the_fifth_waits(use: Use) -> None:
    running = most = 0
    four, go_on = asyncio.Event(), asyncio.Event()

    async def spawn(request: SpawnRequest) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 4:
            four.set()
        await go_on.wait()
        running -= 1
        return request.task

    parent = Delegation(spawn)
    tasks = [asyncio.create_task(hand_on(parent, use, task=str(number))) for number in range(6)]
    await four.wait()
    go_on.set()
    assert await asyncio.gather(*tasks) == [str(number) for number in range(6)]
    assert most == 4


async def test_cancelling_the_call_cancels_the_child(use: Use) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def spawn(request: SpawnRequest) -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return ""

    context = ToolContext(delegation=Delegation(spawn))
    task = asyncio.create_task(use(delegate, context, task="x"))
    await started.wait()
    context.cancellation.set()
    assert (await task).status == "cancelled"
    assert ended.is_set()
