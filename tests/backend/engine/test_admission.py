"""Which slot a waiting reply gets."""

from backend.engine.admission import Admission
from backend.engine.pacing import Pacer
from backend.engine.prefix_cache import PrefixCache, Slot
from tests.backend.engine.driver import words
from tests.backend.engine.test_prefix_cache import FakeMemory


class Room:
    """Slots with given tokens, over a fake memory."""

    def __init__(
        self, *held: list[int], copy_s: float = 0.0, can_fork: bool = True, can_cut: bool = True
    ) -> None:
        self.memory = FakeMemory({index: len(tokens) for index, tokens in enumerate(held)})
        self.cache = PrefixCache(self.memory, len(held), window=0, can_cut=can_cut)
        for slot, tokens in zip(self.cache.slots, held, strict=True):
            slot.tokens = list(tokens)
        pacer = Pacer(512)
        pacer.record_prompt(0, 100, 0.3)
        pacer.record_writers(4, 0.03)
        self.admission = Admission(self.cache, pacer, copy_s=copy_s, can_fork=can_fork)

    def place(self, tokens: list[int], *, busy: tuple[int, ...] = (), key: str = "") -> tuple[Slot, int]:
        taken = [slot for slot in self.cache.slots if slot.id in busy]
        idle = [slot for slot in self.cache.slots if slot.id not in busy]
        return self.admission.place(tokens, key, idle, taken)


def test_the_longest_prefix_wins() -> None:
    room = Room(words(50), words(80), words(10))
    slot, kept = room.place(words(100))
    assert (slot.id, kept, slot.tokens) == (1, 80, words(80))


def test_without_any_prefix_the_least_recently_used_one_is_taken() -> None:
    room = Room(words(50, start=1), words(50, start=2), words(50, start=3))
    for slot, when in zip(room.cache.slots, (3.0, 1.0, 2.0), strict=True):
        slot.last_used = when
    assert room.place(words(10, start=9))[0].id == 1


def test_an_unused_slot_is_taken_before_a_used_one() -> None:
    room = Room(words(50, start=1), [], words(50, start=3))
    room.cache.slots[0].last_used = room.cache.slots[2].last_used = 5.0
    assert room.place(words(10, start=9))[0].id == 1


def test_running_ones_stay_adjacent() -> None:
    room = Room(words(9), [], [], [], [])
    assert room.place(words(20, start=4), busy=(1,))[0].id in (0, 2)
    assert room.place(words(20, start=4), busy=(1, 2))[0].id in (0, 3)


def test_a_long_prefix_is_worth_a_gap_and_a_short_one_is_not() -> None:
    far = [[], [], [], []]
    assert Room(*far, words(1500), can_fork=False).place(words(1600), busy=(0,))[0].id == 4
    assert Room(*far, words(50), can_fork=False).place(words(1600), busy=(0,))[0].id == 1


def test_a_busy_slot_lends_its_prefix_by_copy() -> None:
    room = Room(words(100), [])
    slot, kept = room.place([*words(90), 1, 2, 3], busy=(0,))
    assert (slot.id, kept) == (1, 90)
    assert room.cache.slots[0].tokens == words(100)


def test_no_copy_where_slots_are_not_partitions_or_memory_cannot_be_cut() -> None:
    for room in (Room(words(100), [], can_fork=False), Room(words(100), [], can_cut=False)):
        assert room.place(words(90), busy=(0,)) == (room.cache.slots[1], 0)
        assert "copy" not in room.memory.calls


def test_no_copy_that_takes_longer_than_reading() -> None:
    dear = Room(words(100), [], copy_s=10.0)
    assert dear.place(words(90), busy=(0,)) == (dear.cache.slots[1], 0)


def test_the_slot_takes_the_key_of_its_new_reply() -> None:
    room = Room(words(20))
    slot, kept = room.place(words(20), key="lora")
    assert (slot.adapter_key, kept, slot.tokens) == ("lora", 0, [])
