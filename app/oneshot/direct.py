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
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from app.exits import ExitCode, Failure, explain, leave_quietly, usage
from app.files.text import join_parts
from app.models.fetch import source_of
from app.oneshot.interrupt import Interrupted, Interruption
from app.oneshot.load_progress import LoadProgress
from app.oneshot.sinks import Answer, EventsSink, JsonLinesSink, JsonSink, Reply, Sink, TextSink, write_json
from app.oneshot.stdin import read_file, read_stdin
from app.running import holding
from app.settings.config import Settings
from app.settings.kinds import BOM
from app.terminal.output import is_terminal, notify, prepare, sanitize
from backend.types import (
    ChatOutcome,
    GenerationConfig,
    ModelLoadError,
    ReasoningPiece,
    TextPiece,
    usual_reserve,
)

if TYPE_CHECKING:
    from app.files.attachments import Picture
    from app.oneshot.keep import KeptExchange
    from backend import GenerativeModel, Request

Format = Literal["text", "json", "jsonl"]
MOST_SLOTS = 8
_IN_VAIN = (ExitCode.USAGE, ExitCode.NO_MODEL, ExitCode.OVERFLOW)
"""Failures of which nothing is kept: the same question would fail again."""
TEMPLATE_TOKENS = 4096
"""More than any chat template adds to a conversation."""


@dataclass(frozen=True)
class ChatChoice:
    """Which chat a one-shot belongs to, and what its model may use there."""

    last: bool = False
    """Go on with the chat that changed last."""
    resume: str | None = None
    fork: str | None = None
    private: bool = False
    tools: tuple[str, ...] = ()
    """The values of `--tools`: names, patterns and files."""
    approve: str = "ask"
    workspace: str | None = None
    max_turns: int | None = None

    @property
    def goes_on(self) -> bool:
        """Whether there is a chat already."""
        return self.last or self.resume is not None or self.fork is not None

    @property
    def needs_session(self) -> bool:
        """Whether the model alone does not do."""
        return self.goes_on or bool(self.tools)


@dataclass(frozen=True)
class OneShot:
    """What one call of `fireside -p` asks for."""

    settings: Settings
    prompt: str | None = None
    """The text of `-p`; `-` is standard input, None means that the piped text is the prompt."""
    files: tuple[str, ...] = ()
    attached: tuple[str, ...] = ()
    """The values of `--attach`: text files, PDFs, pictures."""
    format: Format = "text"
    replies: int = 1
    extract: bool = False
    raw: bool = False
    dry_run: bool = False
    chat: ChatChoice = ChatChoice()

    @property
    def is_kept(self) -> bool:
        """Whether the question and its answer are to be saved as a chat; a raw prompt is not one."""
        return not (self.chat.private or self.raw or self.dry_run)


def run(job: OneShot) -> ExitCode:
    """Answer `job`; returns the exit code. Never raises for what a person can cause."""
    if not job.chat.tools or job.dry_run:
        return _run(job, _sink(job, sys.stdout))
    from app.terminal.own_output import own_output

    with own_output() as out:
        return _run(job, _sink(job, out))


def _run(job: OneShot, sink: Sink) -> ExitCode:
    answer = Answer([Reply() for _ in range(job.replies)], str(job.settings.get("model", "")))
    keeping = _Keeping(job, answer)
    try:
        with Interruption(job.settings.get("timeout")) as interruption:
            asked, pictures = _prompt(job)
            if job.chat.needs_session or pictures:
                from app.oneshot import session

                return session.run(job, asked, sink, answer, pictures)
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
    with closing(model.answer(request)) as pieces:
        for piece in pieces:
            if isinstance(piece, TextPiece | ReasoningPiece | ChatOutcome):
                answer.replies[piece.reply].take(piece)
            sink.take(piece)


