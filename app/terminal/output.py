"""What a terminal may be sent, and what it can show.

`sanitize` is the one door for every text that Fireside did not write itself: model, tool, file,
metadata, error, title. It works on characters, so pieces of a text may pass it one by one.
"""

from __future__ import annotations

import io
import os
import re
import sys
import unicodedata
from collections.abc import Mapping
from typing import IO, Literal

from app.characters import clean_text

ColorSystem = Literal["standard", "256", "truecolor"]

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # marks and overrides of writing direction
)
_SEPARATORS = re.compile("[\u2028\u2029]")  # line ends to Python, of no agreed width to terminals
_LINE_ENDS = re.compile(r"[ ]*[\n\t][ \n\t]*")

_COLORS: Mapping[str, ColorSystem | None] = {
    "never": None,
    "16": "standard",
    "256": "256",
    "truecolor": "truecolor",
}
COLOR_CHOICES = ("auto", "always", *_COLORS)
"""What `--color` takes."""

_TRUE_COLOR_TERMS = ("alacritty", "contour", "foot", "ghostty", "kitty", "rio", "wezterm")
_TITLE_LENGTH = 120


def sanitize(text: str) -> str:
    """`text` without control characters but newline and tab; lone surrogates become U+FFFD."""
    return clean_text(_SEPARATORS.sub(" ", _CONTROLS.sub("", text)))


def one_line(text: str) -> str:
    """`text`, sanitised, on a single line: a name that somebody else chose can forge no other one."""
    return _LINE_ENDS.sub(" ", sanitize(text)).strip()


def squeezed(text: str) -> str:
    """`text`, sanitised, on a single line, with one blank where there were blanks or line ends."""
    return " ".join(sanitize(text).split())


def one_row(text: str) -> str:
    """A part of a row of ours, last looked at before it is drawn: nothing in it moves to another row."""
    return text if text.isprintable() else sanitize(text).replace("\n", " ").replace("\t", " ")


def escape_json(text: str) -> str:
    """JSON as it may go to a terminal: what that would obey or hide is escaped, and reads back the same."""
    return "".join([_escaped(char) if _is_unseen(char) else char for char in text])


def _is_unseen(char: str) -> bool:
    return char > "~" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escaped(char: str) -> str:
    data = char.encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2)])


def is_terminal(stream: IO[str] | None) -> bool:
    """True for an open stream that leads to a terminal; closed and missing ones do not."""
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def takes_styles(stream: IO[str] | None, environ: Mapping[str, str] = os.environ) -> bool:
    """True where control codes are welcome: a terminal that is not dumb, without `NO_COLOR`."""
    if not is_terminal(stream) or environ.get("NO_COLOR"):
        return False
    return environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def can_fill_screen() -> bool:
    """True where a terminal can be drawn on from corner to corner: every one that is not dumb."""
    return os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def color_system(environ: Mapping[str, str] = os.environ) -> ColorSystem:
    """How many colours the terminal says it shows, by `COLORTERM` and `TERM`.

    GNU screen passes an outer terminal's COLORTERM on without showing such colours; tmux shows them.
    """
    term = environ.get("TERM", "")
    if in_screen(environ):
        return "256" if "256color" in term else "standard"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or environ.get("WT_SESSION"):
        return "truecolor"
    if term.endswith(("-direct", "-truecolor")):
        return "truecolor"
    if any(name in term.split("-") for name in _TRUE_COLOR_TERMS):
        return "truecolor"
    return "256" if "256color" in term else "standard"


def color_depth(
    choice: str = "auto", stream: IO[str] | None = None, environ: Mapping[str, str] = os.environ
) -> ColorSystem | None:
    """How many colours to show, by `--color` (`COLOR_CHOICES`); None for no colour.

    `auto` shows none where `NO_COLOR` is set, on a dumb terminal, and into a `stream` that is no
    terminal (None: standard output). ValueError for another choice.
    """
    if choice in _COLORS:
        return _COLORS[choice]
    if choice == "always":
        return color_system(environ)
    if choice != "auto":
        raise ValueError(f"--color expects {', '.join(COLOR_CHOICES)}, not {choice!r}.")
    return color_system(environ) if takes_styles(stream or sys.stdout, environ) else None


def over_ssh(environ: Mapping[str, str] = os.environ) -> bool:
    """True where the terminal is likely on another machine."""
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


def in_tmux(environ: Mapping[str, str] = os.environ) -> bool:
    """True inside tmux."""
    return bool(environ.get("TMUX"))


def in_screen(environ: Mapping[str, str] = os.environ) -> bool:
    """True inside GNU screen, and not in a tmux within it."""
    return bool(environ.get("STY")) and not in_tmux(environ)


def title_sequence(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """What sets the terminal's title to `text`, sanitised and in one line; empty where none is shown."""
    term = environ.get("TERM", "")
    if term in ("", "dumb", "unknown", "linux", "ansi") or term.startswith(("vt1", "vt2")):
        return ""
    title = one_line(text)[:_TITLE_LENGTH]
    return f"\x1bk{title}\x1b\\" if in_screen(environ) else f"\x1b]2;{title}\x07"


def prepare(stream: IO[str] | None) -> IO[str]:
    """`stream` made unable to fail on a character; a closed one becomes a hole."""
    if stream is None:
        return io.StringIO()
    encoding = None if is_terminal(stream) else "utf-8"
    wrapper: object = stream
    if isinstance(wrapper, io.TextIOWrapper):
        wrapper.reconfigure(encoding=encoding, errors="replace", newline="\n")
    return stream


def errors() -> IO[str] | None:
    """Where Fireside itself tells a person something beside the answer; None where it is closed.

    Standard error, past what cleans that of others while tools run.
    """
    return getattr(sys.stderr, "own", sys.stderr)


def notify(text: str) -> None:
    """One line for the person, on standard error."""
    out = errors()
    if out is None:
        return
    try:
        print(f"fireside: {one_line(text)}", file=out, flush=True)
    except OSError:  # What cannot be told must not change how the command ends.
        if sys.stderr is sys.__stderr__:
            write_nowhere(sys.stderr)


def write_nowhere(stream: IO[str] | None) -> None:
    """From now on what is written to this stream, or still buffered for it, is dropped."""
    if stream is None:
        return
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # it is no file, or closed
        return
    hole = os.open(os.devnull, os.O_WRONLY)
    os.dup2(hole, descriptor)
    os.close(hole)
