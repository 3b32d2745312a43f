"""`fireside help`: a page, the JSON Schema of the output, the manual page; and completion for a shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from app.cli.table import table
from app.exits import ExitCode, usage
from app.help.topics import SCHEMA_FILE, topic, topics
from app.terminal.output import is_terminal, notify, prepare, takes_styles

if TYPE_CHECKING:
    import typer

SHELLS = ("bash", "zsh", "fish")


def show(app: typer.Typer, name: str | None, *, schema: bool, man: bool) -> ExitCode:
    """Print a page: rendered where the terminal takes styles, else its Markdown; without a name, the list."""
    out = prepare(sys.stdout)
    if man:
        from app.cli.man_page import man_page

        out.write(man_page(app))
    elif schema:
        if name not in (None, "json"):
            raise usage("--schema can only be used with `fireside help json`.")
        out.write(SCHEMA_FILE.read_text(encoding="utf-8"))
    elif name is None:
        out.write(
            "\n".join(table(topics()))
            + "\n\nfireside help TOPIC shows a page; fireside --help lists the flags.\n"
        )
    else:
        from app.tui.help_lists import help_lists

        _write(topic(name, help_lists()).text)
    return ExitCode.ANSWERED


def completion(shell: str) -> ExitCode:
    """Print the completion script of a shell, and where somebody looks on, how it is installed."""
    from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage]

    if shell not in SHELLS:
        raise usage(f"Completion is available for {', '.join(SHELLS)}, not for {shell!r}.")
    script = get_completion_script(prog_name="fireside", complete_var="_FIRESIDE_COMPLETE", shell=shell)
    print(script)
    if is_terminal(sys.stdout):
        notify(f"keep it: {_PLACES[shell]}")
    return ExitCode.ANSWERED


_PLACES = {
    "bash": "fireside completion bash > ~/.local/share/bash-completion/completions/fireside",
    "zsh": "fireside completion zsh > ~/.zfunc/_fireside, with fpath+=~/.zfunc before compinit in ~/.zshrc",
    "fish": "fireside completion fish > ~/.config/fish/completions/fireside.fish",
}


def _write(text: str) -> None:
    out = prepare(sys.stdout)
    if not takes_styles(sys.stdout):
        out.write(text)
        return
    from app.frontend.markdown_style import own_style
    from app.markdown.stream import MarkdownStream

    stream = MarkdownStream(out, own_style)
    stream.write(text)
    stream.finish()
