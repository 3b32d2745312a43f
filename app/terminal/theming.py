"""Themes: one TOML file gives every face its colours. One file, because palettes mirror themes.

A palette is a theme as one terminal can show it.
Reads shipped themes (`themes/`) and those of the config folder; refuses a file that lacks a colour,
with one sentence that names the line. What the libraries make of a palette is in `prompt_style`
(Rich, prompt_toolkit) and `textual_theme`.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from app import paths
from app.bounded import parsed_toml, read_bounded
from app.terminal.colors import blend, is_dark, nearest_index, rgb_of
from app.terminal.output import ColorSystem, sanitize

Role = Literal[
    "background",
    "surface",
    "panel",
    "code_background",
    "text",
    "muted",
    "faint",
    "primary",
    "accent",
    "user",
    "assistant",
    "reasoning",
    "tool",
    "approval",
    "success",
    "warning",
    "error",
    "diff_add",
    "diff_add_background",
    "diff_remove",
    "diff_remove_background",
    "selection",
    "scrollbar",
]
"""What a theme gives a colour to."""

Derived = Literal["chip", "backdrop", "ghost"]
"""The ground of inline code; the ground and the text behind a dialog."""

Tone = Role | Derived
"""All that has a colour."""

Code = Literal[
    "keyword",
    "string",
    "number",
    "comment",
    "function",
    "class",
    "builtin",
    "decorator",
    "operator",
    "punctuation",
]
"""What a piece of code can be; the rest is text."""

Attribute = Literal["bold", "italic", "underline", "dim"]

ROLES: tuple[Role, ...] = get_args(Role)
DERIVED: tuple[Derived, ...] = get_args(Derived)
TONES: tuple[Tone, ...] = (*ROLES, *DERIVED)
CODE: tuple[Code, ...] = get_args(Code)
ATTRIBUTES: tuple[Attribute, ...] = get_args(Attribute)

SHIPPED = ("hearth", "daylight", "ember", "frost", "moss", "paper", "high-contrast", "terminal")
DEFAULT = "hearth"
TERMINAL = "terminal"
"""The theme that uses only the terminal's own 16 colours."""

LIMIT_BYTES = 64 * 1024
GHOST_SHARE = 0.62

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class ThemeError(ValueError):
    """A theme that cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Shade:
    """One colour as each kind of terminal shows it."""

    hex: str
    """`#rrggbb`"""
    index: int
    """Its place among xterm's 256 colours, 16 to 255."""


class Style(NamedTuple):
    """A role with attributes, as `"muted italic"` in a theme's file."""

    role: Role
    attributes: tuple[Attribute, ...] = ()


class Theme(NamedTuple):
    """What one file says. `colors` is None for the theme of the terminal's own colours."""

    name: str
    title: str
    """A few words about it."""
    dark: bool
    colors: Mapping[Tone, Shade] | None
    syntax: Mapping[Code, Style]


class Ansi(NamedTuple):
    """The 16 colours, for terminals without more: a number 0 to 15, None for the default, -1 for reverse."""

    dark: Mapping[Role, int | None]
    """On a dark ground."""
    light: Mapping[Role, int | None]
    attributes: Mapping[Role, tuple[Attribute, ...]]
    """What carries a role where its colour may be weak or is missing."""


REVERSE = -1

_LIKE: Mapping[Derived, Role] = {"chip": "panel", "backdrop": "background", "ghost": "faint"}
"""Where there are 16 colours or none."""


@dataclass(frozen=True, eq=False)
class Palette:
    """A theme on one terminal: what a face draws with.

    Textual faces draw with the true colours (`hex`) everywhere, and `textual_theme.PaletteFilter`
    turns those into what the terminal shows. Other faces take their styles from `prompt_style`.
    """

    name: str
    dark: bool
    """True for light text on a dark ground."""
    depth: ColorSystem | None
    """How many colours are shown: `truecolor`, `256`, `standard` (16), or None."""
    colors: Mapping[Tone, Shade]
    ansi: Mapping[Tone, int | None]
    """Among 16 colours: a number, None for the terminal's default, `REVERSE`."""
    attributes: Mapping[Tone, tuple[Attribute, ...]]
    """Added to a role where there are no tones; empty where there are."""
    syntax: Mapping[Code, Style]
    terminal_depth: ColorSystem | None
    """How many colours the terminal shows, also where the theme uses fewer."""
    dark_ground: bool
    """Whether the terminal's own ground is dark."""

    @property
    def tones(self) -> bool:
        """True where grounds differ: without them edges, dashes and attributes hold the structure."""
        return self.depth in ("256", "truecolor")

    def hex(self, tone: Tone) -> str:
        """The true colour of `tone`, `#rrggbb`, whatever the terminal shows of it."""
        return self.colors[tone].hex


