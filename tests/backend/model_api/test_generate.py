from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend import ContextOverflowError, GenerationConfig, GenerativeModel, Request
from backend.prompt import PromptBuilder
from tests.backend.model_api.looks import prompt_fed

Opener = Callable[..., GenerativeModel]
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 12}


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


# ---- prompts -------------------------------------------------------------------------------


def test_42_a_prompt_is_one_user_message_where_there_is_a_template(tiny: GenerativeModel) -> None:
    assert tiny.generate("hello", **GREEDY) == tiny.generate(messages=user("hello"), **GREEDY)
    tiny.handle.pipeline().engine.forget()
    tiny.generate("hello", **GREEDY)
    assert tiny.tokenizer.decode(prompt_fed(tiny), skip_special_tokens=False) == tiny.render(user("hello"))


def test_43_a_prompt_is_raw_text_where_there_is_none(base: GenerativeModel) -> None:
    base.handle.pipeline().engine.forget()
    base.generate("the cat and<|im_end|>", **GREEDY)
    assert prompt_fed(base) == base.tokenizer.encode("the cat and<|im_end|>", special=True)


def test_43_an_empty_prompt_without_a_template_is_a_value_error(base: GenerativeModel) -> None:
    with pytest.raises(ValueError, match="prompt is empty"):
        base.generate("")


def test_44_messages_run_a_whole_conversation(tiny: GenerativeModel) -> None:
    turns = [*user("hello"), {"role": "assistant", "content": "hi"}, *user("again")]
    assert tiny.generate(messages=turns, **GREEDY) == tiny.chat(turns, **GREEDY)
    assert tiny.generate(messages=turns, **GREEDY) != tiny.generate("again", **GREEDY)


def test_44_prompt_and_messages_are_alternatives(tiny: GenerativeModel) -> None:
    for arguments in ({}, {"prompt": "a", "messages": user("b")}):
        for method in (tiny.generate, tiny.stream_generate):
            with pytest.raises(ValueError, match="either a prompt or messages"):
                method(**arguments)
    with pytest.raises(ValueError, match="messages is empty"):
        tiny.generate(messages=[])


def test_45_a_str_gives_a_str_and_a_list_a_list(tiny: GenerativeModel) -> None:
    one = tiny.generate("hello", **GREEDY)
    assert isinstance(one, str)
    several = tiny.generate(("hello", "the", "hello"), **GREEDY)
    assert several == [one, tiny.generate("the", **GREEDY), one]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_46_max_new_tokens_bounds_the_reply(tiny: GenerativeModel, count: int) -> None:
    tiny.generate("hello", temperature=0, max_new_tokens=count, ignore_eos=True)
    assert tiny.report is not None
    assert tiny.report.new_tokens == count
    assert tiny.report.finish == "length"


def test_46_unless_told_a_generation_stops_at_256(tiny: GenerativeModel) -> None:
    tiny.generate("hello", temperature=0, ignore_eos=True)
    assert tiny.report is not None
    assert tiny.report.new_tokens == 256


@pytest.mark.model
def test_47_greedy_repeats(starter: GenerativeModel) -> None:
    first = starter.generate("Name a fruit.", temperature=0, max_new_tokens=6)
    assert starter.generate("Name a fruit.", temperature=0, max_new_tokens=6) == first
    starter.handle.pipeline().engine.forget()
    assert starter.generate("Name a fruit.", temperature=0, max_new_tokens=6) == first
    assert len(first) > 10


def test_47_greedy_repeats_whatever_the_cache_holds(tiny: GenerativeModel) -> None:
    turns = [*user("hello"), {"role": "assistant", "content": "hi"}, *user("again")]
    tiny.handle.pipeline().engine.forget()
    cold = tiny.chat(turns, **GREEDY)
    for other in (turns[:1], [*turns[:2], *user("else")], user("the")):
        tiny.chat(other, **GREEDY)
        assert tiny.chat(turns, **GREEDY) == cold


