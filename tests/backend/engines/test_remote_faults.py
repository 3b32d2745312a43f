"""Servers that fail: what is tried again and what never, what is told, and what a person stops."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.chat_engine import LoadSpec, Request
from backend.engines import remote
from backend.engines.remote import RemoteEngine
from backend.engines.servers import Key, Server, Servers
from backend.types import (
    BackendError,
    ChatOutcome,
    ContextOverflowError,
    EngineError,
    ModelLoadError,
    Piece,
    TextPiece,
)
from tests.backend.engines.scripted_server import (
    DONE,
    Reply,
    ScriptedServer,
    delta,
    frame,
    json_reply,
    models,
    says,
)

TURN = [{"role": "user", "content": "Hello"}]
KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long before something is tried again."""
    monkeypatch.setattr(remote, "FIRST_WAIT_S", 0.01)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("toy") as made:
        yield made


@pytest.fixture
async def engines() -> AsyncIterator[list[RemoteEngine]]:
    made: list[RemoteEngine] = []
    yield made
    for engine in made:
        await engine.unload()


async def loaded(engines: list[RemoteEngine], *servers: ScriptedServer, **fields: Any) -> RemoteEngine:
    one = Server(tuple(f"{each.url}/v1" for each in servers), **fields)
    engine = RemoteEngine(Servers(chosen=one))
    engines.append(engine)
    await engine.load(LoadSpec(one.source))
    return engine


async def answer(engine: RemoteEngine, **fields: Any) -> list[Piece]:
    request = Request(messages=TURN, **fields)
    return [piece async for pieces in engine.submit(request) for piece in pieces]


def text_of(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


BUSY = json_reply({"error": {"message": "busy"}}, 503)


@pytest.mark.parametrize(
    "first",
    [
        BUSY,
        json_reply({}, 429),
        json_reply({}, 429, retry_after="0"),
        json_reply({}, 503, retry_after="0.01"),
        Reply([None]),
    ],
)
async def test_a_server_with_too_much_to_do_is_asked_again(
    server: ScriptedServer, engines: list[RemoteEngine], first: Reply
) -> None:
    if first.chunks == [None]:
        # The connection is closed before a word of an answer.
        server.drops = 1
        server.chat(says("x"))
    else:
        server.chat(first, first, says("x"))
    assert text_of(await answer(await loaded(engines, server))) == "x"


async def test_how_long_to_wait_is_the_servers_word(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    server.chat(json_reply({}, 429, retry_after="0.3"), says("x"))
    engine = await loaded(engines, server)
    began = time.monotonic()
    await answer(engine)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (json_reply({"error": {"message": "tomorrow"}}, 429, retry_after="86400"), "too much to do"),
        (json_reply({"error": {"message": "q", "code": "insufficient_quota"}}, 429), "quota"),
        (json_reply({"error": "boom"}, 500), "failed .HTTP 500.. It says: boom"),
        (json_reply({"detail": "no"}, 400), "refused the request .HTTP 400.. It says: no"),
        (Reply([b"<html><title>x</title>"], 200, "text/html"), "is no API"),
        (Reply([b"{"], 200, "application/json"), "not JSON"),
        (Reply([b"data: {\n\n"]), "not JSON"),
        (Reply([frame({"error": {"message": "boom"}})]), "ended the reply with an error. It says: boom"),
        (Reply([b'event: error\ndata: {"error": "boom"}\n\n']), "It says: boom"),
        (json_reply({"error": {"message": "boom"}}), "It says: boom"),
    ],
)
async def test_what_waiting_does_not_help_is_told_at_once(
    server: ScriptedServer, engines: list[RemoteEngine], reply: Reply, said: str
) -> None:
    server.chat(reply)
    with pytest.raises(EngineError, match=said):
        await answer(await loaded(engines, server))
    assert len(server.bodies) == 1


async def test_it_is_not_asked_again_for_ever(server: ScriptedServer, engines: list[RemoteEngine]) -> None:
    server.chat(BUSY)
    with pytest.raises(EngineError, match="busy"):
        await answer(await loaded(engines, server))
    assert len(server.bodies) == remote.MOST_ATTEMPTS


