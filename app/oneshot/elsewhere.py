"""One prompt, answered by a model of a server alone: no session, no model of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from app.exits import ExitCode
from app.oneshot.job import OneShot, kept_for_reply, print_prompt, verdict
from app.oneshot.sinks import Answer, Sink
from app.settings.servers import servers
from app.terminal.output import notify
from backend.chat_engine import LoadSpec, Request
from backend.engines.remote import RemoteEngine
from backend.types import ChatCard, ChatOutcome, ReasoningPiece, TextPiece

Messages = Sequence[Mapping[str, Any]]


def run(
    job: OneShot,
    source: str,
    asked: str,
    messages: Messages,
    sink: Sink,
    answer: Answer,
    begin: Callable[[], None],
) -> ExitCode:
    """Answer `messages`, or `asked` as it is for `--raw`, by the model that `source` names.

    `begin` is called once the server is there. Raises BackendError; a signal ends it by its exception.
    """
    return asyncio.run(_run(job, source, asked, messages, sink, answer, begin))


async def _run(
    job: OneShot,
    source: str,
    asked: str,
    messages: Messages,
    sink: Sink,
    answer: Answer,
    begin: Callable[[], None],
) -> ExitCode:
    engine = RemoteEngine(servers(job.settings))
    try:
        card = await engine.load(LoadSpec(source, job.settings.load_options()))
        answer.model = card.model_id
        for note in engine.residency["notes"]:
            notify(str(note))
        request = _request(job, card, asked, messages)
        if job.dry_run:
            made = await engine.render(request)
            return print_prompt(job, made.text, None, card.max_seq, card.model_id)
        begin()
        await _listen(engine, request, sink, answer)
    finally:
        await engine.unload()
    return verdict(job, answer)


def _request(job: OneShot, card: ChatCard, asked: str, messages: Messages) -> Request:
    config = job.settings.generation()
    if job.raw:
        return Request(text=asked, config=config, n=job.replies)
    config = kept_for_reply(config, card.max_seq)
    return Request(messages=messages, config=config, n=job.replies)


async def _listen(engine: RemoteEngine, request: Request, sink: Sink, answer: Answer) -> None:
    told: set[str] = set()
    async with aclosing(cast(Any, engine.submit(request))) as steps:
        async for pieces in steps:
            for piece in pieces:
                if isinstance(piece, TextPiece | ReasoningPiece | ChatOutcome):
                    answer.replies[piece.reply].take(piece)
                if isinstance(piece, ChatOutcome):
                    for note in piece.notes:
                        if note not in told:
                            notify(note)
                            told.add(note)
                sink.take(piece)
