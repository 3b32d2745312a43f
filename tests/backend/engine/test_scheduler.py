"""The scheduler on tiny real models: whoever else is there, a reply is the one it would be alone."""

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.types import ContextOverflowError, GenerationConfig
from tests.backend.engine.driver import Stepper, alone, words


class TestBatching:
    def test_together_equals_alone(self, tiny_llama: Path) -> None:
        prompts = [words(3 + 29 * index % 90, start=index) for index in range(8)]
        with Stepper(tiny_llama, slots=4) as stepper:
            requests = [stepper.add(prompt, new=20) for prompt in prompts]
            stepper.finish()
            together = [stepper.seen.of(request) for request in requests]
        for prompt, reply in zip(prompts, together, strict=True):
            assert reply.ids == alone(tiny_llama, prompt, new=20).ids
            assert reply.ended.finish == "length"

    def test_rows_of_writers_are_in_slot_order(self, tiny_llama: Path) -> None:
        orders: list[list[int]] = []

        def note(batch) -> int:
            if all(batch.output[: batch.rows]):
                orders.append(batch.seq_id[: batch.rows])
            return 0

        with Stepper(tiny_llama, slots=4, fault=note) as stepper:
            first = [stepper.add(words(20, start=i), new=3 + 9 * (i % 2)) for i in range(4)]
            stepper.until(lambda: sum(bool(stepper.seen.of(r).ends) for r in first) == 2)
            for index in range(3):
                stepper.add(words(25, start=9 + index))
            stepper.finish()
        assert any(len(order) == 4 for order in orders)
        assert all(order == sorted(order) for order in orders)

    def test_only_the_last_row_of_a_prompt_is_asked_for_logits(self, tiny_llama: Path) -> None:
        outputs: list[int] = []

        def note(batch) -> int:
            outputs.append(sum(batch.output[: batch.rows]))
            return 0

        with Stepper(tiny_llama, fault=note, n_batch=32) as stepper:
            stepper.run(words(100), new=1)
        assert outputs == [0, 0, 0, 1]

    @pytest.mark.parametrize("length", [2, 31, 32, 33, 34, 63, 64, 65, 96, 97, 128, 129])
    def test_no_prompt_row_is_evaluated_alone(self, tiny_llama: Path, length: int) -> None:
        runs: list[int] = []

        def note(batch) -> int:
            runs.append(batch.rows)
            return 0

        with Stepper(tiny_llama, slots=2, n_batch=64, n_ubatch=32, fault=note) as stepper:
            stepper.run(words(length), new=1)
        assert sum(runs) == length
        assert all(rows > 1 and rows % 32 != 1 for rows in runs), runs


def scripts() -> st.SearchStrategy[list[tuple]]:
    """What happens to a scheduler: requests that begin alike, cancellations, aborted steps, steps."""
    arrival = st.tuples(
        st.just("add"),
        st.integers(0, 3),  # which beginning it shares,
        st.integers(0, 40),  # and how much of it
        st.integers(1, 60),
        st.integers(0, 8),
        st.sampled_from(["user", "user", "background"]),
        st.integers(1, 2),
    )
    cancel = st.tuples(st.just("cancel"), st.integers(0, 9))
    return st.lists(st.one_of(arrival, cancel, st.just(("abort",)), st.just(("step",))), max_size=14)


_replies: dict[tuple[Path, tuple[int, ...]], list[int]] = {}


def reply_alone(path: Path, tokens: list[int]) -> list[int]:
    key = (path, tuple(tokens))
    if key not in _replies:
        _replies[key] = alone(path, tokens, new=8, max_seq=256).ids
    return _replies[key]


class TestAnyOrder:
    @pytest.mark.parametrize(
        ("kind", "fields"),
        [
            ("tiny_llama", {}),
            ("tiny_llama", {"unified": True}),
            ("tiny_llama", {"slot_bytes": 1 << 40}),
            ("tiny_gemma3", {"n_ubatch": 16}),
            ("tiny_gemma3", {"swa_full": True}),
            ("tiny_recurrent", {}),
            ("tiny_hybrid", {"n_ubatch": 16}),
        ],
        ids=str,
    )
    @given(script=scripts())
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_arrivals_cancels_and_priorities(
        self, kind: str, fields: dict, script: list[tuple], request: pytest.FixtureRequest
    ) -> None:
        """`Stepper.step` checks slots and cells; here, that each reply ends once and is the right one."""
        path: Path = request.getfixturevalue(kind)
        with Stepper(path, slots=3, max_seq=256, n_batch=32, **fields) as stepper:
            requests, cancelled = [], set()
            for index, action in enumerate(script):
                match action:
                    case ("add", base, shared, rest, new, priority, n):
                        tokens = words(40, start=base)[:shared] + words(rest, start=50 + index)
                        requests.append(stepper.add(tokens, new=new, priority=priority, n=n if new else 1))
                    case ("cancel", which) if which < len(requests):
                        stepper.cancel(requests[which])
                        cancelled.add(requests[which].id)
                        stepper.check()
                    case ("abort",):
                        stepper.context.abort.raise_()
                        stepper.step()
                        stepper.context.abort.clear()
                    case _:
                        stepper.step()
            stepper.finish()
            for asked in requests:
                for reply in stepper.seen.all_of(asked):
                    assert reply.ids == reply_alone(path, asked.tokens)[: len(reply.ids)]
                    if reply.ended.finish == "cancelled":
                        assert asked.id in cancelled
                    else:
                        assert len(reply.ids) == asked.max_new_tokens


