"""Text that looks like markup or tags is shown letter for letter wherever the program shows it."""

from __future__ import annotations

import pytest

from backend.types import ReasoningPiece
from tests.app.tui.pilot import running
from tests.app.tui.test_approvals import Recorder, asked, call

pytestmark = pytest.mark.timeout(60)
TEXTS = [
    "x [/] y",
    "[/tmp/a]",
    "a [/ b",
    '{"k": [true, false]}',
    "see [1] and [/opt/data] then [bold",
    "yield from f(x) [/]",
    "[@click=app.quit]q[/]",
    "[$primary]z[/$primary]",
    "keep 3<x and y>1 ok ; List<Item>",
    "<think>x</think> and <!-- y -->",
]


@pytest.mark.parametrize("text", TEXTS)
async def test_in_the_conversation_the_seam_the_pane_and_the_news(text: str) -> None:
    async with running([[ReasoningPiece(text), text]], size=(160, 40)) as run:
        await run.ask(text)
        run.app.say(text, error=True)
        await run.app.manager.rename(run.app.chat.id or "", text)
        await run.until(lambda: text in run.seam and text in run.app.chat.title)
        # The message, the answer, the news, and the pane, which may cut it.
        await run.until(lambda: "\n".join(run.screen()).count(text) >= 3)
        await run.pilot.pause()
        before = "\n".join(run.screen()).count(text)
        await run.pilot.press("ctrl+t")
        await run.until(lambda: "\n".join(run.screen()).count(text) > before)


@pytest.mark.parametrize("text", TEXTS)
async def test_in_a_question_and_in_what_runs(text: str) -> None:
    tool = Recorder()
    async with running([[call(path=text, text=text)], ["done"]], tools=[tool], size=(140, 40)) as run:
        await asked(run)
        assert "\n".join(run.screen()).count(text) >= 2
        await run.pilot.press("y")
        await run.until(lambda: run.texts("answer") == ["done"])
        assert tool.calls == [{"path": text, "text": text}]
