"""The manual page, made of the commands themselves: `fireside help --man`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from app import __version__
from app.help.topics import topic

if TYPE_CHECKING:
    import typer


def man_page(app: typer.Typer) -> str:
    """The page of the commands of `app`, in the macros of man(7)."""
    import typer.main

    root: Any = typer.main.get_command(app)
    lines = [
        f'.TH FIRESIDE 1 "" "fireside {__version__}" "User Commands"',
        ".SH NAME",
        r"fireside \- " + _text("chat with a model of your own, in the terminal"),
        ".SH SYNOPSIS",
        r".B fireside",
        r"[\fIOPTION\fR]... [\fB\-p\fR \fIPROMPT\fR]",
        ".br",
        r".B fireside",
        r"\fICOMMAND\fR [\fIARGUMENT\fR]...",
        ".SH DESCRIPTION",
        *_prose(),
        ".SH OPTIONS",
        *_options(root),
        ".SH COMMANDS",
        *_commands(root, "fireside"),
        ".SH EXIT STATUS",
        *_exit_codes(),
        ".SH SEE ALSO",
        _text("fireside help TOPIC shows pages about keys, tools, config, pipes, json, api, demos and gpu."),
    ]
    return "\n".join(lines) + "\n"


def _prose() -> Iterator[str]:
    yield _text(
        "Without a prompt and on a terminal, a chat in full screen; with one, its answer, and nothing else:"
    )
    yield _text("standard output carries the answer, notices and errors go to standard error.")


def _options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        names = [*getattr(parameter, "opts", ()), *getattr(parameter, "secondary_opts", ())]
        if parameter.param_type_name != "option":
            continue
        takes = "" if parameter.is_flag else f" {parameter.metavar or parameter.type.name.upper()}"
        yield ".TP"
        yield rf"\fB{_escaped(', '.join(sorted(names, key=len)))}\fR\fI{_escaped(takes)}\fR"
        yield _text(parameter.help or "")


def _commands(command: Any, path: str) -> Iterator[str]:
    for name, one in sorted(command.commands.items()):
        if hasattr(one, "commands"):
            yield from _commands(one, f"{path} {name}")
            continue
        arguments = [each for each in one.params if each.param_type_name == "argument"]
        words = " ".join(each.metavar or each.name.upper() for each in arguments)
        yield ".TP"
        yield rf"\fB{_escaped(f'{path} {name}')}\fR \fI{_escaped(words)}\fR"
        yield _text((one.help or "").partition("\n")[0])


def _exit_codes() -> Iterator[str]:
    for code, meaning in re.findall(r"^\| ([\d, ]+) \| (.+) \|$", topic("pipes", {}).text, re.MULTILINE):
        yield ".TP"
        yield rf"\fB{_escaped(code)}\fR"
        yield _text(meaning)


def _text(text: str) -> str:
    """A line of running text: no request, no escape begins in it."""
    escaped = _escaped(text.replace("`", ""))
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")
