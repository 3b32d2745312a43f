"""What the slots hold: which prefix of a prompt is already in the cache, and where.

Cutting is the only delicate part. The return value of llama.cpp's own removal proves nothing
for a sliding window, so every cut is checked by the positions that remain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Memory(Protocol):
    """The part of a context that holds positions by slot."""

    def drop(self, slot: int, start: int) -> None: ...
    def wipe(self, slot: int) -> None: ...
    def copy(self, source: int, target: int) -> None: ...
    def put_cells(self, slot: int, cells: bytearray) -> bool: ...
    def highest(self, slot: int) -> int: ...
    def lowest(self, slot: int) -> int: ...


@dataclass(eq=False)
class Slot:
    """One llama.cpp sequence id, and the tokens its cells hold."""

    id: int
    tokens: list[int] = field(default_factory=list[int])
    adapter_key: str = ""
    last_used: float = 0.0
    conversation: str = ""
    """The chat whose prompt it was filled for last."""
    is_lasting: bool = False
    """Whether what it holds of that chat may be kept in a file."""
    kept: int = 0
    """How many of its first tokens a file holds."""

    def shared(self, tokens: list[int], adapter_key: str) -> int:
        """How many of `tokens`, from the first on, this slot already holds."""
        return common_prefix(self.tokens, tokens) if adapter_key == self.adapter_key else 0


def common_prefix(a: list[int], b: list[int]) -> int:
    """Length of the shared head; bisects on list slices, so that the comparison runs in C."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class PrefixCache:
    """Cuts, wipes and forks slots so that they hold exactly a wanted prefix.

    `window` is the model's sliding window in tokens, whose older cells may be gone (0: it has none);
    `can_cut` is False for recurrent and hybrid memories.
    """

    def __init__(self, memory: Memory, n_slots: int, *, window: int, can_cut: bool) -> None:
        self.memory = memory
        self.slots = [Slot(index) for index in range(n_slots)]
        self.window = window
        self.can_cut = can_cut

    def cut(self, slot: Slot, keep: int) -> int:
        """Leave the first `keep` tokens in a slot, or nothing where that cannot be had. What it holds."""
        if self.memory.highest(slot.id) == keep - 1:  # Also what a refused decode never wrote.
            self._shorten(slot, keep)
            return keep
        if keep and self.can_cut:
            self.memory.drop(slot.id, keep)
            if self._intact(slot.id, keep):
                self._shorten(slot, keep)
                return keep
        self.memory.wipe(slot.id)
        self._shorten(slot, 0)
        return 0

    def _shorten(self, slot: Slot, keep: int) -> None:
        del slot.tokens[keep:]
        slot.kept = min(slot.kept, keep)

    def _intact(self, slot: int, keep: int) -> bool:
        if self.memory.highest(slot) != keep - 1:
            return False
        return not self.window or self.memory.lowest(slot) <= max(0, keep - self.window)

    def fork(self, source: Slot, target: Slot, keep: int) -> int:
        """Copy the first `keep` tokens of `source` into `target`. What the target then holds."""
        self.memory.wipe(target.id)
        self.memory.copy(source.id, target.id)
        target.tokens[:] = source.tokens
        target.adapter_key = source.adapter_key
        target.kept = 0
        return self.cut(target, keep)

    def restore(self, slot: Slot, tokens: list[int], cells: bytearray) -> None:
        """Fill a slot from a file; it is empty afterwards where the cells do not fit."""
        self.forget(slot)
        if self.memory.put_cells(slot.id, cells) and self.memory.highest(slot.id) == len(tokens) - 1:
            slot.tokens[:] = tokens
            slot.kept = len(tokens)
        else:
            self.forget(slot)

    def forget(self, slot: Slot) -> None:
        """Empty a slot."""
        self.memory.wipe(slot.id)
        self._shorten(slot, 0)
        slot.is_lasting = False
        slot.adapter_key = slot.conversation = ""
