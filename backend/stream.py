"""Iterators over a reply that another thread produces; a slow reader loses nothing."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from backend.reply import Delivery, Failed
from backend.types import ChatOutcome

T = TypeVar("T")


class Inbox:
    """The deliveries of one request with `n` replies, in order, for one reader."""

    def __init__(self, n: int = 1, on_outcome: Callable[[ChatOutcome], None] | None = None) -> None:
        self._queue: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._left = n
        self._on_outcome = on_outcome

    def put(self, deliveries: list[Delivery]) -> None:
        """The sink. An outcome is noted here, whether or not anybody still reads."""
        for delivery in deliveries:
            if isinstance(delivery, ChatOutcome) and self._on_outcome:
                self._on_outcome(delivery)
            self._queue.put(delivery)

    def __iter__(self) -> Iterator[Delivery]:
        """Every delivery until the last outcome. Raises the error of a failed request."""
        while self._left:
            delivery = self._queue.get()
            if isinstance(delivery, Failed):
                self._left = 0
                raise delivery.error
            if isinstance(delivery, ChatOutcome):
                self._left -= 1
            yield delivery


class Stream(Generic[T]):
    """An iterator that can be closed early: `on_close` runs once, unless the reply was over before.

    `on_end` runs once when the last item was read, `on_close` when the reader left early or an
    error came; an abandoned stream is closed when it is collected.
    """

    def __init__(
        self,
        items: Iterator[T],
        on_close: Callable[[BaseException | None], None] = lambda _: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._items = items
        self._on_close = on_close
        self._on_end = on_end
        self._over = False

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        if self._over:
            raise StopIteration
        try:
            return next(self._items)
        except StopIteration:
            self._over = True
            self._on_end()
            raise
        except BaseException as err:
            self._over = True
            self._on_close(err)
            raise

    def close(self) -> None:
        """Stop reading. Harmless when called again."""
        if not self._over:
            self._over = True
            self._on_close(None)

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