@pytest.mark.parametrize("name", ["tiny_gemma3", "tiny_recurrent", "tiny_hybrid"])
def test_47_greedy_repeats_on_memories_that_cannot_be_cut(
    name: str, request: pytest.FixtureRequest, fresh: Opener
) -> None:
    model = fresh(request.getfixturevalue(name), max_seq=512)
    long = "hello you and the " * 10
    turns = [*user(long), {"role": "assistant", "content": "the"}, *user("again")]
    cold = [model.generate(long, **GREEDY), model.chat(turns, **GREEDY)]
    assert [model.generate(long, **GREEDY), model.chat(turns, **GREEDY)] == cold
    model.handle.pipeline().engine.forget()
    assert model.chat(turns, **GREEDY) == cold[1]


def test_48_an_override_applies_to_its_request_only(tiny: GenerativeModel) -> None:
    usual = tiny.generate("hello", seed=1, max_new_tokens=12)
    greedy = tiny.generate("hello", seed=1, temperature=0, max_new_tokens=12)
    assert tiny.generate("hello", seed=1, max_new_tokens=12) == usual != greedy
    tiny.generate("hello", max_new_tokens=2, temperature=0)
    tiny.generate("hello", temperature=0, ignore_eos=True, max_new_tokens=3)
    assert tiny.report is not None
    assert tiny.report.new_tokens == 3


def test_48_a_config_is_not_changed_by_its_use(tiny: GenerativeModel) -> None:
    config = {"temperature": 0.0, "stop": ["zz"]}
    tiny.generate("hello", config=config, max_new_tokens=2)
    assert config == {"temperature": 0.0, "stop": ["zz"]}


def test_49_the_report_tells_a_limit_from_an_end(tiny: GenerativeModel) -> None:
    end = tiny.eos_token_ids[0]
    text = tiny.generate("hello", temperature=0, logit_bias={end: 1000.0})
    assert tiny.report is not None
    assert (text, tiny.report.finish, tiny.report.new_tokens) == ("", "stop", 1)
    tiny.generate("hello", **GREEDY)
    assert tiny.report.finish == "length"
    assert tiny.report.prompt_tokens == len(tiny.tokenizer.encode(tiny.render(user("hello")), special=True))
    assert tiny.report.decode_s > 0
    assert tiny.report.tokens_per_second > 0
    assert tiny.report.time_to_first_token_s > 0


def test_50_the_pipeline_is_built_once(fresh: Opener) -> None:
    model = fresh()
    engine = model.pipeline.engine
    assert engine.counters().built == 0
    for _ in range(3):
        model.generate("hello", **GREEDY)
    assert model.pipeline.engine is engine
    assert engine.counters().built == 1
    assert model.report is not None
    assert model.report.reused_tokens > 0


def test_51_a_list_call_behaves_as_generate_batch(tiny: GenerativeModel) -> None:
    prompts = ["hello", "the", "and you"]
    batch = tiny.generate_batch(prompts, **GREEDY)
    tiny._reports = []
    assert tiny.generate(prompts, **GREEDY) == batch
    assert [report.text for report in tiny.reports] == batch
    assert tiny.generate(prompts, max_active=1, **GREEDY) == batch
    with pytest.raises(ValueError, match="max_active"):
        tiny.generate(prompts, max_active=0)


@pytest.mark.parametrize("media", ["images", "audio", "videos"])
def test_52_media_are_refused_rather_than_ignored(tiny: GenerativeModel, media: str) -> None:
    import numpy as np

    items: Any = [np.zeros((2, 2, 3), np.uint8)]
    for method in (tiny.generate, tiny.stream_generate):
        with pytest.raises(ValueError, match=f"{media}.*reads text only"):
            method("hello", **{media: items})
        with pytest.raises(ValueError, match=f"{media}.*reads text only"):
            method("hello", **{media: np.zeros((1, 2, 2, 3))})


