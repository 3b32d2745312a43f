"""What a reply looks like once it is whole: every part once, in the order in which it was written."""

from __future__ import annotations

from backend.types import ToolCallPiece
from tests.tui.program import running
from tests.tui.test_approvals import Recorder, call


async def test_words_before_a_streamed_call_stand_there_once() -> None:
    script = [
        "Let me keep this.",
        ToolCallPiece(index=0, name="keep", arguments_delta='{"text": '),
        ToolCallPiece(index=0, name="keep", arguments_delta='"x"}'),
        call(text="x"),
    ]
    async with running([script, ["done"]], tools=[Recorder()], approve="all") as run:
        await run.send("do it")
        await run.until(lambda: run.texts("answer")[-1:] == ["done"] and not run.app.chat.busy)
        assert run.texts("answer") == ["Let me keep this.", "done"]
        kinds = run.kinds()
        assert kinds.index("answer") < kinds.index("tool") < len(kinds) - 1
        assert sum("Let me keep this." in row for row in run.screen()) == 1
