"""`RemoteEngine`: a model of a server. One file, because it is one `ChatEngine`.

The server speaks OpenAI's API.
Templates, tokens and grammars are the server's business: counts are estimates, and what only tokens could
do is refused in words.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from backend.chat_engine import Count, EngineStats, LoadSpec, Progress, Rendered, Request, Tool
from backend.engines import foreign
from backend.engines.endpoints import (
    Answer,
    BrokenError,
    Endpoint,
    Endpoints,
    RefusedError,
    where_is,
)
from backend.engines.server_errors import complaint_in, error_of
from backend.engines.server_list import Listed, choose, listed_in, with_props, with_show
from backend.engines.server_reply import ReplyReader, replies_of
from backend.engines.server_request import body_of, estimated_chars, messages_of, require_possible
from backend.engines.servers import Server, Servers, shown
from backend.engines.sse import EventReader, StreamError
from backend.types import (
    BackendError,
    ChatCard,
    ChatOutcome,
    ContextOverflowError,
    EngineError,
    GenerationConfig,
    Message,
    ModelLoadError,
    Piece,
)

logger = logging.getLogger("fireside")

MOST_ATTEMPTS = 4
MOST_WAIT_S = 60.0
FIRST_WAIT_S = 0.5
REST_S = 5.0
"""How long the end of a stream is awaited once the reply has ended."""
CHARS_PER_TOKEN = 4.0
ACTIVE = 8
"""Replies that may run at once: what a server has room for it does not tell."""
_DETAIL_S = 3.0
_POLL_S = 0.2


@dataclass
class _Running:
    """A request at work."""

    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    cancelled: bool = False


@dataclass(frozen=True)
class _Loaded:
    endpoints: Endpoints
    model: Listed
    card: ChatCard
    notes: tuple[str, ...]

    @property
    def server(self) -> Server:
        return self.endpoints.server


class RemoteEngine:
    """Answers by a model of one of `servers`; to load one is to look at it, which is done at once.

    All of it belongs to one event loop.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._loaded: _Loaded | None = None
        self._running: dict[str, _Running] = {}
        self._chars_per_token = CHARS_PER_TOKEN
        self._unwanted: frozenset[str] = frozenset()
        """Fields that the server refused: they are not sent again."""

    @property
    def card(self) -> ChatCard:
        return self._now().card

    @property
    def residency(self) -> dict[str, Any]:
        loaded = self._now()
        return {"devices": [], "pipeline": {}, "notes": list(loaded.notes), "server": loaded.card.server}

    @property
    def closed(self) -> bool:
        return self._loaded is None

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        """Look at the model that `spec.source` names, in place of the one there was; that stays where this
        one cannot be had. Raises ModelLoadError, and EngineError where there is no key."""
        if spec.source is None:
            raise ModelLoadError("No server was named.", cause="not_found", remedy="Name one with --server.")
        server, wanted = self._servers.find(spec.source)
        looking = asyncio.ensure_future(self._look(server, wanted, spec.options.get("max_seq")))
        try:
            while not looking.done():
                if progress is not None and progress(0.0) is False:
                    raise ModelLoadError("Loading was stopped.", cause="cancelled", remedy="Load it again.")
                await asyncio.wait([looking], timeout=_POLL_S)
        finally:
            if not looking.done():
                looking.cancel()
                await asyncio.wait([looking])
        before, self._loaded = self._loaded, looking.result()
        self._unwanted, self._chars_per_token = frozenset(), CHARS_PER_TOKEN
        if before is not None:
            await before.endpoints.close()
        if progress is not None:
            progress(1.0)
        return self.card

    async def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        """Answer a request; one list for what arrived together. EngineError where the server fails; closing
        the iterator closes the connection."""
        loaded = self._now()
        if request.id in self._running:
            raise ValueError(
                f"request {request.id} is already running; a second answer needs a request of its own"
            )
        require_possible(request, loaded.model.kind)
        running = self._running[request.id] = _Running()
        arrived: asyncio.Queue[list[Piece] | BackendError] = asyncio.Queue(64)
        for reader in replies_of(request):
            running.tasks.append(asyncio.create_task(self._write(loaded, reader, arrived, running)))
        left = request.n
        try:
            while left:
                got = await arrived.get()
                if isinstance(got, BackendError):
                    raise got
                left -= sum(isinstance(piece, ChatOutcome) for piece in got)
                yield got
        finally:
            self._running.pop(request.id, None)
            for task in running.tasks:
                task.cancel()
            await asyncio.gather(*running.tasks, return_exceptions=True)

    def cancel(self, request_id: str) -> None:
        if running := self._running.get(request_id):
            running.cancelled = True
            for task in running.tasks:
                task.cancel()

    async def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        config: GenerationConfig | None = None,
        conversation: str | None = None,
        continue_reply: bool = False,
    ) -> Count:
        """An estimate: characters, by what the server's own counts of earlier prompts came to."""
        self._now()
        return Count(int(estimated_chars(messages, tools) / self._chars_per_token) + 1, exact=False)

    async def render(self, request: Request) -> Rendered:
        """What would be sent: the server makes the prompt of it, and does not show it."""
        loaded = self._now()
        if request.messages is None:
            return Rendered(request.text or "", None, exact=False)
        body: dict[str, Any] = {"messages": messages_of(request.messages)}
        if request.tools:
            body["tools"] = [dict(tool) for tool in request.tools]
        text = json.dumps({"model": loaded.model.id, **body}, ensure_ascii=False, indent=2, default=str)
        return Rendered(text, None, exact=False)

    async def tokenize(self, text: str) -> list[int]:
        raise _no_tokens()

    async def detokenize(self, ids: Sequence[int]) -> str:
        raise _no_tokens()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text. EngineError where the server makes none."""
        loaded = self._now()
        endpoint = loaded.endpoints.pick(None)
        assert endpoint is not None
        body = {"model": loaded.model.id, "input": list(texts)}
        try:
            value = foreign.fields(await endpoint.get("embeddings", body))
        except RefusedError as err:
            raise self._refused(loaded, endpoint, err) from err
        except (BrokenError, ValueError, TimeoutError) as err:
            raise _broken(loaded.server, endpoint, str(err)) from err
        entries = [foreign.fields(one) for one in foreign.items(value.get("data"))]
        entries.sort(key=lambda one: foreign.count(one.get("index")))
        vectors = [foreign.items(one.get("embedding")) for one in entries]
        if len(vectors) != len(texts) or not all(vectors):
            raise EngineError(f"{where_is(loaded.server, endpoint.url)} sent no vectors.")
        return [[float(number) for number in vector] for vector in vectors]

    async def warm(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        conversation: str | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        """Nothing: a server reads a conversation when it is asked."""

    async def forget(self, conversation: str) -> None:
        """Nothing: what a server keeps is its own business."""

    async def stats(self) -> EngineStats:
        loaded = self._now()
        running = sum(len(one.tasks) for one in self._running.values())
        return EngineStats(running, 0, loaded.card.max_active, 0, loaded.card.max_seq)

    async def unload(self) -> None:
        """Close the connections; running replies end as cancelled."""
        loaded, self._loaded = self._loaded, None
        for request_id in list(self._running):
            self.cancel(request_id)
        tasks = [task for running in self._running.values() for task in running.tasks]
        if tasks:
            await asyncio.wait(tasks)
        if loaded is not None:
            await loaded.endpoints.close()

    async def models(self, server: Server) -> list[Listed]:
        """The models that a server lists. Raises as `load`."""
        endpoints = await _connect(server)
        try:
            found, _ = await _list(endpoints)
            return found
        finally:
            await endpoints.close()

    # ---- loading ---------------------------------------------------------------------------

    async def _look(self, server: Server, wanted: str, limit: int | None) -> _Loaded:
        endpoints = await _connect(server)
        try:
            models, notes = await _list(endpoints)
            model = choose(models, wanted or server.model, where_is(server))
            model = await _detailed(endpoints.all[0], model)
        except BaseException:
            await endpoints.close()
            raise
        window = server.context or model.window or 0
        if limit is not None:
            window = min(window, limit) if window else limit
        thinks = model.thinking is not False
        card = ChatCard(
            model_id=model.id,
            architecture="",
            parameters=model.parameters,
            quantization="",
            max_seq=window,
            supports_tools=server.tools if server.tools is not None else model.tools is not False,
            supports_thinking=thinks,
            supports_vision=bool(model.vision if server.vision is None else server.vision),
            supports_audio=bool(model.audio),
            reasoning_mode="toggleable" if thinks else "never",
            tool_call_format="server",
            max_active=ACTIVE * len(endpoints.all),
            kind="chat",
            server=server.name or shown(server.urls[0]),
        )
        return _Loaded(endpoints, model, card, (*server.warnings, *notes))

    # ---- one reply -------------------------------------------------------------------------

    async def _write(
        self,
        loaded: _Loaded,
        reader: ReplyReader,
        arrived: asyncio.Queue[list[Piece] | BackendError],
        running: _Running,
    ) -> None:
        try:
            async with aclosing(self._read(loaded, reader)) as steps:
                async for pieces in steps:
                    await arrived.put(pieces)
            last = self._measured(loaded, reader, reader.finish())
        except asyncio.CancelledError:
            if not running.cancelled:
                raise
            last = self._measured(loaded, reader, reader.finish(cancelled=True))
        except BackendError as err:
            await arrived.put(self._learned(err))
            return
        except Exception as err:
            logger.exception("a server's reply could not be read")
            await arrived.put(EngineError(f"The server's reply could not be read: {type(err).__name__}."))
            return
        await arrived.put(last)

    async def _read(self, loaded: _Loaded, reader: ReplyReader) -> AsyncGenerator[list[Piece]]:
        """What arrives of a reply. Nothing is asked again once anything of it has arrived."""
        request, server = reader.request, loaded.server
        body = body_of(request, loaded.model.kind, loaded.model.id).without(self._unwanted)
        tried: list[Endpoint] = []
        attempt = 0
        while True:
            endpoint = loaded.endpoints.pick(request.conversation, tried)
            if endpoint is None:
                tried.clear()
                continue
            reader.notes = body.notes
            try:
                async with endpoint.send("POST", body.path, body.fields) as answer:
                    async for pieces in _pieces(answer, reader, where_is(server, endpoint.url)):
                        yield pieces
                return
            except BrokenError as err:
                attempt += 1
                endpoint.failed()
                if reader.begun or err.sent or attempt >= MOST_ATTEMPTS:
                    raise _broken(server, endpoint, err.why, begun=reader.begun) from err
                wait = _backoff(attempt)
            except RefusedError as err:
                if body.offers_tools and err.complaint.refuses_tools:
                    body = body.without_tools()
                    self._know(supports_tools=False)
                    continue
                unwanted = err.complaint.unwanted(body.optional | {"max_tokens"}) & body.sent
                if unwanted:
                    body = body.without(unwanted)
                    self._unwanted |= unwanted
                    continue
                attempt += 1
                wait = _wait_of(err, attempt)
                if wait is None:
                    raise self._refused(loaded, endpoint, err) from err
                endpoint.failed()
            tried.append(endpoint)
            if all(one in tried for one in loaded.endpoints.all):
                tried.clear()
                await asyncio.sleep(wait)

    def _refused(self, loaded: _Loaded, endpoint: Endpoint, err: RefusedError) -> BackendError:
        where = where_is(loaded.server, endpoint.url)
        return error_of(err.complaint, where, has_key=bool(endpoint.key), model=loaded.model.id)

    def _learned(self, err: BackendError) -> BackendError:
        """An overflow tells how large the context is, where nobody knew."""
        if isinstance(err, ContextOverflowError) and self._loaded and not self._loaded.card.max_seq:
            self._know(max_seq=err.max_seq)
        return err

    def _know(self, **facts: Any) -> None:
        """What the server shows of its model only when it is asked something."""
        if (loaded := self._loaded) is not None:
            self._loaded = replace(loaded, card=replace(loaded.card, **facts))

    def _measured(self, loaded: _Loaded, reader: ReplyReader, pieces: list[Piece]) -> list[Piece]:
        """The last pieces, with the size of the prompt, which calibrates later estimates."""
        outcome, request = pieces[-1], reader.request
        assert isinstance(outcome, ChatOutcome)
        chars = estimated_chars(request.messages or (), request.tools) or len(request.text or "")
        if outcome.prompt_tokens > 0 and chars > 200:
            self._chars_per_token = max(1.0, min(8.0, chars / outcome.prompt_tokens))
        elif outcome.prompt_tokens == 0:
            outcome = replace(outcome, prompt_tokens=int(chars / self._chars_per_token) + 1)
        return [*pieces[:-1], outcome]

    def _now(self) -> _Loaded:
        if self._loaded is None:
            raise EngineError("No model is loaded.", remedy="Load one first.")
        return self._loaded


async def card_of(servers: Servers, source: str) -> ChatCard:
    """What the server that `source` names says of its model. Raises as `RemoteEngine.load`."""
    engine = RemoteEngine(servers)
    try:
        return await engine.load(LoadSpec(source))
    finally:
        await engine.unload()


async def _pieces(answer: Answer, reader: ReplyReader, where: str) -> AsyncIterator[list[Piece]]:
    """The pieces in an answer: a stream of events, or the whole of it where the server does not stream."""
    if "json" in answer.kind:
        pieces = reader.take(_json(await answer.whole(), where))
        _require_no_error(reader, where)
        reader.complete = True
        yield pieces
        return
    if "html" in answer.kind:
        raise EngineError(
            f"{where} answers with a web page, so it is no API.", remedy="Its address mostly ends in /v1."
        )
    events, done = EventReader(), False
    parts = aiter(answer.parts())
    while not done:
        try:
            async with asyncio.timeout(REST_S if reader.complete else None):
                data = await anext(parts)
        except (StopAsyncIteration, TimeoutError):
            break
        pieces: list[Piece] = []
        for event in _events(events, data, where):
            if done := event.strip() == "[DONE]":
                break
            pieces += reader.take(_json(event, where)) if event.strip() else []
        if pieces:
            yield pieces
        _require_no_error(reader, where)
    else:
        reader.complete = True
    if not done:
        for event in events.end():
            done = event.data.strip() == "[DONE]"
            if not done and (pieces := reader.take(_json_or_none(event.data))):
                yield pieces
        _require_no_error(reader, where)
    if not done and not reader.complete:
        raise EngineError(
            f"{where} ended the reply before it was complete.", remedy="Ask again, or continue the reply."
        )


def _events(events: EventReader, data: bytes, where: str) -> list[str]:
    try:
        return [event.data for event in events.feed(data)]
    except StreamError as err:
        raise EngineError(f"{where} sends no stream that can be read: {err}.") from err


def _require_no_error(reader: ReplyReader, where: str) -> None:
    if reader.error is not None:
        raise error_of(complaint_in(reader.error), where, has_key=True)


def _json(text: str | bytes, where: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as err:
        said = text if isinstance(text, str) else text.decode("utf-8", "replace")
        raise EngineError(f"{where} sent something that is not JSON: {foreign.one_line(said, 80)}") from err


def _json_or_none(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


async def _connect(server: Server) -> Endpoints:
    key = await asyncio.to_thread(server.key.read) if server.key is not None else ""
    await asyncio.to_thread(__import__, "httpx")  # takes a while, and a face draws meanwhile
    return Endpoints(server, key)


async def _list(endpoints: Endpoints) -> tuple[list[Listed], list[str]]:
    """The models that every address of the server has which answers; those that do not are told."""
    server = endpoints.server

    async def ask(one: Endpoint) -> list[Listed] | BackendError:
        where = where_is(server, one.url)
        try:
            return listed_in(await one.get("models"))
        except RefusedError as err:
            if err.complaint.status in (404, 405, 501):
                return []
            return error_of(err.complaint, where, has_key=bool(one.key))
        except (BrokenError, TimeoutError) as err:
            one.failed()
            why = err.why if isinstance(err, BrokenError) else "it does not answer in time"
            return _unreachable(where, why)
        except (ValueError, EngineError) as err:
            reason = "" if isinstance(err, ValueError) else f" {err}"
            return EngineError(f"{where} sent no list of models that could be read.{reason}")

    answers = await asyncio.gather(*(ask(one) for one in endpoints.all))
    lists = [answer for answer in answers if not isinstance(answer, BackendError)]
    failed = [answer for answer in answers if isinstance(answer, BackendError)]
    if not lists:
        raise failed[0]
    first = lists[0]
    common = [one for one in first if all(any(one.id == other.id for other in found) for found in lists[1:])]
    return common or first, [str(error) for error in failed]


async def _detailed(endpoint: Endpoint, model: Listed) -> Listed:
    """The model with what its kind of server tells elsewhere; nothing is lost where it does not."""
    try:
        async with asyncio.timeout(_DETAIL_S):
            if model.kind == "llamacpp":
                return with_props(model, await endpoint.get("/props"))
            if model.kind == "ollama":
                return with_show(model, await endpoint.get("/api/show", {"model": model.id}))
    except (BrokenError, RefusedError, EngineError, ValueError, TimeoutError):
        pass
    return model


def _backoff(attempt: int) -> float:
    return FIRST_WAIT_S * 2 ** (attempt - 1) * (1 + random.random() / 4)


def _wait_of(err: RefusedError, attempt: int) -> float | None:
    """How long to wait before the request is sent again; None where that is of no use."""
    complaint = err.complaint
    if complaint.status not in (429, 503) or complaint.is_quota or attempt >= MOST_ATTEMPTS:
        return None
    wait = complaint.retry_after_s
    if wait is None:
        return _backoff(attempt)
    return wait if wait <= MOST_WAIT_S else None


def _unreachable(where: str, why: str) -> ModelLoadError:
    return ModelLoadError(
        f"{where} cannot be reached: {why}.",
        cause="unreachable",
        remedy="Start it, or correct the address.",
    )


def _broken(server: Server, endpoint: Endpoint, why: str, *, begun: bool = False) -> EngineError:
    where = where_is(server, endpoint.url)
    if begun:
        return EngineError(
            f"The connection to {where[0].lower()}{where[1:]} broke in the middle of the reply: {why}.",
            remedy="What arrived is kept. Ask again, or continue the reply.",
        )
    return EngineError(
        f"{where} cannot be reached: {why}.", remedy="Start it, or choose another model (/model)."
    )


def _no_tokens() -> EngineError:
    return EngineError(
        "The tokens of a model on a server are not known here.",
        remedy="Choose a model of this machine for that.",
    )
