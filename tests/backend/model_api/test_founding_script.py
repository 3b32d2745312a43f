"""A script as somebody writes it who has read the page of the model API and nothing else."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fireside
from fireside import (
    ChatCard,
    ChatOutcome,
    ChatSession,
    ContextOverflowError,
    GenerationConfig,
    GenerationReport,
    GenerativeModel,
    ModelLoadError,
    PrefillProgress,
    QueueFullError,
    ReasoningPiece,
    StageEvent,
    TextPiece,
    ToolCall,
    ToolCallPiece,
    load,
)
from tests.backend.model_api.test_formats import HI, NEVER, WEATHER, load_with

GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 6}
KEYWORD = inspect.Parameter.KEYWORD_ONLY
MEDIA: dict[str, Any] = {"images": (), "audio": (), "videos": ()}
TURN: dict[str, Any] = {"stream": False, "config": None, **MEDIA, "tools": None}


@pytest.fixture(scope="module")
def model(tiny_llama: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    with load(str(tiny_llama), threads=1) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def caller(tiny_llama: Path, native_log_folder: None) -> Iterator[GenerativeModel]:
    """A model whose template writes calls."""
    with load_with(tiny_llama, NEVER) as loaded:
        yield loaded


# ---- names, fields, signatures --------------------------------------------------------------

NAMES = """
load GenerativeModel ChatSession GenerationConfig GenerationReport ChatOutcome ChatCard ToolCall StageEvent
TextPiece ReasoningPiece ToolCallPiece PrefillProgress HeldPiece TokenLogprob ModelLoadError
ContextOverflowError QueueFullError EngineError BackendError TemplateError
""".split()

FIELDS: dict[type, str] = {
    GenerationConfig: """max_new_tokens temperature top_k top_p min_p typical_p top_n_sigma xtc_probability
        xtc_threshold dynatemp_range mirostat mirostat_tau mirostat_eta repeat_penalty repeat_last_n
        frequency_penalty presence_penalty dry_multiplier dry_base dry_allowed_length logit_bias seed stop
        grammar json_schema tool_choice parallel_tool_calls enable_thinking reasoning_effort
        reasoning_budget reasoning_format prompt_lookup_num_tokens num_assistant_tokens logprobs ignore_eos
        lora overflow""",
    GenerationReport: """finish prompt_tokens reused_tokens new_tokens reasoning_tokens queue_s prefill_s
        decode_s time_to_first_token_s tokens_per_second drafted_tokens accepted_tokens stop_match seed
        truncated logprobs""",
    ChatOutcome: "finish text reasoning tool_calls",
    ChatCard: """model_id architecture parameters quantization max_seq supports_tools supports_thinking
        supports_vision supports_audio supports_video reasoning_mode tool_call_format max_active max_queued
        devices""",
    ToolCall: "id name arguments raw_arguments error",
    StageEvent: "stage request_id tokens duration_s text",
}

PROPERTIES: dict[type, str] = {
    GenerativeModel: """assistant_model card compute_dtype defaults eos_token_ids has_chat_template
        kv_cache_mode local_dir max_seq reasoning_mode report reports residency supports_audio
        supports_speculative_decoding supports_thinking supports_tools supports_video supports_vision
        template_renders_tools tokenizer tool_call_format vocab_size""",
    ChatSession: "card closed engine report tool_calls",
}

SIGNATURES: list[tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]] = [
    (GenerativeModel.generate, ("prompt",), {"messages": None, "config": None, **MEDIA, "max_active": None}),
    (GenerativeModel.generate_batch, ("prompts",), {"config": None, "max_active": None}),
    (
        GenerativeModel.stream_generate,
        ("prompt",),
        {"messages": None, "config": None, **MEDIA, "skip_special_tokens": True, "decode": True},
    ),
    (GenerativeModel.chat, ("messages",), TURN),
    (
        GenerativeModel.render,
        ("messages",),
        {"add_generation_prompt": True, "tools": None, "config": None},
    ),
    (GenerativeModel.conversation_text, ("messages",), {}),
    (GenerativeModel.set_assistant, ("model",), {}),
    (GenerativeModel.set_stage_observer, ("callback",), {}),
    (GenerativeModel.close, (), {}),
    (
        ChatSession.__init__,
        ("model",),
        {
            "system": None,
            "model_id": "",
            "max_active": 1,
            "max_queued": 256,
            "default_budget": 256,
            "tools": None,
        },
    ),
    (ChatSession.send, ("content",), TURN),
    (ChatSession.respond, (), {"stream": False, "config": None, "tools": None}),
    (ChatSession.complete, ("messages",), TURN),
    (ChatSession.add_tool_result, ("call_id", "content"), {"name": ""}),
    (ChatSession.reset, (), {"keep_system": True}),
    (ChatSession.close, (), {}),
]
LOAD: dict[str, Any] = {
    "n_gpu_layers": "auto",
    "max_seq": None,
    "kv_cache_mode": None,
    "kv_cache_type": None,
    "flash_attn": "auto",
    "compute_dtype": None,
    "assistant_model": None,
    "mmproj": None,
    "lora": (),
    "chat_template": None,
    "threads": None,
    "main_gpu": 0,
    "tensor_split": None,
    "mmap": True,
    "mlock": False,
    "slots": None,
    "tool_call_format": None,
    "progress": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(fireside, name).__name__ == name
    assert name in dir(fireside)


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_every_value_has_the_fields_of_the_table(kind: type) -> None:
    fields = [field.name for field in dataclasses.fields(kind)]
    assert set(FIELDS[kind].split()) <= set(fields)
    if kind is GenerationConfig:
        assert all(value is None for value in dataclasses.asdict(GenerationConfig()).values())
    else:
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("method", "positional", "keywords"),
    SIGNATURES,
    ids=lambda each: getattr(each, "__qualname__", str(each))[:60],
)
def test_every_method_takes_what_its_signature_says(
    method: Callable[..., Any], positional: tuple[str, ...], keywords: dict[str, Any]
) -> None:
    parameters = inspect.signature(method).parameters
    given = [name for name, found in parameters.items() if found.kind is found.POSITIONAL_OR_KEYWORD]
    assert tuple(given) == ("self", *positional)
    named = {name: found.default for name, found in parameters.items() if found.kind is KEYWORD}
    assert named | keywords == named


def test_load_takes_every_keyword_of_the_page_at_its_default(tiny_llama: Path) -> None:
    with load(tiny_llama, **LOAD) as loaded:
        assert loaded.assistant_model is None


def test_the_properties_of_the_page_are_there_and_cannot_be_set(model: GenerativeModel) -> None:
    with model.chat_session() as chat:
        for owner, kind in ((model, GenerativeModel), (chat, ChatSession)):
            for name in PROPERTIES[kind].split():
                getattr(owner, name)
                with pytest.raises(AttributeError):
                    setattr(owner, name, None)
        assert chat.messages == []


# ---- the example of the page ----------------------------------------------------------------


def test_the_example_runs_as_it_stands(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tiny_llama.parent)
    model = load(tiny_llama.name)
    print(model.generate("Say hello.", max_new_tokens=32, temperature=0))
    with model.chat_session(system="You are terse.") as chat:
        print(chat.send("hi"))
        for piece in chat.send("and now?", stream=True):
            print(piece, end="", flush=True)
    assert chat.closed
    assert [turn["role"] for turn in chat.messages] == [
        "system", "user", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert capsys.readouterr().out.endswith(chat.messages[-1]["content"])
    model.close()


def test_facts_of_a_text_model(model: GenerativeModel, tiny_llama: Path) -> None:
    assert model.local_dir == tiny_llama.resolve().parent
    assert model.vocab_size > 0
    assert model.max_seq > 0
    assert model.has_chat_template
    assert model.compute_dtype == "undefined"
    assert model.kv_cache_mode is None
    assert (model.supports_vision, model.supports_audio, model.supports_video) == (False, False, False)
    assert model.reasoning_mode in ("never", "always", "toggleable", "opt_in", "adaptive")
    assert model.supports_thinking == (model.reasoning_mode != "never")
    assert model.card.model_id == tiny_llama.stem
    assert isinstance(model.defaults, GenerationConfig)
    assert set(model.residency) >= {"devices", "pipeline", "notes"}
    assert set(model.residency["devices"][0]) >= {
        "name", "kind", "weights_bytes", "kv_cache_bytes", "compute_bytes", "layers",
    }  # fmt: skip
    assert set(model.residency["pipeline"]) == {"kv_cache_bytes", "slots", "context"}
    assert json.loads(json.dumps(model.residency)) == model.residency


def test_12_13_nothing_is_built_before_the_first_request(tiny_llama: Path) -> None:
    with load(tiny_llama, threads=1) as model:
        assert model.report is None
        assert model.reports == []
        assert model.residency["pipeline"]["kv_cache_bytes"] == 0
        model.generate("hello", **GREEDY)
        assert model.report is not None
        assert model.residency["pipeline"]["kv_cache_bytes"] > 0


def test_the_tokenizer_goes_there_and_back(model: GenerativeModel) -> None:
    ids = model.tokenizer.encode("hello 🌿")
    assert model.tokenizer.decode(ids) == "hello 🌿"
    assert b"".join(map(model.tokenizer.piece, ids)) == "hello 🌿".encode()
    decoder = model.tokenizer.streaming_decoder()
    pieces = [decoder.push([token]) for token in ids]
    assert "".join(pieces) + decoder.flush() == "hello 🌿"
    assert model.tokenizer.decode(model.tokenizer.encode("<|im_end|>", special=True)) == ""


# ---- generating -----------------------------------------------------------------------------


def test_36_38_config_and_keywords(model: GenerativeModel) -> None:
    config = GenerationConfig(**GREEDY)
    assert model.generate("hello", config=config) == model.generate("hello", config=config.as_dict())
    model.generate("hello", config=config, max_new_tokens=2)
    assert model.report is not None
    assert (model.report.finish, model.report.new_tokens) == ("length", 2)
    assert model.explain(config)["temperature"] == (0, "config")


def test_45_51_53_to_56_a_list_is_a_batch_in_order(model: GenerativeModel) -> None:
    prompts = ["hello", "you", "hello"]
    replies = model.generate(prompts, **GREEDY)
    assert replies == model.generate_batch(prompts, max_active=1, **GREEDY)
    assert [report.text for report in model.reports] == replies
    assert model.report == model.reports[-1]
    assert model.generate([]) == []


def test_59_60_streams(model: GenerativeModel) -> None:
    text = model.generate("hello", **GREEDY)
    assert "".join(model.stream_generate("hello", **GREEDY)) == text
    ids = [token for step in model.stream_generate("hello", decode=False, **GREEDY) for token in step]
    assert model.tokenizer.decode(ids) == text
    kinds = {type(piece) for piece in model.chat(HI, stream="events", **GREEDY)}
    assert {PrefillProgress, TextPiece, ChatOutcome} <= kinds
    assert kinds <= {PrefillProgress, TextPiece, ChatOutcome, ReasoningPiece}


def test_99_stages(tiny_llama: Path) -> None:
    with load(tiny_llama, threads=1) as model:
        seen: list[StageEvent] = []
        model.set_stage_observer(seen.append)
        text = model.generate("hello", **GREEDY)
        assert [event.stage for event in seen] == ["tokenize", "prefill", "decode", "detokenize"]
        assert seen[-1].text == text
        model.set_stage_observer(None)
        model.generate("hello", **GREEDY)
        assert len(seen) == 4


# ---- calls ----------------------------------------------------------------------------------


def test_70_86_88_89_a_call_and_its_result(caller: GenerativeModel) -> None:
    tools, before = [WEATHER], copy.deepcopy(WEATHER)
    must: dict[str, Any] = {"tool_choice": "required", "temperature": 0, "max_new_tokens": 300}
    with caller.chat_session(tools=tools) as chat:
        *texts, call = chat.send("Weather?", stream=True, **must)
        assert all(isinstance(text, str) for text in texts)
        assert isinstance(call, ToolCall)
        assert (call.name, call.error) == ("weather", None)
        assert chat.tool_calls == (call,)
        assert chat.report is not None
        assert chat.report.finish == "tool_calls"
        message = chat.messages[-1]["tool_calls"][0]
        assert message == call.to_message()
        assert json.loads(message["function"]["arguments"]) == call.arguments
        chat.add_tool_result(call.id, "sunny")
        assert chat.messages[-1] == {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        assert isinstance(chat.respond(tools=[], **GREEDY), str)
        assert chat.tool_calls == ()
        events = list(chat.send("Again?", stream="events", **must))
        written = "".join(event.arguments_delta for event in events if isinstance(event, ToolCallPiece))
        (called,) = [event for event in events if isinstance(event, ToolCall)]
        assert json.loads(written) == called.arguments
    assert before == WEATHER


# ---- refusals -------------------------------------------------------------------------------


def test_a_load_that_fails_has_a_cause_and_a_remedy(tmp_path: Path, tiny_llama: Path) -> None:
    (tmp_path / "text.gguf").write_text("no model at all, but a text of some length")
    (tmp_path / "cut.gguf").write_bytes(tiny_llama.read_bytes()[:20_000])
    for source, cause in ((tmp_path / "none.gguf", "not_found"), (tmp_path / "text.gguf", "not_gguf")):
        with pytest.raises(ModelLoadError) as raised:
            load(source)
        assert raised.value.cause == cause
        assert raised.value.remedy
    with pytest.raises(ModelLoadError) as raised:
        load(tmp_path / "cut.gguf")
    assert raised.value.cause == "truncated"
    with pytest.raises(ModelLoadError) as raised:
        load(tiny_llama, progress=lambda fraction: False)
    assert raised.value.cause == "cancelled"


REFUSED: dict[str, tuple[Callable[[GenerativeModel], Any], str]] = {
    "an unknown field": (lambda m: m.generate("a", temprature=1), "temprature"),
    "a value out of range": (lambda m: m.generate("a", top_p=2), "top_p must be between 0 and 1"),
    "an unknown load setting": (lambda m: load("x", gpu=1), "unknown load setting: 'gpu'"),
    "an unknown cache": (lambda m: load("x", kv_cache_mode="paper"), "kv_cache_mode"),
    "an unknown dtype": (lambda m: load("x", compute_dtype="f8"), "compute_dtype"),
    "prompt and messages": (lambda m: m.generate("a", messages=HI), "either a prompt or messages"),
    "neither": (lambda m: m.generate(), "either a prompt or messages"),
    "no messages": (lambda m: m.chat([]), "messages is empty"),
    "a picture": (lambda m: m.generate("a", images=[1]), "reads text only"),
    "sound in a chat": (lambda m: m.chat(HI, audio=[1]), "reads text only"),
    "a video in a session": (lambda m: m.chat_session().send("a", videos=[1]), "reads text only"),
    "tools": (lambda m: m.chat(HI, tools=[WEATHER]), "no tool-call format"),
    "tools of a session": (lambda m: m.chat_session(tools=[WEATHER]), "no tool-call format"),
    "an effort": (lambda m: m.render(HI, reasoning_effort="huge"), "reasoning_effort must be one of"),
    "speculation": (lambda m: m.generate("a", prompt_lookup_num_tokens=4), "speculative decoding"),
    "vectors": (lambda m: m.embed(["a"]), "makes no embeddings"),
    "a late assistant": (lambda m: (m.generate("a", **GREEDY), m.set_assistant(m)), "too late"),
    "grammar and schema": (lambda m: m.generate("a", grammar="x", json_schema={}), "cannot be combined"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_a_value_error_that_says_so(model: GenerativeModel, name: str) -> None:
    ask, told = REFUSED[name]
    with pytest.raises(ValueError, match=told):
        ask(model)


def test_96_an_assistant_that_does_not_match_is_named(
    tiny_llama: Path, tiny_llama_spm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        load(tiny_llama, threads=1) as model,
        load(tiny_llama_spm, threads=1) as other,
        load(tiny_llama, threads=1, max_seq=64) as shorter,
        load(tiny_llama, threads=1) as same,
    ):
        with pytest.raises(ValueError, match=r"vocabulary has [0-9]+ tokens, this one [0-9]+"):
            model.set_assistant(other)
        monkeypatch.setattr(other.handle.model, "n_vocab", model.vocab_size)
        with pytest.raises(ValueError, match=r"another vocabulary: token [0-9]+ is"):
            model.set_assistant(other)
        with pytest.raises(ValueError, match="context has 64 tokens"):
            model.set_assistant(shorter)
        elsewhere = dataclasses.replace(same.handle.plan.devices[0], name="GPU 7")
        plan = dataclasses.replace(same.handle.plan, devices=(elsewhere,))
        with monkeypatch.context() as patch:
            patch.setattr(same.handle, "plan", plan)
            with pytest.raises(ValueError, match="on another device: GPU 7"):
                model.set_assistant(same)
        model.set_assistant(same)
        assert model.assistant_model is same
        model.set_assistant(None)
        assert model.assistant_model is None


def test_91_a_closed_session_says_so_and_closing_twice_is_harmless(model: GenerativeModel) -> None:
    chat = model.chat_session()
    chat.close()
    chat.close()
    assert chat.closed
    for turn in (lambda: chat.send("a"), lambda: chat.complete(HI), lambda: chat.send("a", stream=True)):
        with pytest.raises(ValueError, match="closed"):
            turn()


def test_94_a_full_queue_refuses(model: GenerativeModel) -> None:
    with model.chat_session(max_queued=0) as chat:
        running = chat.send("a", stream=True, temperature=0, max_new_tokens=200, ignore_eos=True)
        next(running)
        with pytest.raises(QueueFullError):
            chat.send("b", stream=True)
        running.close()
    assert issubclass(QueueFullError, RuntimeError)


def test_a_prompt_that_does_not_fit_says_by_how_much(tiny_llama: Path) -> None:
    with load(tiny_llama, threads=1, max_seq=64) as model:
        with pytest.raises(ContextOverflowError) as raised:
            model.generate("hello " * 200)
        assert isinstance(raised.value, ValueError)
        assert raised.value.needed > raised.value.available
        assert raised.value.max_seq == 64
        turns = [{"role": role, "content": "hello you"} for role in ("user", "assistant") * 6]
        model.chat([*turns, *HI], overflow="truncate_oldest", max_new_tokens=2)
        assert model.report is not None
        assert model.report.truncated > 0


def test_a_model_without_a_template(tiny_base: Path) -> None:
    with load(tiny_base, threads=1) as base:
        assert not base.has_chat_template
        assert not base.supports_tools
        assert base.conversation_text(HI) == "user: hi\nassistant:"
        with pytest.raises(ValueError, match="conversation_text"):
            base.render(HI)
        assert isinstance(base.generate("hello", **GREEDY), str)
