"""When what is being written is stored, so that it outlives a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

KEEP_S = 0.5
"""From a key to the store: also while the person types on and on."""


class DraftKeeper:
    """Calls `save` a moment after the draft changed, once for all that was typed meanwhile."""

    def __init__(self, save: Callable[[], object]) -> None:
        self._save = save
        self._timer: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        """The draft is another one."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(KEEP_S, self._now)

    def stop(self) -> bool:
        """Save no more of what was typed until now; whether something of it still had to be."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return timer is not None

    def _now(self) -> None:
        self._timer = None
        self._save()
