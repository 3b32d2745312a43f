"""`/attach` without a name lets a file be found, and names it in the draft."""

from __future__ import annotations

from pathlib import Path

from app.tui.screens.files import FilesPicker
from tests.app.tui.pilot import running


async def test_attach_lets_a_file_be_found(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "the plan.txt").write_text("the secret plan")
    async with running([["read it"]], workspace=tmp_path) as run:
        await run.send("/attach")
        await run.until(lambda: isinstance(run.app.screen, FilesPicker) and run.app.screen.chosen)
        await run.type("pln")
        await run.pilot.press("enter")
        await run.until(lambda: "the plan.txt" in run.app.parts.draft.text)
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["read it"])
        assert "the secret plan" in str(run.engine.requests[0].messages[-1]["content"])
