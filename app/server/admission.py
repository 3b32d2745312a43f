"""How many replies may run and wait: whoever comes when the queue is full is told when to come again."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager

from app.server.errors import ApiError, busy, refused

_SHARE = 0.2
"""Of the newest duration in the running mean."""
_LONGEST_WAIT_S = 60


class Admission:
    """Counts the replies that run or wait. At most `slots` are expected to run and `max_queued` to wait."""

    def __init__(self, slots: int, max_queued: int) -> None:
        self.slots = slots
        self.max_queued = max_queued
        self.taken = 0
        self.refused = 0
        """Requests that found the queue full."""
        self._mean_s = 1.0
        self._closed = False

    @property
    def waiting(self) -> int:
        """Replies beyond those that can run at once."""
        return max(0, self.taken - self.slots)

    def close(self) -> None:
        """Take nothing more: the server ends."""
        self._closed = True

    @contextmanager
    def place(self, replies: int = 1) -> Generator[None]:
        """Within, so many replies are counted. ApiError (429) where there is no room for them, 503 once the
        server ends."""
        if self._closed:
            raise ApiError(503, "The server is shutting down.", code="shutting_down")
        if replies > self.slots + self.max_queued:
            raise refused(f"This server answers at most {self.slots + self.max_queued} replies at once.", "n")
        if self.taken + replies > self.slots + self.max_queued:
            self.refused += 1
            raise busy(
                f"The queue is full: {self.waiting} replies are waiting. Try again later.",
                self._until_free(),
            )
        self.taken += replies
        began = time.monotonic()
        try:
            yield
        finally:
            self.taken -= replies
            self._mean_s += _SHARE * (time.monotonic() - began - self._mean_s)

    def _until_free(self) -> int:
        """Seconds until a place is free, as far as the last replies tell."""
        return max(1, min(_LONGEST_WAIT_S, math.ceil(self._mean_s / self.slots)))
