"""Every setting of sampling reaches llama.cpp's chain, and does what its name says."""

import math
from pathlib import Path
from typing import Any

import pytest

from backend import native
from backend.engine.sampling import Sampler, eog_tokens, looks_back
from backend.native import Batch, Context, ContextParams
from backend.types import GenerationConfig
from tests.backend.engine.driver import Live, Stepper, load, words

PROMPT = words(30, start=1)
"""What the tiny model writes behind it is open: its best token has 38 %, the next 12, 10 and 8."""
MAX_SEQ = 256


class Bed:
    """The logits behind one prompt, from which samplers draw without moving on."""

    def __init__(self, path: Path, prompt: list[int]) -> None:
        self.model = load(path)
        self.prompt = prompt
        self.context = Context(self.model, ContextParams(n_ctx=MAX_SEQ, n_threads=1))
        batch = Batch(len(prompt))
        self.row = batch.add(0, 0, prompt, outputs=1)
        assert self.context.decode(batch) == 0
        logits = list(self.context.logits(self.row))
        self.ranked = sorted(range(self.model.n_vocab), key=lambda token: -logits[token])
        highest = max(logits)
        total = sum(math.exp(logit - highest) for logit in logits)
        self.probability = [math.exp(logit - highest) / total for logit in logits]
        self.logits = logits

    def draw(self, seed: int = 1, **fields: Any) -> int:
        sampler = Sampler(self.model, GenerationConfig(**fields), seed, MAX_SEQ)
        sampler.read(self.prompt)
        token = sampler.draw(self.context, self.row)
        sampler.close()
        return token

    def drawn(self, count: int = 300, **fields: Any) -> set[int]:
        """Everything that `count` seeds draw."""
        return {self.draw(seed, **fields) for seed in range(count)}


@pytest.fixture(scope="module")
def bed(tiny_llama: Path) -> Bed:
    return Bed(tiny_llama, PROMPT)


@pytest.fixture(scope="module")
def repeating(tiny_llama: Path) -> Bed:
    """Its prompt is one token, over and over, after a part that ends with it too."""
    return Bed(tiny_llama, [*words(10), 7, 9, 7, 9, 7, 9, 7, 9, 7])


def reply(path: Path, seed: int = 1, new: int = 24, **fields: Any) -> list[int]:
    with Stepper(path) as stepper:
        return stepper.run(PROMPT, new=new, seed=seed, config=GenerationConfig(**fields)).ids


class TestSeed:
    def test_it_repeats_in_one_engine_and_across_two(self, tiny_llama: Path) -> None:
        config = GenerationConfig(temperature=1.5)
        with Live(tiny_llama) as live:
            first, again = (live.run(PROMPT, new=24, seed=7, config=config).ids for _ in range(2))
        assert first == again == reply(tiny_llama, seed=7, temperature=1.5)

    def test_another_seed_differs(self, tiny_llama: Path) -> None:
        assert reply(tiny_llama, seed=7, temperature=1.5) != reply(tiny_llama, seed=8, temperature=1.5)

    def test_it_does_not_make_a_reply_greedy(self, tiny_llama: Path) -> None:
        assert reply(tiny_llama, seed=11, temperature=1.5) != reply(tiny_llama, temperature=0.0)

    def test_it_means_nothing_at_temperature_zero(self, tiny_llama: Path) -> None:
        assert reply(tiny_llama, seed=7, temperature=0.0) == reply(tiny_llama, seed=8, temperature=0.0)


class TestGreedyByAnotherName:
    @pytest.mark.parametrize(
        "fields",
        [
            {"top_k": 1},
            {"min_p": 1.0},
            {"top_p": 0.0},
            {"top_n_sigma": 1e-6},
            {"temperature": 1e-6},
            {"temperature": 0.0, "top_k": 40, "min_p": 0.05, "mirostat": 2, "xtc_probability": 1.0},
        ],
        ids=str,
    )
    def test_only_the_best_token_is_left(self, tiny_llama: Path, fields: dict) -> None:
        fields = {"temperature": 1.5, **fields}
        assert reply(tiny_llama, seed=3, **fields) == reply(tiny_llama, temperature=0.0)

    @pytest.mark.parametrize(
        "fields",
        [
            {"top_k": 0},
            {"top_p": 1.0},
            {"min_p": 0.0},
            {"typical_p": 1.0},
            {"top_n_sigma": -1.0},
            {"xtc_probability": 0.0, "xtc_threshold": 0.1},
            {"dynatemp_range": 0.0},
            {"mirostat": 0, "mirostat_tau": 1.0},
            {"repeat_penalty": 1.0, "repeat_last_n": -1},
            {"frequency_penalty": 0.0, "presence_penalty": 0.0},
            {"dry_multiplier": 0.0, "dry_base": 9.0},
            {"repeat_penalty": 5.0, "repeat_last_n": 0},
            {"logit_bias": {}},
        ],
        ids=str,
    )
    def test_a_setting_that_is_off_changes_nothing(self, tiny_llama: Path, fields: dict) -> None:
        fields = {"temperature": 1.2, **fields}
        assert reply(tiny_llama, seed=3, **fields) == reply(tiny_llama, seed=3, temperature=1.2)


