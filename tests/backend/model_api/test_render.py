from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from backend import GenerationConfig, GenerativeModel, TemplateError
from backend.chat.renderer import Renderer
from tests.backend.model_api.looks import prompt_fed

Opener = Callable[..., GenerativeModel]
TURNS = [
    {"role": "system", "content": "Be terse."},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "hi"},
    {"role": "user", "content": "and you"},
]
CLOSED = (
    "<|im_start|>system\nBe terse.<|im_end|>\n<|im_start|>user\nhello<|im_end|>\n"
    "<|im_start|>assistant\nhi<|im_end|>\n<|im_start|>user\nand you<|im_end|>\n"
)
OPENED = CLOSED + "<|im_start|>assistant\n"
SWITCHED = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + "
    "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}"
    "{% endif %}{% endif %}"
)


def test_26_render_is_the_templates_output_with_the_turn_opened(tiny: GenerativeModel) -> None:
    assert tiny.render(TURNS) == OPENED
    assert tiny.render(TURNS, add_generation_prompt=False) == CLOSED


def test_26_a_model_without_a_template_renders_nothing(base: GenerativeModel) -> None:
    with pytest.raises(ValueError, match=r"no chat template; conversation_text\(\)"):
        base.render(TURNS)


def test_26_a_template_of_the_load_replaces_the_files(fresh: Opener) -> None:
    model = fresh(chat_template="{{ messages[0].content }}!")
    assert model.render([{"role": "user", "content": "hello"}]) == "hello!"


def test_26_a_template_that_refuses_raises_a_template_error(fresh: Opener) -> None:
    model = fresh(chat_template="{{ raise_exception('only poems') }}")
    with pytest.raises(TemplateError, match="only poems"):
        model.render(TURNS)
    with pytest.raises(TemplateError, match="only poems"):
        model.generate("hello")


def test_26_a_broken_template_is_compiled_once_and_told_each_time(
    fresh: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    make = Renderer.__init__

    def counting(self: Renderer, source: str, **options: Any) -> None:
        compiled.append(source)
        make(self, source, **options)

    monkeypatch.setattr(Renderer, "__init__", counting)
    model = fresh(chat_template="{% if %} of a template of this test")
    assert model.card.kind == "chat"
    assert not model.card.supports_tools
    for _ in range(2):
        with pytest.raises(TemplateError, match="given chat template"):
            model.render(TURNS)
    assert len(compiled) == 1


@pytest.mark.parametrize("bad", [{"content": "no role"}, {"role": "user", "content": 5}])
def test_26_a_message_that_is_none_is_a_value_error(tiny: GenerativeModel, bad: Any) -> None:
    for ask in (tiny.render, tiny.chat):
        with pytest.raises(ValueError, match=r"needs a role|Content must be"):
            ask([bad])


def test_29_the_callers_messages_are_not_changed(tiny: GenerativeModel) -> None:
    turns: list[dict[str, Any]] = [
        *TURNS,
        {"role": "assistant", "content": None, "reasoning_content": "hm", "name": "x"},
        {"role": "user", "content": [{"type": "text", "text": "<|im_end|>"}]},
    ]
    before = copy.deepcopy(turns)
    tiny.render(turns)
    tiny.conversation_text(turns)
    tiny.chat(turns, max_new_tokens=2)
    assert turns == before


def test_36_a_keyword_wins_over_the_config_and_the_config_over_the_default(fresh: Opener) -> None:
    model = fresh(chat_template=SWITCHED)
    opened, closed = OPENED, OPENED + "<think>\n\n</think>\n\n"
    assert model.render(TURNS) == opened
    assert model.render(TURNS, config={"enable_thinking": False}) == closed
    assert model.render(TURNS, config={"enable_thinking": True}, enable_thinking=False) == closed
    assert model.render(TURNS, config={"enable_thinking": False}, enable_thinking=True) == opened


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temprature", 1.0),
        ("temperature", -1),
        ("top_p", 1.5),
        ("max_new_tokens", 0),
        ("max_new_tokens", 2.5),
        ("seed", -1),
        ("top_k", True),
        ("min_p", float("nan")),
        ("top_k", float("inf")),
        ("seed", float("nan")),
        ("stop", 5),
        ("stop", ""),
        ("logit_bias", {"x": 1}),
        ("reasoning_format", "loud"),
        ("overflow", "maybe"),
        ("enable_thinking", 1),
    ],
)
def test_36_an_unknown_name_or_impossible_value_is_named(
    tiny: GenerativeModel, name: str, value: Any
) -> None:
    options = {name: value}
    for ask in (
        lambda: tiny.render(TURNS, **options),
        lambda: tiny.generate("hello", **options),
        lambda: tiny.generate("hello", config=options),
        lambda: tiny.stream_generate("hello", **options),
    ):
        with pytest.raises(ValueError, match=name):
            ask()


def test_38_a_mapping_and_a_config_with_the_same_fields_render_the_same(fresh: Opener) -> None:
    model = fresh(chat_template=SWITCHED)
    fields = {"enable_thinking": False, "temperature": 0.5}
    assert model.render(TURNS, config=fields) == model.render(TURNS, config=GenerationConfig(**fields))
    assert model.render(TURNS, config=fields).endswith("</think>\n\n")


@pytest.mark.parametrize("name", ["tiny", "spm"])
def test_39_generating_feeds_the_text_that_render_gives(
    name: str, request: pytest.FixtureRequest, fresh: Opener
) -> None:
    model: GenerativeModel = request.getfixturevalue(name)
    model.handle.pipeline().engine.forget()
    model.generate(messages=TURNS, max_new_tokens=3)
    expected = model.tokenizer.encode(model.render(TURNS), special=True)
    assert prompt_fed(model)[-len(expected) :] == expected
    assert len(prompt_fed(model)) - len(expected) == (name == "spm")  # Its BOS.


def test_40_with_a_template_conversation_text_is_the_rendering(tiny: GenerativeModel) -> None:
    assert tiny.conversation_text(TURNS) == tiny.render(TURNS)


def test_41_without_one_it_is_lines_with_the_assistants_turn_opened(base: GenerativeModel) -> None:
    expected = "system: Be terse.\nuser: hello\nassistant: hi\nuser: and you\nassistant:"
    assert base.conversation_text(TURNS) == expected
    base.handle.pipeline().engine.forget()
    base.chat(TURNS, max_new_tokens=2)
    assert base.tokenizer.decode(prompt_fed(base)) == expected
