"""The command line: what each command takes, and which room answers it.

Thin and quick to import; every face and the backend are imported by the command that needs them.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from app import paths
from app.characters import clip
from app.cli.completions import complete_topics, offer_plain_words
from app.cli.config import config
from app.cli.flags import CHAT, SESSION, Flag, Given, command
from app.cli.groups import group, sessions, themes, tools
from app.cli.launch import FACES, begin, check_chat, chosen_settings, is_plain, start_repl, start_tui
from app.cli.models import models
from app.cli.serve import SERVE, serve
from app.exits import ExitCode, Failure, explain, leave_quietly, usage
from app.settings.config import Settings
from app.terminal.native_output import keep_native_output_in
from app.terminal.output import is_terminal, notify, one_line

ONE_SHOT: tuple[Flag, ...] = (
    Flag(
        ("--prompt", "-p"),
        str,
        "Answer this prompt and exit; - reads it from standard input.",
        None,
        "TEXT|-",
    ),
    Flag(("--file", "-f"), list[str], "Add a text file to the prompt (repeatable).", None, "FILE"),
    Flag(
        ("--attach",),
        list[str],
        "Attach a text file, a PDF or a picture (repeatable).",
        None,
        "FILE",
    ),
    Flag(("--format",), str, "Output of a one-shot: text, json or jsonl.", None, "text|json|jsonl"),
    Flag(("--replies",), int, "Number of replies to one prompt.", None, "N"),
    Flag(("--extract", "-x"), bool, "Print only the first fenced block of the reply."),
    Flag(("--ask",), bool, "At a terminal, ask about the calls that -p would refuse."),
    Flag(("--raw",), bool, "Give the prompt to the model as it is, without a chat template."),
    Flag(("--dry-run",), bool, "Print the exact prompt and its token count, and stop."),
    Flag(("--version",), bool, "Print the version and exit."),
)
_UNKNOWN = re.compile(r"No such command '(.*)'", re.DOTALL)
_RUNS = ("run", "chat", "start", "load")
"""What the command for a chat is called elsewhere."""
COMPLETE_VARIABLE = "_FIRESIDE_COMPLETE"
"""What a shell sets when it asks how a line may go on."""
PLAIN = Flag(("--plain",), bool, "No colours, no line editing.")


app = group("Chat with a model of your own, in the terminal.")
app.add_typer(models, name="models")
app.add_typer(config, name="config")
app.add_typer(sessions, name="sessions")
app.add_typer(tools, name="tools")
app.add_typer(themes, name="themes")


def main(args: Sequence[str]) -> int:
    """Run the command that `args` name; returns the exit code of terminal.md."""
    begin()
    if COMPLETE_VARIABLE in os.environ:
        offer_plain_words()
    try:
        code = int(app(with_bare_resume(args), prog_name="fireside", standalone_mode=False) or 0)
        _flush()
        return code
    except typer.TyperException as err:
        failure = _usage(err, args)
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return leave_quietly()
    except SystemExit as end:
        # typer makes 1 of a pipe that nobody reads any more.
        return leave_quietly() if isinstance(end.__context__, BrokenPipeError) else int(str(end.code or 0))
    except Exception as err:
        failure = explain(err)
    return _report(failure, args)


def _flush() -> None:
    """Write what is still buffered while a failure can be told. OSError, BrokenPipeError."""
    if sys.stdout is not None and not sys.stdout.closed:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout.flush()


def _no_command(name: str, args: Sequence[str]) -> Failure:
    """That a word is not a command, and how to chat: other programs take a model's name there."""
    rest = list(args)[list(args).index(name) + 1 :] if name in args else []
    named = rest[0] if name in _RUNS and rest and not rest[0].startswith("-") else "NAME"
    model = named if name in _RUNS else name
    return usage(
        f"There is no command '{clip(name)}'.",
        f"To chat with a model: fireside -m {shlex.quote(one_line(model))}. To ask one question: "
        'fireside -p "your question". `fireside --help` lists the commands.',
    )