@pytest.mark.parametrize(
    ("chunks", "chunked", "said"),
    [
        ([delta(content="half"), None], True, "broke in the middle of the reply"),
        ([delta(content="half")], True, "ended the reply before it was complete"),
        ([delta(content="half")], False, "ended the reply before it was complete"),
        ([delta(content="half"), frame({"error": {"message": "boom"}})], True, "It says: boom"),
    ],
)
async def test_a_half_answer_is_kept_and_never_asked_for_again(
    server: ScriptedServer, engines: list[RemoteEngine], chunks: list[bytes | None], chunked: bool, said: str
) -> None:
    server.chat(Reply(chunks, chunked=chunked), says("whole"))
    engine = await loaded(engines, server)
    arrived: list[Piece] = []
    with pytest.raises(EngineError, match=said):
        async for pieces in engine.submit(Request(messages=TURN)):
            arrived += pieces
    assert text_of(arrived) == "half" and len(server.bodies) == 1


async def test_a_server_that_says_nothing_is_given_up(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    server.chat(Reply([delta(content="x"), threading.Event()]))
    engine = await loaded(engines, server, silence_s=0.1)
    with pytest.raises(EngineError, match="said nothing for too long"):
        await answer(engine)
    assert len(server.bodies) == 1


async def test_an_overflow_is_one_of_ours_and_tells_the_window(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    about = {"type": "exceed_context_size_error", "n_prompt_tokens": 700, "n_ctx": 512, "message": "too long"}
    server.chat(json_reply({"error": about}, 400))
    engine = await loaded(engines, server)
    with pytest.raises(ContextOverflowError):
        await answer(engine)
    assert engine.card.max_seq == 512


# ---- stopping ------------------------------------------------------------------------------


async def test_a_stopped_reply_keeps_what_was_written_and_closes_the_connection(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    server.chat(Reply([delta(content="half"), threading.Event(), delta(content="more"), DONE]))
    engine = await loaded(engines, server)
    request = Request(messages=TURN)
    outcome: Piece | None = None
    async for pieces in engine.submit(request):
        outcome = pieces[-1]
        if text_of(pieces):
            engine.cancel(request.id)
    assert isinstance(outcome, ChatOutcome)
    assert (outcome.finish, outcome.text) == ("cancelled", "half")
    assert await asyncio.to_thread(server.vanished.wait, 5)


async def test_closing_the_iterator_closes_the_connection(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    server.chat(Reply([delta(content="half"), threading.Event(), DONE]))
    engine = await loaded(engines, server)
    steps: Any = engine.submit(Request(messages=TURN))
    async for _ in steps:
        break
    await steps.aclose()
    assert await asyncio.to_thread(server.vanished.wait, 5)
    assert (await engine.stats()).running == 0


async def test_a_request_that_waits_to_be_sent_again_is_stopped_at_once(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    server.chat(json_reply({}, 429, retry_after="30"))
    engine = await loaded(engines, server)
    request = Request(messages=TURN)
    server.answered = lambda asked: loop.call_soon_threadsafe(engine.cancel, request.id)
    loop = asyncio.get_running_loop()
    [outcome] = [piece async for pieces in engine.submit(request) for piece in pieces]
    assert isinstance(outcome, ChatOutcome) and outcome.finish == "cancelled"


async def test_unloading_ends_what_runs_as_cancelled(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    server.chat(Reply([delta(content="half"), threading.Event(), DONE]))
    engine = await loaded(engines, server)
    seen: list[Piece] = []
    async for pieces in engine.submit(Request(messages=TURN)):
        seen += pieces
        if text_of(pieces):
            unloading = asyncio.ensure_future(engine.unload())
    await unloading
    assert isinstance(seen[-1], ChatOutcome) and seen[-1].finish == "cancelled"


async def test_a_load_is_given_up_when_the_person_says_so(server: ScriptedServer) -> None:
    server.replies["/v1/models"] = [Reply([threading.Event()], kind="application/json")]
    engine = RemoteEngine(Servers())
    with pytest.raises(ModelLoadError) as caught:
        await engine.load(LoadSpec(server.url), lambda fraction: False)
    assert caught.value.cause == "cancelled" and engine.closed


async def test_a_model_that_cannot_be_had_leaves_the_one_there_was(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    engine = await loaded(engines, server)
    for source in ("http://127.0.0.1:9", f"{server.url}#nobody", "server:nobody", "http://"):
        with pytest.raises(ModelLoadError):
            await engine.load(LoadSpec(source))
    server.chat(says("still"))
    assert text_of(await answer(engine)) == "still"


# ---- keys ----------------------------------------------------------------------------------


async def test_a_key_goes_to_its_server_and_into_no_error(
    server: ScriptedServer, engines: list[RemoteEngine], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    server.chat(json_reply({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401))
    engine = await loaded(engines, server, key=Key(text=KEY))
    assert {asked.headers.get("authorization") for asked in server.asked} == {f"Bearer {KEY}"}
    with pytest.raises(EngineError) as caught:
        await answer(engine)
    assert "refuses the key" in str(caught.value)
    told = f"{caught.value} {caught.value.remedy} {engine.residency} {engine.card} {caplog.text}"
    assert KEY not in told


async def test_a_server_that_wants_a_key_is_told_with_the_way_to_give_one(server: ScriptedServer) -> None:
    server.replies["/v1/models"] = [json_reply({"detail": "Unauthorized"}, 401)]
    with pytest.raises(EngineError, match="wants a key") as caught:
        await RemoteEngine(Servers()).load(LoadSpec(server.url))
    assert "FIRESIDE_SERVER_KEY" in caught.value.remedy


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed_and_no_key_goes_along(
    server: ScriptedServer, engines: list[RemoteEngine], status: int
) -> None:
    with ScriptedServer("toy") as other:
        other.chat(says("stolen"))
        server.chat(json_reply({}, status, location=f"{other.url}/v1/chat/completions"))
        engine = await loaded(engines, server, key=Key(text=KEY))
        with pytest.raises(EngineError, match=f"sends elsewhere: {other.url}"):
            await answer(engine)
        server.replies["/v1/models"] = [json_reply({}, status, location=f"{other.url}/v1/models")]
        with pytest.raises(EngineError, match="sends elsewhere"):
            await engine.load(LoadSpec(server.url))
        assert other.asked == []


async def test_an_environment_with_a_proxy_changes_nothing_on_this_machine(
    server: ScriptedServer, engines: list[RemoteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.chat(says("x"))
    assert text_of(await answer(await loaded(engines, server))) == "x"


# ---- several -------------------------------------------------------------------------------


async def test_the_least_busy_of_several_is_asked(engines: list[RemoteEngine]) -> None:
    with ScriptedServer("toy") as one, ScriptedServer("toy") as other:
        held = threading.Event()
        for each in (one, other):
            each.chat(Reply([delta(content="x"), held, delta("stop"), DONE]), says("y"))
        engine = await loaded(engines, one, other)
        tasks = [asyncio.create_task(answer(engine)) for _ in range(2)]
        async with asyncio.timeout(5):
            while not (one.bodies and other.bodies):
                await asyncio.sleep(0.01)
        held.set()
        await asyncio.gather(*tasks)
        assert (len(one.bodies), len(other.bodies)) == (1, 1)


async def test_a_chat_stays_where_its_cache_is(engines: list[RemoteEngine]) -> None:
    with ScriptedServer("toy") as one, ScriptedServer("toy") as other:
        for each in (one, other):
            each.chat(says("y"))
        engine = await loaded(engines, one, other)
        for _ in range(3):
            await answer(engine, conversation="a")
        assert sorted((len(one.bodies), len(other.bodies))) == [0, 3]


async def test_one_of_several_that_is_down_is_left_out(engines: list[RemoteEngine]) -> None:
    with ScriptedServer("toy") as one:
        one.chat(says("x"))
        with ScriptedServer("toy") as other:
            gone = other.url
        server = Server((f"{gone}/v1", f"{one.url}/v1"), "lab")
        engine = RemoteEngine(Servers({"lab": server}))
        engines.append(engine)
        await engine.load(LoadSpec("server:lab"))
        assert "cannot be reached" in engine.residency["notes"][0]
        assert text_of(await answer(engine)) == "x"


async def test_when_one_of_several_fails_another_answers(engines: list[RemoteEngine]) -> None:
    with ScriptedServer("toy") as one, ScriptedServer("toy") as other:
        one.chat(BUSY)
        other.chat(says("x"))
        engine = await loaded(engines, one, other)
        for _ in range(3):
            assert text_of(await answer(engine)) == "x"
        assert len(one.bodies) == 1


# ---- what is not trusted -------------------------------------------------------------------


async def test_names_that_could_not_be_shown_are_left_out(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    odd = ["\x1b[31mred", "a\nb", "", " x", "x" * 300, "\u202eevil", "good [bold]name[/]"]
    server.replies["/v1/models"] = [models(*odd)]
    engine = await loaded(engines, server)
    assert engine.card.model_id == "good [bold]name[/]"
    found = await engine.models(Server((f"{server.url}/v1",)))
    assert [one.id for one in found] == ["good [bold]name[/]"]


@pytest.mark.parametrize(
    "value",
    [
        {"data": [{"id": "toy"}] * 5000 + [{"id": f"m{n}"} for n in range(5000)]},
        {"models": [{"name": "toy", "model": "toy"}]},
        {
            "data": [
                "toy",
                7,
                None,
                {"id": 7},
                {"id": "toy", "max_model_len": "x", "meta": [], "owned_by": {}},
            ]
        },
        [{"id": "toy"}],
    ],
)
async def test_lists_of_every_shape_are_read_within_bounds(
    server: ScriptedServer, engines: list[RemoteEngine], value: Any
) -> None:
    server.replies["/v1/models"] = [json_reply(value)]
    engine = await loaded(engines, server)
    assert engine.card.model_id == "toy"
    assert len(await engine.models(Server((f"{server.url}/v1",)))) <= 1000


@pytest.mark.parametrize(
    "reply",
    [
        json_reply({}),
        json_reply({"data": []}),
        json_reply("x"),
        Reply([b"not json"], kind="application/json"),
        Reply([b"<html>"], kind="text/html"),
        Reply([b"x" * 1000] * 9000, kind="application/json"),
        json_reply({"detail": "no"}, 500),
    ],
)
async def test_a_server_without_a_list_is_told(server: ScriptedServer, reply: Reply) -> None:
    server.replies["/v1/models"] = [reply]
    with pytest.raises(BackendError, match=r"lists no models|no list of models|failed"):
        await RemoteEngine(Servers()).load(LoadSpec(server.url))


async def test_a_server_without_a_list_answers_for_a_model_that_is_named(
    server: ScriptedServer, engines: list[RemoteEngine]
) -> None:
    server.replies["/v1/models"] = [json_reply({"detail": "Not Found"}, 404)]
    server.chat(says("x"))
    engine = RemoteEngine(Servers())
    engines.append(engine)
    await engine.load(LoadSpec(f"{server.url}#mine"))
    assert text_of(await answer(engine)) == "x" and server.bodies[0]["model"] == "mine"


async def test_a_reply_without_end_is_ended(
    server: ScriptedServer, engines: list[RemoteEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    from backend.engines.endpoints import Answer

    monkeypatch.setattr(Answer.parts, "__defaults__", (100_000,))
    server.chat(Reply([delta(content="x" * 1000)] * 500))
    with pytest.raises(EngineError, match="sends more than"):
        await answer(await loaded(engines, server))


async def test_vectors_are_read_in_their_order(server: ScriptedServer, engines: list[RemoteEngine]) -> None:
    data = [{"index": 1, "embedding": [2, 3]}, {"index": 0, "embedding": [0.5, 1]}]
    server.replies["/v1/embeddings"] = [json_reply({"data": data})]
    engine = await loaded(engines, server)
    assert await engine.embed(["a", "b"]) == [[0.5, 1.0], [2.0, 3.0]]
    server.replies["/v1/embeddings"] = [json_reply({"error": "no such thing"}, 501)]
    with pytest.raises(EngineError, match="no such thing"):
        await engine.embed(["a"])


async def test_a_server_may_listen_at_a_socket(tmp_path: Path, engines: list[RemoteEngine]) -> None:
    with ScriptedServer("toy", socket=str(tmp_path / "s")) as server:
        server.chat(says("x"))
        engine = RemoteEngine(Servers())
        engines.append(engine)
        await engine.load(LoadSpec(server.url))
        assert text_of(await answer(engine)) == "x" and engine.card.server == server.url
    with pytest.raises(ModelLoadError, match="cannot be reached"):
        await engine.load(LoadSpec(f"unix:{tmp_path}/none"))
