"""Several calls in one reply: between a card and its answer stands nothing else."""

from __future__ import annotations

import pytest

from app.repl.face import ReplFace
from app.repl.narrator import Narrator
from app.sessions.events import OutputItemDoneEvent, SessionEvent
from app.sessions.items import FunctionCallOutput
from backend.types import ToolCall
from tests.app.repl.chatting import Told, chat, wait_until
from tools import tool


@tool(does="write")
def write_note(path: str) -> str:
    """Write a note."""
    return f"wrote {path}"


async def told_at_once(monkeypatch: pytest.MonkeyPatch, answers: list[str], *, plain: bool = False) -> Told:
    """Three calls; each card but the first is answered once the result before it came."""
    results: list[str] = []
    take = Narrator.take

    def noting(self: Narrator, event: SessionEvent) -> None:
        take(self, event)
        if isinstance(event, OutputItemDoneEvent) and isinstance(event.item, FunctionCallOutput):
            results.append(event.item.call_id)

    monkeypatch.setattr(Narrator, "take", noting)

    def watch(face: ReplFace) -> None:
        ask, asked = face.console.ask, 0

        async def slowly(*args: object, **options: object) -> str | None:
            nonlocal asked
            await wait_until(lambda: len(results) >= asked)
            asked += 1
            face.page.news(f"answer {asked}")
            return await ask(*args, **options)  # type: ignore[arg-type]

        face.console.ask = slowly  # type: ignore[method-assign]

    calls = [
        ToolCall(f"c{n}", "write_note", {"path": f"file{n}"}, f'{{"path":"file{n}"}}') for n in (1, 2, 3)
    ]
    return await chat(
        "go", scripts=[[*calls], ["Done."]], answers=answers, tools=[write_note], watch=watch, plain=plain
    )


@pytest.mark.parametrize("plain", [False, True])
async def test_a_result_waits_for_the_answer_of_the_card_that_is_open(
    monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    seen = (await told_at_once(monkeypatch, ["y", "y", "y"], plain=plain)).seen
    cards = [at for at in range(len(seen)) if seen.startswith("approve?", at)]
    answers = [seen.index(f"answer {n}") for n in (1, 2, 3)]
    results = [seen.index(f"wrote file{n}") for n in (1, 2, 3)]
    assert len(cards) == 3
    for card, answer in zip(cards, answers, strict=True):
        assert card < answer
        assert not any(card < result < answer for result in results)
    assert max(results) < seen.index("Done.")


@pytest.mark.parametrize("plain", [False, True])
async def test_the_card_says_that_enter_ends_the_answer(monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    told = await told_at_once(monkeypatch, ["y", "y", "y"], plain=plain)
    cards = [row for row in told.seen.split("\n") if "approve?" in row]
    assert len(cards) == 3
    assert all("key, then enter" in row and len(row) < 80 for row in cards)
