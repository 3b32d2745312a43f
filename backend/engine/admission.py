"""Which slot a waiting reply gets: where most of its prompt already is, and beside the others."""

from __future__ import annotations

from backend.engine.pacing import Pacer
from backend.engine.prefix_cache import PrefixCache, Slot

_GAP_STEPS = 128
"""Steps a reply is expected to take, for weighing a gap between slots against a prefix."""


class Admission:
    """Weighs a reused prefix against the cost of a gap, and a fork against a prefill.

    `copy_s` is about how long a copy of a whole slot takes; `can_fork` says whether slots are
    partitions of their own that can be copied.
    """

    def __init__(self, cache: PrefixCache, pacer: Pacer, *, copy_s: float, can_fork: bool = True) -> None:
        self._cache = cache
        self._pacer = pacer
        self._copy_s = copy_s
        self._can_fork = can_fork and cache.can_cut

    def place(
        self, tokens: list[int], adapter_key: str, idle: list[Slot], busy: list[Slot]
    ) -> tuple[Slot, int]:
        """Choose among `idle` (not empty), make it hold the longest prefix to be had; how long that is."""
        busy_ids = {slot.id for slot in busy}
        shared = {slot: slot.shared(tokens, adapter_key) for slot in [*idle, *busy]}
        best = max(idle, key=lambda slot: (self._worth(slot, shared[slot], busy_ids), -slot.last_used))
        source = max(shared, key=lambda slot: shared[slot])
        target = self._fork_target(best, source, shared, idle, busy_ids)
        if target is not None:
            return target, self._cache.fork(source, target, shared[source])
        kept = self._cache.cut(best, shared[best])
        best.adapter_key = adapter_key
        return best, kept

    def _worth(self, slot: Slot, shared: int, busy_ids: set[int]) -> float:
        row_s = self._pacer.row_s or 0.003
        if not busy_ids or slot.id - 1 in busy_ids or slot.id + 1 in busy_ids:
            return shared * row_s
        # llama.cpp splits a step at a gap: about half a step more for every token of the reply.
        return shared * row_s - 0.5 * self._pacer.writer_step_s(len(busy_ids) + 1) * _GAP_STEPS

    def _fork_target(
        self, best: Slot, source: Slot, shared: dict[Slot, int], idle: list[Slot], busy_ids: set[int]
    ) -> Slot | None:
        """An idle slot to copy `source` into, where that beats using `best` as it is."""
        copy_rows = self._copy_s / (self._pacer.row_s or 0.003)
        if not self._can_fork or shared[source] <= copy_rows:
            return None
        if shared[source] > shared[best] + copy_rows and source is not best:
            return best
        # The best slot holds another chat that only begins alike: leave it whole while one is empty.
        if len(best.tokens) - shared[best] > shared[best]:
            empty = [slot for slot in idle if not slot.tokens]
            return max(empty, key=lambda slot: self._worth(slot, 0, busy_ids), default=None)
        return None
