from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.chat_engine import Request
from backend.engines import wire
from backend.types import (
    ChatOutcome,
    ContextOverflowError,
    EngineError,
    GenerationConfig,
    ModelLoadError,
    PrefillProgress,
    QueueFullError,
    ReasoningPiece,
    TextPiece,
    TokenLogprob,
    ToolCall,
    ToolCallPiece,
)

VALUES = [
    TextPiece("a\n\u2028é🌿", (TokenLogprob(3, "a", -0.5, ((3, "a", -0.5),)),), 2),
    ReasoningPiece("hm"),
    ToolCallPiece(0, "f", '{"a'),
    ToolCall("id1", "f", {"a": [1, None, {"b": True}]}, "{}", None),
    PrefillProgress(1, 2, 0),
    ChatOutcome("stop", 3, text="x", tool_calls=(ToolCall("i", "f", {}),), stop_match="\n"),
    GenerationConfig(temperature=0.0, stop=("a",), json_schema={"type": "object"}),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_survives_the_wire(value: Any) -> None:
    line = wire.dumps(value)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert _listed(wire.loads(line)) == _listed(value)


def _listed(value: Any) -> Any:
    return wire.encode(value)


def test_a_request_survives_the_wire() -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}]
    request = Request(messages=messages, config=GenerationConfig(seed=3), prior=("hi", (1, 2)))
    back = wire.loads(wire.dumps({"op": "submit", "request": request}))["request"]
    assert list(back.messages) == messages
    assert (back.id, back.prior, back.config) == (request.id, request.prior, request.config)


@given(st.text())
def test_any_text_survives(text: str) -> None:
    assert wire.loads(wire.dumps(TextPiece(text))) == TextPiece(text)


def test_half_a_surrogate_pair_does_not_end_the_line() -> None:
    assert wire.loads(wire.dumps(TextPiece("a\ud83c"))) == TextPiece("a\ufffd")


ERRORS = [
    ModelLoadError("bad", cause="truncated", remedy="again"),
    ContextOverflowError(900, 512),
    QueueFullError("full"),
    EngineError("lost", remedy="retry"),
    ValueError("no"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_type_and_its_facts(error: Exception) -> None:
    back = wire.loads(wire.dumps({"error": error}))["error"]
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_an_unknown_error_becomes_an_engine_error() -> None:
    back = wire.loads(wire.dumps({"error": KeyError("x")}))["error"]
    assert isinstance(back, EngineError)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        wire.loads(b'{"_": "Popen", "args": ["rm"]}\n')
