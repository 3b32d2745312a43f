from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.tui.transcript.heights import Heights

VALUES = st.lists(st.integers(0, 9), max_size=60)


@given(
    VALUES,
    VALUES,
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 9)), max_size=20),
)
def test_sums_and_look_ups_are_those_of_a_plain_list(
    first: list[int], appended: list[int], popped: int, changes: list[tuple[int, int]]
) -> None:
    heights, plain = Heights(first), list(first)
    for _ in range(min(popped, len(plain))):
        heights.pop()
        plain.pop()
    for value in appended:
        heights.append(value)
        plain.append(value)
    for place, value in changes:
        if plain:
            heights[place % len(plain)] = value
            plain[place % len(plain)] = value
    assert len(heights) == len(plain)
    assert heights.total == sum(plain)
    assert [heights[index] for index in range(len(plain))] == plain
    assert [heights.before(index) for index in range(len(plain) + 1)] == [
        sum(plain[:index]) for index in range(len(plain) + 1)
    ]
    rows = [(index, row) for index, value in enumerate(plain) for row in range(value)]
    assert [heights.find(row) for row in range(sum(plain))] == rows
    assert heights.find(sum(plain) + 3) == (len(plain), 3)