def names() -> list[str]:
    """The themes there are, by name: the shipped ones, then your own; broken ones included."""
    folder = user_folder()
    try:
        own = sorted(file.stem for file in folder.glob("*.toml") if _NAME.fullmatch(file.stem))
    except OSError:
        own = []
    return [*SHIPPED, *(name for name in own if name not in SHIPPED)]


def user_folder() -> Path:
    """Where your own themes lie; it need not exist."""
    return paths.config_file().parent / "themes"


def read(name: str) -> Theme:
    """The theme of that name, your own before a shipped one. ThemeError if there is none or it is broken."""
    if name not in names():
        close = difflib.get_close_matches(name, names(), 1)
        remedy = f"Did you mean {close[0]}?" if close else f"There are {', '.join(names())}."
        raise ThemeError(f"There is no theme {sanitize(name)!r}. {remedy}")
    return _parse(file_of(name))


def file_of(name: str) -> Path:
    """The file of a theme that `names` lists: your own before a shipped one."""
    own = user_folder() / f"{name}.toml"
    if not own.is_file():
        return _shipped(name)
    try:
        return paths.require_own(own)
    except OSError as err:
        raise ThemeError(str(err)) from err


def choose(name: str) -> tuple[Theme, ThemeError | None]:
    """The theme of that name, or the default with the reason why it is not that one."""
    try:
        return read(name), None
    except ThemeError as err:
        return _parse(_shipped(DEFAULT)), err


def palette(theme: Theme, depth: ColorSystem | None = "truecolor", *, dark_ground: bool = True) -> Palette:
    """`theme` as a terminal of that colour depth shows it.

    `dark_ground` tells of the terminal's own ground (see `ground_is_dark`): it counts only where
    that ground stays visible, in 16 colours, without colour, and in the theme `terminal`.
    """
    colors = theme.colors
    terminal_depth = depth
    if colors is None:
        depth = depth and "standard"
        # Roles need colours that differ, for the Textual filter to know them by.
        colors = _parse(_shipped("hearth" if dark_ground else "daylight")).colors or {}
    toneless = depth is None or depth == "standard"
    ansi = ansi_table()
    numbers: dict[Tone, int | None] = {**(ansi.dark if dark_ground else ansi.light)}
    for tone, like in _LIKE.items():
        numbers[tone] = numbers[like]
    return Palette(
        name=theme.name,
        dark=dark_ground if toneless else theme.dark,
        depth=depth,
        colors=colors,
        ansi=numbers,
        attributes={**ansi.attributes} if toneless else {},
        syntax=theme.syntax,
        terminal_depth=terminal_depth,
        dark_ground=dark_ground,
    )


def switch(drawn: Palette, theme: Theme) -> Palette:
    """Another theme on the terminal that `drawn` is shown on."""
    return palette(theme, drawn.terminal_depth, dark_ground=drawn.dark_ground)


def ground_is_dark(answer: str | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal's ground is dark: by its answer to OSC 11, else COLORFGBG, else yes."""
    if answer and (color := _answered_color(answer)):
        return is_dark(color)
    number = environ.get("COLORFGBG", "").rpartition(";")[2]
    return not number.isdecimal() or int(number) in (0, 1, 2, 3, 4, 5, 6, 8)


def ansi_table() -> Ansi:
    """The 16-colour numbers and the attributes that hold for every theme."""
    file = _shipped(TERMINAL)
    data = tomllib.loads(file.read_text("utf-8"))
    pairs = cast("dict[Role, list[int | str]]", data["ansi"])
    words: dict[int | str, int | None] = {"default": None, "reverse": REVERSE}
    number: dict[Role, list[int | None]] = {
        role: [words.get(value, cast("int", value)) for value in pair] for role, pair in pairs.items()
    }
    attributes = cast("dict[Role, str]", data["attributes"])
    return Ansi(
        dark={role: pair[0] for role, pair in number.items()},
        light={role: pair[1] for role, pair in number.items()},
        attributes={
            role: cast("tuple[Attribute, ...]", tuple(text.split())) for role, text in attributes.items()
        },
    )


def _answered_color(answer: str) -> str | None:
    """The colour in an answer such as `ESC ] 11 ; rgb:1919/1414/1111 BEL`."""
    if found := re.search(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})", answer):
        parts = [round(int(part, 16) / (16 ** len(part) - 1) * 255) for part in found.groups()]
        return "#{:02x}{:02x}{:02x}".format(*parts)
    found = re.search(r"#[0-9a-fA-F]{6}(?![0-9a-fA-F])", answer)
    return found and found[0]


def _shipped(name: str) -> Path:
    import themes

    return Path(str(themes.__file__)).with_name(f"{name}.toml")


