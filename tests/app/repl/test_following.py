"""A chat line by line goes on after events that were missed, or that could not be told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from app.repl.face import ReplFace
from app.sessions.events import SessionHeartbeatEvent
from app.sessions.turn.event_bus import MAX_BEHIND
from backend.engines.scripted import Pause
from tests.app.repl.chatting import chat, wait_until, written


async def _fall_behind(face: ReplFace) -> None:
    live: Any = await face.manager.live(str(face.session_id))  # type: ignore[attr-defined]
    for _ in range(MAX_BEHIND + 10):
        live.bus.publish(SessionHeartbeatEvent())
    told: list[str] = []
    face.page.note = lambda text, *, warning=False, note=face.page.note: (told.append(text), note(text))  # type: ignore[method-assign,misc]
    await wait_until(lambda: any("too much arrived" in text for text in told))


async def test_a_chat_that_fell_behind_goes_on() -> None:
    faces: list[ReplFace] = []

    async def fall() -> None:
        await wait_until(lambda: faces[0].narrator.settled)
        await _fall_behind(faces[0])

    told = await chat("hi", fall, "again", scripts=[["one"], ["two"]], watch=faces.append)
    assert "too much arrived to show it all" in told.seen
    assert told.seen.count("two") == 1


async def test_an_answer_whose_beginning_was_missed_is_told_whole() -> None:
    faces: list[ReplFace] = []
    gate = asyncio.Event()

    async def fall() -> None:
        await wait_until(lambda: written(faces[0]) == "one ")
        await _fall_behind(faces[0])
        gate.set()

    scripts = [["one ", Pause(until=gate), "more"], ["two"]]
    told = await chat("hi", fall, "again", scripts=scripts, watch=faces.append)
    assert "one more" in told.seen
    assert "two" in told.seen


async def test_an_event_that_cannot_be_told_ends_nothing() -> None:
    def watch(face: ReplFace) -> None:
        stats, told = face.page.stats, list[str]()

        def once(text: str) -> None:
            told.append(text)
            if len(told) == 1:
                raise RuntimeError("broken figures")
            stats(text)

        face.page.stats = once  # type: ignore[method-assign]

    told = await chat("hi", "again", scripts=[["one"], ["two"]], watch=watch)
    assert "broken figures" in told.seen
    assert "two" in told.seen


async def test_what_is_attached_stays_with_its_chat(tmp_path: Path) -> None:
    faces: list[ReplFace] = []
    opened: list[str] = []
    (tmp_path / "note.txt").write_text("the words of a file")

    def remember() -> None:
        opened.append(str(faces[0].session_id))

    async def go_back() -> None:
        await wait_until(lambda: faces[0].narrator.settled)
        await faces[0].open_session(opened.pop(0))

    told = await chat(
        *("one", remember, "/new", "two", remember),
        *(f"/attach {tmp_path / 'note.txt'}", "!echo shell words", go_back, "three", go_back, "four"),
        scripts=[["a"], ["b"], ["c"], ["d"]],
        watch=faces.append,
        workspace=str(tmp_path),
    )
    assert "There is no file" not in told.seen
    third, fourth = (str(request.messages) for request in told.engine.requests[-2:])
    assert "words" not in third
    assert "the words of a file" in fourth and "shell words" in fourth
