"""One turn of a chat for `fireside -p`: whole, with tools, through the session manager.

Nobody can be asked here: what neither a rule nor the mode allows is refused, and the exit code says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.exits import ExitCode, Failure, usage
from app.files.attachments import Picture, require_sight
from app.frontend.abilities import notes_of, unmet_tools
from app.frontend.engines import make_engine
from app.frontend.find_chat import find
from app.frontend.store_question import makes_room
from app.frontend.workspace import NOWHERE, chosen_folder
from app.models.download import source_of
from app.oneshot.follow import FollowedTurn
from app.oneshot.interrupt import Interrupted
from app.oneshot.job import OneShot, print_prompt
from app.oneshot.load_progress import LoadProgress
from app.oneshot.sinks import Answer, Sink
from app.sessions.errors import FiresideError
from app.sessions.manager import SessionManager
from app.sessions.records import ASKED_ONCE
from app.sessions.snapshot import SessionSnapshot
from app.sessions.store.store import Store
from app.sessions.store.store_file import DamagedStoreError
from app.terminal.output import is_terminal, notify
from backend.types import ChatCard


def run(job: OneShot, asked: str, sink: Sink, answer: Answer, pictures: Sequence[Picture] = ()) -> ExitCode:
    """Answer `asked` in the chat that `job` names. Raises Failure, FiresideError."""
    choice = job.chat
    if job.raw or job.replies > 1:
        flag = "--raw" if job.raw else "--replies"
        raise usage(f"{flag} works only with a single prompt, not with tools, pictures or a continued chat.")
    if pictures and job.dry_run:
        raise usage("--dry-run shows text only, but a picture was given.")
    folder = chosen_folder(choice.workspace) if choice.tools or choice.workspace else None
    if choice.tools and folder is None:
        notify(NOWHERE)
    tools: list[Any] = []
    if choice.tools:
        from app.frontend.tool_choice import choose

        tools, warnings = choose(choice.tools, folder, job.settings.get("hidden_tools", ()))
        for warning in warnings:
            notify(warning)
    try:
        return asyncio.run(_answer(job, asked, sink, answer, tools, folder, pictures))
    except DamagedStoreError as err:
        if answer.begun or not makes_room(err, told=False):
            raise
    return asyncio.run(_answer(job, asked, sink, answer, tools, folder, pictures))


async def _answer(
    job: OneShot,
    asked: str,
    sink: Sink,
    answer: Answer,
    tools: Sequence[Any],
    folder: Path | None,
    pictures: Sequence[Picture],
) -> ExitCode:
    choice = job.chat
    manager = SessionManager(
        engine=make_engine(settings=job.settings, isolated=bool(tools), private=choice.private),
        store=Store(None) if choice.private or (job.dry_run and not choice.goes_on) else None,
        tools=tools,
        approve=choice.approve,  # pyright: ignore[reportArgumentType]  # checked by the manager
        workspace=folder,
    )
    async with manager:
        there = await _existing(manager, job)
        source = source_of(job.settings)
        stop = _Stop()
        with stop.watching():
            card = await _load(manager, job, source, stop)
            if note := notes_of(card, manager.residency):
                notify(note)
            answer.model = card.model_id
            _check(card, job)
            if pictures:
                require_sight(pictures, card)
            session = await _session(manager, job, there)
            answer.session_id = None if choice.private or job.dry_run else session.id
            async with _set_for_now(manager, session.id, job, tools):
                if job.dry_run:
                    return await _show_prompt(manager, session.id, asked, job, card)
                turn = FollowedTurn(manager, session, sink, answer, asks=choice.ask and _can_ask())
                stop.end = turn.interrupt
                await turn.run(asked, pictures)
                stop.raise_if_stopped()
    return turn.end(job)


async def _existing(manager: SessionManager, job: OneShot) -> SessionSnapshot | None:
    """The chat to go on with, or to copy; None for a new one."""
    choice = job.chat
    if choice.fork is not None:
        return await find(manager, choice.fork)
    if choice.resume is not None:
        found = await find(manager, choice.resume)
    elif choice.last:
        last = await manager.last_used()
        if last is None:
            raise usage("There is no chat to continue.", "Start one without -c.")
        found = await manager.get(last.id, include_items=False)
    else:
        return None
    if not job.dry_run:
        # A chat that is open elsewhere is refused before a model is loaded for it.
        await manager.configure(found.id)
    return found


async def _session(manager: SessionManager, job: OneShot, there: SessionSnapshot | None) -> SessionSnapshot:
    """The chat to answer in. A new one is made only now, so that a failed load leaves none behind."""
    if there is None:
        return await manager.create(labels=ASKED_ONCE)
    if job.chat.fork is not None and not job.dry_run:
        return await manager.get(await manager.fork(there.id), include_items=False)
    return there


async def _load(manager: SessionManager, job: OneShot, source: str | None, stop: _Stop) -> ChatCard:
    options: dict[str, Any] = {"slots": 1, **job.settings.load_options()}
    if options.pop("assistant_model", None):
        notify("the draft model (--draft-model) is not used in chats and with tools")
    with LoadProgress(lambda: stop.number is None) as progress:

        def show(fraction: float) -> None:
            progress(fraction)

        loading = asyncio.create_task(manager.load_model(source, progress=show, for_text=True, **options))
        stop.end = loading.cancel
        try:
            return await loading
        except asyncio.CancelledError:
            stop.raise_if_stopped()
            raise


def _check(card: ChatCard, job: OneShot) -> None:
    if not job.chat.tools:
        return
    missing = unmet_tools(card, job.settings)
    if isinstance(missing, Failure):
        raise missing
    if missing:
        notify(missing)


@asynccontextmanager
async def _set_for_now(
    manager: SessionManager, session_id: str, job: OneShot, tools: Sequence[Any]
) -> AsyncGenerator[None]:
    """The settings of this call, in force within; a chat keeps its own for the next one."""
    origins = await manager.settings(session_id)
    before = {name: entry["value"] for name, entry in origins.items()}
    wanted: dict[str, Any] = {}
    settings, choice = job.settings, job.chat
    generation = settings.generation().as_dict()
    if generation:
        wanted["config"] = {**before["config"], **generation}
    if before["approve"] != choice.approve:
        wanted["approve"] = choice.approve
    if generation.get("overflow") == "truncate_oldest":
        wanted["overflow"] = "drop"
    if choice.max_turns is not None:
        wanted["max_rounds"] = choice.max_turns
    if tools and before["tools"] is not None:
        wanted["tools"] = [tool.name for tool in tools]
    if choice.workspace and before["workspace"] != str(chosen_folder(choice.workspace)):
        raise usage(f"This chat works in {before['workspace']}; --workspace cannot move it.")
    given = settings.values.get("system")
    # A chat that goes on keeps what its model was told, unless a flag says otherwise.
    if settings.system and (not choice.goes_on or (given and given.origin.startswith("-"))):
        await manager.configure(session_id, system=settings.system)
    if not wanted:
        yield
        return
    await manager.configure(session_id, **wanted)
    try:
        yield
    finally:
        # What the chat had of its own comes back; the rest follows its defaults again.
        own = {name: before[name] for name in wanted if origins[name]["origin"] == "session"}
        with contextlib.suppress(FiresideError):
            await manager.configure(session_id, **own, reset=[name for name in wanted if name not in own])


async def _show_prompt(
    manager: SessionManager, session_id: str, asked: str, job: OneShot, card: ChatCard
) -> ExitCode:
    made = await manager.preview(session_id, asked)
    return print_prompt(job, made["text"], made["tokens"], card.max_seq, card.model_id)


def _can_ask() -> bool:
    """Whether a person at a terminal could be asked."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


class _Stop:
    """What a signal does while a turn runs: the first ends it in good order, a second the process."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.end: Callable[[], object] = lambda: None

    @contextlib.contextmanager
    def watching(self) -> Any:
        """Within, the signals of `app.oneshot.interrupt` come here."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
        # A shell starts background jobs with SIGINT ignored, and so it stays.
        taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        for number in taken:
            loop.add_signal_handler(number, self._arrived, number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    def raise_if_stopped(self) -> None:
        """Raise the Failure of the signal that came."""
        if self.number is not None:
            raise Interrupted(self.number).failure()

    def _arrived(self, number: int) -> None:
        asyncio.get_running_loop().remove_signal_handler(number)
        if self.number is None:
            self.number = number
        self.end()
