"""How many prompt rows a step may carry, so that people who are being answered keep their speed."""

from __future__ import annotations

SMALLEST_CHUNK = 8
LONGEST_STEP_S = 0.12
"""A step beside writers aims at this, so that one that takes longer than foreseen is still under 0.2 s,
and a window of one second holds several."""
REPAY = 2.0
"""Time without prompt rows, per second of prompt work. One would be half in theory; measured, writers
are slower between chunks, which push their weights and cells out of the caches."""


class Pacer:
    """Learns from step times how large the next prompt chunk may be.

    While others write, prompt work takes at most half of the time: after a step that carried
    prompt rows come as many steps without any as repay its extra time. Alone, chunks are full,
    unless a running step cannot be aborted (`abortable` False, a GPU): then they stay under 0.2 s.
    """

    def __init__(self, n_batch: int, *, abortable: bool = True) -> None:
        self._n_batch = n_batch
        self._abortable = abortable
        self._writer_s: dict[int, float] = {}
        self._row_s = 0.0
        self._chunk = 2.0 * SMALLEST_CHUNK
        self._debt_s = 0.0

    @property
    def row_s(self) -> float:
        """Seconds one prompt row took of late; 0 before any was seen."""
        return self._row_s

    def writer_step_s(self, n_writers: int) -> float:
        """Seconds a step of that many writers takes, 0.03 before any was seen."""
        if not self._writer_s:
            return 0.03
        nearest = min(self._writer_s, key=lambda known: abs(known - n_writers))
        return self._writer_s[nearest]

    def prompt_rows(self, n_writers: int) -> int:
        """Most prompt rows the next step may carry beside `n_writers` replies."""
        if n_writers == 0:
            if self._abortable or not self._row_s:
                return self._n_batch
            return max(SMALLEST_CHUNK, min(self._n_batch, int(LONGEST_STEP_S / self._row_s)))
        return 0 if self._debt_s > 0 else int(self._chunk)

    def record_writers(self, n_writers: int, duration_s: float) -> None:
        """Learn from a decode that carried one token of each writer."""
        self._writer_s[n_writers] = _blend(self._writer_s.get(n_writers, 0.0), duration_s)
        self._debt_s -= duration_s

    def record_prompt(self, n_writers: int, rows: int, duration_s: float) -> None:
        """Learn from the prompt rows of a step."""
        self._row_s = _blend(self._row_s, duration_s / rows)
        if n_writers == 0:
            self._debt_s = 0.0
            return
        self._debt_s = REPAY * duration_s
        usual = self.writer_step_s(n_writers)
        room = max(LONGEST_STEP_S, 4 * usual) - usual
        # A short tail of a prompt says little about a full chunk; growth is at most twofold.
        wanted = rows * room / max(duration_s, 1e-4)
        if rows >= self._chunk / 2 or wanted < self._chunk:
            self._chunk = max(SMALLEST_CHUNK, min(wanted, 2 * self._chunk, self._n_batch))


def _blend(old: float, new: float) -> float:
    """A running mean that a single slow step moves little."""
    return new if not old else old + 0.2 * (min(new, 3 * old) - old)
