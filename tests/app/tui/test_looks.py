"""The whole screen beside the pictures of look.md, as snapshots of cells and roles."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.terminal.glyphs import ASCII, UNICODE
from app.tui.chat.reply import LiveReply
from backend.engines.scripted import CARD, Pause, ScriptedEngine
from backend.types import EngineError, ReasoningPiece, ToolCall
from tests.app.tui.pilot import Running, running
from tests.app.tui.snapshots import check

pytestmark = pytest.mark.timeout(60)  # each starts the whole program

ANSWER = """The loop reads one element past the end. `range(count + 1)` is right for counting gaps, but \
`buf` holds **count** lines.

```python
def tail(buf, count):
    return buf[-count:]
```

| fix | reads | copies |
|---|---:|---:|
| slice | count | 1 |

See [collections.deque](https://docs.python.org/3/library/collections.html)."""
FILE = 'def load(path):\n    data = read(path)\n    timeout = data["timeout"]\n    return timeout\n'
EDIT = {"path": "src/config.py", "old_text": 'data["timeout"]', "new_text": 'data.get("timeout_s", 30.0)'}
READ = ToolCall("c0", "read_file", {"path": "src/config.py"})


@pytest.fixture(autouse=True)
def still_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.tui.chat.story.clock", lambda seconds: "14:02")
    monkeypatch.setattr("app.tui.chat.view.LiveReply", partial(LiveReply, seconds=lambda: 0.0))
    monkeypatch.setattr("app.sessions.turn.state.TurnState.worked_s", 0.0)


def engine(*scripts: Any) -> ScriptedEngine:
    residency = {"devices": [{"kind": "gpu", "layers": 30}], "pipeline": {}, "notes": []}
    card = replace(CARD, model_id="SmolLM2-360M-Instruct-Q4_1")
    return ScriptedEngine(scripts, card=card, residency=residency)


async def settled(run: Running) -> None:
    """No frame is on its way, and the numbers of what is being written were told."""
    run.app.chat.view.tick()
    await run.until(
        lambda: not run.app.parts.transcript._flush_due and not run.app.parts.transcript._settling
    )
    await run.until(lambda: run.app.parts.seam.news is None)
    await run.pilot.pause()


def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "config.py").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize(
    ("size", "theme"), [((140, 40), "hearth"), ((80, 24), "daylight"), ((200, 60), "moss")]
)
async def test_a_conversation(tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    made = engine([ReasoningPiece("Two files read it."), READ], [ANSWER])
    place = folder(tmp_path)
    async with running(
        engine=made, size=size, theme=theme, tools="read_file", workspace=place, approve="read"
    ) as run:
        await run.ask("What does this traceback mean, and which fix is the cheapest?")
        await settled(run)
        check(run.app, f"conversation-{size[0]}x{size[1]}-{theme}")


@pytest.mark.parametrize(("size", "theme"), [((140, 40), "hearth"), ((80, 24), "high-contrast")])
async def test_an_approval(tmp_path: Path, size: tuple[int, int], theme: str) -> None:
    made = engine(["The key is read in one place:", ToolCall("c1", "edit_file", EDIT)], ["done"])
    async with running(
        engine=made, size=size, theme=theme, tools="edit_file", workspace=folder(tmp_path)
    ) as run:
        await run.send("timeout should be timeout_s, a float, default 30.")
        await run.until(lambda: run.app.parts.approval.armed)
        await settled(run)
        check(run.app, f"approval-{size[0]}x{size[1]}-{theme}")


@pytest.mark.parametrize(("size", "theme"), [((140, 40), "paper"), ((80, 24), "daylight")])
async def test_an_error(size: tuple[int, int], theme: str) -> None:
    failed = EngineError("The model ran out of memory\nA 32k context needs 7.9 GiB; 5.2 GiB are free.")
    async with running(engine=engine([failed]), size=size, theme=theme) as run:
        await run.send("Compare the two drafts section by section.")
        await run.until(lambda: run.app.chat.view.error)
        await settled(run)
        check(run.app, f"error-{size[0]}x{size[1]}-{theme}")


@pytest.mark.parametrize(
    ("size", "theme", "glyphs"),
    [((80, 24), "hearth", UNICODE), ((140, 40), "frost", UNICODE), ((80, 24), "terminal", ASCII)],
)
async def test_a_reply_with_a_queue(size: tuple[int, int], theme: str, glyphs: Any) -> None:
    gate = asyncio.Event()
    made = engine(["So `buf[-1]` is always the last", Pause(until=gate)])
    async with running(engine=made, size=size, theme=theme, glyphs=glyphs) as run:
        await run.send("Explain it for someone who has never seen a negative index.")
        await run.until(lambda: run.texts("answer"))
        await run.send("then group them by package")
        await run.until(lambda: run.app.parts.waiting.messages)
        run.app.parts.draft.put("and leave out anything older\nthan a week")
        await settled(run)
        name = "ascii" if glyphs is ASCII else theme
        check(run.app, f"queue-{size[0]}x{size[1]}-{name}")
        gate.set()
