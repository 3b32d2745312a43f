"""Steps that do not finish: aborted, full, failed. Every slot goes back to what it really holds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from backend import native
from backend.engine.scheduler import ContextLostError
from backend.types import EngineError
from tests.backend.engine.driver import Stepper, alone, words


@contextmanager
def aborting(stepper: Stepper, checks: int) -> Iterator[None]:
    """Let llama.cpp abort after it asked that often."""
    left = iter(range(checks))

    @native.C.ggml_abort_callback
    def spent(_data: object) -> bool:
        return next(left, None) is None

    @native.C.ggml_abort_callback
    def never(_data: object) -> bool:
        return False

    native.C.llama_set_abort_callback(stepper.context.handle, spent, None)
    yield
    stepper.callback = never  # It must live as long as the context.
    native.C.llama_set_abort_callback(stepper.context.handle, never, None)


class TestCancel:
    def test_between_steps_the_cells_stay(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, n_batch=32) as stepper:
            request = stepper.add(words(200))
            stepper.step()
            stepper.step()
            stepper.cancel(request)
            assert stepper.seen.of(request).ended.finish == "cancelled"
            assert len(stepper.scheduler.slots[0].tokens) == 64
            again = stepper.run(words(200))
        assert again.ended.reused_tokens == 64
        assert again.ids == alone(tiny_llama, words(200)).ids

    @pytest.mark.parametrize("kind", ["tiny_llama", "tiny_gemma3", "tiny_recurrent", "tiny_hybrid"])
    def test_in_a_prompt_the_slot_goes_back_to_where_the_step_found_it(
        self, kind: str, request: pytest.FixtureRequest
    ) -> None:
        path: Path = request.getfixturevalue(kind)
        with Stepper(path, n_batch=64, n_ubatch=32) as stepper:
            asked = stepper.add(words(200))
            stepper.step()
            stepper.context.abort.raise_()
            stepper.step()
            assert len(stepper.scheduler.slots[0].tokens) in (0, 64)
            stepper.context.abort.clear()
            stepper.cancel(asked)
            assert stepper.run(words(210)).ids == alone(path, words(210)).ids

    @pytest.mark.parametrize("kind", ["tiny_llama", "tiny_gemma3", "tiny_recurrent", "tiny_hybrid"])
    def test_an_abort_anywhere_inside_a_decode(self, kind: str, request: pytest.FixtureRequest) -> None:
        path: Path = request.getfixturevalue(kind)
        expected = alone(path, words(250)).ids
        reached: set[int] = set()
        for checks in range(0, 2000, 60):
            with Stepper(path, n_batch=128, n_ubatch=32) as stepper:
                asked = stepper.add(words(250))
                stepper.step()
                with aborting(stepper, checks):
                    stepper.step()
                held = len(stepper.scheduler.slots[0].tokens)
                stepper.finish()
                assert stepper.seen.of(asked).ids == expected, f"aborted after {checks} checks"
                if held == 250:
                    break
                reached.add(held)
        else:
            raise AssertionError("every decode was aborted")
        assert reached
        assert reached <= {0, 128}

    @pytest.mark.parametrize("kind", ["tiny_llama", "tiny_recurrent"])
    def test_a_prompt_cancelled_before_its_chunk_costs_no_cells(
        self, kind: str, request: pytest.FixtureRequest
    ) -> None:
        path: Path = request.getfixturevalue(kind)
        with Stepper(path, n_batch=64) as stepper:
            asked = stepper.add(words(200))
            stepper.step()
            stepper.step(cancelled={asked.id})
            stepper.cancel(asked)
            again = stepper.run(words(200))
        assert again.ended.reused_tokens == 64
        assert again.ids == alone(path, words(200)).ids

    def test_others_in_the_step_are_left_as_they_were(self, tiny_recurrent: Path) -> None:
        with Stepper(tiny_recurrent, slots=2, n_batch=64) as stepper:
            cancelled = stepper.add(words(300))
            other = stepper.add(words(200, start=1))
            stepper.step()
            held = len(stepper.scheduler.slots[1].tokens)
            assert held
            stepper.context.abort.raise_()
            stepper.step()
            stepper.context.abort.clear()
            assert len(stepper.scheduler.slots[1].tokens) == held
            stepper.cancel(cancelled)
            stepper.finish()
            assert stepper.seen.of(other).ids == alone(tiny_recurrent, words(200, start=1)).ids


class TestTrouble:
    def test_a_negative_code_loses_the_context_but_not_what_was_said_before(self, tiny_llama: Path) -> None:
        codes = iter([0, 0, 0, -3])
        with Stepper(tiny_llama, slots=2, fault=lambda _: next(codes, 0)) as stepper:
            ending = stepper.add(words(10), new=2)
            reading = stepper.add(words(10, start=1), new=9)
            stepper.step()
            with pytest.raises(ContextLostError, match="-3"):
                stepper.step()
                stepper.step()
            stepper.drain()
            assert stepper.seen.of(ending).ended.finish == "length"
            assert not stepper.seen.of(reading).ends

    def test_a_full_shared_cache_forgets_idle_slots_first_then_ends_the_newest(
        self, tiny_llama: Path
    ) -> None:
        full = False
        with Stepper(tiny_llama, slots=4, max_seq=512, unified=True, fault=lambda _: int(full)) as stepper:
            stepper.run(words(30), new=4)
            running = [stepper.add(words(30, start=i), new=60) for i in (1, 2)]
            stepper.until(lambda: all(stepper.seen.of(r).ids for r in running))
            full = True
            stepper.step()
            full = False
            assert not stepper.scheduler.slots[0].tokens
            assert len(stepper.scheduler.running) == 2
            full = True
            stepper.step()
            full = False
            stepper.finish()
            older, newer = (stepper.seen.of(request) for request in running)
        assert len(older.ids) == 60
        assert isinstance(newer.ended.error, EngineError)
        assert "full" in str(newer.ended.error)
        assert newer.ended.error.remedy

    def test_a_reply_that_was_ended_to_make_room_is_not_read_in_the_same_step(self, tiny_llama: Path) -> None:
        full = False
        with Stepper(
            tiny_llama, slots=2, max_seq=512, n_batch=32, unified=True, fault=lambda _: int(full)
        ) as stepper:
            writer = stepper.add(words(10), new=60)
            stepper.until(lambda: bool(stepper.seen.of(writer).ids))
            reader = stepper.add(words(200, start=1), new=20)
            stepper.step()
            full = True
            stepper.step()
            full = False
            stepper.finish()
            assert stepper.seen.of(reader).ended.finish == "error"
            assert stepper.seen.of(writer).ended.finish == "length"

    def test_really_too_many_cells(self, tiny_llama: Path) -> None:
        """Idle slots fill the shared cache; a new reply gets their room."""
        with Stepper(tiny_llama, slots=4, max_seq=256, unified=True) as stepper:
            for index in range(6):
                prompt = words(100, start=index)
                assert stepper.run(prompt, new=20).ids == alone(tiny_llama, prompt, new=20).ids

    def test_in_a_shared_cache_a_reply_waits_until_its_worst_case_fits(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, slots=4, max_seq=256, unified=True) as stepper:
            first = stepper.add(words(100), new=50)
            second = stepper.add(words(100, start=1), new=50)
            stepper.until(lambda: bool(stepper.seen.of(first).ends))
            assert not stepper.seen.of(second).ids
            stepper.finish()
            assert len(stepper.seen.of(second).ids) == 50
