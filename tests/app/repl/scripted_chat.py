"""`fireside repl` on a scripted engine, for tests at a terminal: scripted_chat.py SCRIPT.json [FLAG...].

With FACE=tui in the environment it is the full screen.

The script is a list of replies, each a list of pieces: texts, `{"thought": text}`, `{"pause": file}`
(until that file exists), `{"call": name, "arguments": {...}}`, `{"error": text}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

import app.frontend.engines as engines  # noqa: E402
from app.cli import main as cli  # noqa: E402
from backend.engines.scripted import ScriptedEngine  # noqa: E402
from backend.types import EngineError, ReasoningPiece, ToolCall  # noqa: E402


def step_of(data: Any) -> Any:
    match data:
        case {"thought": text}:
            return ReasoningPiece(text)
        case {"call": name, "arguments": arguments}:
            return ToolCall("call_1", name, arguments, json.dumps(arguments))
        case {"error": text}:
            return EngineError(text)
        case _:
            return data


async def wait_for(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.005)


def engine_of(script: Path) -> ScriptedEngine:
    from backend.engines.scripted import Pause

    class Until(asyncio.Event):
        """Set once a file is there."""

        def __init__(self, path: str) -> None:
            super().__init__()
            self.path = Path(path)

        async def wait(self) -> bool:  # type: ignore[override]
            await wait_for(self.path)
            return True

    def made(data: Any) -> Any:
        if isinstance(data, dict) and "pause" in data:
            return Pause(until=Until(data["pause"]))
        return step_of(data)

    replies = json.loads(script.read_text(encoding="utf-8"))
    return ScriptedEngine([[made(step) for step in reply] for reply in replies], closed=True)


def main() -> int:
    engine = engine_of(Path(sys.argv[1]))
    engines.make_engine = lambda **options: engine  # type: ignore[assignment]
    return cli.main([os.environ.get("FACE", "repl"), *sys.argv[2:]])


if __name__ == "__main__":
    sys.exit(main())
