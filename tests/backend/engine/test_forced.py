"""Text that a grammar leaves no choice about is written without sampling, and changes nothing else."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.engine.constrained import settled_tokens
from backend.engine.forced import MOST_BYTES, ForcedText
from backend.engine.thought import ThoughtBudget, ThoughtMarks
from backend.samplers import GrammarSampler
from backend.types import GenerationConfig, Grammar
from tests.backend.engine.driver import GREEDY, Outcome, Stepper, alone, load, words

FLAT = Grammar('root ::= "{\\"colour of the sky\\": \\"" ("blue" | "grey") "\\", \\"sure\\": true}"')
POSSIBLE = [{"colour of the sky": colour, "sure": True} for colour in ("blue", "grey")]


def forced_text(path: Path, grammar: str, before: str = "") -> tuple[str, bool]:
    model = load(path)
    sampler = GrammarSampler(model, grammar)
    try:
        for byte in before.encode():
            token = model.byte_tokens[byte]
            assert sampler.allows(token)
            sampler.accept(token)
        text, is_end = ForcedText(model).after(sampler)
        assert sampler.allows(model.byte_tokens[text[0]]) if text else True
        return text.decode(), is_end
    finally:
        sampler.close()


class TestText:
    @pytest.mark.parametrize(
        ("grammar", "before", "text", "is_end"),
        [
            ('root ::= "abc"', "", "abc", True),
            ('root ::= "abc"', "ab", "c", True),
            ('root ::= "abc"', "abc", "", False),
            ('root ::= "abc" [0-9]', "", "abc", False),
            ('root ::= "abc" [0-9]?', "", "abc", False),
            ('root ::= "abd" | "abc"', "", "ab", False),
            ('root ::= [0-9] "abc"', "", "", False),
            ('root ::= ("a" | "b")*', "", "", False),
            ('root ::= "a" [7-7] [\\n] "é€🙂"', "", "a7\né€🙂", True),
            ('root ::= "a" [é-ê]', "", "a", False),
            ('root ::= "x" [a-z]{3} "y"', "xabc", "y", True),
        ],
    )  # fmt: skip
    def test_ends_where_there_is_a_choice(
        self, tiny_llama: Path, tiny_llama_spm: Path, grammar: str, before: str, text: str, is_end: bool
    ) -> None:
        for path in (tiny_llama, tiny_llama_spm):
            assert forced_text(path, grammar, before) == (text, is_end)

    def test_a_long_one_is_found_in_parts(self, tiny_llama: Path) -> None:
        text, is_end = forced_text(tiny_llama, f'root ::= "{"a" * 1000}"')
        assert (len(text), is_end) == (MOST_BYTES, False)


@pytest.mark.model
class TestTokens:
    @settings(deadline=None, max_examples=200)
    @example(text=' ,"', following=",")
    @given(
        text=st.text(st.sampled_from('ab {}":,0é\n'), max_size=12),
        following=st.text(st.sampled_from('ab {}":,0é\n'), max_size=4),
    )
    def test_what_follows_changes_none_of_them(self, starter_model: Path, text: str, following: str) -> None:
        model = load(starter_model)
        settled = settled_tokens(model, text.encode(), is_end=False)
        spelled = b"".join(map(model.piece, settled))
        assert text.encode().startswith(spelled)
        assert model.tokenize(text + following)[: len(settled)] == settled

    def test_a_word_that_may_go_on_is_left_open(self, starter_model: Path) -> None:
        model = load(starter_model)
        for text, kept in (('{"colour', '{"'), ('{"colour":', '{"colour'), ("unbeliev", "")):
            tokens = settled_tokens(model, text.encode(), is_end=False)
            assert b"".join(map(model.piece, tokens)).decode() == kept

    def test_of_a_long_text_in_one_word_all_but_its_end_is_settled(self, starter_model: Path) -> None:
        model = load(starter_model)
        text = "東京都千代田区" * 10
        settled = settled_tokens(model, text.encode(), is_end=False)
        assert settled == model.tokenize(text)[: len(settled)]
        assert len(settled) > 20

    def test_at_the_end_of_a_reply_none_is_left_open(self, starter_model: Path) -> None:
        model = load(starter_model)
        tokens = settled_tokens(model, b'colour"}', is_end=True)
        assert tokens == model.tokenize('colour"}')


class TestReplies:
    @pytest.mark.parametrize("kind", ["tiny_llama", "tiny_llama_spm", "tiny_gemma3", "tiny_recurrent"])
    @pytest.mark.parametrize("seed", range(3))
    def test_most_of_a_flat_answer_is_not_sampled(
        self, kind: str, seed: int, request: pytest.FixtureRequest
    ) -> None:
        config = GenerationConfig(temperature=1.5, top_k=40)
        reply = alone(
            request.getfixturevalue(kind), words(20), new=90, seed=seed, config=config, grammar=FLAT
        )
        assert reply.ended.finish == "stop"
        assert json.loads(reply.text) in POSSIBLE
        assert len(reply.ids) == reply.ended.new_tokens
        assert 0.5 * reply.ended.new_tokens < reply.ended.forced_tokens < reply.ended.new_tokens

    def test_beside_others_it_is_what_it_is_alone(self, tiny_llama: Path) -> None:
        prompts = [words(5 + 13 * index, start=index) for index in range(6)]
        with Stepper(tiny_llama, slots=3) as stepper:
            bound = [stepper.add(prompt, new=90, grammar=FLAT) for prompt in prompts]
            free = [stepper.add(prompt, new=60) for prompt in prompts]
            stepper.finish()
            replies = [stepper.seen.of(request) for request in bound + free]
        for reply, prompt in zip(replies[:6], prompts, strict=True):
            assert json.loads(reply.text) in POSSIBLE
            assert reply.ids == alone(tiny_llama, prompt, new=90, grammar=FLAT).ids
        for reply, prompt in zip(replies[6:], prompts, strict=True):
            assert reply.ids == alone(tiny_llama, prompt, new=60).ids

    def test_each_of_several_replies_is_bound(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, slots=2) as stepper:
            asked = stepper.add(words(30), new=90, n=3, grammar=FLAT)
            stepper.finish()
            for reply in stepper.seen.all_of(asked):
                assert json.loads(reply.text) in POSSIBLE

    @pytest.mark.parametrize("limit", [1, 2, 5, 9])
    def test_the_limit_holds_inside_a_forced_text(self, tiny_llama: Path, limit: int) -> None:
        reply = alone(tiny_llama, words(20), new=limit, grammar=FLAT)
        assert (reply.ended.finish, len(reply.ids)) == ("length", limit)
        assert json.dumps(POSSIBLE[0]).startswith(reply.text)

    def test_a_stop_string_is_found_inside_a_forced_text(self, tiny_llama: Path) -> None:
        reply = alone(tiny_llama, words(20), new=90, grammar=FLAT, stop=("of the",))
        assert (reply.ended.finish, reply.ended.stop_match) == ("stop_string", "of the")
        assert reply.text == '{"colour '

    @pytest.mark.parametrize("wish", [{"logprobs": 1}, {"logit_bias": {5: -1.0}}])
    def test_nothing_is_forced_where_what_is_sampled_matters(self, tiny_llama: Path, wish: dict) -> None:
        config = GenerationConfig(temperature=0.0, **wish)
        reply = alone(tiny_llama, words(20), new=90, config=config, grammar=FLAT)
        assert json.loads(reply.text) in POSSIBLE
        assert reply.ended.forced_tokens == 0
        assert not config.logprobs or len(reply.logprobs) == len(reply.ids)

    def test_penalties_see_what_was_forced(self, tiny_llama: Path) -> None:
        grammar = Grammar('root ::= "aaaaaaaaaaaaaaaa" ("a" | "b")')
        config = GenerationConfig(temperature=0.0, repeat_penalty=1e6)
        assert alone(tiny_llama, words(20), config=config, new=30, grammar=grammar).text.endswith("b")

    def test_a_decode_that_is_taken_back_is_tried_again(self, tiny_llama: Path) -> None:
        codes = iter([0, 2, 0, 2, 2, 0, 2])

        def fault(batch) -> int:
            return next(codes, 0) if all(seq == 0 for seq in batch.seq_id[: batch.rows]) else 0

        with Stepper(tiny_llama, fault=fault) as stepper:
            reply = stepper.run(words(20), new=90, grammar=FLAT)
        assert reply.ids == alone(tiny_llama, words(20), new=90, grammar=FLAT).ids
        assert next(codes, None) is None

    def test_a_full_cache_ends_it_alone(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama, slots=2, fault=lambda batch: int(1 < batch.rows < 18)) as stepper:
            bound = stepper.add(words(20), new=90, grammar=FLAT)
            free = stepper.add(words(20), new=12)
            stepper.finish()
            assert stepper.seen.of(bound).ended.finish == "error"
            assert stepper.seen.of(free).ended.finish == "error"

    def test_cancelled_inside_a_forced_text_its_slot_holds_what_was_decoded(self, tiny_llama: Path) -> None:
        with Stepper(tiny_llama) as stepper:
            asked = stepper.add(words(20), new=90, grammar=FLAT)
            running = stepper.scheduler.running
            stepper.until(lambda: bool(running) and running[0].forced_tokens > 3)
            stepper.cancel(asked)
            assert stepper.seen.of(asked).ended.finish == "cancelled"
            assert stepper.run(words(22), new=8).ids == alone(tiny_llama, words(22), new=8).ids

    def test_a_spent_thought_is_closed_before_anything_is_forced(self, tiny_llama: Path) -> None:
        model = load(tiny_llama)
        grammar = Grammar('root ::= "</think>" "the same answer" [0-9]', lazy=True, triggers=("</think>",))
        closer = tuple(model.tokenize("</think>", parse_special=True))
        reply: Outcome = alone(
            tiny_llama,
            words(20),
            new=60,
            config=GREEDY,
            grammar=grammar,
            thought=ThoughtMarks("<think>", "</think>", open=True),
            thought_budget=ThoughtBudget(4, closer),
            shown_specials=None,
        )
        assert reply.ended.finish == "stop"
        assert reply.ended.forced_tokens > 3
        assert reply.text.split("</think>")[1].startswith("the same answer")
