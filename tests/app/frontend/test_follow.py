"""Following a session: what goes wrong with one event, or between two, does not end the chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from app.frontend.follow import BEHIND, follow
from app.sessions.errors import FiresideError

Told = list[object]


class Manager:
    """Streams that are scripted; one that ends with an error raises it."""

    def __init__(self, *streams: list[object]) -> None:
        self.streams = list(streams)

    async def stream(self, session_id: str) -> AsyncGenerator[object]:
        for event in self.streams.pop(0):
            if isinstance(event, Exception):
                raise event
            yield event


async def told(*streams: list[object], wrong: object = None) -> Told:
    found: Told = []

    async def take(event: Any) -> None:
        if event == wrong:
            raise ValueError("odd")
        found.append(event)

    async def missed() -> None:
        found.append("missed")

    manager: Any = Manager(*streams)
    await follow(manager, "s", take, missed=missed, failed=lambda *words: found.append(words))
    assert manager.streams == []
    return found


async def test_events_come_in_order_until_the_session_closes() -> None:
    assert await told([1, 2, 3]) == [1, 2, 3]


async def test_one_that_is_behind_reads_what_it_missed_before_it_goes_on() -> None:
    behind = FiresideError("behind", code=BEHIND)
    assert await told([1, behind], [2, behind], [3]) == [1, "missed", 2, "missed", 3]


async def test_an_event_that_cannot_be_shown_is_told_and_the_next_one_comes() -> None:
    assert await told([1, 2, 3], wrong=2) == [1, ("Something could not be shown: ValueError: odd", ""), 3]


async def test_another_failure_of_the_stream_is_told_and_ends_it() -> None:
    assert await told([1, FiresideError("gone", code="gone")]) == [1, ("gone", "")]
