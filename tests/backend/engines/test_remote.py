"""A model of a server as an engine: over a real connection to a server that says what a test wants."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.chat_engine import LoadSpec, Request
from backend.engines.anywhere import AnywhereEngine
from backend.engines.remote import RemoteEngine
from backend.engines.scripted import ScriptedEngine
from backend.engines.servers import Server, Servers
from backend.types import (
    ChatOutcome,
    EngineError,
    GenerationConfig,
    ModelLoadError,
    Piece,
    PrefillProgress,
    ReasoningPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
)
from tests.backend.engines.scripted_server import (
    DONE,
    USAGE,
    Reply,
    ScriptedServer,
    delta,
    frame,
    json_reply,
    says,
)

TURN = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("toy", "other") as made:
        yield made


_ENGINES: list[RemoteEngine] = []


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    """Every engine of a test is unloaded at its end."""
    yield
    while _ENGINES:
        await _ENGINES.pop().unload()


async def loaded(server: ScriptedServer, model: str = "", **fields: Any) -> RemoteEngine:
    one = Server((f"{server.url}/v1",), **fields)
    engine = RemoteEngine(Servers(chosen=one))
    _ENGINES.append(engine)
    await engine.load(LoadSpec(one.source_of(model)))
    return engine


async def answer(engine: RemoteEngine, request: Request | None = None, **config: Any) -> list[Piece]:
    request = request or Request(messages=TURN, config=GenerationConfig(**config))
    return [piece async for pieces in engine.submit(request) for piece in pieces]


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def outcome_of(pieces: list[Piece]) -> ChatOutcome:
    assert isinstance(pieces[-1], ChatOutcome)
    return pieces[-1]


async def test_a_reply_is_streamed_and_ends_with_its_outcome(server: ScriptedServer) -> None:
    server.chat(says("Hel", "lo ", "you"))
    engine = await loaded(server)
    pieces = await answer(engine)
    outcome = outcome_of(pieces)
    assert text_of(pieces) == outcome.text == "Hello you"
    assert (outcome.finish, outcome.prompt_tokens, outcome.new_tokens) == ("stop", 21, 5)
    assert server.bodies[0]["model"] == "toy" and server.bodies[0]["stream"] is True
    await engine.unload()
    assert engine.closed


async def test_the_first_model_is_used_or_the_named_one_and_no_other(server: ScriptedServer) -> None:
    assert (await loaded(server)).card.model_id == "toy"
    assert (await loaded(server, "other")).card.model_id == "other"
    with pytest.raises(ModelLoadError, match="has no model 'nobody'") as caught:
        await loaded(server, "nobody")
    assert "toy, other" in caught.value.remedy


async def test_a_thought_in_the_text_is_told_as_thought(server: ScriptedServer) -> None:
    server.chat(says("<th", "ink>\nso", "</thi", "nk>\n\nYes"))
    pieces = await answer(await loaded(server))
    thought = "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece))
    assert (thought, text_of(pieces)) == ("so", "Yes")


async def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    engine = RemoteEngine(Servers())
    with pytest.raises(ModelLoadError, match="cannot be reached: nothing answers there") as caught:
        await engine.load(LoadSpec("http://127.0.0.1:9"))
    assert caught.value.cause == "unreachable"
    assert engine.closed


async def test_what_is_not_known_is_said_to_be_unknown(server: ScriptedServer) -> None:
    card = (await loaded(server)).card
    assert (card.max_seq, card.parameters, card.quantization) == (0, 0, "")
    server.replies["/v1/models"] = [json_reply({"data": [{"id": "toy", "max_model_len": 4096}]})]
    assert (await loaded(server)).card.max_seq == 4096


# ---- what is sent --------------------------------------------------------------------------


async def test_settings_go_under_the_names_that_the_server_has(server: ScriptedServer) -> None:
    server.chat(says("x"))
    await answer(
        await loaded(server),
        max_new_tokens=5,
        temperature=0.0,
        stop=("a", "b"),
        seed=7,
        top_k=3,
        mirostat=2,
        json_schema={"type": "object"},
        enable_thinking=False,
        logit_bias={5: -float("inf")},
        tool_choice="auto",
    )
    sent = server.bodies[0]
    assert (sent["max_tokens"], sent["temperature"], sent["stop"], sent["seed"]) == (5, 0.0, ["a", "b"], 7)
    assert sent["top_k"] == 3 and "mirostat" not in sent and "tool_choice" not in sent
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert sent["chat_template_kwargs"]["enable_thinking"] is False
    assert sent["logit_bias"] == {"5": -100.0}


async def test_what_nobody_set_is_not_sent(server: ScriptedServer) -> None:
    server.chat(says("x"))
    await answer(await loaded(server))
    assert server.bodies[0].keys() == {"model", "messages", "stream", "stream_options"}


async def test_a_field_that_the_server_refuses_is_left_out_told_and_not_sent_again(
    server: ScriptedServer,
) -> None:
    refusal = json_reply({"error": {"message": "Unrecognized request argument supplied: top_k"}}, 400)
    server.chat(refusal, says("x"))
    engine = await loaded(server)
    outcome = outcome_of(await answer(engine, top_k=3, temperature=0.5))
    assert outcome.notes == ("The server does not take top_k, so it was left out.",)
    await answer(engine, top_k=3)
    assert [("top_k" in body, body.get("temperature")) for body in server.bodies] == [
        (True, 0.5),
        (False, 0.5),
        (False, None),
    ]


async def test_the_limit_goes_under_its_newer_name_where_the_server_wants_that(
    server: ScriptedServer,
) -> None:
    said = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
    )
    server.chat(json_reply({"error": {"message": said}}, 400), says("x"))
    outcome = outcome_of(await answer(await loaded(server), max_new_tokens=9))
    assert server.bodies[1]["max_completion_tokens"] == 9 and "max_tokens" not in server.bodies[1]
    assert outcome.notes == ()


async def test_a_schema_is_never_left_out(server: ScriptedServer) -> None:
    server.chat(json_reply({"error": {"message": "response_format is not supported"}}, 400))
    with pytest.raises(EngineError, match="response_format is not supported"):
        await answer(await loaded(server), json_schema={"type": "object"})
    assert len(server.bodies) == 1


async def test_an_answer_that_breaks_its_schema_is_told(server: ScriptedServer) -> None:
    server.chat(says('{"a": "x"}'))
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert outcome_of(await answer(await loaded(server), json_schema=schema)).schema_errors


async def test_calls_and_results_go_with_their_ids_and_thoughts_only_where_calls_are_open(
    server: ScriptedServer,
) -> None:
    server.chat(says("x"))
    call = {"id": "call_9", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    old = {"role": "assistant", "content": "a", "reasoning_content": "old"}
    asks = {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "new"}
    result = {"role": "tool", "tool_call_id": "call_9", "name": "f", "content": "7"}
    messages = [{"role": "user", "content": "q"}, old, {"role": "user", "content": "w"}, asks, result]
    await answer(await loaded(server), Request(messages=messages))
    assert server.bodies[0]["messages"] == [messages[0], {"role": "assistant", "content": "a"}, *messages[2:]]


async def test_raw_text_goes_to_completions(server: ScriptedServer) -> None:
    parts = [frame({"choices": [{"text": "<think>", "index": 0}]}), frame({"choices": [{"text": "b"}]})]
    ended = frame({"choices": [{"text": "", "finish_reason": "length"}]})
    server.replies["/v1/completions"] = [Reply([*parts, ended, DONE])]
    pieces = await answer(await loaded(server), Request(text="once"))
    assert server.bodies[0]["prompt"] == "once"
    assert (text_of(pieces), outcome_of(pieces).finish) == ("<think>b", "length")


async def test_several_replies_are_several_requests(server: ScriptedServer) -> None:
    server.chat(says("a"), says("b"), says("c"))
    pieces = await answer(await loaded(server), Request(messages=TURN, n=3))
    outcomes = [piece for piece in pieces if isinstance(piece, ChatOutcome)]
    assert sorted(one.reply for one in outcomes) == [0, 1, 2]
    assert sorted(one.text for one in outcomes) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "request_fields",
    [{"forced": "x"}, {"adapters": [("a.gguf", 1.0)]}, {"continue_reply": True}],
)
async def test_what_a_server_cannot_do_is_refused_in_words(
    server: ScriptedServer, request_fields: dict[str, Any]
) -> None:
    with pytest.raises(EngineError, match="A model on this server cannot"):
        await answer(await loaded(server), Request(messages=TURN, **request_fields))
    assert server.bodies == []


async def test_tokens_are_not_known_and_counts_are_estimates_that_learn(server: ScriptedServer) -> None:
    engine = await loaded(server)
    for ask in (engine.tokenize("x"), engine.detokenize([1])):
        with pytest.raises(EngineError, match="tokens of a model on a server are not known"):
            await ask
    messages = [{"role": "user", "content": "x" * 1000}]
    first = await engine.count(messages)
    assert not first.exact and 200 < first.tokens < 300
    usage = frame({"choices": [], "usage": {"prompt_tokens": 500, "completion_tokens": 1}})
    server.chat(Reply([delta(content="y"), delta("stop"), usage, DONE]))
    await answer(engine, Request(messages=messages))
    assert abs((await engine.count(messages)).tokens - 500) < 5
    shown = await engine.render(Request(messages=messages))
    assert shown.tokens is None and not shown.exact and "xxx" in shown.text


# ---- what arrives --------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thoughts_have_a_field_of_their_own(server: ScriptedServer, field: str) -> None:
    server.chat(Reply([delta(**{field: "so"}), delta(content="<think>Yes"), delta("stop"), DONE]))
    pieces = await answer(await loaded(server))
    assert (outcome_of(pieces).reasoning, text_of(pieces)) == ("so", "<think>Yes")


async def test_a_thought_that_is_sent_under_both_names_is_told_once(server: ScriptedServer) -> None:
    server.chat(
        Reply([delta(reasoning_content="so", reasoning="so"), delta(content="Yes"), delta("stop"), DONE])
    )
    assert outcome_of(await answer(await loaded(server))).reasoning == "so"


async def test_parts_of_a_content_are_read(server: ScriptedServer) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]},
        {"type": "text", "text": "Yes"},
    ]
    server.chat(Reply([delta(content=parts), delta("stop"), DONE]))
    outcome = outcome_of(await answer(await loaded(server)))
    assert (outcome.reasoning, outcome.text) == ("so", "Yes")


@pytest.mark.parametrize(
    ("words", "thought", "text"),
    [
        (["<think>a</think>b"], "a", "b"),
        (["  \n<think>\n", "a", "\n</think>", "\n\n", "b"], "a\n", "b"),
        (["<think>a"], "a", ""),
        (["<think>", "a</", "b</thin", "k>c"], "a</b", "c"),
        (["a <think>b</think>"], "", "a <think>b</think>"),
        (["<thinking about it"], "", "<thinking about it"),
        (["<thi"], "", "<thi"),
        (["<think></think>", "x"], "", "x"),
        ([" ", "x"], "", " x"),
    ],
)
async def test_an_inline_thought_is_told_apart(
    server: ScriptedServer, words: list[str], thought: str, text: str
) -> None:
    server.chat(says(*words))
    pieces = await answer(await loaded(server))
    outcome = outcome_of(pieces)
    assert (outcome.reasoning, outcome.text, text_of(pieces)) == (thought, text, text)
    kept = outcome_of(await answer(await loaded(server), reasoning_format="none"))
    assert kept.text == "".join(words)


def tool_delta(*calls: dict[str, Any], finish: str | None = None) -> bytes:
    return delta(finish, tool_calls=list(calls))


def part(
    index: int | None = None, arguments: Any = None, name: str = "", call_id: str = ""
) -> dict[str, Any]:
    function = {
        key: value for key, value in (("name", name), ("arguments", arguments)) if value not in (None, "")
    }
    about = {"index": index, "id": call_id or None, "function": function}
    return {key: value for key, value in about.items() if value is not None}


@pytest.mark.parametrize(
    "chunks",
    [
        # by index, as OpenAI does
        [
            [part(0, "", "f", "c1")],
            [part(0, '{"a"')],
            [part(0, ": 1}")],
            [part(1, '{"b": ', "g", "c2")],
            [part(1, "2}")],
        ],
        # whole, with and without indexes
        [[part(0, '{"a": 1}', "f", "c1"), part(1, '{"b": 2}', "g", "c2")]],
        [[part(None, '{"a": 1}', "f", "c1"), part(None, '{"b": 2}', "g", "c2")]],
        # arguments as an object
        [[part(0, {"a": 1}, "f", "c1")], [part(1, {"b": 2}, "g", "c2")]],
        # all of them under index 0
        [[part(0, '{"a": 1}', "f", "c1")], [part(0, '{"b": 2}', "g", "c2")]],
        # interleaved
        [[part(0, '{"a"', "f", "c1"), part(1, '{"b"', "g", "c2")], [part(0, ": 1}"), part(1, ": 2}")]],
        # without indexes, in pieces
        [[part(None, '{"a"', "f", "c1")], [part(None, ": 1}")], [part(None, '{"b": 2}', "g", "c2")]],
        # the name in each piece, and the whole once more at the end
        [
            [part(0, '{"a": 1', "f", "c1")],
            [part(0, "}", "f", "c1")],
            [part(1, '{"b": 2}', "g", "c2")],
            [part(0, '{"a": 1}', "f", "c1")],
        ],
    ],
)
async def test_calls_are_read_however_they_are_cut(
    server: ScriptedServer, chunks: list[list[dict[str, Any]]]
) -> None:
    server.chat(Reply([*(tool_delta(*chunk) for chunk in chunks), delta("tool_calls"), DONE]))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    pieces = await answer(await loaded(server), Request(messages=TURN, tools=[tool]))
    outcome = outcome_of(pieces)
    assert [(call.id, call.name, call.arguments) for call in outcome.tool_calls] == [
        ("c1", "f", {"a": 1}),
        ("c2", "g", {"b": 2}),
    ]
    assert outcome.finish == "tool_calls" and server.bodies[0]["tools"] == [tool]
    assert [piece for piece in pieces if isinstance(piece, ToolCall)] == list(outcome.tool_calls)
    for index, call in enumerate(outcome.tool_calls):
        told = [one for one in pieces if isinstance(one, ToolCallPiece) and one.index == index]
        assert "".join(one.arguments_delta for one in told) == call.raw_arguments
        assert {one.name for one in told} == {call.name}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [('{"a": ', "not valid JSON"), ("[1]", "not a JSON object"), ("x", "not valid JSON"), ("", None)],
)
async def test_a_call_that_is_written_wrongly_says_so(
    server: ScriptedServer, arguments: str, error: str | None
) -> None:
    server.chat(Reply([tool_delta(part(0, arguments, "f")), delta("stop"), DONE]))
    [call] = outcome_of(await answer(await loaded(server))).tool_calls
    assert call.arguments == {} and call.id.startswith("call_")
    assert call.error is None if error is None else error in (call.error or "")


async def test_a_server_that_does_not_stream_is_read_too(server: ScriptedServer) -> None:
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "so", "tool_calls": None}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    server.chat(json_reply({"choices": [{"message": message, "finish_reason": "length"}], "usage": usage}))
    outcome = outcome_of(await answer(await loaded(server)))
    assert (outcome.text, outcome.reasoning, outcome.finish) == ("Hi", "so", "length")
    assert (outcome.prompt_tokens, outcome.new_tokens, outcome.reused_tokens) == (3, 2, 1)


@pytest.mark.parametrize(
    "chunks",
    [
        [delta(content="Hi"), DONE],
        [delta(content="Hi"), delta("stop")],
        [delta(content="Hi"), delta("stop")[:-1]],
        [delta(content="Hi"), delta("stop"), b"data: [DONE]"],
        [b": wait\n\n", delta(content="Hi"), b"event: ping\ndata:\n\n", delta("stop"), DONE, b"junk"],
        [delta(content="Hi", role="assistant"), frame({}), frame({"choices": []}), delta("eos"), DONE],
        [delta(content="Hi"), frame([]), frame("7"), frame('"x"'), delta("stop"), DONE],
        [delta(content="Hi"), frame({"choices": [{"delta": None, "finish_reason": "stop"}]})],
        [
            delta(content="H"),
            frame({"choices": [{"index": 0, "delta": {"content": 7}}]}),
            delta(content="i"),
            DONE,
        ],
    ],
)
@pytest.mark.parametrize("chunked", [True, False])
async def test_streams_end_as_servers_end_them(
    server: ScriptedServer, chunks: list[bytes], chunked: bool
) -> None:
    server.chat(Reply(chunks, chunked=chunked))
    outcome = outcome_of(await answer(await loaded(server)))
    assert (outcome.text, outcome.finish) == ("Hi", "stop")


async def test_a_stream_that_stays_open_behind_its_end_is_not_waited_for(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.engines.remote.REST_S", 0.05)
    server.chat(Reply([delta(content="Hi"), delta("stop"), threading.Event()]))
    assert outcome_of(await answer(await loaded(server))).text == "Hi"
    server.chat(Reply([delta(content="Hi"), DONE, threading.Event()]))
    assert outcome_of(await answer(await loaded(server))).text == "Hi"


WHOLE = b"".join([delta(content="grün \u2028 "), delta(content="😀"), delta("stop"), USAGE, DONE])


@given(st.lists(st.integers(0, len(WHOLE)), max_size=6))
@settings(max_examples=30)
def test_bytes_may_be_cut_anywhere(cuts: list[int]) -> None:
    places = sorted(cuts)
    parts = [WHOLE[a:b] for a, b in zip([0, *places], [*places, len(WHOLE)], strict=True)]

    async def check() -> None:
        with ScriptedServer("toy") as server:
            server.chat(Reply(parts))
            engine = await loaded(server)
            try:
                assert outcome_of(await answer(engine)).text == "grün \u2028 😀"
            finally:
                await engine.unload()

    asyncio.run(check())


async def test_halves_of_a_character_in_two_pieces_become_one(server: ScriptedServer) -> None:
    def half(text: str) -> bytes:
        return b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % text.encode()

    server.chat(Reply([half("a\\ud83d"), half("\\ude00b\\ud83d"), delta("stop"), DONE]))
    pieces = await answer(await loaded(server))
    assert text_of(pieces) == outcome_of(pieces).text == "a😀b\ufffd"


async def test_logprobs_are_read(server: ScriptedServer) -> None:
    token = {"token": "Hi", "logprob": -0.5, "top_logprobs": [{"token": "Ho", "logprob": -1}]}
    chunk = frame({"choices": [{"delta": {"content": "Hi"}, "logprobs": {"content": [token]}}]})
    server.chat(Reply([chunk, delta("stop"), DONE]))
    outcome = outcome_of(await answer(await loaded(server), logprobs=1))
    assert outcome.logprobs and outcome.logprobs[0].text == "Hi"
    assert outcome.logprobs[0].top == ((-1, "Ho", -1.0),)
    assert (server.bodies[0]["logprobs"], server.bodies[0]["top_logprobs"]) == (True, 1)


async def test_how_far_a_prompt_is_read_is_told_where_the_server_tells_it() -> None:
    with ScriptedServer("toy", owned_by="llamacpp") as server:
        progress = frame({"choices": [], "prompt_progress": {"total": 100, "cache": 20, "processed": 60}})
        server.chat(Reply([progress, delta(content="x"), delta("stop"), DONE]))
        server.replies["/props"] = [
            json_reply({"default_generation_settings": {"n_ctx": 2048}, "modalities": {"vision": True}})
        ]
        engine = await loaded(server)
        assert (engine.card.max_seq, engine.card.supports_vision) == (2048, True)
        pieces = await answer(engine)
        assert pieces[0] == PrefillProgress(60, 100, 20)
        assert server.bodies[0]["return_progress"] is True
        await engine.unload()


async def test_what_was_refused_once_is_no_trouble_where_it_is_not_asked_for(server: ScriptedServer) -> None:
    said = "Unsupported parameter: 'max_tokens'. Unknown field: reasoning_content"
    server.chat(json_reply({"error": {"message": said}}, 400), says("x"))
    engine = await loaded(server)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asks = {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": "so"}
    result = {"role": "tool", "tool_call_id": "c", "content": "7"}
    request = Request(messages=[*TURN, asks, result], config=GenerationConfig(max_new_tokens=5))
    assert outcome_of(await answer(engine, request)).text == "x"
    assert server.bodies[1]["max_completion_tokens"] == 5
    assert "reasoning_content" not in server.bodies[1]["messages"][1]
    assert outcome_of(await answer(engine)).notes == ()
    server.replies["/v1/completions"] = [says("y")]
    assert outcome_of(await answer(engine, Request(text="raw"))).finish == "stop"


async def test_a_reply_is_continued_where_the_kind_of_server_can() -> None:
    with ScriptedServer("toy", owned_by="vllm", max_model_len=100) as server:
        server.chat(says("more"))
        engine = await loaded(server)
        messages = [*TURN, {"role": "assistant", "content": "half "}]
        request = Request(messages=messages, continue_reply=True, add_generation_prompt=False)
        assert text_of(await answer(engine, request)) == "more"
        sent = server.bodies[0]
        assert sent["continue_final_message"] is True and sent["add_generation_prompt"] is False


async def test_what_ollama_tells_of_a_model_is_used() -> None:
    with ScriptedServer("toy", owned_by="library") as server:
        about = {"capabilities": ["completion", "vision", "tools"], "parameters": "stop x\nnum_ctx   8192"}
        server.replies["/api/show"] = [json_reply(about)]
        card = (await loaded(server)).card
        assert (card.max_seq, card.supports_vision, card.supports_tools) == (8192, True, True)
        assert (card.supports_thinking, card.reasoning_mode) == (False, "never")
        server.replies["/api/show"] = [json_reply({"error": "x"}, 404)]
        assert (await loaded(server)).card.max_seq == 0


async def test_the_settings_know_better_than_the_server(server: ScriptedServer) -> None:
    card = (await loaded(server, context=1234, vision=True, tools=False)).card
    assert (card.max_seq, card.supports_vision, card.supports_tools) == (1234, True, False)
    engine = RemoteEngine(Servers())
    _ENGINES.append(engine)
    assert (await engine.load(LoadSpec(server.url, {"max_seq": 512, "slots": 4}))).max_seq == 512


async def test_who_named_a_server_is_answered_by_no_model_of_this_machine(server: ScriptedServer) -> None:
    chosen = Server((f"{server.url}/v1",))
    local = ScriptedEngine()
    engine = AnywhereEngine(lambda: local, Servers(chosen=chosen))
    assert engine.closed
    assert (await engine.load(LoadSpec(None))).model_id == "toy"
    assert (await engine.load(LoadSpec("mine"))).model_id == "mine" and engine.card.server == ""
    await engine.load(LoadSpec(server.url))
    assert local.closed and engine.card.server
    await engine.unload()
    assert engine.closed


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "registry.ollama.ai/library/toy does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (500, "tools param requires --jinja flag"),
        (404, "No endpoints found that support tool use."),
        (400, "The chat template of toy has no way to call tools."),
    ],
)
async def test_tools_that_a_model_cannot_call_are_left_out_and_told(
    server: ScriptedServer, status: int, said: str
) -> None:
    server.chat(json_reply({"error": {"message": said}}, status), says("x"))
    engine = await loaded(server)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    assert engine.card.supports_tools
    outcome = outcome_of(await answer(engine, Request(messages=TURN, tools=[tool])))
    assert outcome.notes == ("The model on this server cannot call tools, so none were offered.",)
    assert ["tools" in body for body in server.bodies] == [True, False]
    assert not engine.card.supports_tools


async def test_a_call_that_has_to_be_is_never_left_out(server: ScriptedServer) -> None:
    server.chat(json_reply({"error": {"message": "toy does not support tools"}}, 400))
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    config = GenerationConfig(tool_choice="required")
    with pytest.raises(EngineError, match="does not support tools"):
        await answer(await loaded(server), Request(messages=TURN, tools=[tool], config=config))