class TestPriorities:
    def test_background_waits_for_users(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            background = stepper.add(words(30), priority="background")
            users = [stepper.add(words(30, start=i)) for i in (1, 2)]
            stepper.until(lambda: bool(stepper.seen.of(background).ids))
            assert all(stepper.seen.of(user).ends for user in users)
            stepper.finish()

    def test_its_prompt_is_not_read_while_a_user_s_is(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, slots=2, n_batch=32) as stepper:
            background = stepper.add(words(200), priority="background")
            stepper.step()
            user = stepper.add(words(200, start=1))
            before = stepper.seen.progress[background.id][-1].done
            stepper.until(lambda: bool(stepper.seen.of(user).ids))
            assert stepper.seen.progress[background.id][-1].done == before
            stepper.finish()
            assert stepper.seen.of(background).ids == alone(tiny_llama, words(200)).ids

    def test_a_preempted_reply_loses_nothing(self, tiny_llama: Path) -> None:
        config = GenerationConfig(temperature=1.5, repeat_penalty=1.3)
        with Stepper(tiny_llama) as stepper:
            background = stepper.add(words(50), new=30, config=config, priority="background")
            stepper.until(lambda: len(stepper.seen.of(background).ids) == 10)
            user = stepper.add(words(60, start=3))
            stepper.until(lambda: bool(stepper.seen.of(user).ids))
            assert len(stepper.seen.of(background).ids) == 10
            stepper.finish()
            reply = stepper.seen.of(background)
        assert reply.ids == alone(tiny_llama, words(50), new=30, config=config).ids
        assert reply.ended.new_tokens == 30

    def test_only_as_many_are_preempted_as_needed_and_the_newest_first(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, slots=2) as stepper:
            older = stepper.add(words(20), new=40, priority="background")
            newer = stepper.add(words(20, start=1), new=40, priority="background")
            stepper.until(lambda: bool(stepper.seen.of(newer).ids))
            user = stepper.add(words(20, start=2))
            stepper.step()
            running = {sequence.request.id for sequence in stepper.scheduler.running}
            assert running == {older.id, user.id}
            stepper.finish()
            assert len(stepper.seen.of(newer).ids) == len(stepper.seen.of(older).ids) == 40

    def test_in_a_shared_cache_a_user_takes_the_room_promised_to_the_background(
        self, tiny_llama: Path
    ) -> None:
        with Stepper(tiny_llama, slots=4, max_seq=256, unified=True) as stepper:
            background = stepper.add(words(100), new=100, priority="background")
            stepper.until(lambda: bool(stepper.seen.of(background).ids))
            user = stepper.add(words(100, start=2), new=50)
            stepper.step()
            assert [s.request.id for s in stepper.scheduler.running] == [user.id]
            stepper.finish()
            assert len(stepper.seen.of(background).ids) == 100


class TestFairness:
    def test_a_short_prompt_does_not_wait_for_a_long_one_and_the_long_one_moves(
        self, tiny_llama: Path
    ) -> None:
        with Stepper(tiny_llama, slots=3, max_seq=2048, n_batch=64) as stepper:
            long = stepper.add(words(1500))
            stepper.step()
            short = stepper.add(words(20, start=1))
            stepper.step()
            assert stepper.seen.of(short).ids
            before = stepper.seen.progress[long.id][-1].done
            while not stepper.seen.of(long).ids:
                stepper.add(words(10, start=before), new=2)
                for _ in range(400):
                    stepper.step()
                    if stepper.seen.progress[long.id][-1].done > before or stepper.seen.of(long).ids:
                        break
                else:
                    raise AssertionError("the long prompt stands still")
                before = stepper.seen.progress[long.id][-1].done

    def test_words_are_handed_over_before_a_prompt_is_read(self, tiny_llama: Path) -> None:
        order: list[str] = []

        def note(batch) -> int:
            order.append(f"{batch.rows} rows")
            return 0

        with Stepper(tiny_llama, slots=2, fault=note) as stepper:
            writer = stepper.add(words(20), new=60)
            stepper.until(lambda: bool(stepper.seen.of(writer).ids))
            stepper.add(words(9, start=1))
            order.clear()
            stepper.scheduler.step(flush=lambda: order.append("handed over"))
        assert order == ["1 rows", "handed over", "9 rows"]

    def test_progress_is_told_and_grows(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, n_batch=64) as stepper:
            request = stepper.add(words(300))
            stepper.finish()
            told = stepper.seen.progress[request.id]
        assert [p.done for p in told] == [0, 64, 128, 192, 256]
        assert {(p.total, p.reused) for p in told} == {(300, 0)}


class TestReplies:
    def test_n_replies_share_one_prefill_and_differ_by_seed(self, tiny_llama: Path) -> None:
        config = GenerationConfig(temperature=1.5)
        with Stepper(tiny_llama, slots=4) as stepper:
            request = stepper.add(words(200), new=16, seed=5, n=3, config=config)
            stepper.finish()
            replies = stepper.seen.all_of(request)
            rows = stepper.scheduler.decoded_rows
        assert rows < 200 + 3 * 20
        assert [reply.ended.seed for reply in replies] == [5, 6, 7]
        assert len({tuple(reply.ids) for reply in replies}) == 3
        for seed, reply in enumerate(replies, 5):
            assert reply.ids == alone(tiny_llama, words(200), new=16, seed=seed, config=config).ids

    def test_n_replies_of_one_slot_come_one_after_another(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            request = stepper.add(words(100), n=3)
            stepper.finish()
            assert {tuple(reply.ids) for reply in stepper.seen.all_of(request)} == {
                tuple(alone(tiny_llama, words(100)).ids)
            }
            assert stepper.scheduler.decoded_rows < 100 + 3 * 16

    def test_replies_of_a_leader_that_was_cancelled_end_too(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, n_batch=32) as stepper:
            request = stepper.add(words(200), n=3)
            stepper.step()
            stepper.cancel(request)
            stepper.finish()
            assert [r.ended.finish for r in stepper.seen.all_of(request)] == ["cancelled"] * 3

    def test_the_last_seed_wraps_to_one_that_can_be_given(self, tiny_llama: Path) -> None:
        config = GenerationConfig(temperature=1.5)
        highest = 2**32 - 2
        with Stepper(tiny_llama, slots=2) as stepper:
            request = stepper.add(words(20), n=2, seed=highest, config=config)
            stepper.finish()
            first, second = stepper.seen.all_of(request)
        assert (first.ended.seed, second.ended.seed) == (highest, 0)
        assert second.ids == alone(tiny_llama, words(20), seed=0, config=config).ids


class TestWindow:
    @pytest.mark.parametrize(("length", "written"), [(510, 2), (511, 1)])
    def test_the_reply_is_clamped_to_the_window(self, tiny_llama: Path, length: int, written: int) -> None:
        reply = alone(tiny_llama, words(length), new=1000)
        assert (len(reply.ids), reply.ended.finish) == (written, "length")

    def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper, pytest.raises(ContextOverflowError) as caught:
            stepper.add(words(512))
        assert (caught.value.needed, caught.value.max_seq) == (512, 512)

    def test_a_warm_up_may_fill_the_window(self, tiny_llama: Path) -> None:
        assert alone(tiny_llama, words(512), new=0).ended.finish == "stop"

    def test_an_asked_length_ends_the_reply(self, tiny_llama: Path) -> None:
        reply = alone(tiny_llama, words(5), new=7)
        assert (len(reply.ids), reply.ended.new_tokens, reply.ended.finish) == (7, 7, "length")


class TestWarmUp:
    def test_its_cells_are_reused(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            warm = stepper.run(words(100), new=0)
            assert (warm.ids, warm.ended.finish, warm.ended.new_tokens) == ([], "stop", 0)
            reply = stepper.run(words(120))
        assert reply.ended.reused_tokens == 100
        assert reply.ids == alone(tiny_llama, words(120)).ids

    def test_one_that_is_in_the_cache_already_ends_at_once(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            stepper.run(words(100), new=0)
            rows = stepper.scheduler.decoded_rows
            assert stepper.run(words(100), new=0).ended.reused_tokens == 100
            assert stepper.scheduler.decoded_rows == rows


class TestAdapters:
    def test_a_prefix_under_another_adapter_is_not_reused(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            stepper.run(words(100), adapter_key="a")
            assert stepper.run(words(100), adapter_key="b").ended.reused_tokens == 0
            assert stepper.run(words(100), adapter_key="b").ended.reused_tokens == 98

    def test_a_step_never_mixes_adapters(self, tiny_llama: Path) -> None:
        steps: list[set[int]] = []

        def note(batch) -> int:
            steps.append(set(batch.seq_id[: batch.rows]))
            return 0

        with Stepper(tiny_llama, slots=2, fault=note) as stepper:
            requests = [stepper.add(words(30, start=i), adapter_key=key) for i, key in enumerate("ab")]
            stepper.finish()
            assert [len(stepper.seen.of(request).ids) for request in requests] == [12, 12]
        assert all(len(slots) == 1 for slots in steps)


class TestReports:
    def test_every_figure_is_there(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            stepper.run(words(50))
            ended = stepper.run(words(60), new=9, seed=42).ended
        assert (ended.prompt_tokens, ended.reused_tokens, ended.new_tokens, ended.seed) == (60, 50, 9, 42)
        assert ended.queue_s >= 0
        assert ended.prefill_s > 0
        assert ended.decode_s > 0
        assert math.isclose(ended.time_to_first_token_s, ended.queue_s + ended.prefill_s)