class _File:
    """One theme's text, which knows the line of each key for the sake of errors."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._text = read_bounded(file, LIMIT_BYTES).decode("utf-8-sig")
            self.data = parsed_toml(self._text)
        except tomllib.TOMLDecodeError as err:
            reason, _, place = str(err).partition(" (at ")
            line = re.match(r"line (\d+)", place)
            last = self._text.count("\n") + 1
            raise self._error(int(line[1]) if line else last, reason) from err
        except UnicodeDecodeError as err:
            raise ThemeError(f"{self._name}: it is not UTF-8 text.") from err
        except ValueError as err:
            raise ThemeError(f"{self._name}: {err}.") from err
        except OSError as err:
            raise ThemeError(f"{self._name}: {err.strerror or err}.") from err

    @property
    def _name(self) -> str:
        return sanitize(str(self._file)).replace("\n", "?")

    def table(self, name: str) -> dict[str, Any]:
        """The table of that name; an empty one if there is none."""
        value = self.data.get(name, {})
        if not isinstance(value, dict):
            raise self.error("", name, f"{name} must be a table.")
        return cast("dict[str, Any]", value)

    def value(self, key: str, kind: type[Any], word: str) -> Any:
        """The value of a key of the file's head."""
        if not isinstance(value := self.data.get(key), kind):
            raise self.error("", key, f"{key} must be {word}.")
        return value

    def error(self, table: str, key: str, reason: str) -> ThemeError:
        """`reason` as an error at `key`, or at its table where the key is missing."""
        return self._error(self._line(table, key), reason)

    def _error(self, line: int, reason: str) -> ThemeError:
        return ThemeError(f"{self._name}, line {line}: {sanitize(reason)}")

    def _line(self, table: str, key: str) -> int:
        current, place = "", 1
        for number, line in enumerate(self._text.splitlines(), 1):
            if header := re.match(r"\s*\[\s*([\w-]+)\s*\]", line):
                current = header[1]
                place = number if current == table else place
            elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
        return place


def _parse(path: Path) -> Theme:
    file = _File(path)
    name = file.value("name", str, "the name of the file without .toml")
    if name != path.stem:
        raise file.error("", "name", f"name must be {path.stem!r}, like the file.")
    title = sanitize(file.value("title", str, "a few words about the theme")).replace("\n", " ")
    syntax: dict[Code, Style] = {kind: _style(file, kind) for kind in CODE}
    for kind in file.table("syntax"):
        if kind not in CODE:
            raise file.error("syntax", kind, f"{kind} is not a part of code; those are {', '.join(CODE)}.")
    if name == TERMINAL and "colors" not in file.data:
        return Theme(name, title, True, None, syntax)
    dark = file.value("dark", bool, "true or false")
    return Theme(name, title, dark, _colors(file, dark), syntax)


def _colors(file: _File, dark: bool) -> dict[Tone, Shade]:
    given = file.table("colors")
    for key in given:
        if key not in ROLES:
            close = difflib.get_close_matches(key, ROLES, 1)
            hint = f"; did you mean {close[0]}?" if close else f"; those are {', '.join(ROLES)}."
            raise file.error("colors", key, f"{key} is not a role{hint}")
    colors: dict[Tone, Shade] = {}
    for role in ROLES:
        if role not in given:
            raise file.error("colors", role, f"the colour of {role} is missing.")
        colors[role] = _shade(file, "colors", role, given[role])

    derived = file.table("derived")
    for key in derived:
        if key not in DERIVED:
            raise file.error("derived", key, f"{key} is not one of {', '.join(DERIVED)}.")
    ghost = blend(colors["code_background"].hex, colors["faint"].hex, GHOST_SHARE)
    colors["chip"] = colors["panel" if dark else "code_background"]
    colors["backdrop"] = colors["code_background"]
    colors["ghost"] = Shade(ghost, nearest_index(ghost))
    for tone in DERIVED:
        if tone in derived:
            colors[tone] = _shade(file, "derived", tone, derived[tone])
    return colors


def _shade(file: _File, table: str, key: str, value: Any) -> Shade:
    """A colour: `"#rrggbb"`, or that and its place among 256."""
    parts = cast("list[Any]", value if isinstance(value, list) else [value])
    match parts:
        case [str(color)]:
            index = None
        case [str(color), int(index)] if 16 <= index <= 255:
            pass
        case _:
            raise file.error(table, key, f'{key} must be "#rrggbb" or ["#rrggbb", 16 to 255].')
    try:
        rgb_of(color)
    except ValueError as err:
        raise file.error(table, key, f"{err}.") from err
    return Shade(color.lower(), nearest_index(color) if index is None else index)


def _style(file: _File, kind: Code) -> Style:
    value = file.table("syntax").get(kind, "text")
    role, *attributes = value.split() if isinstance(value, str) and value.strip() else [""]
    if role not in ROLES or not set(attributes) <= set(ATTRIBUTES):
        raise file.error("syntax", kind, f"{kind} must be a role, then {', '.join(ATTRIBUTES)} if you like.")
    return Style(role, cast("tuple[Attribute, ...]", tuple(attributes)))
