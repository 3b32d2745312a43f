"""`fireside themes`: which there are, and how they look on this terminal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from app.cli.table import table
from app.exits import ExitCode, usage
from app.settings.config import resolve
from app.terminal import theming
from app.terminal.glyphs import Glyphs, choose
from app.terminal.output import color_depth
from app.terminal.theming import TONES, Attribute, Palette, Theme, ThemeError, Tone

if TYPE_CHECKING:
    from rich.text import Text

WIDTH = 66

_Part = tuple[str, Tone, Tone | None, tuple[Attribute, ...]]


def show_all(*, as_json: bool) -> int:
    """List the themes; a broken one with its reason."""
    current = str(resolve({}).get("theme", theming.DEFAULT))
    rows = [_described(name, current) for name in theming.names()]
    if as_json:
        print(json.dumps(rows))
        return ExitCode.ANSWERED
    for line in table(
        [
            ("*" if row["current"] else " ", row["name"], row["ground"], row["problem"] or row["title"])
            for row in rows
        ]
    ):
        print(line)
    return ExitCode.ANSWERED


def preview(names: list[str], *, as_json: bool, color: str = "auto") -> int:
    """Draw a sample in each of the themes, all of them by default; as JSON, their colours."""
    try:
        depth = color_depth(color)
        themes = [theming.read(name) for name in names or _readable()]
    except (ThemeError, ValueError) as err:
        raise usage(str(err)) from err
    if as_json:
        print(json.dumps([_values(theme) for theme in themes]))
        return ExitCode.ANSWERED
    from rich.console import Console

    dark = theming.ground_is_dark(_answer(depth, themes))
    console = Console(file=sys.stdout, color_system=depth, force_terminal=depth is not None)
    glyphs = choose(bool(resolve({}).get("ascii")))
    for theme in themes:
        drawn = theming.palette(theme, depth, dark_ground=dark)
        for line in _sample(theme, drawn, glyphs):
            console.print(line, no_wrap=True, overflow="crop", highlight=False)
    return ExitCode.ANSWERED


def _answer(depth: str | None, themes: list[Theme]) -> str | None:
    """What the terminal says of its ground, where that shows."""
    if depth in ("256", "truecolor") and all(theme.colors for theme in themes):
        return None
    from app.terminal.background import ask_ground

    return ask_ground() if sys.stdout.isatty() else None


def _readable() -> list[str]:
    return [name for name in theming.names() if theming.choose(name)[1] is None]


def _described(name: str, current: str) -> dict[str, Any]:
    theme, problem = theming.choose(name)
    ground = "broken" if problem else "dark" if theme.dark else "light"
    return {
        "name": name,
        "title": "" if problem else theme.title,
        "ground": "yours" if theme.colors is None and not problem else ground,
        "file": str(theming.file_of(name)),
        "current": name == current,
        "problem": str(problem) if problem else None,
    }


def _values(theme: Theme) -> dict[str, Any]:
    ansi = theming.ansi_table()
    colors = theme.colors
    return {
        "name": theme.name,
        "title": theme.title,
        "dark": theme.dark if colors else None,
        "colors": {tone: {"hex": colors[tone].hex, "index": colors[tone].index} for tone in TONES}
        if colors
        else None,
        "ansi": {"dark": dict(ansi.dark), "light": dict(ansi.light)},
        "syntax": {kind: " ".join((style.role, *style.attributes)) for kind, style in theme.syntax.items()},
    }


def _sample(theme: Theme, drawn: Palette, glyphs: Glyphs) -> list[Text]:
    """What look.md shows of each theme: who speaks, code, a question, the states."""

    def line(*parts: _Part, ground: Tone = "background", edge: str = " ", by: Tone = "text") -> Text:
        return _line(drawn, parts, ground, edge, by)

    def part(text: str, tone: Tone = "text", *attributes: Attribute, on: Tone | None = None) -> _Part:
        return text, tone, on, attributes

    key = glyphs.key
    chip = "buf[-3:]" if drawn.tones else "`buf[-3:]`"
    return [
        line(),
        line(part("Is the tail of a list cheap?"), ground="surface", edge=glyphs.edge, by="user"),
        line(),
        line(part(theme.name, "assistant", "bold"), part(f"   {theme.title}", "muted")),
        line(part(f"{glyphs.folded} thought for 1.2 s, 60 tokens", "reasoning", "italic")),
        line(part(f"{glyphs.folded} ", "tool"), part("read_file", "tool", "bold"), part(" src/tail.py")),
        line(),
        line(
            part("A slice such as "), part(chip, on="chip"), part(" copies "), part("three", "text", "bold")
        ),
        line(part("items; see "), part("lists", "accent", "underline"), part(".")),
        line(),
        line(part("python", "muted"), ground="code_background"),
        line(
            part("def ", "primary"),
            part("tail", "assistant"),
            part("(", "muted"),
            part("buf, n"),
            part("=", "muted"),
            part("3", "accent"),
            part("):", "muted"),
            ground="code_background",
        ),
        line(
            part("    return ", "primary"),
            part("buf[-n:]"),
            part("  # newest last", "muted", "italic"),
            ground="code_background",
        ),
        line(),
        line(
            part("approve?", "approval", "bold"),
            part("  edit_file  src/tail.py  "),
            part("+1", "diff_add", "bold", on="diff_add_background"),
            part(" "),
            part("-1", "diff_remove", "bold", on="diff_remove_background"),
            ground="panel",
            edge=glyphs.waiting,
            by="approval",
        ),
        line(
            part(key("y"), "approval", "bold"),
            part(" once   "),
            part(key("s"), "approval", "bold"),
            part(" this chat   "),
            part(key("n"), "approval", "bold"),
            part(" no, go on"),
            ground="panel",
            edge=glyphs.waiting,
            by="approval",
        ),
        line(),
        line(
            part(f"{glyphs.done} done  ", "success"),
            part(f"{glyphs.partial} warning  ", "warning"),
            part(f"{glyphs.failed} error  ", "error"),
            part("primary  ", "primary"),
            part("muted  ", "muted"),
            part("faint  ", "faint"),
            part(" selected ", on="selection"),
        ),
        line(),
    ]


def _line(drawn: Palette, parts: tuple[_Part, ...], ground: Tone, edge: str, by: Tone) -> Text:
    from rich.text import Text

    from app.terminal.prompt_style import rich_style

    text = Text(" ", rich_style(drawn, "text", "background"))
    text.append(edge, rich_style(drawn, by, "background"))
    text.append(" ", rich_style(drawn, "text", ground))
    for content, tone, on, attributes in parts:
        text.append(content, rich_style(drawn, tone, on or ground, attributes))
    text.append(" " * max(0, WIDTH - len(text.plain)), rich_style(drawn, "text", ground))
    return text
