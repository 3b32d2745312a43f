"""Every public callable of the model API with every kind of wrong value: what comes is a sentence of ours."""

from __future__ import annotations

import asyncio
import dataclasses
import linecache
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend import (
    BackendError,
    ChatSession,
    GenerationConfig,
    GenerativeModel,
    InProcessEngine,
    Request,
    load,
)
from backend.chat_session import SESSION_OPTIONS
from backend.load_options import LoadOptions

ROOT = Path(__file__).parents[3]
HI = [{"role": "user", "content": "hello"}]
ONE: dict[str, Any] = {"max_new_tokens": 1}
MEDIA = ("images", "audio", "videos")

NUMBERS: list[Any] = [5, -1, 2.5, float("nan"), float("inf"), 10**400, -(10**400), True, 1j]
TEXTS: list[Any] = ["", "text", "\ud800", "x\0y", b"x", Path("x")]
LISTS: list[Any] = [[], [5], [None], [[]], [{}], ["a", 5], [b"x"], (1, 2), {1, 2}, range(3)]
OTHERS: list[Any] = [None, {}, {"a": 1}, {5: 5}, object(), dict, len]
WRONG = [*NUMBERS, *TEXTS, *LISTS, *OTHERS]


def raises_of_ours(call: Callable[[], Any], where: str) -> bool:
    """Whether a call failed; with an error that nobody of ours raised on purpose the test fails."""
    try:
        if isinstance(found := call(), Iterator):
            list(found)
    except BackendError:
        return True
    except (ValueError, TypeError) as err:
        last = err.__traceback__
        while last and last.tb_next:
            last = last.tb_next
        assert last is not None
        file = last.tb_frame.f_code.co_filename
        told = f"{where}: {type(err).__name__}: {err} ({file}:{last.tb_lineno})"
        assert type(err) in (ValueError, TypeError), told
        assert file.startswith(str(ROOT / "backend")), told
        assert "raise" in linecache.getline(file, last.tb_lineno), told
        assert re.search(r"\w \w+ \w", str(err)), told
        assert len(str(err)) < 400, told
        return True
    return False


