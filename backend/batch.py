"""Many requests at once, a bounded number of them decoding, the outcomes in order."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from backend.chat_engine import Request
from backend.pipeline import Pipeline
from backend.reply import Delivery, Failed
from backend.types import BackendError, ChatOutcome


class Batch:
    """Runs requests through a pipeline, a bounded number at once; outcomes come in request order."""

    def __init__(self, pipeline: Pipeline, requests: Sequence[Request], active: int) -> None:
        self._pipeline = pipeline
        self._requests = requests
        self._active = active
        self._outcomes: dict[int, ChatOutcome] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._started = 0
        self._running = 0

    def run(self) -> list[ChatOutcome]:
        """All outcomes. The first failure cancels the rest and is raised."""
        try:
            with self._changed:
                while self._error is None and len(self._outcomes) < len(self._requests):
                    while self._started < len(self._requests) and self._running < self._active:
                        self._start(self._started)
                    self._changed.wait()
                if self._error:
                    raise self._error
        except BaseException:
            for request in self._requests:
                self._pipeline.cancel(request.id)
            raise
        return [self._outcomes[index] for index in range(len(self._requests))]

    def _start(self, index: int) -> None:
        self._started += 1
        self._running += 1
        self._pipeline.start(self._requests[index], lambda items: self._take(index, items))

    def _take(self, index: int, items: list[Delivery]) -> None:
        last = items[-1]
        with self._changed:
            if isinstance(last, ChatOutcome):
                self._outcomes[index] = last
            elif isinstance(last, Failed):
                self._error = _of_prompt(last.error, index, len(self._requests))
            else:
                return
            self._running -= 1
            self._changed.notify()


def _of_prompt(error: Exception, index: int, count: int) -> Exception:
    """The error with the number of its prompt in front of the text; type and numbers stay."""
    if count > 1 and isinstance(error, BackendError):
        error.args = (f"Prompt {index + 1} of {count}: {error}",)
    return error
