"""Responses, which the server remembers, asked for by OpenAI's own client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from app.server.serving import Server
from backend.engines.scripted import ScriptedEngine
from backend.types import ReasoningPiece, ToolCall
from tests.app.server.conftest import client_of, http_of
from tests.app.server.test_chat_completions import CALLS, written

Scripted = Callable[..., tuple[Server, ScriptedEngine]]
ADD: Any = {
    "type": "function",
    "name": "add",
    "description": "Add",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    "strict": None,
}


def test_a_response_is_whole_and_the_next_goes_on_from_it(scripted: Scripted) -> None:
    server, engine = scripted(["Hi."], ["Yes."], ["No."])
    client = client_of(server)
    first = client.responses.create(
        model="scripted", input="Hello", instructions="Be brief.", max_output_tokens=9, metadata={"a": "b"}
    )
    assert first.output_text == "Hi." and first.status == "completed" and first.metadata == {"a": "b"}
    assert first.usage is not None and first.usage.output_tokens == 1
    assert engine.requests[0].config.max_new_tokens == 9
    said = [(turn["role"], turn["content"]) for turn in engine.requests[0].messages or ()]
    assert said == [("system", "Be brief."), ("user", "Hello")]
    for answer in ("Yes.", "No."):  # two branches from one answer
        more = client.responses.create(
            model="scripted", input=[{"role": "user", "content": "Sure?"}], previous_response_id=first.id
        )
        assert more.output_text == answer and more.previous_response_id == first.id
        said = [(turn["role"], turn["content"]) for turn in engine.requests[-1].messages or ()]
        assert said == [("user", "Hello"), ("assistant", "Hi."), ("user", "Sure?")]
    again = client.responses.retrieve(first.id)
    assert again.output_text == "Hi." and again.output == first.output
    with http_of(server) as http:
        (chat,) = http.get("/v1/sessions").json()["data"]
    assert chat["title"] == "Hello"


def test_what_is_not_stored_cannot_be_gone_on_from(scripted: Scripted) -> None:
    server, _ = scripted(["Hi."], ["Hi."])
    client = client_of(server)
    response = client.responses.create(model="scripted", input="Hello", store=False)
    for name in (response.id, "resp_nothing", "'; DROP TABLE items"):
        with pytest.raises(openai.NotFoundError) as told:
            client.responses.create(model="scripted", input="More", previous_response_id=name)
        assert told.value.code == "previous_response_not_found"
    with http_of(server) as http:
        assert http.get("/v1/sessions").json()["data"] == []


def test_a_stream_announces_writes_and_ends_each_item(scripted: Scripted) -> None:
    script = [ReasoningPiece("Hm, "), ReasoningPiece("well."), "Let me ", "see.", *written(*CALLS)]
    server, _ = scripted(script, script)
    client = client_of(server)
    asked: Any = {"model": "scripted", "input": "Add", "tools": [ADD, {**ADD, "name": "look"}]}
    whole = client.responses.create(**asked)
    events = list(client.responses.create(**asked, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    last: Any = events[-1]
    assert (
        [item.type for item in last.response.output]
        == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
        ]
        == [item.type for item in whole.output]
    )
    added: Any = [event for event in events if event.type == "response.output_item.added"]
    done: Any = [event for event in events if event.type == "response.output_item.done"]
    final = [(item.id, item.type) for item in last.response.output]
    for told in (added, done):
        assert [(event.item.id, event.item.type) for event in told] == final
        assert [event.output_index for event in told] == [0, 1, 2, 3]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    thought = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
    assert (text, thought) == ("Let me see.", "Hm, well.")
    for item, call in zip(last.response.output[2:], CALLS, strict=True):
        deltas: Any = [event for event in events if event.type == "response.function_call_arguments.delta"]
        arguments = "".join(event.delta for event in deltas if event.item_id == item.id)
        assert json.loads(arguments) == json.loads(item.arguments) == call.arguments
        assert item.call_id == next(event.item.call_id for event in added if event.item.id == item.id)


def test_the_helper_of_the_client_puts_a_stream_together(scripted: Scripted) -> None:
    server, _ = scripted(["So ", "it ", "is."])
    with client_of(server).responses.stream(model="scripted", input="Hello") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text == "So it is."


def test_a_call_is_answered_in_the_next_request(scripted: Scripted) -> None:
    call = ToolCall("abcdefghi", "add", {"a": 1, "b": 2}, '{"a": 1, "b": 2}')
    server, engine = scripted(["", *written(call)], ["Three."])
    client = client_of(server)
    first = client.responses.create(model="scripted", input="Add", tools=[ADD], tool_choice="required")
    (made,) = first.output
    assert made.type == "function_call" and json.loads(made.arguments) == {"a": 1, "b": 2}
    output: Any = {"type": "function_call_output", "call_id": made.call_id, "output": "3"}
    last = client.responses.create(
        model="scripted", input=[output], tools=[ADD], previous_response_id=first.id
    )
    assert last.output_text == "Three."
    turns = list(engine.requests[-1].messages or ())
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool"]
    assert turns[2]["content"] == "3" and turns[1]["tool_calls"][0]["function"]["name"] == "add"


class Answer(BaseModel):
    kind: Literal["cat", "dog"]


def test_an_answer_fits_the_model_that_a_client_parses_it_with(tiny_server: Server) -> None:
    parsed = client_of(tiny_server).responses.parse(
        model="tiny", input="Which?", text_format=Answer, max_output_tokens=60
    )
    assert isinstance(parsed.output_parsed, Answer)


def test_a_reply_that_was_cut_off_says_so(tiny_server: Server) -> None:
    client = client_of(tiny_server)
    cut = client.responses.create(model="tiny", input="Go on", max_output_tokens=3)
    assert cut.status == "incomplete" and cut.incomplete_details is not None
    assert cut.incomplete_details.reason == "max_output_tokens"
    assert client.responses.retrieve(cut.id).status == "incomplete"
    events = list(client.responses.create(model="tiny", input="Go on", max_output_tokens=3, stream=True))
    assert events[-1].type == "response.incomplete"


def test_a_stream_that_breaks_ends_with_its_failure(scripted: Scripted) -> None:
    server, _ = scripted(["Well, ", RuntimeError("boom")], ["fine"])
    client = client_of(server)
    events: Any = list(client.responses.create(model="scripted", input="Hello", stream=True))
    assert events[-1].type == "response.failed" and events[-1].response.status == "failed"
    assert "boom" not in events[-1].response.error.message
    assert client.responses.create(model="scripted", input="Hello").output_text == "fine"


@pytest.mark.parametrize(
    "change",
    [
        {"input": ""},
        {"input": []},
        {"input": None},
        {"input": 7},
        {"input": [7]},
        {"input": [{"type": "item_reference", "id": "x"}]},
        {"input": [{"role": "wizard", "content": "x"}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}]},
        {"input": [{"type": "function_call", "name": "x"}]},
        {"background": True},
        {"conversation": "conv_1"},
        {"prompt": {"id": "x"}},
        {"tools": [{"type": "web_search_preview"}]},
        {"tool_choice": "required"},
        {"max_output_tokens": 0},
        {"text": {"format": {"type": "yaml"}}},
        {"text": {"format": {"type": "json_schema", "name": "x"}}},
        {"text": {"format": "json"}},
        {"truncation": "sometimes"},
        {"temperature": 9},
        {"metadata": {"a": 1}},
    ],
)
def test_what_cannot_be_answered_is_refused(tiny_server: Server, change: Any) -> None:
    with http_of(tiny_server) as http:
        answer = http.post("/v1/responses", json={"input": "Hello", **change})
    assert answer.status_code == 400, answer.text