class TestFilters:
    def test_top_k_keeps_the_k_best(self, bed: Bed) -> None:
        assert bed.drawn(temperature=9.0, top_k=3) == set(bed.ranked[:3])

    def test_top_p_keeps_the_fewest_that_reach_it(self, bed: Bed) -> None:
        total, nucleus = 0.0, set()
        for token in bed.ranked:
            nucleus.add(token)
            total += bed.probability[token]
            if total >= 0.5:
                break
        assert bed.drawn(temperature=9.0, top_p=0.5) == nucleus

    def test_min_p_drops_below_a_share_of_the_best(self, bed: Bed) -> None:
        best = bed.probability[bed.ranked[0]]
        kept = {token for token in bed.ranked if bed.probability[token] >= 0.2 * best}
        assert 1 < len(kept) < bed.model.n_vocab
        assert bed.drawn(temperature=9.0, min_p=0.2) == kept

    def test_top_n_sigma_keeps_what_is_near_the_best(self, bed: Bed) -> None:
        mean = sum(bed.logits) / len(bed.logits)
        deviation = math.sqrt(sum((logit - mean) ** 2 for logit in bed.logits) / len(bed.logits))
        kept = {t for t in bed.ranked if bed.logits[t] >= max(bed.logits) - 0.8 * deviation}
        assert 1 < len(kept) < bed.model.n_vocab
        assert bed.drawn(temperature=9.0, top_n_sigma=0.8) == kept

    def test_typical_p_keeps_tokens_of_expected_surprise(self, bed: Bed) -> None:
        entropy = -sum(p * math.log(p) for p in bed.probability)
        by_surprise = sorted(bed.ranked, key=lambda t: abs(-math.log(bed.probability[t]) - entropy))
        total, kept = 0.0, set()
        for token in by_surprise:
            kept.add(token)
            total += bed.probability[token]
            if total > 0.2:
                break
        assert bed.drawn(temperature=5.0, typical_p=0.2) == kept

    def test_xtc_excludes_the_top_choices(self, bed: Bed) -> None:
        threshold = bed.probability[bed.ranked[3]]
        certain = bed.drawn(count=100, temperature=1.0, top_k=6, xtc_probability=1.0, xtc_threshold=threshold)
        assert certain and certain <= set(bed.ranked[3:6])
        never = bed.drawn(count=100, temperature=1.0, top_k=6, xtc_probability=1.0, xtc_threshold=0.9)
        assert bed.ranked[0] in never

    def test_top_k_comes_before_the_filters_that_sum(self, bed: Bed) -> None:
        """Half of the mass of two tokens is less than half of everything."""
        two = bed.ranked[:2]
        assert bed.probability[two[0]] < 0.5
        share = bed.probability[two[0]] / (bed.probability[two[0]] + bed.probability[two[1]])
        assert bed.drawn(count=60, temperature=9.0, top_k=2, top_p=share - 0.01) == {two[0]}


class TestTemperature:
    def test_higher_spreads_wider(self, bed: Bed) -> None:
        assert len(bed.drawn(count=100, temperature=0.3)) < len(bed.drawn(count=100, temperature=3.0))

    def test_dynatemp_changes_the_draw(self, tiny_llama: Path) -> None:
        plain = reply(tiny_llama, seed=3, temperature=1.0)
        assert reply(tiny_llama, seed=3, temperature=1.0, dynatemp_range=0.9) != plain


class TestMirostat:
    @pytest.mark.parametrize("version", [1, 2])
    def test_a_lower_target_draws_likelier_tokens(self, bed: Bed, version: int) -> None:
        low = bed.drawn(count=100, temperature=1.5, mirostat=version, mirostat_tau=1.0)
        high = bed.drawn(count=100, temperature=1.5, mirostat=version, mirostat_tau=9.0)
        assert len(low) < len(high)

    @pytest.mark.parametrize("version", [1, 2])
    def test_it_learns_by_its_rate(self, tiny_llama: Path, version: int) -> None:
        fields = {"temperature": 1.5, "mirostat": version, "mirostat_tau": 3.0}
        slow, fast = (reply(tiny_llama, seed=3, **fields, mirostat_eta=eta) for eta in (0.0, 1.0))
        assert slow != fast

    def test_it_replaces_the_filters(self, tiny_llama: Path) -> None:
        fields = {"temperature": 1.5, "mirostat": 2, "mirostat_tau": 6.0}
        assert reply(tiny_llama, seed=3, **fields, top_k=1) == reply(tiny_llama, seed=3, **fields)


