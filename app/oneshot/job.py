"""What a call of `fireside -p` asks for, and what both ways of answering it share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from app.exits import ExitCode, Failure
from app.oneshot.sinks import Answer, write_json
from app.settings.config import Settings
from app.terminal.output import is_terminal, notify, prepare, sanitize
from backend.types import GenerationConfig, usual_reserve

Format = Literal["text", "json", "jsonl"]


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
    ask: bool = False
    """Whether a person at the terminal is asked about calls; nobody is asked elsewhere."""

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


def kept_for_reply(config: GenerationConfig, max_seq: int) -> GenerationConfig:
    """`config`, with the usual reserve for a reply where it names none."""
    return config.over(GenerationConfig(reply_reserve=usual_reserve(max_seq)))


def print_prompt(job: OneShot, prompt: str, tokens: int | None, max_seq: int, model: str) -> ExitCode:
    """Print the exact prompt of a dry run; its size goes to standard error, or into the object."""
    out = prepare(sys.stdout)
    if job.format == "text":
        out.write(sanitize(prompt) if is_terminal(sys.stdout) else prompt)
        out.write("" if prompt.endswith("\n") else "\n")
        out.flush()
        needed = (tokens or 0) + (1 if job.raw else kept_for_reply(job.settings.generation(), max_seq).room)
        fits = (
            "" if needed <= max_seq or not max_seq else "; it does not fit with the room that a reply needs"
        )
        context = f"a context of {max_seq}" if max_seq else "a context of unknown size"
        notify(f"{'?' if tokens is None else tokens} tokens of {context}{fits}")
    else:
        write_json(out, {"prompt": prompt, "tokens": tokens, "max_seq": max_seq or None, "model": model})
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
    warnings = tuple(dict.fromkeys(warning for outcome in outcomes for warning in outcome.warnings))
    for warning in warnings:
        notify(warning)
    if not warnings and not all(outcome.text.strip() for outcome in ended):
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
