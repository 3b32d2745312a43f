"""One prompt, one answer: the pipe contract of `fireside -p`.

Reads the prompt, loads the model, writes the replies to a sink, keeps them as a chat, and returns
the exit code. What needs a session or tools is answered by `app.oneshot.session`.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from app.exits import ExitCode, ExplainedError, Failure, explain, leave_quietly, usage
from app.files.text import join_parts
from app.models.download import source_of, source_on
from app.oneshot.interrupt import Interrupted, Interruption
from app.oneshot.job import OneShot, kept_for_reply, print_prompt, verdict
from app.oneshot.load_progress import LoadProgress
from app.oneshot.reading_progress import ReadingProgress
from app.oneshot.sinks import Answer, EventsSink, JsonLinesSink, JsonSink, ReplySoFar, Sink, TextSink
from app.oneshot.stdin import read_file, read_stdin
from app.running import holding
from app.settings.config import Settings
from app.settings.kinds import BOM
from app.terminal.output import is_terminal, notify
from backend.types import (
    ChatOutcome,
    GenerationConfig,
    PrefillProgress,
    ReasoningPiece,
    TextPiece,
)

if TYPE_CHECKING:
    from app.files.attachments import Picture
    from app.sessions.store.asked import Asked, AskedFile
    from backend import GenerativeModel, Request

MOST_SLOTS = 8
_IN_VAIN = (ExitCode.USAGE, ExitCode.NO_MODEL, ExitCode.OVERFLOW)
"""Failures of which nothing is kept: the same question would fail again."""
TEMPLATE_TOKENS = 4096
"""More than any chat template adds to a conversation."""


def run(job: OneShot) -> ExitCode:
    """Answer `job`; returns the exit code. Never raises for what a person can cause."""
    if not job.chat.tools or job.dry_run:
        return _run(job, _sink(job, sys.stdout))
    from app.terminal.own_output import own_output

    with own_output() as out:
        return _run(job, _sink(job, out))


def _run(job: OneShot, sink: Sink) -> ExitCode:
    answer = Answer([ReplySoFar() for _ in range(job.replies)], str(job.settings.get("model", "")))
    keeping = _Keeping(job, answer)
    try:
        with Interruption(job.settings.get("timeout")) as interruption:
            if is_terminal(sys.stderr) and (notice := job.settings.template_notice):
                notify(notice)
            asked, pictures = _prompt(job)
            if job.chat.needs_session or pictures:
                from app.oneshot import session

                return session.run(job, asked, sink, answer, pictures)
            if (source := source_on(job.settings)) is not None:
                from app.oneshot import elsewhere

                begin = keeping.of(asked)
                code = elsewhere.run(job, source, asked, _messages(job, asked), sink, answer, begin)
                if not job.dry_run:
                    keeping.finish()
                    sink.end(answer)
                return code
            slots, cells = min(job.replies, MOST_SLOTS), _cells(job, asked)
            with loaded(
                job.settings, interruption, slots=slots, most_cells=cells, meanwhile=keeping.of(asked)
            ) as model:
                if not job.dry_run:
                    model.open()  # Beside what comes next: learning the chat template takes 40 ms.
                answer.model = model.card.model_id
                if job.dry_run:
                    return _show_prompt(model, job, asked)
                if not job.raw and (unmet := model.card.unmet_thinking(job.settings.generation())):
                    notify(unmet)
                _listen(model, _request(model, job, asked), sink, answer)
                code = verdict(job, answer)
                # Text is on its way to whoever reads it; nothing is kept waiting but the other forms.
                with interruption.noted():
                    keeping.finish()
                sink.end(answer)
                return code
    except BrokenPipeError:
        keeping.finish()
        return leave_quietly(ExitCode.ANSWERED)
    except Interrupted as stop:
        failure = stop.failure()
    except KeyboardInterrupt:
        failure = Failure("interrupted", "Interrupted.", exit_code=ExitCode.INTERRUPTED)
    except Exception as err:
        failure = explain(err)
    try:
        keeping.finish(failure)
        sink.fail(failure, answer)
    except OSError:
        notify(str(failure))
        return leave_quietly(failure.exit_code)
    return failure.exit_code


def _cells(job: OneShot, asked: str) -> int | None:
    """Tokens that this prompt and its reply can take at most: none is shorter than a byte.

    A context is cleared when it is built, so a short answer comes sooner from a small one.
    """
    most_new = job.settings.generation().max_new_tokens
    if most_new is None or job.dry_run:
        return None
    words = (asked, job.settings.system or "")
    return sum(len(text.encode("utf-8", "replace")) for text in words) + most_new + TEMPLATE_TOKENS


def _listen(model: GenerativeModel, request: Request, sink: Sink, answer: Answer) -> None:
    with closing(model.answer(request)) as pieces, ReadingProgress() as progress:
        for piece in pieces:
            if isinstance(piece, PrefillProgress):
                progress.show(piece.done, piece.total, piece.reused)
            else:
                progress.end()
            if isinstance(piece, TextPiece | ReasoningPiece | ChatOutcome):
                answer.replies[piece.reply].take(piece)
            sink.take(piece)


class _Keeping:
    """Keeps the question before the model is loaded, and the answer at the end.

    The question lies in a file that the store takes in: the store takes longer to import than models to load.
    """

    def __init__(self, job: OneShot, answer: Answer) -> None:
        self._job, self._answer = job, answer
        self._text = ""
        self._asked: Asked | None = None
        self._file: AskedFile | None = None
        self._over = True

    def of(self, asked: str) -> Callable[[], None]:
        """What keeps `asked`, which the model alone answers."""
        self._text, self._over = asked, not self._job.is_kept
        return self._begin

    def finish(self, failure: Failure | None = None) -> None:
        """Save what has arrived, once, or forget the question where nothing can come of it."""
        if self._over or self._asked is None:
            return
        self._over = True
        is_vain = failure is not None and failure.exit_code in _IN_VAIN and not self._answer.begun
        if is_vain and self._file is None:
            return
        from app.oneshot.archive import KeptExchange

        kept = KeptExchange(self._asked, self._file)
        if is_vain:
            kept.drop()
        else:
            self._answer.session_id = kept.finish(self._answer.replies, self._answer.model)

    def _begin(self) -> None:
        if self._over:
            return
        from app.sessions.store.asked import Asked, AskedFile

        self._asked = Asked.now(self._text, self._job.settings.system)
        with suppress(OSError, ExplainedError):  # A failure shows itself at the end.
            file = AskedFile(self._asked)
            file.write()
            self._file = file
            # A disk may take long; whoever waits for the answer need not.
            threading.Thread(target=file.settle, name="fireside-keep", daemon=True).start()


@contextmanager
def loaded(
    settings: Settings,
    interruption: Interruption,
    *,
    slots: int,
    most_cells: int | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Generator[GenerativeModel]:
    """The model of `settings`, loaded with its progress on a terminal, closed at the end.

    `most_cells` is what its context will contain at most, in tokens, where that is known. `meanwhile` is
    called once the model is there to be loaded.
    """
    from backend import load

    source = source_of(settings)  # before signals are only noted: fetching takes long
    options: dict[str, Any] = {"slots": slots, "most_cells": most_cells, **settings.load_options()}
    assistant = options.pop("assistant_model", None)
    meanwhile()
    with interruption.noted(), LoadProgress(lambda: interruption.pending is None) as progress:
        model = load(source, progress=progress, for_text=True, **options)
        if assistant:
            _attach_draft_model(model, assistant, progress)
    try:
        if is_terminal(sys.stderr):
            for note in model.residency.get("notes", ()):
                notify(str(note))
        with holding(model.card.model_id):
            yield model
    finally:
        model.close()


def _attach_draft_model(model: GenerativeModel, assistant: str, progress: LoadProgress) -> None:
    """Load the model that drafts for `model`, where drafts are of use to it."""
    from backend import load

    if not model.supports_speculative_decoding:
        notify(
            "the draft model (--draft-model) is not used: this version cannot check drafts with this model"
        )
        return
    model.set_assistant(load(assistant, progress=progress))


def _sink(job: OneShot, out: IO[str]) -> Sink:
    match job.format:
        case "json":
            return JsonSink(out)
        case "jsonl":
            return EventsSink(out) if job.chat.needs_session else JsonLinesSink(out)
        case "text":
            show_thinking = bool(job.settings.get("show_thinking", False))
            return TextSink(out, show_thinking=show_thinking, extract=job.extract)


def _prompt(job: OneShot) -> tuple[str, list[Picture]]:
    """The whole text of the user's turn, and its pictures; a usage failure when there is no text."""
    asked = job.prompt == "-"
    piped = read_stdin(notice=notify, asked=asked) or ""
    prompt = "" if asked else (job.prompt or "").removeprefix(BOM)  # as in -p "$(cat FILE)"
    parts = [(name, read_file(name)) for name in job.files]
    pictures: list[Picture] = []
    if job.attached:
        from app.files.attachments import TextPart, attach

        for one in map(attach, job.attached):
            if isinstance(one, TextPart):
                parts.append((one.title, one.text))
            else:
                pictures.append(one)
    if not prompt.strip():
        prompt, piped = piped, ""
    if piped.strip():
        parts.insert(0, ("", piped))
    if not prompt.strip() and len(parts) == 1:
        prompt = parts.pop()[1]
    if not prompt.strip() and not parts:
        raise usage("There is no prompt.", 'Give one: fireside -p "your question", or pipe text into it.')
    return join_parts(prompt, parts), pictures


def _messages(job: OneShot, text: str) -> list[dict[str, str]]:
    system = job.settings.system
    turns = [{"role": "system", "content": system}] if system else []
    return [*turns, {"role": "user", "content": text}]


def _request(model: GenerativeModel, job: OneShot, text: str) -> Request:
    from backend.chat_engine import Request

    config = job.settings.generation()
    if config.max_new_tokens is None:
        config = GenerationConfig(max_new_tokens=model.max_seq).over(config)
    if job.raw:
        return Request(text=text, config=config, n=job.replies)
    config = kept_for_reply(config, model.max_seq)
    return dataclasses.replace(model.chat_request(_messages(job, text), config), n=job.replies)


def _show_prompt(model: GenerativeModel, job: OneShot, text: str) -> ExitCode:
    made = model.pipeline.prepare(_request(model, job, text)).result()
    return print_prompt(job, made.text, len(made.tokens), model.max_seq, model.card.model_id)
