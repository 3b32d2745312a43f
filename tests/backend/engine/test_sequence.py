"""One reply: what ends it, what of it is seen, what is forced on it."""

from pathlib import Path

import pytest

from backend.engine.thought import ThoughtBudget, ThoughtMarks, ThoughtMeter
from backend.native import Model
from backend.types import GenerationConfig
from tests import tiny_gguf
from tests.backend.engine.driver import Outcome, Stepper, load, words

PROMPT = words(10)


def eog_ids(model: Model) -> list[int]:
    return [token for token in range(model.n_vocab) if model.is_eog(token)]


def force(path: Path, tokens: list[int], **fields) -> Outcome:
    with Stepper(path) as stepper:
        return stepper.run(PROMPT, forced=tuple(tokens), new=200, **fields)


@pytest.fixture(scope="module")
def model(tiny_llama: Path) -> Model:
    return load(tiny_llama)


def ids(model: Model, text: str) -> list[int]:
    return model.tokenize(text, parse_special=True)


class TestEnds:
    def test_every_end_of_generation_token_ends_a_reply(self, tiny_llama: Path, model: Model) -> None:
        assert [model.token_text(token) for token in eog_ids(model)] == list(tiny_gguf.EOG_TOKENS)
        for token in eog_ids(model):
            reply = force(tiny_llama, [*ids(model, "on"), token, *ids(model, "never")])
            assert (reply.text, reply.ended.finish, reply.ended.end_token) == ("on", "stop", token)

    def test_a_sampled_end_token_ends_it_too(self, tiny_llama: Path, model: Model) -> None:
        for token in eog_ids(model):
            config = GenerationConfig(temperature=0.0, logit_bias={token: 1000.0})
            with Stepper(tiny_llama) as stepper:
                reply = stepper.run(PROMPT, config=config)
            assert (reply.ids, reply.text, reply.ended.finish) == ([token], "", "stop")

    def test_ignore_eos_never_ends_it(self, tiny_llama: Path, model: Model) -> None:
        likely = dict.fromkeys(eog_ids(model), 1000.0)
        config = GenerationConfig(temperature=0.0, logit_bias=likely, ignore_eos=True)
        with Stepper(tiny_llama) as stepper:
            reply = stepper.run(PROMPT, config=config, new=100)
        assert (len(reply.ids), reply.ended.finish) == (100, "length")
        assert not set(reply.ids) & set(likely)

    def test_a_stop_string_is_cut_off_and_named(self, tiny_llama: Path, model: Model) -> None:
        reply = force(tiny_llama, ids(model, "one END two"), stop=("END",))
        assert (reply.text, reply.ended.finish, reply.ended.stop_match) == ("one ", "stop_string", "END")

    def test_a_role_stop_ends_it_like_an_end_token(self, tiny_llama: Path, model: Model) -> None:
        reply = force(tiny_llama, ids(model, "hi\nuser: you"), role_stops=("\nuser:",))
        assert (reply.text, reply.ended.finish, reply.ended.stop_match) == ("hi", "stop", None)
        assert reply.ended.is_cut

    def test_what_is_held_for_a_stop_string_comes_out_at_the_end(
        self, tiny_llama: Path, model: Model
    ) -> None:
        assert force(tiny_llama, ids(model, "the EN"), stop=("END",)).text == "the EN"
        with_end = [*ids(model, "the EN"), model.eos]
        assert force(tiny_llama, with_end, stop=("END",)).text == "the EN"

    def test_what_is_held_comes_out_of_a_cancelled_reply(self, tiny_llama: Path, model: Model) -> None:
        with Stepper(tiny_llama) as stepper:
            request = stepper.add(PROMPT, forced=tuple(ids(model, "the ENd")), new=99, stop=("ENDS",))
            stepper.until(lambda: len(stepper.seen.of(request).ids) == len(ids(model, "the EN")))
            stepper.cancel(request)
            reply = stepper.seen.of(request)
        assert (reply.text, reply.ended.finish) == ("the EN", "cancelled")

    def test_an_unfinished_character_at_the_end_is_replaced(self, tiny_llama: Path, model: Model) -> None:
        assert force(tiny_llama, ids(model, "hi 🌿")[:-1]).text == "hi �"


class TestVisibility:
    TEXT = "a<|im_start|>b<think>c"

    def test_control_tokens_are_hidden(self, tiny_llama: Path, model: Model) -> None:
        assert force(tiny_llama, ids(model, self.TEXT)).text == "ab<think>c"

    def test_those_a_format_needs_are_shown(self, tiny_llama: Path, model: Model) -> None:
        shown = frozenset(ids(model, "<|im_start|>"))
        assert force(tiny_llama, ids(model, self.TEXT), shown_specials=shown).text == self.TEXT

    def test_none_shows_all_the_end_too(self, tiny_llama: Path, model: Model) -> None:
        tokens = ids(model, self.TEXT + "<|im_end|>")
        assert force(tiny_llama, tokens, shown_specials=None).text == self.TEXT + "<|im_end|>"

    def test_the_end_is_no_text_even_where_a_format_shows_it(self, tiny_llama: Path, model: Model) -> None:
        tokens = ids(model, "a<|eot_id|>")
        reply = force(tiny_llama, tokens, shown_specials=frozenset(tokens[-1:]))
        assert (reply.text, reply.ended.end_token) == ("a", tokens[-1])

    def test_the_prompt_is_no_part_of_the_text(self, tiny_llama: Path, model: Model) -> None:
        with Stepper(tiny_llama) as stepper:
            reply = stepper.run(ids(model, "hello"), forced=tuple(ids(model, "you")), new=9)
        assert reply.text == "you"


