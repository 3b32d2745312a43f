"""The starter model, served by the command and asked by OpenAI's own client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.app.server.test_chat_completions import accumulated, function
from tests.app.server.test_command import serving

pytestmark = [pytest.mark.model, pytest.mark.timeout(120)]


class City(BaseModel):
    name: str
    country: str


def test_it_calls_answers_in_a_form_and_goes_on(starter_model: Path) -> None:
    flags = ("--private", "--ctx", "1024", "--slots", "2", "--tool-format", "generic")
    with (
        serving(starter_model, *flags) as (_, url),
        openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client,
    ):
        model = client.models.list().data[0].id
        asked: Any = {"model": model, "temperature": 0, "max_tokens": 48}
        weather = function("get_weather", city={"type": "string"})
        question: Any = [{"role": "user", "content": "What is the weather in Paris?"}]
        called: Any = {**asked, "messages": question, "tools": [weather], "tool_choice": "required"}
        whole = client.chat.completions.create(**called).choices[0].message.tool_calls or []
        streamed = accumulated(list(client.chat.completions.create(**called, stream=True)))
        assert whole and [call["name"] for call in streamed] == [one.function.name for one in whole]  # type: ignore[union-attr]
        assert json.loads(streamed[0]["arguments"]) == {"city": "Paris"}
        parsed = client.chat.completions.parse(
            **asked, messages=[{"role": "user", "content": "Capital of France?"}], response_format=City
        )
        assert parsed.choices[0].message.parsed is not None
        first = client.responses.create(model=model, input="Say hello.", max_output_tokens=8)
        second = client.responses.create(
            model=model, input="Again.", max_output_tokens=8, previous_response_id=first.id
        )
        assert second.output_text and second.usage is not None
        assert second.usage.input_tokens_details.cached_tokens > 0
