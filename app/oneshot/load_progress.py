"""The progress of loading a model, on standard error: only on a terminal, only when it takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType

from app.terminal.output import is_terminal, takes_styles

SLOW_S = 0.7


class LoadProgress:
    """The callback that `backend.load` reports to; `goes_on` is asked whether to load on."""

    def __init__(self, goes_on: Callable[[], bool]) -> None:
        self._goes_on = goes_on
        self._begun = time.monotonic()
        self._shown = -1
        self._is_terminal = is_terminal(sys.stderr)
        self._rewrites = takes_styles(sys.stderr)

    def __enter__(self) -> LoadProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown >= 0 and self._rewrites:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __call__(self, fraction: float) -> bool:
        """Show `fraction`; returns whether the load goes on."""
        percent = int(fraction * 100)
        if self._is_terminal and percent > self._shown and time.monotonic() - self._begun > SLOW_S:
            if self._rewrites:
                sys.stderr.write(f"\rLoading the model: {percent} %")
            elif self._shown < 0:
                sys.stderr.write("Loading the model.\n")
            sys.stderr.flush()
            self._shown = percent
        return self._goes_on()
