"""Completions of raw text, and embeddings, asked for by OpenAI's own client."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import openai
import pytest

import backend
from app.server.serving import Server
from fireside import serve
from tests.app.server.conftest import client_of, http_of


@pytest.fixture(scope="module")
def vector_server(tiny_embedding: Path) -> Generator[Server]:
    with (
        backend.load(tiny_embedding) as model,
        model.chat_session() as session,
        serve(session.engine, model_id="vectors") as server,
    ):
        yield server


def test_a_text_goes_on_whole_and_streamed(tiny_server: Server) -> None:
    create = client_of(tiny_server).completions.create
    asked: Any = {"model": "tiny", "prompt": "the user and the", "max_tokens": 6, "temperature": 0}
    whole = create(**asked)
    chunks = list(create(**asked, stream=True, stream_options={"include_usage": True}))
    assert whole.choices[0].text == "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "length"
    assert whole.usage == chunks[-1].usage or chunks[-1].usage is not None
    assert whole.usage is not None and whole.usage.completion_tokens == 6
    assert create(**asked, echo=True).choices[0].text == f"the user and the{whole.choices[0].text}"


def test_several_prompts_are_answered_in_order(tiny_server: Server) -> None:
    create = client_of(tiny_server).completions.create
    prompts = ["the user", "and the", "is"]
    each = [
        create(model="tiny", prompt=text, max_tokens=4, temperature=0).choices[0].text for text in prompts
    ]
    together = create(model="tiny", prompt=prompts, max_tokens=4, temperature=0, n=2)
    assert [choice.text for choice in together.choices] == [text for text in each for _ in range(2)]
    assert [choice.index for choice in together.choices] == list(range(6))


def test_a_prompt_may_be_tokens(tiny_server: Server) -> None:
    create = client_of(tiny_server).completions.create
    assert create(model="tiny", prompt=[40, 41, 42], max_tokens=2).choices[0].text is not None
    assert len(create(model="tiny", prompt=[[40], [41, 42]], max_tokens=2).choices) == 2


def test_probabilities_have_their_place_in_the_text(tiny_server: Server) -> None:
    answer = client_of(tiny_server).completions.create(
        model="tiny", prompt="the user", max_tokens=4, logprobs=2, temperature=0
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.tokens and logprobs.text_offset and logprobs.top_logprobs
    assert len(logprobs.tokens) == 4 and logprobs.text_offset[0] == 0
    assert "".join(logprobs.tokens) == answer.choices[0].text


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": []},
        {"prompt": ""},
        {"prompt": {"a": 1}},
        {"prompt": [1.5]},
        {"prompt": [[]]},
        {"prompt": ["x"] * 200},
        {"prompt": [-1]},
        {"prompt": [10**9]},
        {"prompt": ["a", "b"], "stream": True},
        {"prompt": "x", "suffix": "y"},
        {"prompt": "x", "best_of": 3},
        {"prompt": "x", "max_tokens": 0},
        {"prompt": "x", "logprobs": 99},
    ],
)
def test_what_cannot_go_on_is_refused(tiny_server: Server, change: Any) -> None:
    with http_of(tiny_server) as http:
        answer = http.post("/v1/completions", json=change)
    assert answer.status_code == 400, answer.text


def test_texts_become_vectors_in_both_forms(vector_server: Server) -> None:
    create = client_of(vector_server).embeddings.create
    texts = ["the user", "and the user"]
    usual = create(model="vectors", input=texts)  # the client asks for base64, and decodes it
    plain = create(model="vectors", input=texts, encoding_format="float")
    assert [entry.index for entry in plain.data] == [0, 1]
    for one, other in zip(usual.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)
        assert sum(value * value for value in one.embedding) == pytest.approx(1, abs=1e-3)
    assert usual.usage.prompt_tokens > 2
    size = len(plain.data[0].embedding)
    assert create(model="vectors", input="the user", dimensions=size).data[0].index == 0
    assert create(model="vectors", input=[[5, 6], [7]]).data[1].embedding


@pytest.mark.parametrize(
    "change", [{"input": []}, {"input": ""}, {"input": [""]}, {}, {"input": "x", "dimensions": 3}]
)
def test_what_has_no_vector_is_refused(vector_server: Server, change: Any) -> None:
    with http_of(vector_server) as http:
        answer = http.post("/v1/embeddings", json=change)
    assert answer.status_code == 400, answer.text


def test_each_model_does_what_it_was_made_for(vector_server: Server, tiny_server: Server) -> None:
    with pytest.raises(openai.BadRequestError) as told:
        client_of(vector_server).chat.completions.create(
            model="vectors", messages=[{"role": "user", "content": "hello"}]
        )
    assert "embedding model" in told.value.message
    with pytest.raises(openai.BadRequestError):
        client_of(tiny_server).embeddings.create(model="tiny", input="hello")
