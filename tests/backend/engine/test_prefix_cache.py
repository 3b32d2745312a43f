"""Reuse of what the slots hold: always the reply of a fresh context, whatever kind of memory it is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.prefix_cache import PrefixCache, Slot, common_prefix
from tests import tiny_gguf
from tests.backend.engine.driver import Stepper, alone, words

KINDS = ["tiny_llama", "tiny_gemma3", "tiny_recurrent", "tiny_hybrid"]
UNCUTTABLE = ["tiny_recurrent", "tiny_hybrid"]
PROMPT = words(150)


@pytest.fixture(scope="session", params=KINDS)
def any_model(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session", params=UNCUTTABLE)
def uncuttable(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def narrow_window(tiny_models: Path) -> Path:
    """A sliding window of 8 tokens, which every test here leaves far behind."""
    return tiny_gguf.make_model(tiny_models / "narrow.gguf", "gemma3", shape=tiny_gguf.with_window(8))


class FakeMemory:
    """Positions per slot. `pruned` is how many of the oldest a sliding window has lost."""

    def __init__(self, held: dict[int, int], *, pruned: int = 0, cuts: bool = True) -> None:
        self.held = held
        self.pruned = pruned
        self.cuts = cuts
        self.calls: list[str] = []

    def drop(self, slot: int, start: int) -> None:
        self.calls.append("drop")
        if self.cuts:
            self.held[slot] = min(self.held[slot], start)

    def wipe(self, slot: int) -> None:
        self.calls.append("wipe")
        self.held[slot] = 0

    def copy(self, source: int, target: int) -> None:
        assert self.held.get(target, 0) == 0, "llama.cpp asserts that the target is empty"
        self.calls.append("copy")
        self.held[target] = self.held[source]

    def highest(self, slot: int) -> int:
        return self.held.get(slot, 0) - 1

    def lowest(self, slot: int) -> int:
        return self.pruned if self.held.get(slot, 0) else -1


class TestCommonPrefix:
    @given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), max_size=30))
    def test_it_is_the_length_of_the_shared_head(self, a: list[int], b: list[int]) -> None:
        expected = next(
            (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
        )
        assert common_prefix(a, b) == expected

    def test_nothing_is_shared_under_another_adapter(self) -> None:
        slot = Slot(0, [1, 2, 3], adapter_key="a")
        assert (slot.shared([1, 2], "a"), slot.shared([1, 2], "")) == (2, 0)


class TestCut:
    @pytest.mark.parametrize("keep", [0, 1, 5, 9, 10])
    def test_a_memory_that_can_be_cut(self, keep: int) -> None:
        memory = FakeMemory({0: 10})
        cache = PrefixCache(memory, 1, window=0, can_cut=True)
        cache.slots[0].tokens = words(10)
        assert cache.cut(cache.slots[0], keep) == keep
        assert cache.slots[0].tokens == words(10)[:keep]
        assert memory.held[0] == keep

    def test_one_that_cannot_is_wiped(self) -> None:
        memory = FakeMemory({0: 10})
        cache = PrefixCache(memory, 1, window=0, can_cut=False)
        cache.slots[0].tokens = words(10)
        assert cache.cut(cache.slots[0], 9) == 0
        assert (cache.slots[0].tokens, memory.held[0]) == ([], 0)

    def test_a_removal_that_did_nothing_is_noticed(self) -> None:
        memory = FakeMemory({0: 10}, cuts=False)
        cache = PrefixCache(memory, 1, window=0, can_cut=True)
        cache.slots[0].tokens = words(10)
        assert cache.cut(cache.slots[0], 9) == 0
        assert memory.held[0] == 0

    @pytest.mark.parametrize(("pruned", "kept"), [(0, 80), (48, 80), (49, 0), (79, 0)])
    def test_behind_a_window_the_cells_before_the_cut_must_be_there(self, pruned: int, kept: int) -> None:
        memory = FakeMemory({0: 100}, pruned=pruned)
        cache = PrefixCache(memory, 1, window=32, can_cut=True)
        cache.slots[0].tokens = words(100)
        assert cache.cut(cache.slots[0], 80) == kept

    def test_what_a_refused_decode_never_wrote_costs_nothing(self) -> None:
        memory = FakeMemory({0: 6})
        cache = PrefixCache(memory, 1, window=0, can_cut=False)
        cache.slots[0].tokens = words(10)
        assert cache.cut(cache.slots[0], 6) == 6
        assert (cache.slots[0].tokens, memory.calls) == (words(10)[:6], [])

    def test_a_fork_leaves_its_source_alone(self) -> None:
        memory = FakeMemory({0: 10, 1: 4})
        cache = PrefixCache(memory, 2, window=0, can_cut=True)
        source, target = cache.slots
        source.tokens, source.adapter_key, target.tokens = words(10), "a", words(4, start=1)
        assert cache.fork(source, target, 7) == 7
        assert (source.tokens, memory.held[0]) == (words(10), 10)
        assert (target.tokens, target.adapter_key, memory.held[1]) == (words(7), "a", 7)


class TestReuseEqualsFresh:
    @pytest.mark.parametrize("cut", [1, 2, 3, 31, 32, 33, 64, 127, 128, 129, 148, 149, 150, 151, 161])
    def test_a_cut_anywhere(self, any_model: Path, cut: int) -> None:
        with Stepper(any_model) as stepper:
            told = PROMPT + stepper.run(PROMPT).ids
            edited = told[:cut] + words(20, start=7)
            reply = stepper.run(edited)
        assert reply.ids == alone(any_model, edited).ids

    def test_an_extension_reads_only_what_is_new(self, any_model: Path) -> None:
        with Stepper(any_model) as stepper:
            told = PROMPT + stepper.run(PROMPT).ids
            longer = told + words(10, start=3)
            reply = stepper.run(longer)
        # The last token of a reply is known and never evaluated.
        assert reply.ended.reused_tokens == len(told) - 1
        assert reply.ids == alone(any_model, longer).ids

    def test_a_retry(self, any_model: Path) -> None:
        with Stepper(any_model) as stepper:
            first, second = stepper.run(PROMPT), stepper.run(PROMPT)
        assert second.ids == first.ids
        assert second.ended.reused_tokens < len(PROMPT)

    def test_switching_to_and_fro(self, any_model: Path) -> None:
        chats = [words(120, start=index) for index in range(3)]
        with Stepper(any_model, slots=2) as stepper:
            for _ in range(3):
                for index, chat in enumerate(chats):
                    reply = stepper.run(chat, new=5)
                    assert reply.ids == alone(any_model, chat, new=5).ids
                    chats[index] = chat + reply.ids + words(9, start=index)

    def test_a_prompt_that_is_a_head_of_the_last_one(self, any_model: Path) -> None:
        with Stepper(any_model) as stepper:
            stepper.run(PROMPT)
            assert stepper.run(PROMPT[:70]).ids == alone(any_model, PROMPT[:70]).ids

    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_the_shortest_prompts(self, any_model: Path, length: int) -> None:
        with Stepper(any_model) as stepper:
            for _ in range(2):
                assert stepper.run(words(length)).ids == alone(any_model, words(length)).ids

    def test_a_reply_can_be_followed_by_nothing_new(self, tiny_llama: Path) -> None:
        """The whole prompt is never kept: its last token is evaluated again for its logits."""
        with Stepper(tiny_llama) as stepper:
            stepper.run(PROMPT, new=0)
            reply = stepper.run(PROMPT)
        assert reply.ended.reused_tokens == len(PROMPT) - 2
        assert reply.ids == alone(tiny_llama, PROMPT).ids


class TestSlidingWindow:
    @pytest.mark.parametrize("back", [1, 5, 40, 150, 280, 290])
    @pytest.mark.parametrize("swa_full", [True, False])
    def test_a_cut_behind_it(self, narrow_window: Path, swa_full: bool, back: int) -> None:
        """Over 256 tokens llama.cpp overwrites what left the window, unless the cache is full-size."""
        long = words(300)
        with Stepper(narrow_window, swa_full=swa_full, n_ubatch=32) as stepper:
            stepper.run(long, new=100)
            edited = long[:-back] + words(20, start=5)
            reply = stepper.run(edited)
        assert reply.ids == alone(narrow_window, edited).ids
        if swa_full:
            assert reply.ended.reused_tokens == 300 - back

    def test_where_the_window_is_lost_the_prompt_is_read_anew(self, narrow_window: Path) -> None:
        long = words(300)
        with Stepper(narrow_window, n_ubatch=32) as stepper:
            stepper.run(long, new=100)
            assert stepper.run(long[:100] + words(20, start=5)).ended.reused_tokens == 0

    def test_a_retry_is_free_with_a_full_size_cache(self, narrow_window: Path) -> None:
        with Stepper(narrow_window, swa_full=True) as stepper:
            stepper.run(words(400))
            assert stepper.run(words(400)).ended.reused_tokens == 398


class TestUncuttable:
    def test_an_edit_falls_back_to_a_fresh_prefill(self, uncuttable: Path) -> None:
        with Stepper(uncuttable) as stepper:
            stepper.run(PROMPT)
            edited = PROMPT[:100] + words(20, start=2)
            reply = stepper.run(edited)
        assert reply.ended.reused_tokens == 0
        assert reply.ids == alone(uncuttable, edited).ids

    def test_a_warm_up_of_the_whole_conversation_is_reused(self, uncuttable: Path) -> None:
        with Stepper(uncuttable) as stepper:
            stepper.run(PROMPT, new=0)
            reply = stepper.run([*PROMPT, 5, 6])
        assert reply.ended.reused_tokens == len(PROMPT)
        assert reply.ids == alone(uncuttable, [*PROMPT, 5, 6]).ids

    @pytest.mark.parametrize("more", [[], [9]])
    def test_never_the_whole_prompt_is_kept(self, uncuttable: Path, more: list[int]) -> None:
        with Stepper(uncuttable) as stepper:
            stepper.run(PROMPT, new=0)
            reply = stepper.run(PROMPT + more)
        assert reply.ended.reused_tokens == 0
        assert reply.ids == alone(uncuttable, PROMPT + more).ids


class TestForks:
    @pytest.mark.parametrize("swa_full", [True, False])
    def test_a_busy_chat_lends_its_prefix(self, any_model: Path, swa_full: bool) -> None:
        shared = words(120)
        with Stepper(any_model, slots=3, swa_full=swa_full) as stepper:
            busy = stepper.add(shared + words(10, start=1), new=60)
            stepper.until(lambda: len(stepper.seen.of(busy).ids) == 5)
            other = stepper.add(shared + words(15, start=2))
            stepper.finish()
            lent, kept = stepper.seen.of(other), stepper.seen.of(busy)
        assert lent.ids == alone(any_model, shared + words(15, start=2)).ids
        assert kept.ids == alone(any_model, shared + words(10, start=1), new=60).ids
        if any_model.name == "tiny-llama.gguf":
            assert lent.ended.reused_tokens == 120

    def test_a_fork_of_a_fork_before_any_step(self, tiny_llama: Path) -> None:
        shared = words(120)
        with Stepper(tiny_llama, slots=4) as stepper:
            stepper.run(shared)
            requests = [stepper.add(shared + words(10, start=index)) for index in range(4)]
            stepper.finish()
            replies = [stepper.seen.of(request) for request in requests]
        for request, reply in zip(requests, replies, strict=True):
            assert reply.ids == alone(tiny_llama, request.tokens).ids
            assert reply.ended.reused_tokens == 120

    def test_a_copy_that_is_dearer_than_reading_is_not_made(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, slots=2, slot_bytes=1 << 40) as stepper:
            busy = stepper.add(words(120), new=60)
            stepper.until(lambda: bool(stepper.seen.of(busy).ids))
            other = stepper.add(words(120))
            stepper.finish()
            assert stepper.seen.of(other).ended.reused_tokens == 0

    def test_another_chat_that_begins_alike_is_left_whole(self, tiny_llama: Path) -> None:
        """A short shared head (a system turn) does not cost the first chat its cells."""
        first = words(20) + words(300, start=1)
        second = words(20) + words(30, start=2)
        with Stepper(tiny_llama, slots=3) as stepper:
            stepper.run(first)
            assert stepper.run(second).ids == alone(tiny_llama, second).ids
            assert stepper.run(first + words(5, start=3)).ended.reused_tokens >= len(first)
