"""What happens in one part of the program and others hear of; `FiresideApp.wire` says who."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """Something that happens. Whoever hears of it is called at once, in the order of `to`."""

    def __init__(self) -> None:
        self._hearers: tuple[Callable[P, object], ...] = ()

    def to(self, *hearers: Callable[P, object]) -> None:
        """Let these hear of it, and nobody else."""
        self._hearers = hearers

    def __call__(self, *args: P.args, **fields: P.kwargs) -> None:
        """It happens."""
        for hearer in self._hearers:
            hearer(*args, **fields)
