"""The command groups of chats and of tools: what each command takes. The bodies are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer


def group(help: str) -> typer.Typer:
    """A group of commands, in plain text. Each does something without a command too."""
    return typer.Typer(
        help=help,
        subcommand_metavar="[COMMAND] [ARGS]...",
        add_completion=False,
        # Rich's help costs 80 ms of import, and so does its traceback.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def lists_alone(app: typer.Typer, show: Callable[[], None]) -> None:
    """Let the name of a group alone do what its listing does with no options."""

    def alone(ctx: typer.Context) -> None:
        if ctx.invoked_subcommand is None:
            show()

    app.callback(invoke_without_command=True)(alone)


sessions = group("The chats on this machine.")
tools = group("What a model may call.")
themes = group("The colours of every face.")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Chat = Annotated[str, typer.Argument(metavar="ID", help="The id of a chat, or a prefix of it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Workspace = Annotated[
    str | None,
    typer.Option("--workspace", metavar="DIR", help="The folder to work in; the current one by default."),
]


@sessions.command("list")
def sessions_list(
    limit: Annotated[int, typer.Option("--limit", "-n", help="Show at most this many.")] = 20,
    archived: Annotated[bool, typer.Option("--all", help="Include archived chats.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the chats, most recent first."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.show_all(limit=limit, archived=archived, as_json=as_json))


@sessions.command("show")
def sessions_show(chat: Chat, as_json: AsJson = False) -> None:
    """Show what was said in a chat."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.show(chat, as_json=as_json))


@sessions.command("search")
def sessions_search(
    query: Annotated[str, typer.Argument(help="Words, all of which must occur.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="Show at most this many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Search messages, thoughts and tool outputs."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.search(query, limit=limit, as_json=as_json))


@sessions.command("export")
def sessions_export(
    chat: Chat,
    format: Annotated[str, typer.Option("--format", help="jsonl (everything), markdown or html.")] = "jsonl",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="A file, readable only by you.")
    ] = None,
) -> None:
    """Export a chat."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.export(chat, format=format, output=output))


@sessions.command("import")
def sessions_import(
    files: Annotated[
        list[str], typer.Argument(help="Exports of Fireside, ChatGPT or llama.cpp's web UI.", metavar="FILE")
    ],
    as_json: AsJson = False,
) -> None:
    """Import chats; prints their ids."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.import_all(files, as_json=as_json))


@sessions.command("fork")
def sessions_fork(
    chat: Chat,
    title: Annotated[str | None, typer.Option("--title", help="Its title, if it should differ.")] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a chat; prints the new id."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.fork(chat, title=title, as_json=as_json))


@sessions.command("rename")
def sessions_rename(chat: Chat, title: str) -> None:
    """Rename a chat."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.rename(chat, title))


@sessions.command("rm")
def sessions_rm(
    chats: Annotated[list[str], typer.Argument(metavar="ID")],
    yes: Yes = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore deleted chats.")] = False,
) -> None:
    """Delete chats; they are kept for 30 days."""
    from app.cli import session_commands

    raise typer.Exit(session_commands.remove(chats, yes=yes, undo=undo))


@tools.command("list")
def tools_list(workspace: Workspace = None, as_json: AsJson = False) -> None:
    """List the tools, without loading any."""
    from app.cli import tool_commands

    raise typer.Exit(tool_commands.show_all(workspace, as_json=as_json))


@tools.command("show")
def tools_show(
    name: Annotated[str, typer.Argument(help="A tool's name, or its file.")],
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Show what a tool does and takes."""
    from app.cli import tool_commands

    raise typer.Exit(tool_commands.show(name, workspace, as_json=as_json))


@tools.command("run")
def tools_run(
    name: Annotated[str, typer.Argument(help="A tool's name, or its file.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE ...|JSON]", help="Its arguments.")
    ] = None,
    workspace: Workspace = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Call a tool yourself."""
    from app.cli import tool_commands

    raise typer.Exit(tool_commands.run_one(name, arguments or [], workspace, yes=yes, as_json=as_json))


@tools.command("aside")
def tools_aside(
    action: Annotated[
        str, typer.Argument(metavar="[list|show|allow|drop]", help="What to do; list by default.")
    ] = "list",
    which: Annotated[str | None, typer.Argument(metavar="[ID]", help="Its id, or its number.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Review files that were moved aside because they would become code: list, show, put back or delete."""
    from app.cli import aside_commands

    raise typer.Exit(aside_commands.act(action, which, yes=yes, as_json=as_json))


@themes.command("list")
def themes_list(as_json: AsJson = False) -> None:
    """List the themes, the shipped ones and yours."""
    from app.cli import theme_commands

    raise typer.Exit(theme_commands.show_all(as_json=as_json))


@themes.command("preview")
def themes_preview(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME ...]", help="All by default.")] = None,
    color: Annotated[
        str, typer.Option("--color", help="Colours: auto, always, never, 16, 256 or truecolor.")
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Show how themes look on this terminal."""
    from app.cli import theme_commands

    raise typer.Exit(theme_commands.preview(names or [], as_json=as_json, color=color))


lists_alone(sessions, sessions_list)
lists_alone(tools, tools_list)
lists_alone(themes, themes_list)