@pytest.fixture(scope="module")
def model(tiny_llama: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    with load(tiny_llama, threads=1, max_seq=128) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def chat(model: GenerativeModel) -> Iterator[ChatSession]:
    with model.chat_session() as session:
        yield session


Call = Callable[[GenerativeModel, ChatSession, Any], Any]
CALLS: dict[str, Call] = {
    "generate(prompt)": lambda m, c, v: m.generate(v, **ONE),
    "generate(messages)": lambda m, c, v: m.generate(messages=v, **ONE),
    "generate_batch(prompts)": lambda m, c, v: m.generate_batch(v, **ONE),
    "stream_generate(prompt)": lambda m, c, v: m.stream_generate(v, **ONE),
    "stream_generate(messages)": lambda m, c, v: m.stream_generate(messages=v, **ONE),
    "chat(messages)": lambda m, c, v: m.chat(v, **ONE),
    "render(messages)": lambda m, c, v: m.render(v),
    "conversation_text": lambda m, c, v: m.conversation_text(v),
    "embed": lambda m, c, v: m.embed(v),
    "set_assistant": lambda m, c, v: m.set_assistant(v),
    "check": lambda m, c, v: m.check(v),
    "answer": lambda m, c, v: m.answer(v),
    "explain": lambda m, c, v: m.explain(v),
    "GenerativeModel": lambda m, c, v: GenerativeModel(v),
    "ChatSession": lambda m, c, v: ChatSession(v),
    "chat_session(unknown)": lambda m, c, v: m.chat_session(unknown=v),
    "send(content)": lambda m, c, v: c.send(v, **ONE),
    "complete(messages)": lambda m, c, v: c.complete(v, **ONE),
    "add_tool_result(call_id)": lambda m, c, v: c.add_tool_result(v, "text"),
    "add_tool_result(content)": lambda m, c, v: c.add_tool_result("id", v),
    "add_tool_result(name)": lambda m, c, v: c.add_tool_result("id", "text", name=v),
    "reset(keep_system)": lambda m, c, v: c.reset(keep_system=v),
    "encode": lambda m, c, v: m.tokenizer.encode(v),
    "encode(special)": lambda m, c, v: m.tokenizer.encode("a", special=v),
    "decode": lambda m, c, v: m.tokenizer.decode(v),
    "decode(skip_special_tokens)": lambda m, c, v: m.tokenizer.decode([1], skip_special_tokens=v),
    "piece": lambda m, c, v: m.tokenizer.piece(v),
    "push": lambda m, c, v: m.tokenizer.streaming_decoder().push(v),
    "streaming_decoder": lambda m, c, v: m.tokenizer.streaming_decoder(skip_special_tokens=v),
    "load(source)": lambda m, c, v: load(v),
    "GenerationConfig.of": lambda m, c, v: GenerationConfig.of(v),
    "an edited history": lambda m, c, v: (c.messages.__setitem__(slice(None), [v]), c.send("a", **ONE)),
    "engine.submit": lambda m, c, v: asyncio.run(submit(m, v)),
    "engine.render": lambda m, c, v: asyncio.run(InProcessEngine(m).render(v)),
    "engine.count": lambda m, c, v: asyncio.run(InProcessEngine(m).count(v)),
    "engine.count(tools)": lambda m, c, v: asyncio.run(InProcessEngine(m).count(HI, v)),
    "engine.tokenize": lambda m, c, v: asyncio.run(InProcessEngine(m).tokenize(v)),
    "engine.detokenize": lambda m, c, v: asyncio.run(InProcessEngine(m).detokenize(v)),
    "engine.warm": lambda m, c, v: asyncio.run(InProcessEngine(m).warm(v)),
}


async def submit(model: GenerativeModel, request: Any) -> list[Any]:
    return [pieces async for pieces in InProcessEngine(model).submit(request)]


def keyword(method: str, name: str, *args: Any) -> Call:
    def call(model: GenerativeModel, chat: ChatSession, value: Any) -> Any:
        owner = chat if method in ("send", "respond", "complete") else model
        if method == "respond":
            chat.messages[:] = [dict(turn) for turn in HI]
        settings = {} if method in ("render", "chat_session") else ONE
        found = getattr(owner, method)(*args, **{**settings, name: value})
        if isinstance(found, ChatSession):
            found.close()
        return found

    return call


def of_request(name: str) -> Call:
    def call(model: GenerativeModel, chat: ChatSession, value: Any) -> Any:
        base: dict[str, Any] = {"messages": None if name == "text" else HI, "config": GenerationConfig(**ONE)}
        return asyncio.run(submit(model, Request(**{**base, name: value})))

    return call


for method, first, names in (
    ("generate", ("a",), (*MEDIA, "config", "max_active", "raw")),
    ("generate", (["a"],), ("config", "max_active", "raw")),
    ("generate_batch", (["a"],), ("config", "max_active", "raw")),
    ("stream_generate", ("a",), (*MEDIA, "config", "skip_special_tokens", "decode", "raw", "stream")),
    ("chat", (HI,), (*MEDIA, "stream", "config", "tools")),
    ("render", (HI,), ("add_generation_prompt", "tools", "config")),
    ("send", ("a",), (*MEDIA, "stream", "config", "tools")),
    ("respond", (), ("stream", "config", "tools")),
    ("complete", (HI,), (*MEDIA, "stream", "config", "tools")),
    ("chat_session", (), tuple(sorted(SESSION_OPTIONS))),
):
    for name in names:
        CALLS[f"{method}({type(first[0]).__name__ if first else ''}, {name}=)"] = keyword(
            method, name, *first
        )
for field in dataclasses.fields(GenerationConfig):
    CALLS[f"generate({field.name}=)"] = keyword("generate", field.name, "a")
for field in dataclasses.fields(LoadOptions):
    CALLS[f"load({field.name}=)"] = lambda m, c, v, name=field.name: LoadOptions(**{name: v})
for field in dataclasses.fields(Request):
    CALLS[f"Request({field.name}=)"] = of_request(field.name)


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_a_sentence_of_ours(model: GenerativeModel, chat: ChatSession, name: str) -> None:
    chat.messages.clear()
    refused = 0
    for value in WRONG:
        chat.messages[:] = chat.messages[:2]
        refused += raises_of_ours(
            lambda value=value: CALLS[name](model, chat, value), f"{name} {value!r:.40}"
        )
    assert refused > 3
    chat.reset()
    assert chat.send("still there", **ONE) is not None


NAMED: list[tuple[str, Any, str]] = [
    ("generate(str, config=)", 5, "config must be a GenerationConfig or a mapping of its fields, not int"),
    ("generate(grammar=)", 5, "grammar must be the text of a GBNF grammar, not int"),
    ("generate(tool_choice=)", 5, "tool_choice must be auto, required, none, the name of a tool or"),
    ("generate(temperature=)", 10**400, "temperature is too large"),
    ("generate_batch(list, max_active=)", -1, "max_active must be at least 1, not -1"),
    ("generate(str, max_active=)", -1, "max_active must be at least 1, not -1"),
    ("chat_session(, max_active=)", None, "max_active must be a whole number, not None"),
    ("chat_session(, max_queued=)", -1, "max_queued must be at least 0, not -1"),
    ("chat_session(unknown)", 5, "unknown setting of a chat session: 'unknown'"),
    ("generate(str, images=)", None, "images must be a list, not NoneType|images must be a list, not None"),
    ("add_tool_result(content)", 5, "Content must be text or a list of parts, not int"),
    ("add_tool_result(content)", None, "content must be the text that the tool gave, not None"),
    ("add_tool_result(call_id)", "", "call_id is empty"),
    ("send(content)", None, "send needs something to say"),
    ("set_assistant", 5, "assistant_model must be a loaded model, not int"),
    ("embed", ["a"], "makes no embeddings"),
    ("load(lora=)", ["x"], "lora must be a list of pairs of a file and a scale"),
    ("load(tensor_split=)", 5, "tensor_split must be a list of numbers, not int"),
    ("load(max_seq=)", 0, "max_seq must be at least 1, not 0"),
    ("decode", "text", "ids must be a list of token ids, not str"),
    ("encode", 5, "text must be text, not int"),
]


@pytest.mark.parametrize(("name", "value", "told"), NAMED, ids=lambda each: str(each)[:40])
def test_the_sentence_names_the_argument(
    model: GenerativeModel, chat: ChatSession, name: str, value: Any, told: str
) -> None:
    chat.reset()
    with pytest.raises((ValueError, TypeError), match=told):
        CALLS[name](model, chat, value)
    assert chat.messages == []


@pytest.mark.parametrize("callback", [5, "text", [], {}])
def test_99_an_observer_is_a_function(model: GenerativeModel, callback: Any) -> None:
    with pytest.raises(ValueError, match="callback must be a function or None"):
        model.set_stage_observer(callback)


@pytest.mark.parametrize("texts", [None, "one text", [5], b"x", {"a"}, [None], [["a"]]])
def test_an_embedding_model_takes_a_list_of_texts(tiny_embedding: Path, texts: Any) -> None:
    with load(tiny_embedding, threads=1) as loaded:
        with pytest.raises(ValueError, match="texts"):
            loaded.embed(texts)
        assert loaded.embed([]) == []


@pytest.mark.parametrize(("name", "value"), [("assistant_model", 5), ("progress", "x"), ("most_cells", -1)])
def test_the_other_keywords_of_load_are_checked_before_a_file_is_read(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        load("no such file", **{name: value})