def _usage(err: typer.TyperException, args: Sequence[str]) -> Failure:
    """What is wrong with the line, and where its own command is explained."""
    context: typer.Context | None = getattr(err, "ctx", None)
    message, path = err.format_message().rstrip("."), context.command_path if context else "fireside"
    if path == "fireside" and (unknown := _UNKNOWN.fullmatch(message)):
        return _no_command(unknown[1], args)
    end = "" if message.endswith("?") else "."
    return usage(f"{message}{end}", f"`{path} --help` lists what there is.")


def with_bare_resume(args: Sequence[str]) -> list[str]:
    """`args`, where a `--resume` without an id has an empty one: it means that a person chooses."""
    given = list(args)
    for index, flag in enumerate(given):
        if flag == "--":
            break
        following = given[index + 1] if index + 1 < len(given) else "-"
        if flag == "--resume" and (following.startswith("-") or following in FACES):
            given[index] = "--resume="
    return given


def _chat(ctx: typer.Context, given: Given) -> int:
    if given.get("version"):
        return _print_version()
    if ctx.invoked_subcommand is not None:
        wrong = ONE_SHOT if ctx.invoked_subcommand in FACES else (*ONE_SHOT, *SESSION)
        if misplaced := [flag for flag in wrong if flag.name in given]:
            raise usage(f"{misplaced[0].names[0]} cannot be used with the command {ctx.invoked_subcommand}.")
        ctx.obj = given
        return 0
    if not {"prompt", "file", "attach"} & given.keys() and is_terminal(sys.stdin) and is_terminal(sys.stdout):
        return start_repl(given) if is_plain(given) else start_tui(given)
    return _answer_once(given)


def _tui(ctx: typer.Context, given: Given) -> int:
    """Chat in full screen."""
    return start_tui({**(ctx.obj or {}), **given})


def _repl(ctx: typer.Context, given: Given) -> int:
    """Chat line by line."""
    return start_repl({**(ctx.obj or {}), **given})


def _serve(ctx: typer.Context, given: Given) -> int:
    """Serve the model and the chats to other programs over HTTP, as OpenAI's API."""
    return serve({**(ctx.obj or {}), **given})


app.callback(invoke_without_command=True)(command(_chat, *ONE_SHOT, PLAIN, *SESSION, *CHAT))
app.command("tui")(command(_tui, *SESSION, *CHAT))
app.command("repl")(command(_repl, PLAIN, *SESSION, *CHAT))
app.command("serve")(command(_serve, *SERVE, *(flag for flag in CHAT if flag.setting != "server")))


@app.command()
def bench(
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Model: a file, a folder or a name.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, few rows: some 20 seconds.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Measure only these (commas; repeatable).")
    ] = None,
    pairs: Annotated[int, typer.Option("--pairs", help="Interleaved pairs for each ratio.")] = 10,
) -> None:
    """Measure this machine against bare llama.cpp."""
    from backend import bench as benchmark

    names = tuple(name.strip() for text in only or () for name in text.split(",") if name.strip())
    try:
        code = benchmark.main(model, as_json, quick, names, pairs)
    except ValueError as err:
        raise usage(str(err), "`fireside bench --help` lists the flags.") from err
    raise typer.Exit(code)


@app.command("help")
def help_command(
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", autocompletion=complete_topics, help="The page to show."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="The JSON Schema of --format json, jsonl.")
    ] = False,
    man: Annotated[bool, typer.Option("--man", help="The manual page, for man -l.")] = False,
) -> None:
    """Show a page about keys, tools, config, pipes, json, api, demos or gpu."""
    from app.cli import help_commands

    raise typer.Exit(help_commands.show(app, topic, schema=schema, man=man))


