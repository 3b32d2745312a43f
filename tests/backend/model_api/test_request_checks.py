"""What a caller may not hand over, and what it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fireside
from backend import ChatSession, ContextOverflowError, GenerativeModel, InProcessEngine, Request, load
from backend.chat_engine import LoadSpec
from backend.request_checks import check_tools

HI = [{"role": "user", "content": "hello"}]
GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 4}


def weather(city: str) -> str:
    """The weather.

    Args:
        city: Where.
    """
    return city


@pytest.fixture
def chat(tiny: GenerativeModel) -> Iterator[ChatSession]:
    with tiny.chat_session() as session:
        yield session


def ways(model: GenerativeModel, chat: ChatSession) -> list[Callable[..., Any]]:
    return [
        model.chat,
        lambda messages: model.generate(messages=messages),
        lambda messages: model.stream_generate(messages=messages),
        model.render,
        model.conversation_text,
        chat.complete,
    ]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        (5, "messages must be a list of turns"),
        ("hi", "messages must be a list of turns"),
        (HI[0], "messages must be a list of turns"),
        ([5], r"messages\[0\] must be a mapping"),
        ([*HI, "hi"], r"messages\[1\] must be a mapping"),
        ([*HI, {"content": "x"}], r"needs a role, and messages\[1\] has none"),
        ([{"role": 1, "content": "x"}], "needs a role"),
        ([{"role": "user", "content": 5}], "Content must be text"),
        ([{"role": "user", "content": b"x"}], "Content must be text"),
        ([{"role": "user", "content": [5]}], "A content part must be"),
        ([{"role": "assistant", "tool_calls": 5}, *HI], "tool_calls of messages.0. must be a list"),
        ([{"role": "assistant", "tool_calls": [5]}, *HI], "A call in tool_calls of messages.0."),
    ],
)
def test_a_conversation_that_is_none_is_a_sentence(
    tiny: GenerativeModel, chat: ChatSession, messages: Any, reason: str
) -> None:
    for ask in ways(tiny, chat):
        with pytest.raises(ValueError, match=reason):
            ask(messages)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": "x"},
        {"type": "image"},
        {"type": "input_audio", "input_audio": {"data": ""}},
        {"type": "video", "video": "x.mp4", "text": "words"},
    ],
)
def test_52_pictures_and_sounds_in_any_turn_are_refused(
    tiny: GenerativeModel, chat: ChatSession, part: dict[str, Any]
) -> None:
    content = [{"type": "text", "text": "What is this?"}, part]
    for messages in ([{"role": "user", "content": content}], [{"role": "tool", "content": content}, *HI]):
        for ask in ways(tiny, chat):
            with pytest.raises(ValueError, match=f"text only.*{part['type']}"):
                ask(messages)
    with pytest.raises(ValueError, match="text only"):
        chat.send(content)
    chat.messages.append({"role": "user", "content": content})
    with pytest.raises(ValueError, match="text only"):
        chat.respond()


async def test_52_a_chat_engine_refuses_media_too(tiny: GenerativeModel) -> None:
    engine = InProcessEngine()
    await engine.load(LoadSpec(str(tiny.handle.info.path), {"threads": 1}))
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]
    with pytest.raises(ValueError, match="text only"):
        await anext(engine.submit(Request(messages=messages)))
    for ask in (engine.count, engine.warm):
        with pytest.raises(ValueError, match="text only"):
            await ask(messages)
    await engine.unload()


def test_text_parts_are_read_as_their_text(tiny: GenerativeModel) -> None:
    parts = [{"type": "text", "text": "hel"}, "lo"]
    assert tiny.render([{"role": "user", "content": parts}]) == tiny.render(HI)


@pytest.mark.parametrize("tools", [[weather], [lambda x: x], [5], ["weather"], 5, weather, {"name": "x"}])
def test_what_is_no_tool_definition_names_the_way_to_make_one(
    tiny: GenerativeModel, chat: ChatSession, tools: Any
) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: tiny.chat(HI, tools=tools),
        lambda: tiny.render(HI, tools=tools),
        lambda: chat.send("hello", tools=tools),
        lambda: chat.respond(tools=tools),
        lambda: chat.complete(HI, tools=tools),
        lambda: tiny.chat_session(tools=tools),
    ]
    for ask in asks:
        with pytest.raises(ValueError, match=r"fireside\.tool_definition"):
            ask()
    assert chat.messages == []


def test_a_definition_made_of_a_function_is_one() -> None:
    definition = fireside.tool_definition(weather)
    assert check_tools([definition]) == (definition,)
    assert definition["function"]["name"] == "weather"


@pytest.mark.parametrize("tool", [{"function": 5}, {"name": "x", "parameters": 5}])
def test_a_definition_of_wrong_parts_is_a_value_error(tiny: GenerativeModel, tool: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tools\[0\]: (function|parameters) must be"):
        tiny.chat(HI, tools=[tool])


@pytest.mark.parametrize("source", [5, b"/x", ["a"]])
def test_a_source_that_is_no_path_is_a_value_error(source: Any) -> None:
    with pytest.raises(ValueError, match="source must be a path"):
        load(source)


@pytest.mark.parametrize("prompt", [5, b"hello", ["hello", 5], {"a": 1}])
def test_a_prompt_that_is_no_text_is_a_value_error(tiny: GenerativeModel, prompt: Any) -> None:
    with pytest.raises(ValueError, match=r"prompts?(\[1\])? must be text"):
        tiny.generate(prompt)
    with pytest.raises(ValueError, match="prompt must be text"):
        tiny.stream_generate(prompt)


def test_an_unknown_way_to_stream_is_a_value_error(tiny: GenerativeModel, chat: ChatSession) -> None:
    asks: list[Callable[[Any], Any]] = [
        lambda stream: tiny.chat(HI, stream=stream),
        lambda stream: tiny.stream_generate("hello", stream=stream),
        lambda stream: chat.send("hello", stream=stream),
        lambda stream: chat.respond(stream=stream),
        lambda stream: chat.complete(HI, stream=stream),
    ]
    for ask in asks:
        with pytest.raises(ValueError, match="stream must be one of"):
            ask("foo")


def test_a_session_says_nothing_for_none(chat: ChatSession) -> None:
    with pytest.raises(ValueError, match="send needs something to say"):
        chat.send(None)  # type: ignore[arg-type]
    assert chat.messages == []


def test_a_session_is_reset_whatever_its_history_was_edited_to(chat: ChatSession) -> None:
    chat.messages.append({"content": "a turn without a role"})
    with pytest.raises(ValueError, match="needs a role"):
        chat.send("hello")
    chat.reset()
    assert chat.messages == []
    assert isinstance(chat.send("hello", **GREEDY), str)


def test_an_error_in_a_batch_says_which_prompt(small: GenerativeModel) -> None:
    with pytest.raises(ContextOverflowError, match=r"^Prompt 2 of 3: The prompt has") as caught:
        small.generate_batch(["hello", "hello you " * 200, "hello"], **GREEDY)
    assert caught.value.max_seq == 128
    with pytest.raises(ContextOverflowError, match=r"^The prompt has"):
        small.generate(["hello you " * 200], **GREEDY)