# ---- sampling ------------------------------------------------------------------------------


def test_seeds_repeat_and_missing_ones_differ(tiny: GenerativeModel) -> None:
    def sampled(**options: Any) -> tuple[str, int]:
        text = tiny.generate("hello", temperature=1.0, max_new_tokens=24, **options)
        assert tiny.report is not None and isinstance(text, str)
        return text, tiny.report.seed

    assert sampled(seed=7) == sampled(seed=7)
    unseeded = [sampled() for _ in range(3)]
    assert len(dict(unseeded)) == 3
    text, seed = unseeded[0]
    assert sampled(seed=seed) == (text, seed)


@pytest.mark.parametrize("temperature", [None, 0, 0.9])
@pytest.mark.parametrize("seed", [None, 11])
def test_seed_and_temperature_are_used_as_given(
    tiny: GenerativeModel, temperature: float | None, seed: int | None
) -> None:
    found = tiny.explain(temperature=temperature, seed=seed)
    assert found["temperature"] == ((0.8, "library") if temperature is None else (temperature, "config"))
    assert found.get("seed") == (None if seed is None else (11, "config"))
    texts = {tiny.generate("hello", temperature=temperature, seed=n, max_new_tokens=16) for n in range(4)}
    assert (len(texts) == 1) == (temperature == 0)


def test_a_stop_string_ends_the_reply_before_it(tiny: GenerativeModel) -> None:
    whole = tiny.generate("hello you", temperature=0, max_new_tokens=40)
    assert isinstance(whole, str)
    start = next(i for i in range(8, len(whole) - 3) if whole.index(whole[i : i + 3]) == i)
    stop = whole[start : start + 3]
    for options in ({"stop": stop}, {"stop": ["never found", stop]}, {"config": {"stop": (stop,)}}):
        assert tiny.generate("hello you", temperature=0, max_new_tokens=40, **options) == whole[:start]
        assert tiny.report is not None
        assert (tiny.report.finish, tiny.report.stop_match) == ("stop_string", stop)


def test_logprobs_are_natural_logs_before_any_filter(tiny: GenerativeModel) -> None:
    tiny.generate("hello", temperature=0, max_new_tokens=4, logprobs=100)
    assert tiny.report is not None and tiny.report.logprobs is not None
    assert len(tiny.report.logprobs) == 4
    for chosen in tiny.report.logprobs:
        assert sum(math.exp(logprob) for _, _, logprob in chosen.top) == pytest.approx(1.0, abs=1e-3)
        assert chosen.top[0] == (chosen.id, chosen.text, chosen.logprob)
        assert [each[2] for each in chosen.top] == sorted((each[2] for each in chosen.top), reverse=True)
    tiny.generate("hello", temperature=0, max_new_tokens=2, logprobs=0)
    assert [entry.top for entry in tiny.report.logprobs or ()] == [(), ()]
    tiny.generate("hello", **GREEDY)
    assert tiny.report.logprobs is None


def test_a_forbidden_token_is_never_written(tiny: GenerativeModel) -> None:
    usual = next(iter(tiny.stream_generate("hello", decode=False, **GREEDY)))[0]
    for ids in tiny.stream_generate("hello", decode=False, logit_bias={usual: -math.inf}, **GREEDY):
        assert usual not in ids


