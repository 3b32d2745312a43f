from __future__ import annotations

import asyncio

import pytest

from app.frontend import draft_keeper
from app.frontend.draft_keeper import DraftKeeper


async def test_what_is_typed_meanwhile_is_saved_once_and_what_follows_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft_keeper, "KEEP_S", 0.0)
    saved = asyncio.Semaphore(0)
    keeper = DraftKeeper(saved.release)
    for _ in range(2):
        for _ in range(3):
            keeper.changed()
        await saved.acquire()
        assert saved.locked() and not keeper.stop()


async def test_one_that_is_stopped_says_whether_something_was_not_saved() -> None:
    calls: list[int] = []
    keeper = DraftKeeper(lambda: calls.append(1))
    assert not keeper.stop()
    keeper.changed()
    assert keeper.stop() and not keeper.stop() and calls == []
