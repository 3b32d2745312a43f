"""Asks the person at the terminal of a one-shot whether a call may run: shown whole, allowed once or not."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable
from typing import Any

from app.frontend.question import Question, body_of, fact_rows, title_row
from app.sessions.questions import CallQuestion
from app.terminal.confirm import agreed
from app.terminal.glyphs import ASCII

_LEAST_CELLS, _MOST_CELLS = 40, 100
ONCE = "Run this call once?"


async def allows(session_id: str, elicitation_id: str, asked: CallQuestion) -> bool:
    """Whether the person lets a call run. The answer is read beside the event loop, which may stop."""
    question = Question.of(session_id, elicitation_id, asked)
    return await _beside(lambda: agreed(f"{shown(question)}\n{ONCE}"))


def shown(question: Question) -> str:
    """The whole call as text: what it is, its arguments or its change, and what it touches."""
    cells = max(_LEAST_CELLS, min(_MOST_CELLS, shutil.get_terminal_size().columns - 2))
    body = body_of(question, cells, ASCII)
    rows = [
        title_row(question, (), cells, ASCII),
        *body.rows(0, len(body)),
        *fact_rows(question, cells, ASCII),
    ]
    return "\n".join("".join(text for text, _ in row).rstrip() for row in rows)


async def _beside(ask: Callable[[], bool]) -> bool:
    loop = asyncio.get_running_loop()
    said: asyncio.Future[bool] = loop.create_future()

    def settle(value: Any) -> None:
        if not said.done():
            said.set_result(value)

    def run() -> None:
        answer = ask()
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, answer)

    # A daemon: a turn that is stopped meanwhile does not wait for a line that nobody types.
    threading.Thread(target=run, name="fireside-ask", daemon=True).start()
    return await said