class TestPenalties:
    def test_repeat_penalty_makes_a_greedy_reply_leave_its_loop(self, repeating: Bed) -> None:
        fields = {"temperature": 0.0, "logit_bias": {7: 50.0}}
        assert repeating.draw(**fields) == 7
        assert repeating.draw(**fields, repeat_penalty=1000.0) != 7

    def test_it_looks_back_only_so_far(self, repeating: Bed) -> None:
        fields = {"temperature": 0.0, "logit_bias": {repeating.prompt[0]: 50.0}, "repeat_penalty": 1000.0}
        assert repeating.draw(**fields, repeat_last_n=8) == repeating.prompt[0]
        assert repeating.draw(**fields, repeat_last_n=-1) != repeating.prompt[0]

    def test_frequency_counts_every_time_and_presence_once(self, repeating: Bed) -> None:
        # 7 was there five times, 9 four times.
        both = {7: 1000.0, 9: 990.0}
        fields = {"temperature": 0.0, "logit_bias": both}
        assert repeating.draw(**fields) == 7
        assert repeating.draw(**fields, presence_penalty=20.0) == 7
        assert repeating.draw(**fields, frequency_penalty=20.0) == 9

    def test_dry_breaks_a_repetition_that_penalties_do_not_see(self, repeating: Bed) -> None:
        fields = {"temperature": 0.0, "logit_bias": {9: 50.0}}
        assert repeating.draw(**fields) == 9
        assert repeating.draw(**fields, dry_multiplier=10.0) != 9

    def test_dry_is_stronger_with_its_base_and_waits_for_its_length(self, repeating: Bed) -> None:
        fields = {"temperature": 0.0, "logit_bias": {9: 50.0}, "dry_multiplier": 1.0}
        assert repeating.draw(**fields, dry_base=1.01) == 9
        assert repeating.draw(**fields, dry_base=9.0) != 9
        assert repeating.draw(**fields, dry_base=9.0, dry_allowed_length=20) == 9

    @pytest.mark.parametrize(
        ("fields", "reach"),
        [
            ({}, 0),
            ({"repeat_penalty": 1.0}, 0),
            ({"repeat_penalty": 1.1}, 64),
            ({"presence_penalty": 0.5, "repeat_last_n": 10}, 10),
            ({"frequency_penalty": 0.5, "repeat_last_n": -1}, MAX_SEQ),
            ({"dry_multiplier": 0.8}, MAX_SEQ),
        ],
        ids=str,
    )
    def test_only_as_much_of_the_prompt_is_shown_as_they_consider(self, fields: dict, reach: int) -> None:
        assert looks_back(GenerationConfig(**fields), MAX_SEQ) == reach


class TestLogitBias:
    def test_it_forces_a_token(self, bed: Bed) -> None:
        worst = bed.ranked[-1]
        assert bed.drawn(count=30, temperature=0.8, logit_bias={worst: 1000.0}) == {worst}

    def test_minus_infinity_forbids_one(self, bed: Bed) -> None:
        best = bed.ranked[0]
        assert bed.draw(temperature=0.0, logit_bias={best: -math.inf}) == bed.ranked[1]
        assert best not in bed.drawn(temperature=2.0, top_k=5, logit_bias={best: -math.inf})

    def test_ids_outside_the_vocabulary_are_harmless(self, bed: Bed) -> None:
        assert bed.draw(temperature=0.0, logit_bias={bed.model.n_vocab: 9.0}) == bed.ranked[0]

    def test_ignore_eos_forbids_every_end(self, bed: Bed) -> None:
        likely = dict.fromkeys(eog_tokens(bed.model), 1000.0)
        assert len(likely) == 3
        drawn = bed.drawn(count=30, temperature=2.0, logit_bias=likely, ignore_eos=True)
        assert not drawn & set(likely)