class _Keeping:
    """Saves the question while the model is loaded, in a thread of its own, and the answer at the end."""

    def __init__(self, job: OneShot, answer: Answer) -> None:
        self._job, self._answer = job, answer
        self._asked = ""
        self._thread: threading.Thread | None = None
        self._kept: KeptExchange | None = None
        self._over = True

    def of(self, asked: str) -> Callable[[], None]:
        """What begins to save `asked`, which the model alone answers."""
        self._asked, self._over = asked, not self._job.is_kept
        return self._begin

    def finish(self, failure: Failure | None = None) -> None:
        """Save what has arrived, once, or forget the question where nothing can come of it."""
        if self._over or (self._thread is None and not self._answer.begun):
            return
        self._over = True
        if self._thread is not None:
            self._thread.join()
        is_vain = failure is not None and failure.exit_code in _IN_VAIN and not self._answer.begun
        if self._kept is None:
            from app.oneshot.keep import keep

            if not is_vain:
                system = self._job.settings.system
                self._answer.session_id = keep(self._asked, system, self._answer.replies, self._answer.model)
        elif is_vain:
            self._kept.drop()
        else:
            self._answer.session_id = self._kept.finish(self._answer.replies, self._answer.model)

    def _begin(self) -> None:
        if not self._over:
            self._thread = threading.Thread(target=self._save_question, name="fireside-keep", daemon=True)
            self._thread.start()

    def _save_question(self) -> None:
        with suppress(Exception):  # A failure shows itself at the end.
            from app.oneshot.keep import KeptExchange

            kept = KeptExchange(self._asked, self._job.settings.system)
            kept.begin()
            self._kept = kept


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
        model = load(source, progress=progress, **options)
        if assistant:
            _attach_draft_model(model, assistant, progress)
    try:
        if model.handle.info.is_embedding:
            raise ModelLoadError(
                f"{model.handle.info.path.stem} is an embedding model and cannot write text.",
                cause="not_a_chat_model",
                remedy="Choose a chat model; `fireside models list` shows what is here.",
            )
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


def kept_for_reply(config: GenerationConfig, max_seq: int) -> GenerationConfig:
    """`config`, with the usual reserve for a reply where it names none."""
    return config.over(GenerationConfig(reply_reserve=usual_reserve(max_seq)))


def _show_prompt(model: GenerativeModel, job: OneShot, text: str) -> ExitCode:
    made = model.pipeline.prepare(_request(model, job, text)).result()
    return print_prompt(job, made.text, len(made.tokens), model.max_seq, model.card.model_id)


def print_prompt(job: OneShot, prompt: str, tokens: int | None, max_seq: int, model: str) -> ExitCode:
    """Print the exact prompt of a dry run; its size goes to standard error, or into the object."""
    out = prepare(sys.stdout)
    if job.format == "text":
        out.write(sanitize(prompt) if is_terminal(sys.stdout) else prompt)
        out.write("" if prompt.endswith("\n") else "\n")
        out.flush()
        needed = (tokens or 0) + (1 if job.raw else kept_for_reply(job.settings.generation(), max_seq).room)
        fits = "" if needed <= max_seq else "; it does not fit with the room that a reply needs"
        notify(f"{'?' if tokens is None else tokens} tokens of a context of {max_seq}{fits}")
    else:
        write_json(out, {"prompt": prompt, "tokens": tokens, "max_seq": max_seq, "model": model})
    return ExitCode.ANSWERED


def _unfit(answer: Answer, broken: tuple[str, ...]) -> ExitCode:
    """The failure of an answer that breaks its schema; what it breaks is told already."""
    answer.failure = Failure(
        "schema_broken",
        f"The answer does not satisfy the schema: {'; '.join(broken)}.",
        remedy="Ask again, or ask for less.",
        exit_code=ExitCode.UNFIT,
    )
    return ExitCode.UNFIT


def verdict(job: OneShot, answer: Answer) -> ExitCode:
    """What the way the replies ended means for the exit code, with a notice where one is due.

    An answer that should satisfy a schema and was cut, or breaks it, is a failure, and the JSON forms say
    so too.
    """
    outcomes = [reply.outcome for reply in answer.replies if reply.outcome is not None]
    if dropped := max((outcome.truncated for outcome in outcomes), default=0):
        notify(f"{dropped} of the oldest turns were left out, so that the prompt fits the context")
    broken = tuple(dict.fromkeys(reason for outcome in outcomes for reason in outcome.schema_errors))
    for reason in broken:
        notify(f"the answer does not satisfy the schema: {reason}")
    ended = [outcome for outcome in outcomes if outcome.finish == "stop" and not outcome.tool_calls]
    if not all(outcome.text.strip() for outcome in ended):
        notify("the model ended its reply without an answer")
    cut = [outcome for outcome in outcomes if outcome.finish == "length"]
    if not cut:
        return _unfit(answer, broken) if broken else ExitCode.ANSWERED
    config = job.settings.generation()
    limit = f"--max-tokens {config.max_new_tokens}" if config.max_new_tokens else "the context window"
    if config.json_schema is not None or config.grammar is not None:
        answer.failure = Failure(
            "schema_cut",
            f"The reply was cut off by {limit} before it satisfied the schema or grammar.",
            remedy="Give it more tokens, or ask for less.",
            exit_code=ExitCode.CUT,
        )
        notify(str(answer.failure))
        return ExitCode.CUT
    if any(outcome.reasoning and not outcome.text for outcome in cut):
        notify(f"the reply was cut off by {limit} while the model was still thinking;  --no-think skips that")
    elif config.max_new_tokens is None:
        notify("the reply was cut off because the context window is full;  --ctx makes it larger")
    return ExitCode.ANSWERED
