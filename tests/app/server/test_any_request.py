"""Whatever is sent, the answer is one that a client can read, and never that the server failed."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from typing import Any, overload

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.server.models import Models
from app.server.serving import Options, Server
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend.engines.scripted import ScriptedEngine, Step


class Endless(Sequence[Sequence[Step]]):
    """The same reply to every request."""

    @overload
    def __getitem__(self, index: int) -> Sequence[Step]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[Step]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return ["ok"]

    def __len__(self) -> int:
        return 1 << 40


@pytest.fixture(scope="module")
def http() -> Generator[httpx.Client]:
    def make() -> tuple[SessionManager, Models]:
        manager = SessionManager(engine=ScriptedEngine(Endless()), store=Store(None))
        return manager, Models("scripted", None, others=False)

    with Server(make, Options(grace_s=2)) as server, httpx.Client(base_url=server.url, timeout=9) as client:
        yield client


FIELDS = """model messages role content type text input prompt stream temperature top_p n stop seed max_tokens
tools tool_choice function name parameters response_format json_schema schema format logprobs top_logprobs
reasoning_effort reasoning effort logit_bias stream_options include_usage modalities previous_response_id
instructions store metadata truncation encoding_format dimensions agent_id title labels workspace
initial_items data call_id output action elicitation_id model_override archived up_to_response_id arguments
tool_calls id grammar chat_template_kwargs enable_thinking parallel_tool_calls allowed_tools mode suffix
""".split()
WORDS = [
    *FIELDS,
    "user",
    "assistant",
    "system",
    "function_call",
    "function_call_output",
    "message",
    "interrupt",
]
WORDS += [
    "approval",
    "compact",
    "slash_command",
    "auto",
    "required",
    "json_object",
    "accept",
    "ok",
    "",
    "\0",
    "é",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=6)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=7)
GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello"},
    "/v1/responses": {"input": "hello"},
    "/v1/embeddings": {"input": "hello"},
    "/v1/sessions": {},
    "/v1/sessions/{}/events": {"type": "message", "data": {"content": "hello"}},
    "/v1/sessions/{}/elicitations/x/resolve": {"action": "accept"},
    "/v1/sessions/{}/fork": {},
}


@pytest.mark.parametrize("path", GOOD)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(change=BODIES, is_alone=st.booleans(), session_id=st.sampled_from(["nothing", "%00", "'", "sess_1"]))
def test_no_body_makes_the_server_fail(
    http: httpx.Client, path: str, change: dict[str, Any], is_alone: bool, session_id: str
) -> None:
    body = change if is_alone else {**GOOD[path], **change}
    answer = http.post(path.format(session_id), json=body)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        error = answer.json()["error"]
        assert error["message"].strip() and set(error) == {"message", "type", "param", "code"}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(change=BODIES, method=st.sampled_from(["PATCH", "POST"]))
def test_no_change_of_a_chat_makes_the_server_fail(
    http: httpx.Client, change: dict[str, Any], method: str
) -> None:
    session_id = http.post("/v1/sessions", json={}).json()["id"]
    path = f"/v1/sessions/{session_id}"
    posted = {"type": "function_call_output", **change}
    answer = http.patch(path, json=change) if method == "PATCH" else http.post(f"{path}/events", json=posted)
    assert answer.status_code < 500, answer.text


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    path=st.sampled_from(
        ["/v1/sessions", "/v1/sessions/x/items", "/v1/agents", "/v1/models/x", "/v1/responses/x"]
    ),
    query=st.dictionaries(
        st.sampled_from(
            "limit after before order sort_by search_query include_archived kind visibility".split()
        ),
        st.sampled_from(["1", "0", "-1", "9" * 30, "desc", "updated_at", "x", '"', "\0", "*", "true", ""]),
        max_size=4,
    ),
)
def test_no_query_makes_the_server_fail(http: httpx.Client, path: str, query: dict[str, str]) -> None:
    answer = http.get(path, params=query)
    assert answer.status_code < 500, answer.text


def test_all_routes_are_described(http: httpx.Client) -> None:
    described = http.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    paths = described["paths"]
    assert {"get", "post"} == set(paths["/v1/sessions"]) and {"get", "patch", "delete"} == set(
        paths["/v1/sessions/{session_id}"]
    )
    for path, operations in paths.items():
        for operation in operations.values():
            assert operation["summary"].endswith(".")
            named = {parameter["name"] for parameter in operation.get("parameters", ())}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}
    schemas = described["components"]["schemas"]
    referred = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))
    assert referred <= set(schemas)
    assert schemas["ChatBody"]["properties"]["temperature"]