def test_a_bias_beyond_the_vocabulary_is_refused(tiny: GenerativeModel) -> None:
    with pytest.raises(ValueError, match=r"logit_bias.*999999"):
        tiny.generate("hello", logit_bias={999_999: 5.0}, **GREEDY)


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 1},
        {"top_p": 0.0},
        {"min_p": 1.0},
        {"mirostat": 1},
        {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.2},
        {"typical_p": 0.5},
        {"top_n_sigma": 1.0},
        {"xtc_probability": 0.5, "xtc_threshold": 0.05},
        {"dynatemp_range": 0.5},
        {"repeat_penalty": 1.3, "repeat_last_n": -1},
        {"frequency_penalty": 0.5, "presence_penalty": -0.5},
        {"dry_multiplier": 0.8, "dry_base": 1.5, "dry_allowed_length": 1},
        {"temperature": 1e6},
        {"top_k": 10**6},
    ],
)
def test_every_sampler_setting_repeats_with_its_seed(tiny: GenerativeModel, options: dict[str, Any]) -> None:
    texts = [tiny.generate("hello", seed=3, max_new_tokens=12, **options) for _ in range(2)]
    assert texts[0] == texts[1]
    if options in ({"top_k": 1}, {"top_p": 0.0}, {"min_p": 1.0}):
        assert texts[0] == tiny.generate("hello", **GREEDY)


# ---- prompts that do not fit ---------------------------------------------------------------


def test_a_prompt_that_does_not_fit_is_an_error_with_both_counts(small: GenerativeModel) -> None:
    before = small.handle.pipeline().engine.counters().decoded_rows
    text = "hello you and the " * 100
    for ask in (
        lambda: small.generate(text),
        lambda: small.generate_batch(["a", text]),
        lambda: list(small.stream_generate(text)),
        lambda: small.chat(user(text)),
    ):
        with pytest.raises(ContextOverflowError) as caught:
            ask()
        error = caught.value
        assert error.needed == len(small.tokenizer.encode(small.render(user(text)), special=True))
        assert (error.available, error.max_seq) == (127, 128)
        assert str(error.needed) in str(error)
        assert str(error.max_seq) in str(error)
        assert "--ctx" in str(error)
        assert isinstance(error, ValueError)
    assert small.generate("short", **GREEDY)
    assert small.handle.pipeline().engine.counters().decoded_rows - before < 200


@pytest.mark.parametrize(("length", "new_tokens"), [(126, 2), (127, 1), (128, None)])
def test_the_reply_is_clamped_to_the_room_that_is_left(
    small: GenerativeModel, length: int, new_tokens: int | None
) -> None:
    def generate() -> Any:
        return small.generate("x" * length, raw=True, temperature=0, max_new_tokens=1000, ignore_eos=True)

    if new_tokens is None:
        with pytest.raises(ContextOverflowError, match="128 tokens"):
            generate()
        return
    assert generate()
    assert small.report is not None
    assert small.report.prompt_tokens == length
    assert (small.report.new_tokens, small.report.finish) == (new_tokens, "length")


def test_truncate_oldest_says_how_many_turns_it_dropped(small: GenerativeModel) -> None:
    turns = [{"role": "system", "content": "rule"}]
    for number in range(20):
        turns += [*user(f"question {number}"), {"role": "assistant", "content": f"answer {number}"}]
    turns += user("the last question")
    with pytest.raises(ContextOverflowError):
        small.chat(turns)
    small.handle.pipeline().engine.forget()
    small.chat(turns, overflow="truncate_oldest", max_new_tokens=2, temperature=0)
    assert small.report is not None
    kept = small.tokenizer.decode(prompt_fed(small))
    assert kept.startswith("system\nrule\nuser\nquestion")
    assert "the last question" in kept
    assert small.report.truncated % 2 == 0
    first_kept = small.report.truncated // 2
    assert f"question {first_kept}\n" in kept
    assert f"question {first_kept - 1}\n" not in kept
    # It drops in blocks of a quarter of the window: not an exchange more than that takes.
    assert small.report.prompt_tokens > 127 - 32 - 45


def test_truncate_oldest_leaves_what_fits_alone(small: GenerativeModel) -> None:
    small.chat(user("short"), overflow="truncate_oldest", max_new_tokens=2)
    assert small.report is not None
    assert small.report.truncated == 0