class TestForced:
    def test_it_is_written_counted_and_ends_the_reply(self, tiny_llama: Path, model: Model) -> None:
        tokens = ids(model, "and the thing is on")
        reply = force(tiny_llama, tokens)
        assert (reply.ids, reply.text) == (tokens, "and the thing is on")
        assert (reply.ended.finish, reply.ended.new_tokens) == ("stop", len(tokens))

    def test_nothing_forced_is_nothing_written(self, tiny_llama: Path) -> None:
        reply = force(tiny_llama, [])
        assert (reply.ids, reply.ended.finish, reply.ended.new_tokens) == ([], "stop", 0)

    def test_its_cells_are_reused(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            stepper.run(PROMPT, forced=tuple(words(50, start=3)), new=99)
            assert stepper.run(PROMPT + words(60, start=3)).ended.reused_tokens == 59

    def test_the_limit_cuts_it(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            reply = stepper.run(PROMPT, forced=tuple(words(50)), new=5)
        assert (reply.ids, reply.ended.finish) == (words(50)[:5], "length")

    def test_each_comes_with_its_logprob(self, tiny_llama: Path) -> None:
        config = GenerationConfig(temperature=0.0, logprobs=0)
        reply = force(tiny_llama, words(5), config=config)
        assert [entry.id for entry in reply.logprobs] == words(5)
        assert all(entry.logprob < 0 for entry in reply.logprobs)

    def test_a_prefix_is_written_and_the_reply_goes_on(self, tiny_llama: Path) -> None:
        prefix = words(6, start=4)
        with Stepper(tiny_llama) as stepper:
            begun = stepper.run(PROMPT, prefix=tuple(prefix), new=16)
            continued = stepper.run(PROMPT + prefix, new=10)
        assert begun.ids == prefix + continued.ids


def meter(limit: int, *, open: bool) -> ThoughtMeter:
    return ThoughtMeter(ThoughtMarks("<think>", "</think>", open), ThoughtBudget(limit, (1,)))


def feed(limit: int, pieces: list[str], *, open: bool) -> list[bool]:
    counted = meter(limit, open=open)
    return [counted.feed(piece.encode()) for piece in pieces]


class TestThoughtBudget:
    @pytest.mark.parametrize("limit", [0, 1, 7])
    def test_an_open_thought_is_closed_when_it_is_spent(
        self, tiny_llama: Path, model: Model, limit: int
    ) -> None:
        marker = ids(model, "</think>")
        config = GenerationConfig(temperature=0.0, logit_bias=dict.fromkeys(marker, -1000.0))
        with Stepper(tiny_llama) as stepper:
            reply = stepper.run(
                PROMPT,
                new=30,
                config=config,
                thought=ThoughtMarks("<think>", "</think>", open=True),
                thought_budget=ThoughtBudget(limit, tuple(marker)),
            )
        assert reply.ids[limit : limit + len(marker)] == marker
        assert len(reply.ids) == 30

    @pytest.mark.parametrize("pieces", [["<think>", "a", "b", "c"], ["<th", "ink>a", "b", "c"]])
    def test_a_thought_that_opens_later_is_counted_from_its_marker(self, pieces: list[str]) -> None:
        spent = feed(3, ["x", *pieces], open=False)
        assert spent.index(True) == len(spent) - (2 if pieces[0] == "<think>" else 1)

    def test_a_thought_that_closes_in_time_is_left_alone(self) -> None:
        assert not any(feed(3, ["a", "</thi", "nk>", *"the long answer"], open=True))

    def test_it_is_closed_once(self) -> None:
        assert feed(1, list("abc"), open=True) == [True, False, False]


@pytest.mark.parametrize("char", ["é", "漢", "🎉"])
def test_a_budget_that_is_spent_inside_a_character_lets_it_end(char: str) -> None:
    thoughts = meter(1, open=True)
    *first, last = (bytes([byte]) for byte in char.encode())
    assert [thoughts.feed(piece) for piece in first] == [False] * len(first)
    assert thoughts.feed(last)


def test_a_character_that_never_ends_does_not_keep_a_budget_open() -> None:
    thoughts = meter(1, open=True)
    assert [thoughts.feed(b"\xf0") for _ in range(5)] == [False] * 4 + [True]
