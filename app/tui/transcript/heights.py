"""Heights of a long page: row sums and look-ups in O(log n) by a Fenwick tree.

It knows numbers only; what stands in a row is the page's matter.
"""

from __future__ import annotations

from collections.abc import Iterable


class Heights:
    """A growing list of heights in rows, with prefix sums. Heights are never negative."""

    __slots__ = ("_sums", "_values", "total")

    def __init__(self, values: Iterable[int] = ()) -> None:
        """Build over `values` in O(n)."""
        self._values = list(values)
        self._sums = [0, *self._values]
        self.total = sum(self._values)
        """All rows together."""
        sums = self._sums
        for i in range(1, len(sums)):
            parent = i + (i & -i)
            if parent < len(sums):
                sums[parent] += sums[i]

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> int:
        return self._values[index]

    def __setitem__(self, index: int, value: int) -> None:
        change = value - self._values[index]
        if not change:
            return
        self._values[index] = value
        self.total += change
        sums = self._sums
        i = index + 1
        while i < len(sums):
            sums[i] += change
            i += i & -i

    def append(self, value: int) -> None:
        """Add one height at the end."""
        self._values.append(value)
        self.total += value
        sums = self._sums
        i = len(sums)
        stop = i - (i & -i)
        child, node = i - 1, value
        while child > stop:
            node += sums[child]
            child -= child & -child
        sums.append(node)

    def pop(self) -> None:
        """Take off the last height."""
        self.total -= self._values.pop()
        self._sums.pop()

    def before(self, index: int) -> int:
        """Rows above item `index`; `len(self)` gives the total."""
        rows = 0
        while index:
            rows += self._sums[index]
            index -= index & -index
        return rows

    def find(self, row: int) -> tuple[int, int]:
        """The item that holds `row` and the row inside it; past the end, `(len(self), rows past)`."""
        index, size = 0, len(self._sums)
        step = 1 << (size - 1).bit_length()
        while step:
            reach = index + step
            if reach < size and self._sums[reach] <= row:
                index = reach
                row -= self._sums[reach]
            step >>= 1
        return index, row