def test_truncate_oldest_never_drops_the_last_user_turn(small: GenerativeModel) -> None:
    turns = [*user("old"), {"role": "assistant", "content": "answer"}, *user("hello you " * 100)]
    alone = len(small.tokenizer.encode(small.render(turns[2:]), special=True))
    with pytest.raises(ContextOverflowError) as caught:
        small.chat(turns, overflow="truncate_oldest")
    assert caught.value.needed == alone


CALLS = (
    "{% for m in messages %}[{{ m.role }} {{ m.content }} {% for c in m.tool_calls or [] %}"
    "call={{ c.id }} {{ c.function.name }} {{ c.function.arguments }} {% endfor %}{{ m.tool_call_id }}]"
    "{% endfor %}"
)


def turns_of(shape: list[str]) -> list[dict[str, Any]]:
    """A conversation: each letter is an exchange, with none, one or two calls in it."""
    turns: list[dict[str, Any]] = [{"role": "system", "content": "S"}]
    for index, kind in enumerate(shape):
        turns.append({"role": "user", "content": f"u{index}"})
        ids = [f"c{index}x{number}" for number in range(int(kind))]
        if ids:
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": each, "type": "function", "function": function} for each in ids]
            turns.append({"role": "assistant", "content": "", "tool_calls": calls})
            turns += [{"role": "tool", "tool_call_id": each, "content": "found"} for each in ids]
        turns.append({"role": "assistant", "content": f"a{index}"})
    return turns


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.lists(st.sampled_from("0012"), min_size=1, max_size=8),
    budget=st.integers(2, 400),
    asks=st.booleans(),
)
def test_truncation_never_parts_a_call_from_its_result(
    tiny: GenerativeModel, shape: list[str], budget: int, asks: bool
) -> None:
    turns = turns_of(shape)
    if asks:
        turns.append({"role": "user", "content": "ulast"})
    template = type(tiny.handle.template)(CALLS, name="calls")
    builder = PromptBuilder(tiny.tokenizer, lambda: template, budget)
    request = Request(messages=turns)
    whole = builder.measure(request, GenerationConfig()).text
    try:
        prompt = builder.build(request, GenerationConfig(overflow="truncate_oldest"))
    except ContextOverflowError as err:
        assert err.needed >= budget
        return
    assert len(prompt.tokens) < budget
    kept = re.findall(r"\[[^\]]*\]", prompt.text)
    every = re.findall(r"\[[^\]]*\]", whole)
    assert len(every) - len(kept) == prompt.truncated
    assert kept[0].startswith("[system")
    assert kept[1].startswith("[user")
    assert kept[1:] == every[len(every) - len(kept) + 1 :]
    assert set(re.findall(r"call=(\S+)", prompt.text)) == set(
        re.findall(r"\[tool found (\S+)\]", prompt.text)
    )
    if prompt.truncated:  # Without what was dropped last, less than the block would be free.
        start = len(every) - len(kept)
        earlier = next(i for i in range(start - 1, -1, -1) if every[i + 1].startswith("[user") or i == 0)
        more = "".join([every[0], *every[earlier + 1 :]]) if earlier + 1 < start + 1 else whole
        assert len(tiny.tokenizer.encode(more, special=True)) >= budget - max(1, budget // 4)


def test_a_long_history_is_truncated_with_few_renders(small: GenerativeModel) -> None:
    turns = [
        turn for number in range(300) for turn in (*user(f"q{number}"), {"role": "assistant", "content": "a"})
    ]
    turns += user("last")
    renders = 0
    template = small.handle.template
    assert template is not None
    real = template.render_parts

    def counted(*arguments: Any, **options: Any) -> list[str]:
        nonlocal renders
        renders += 1
        return real(*arguments, **options)

    template.render_parts = counted  # type: ignore[method-assign]
    try:
        small.chat(turns, overflow="truncate_oldest", max_new_tokens=1)
    finally:
        del template.render_parts
    assert small.report is not None
    assert small.report.truncated > 500
    assert renders < 20