class TestExtremes:
    """Values that are allowed and cannot be computed with: the reply is still one of the model's."""

    def test_infinite_bias_forces_a_token(self, bed: Bed) -> None:
        worst = bed.ranked[-1]
        assert worst != bed.model.n_vocab - 1
        for temperature in (0.0, 0.8):
            assert bed.drawn(count=9, temperature=temperature, logit_bias={worst: math.inf}) == {worst}

    @pytest.mark.parametrize(
        "fields",
        [
            {"temperature": math.inf, "logit_bias": {3: -math.inf}},
            {"temperature": 1.0, "dynatemp_range": math.inf, "logit_bias": {3: -math.inf}},
            {"frequency_penalty": -math.inf},
            {"presence_penalty": -math.inf},
            {"frequency_penalty": -1e300, "presence_penalty": 1e300},
            {"repeat_penalty": math.inf, "repeat_last_n": -1},
            {"mirostat": 2, "mirostat_eta": math.inf},
        ],
        ids=str,
    )
    def test_draws_never_collapse_to_the_last_token(self, bed: Bed, fields: dict) -> None:
        assert bed.drawn(count=30, **{"temperature": 3.0, **fields}) != {bed.model.n_vocab - 1}

    def test_the_smallest_temperature_is_greedy(self, bed: Bed) -> None:
        assert bed.drawn(count=9, temperature=1e-45) == {bed.ranked[0]}

    def test_penalties_never_look_back_further_than_the_window(self, repeating: Bed) -> None:
        """llama.cpp takes room for every token it is told to look back on: 8 GB at this value."""
        assert looks_back(GenerationConfig(repeat_penalty=2.0, repeat_last_n=2**31 - 1), MAX_SEQ) == MAX_SEQ
        told: list[int] = []
        real = native.C.llama_sampler_init_penalties
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                native.C, "llama_sampler_init_penalties", lambda *args: (told.append(args[1]), real(*args))[1]
            )
            repeating.draw(temperature=0.0, repeat_penalty=2.0, repeat_last_n=2**31 - 1)
        assert told == [MAX_SEQ]

    def test_a_mirostat_target_of_zero_is_not_missing(self, tiny_llama: Path) -> None:
        fields = {"temperature": 1.5, "mirostat": 2, "mirostat_tau": 0.0, "mirostat_eta": 0.0}
        assert reply(tiny_llama, seed=3, **fields) == reply(tiny_llama, temperature=0.0)


class TestLogprobs:
    def test_they_sum_to_one_and_hold_the_chosen_token(self, tiny_llama: Path, bed: Bed) -> None:
        config = GenerationConfig(temperature=1.5, logprobs=100)
        with Stepper(tiny_llama) as stepper:
            outcome = stepper.run(PROMPT, new=8, config=config)
        assert [entry.id for entry in outcome.logprobs] == outcome.ids
        for entry in outcome.logprobs:
            probabilities = [math.exp(logprob) for _, _, logprob in entry.top]
            assert len(entry.top) == 100
            assert probabilities == sorted(probabilities, reverse=True)
            assert 0.6 < sum(probabilities) <= 1 + 1e-9
            assert dict((i, p) for i, _, p in entry.top).get(entry.id, entry.logprob) == entry.logprob
        first = outcome.logprobs[0]
        assert [token for token, _, _ in first.top] == bed.ranked[:100]
        assert math.isclose(math.exp(first.logprob), bed.probability[first.id], rel_tol=1e-3)

    def test_the_whole_vocabulary_sums_to_one(self, bed: Bed) -> None:
        from backend.engine.sampling import logprob_row

        row = logprob_row(bed.model, bed.context, bed.row)
        assert math.isclose(sum(map(math.exp, row)), 1.0, rel_tol=1e-9)

    def test_they_are_those_before_any_filter(self, tiny_llama: Path) -> None:
        seen = []
        for fields in ({"top_k": 1}, {"temperature": 0.0}, {"temperature": 9.0, "top_k": 1}):
            with Stepper(tiny_llama) as stepper:
                outcome = stepper.run(PROMPT, new=1, config=GenerationConfig(**fields, logprobs=3))
            seen.append(outcome.logprobs)
        assert seen[0] == seen[1] == seen[2]

    def test_zero_reports_the_chosen_token_only(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            outcome = stepper.run(PROMPT, new=3, config=GenerationConfig(temperature=0.0, logprobs=0))
        assert [len(entry.top) for entry in outcome.logprobs] == [0, 0, 0]

    def test_without_asking_there_are_none(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            assert stepper.run(PROMPT, new=3).logprobs == []

    def test_they_belong_to_each_of_the_batch(self, tiny_llama: Path) -> None:
        config = GenerationConfig(temperature=0.0, logprobs=2)
        with Stepper(tiny_llama, slots=3) as stepper:
            requests = [stepper.add(words(20, start=i), new=5, config=config) for i in range(3)]
            stepper.finish()
            for request in requests:
                outcome = stepper.seen.of(request)
                assert [entry.top[0][0] for entry in outcome.logprobs] == outcome.ids