@app.command()
def completion(shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish")]) -> None:
    """Print the completion script for a shell."""
    from app.cli import help_commands

    raise typer.Exit(help_commands.completion(shell))


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check everything a chat needs, and say how to fix what is missing."""
    from app import doctor as room

    raise typer.Exit(room.run(as_json=as_json))


@tools.command("trust", help="The same as `fireside trust`.")
@app.command()
def trust(
    directory: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="A project's folder; the current one by default.")
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Stop trusting it.")] = False,
) -> None:
    """Trust a project's tools, settings, prompts and AGENTS.md, after showing them."""
    from app.cli import tool_commands

    raise typer.Exit(tool_commands.trust(directory, revoke=revoke))


@app.command()
def demo(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Demo files.")],
    test: Annotated[
        bool, typer.Option("--test", help="Play it without a screen, and fail if it fails.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="DIR", help="Draw its pictures into this folder.")
    ] = None,
    cast: Annotated[
        Path | None,
        typer.Option(
            "--cast", metavar="FILE", help="Record it for asciinema, or as a moving picture (.svg)."
        ),
    ] = None,
    speed: Annotated[float, typer.Option("--speed", min=0.1, max=100, help="2 types twice as fast.")] = 1.0,
) -> None:
    """Play scripted demos: live, as a test, as pictures, or into a recording."""
    from app.demo.run import run

    inner = (sys.executable, "-P", "-m", "app.cli.played")
    raise typer.Exit(run(files, inner, test=test, svg=svg, cast=cast, speed=speed))


def _answer_once(given: Given) -> int:
    form = given.get("format", "text")
    if form not in ("text", "json", "jsonl"):
        raise usage(f"--format expects text, json or jsonl, not {form!r}.")
    if not 1 <= (replies := given.get("replies", 1)) <= 256:
        raise usage("--replies expects a number from 1 to 256.")
    check_chat(given)
    settings = chosen_settings(given)
    from app.oneshot import direct
    from app.oneshot.job import ChatChoice, OneShot
    from app.running import name_face

    name_face("one-shot")
    job = OneShot(
        settings=settings,
        prompt=given.get("prompt"),
        files=tuple(given.get("file", ())),
        attached=tuple(given.get("attach", ())),
        format=form,
        replies=replies,
        extract=given.get("extract", False),
        raw=given.get("raw", False),
        dry_run=given.get("dry_run", False),
        chat=ChatChoice(
            last=given.get("continue_", False),
            resume=_resumed(given),
            fork=given.get("fork"),
            private=given.get("private", False),
            tools=_tools_once(given, settings),
            approve=settings.get("approve", "ask"),
            workspace=given.get("workspace"),
            max_turns=given.get("max_turns"),
            ask=given.get("ask", False),
        ),
    )
    if not job.chat.needs_session:
        # The model runs in this process, not in a child whose output leads to a log.
        keep_native_output_in(paths.state_dir() / "native.log")
    return direct.run(job)


def _tools_once(given: Given, settings: Settings) -> tuple[str, ...]:
    """The tools of a one-shot. Those of the settings give way to what goes without tools only."""
    gives_way = "tools" not in given and (given.get("raw") or given.get("replies", 1) > 1)
    return () if given.get("no_tools") or gives_way else settings.get("tools", ())


def _resumed(given: Given) -> str | None:
    """The chat to go on with; one that a person chooses now where the flag names none."""
    if given.get("resume") != "":
        return given.get("resume")
    from app.cli.pick_chat import pick_chat

    return pick_chat()


def _print_version() -> int:
    from app import __version__

    print(f"fireside {__version__}")
    return ExitCode.ANSWERED


def _report(failure: Failure, args: Sequence[str]) -> int:
    """Tell the failure: on standard error, or as the object that the JSON formats promise."""
    form = _json_form(args)
    if form is None:
        notify(str(failure))
        return failure.exit_code
    import json

    event = {"type": "error"} if form == "jsonl" else {}
    try:
        print(json.dumps({**event, **failure.as_dict()}), flush=True)
    except OSError:  # Nobody reads it, or there is no room for it.
        leave_quietly()
        notify(str(failure))
    return failure.exit_code


def _json_form(args: Sequence[str]) -> str | None:
    """The JSON format that the arguments ask for, read without a parser: they may be wrong."""
    pairs = [*args, *(f"{flag}={value}" for flag, value in pairwise(args))]
    return next((form for form in ("json", "jsonl") if f"--format={form}" in pairs), None)
