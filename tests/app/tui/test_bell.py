"""The bell calls who is elsewhere, also where the terminal does not tell where the focus is."""

from __future__ import annotations

import asyncio

import pytest
from textual import events

from app.settings.config import Value, resolve
from app.tui.bell import LONG_S, Attention, Event, When, rings
from backend.engines.scripted import Pause
from tests.app.tui.pilot import running

HERE, AWAY = Attention(True, 0), Attention(False, 0)
TYPES, SILENT = Attention(None, 1), Attention(None, LONG_S)


@pytest.mark.parametrize(
    ("when", "event", "took_s", "attention", "expected"),
    [
        ("off", "asked", 99, AWAY, False),
        ("always", "asked", 0, HERE, True),
        ("always", "ended", 1, HERE, False),
        ("always", "ended", 11, HERE, True),
        ("unfocused", "asked", 0, HERE, False),
        ("unfocused", "ended", 1, AWAY, True),
        ("unfocused", "ended", 60, TYPES, False),
        ("unfocused", "ended", 60, SILENT, True),
        ("unfocused", "asked", 0, SILENT, True),
    ],
)
def test_when_it_rings(when: When, event: Event, took_s: float, attention: Attention, expected: bool) -> None:
    assert rings(when, event, took_s, attention) is expected


@pytest.mark.timeout(60)
@pytest.mark.parametrize("tells", [True, False])
async def test_a_reply_calls_who_left(tells: bool) -> None:
    gate = asyncio.Event()
    async with running([["one", Pause(until=gate)]]) as run:
        rung: list[bool] = []
        run.app.bell = lambda: rung.append(True)
        await run.send("hi")
        await run.until(lambda: run.texts("answer") == ["one"])
        if tells:
            run.app.post_message(events.AppBlur())
            await run.until(lambda: run.app.window.attention.focused is False)
        else:
            run.app.window._key_at -= LONG_S
        gate.set()
        await run.until(lambda: rung)


@pytest.mark.timeout(60)
async def test_it_is_silent_for_who_is_here_and_where_it_is_off() -> None:
    settings = resolve({"bell": Value("off", "test")}, environ={})
    for fields in ({"settings": settings}, {}):
        async with running([["one"]], **fields) as run:
            rung: list[bool] = []
            run.app.bell = lambda rung=rung: rung.append(True)
            if fields:
                run.app.window._key_at -= LONG_S
            await run.ask("hi")
            assert not rung
