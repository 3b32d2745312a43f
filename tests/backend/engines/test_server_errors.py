"""What servers say when they do not answer, in all shapes, as errors that read like a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engines.server_errors import complaint_in, complaint_of, error_of
from backend.types import BackendError, ContextOverflowError, EngineError

WHERE = "The server lab"


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "out of cake", "type": "x", "code": 500}},
        {"error": "out of cake"},
        {"error": {"error": {"message": "out of cake"}}},
        {"detail": "out of cake"},
        {"detail": [{"msg": "out of cake", "loc": ["body", "n"]}]},
        {"message": "out of cake", "object": "error"},
        {"errors": [{"message": "out of cake"}]},
        {"error": True, "message": "out of cake"},
        {"error": {"detail": "out of cake"}},
        [{"error": {"message": "out of cake"}}],
        "out of cake",
    ],
)
def test_every_shape_of_an_error_is_read(body: Any) -> None:
    complaint = complaint_of(500, json.dumps(body).encode())
    assert "out of cake" in complaint.message
    error = error_of(complaint, WHERE, has_key=False)
    assert str(error).startswith("The server lab failed (HTTP 500). It says:")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"upstream is gone", "upstream is gone"),
        (b"<html><head><title>502 Bad Gateway</title></head><body>x</body></html>", "502 Bad Gateway"),
        (b"<html>no title</html>", ""),
        (b"", ""),
        (b"null", ""),
        (b"{}", ""),
        (b'{"error": {}}', ""),
        (b"\xff\xfe\x00", None),
        (b"[" * 100_000, None),
        (b'{"error": "' + b"x" * 200_000 + b'"}', None),
        (b'{"error": "a\\u001b[31mred\\u001b]0;t\\u0007\\n\\nb"}', "a [31mred ]0;t b"),
    ],
)
def test_what_is_no_json_is_read_too_and_nothing_of_it_is_obeyed(body: bytes, said: str | None) -> None:
    complaint = complaint_of(502, body)
    assert complaint.message.isprintable() and len(complaint.message) <= 301
    if said is not None:
        assert complaint.message == said
    assert str(error_of(complaint, WHERE, has_key=False)).startswith("The server lab failed (HTTP 502).")


@pytest.mark.parametrize(
    ("status", "body", "numbers"),
    [
        (
            400,
            {
                "error": {
                    "message": "This model's maximum context length is 8192 tokens. However, you requested "
                    "9001 tokens (8001 in the messages, 1000 in the completion).",
                    "code": "context_length_exceeded",
                }
            },
            (9001, 8192),
        ),
        (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size, try increasing it",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 700,
                    "n_ctx": 512,
                }
            },
            (700, 512),
        ),
        (
            400,
            {
                "error": {
                    "message": "The prompt has 900 tokens, but the context window has room for 512 (at "
                    "most 500 for the prompt).",
                    "code": "context_length_exceeded",
                }
            },
            None,
        ),
        (400, {"error": {"message": "prompt is too long"}}, None),
        (413, {"detail": "Input length exceeds context"}, None),
    ],
)
def test_a_prompt_that_is_too_long_is_told_as_such(
    status: int, body: Any, numbers: tuple[int, int] | None
) -> None:
    error = error_of(complaint_of(status, json.dumps(body).encode()), WHERE, has_key=False)
    if numbers is not None:
        assert isinstance(error, ContextOverflowError)
        assert (error.needed, error.max_seq) == numbers
    else:
        assert isinstance(error, ContextOverflowError) or "does not fit the context" in str(error)


@pytest.mark.parametrize(
    ("status", "has_key", "said"),
    [
        (401, False, "wants a key"),
        (403, True, "refuses the key"),
        (404, False, "nothing for the model toy at this address"),
        (429, False, "too much to do"),
        (418, False, "refused the request (HTTP 418)"),
        (500, False, "failed (HTTP 500)"),
        (302, False, "sends elsewhere"),
    ],
)
def test_each_status_has_its_own_sentence(status: int, has_key: bool, said: str) -> None:
    error = error_of(complaint_of(status, b"{}"), WHERE, has_key=has_key, model="toy")
    assert said in str(error)


def test_a_field_that_a_server_does_not_take_is_found_by_its_name() -> None:
    def unwanted(message: str, status: int = 400) -> set[str]:
        names = frozenset(("top_k", "min_p", "stream_options"))
        return set(complaint_in({"error": {"message": message}}, status).unwanted(names))

    assert unwanted("Unrecognized request argument supplied: top_k") == {"top_k"}
    assert unwanted("Unsupported parameter: 'min_p' is not supported with this model") == {"min_p"}
    assert unwanted("body.stream_options: extra inputs are not permitted", 422) == {"stream_options"}
    assert unwanted("top_k must be positive") == set()
    assert unwanted("Unknown model") == set()
    assert unwanted("unsupported: top_k", 500) == set()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "code", "loc", "msg", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from([0, 302, 400, 401, 404, 422, 429, 500, 503]), st.booleans())
def test_no_error_of_a_server_is_an_error_of_ours(value: Any, status: int, has_key: bool) -> None:
    complaint = complaint_in(value, status)
    error = error_of(complaint, WHERE, has_key=has_key)
    assert isinstance(error, EngineError | ContextOverflowError | BackendError)
    assert str(error).isprintable() and len(str(error)) < 700
