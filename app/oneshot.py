"""One prompt, one answer: the pipe contract of `fireside -p`.

Reads the prompt, loads the model, writes the replies to a sink, and returns the exit code.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from app.config import Settings
from app.exits import ExitCode, Failure, explain, usage
from app.interrupt import Interrupted, Interruption
from app.load_progress import LoadProgress
from app.sinks import JsonLinesSink, JsonSink, Reply, Sink, TextSink, write_json
from app.stdin import join_parts, read_file, read_stdin
from app.terminal import is_terminal, notify, prepare, sanitize
from backend.types import ChatOutcome, GenerationConfig, ModelLoadError, ReasoningPiece, TextPiece

if TYPE_CHECKING:
    from backend import GenerativeModel, Request

Format = Literal["text", "json", "jsonl"]
MOST_SLOTS = 8


@dataclass(frozen=True)
class OneShot:
    """What one call of `fireside -p` asks for."""

    settings: Settings
    prompt: str | None = None
    """The text of `-p`; `-` is standard input, None means that the piped text is the prompt."""
    files: tuple[str, ...] = ()
    format: Format = "text"
    replies: int = 1
    extract: bool = False
    raw: bool = False
    dry_run: bool = False


def run(job: OneShot) -> ExitCode:
    """Answer `job`; returns the exit code. Never raises for what a person can cause."""
    sink = _sink(job)
    replies = [Reply() for _ in range(job.replies)]
    name = str(job.settings.get("model", ""))
    try:
        with Interruption(job.settings.get("timeout")) as interruption:
            text = _prompt(job)
            with loaded(job.settings, interruption, slots=min(job.replies, MOST_SLOTS)) as model:
                if not job.dry_run:
                    model.open()  # Beside what comes next: learning the chat template takes 50 ms.
                name = model.card.model_id
                if job.dry_run:
                    return _show_prompt(model, job, text)
                with closing(model.answer(_request(model, job, text))) as pieces:
                    for piece in pieces:
                        if isinstance(piece, TextPiece | ReasoningPiece | ChatOutcome):
                            replies[piece.reply].take(piece)
                        sink.take(piece)
                sink.end(replies, name)
                return _verdict(job, replies)
    except BrokenPipeError:
        return _leave_quietly(ExitCode.ANSWERED)
    except Interrupted as stop:
        failure = stop.failure()
    except KeyboardInterrupt:
        failure = Failure("interrupted", "Interrupted.", exit_code=ExitCode.INTERRUPTED)
    except Exception as err:
        failure = explain(err)
    try:
        sink.fail(failure, replies, name)
    except OSError:
        notify(str(failure))
        return _leave_quietly(failure.exit_code)
    return failure.exit_code


@contextmanager
def loaded(settings: Settings, interruption: Interruption, *, slots: int) -> Generator[GenerativeModel]:
    """The model of `settings`, loaded with its progress on a terminal, closed at the end."""
    from backend import load

    named = settings.values.get("model")
    # Left to the backend, so that its errors name the variable.
    source = None if named is None or named.origin == "FIRESIDE_MODEL" else named.value
    options: dict[str, Any] = {"slots": slots, **settings.load_options()}
    with interruption.noted(), LoadProgress(lambda: interruption.pending is None) as progress:
        if assistant := options.get("assistant_model"):
            options["assistant_model"] = load(assistant, progress=progress)
        model = load(source, progress=progress, **options)
    try:
        if model.handle.info.is_embedding:
            raise ModelLoadError(
                f"{model.handle.info.path.stem} is an embedding model and writes no text.",
                cause="not_a_chat_model",
                remedy="Choose a chat model; `fireside models list` shows what is here.",
            )
        if is_terminal(sys.stderr):
            for note in model.residency.get("notes", ()):
                notify(str(note))
        yield model
    finally:
        model.close()


def _sink(job: OneShot) -> Sink:
    match job.format:
        case "json":
            return JsonSink()
        case "jsonl":
            return JsonLinesSink()
        case "text":
            show_thinking = bool(job.settings.get("show_thinking", False))
            return TextSink(show_thinking=show_thinking, extract=job.extract)


def _prompt(job: OneShot) -> str:
    """The whole text of the user's turn; a usage failure when there is none."""
    asked = job.prompt == "-"
    piped = read_stdin(notice=notify, asked=asked) or ""
    prompt, parts = ("" if asked else job.prompt or ""), [(name, read_file(name)) for name in job.files]
    if not prompt.strip():
        prompt, piped = piped, ""
    if piped.strip():
        parts.insert(0, ("", piped))
    if not prompt.strip() and len(parts) == 1:
        prompt = parts.pop()[1]
    if not prompt.strip() and not parts:
        raise usage("There is no prompt.", 'Give one: fireside -p "your question", or pipe text into it.')
    return join_parts(prompt, parts)


def _messages(job: OneShot, text: str) -> list[dict[str, str]]:
    system = job.settings.get("system")
    turns = [{"role": "system", "content": system}] if system else []
    return [*turns, {"role": "user", "content": text}]


def _request(model: GenerativeModel, job: OneShot, text: str) -> Request:
    from backend.chat_engine import Request

    config = job.settings.generation()
    if config.max_new_tokens is None:
        config = GenerationConfig(max_new_tokens=model.max_seq).over(config)
    if job.raw:
        return Request(text=text, config=config, n=job.replies)
    return dataclasses.replace(model.chat_request(_messages(job, text), config), n=job.replies)


def _show_prompt(model: GenerativeModel, job: OneShot, text: str) -> ExitCode:
    made = model.pipeline.prepare(_request(model, job, text)).result()
    prompt, tokens = made.text, len(made.tokens)
    out = prepare(sys.stdout)
    if job.format == "text":
        out.write(sanitize(prompt) if is_terminal(sys.stdout) else prompt)
        out.write("" if prompt.endswith("\n") else "\n")
        out.flush()
        fits = "" if tokens < model.max_seq else ", which it does not fit"
        notify(f"{tokens} tokens of a context of {model.max_seq}{fits}")
    else:
        fields = {"prompt": prompt, "tokens": tokens, "max_seq": model.max_seq}
        write_json(out, {**fields, "model": model.card.model_id})
    return ExitCode.ANSWERED


def _verdict(job: OneShot, replies: list[Reply]) -> ExitCode:
    """What the way the replies ended means for the exit code, with a notice where one is due."""
    outcomes = [reply.outcome for reply in replies if reply.outcome is not None]
    if dropped := max((outcome.truncated for outcome in outcomes), default=0):
        notify(f"{dropped} of the oldest turns were left out, so that the prompt fits the context")
    if not any(outcome.finish == "length" for outcome in outcomes):
        return ExitCode.ANSWERED
    config = job.settings.generation()
    limit = f"--max-tokens {config.max_new_tokens}" if config.max_new_tokens else "the context window"
    if config.json_schema is not None or config.grammar is not None:
        notify(f"the reply was cut by {limit} before it satisfied the schema or grammar")
        return ExitCode.CUT
    if config.max_new_tokens is None:
        notify("the reply was cut because the context window is full; --ctx makes it larger")
    return ExitCode.ANSWERED


def _leave_quietly(code: ExitCode) -> ExitCode:
    """Nobody reads standard output any more: what is still buffered goes nowhere."""
    hole = os.open(os.devnull, os.O_WRONLY)
    os.dup2(hole, 1)
    os.close(hole)
    return code
