"""The progress of loading a model, on standard error: only on a terminal, only when it takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from app.terminal.output import errors, is_terminal, takes_styles

SLOW_S = 0.7


class LoadProgress:
    """The callback that `backend.load` reports to; `goes_on` is asked whether to load on."""

    def __init__(self, goes_on: Callable[[], bool]) -> None:
        self._goes_on = goes_on
        self._begun = time.monotonic()
        self._shown = -1
        self._is_terminal = is_terminal(errors())
        self._rewrites = takes_styles(errors())

    def __enter__(self) -> LoadProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown >= 0 and self._rewrites:
            self._write("\r\x1b[K")

    def __call__(self, fraction: float) -> bool:
        """Show `fraction`; returns whether the load goes on."""
        percent = int(fraction * 100)
        if self._is_terminal and percent > self._shown and time.monotonic() - self._begun > SLOW_S:
            if self._rewrites:
                self._write(f"\rLoading the model: {percent} %")
            elif self._shown < 0:
                self._write("Loading the model.\n")
            self._shown = percent
        return self._goes_on()

    @staticmethod
    def _write(text: str) -> None:
        if (out := errors()) is not None:
            out.write(text)
            out.flush()
