"""How large a prompt chunk may be beside people who are being answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.pacing import LONGEST_STEP_S, REPAY, SMALLEST_CHUNK, Pacer


class Machine:
    """A simulated model: a step's time from its rows."""

    def __init__(self, *, writer_s: float, row_s: float, n_batch: int = 512) -> None:
        self.pacer = Pacer(n_batch)
        self.writer_s = writer_s
        self.row_s = row_s
        self.writing_s = self.reading_s = 0.0
        self.chunks: list[int] = []

    def step(self, n_writers: int) -> None:
        """As the scheduler does it: the writers, then what the pacer allows of a prompt."""
        self.pacer.record_writers(n_writers, self.writer_s)
        self.writing_s += self.writer_s
        rows = self.pacer.prompt_rows(n_writers)
        if rows:
            self.pacer.record_prompt(n_writers, rows, rows * self.row_s)
            self.reading_s += rows * self.row_s
            self.chunks.append(rows)


TIMES = st.floats(0.0005, 0.05)


class TestBesideWriters:
    @given(st.floats(0.005, 0.1), TIMES, st.integers(1, 8))
    def test_prompt_work_takes_at_most_half_of_the_time(self, writer_s: float, row_s: float, n: int) -> None:
        machine = Machine(writer_s=writer_s, row_s=row_s)
        for _ in range(300):
            machine.step(n)
        last = machine.chunks[-1] * row_s
        assert machine.chunks
        assert machine.reading_s <= machine.writing_s + last

    @given(st.floats(0.005, 0.1), TIMES)
    def test_chunks_stay_within_their_bounds_and_grow_at_most_twofold(
        self, writer_s: float, row_s: float
    ) -> None:
        machine = Machine(writer_s=writer_s, row_s=row_s)
        for _ in range(300):
            machine.step(4)
        assert machine.chunks[0] <= 2 * SMALLEST_CHUNK
        assert all(SMALLEST_CHUNK <= rows <= 512 for rows in machine.chunks)
        assert all(
            after <= 2 * before + 1 for before, after in zip(machine.chunks, machine.chunks[1:], strict=False)
        )

    @given(st.floats(0.005, 0.1), st.floats(0.0001, 0.003))
    def test_a_step_settles_under_a_fifth_of_a_second_or_four_writer_steps(
        self, writer_s: float, row_s: float
    ) -> None:
        machine = Machine(writer_s=writer_s, row_s=row_s)
        for _ in range(400):
            machine.step(4)
        room = max(LONGEST_STEP_S, 4 * writer_s)
        step_s = writer_s + machine.chunks[-1] * row_s
        assert step_s <= room * 1.05 or machine.chunks[-1] == SMALLEST_CHUNK

    def test_no_prompt_row_before_the_last_ones_are_repaid(self) -> None:
        pacer = Pacer(512)
        pacer.record_writers(4, 0.03)
        pacer.record_prompt(4, 16, 0.1)
        steps = 0
        while not pacer.prompt_rows(4):
            pacer.record_writers(4, 0.03)
            steps += 1
        assert steps * 0.03 == pytest.approx(REPAY * 0.1, abs=0.03)
        assert steps * 0.03 >= 0.1

    def test_a_short_tail_does_not_shrink_or_grow_the_chunk(self) -> None:
        machine = Machine(writer_s=0.03, row_s=0.001)
        for _ in range(100):
            machine.step(4)
        usual = machine.chunks[-1]
        machine.pacer.record_prompt(4, 2, 0.002)
        for _ in range(10):
            machine.pacer.record_writers(4, 0.03)
        assert machine.pacer.prompt_rows(4) == usual

    def test_one_slow_step_moves_little(self) -> None:
        pacer = Pacer(512)
        for _ in range(20):
            pacer.record_writers(2, 0.02)
        pacer.record_writers(2, 5.0)
        assert pacer.writer_step_s(2) < 0.03


class TestAlone:
    def test_chunks_are_full(self) -> None:
        pacer = Pacer(512)
        pacer.record_prompt(0, 512, 2.0)
        assert pacer.prompt_rows(0) == 512

    def test_whoever_waits_alone_owes_nothing(self) -> None:
        pacer = Pacer(512)
        pacer.record_writers(1, 0.03)
        pacer.record_prompt(1, 16, 5.0)
        assert pacer.prompt_rows(1) == 0
        pacer.record_prompt(0, 512, 2.0)
        assert pacer.prompt_rows(1) > 0

    @given(TIMES)
    def test_what_cannot_be_aborted_stays_under_a_fifth_of_a_second(self, row_s: float) -> None:
        pacer = Pacer(512, abortable=False)
        pacer.record_prompt(0, 512, 512 * row_s)
        rows = pacer.prompt_rows(0)
        assert SMALLEST_CHUNK <= rows <= 512
        assert rows * row_s < 0.2 or rows == SMALLEST_CHUNK
