"""A chat that is gone on with is on the screen before its manager is made."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app import paths
from app.frontend.start import Start
from app.sessions.items import Message, output_text, user_message
from app.sessions.manager import SessionManager
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import STORE_FILE, Store
from app.settings.config import resolve
from app.terminal.glyphs import UNICODE
from app.terminal.theming import palette, read
from app.tui.app import FiresideApp
from app.tui.program import startup
from backend.engines.scripted import ScriptedEngine
from tests.app.tui.pilot import Running


async def stored(file: Path) -> None:
    store = Store(file)
    await store.add_session(SessionRecord(id="sess_1a2b", agent={"name": "fireside"}))
    answer = Message(role="assistant", content=(output_text("the **last** word"),))
    await store.apply("sess_1a2b", Change(items=[user_message("a question"), answer]))
    await store.close()


@pytest.mark.parametrize("start", [{"resume": "1a"}, {"last": True}, {"fork": "sess_1a2b"}])
async def test_its_messages_are_shown_first_and_stay(
    start: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = paths.make_private_dir(paths.data_dir()) / STORE_FILE
    await stored(file)
    engine, goes_on = ScriptedEngine([["an answer"]]), threading.Event()

    def make(_: Start) -> SessionManager:
        goes_on.wait()
        return SessionManager(engine=engine, store=Store(file))

    monkeypatch.setattr(startup, "make_manager", make)
    look = palette(read("hearth"))
    app = FiresideApp(Start(resolve({}), **start), look, UNICODE, make=make, motion=False)  # type: ignore[arg-type]
    drawn: list[int] = []
    app.startup.drawn = lambda: drawn.append(len(app.parts.transcript.page.entries))
    async with app.run_test(size=(100, 32)) as pilot:
        run = Running(app, pilot, engine)
        try:
            await run.until(lambda: any("the last word" in row for row in run.screen()))
            assert app.chat.id is None
            await run.until(lambda: drawn)
            assert drawn == [2]  # the messages were there when all else may begin
            app.parts.draft.put("go on")
            await pilot.press("enter")
        finally:
            goes_on.set()
        await run.until(lambda: run.texts("answer")[-1:] == ["an answer"] and not app.chat.busy)
        assert run.texts("user") == ["a question", "go on"]
        assert run.texts("answer") == ["the **last** word", "an answer"]
        assert sum("the last word" in row for row in run.screen()) == 1
    await app.startup.close_down()
