"""The engine on its thread: queueing, cancelling, failing, widening, closing."""

import threading
from pathlib import Path
from typing import Any

import pytest

from backend.engine import constrained, sampling
from backend.engine import engine as engine_module
from backend.engine.params import EngineParams
from backend.engine.request import EngineRequest
from backend.native import Context
from backend.types import ContextOverflowError, EngineError, GenerationConfig, QueueFullError
from tests.backend.engine.driver import FaultyContext, Live, alone, words

ENDLESS = 400


class Gate:
    """Holds every decode until it is opened, so that a test decides what happens meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self.reached = threading.Event()
        self.codes: list[int] = []
        monkeypatch.setattr(engine_module, "Context", self._context)

    def _context(self, *args: Any) -> Any:
        return FaultyContext(Context(*args), self._fault)

    def _fault(self, _batch: object) -> int:
        self.reached.set()
        assert self._open.wait(30)
        return self.codes.pop(0) if self.codes else 0

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._open.clear()
        self.reached.clear()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


class TestQueue:
    def test_a_full_queue_refuses_and_drops_nothing(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama, max_queued=3) as live:
            first = live.submit(words(5))
            assert gate.reached.wait(10)
            waiting = [live.submit(words(6)), live.submit(words(7), n=2)]
            with pytest.raises(QueueFullError, match="3 requests are waiting"):
                live.submit(words(8))
            gate.open()
            replies = live.wait(first, *waiting)
            assert [reply.ended.finish for reply in replies] == ["length"] * 4
            assert live.run(words(8)).ended.finish == "length"

    def test_counters_tell_what_runs(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama) as live:
            assert live.engine.counters().slots == 0
            requests = [live.submit(words(20, start=i)) for i in range(3)]
            assert gate.reached.wait(10)
            assert live.engine.counters().running == 1
            assert live.engine.counters().waiting == 2
            gate.open()
            live.wait(*requests)
            counters = live.engine.counters()
        assert (counters.running, counters.waiting, counters.built) == (0, 0, 1)
        assert counters.decoded_rows >= 60

    def test_a_prompt_that_is_too_long_fails_alone(self, tiny_llama: Path) -> None:
        with Live(tiny_llama) as live:
            error = live.run(words(512)).ended.error
            assert isinstance(error, ContextOverflowError)
            assert (error.needed, error.max_seq) == (512, 512)
            assert live.run(words(511)).ended.finish == "length"


class TestCancel:
    def test_while_it_waits(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama) as live:
            first, second = live.submit(words(5)), live.submit(words(6))
            assert gate.reached.wait(10)
            live.engine.cancel(second.id)
            gate.open()
            assert [r.ended.finish for r in live.wait(first, second)] == ["length", "cancelled"]

    def test_while_it_writes(self, tiny_llama: Path) -> None:
        with Live(tiny_llama) as live:
            request = live.submit(words(5), new=ENDLESS)
            live.until(lambda: len(live.seen.of(request).ids) > 3)
            live.engine.cancel(request.id)
            reply = live.wait(request)[0]
            assert reply.ended.finish == "cancelled"
            assert reply.ended.new_tokens == len(reply.ids) < ENDLESS
            assert live.run(words(9)).ids == alone(tiny_llama, words(9)).ids

    def test_inside_its_prompt(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama, max_seq=2048, n_batch=2048, n_ubatch=32) as live:
            request = live.submit(words(2000, start=1))
            assert gate.reached.wait(10)
            live.engine.cancel(request.id)
            gate.open()
            assert live.wait(request)[0].ended.finish == "cancelled"
            assert live.engine.counters().cached_tokens < 2000
            reply = live.run(words(100, start=1))
            assert reply.ids == alone(tiny_llama, words(100, start=1)).ids

    def test_right_after_submitting(self, tiny_llama: Path) -> None:
        """At whatever point of a step the two arrive, neither is lost."""
        with Live(tiny_llama, slots=2) as live:
            busy = live.submit(words(5), new=ENDLESS)
            for index in range(200):
                request = live.submit(words(30, start=index), new=ENDLESS)
                live.engine.cancel(request.id)
                assert live.wait(request)[0].ended.finish == "cancelled"
            live.engine.cancel(busy.id)
            live.wait(busy)

    def test_between_the_inbox_and_the_cancellations(
        self, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Live(tiny_llama) as live:
            live.run(words(3), new=1)
            scheduler = live.engine._scheduler
            assert scheduler is not None
            late: list[EngineRequest] = []
            add = scheduler.add

            def add_while_others_come_and_go(request: EngineRequest) -> None:
                add(request)
                if not late:
                    late.append(live.submit(words(8), new=ENDLESS))
                    live.engine.cancel(late[0].id)

            monkeypatch.setattr(scheduler, "add", add_while_others_come_and_go)
            first = live.submit(words(5))
            live.wait(first)
            assert live.wait(*late)[0].ended.finish == "cancelled"

    def test_an_unknown_id_is_ignored(self, tiny_llama: Path) -> None:
        with Live(tiny_llama) as live:
            live.engine.cancel("nobody")
            assert live.run(words(5)).ended.finish == "length"


class TestWarmUp:
    def test_it_ends_when_something_real_arrives_and_its_cells_are_reused(
        self, tiny_llama: Path, gate: Gate
    ) -> None:
        gate.open()
        with Live(tiny_llama, max_seq=2048, n_batch=64) as live:
            warm = live.submit(words(1500), new=0)
            live.until(lambda: live.seen.progress.get(warm.id))
            real = live.submit(words(1600))
            _, reply = live.wait(warm, real)
            assert reply.ended.reused_tokens >= 64
            assert reply.ids == alone(tiny_llama, words(1600), max_seq=2048).ids

    def test_it_is_ended_while_it_reads(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama, n_batch=64) as live:
            warm = live.submit(words(500), new=0)
            assert gate.reached.wait(10)
            real = live.submit(words(20))
            gate.open()
            warmed, reply = live.wait(warm, real)
            assert warmed.ended.finish == "cancelled"
            assert reply.ended.finish == "length"

    def test_another_warm_up_does_not_end_it(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama, slots=2) as live:
            first = live.submit(words(100), new=0)
            assert gate.reached.wait(10)
            second = live.submit(words(100, start=1), new=0)
            gate.open()
            assert [r.ended.finish for r in live.wait(first, second)] == ["stop", "stop"]


class TestFailure:
    def test_a_negative_code_tells_everybody_and_builds_a_new_context(
        self, tiny_llama: Path, gate: Gate
    ) -> None:
        with Live(tiny_llama) as live:
            requests = [live.submit(words(5)), live.submit(words(6))]
            assert gate.reached.wait(10)
            gate.codes = [-3]
            gate.open()
            for reply in live.wait(*requests):
                assert isinstance(reply.ended.error, EngineError)
                assert "-3" in str(reply.ended.error)
            reply = live.run(words(7))
            assert reply.ids == alone(tiny_llama, words(7)).ids
            assert live.engine.counters().built == 2

    def test_an_unknown_exception_in_a_step(self, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Live(tiny_llama) as live:
            live.run(words(5))
            with monkeypatch.context() as patch:
                patch.setattr(sampling.Sampler, "draw", lambda *_: 1 // 0)
                error = live.run(words(6)).ended.error
            assert isinstance(error, EngineError)
            assert isinstance(error.__cause__, ZeroDivisionError)
            assert live.run(words(6)).ids == alone(tiny_llama, words(6)).ids

    def test_a_sampler_that_cannot_be_made(self, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Live(tiny_llama) as live:
            with monkeypatch.context() as patch:
                patch.setattr(constrained, "make_sampler", lambda *_: 1 // 0)
                error = live.run(words(6)).ended.error
            assert isinstance(error, EngineError)
            assert live.run(words(6)).ended.finish == "length"

    def test_what_was_said_before_a_failure_is_told(self, tiny_llama: Path, gate: Gate) -> None:
        """One reply ends in the very step whose prompt fails."""
        with Live(tiny_llama, slots=2) as live:
            gate.open()
            short = live.submit(words(5), new=ENDLESS)
            live.until(lambda: live.seen.of(short).ids)
            gate.close()
            assert gate.reached.wait(10)
            long = live.submit(words(90, start=1))
            live.engine.cancel(short.id)
            gate.codes = [0, -3]
            gate.open()
            ended = [reply.ended for reply in live.wait(short, long)]
            assert ended[0].finish in ("cancelled", "error")
            assert live.run(words(7)).ended.finish == "length"

    def test_no_memory_for_a_context(self, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> Context:
            raise MemoryError

        with Live(tiny_llama) as live:
            with monkeypatch.context() as patch:
                patch.setattr(engine_module, "Context", refuse)
                error = live.run(words(5)).ended.error
            assert isinstance(error, EngineError)
            assert "512" in str(error)
            assert "--ctx" in error.remedy
            assert live.run(words(5)).ended.finish == "length"

    def test_a_plan_that_fails(self, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Live(tiny_llama) as live:
            with monkeypatch.context() as patch:
                patch.setattr(live.engine, "_plan", lambda _: 1 // 0)
                assert isinstance(live.run(words(5)).ended.error, EngineError)
            assert live.run(words(5)).ended.finish == "length"


class TestWiden:
    def test_whoever_waits_moves_along(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama) as live:
            requests = [live.submit(words(9, start=index)) for index in range(5)]
            assert gate.reached.wait(10)
            live.engine.widen(4)
            gate.open()
            replies = live.wait(*requests)
            assert [r.ids for r in replies] == [alone(tiny_llama, request.tokens).ids for request in requests]
            counters = live.engine.counters()
        assert (counters.slots, counters.built) == (4, 2)

    def test_waiting_requests_do_not_put_it_off(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama, slots=2) as live:
            lengths = (4, 9, 14, 19, 24, 29)
            requests = [live.submit(words(9, start=new), new=new) for new in lengths]
            assert gate.reached.wait(10)
            live.engine.widen(6)
            gate.open()
            live.until(lambda: all(live.seen.of(request).ends for request in requests[:2]))
            live.until(lambda: live.seen.of(requests[2]).ids)
            assert live.engine.counters().slots == 6
            live.wait(*requests)

    def test_replies_of_one_request_are_not_begun_again(self, tiny_llama: Path, gate: Gate) -> None:
        with Live(tiny_llama) as live:
            request = live.submit(words(9), n=3)
            assert gate.reached.wait(10)
            live.engine.widen(4)
            gate.open()
            for reply in live.wait(request):
                assert reply.ended.new_tokens == len(reply.ids) == 12

    def test_a_preempted_reply_goes_on_where_it_was(self, tiny_llama: Path) -> None:
        with Live(tiny_llama, max_seq=1024) as live:
            background = live.submit(words(9), new=300, priority="background")
            live.until(lambda: live.seen.of(background).ids)
            user = live.submit(words(9, start=1), new=30)
            live.engine.widen(2)
            live.wait(background, user)
            assert live.seen.of(background).ids == alone(tiny_llama, words(9), new=300).ids

    def test_a_plan_without_more_slots_keeps_the_cache(self, tiny_llama: Path) -> None:
        with Live(tiny_llama, most_slots=1) as live:
            live.run(words(100))
            live.engine.widen(4)
            assert live.run(words(100)).ended.reused_tokens == 98
            assert live.engine.counters().built == 1

    def test_when_there_is_no_memory_for_it_the_narrow_one_comes_back(
        self, tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse_wide(model: Any, params: Any) -> Context:
            if params.n_seq_max > 1:
                raise MemoryError
            return Context(model, params)

        with Live(tiny_llama) as live:
            live.run(words(5))
            monkeypatch.setattr(engine_module, "Context", refuse_wide)
            live.engine.widen(4)
            live.run(words(6))
            assert live.run(words(7)).ids == alone(tiny_llama, words(7)).ids

    def test_before_the_first_request_it_costs_nothing(self, tiny_llama: Path) -> None:
        with Live(tiny_llama) as live:
            live.engine.widen(3)
            live.run(words(5))
            assert (live.engine.counters().slots, live.engine.counters().built) == (3, 1)
            assert live.engine.params == EngineParams(slots=3, max_seq=512, n_threads=1)


class TestForget:
    def test_idle_slots_are_emptied(self, tiny_llama: Path) -> None:
        with Live(tiny_llama) as live:
            live.run(words(100))
            live.engine.forget()
            assert live.run(words(100)).ended.reused_tokens == 0

    def test_before_the_first_request_there_is_nothing_to_empty(self, tiny_llama: Path) -> None:
        with Live(tiny_llama) as live:
            live.engine.forget()
            live.engine.forget("a")
            assert live.run(words(100)).ended.reused_tokens == 0
            assert live.run(words(100)).ended.reused_tokens > 0


class TestClose:
    def test_everything_ends_as_cancelled(self, tiny_llama: Path, gate: Gate) -> None:
        live = Live(tiny_llama)
        requests = [live.submit(words(5), new=ENDLESS), live.submit(words(6)), live.submit(words(7), n=2)]
        assert gate.reached.wait(10)
        gate.open()
        live.close()
        replies = [reply for request in requests for reply in live.seen.all_of(request)]
        assert [reply.ended.finish for reply in replies] == ["cancelled"] * 4

    def test_twice_is_harmless_and_nothing_is_taken_after_it(self, tiny_llama: Path) -> None:
        live = Live(tiny_llama)
        live.run(words(5))
        live.close()
        live.close()
        assert not live.engine.built
        with pytest.raises(EngineError, match="closed"):
            live.submit(words(5))

    def test_an_engine_that_was_never_used(self, tiny_llama: Path) -> None:
        live = Live(tiny_llama)
        live.close()
        assert not live.engine.built

    def test_in_the_middle_of_a_prompt(self, tiny_llama: Path, gate: Gate) -> None:
        live = Live(tiny_llama, max_seq=2048, n_batch=2048, n_ubatch=32)
        request = live.submit(words(2000))
        assert gate.reached.wait(10)
        closing = threading.Thread(target=live.close)
        closing.start()
        while not live.engine._closing:
            closing.join(0.001)
        gate.open()
        closing.join()
        assert not live.seen.of(request).ids
        assert live.seen.of(request).ended.finish == "cancelled"

    def test_from_the_engines_own_thread(self, tiny_llama: Path) -> None:
        live = Live(tiny_llama)
        live.engine._deliver = lambda outputs: (live.outputs.put(outputs), live.engine.close())
        request = live.submit(
            words(5), new=ENDLESS, config=GenerationConfig(temperature=0.0, ignore_eos=True)
        )
        assert live.wait(request)[0].ended.finish == "cancelled"
