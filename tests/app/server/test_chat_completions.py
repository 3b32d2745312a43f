"""Chat completions, asked for by OpenAI's own client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import openai
import pytest
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel

from app.server.serving import Server
from backend.engines.scripted import ScriptedEngine
from backend.types import (
    ContextOverflowError,
    ReasoningPiece,
    TextPiece,
    TokenLogprob,
    ToolCall,
    ToolCallPiece,
)
from tests.app.server.conftest import client_of, http_of

Scripted = Callable[..., tuple[Server, ScriptedEngine]]
HELLO: Any = [{"role": "user", "content": "hello"}]


def function(name: str, **properties: Any) -> Any:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def test_a_reply_and_its_stream_are_the_same_text(tiny_server: Server) -> None:
    client = client_of(tiny_server)
    asked: Any = {"model": "tiny", "messages": HELLO, "max_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True))
    assert whole.choices[0].message.content == "".join(
        chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices
    )
    assert whole.usage is not None and whole.usage.completion_tokens == 12
    assert whole.model == "tiny" and whole.object == "chat.completion"
    assert {chunk.id for chunk in chunks} == {chunks[0].id} != {whole.id}


def test_only_the_last_chunk_of_a_stream_says_why_it_ended(tiny_server: Server) -> None:
    stream = client_of(tiny_server).chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=5, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert set(reasons[:-1]) == {None} and reasons[-1] in ("length", "stop")
    last = [chunk for chunk in chunks if chunk.choices][-1].choices[0].delta
    assert last.content is None and last.role is None
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens <= 5
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_several_replies_are_told_apart(tiny_server: Server) -> None:
    client = client_of(tiny_server)
    whole = client.chat.completions.create(model="tiny", messages=HELLO, max_tokens=4, n=3, seed=7)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(
        model="tiny", messages=HELLO, max_tokens=4, n=3, seed=7, stream=True
    ):
        texts[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices]


def test_a_seed_and_a_stop_text_do_what_they_say(tiny_server: Server) -> None:
    create = client_of(tiny_server).chat.completions.create
    asked: Any = {"model": "tiny", "messages": HELLO, "max_tokens": 16}
    one, two = (create(**asked, seed=-3).choices[0].message.content for _ in range(2))
    assert one == two
    assert one
    stopped = create(**asked, seed=-3, stop=[one[4:6]]).choices[0]
    assert stopped.message.content == one[: one.index(one[4:6])]
    assert stopped.finish_reason == "stop"


def test_probabilities_come_with_each_token(tiny_server: Server) -> None:
    choice = (
        client_of(tiny_server)
        .chat.completions.create(
            model="tiny", messages=HELLO, max_tokens=5, temperature=0, logprobs=True, top_logprobs=3
        )
        .choices[0]
    )
    assert choice.logprobs is not None and choice.logprobs.content
    assert len(choice.logprobs.content) == 5
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 3 and token.logprob <= 0
        assert token.logprob == max(one.logprob for one in token.top_logprobs)
        assert bytes(token.bytes or ()).decode() == token.token


class Answer(BaseModel):
    kind: Literal["cat", "dog"]
    good: bool


def test_an_answer_fits_the_model_that_a_client_parses_it_with(tiny_server: Server) -> None:
    parsed = client_of(tiny_server).chat.completions.parse(
        model="tiny", messages=HELLO, response_format=Answer, max_tokens=60, seed=1
    )
    choice = parsed.choices[0]
    assert choice.finish_reason == "stop"
    assert isinstance(choice.message.parsed, Answer)


def test_an_answer_is_any_object_where_a_client_wants_one(scripted: Scripted) -> None:
    server, engine = scripted(['{"a": 1}'])
    answer = client_of(server).chat.completions.create(
        model="scripted", messages=HELLO, response_format={"type": "json_object"}
    )
    assert json.loads(answer.choices[0].message.content or "") == {"a": 1}
    assert engine.requests[0].config.json_schema == {"type": "object"}


CALLS = (
    ToolCall("abcdefghi", "add", {"a": 1, "b": 2}, '{"a": 1, "b": 2}'),
    ToolCall("123456789", "look", {"q": "é"}, '{"q": "é"}'),
)


def written(*calls: ToolCall) -> list[Any]:
    """The pieces of calls, a few characters at a time."""
    pieces: list[Any] = []
    for index, call in enumerate(calls):
        pieces.append(ToolCallPiece(index, call.name, ""))
        raw = call.raw_arguments
        pieces += [ToolCallPiece(index, call.name, raw[at : at + 3]) for at in range(0, len(raw), 3)]
    return [*pieces, *calls]


def test_calls_are_whole_and_numbered_in_a_stream_too(scripted: Scripted) -> None:
    server, engine = scripted(["Let me see.", *written(*CALLS)], ["Let me see.", *written(*CALLS)])
    tools = [
        function("add", a={"type": "integer"}, b={"type": "integer"}),
        function("look", q={"type": "string"}),
    ]
    asked: Any = {"model": "scripted", "messages": HELLO, "tools": tools, "parallel_tool_calls": True}
    client = client_of(server)
    whole = client.chat.completions.create(**asked).choices[0]
    assert whole.finish_reason == "tool_calls" and whole.message.content == "Let me see."
    chunks = list(client.chat.completions.create(**asked, stream=True))
    rebuilt = accumulated(chunks)
    assert [(call["name"], json.loads(call["arguments"])) for call in rebuilt] == [
        (call.name, call.arguments) for call in CALLS
    ]
    assert [(call.function.name, call.function.arguments) for call in whole.message.tool_calls or ()] == [
        (call["name"], call["arguments"]) for call in rebuilt
    ]
    assert len({call["id"] for call in rebuilt}) == 2
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert [tool["function"]["name"] for tool in engine.requests[0].tools] == ["add", "look"]
    assert engine.requests[0].config.parallel_tool_calls is True


def accumulated(chunks: list[ChatCompletionChunk]) -> list[dict[str, Any]]:
    """The calls of a stream, as a client puts them together."""
    calls: list[dict[str, Any]] = []
    for delta in [delta for chunk in chunks for delta in chunk.choices[0].delta.tool_calls or ()]:
        assert delta.function is not None
        if delta.index == len(calls):
            assert delta.id and delta.type == "function" and delta.function.name
            calls.append({"id": delta.id, "name": delta.function.name, "arguments": ""})
        else:
            assert delta.id is None and delta.function.name is None and delta.index == len(calls) - 1
        calls[delta.index]["arguments"] += delta.function.arguments or ""
    return calls


def test_calls_that_were_not_seen_while_they_were_written_come_whole(scripted: Scripted) -> None:
    bare = ToolCall("abcdefghi", "now", {}, "")
    server, _ = scripted([bare])
    stream = client_of(server).chat.completions.create(
        model="scripted", messages=HELLO, tools=[function("now")], stream=True
    )
    assert accumulated(list(stream)) == [{"id": "abcdefghi", "name": "now", "arguments": "{}"}]


@pytest.mark.parametrize(
    ("choice", "told", "left"),
    [
        ("required", "required", ["add", "look"]),
        ("none", "none", ["add", "look"]),
        (
            {"type": "function", "function": {"name": "look"}},
            {"type": "function", "function": {"name": "look"}},
            ["add", "look"],
        ),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "add"}}],
                },
            },
            "required",
            ["add"],
        ),
    ],
)
def test_a_client_chooses_among_its_tools(
    scripted: Scripted, choice: Any, told: Any, left: list[str]
) -> None:
    server, engine = scripted(["ok"])
    client_of(server).chat.completions.create(
        model="scripted", messages=HELLO, tools=[function("add"), function("look")], tool_choice=choice
    )
    request = engine.requests[0]
    assert request.config.tool_choice == told
    assert [tool["function"]["name"] for tool in request.tools] == left


def test_thoughts_are_apart_from_the_reply(scripted: Scripted) -> None:
    script = [ReasoningPiece("Hm, "), ReasoningPiece("yes."), TextPiece("Yes.")]
    server, engine = scripted(script, script)
    client = client_of(server)
    asked: Any = {"model": "scripted", "messages": HELLO, "reasoning_effort": "low"}
    message = client.chat.completions.create(**asked).choices[0].message
    assert message.content == "Yes." and message.model_extra == {"reasoning_content": "Hm, yes."}
    chunks = list(client.chat.completions.create(**asked, stream=True))
    thoughts = [(chunk.choices[0].delta.model_extra or {}).get("reasoning_content", "") for chunk in chunks]
    assert "".join(thoughts) == "Hm, yes."
    assert engine.requests[0].config.reasoning_effort == "low"


def test_turns_of_every_kind_of_client_are_understood(scripted: Scripted) -> None:
    server, engine = scripted(["ok"])
    messages: Any = [
        {"role": "developer", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}, "x": 1}
            ],
            "audio": None,
            "annotations": [],
        },
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "ok"}]},
    ]
    client_of(server).chat.completions.create(model="scripted", messages=messages)
    assert engine.requests[0].messages == [
        {"role": "developer", "content": "Be brief"},
        {"role": "user", "content": "ab"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            "reasoning_content": "hm",
        },
        {"role": "tool", "content": "ok", "tool_call_id": "1"},
    ]


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "pictures"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, "audio"),
        ({"type": "file", "file": {"file_id": "f"}}, "files"),
    ],
)
def test_what_a_model_cannot_take_is_refused_with_its_reason(
    scripted: Scripted, part: Any, what: str
) -> None:
    server, engine = scripted()
    with pytest.raises(openai.BadRequestError) as told:
        client_of(server).chat.completions.create(
            model="scripted", messages=[{"role": "user", "content": [part]}]
        )
    assert what in told.value.message and told.value.param == "messages.0.content.0.type"
    assert engine.requests == []


WRONG: list[tuple[dict[str, Any], str | None]] = [
    ({"messages": []}, "messages"),
    ({"messages": "hello"}, "messages"),
    ({"messages": [1]}, "messages.0"),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
    ({"messages": [{"role": "user"}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id"),
    ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "messages.0.tool_calls.0"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"n": 0}, "n"),
    ({"n": 10_000}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools.0.function.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "sometimes"}, "tool_choice"),
    ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"reasoning_effort": "heroic"}, None),
    ({"seed": 1.5}, "seed"),
    ({"stream": "yes"}, "stream"),
]


@pytest.mark.parametrize(("change", "param"), WRONG)
def test_what_is_wrong_with_a_request_is_named(tiny_server: Server, change: Any, param: str | None) -> None:
    with http_of(tiny_server) as http:
        answer = http.post("/v1/chat/completions", json={"messages": HELLO, **change})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    assert error["param"] == param


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{", "application/json", 400),
        (b'{"n": NaN}', "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "application/json", 400),
        (b'{"seed": ' + b"9" * 10_000 + b"}", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"{}", "application/x-www-form-urlencoded", 415),
    ],
)
def test_a_body_that_is_no_request_is_refused(
    tiny_server: Server, body: bytes, kind: str, status: int
) -> None:
    with http_of(tiny_server) as http:
        answer = http.post("/v1/chat/completions", content=body, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_a_prompt_that_does_not_fit_is_told_before_the_stream_begins(tiny_server: Server) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as told:
            client_of(tiny_server).chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "word " * 20_000}], stream=stream
            )
        assert told.value.code == "context_length_exceeded"


def test_a_model_that_is_not_there_is_told_with_those_that_are(tiny_server: Server) -> None:
    with pytest.raises(openai.NotFoundError) as told:
        client_of(tiny_server).chat.completions.create(model="gpt-9", messages=HELLO)
    assert "tiny" in told.value.message and told.value.code == "model_not_found"


def test_the_models_are_listed(tiny_server: Server) -> None:
    client = client_of(tiny_server)
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "fireside"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("../../etc/passwd")


def test_a_model_without_calls_is_offered_no_tools(tiny_server: Server) -> None:
    with pytest.raises(openai.BadRequestError) as told:
        client_of(tiny_server).chat.completions.create(
            model="tiny", messages=HELLO, tools=[function("add", a={"type": "integer"})]
        )
    assert "--tool-format generic" in told.value.message


def test_a_stream_that_breaks_says_so_and_the_next_request_is_answered(scripted: Scripted) -> None:
    server, _ = scripted(*[["Well, ", RuntimeError("boom \x1b[31m")], ["fine"]] * 3)
    client = client_of(server)
    for _ in range(3):
        with pytest.raises(openai.APIError) as told:
            list(client.chat.completions.create(model="scripted", messages=HELLO, stream=True))
        assert "boom" not in str(told.value)
        with http_of(server) as http:
            assert http.get("/health").json()["status"] == "ok"
        answer = client.chat.completions.create(model="scripted", messages=HELLO)
        assert answer.choices[0].message.content == "fine"


def test_what_fails_before_the_first_word_has_a_status(scripted: Scripted) -> None:
    server, _ = scripted([ContextOverflowError(9, 8)])
    with pytest.raises(openai.BadRequestError):
        client_of(server).chat.completions.create(model="scripted", messages=HELLO, stream=True)


def test_lines_that_a_reader_might_split_are_escaped(scripted: Scripted) -> None:
    odd = "a\u2028b\u2029c\x85d\r\ne"
    server, _ = scripted([odd])
    with http_of(server) as http:
        answer = http.post(
            "/v1/chat/completions", json={"messages": HELLO, "stream": True, "stream_options": None}
        )
    lines = answer.text.split("\n")
    assert all(line == "" or line.startswith("data: ") for line in lines) and answer.text.isascii()
    assert odd in [
        json.loads(line[6:])["choices"][0]["delta"].get("content")
        for line in lines
        if line.startswith("data: {")
    ]


def test_probabilities_of_a_stream_are_those_of_its_text(scripted: Scripted) -> None:
    token = TokenLogprob(7, "Yes", float("-inf"), ((8, "No", -0.5),))
    server, _ = scripted([TextPiece("Yes", (token,))])
    chunks = list(
        client_of(server).chat.completions.create(
            model="scripted", messages=HELLO, logprobs=True, top_logprobs=1, stream=True
        )
    )
    shown = [chunk.choices[0].logprobs for chunk in chunks if chunk.choices[0].logprobs]
    assert [one.token for log in shown for one in log.content or ()] == ["Yes"]
