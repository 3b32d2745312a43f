"""The clipboard: a native tool, else the terminal itself (OSC 52), else a file.

Says which way a copy went, and claims success only where there is proof of it: nobody answers OSC 52.
All calls may take seconds; a face makes them off its drawing thread.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from app import paths
from app.characters import clean_text
from app.terminal.output import in_screen, in_tmux, over_ssh

OSC52_LIMIT = 74_994
"""Most base64 characters that common terminals take."""

PASTE_LIMIT_BYTES = 16 * 1024 * 1024
TOOL_TIME_S = 3

_SCREEN_PIECE = 76
"""GNU screen drops a longer string; consecutive ones reach the terminal as one."""

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What a paste into a shell could be turned into commands by."""


class ClipboardError(Exception):
    """Nothing could be copied or pasted; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that holds the clipboard: how it takes text, and how it gives it."""

    copy: tuple[str, ...]
    paste: tuple[str, ...]
    encoding: str = "utf-8"

    @property
    def name(self) -> str:
        return self.copy[0]


@dataclass(frozen=True, slots=True)
class Copied:
    """Where a copy went."""

    way: Literal["tool", "terminal", "file"]
    lines: int
    tool: str = ""
    path: Path | None = None

    def notice(self) -> str:
        """What to tell the person, without the sign before it. `terminal` is no success yet: offer `save`."""
        count = f"{self.lines:,} {'line' if self.lines == 1 else 'lines'}"
        match self.way:
            case "tool":
                return f"copied {count}"
            case "terminal":
                return f"{count} sent to the terminal, OSC 52"
            case "file":
                return f"{count} saved in {self.path}"


_MAC = Tool(("pbcopy",), ("pbpaste",))
_WAYLAND = Tool(("wl-copy",), ("wl-paste", "--no-newline"))
_X11 = (
    Tool(("xclip", "-selection", "clipboard", "-in"), ("xclip", "-selection", "clipboard", "-out")),
    Tool(("xsel", "--clipboard", "--input"), ("xsel", "--clipboard", "--output")),
)
_WSL = Tool(
    ("clip.exe",), ("powershell.exe", "-NoProfile", "-Command", "Get-Clipboard -Raw"), encoding="utf-16-le"
)
_ANDROID = Tool(("termux-clipboard-set",), ("termux-clipboard-get",))


def tools(environ: Mapping[str, str] = os.environ) -> list[Tool]:
    """The native tools that are installed and fit this session, the likeliest first."""
    candidates: list[Tool] = []
    if sys.platform == "darwin":
        candidates.append(_MAC)
    if environ.get("WAYLAND_DISPLAY"):
        candidates.append(_WAYLAND)
    if environ.get("DISPLAY"):
        candidates.extend(_X11)
    if environ.get("WSL_DISTRO_NAME") or environ.get("WSL_INTEROP"):
        candidates.append(_WSL)
    if environ.get("TERMUX_VERSION"):
        candidates.append(_ANDROID)
    return [tool for tool in candidates if shutil.which(tool.name, path=environ.get("PATH"))]


def osc52(text: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """What makes a terminal copy `text`, wrapped for tmux and GNU screen; None where it is too long."""
    encoded = base64.b64encode(_safe(text).encode()).decode("ascii")
    if len(encoded) > OSC52_LIMIT:
        return None
    plain = f"\x1b]52;c;{encoded}\x07"
    if in_tmux(environ):
        return "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if in_screen(environ):
        pieces = [encoded[at : at + _SCREEN_PIECE] for at in range(0, len(encoded), _SCREEN_PIECE)]
        return "\x1bP\x1b]52;c;" + "\x1b\\\x1bP".join(pieces) + "\x07\x1b\\"
    return plain


def copy(
    text: str,
    send: Callable[[str], None] | None,
    *,
    keep_off_disk: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Copied:
    """Copy `text`, the source as it was written, without control characters.

    `send` writes a sequence to the terminal; None where OSC 52 is off or there is no terminal. Over
    ssh the terminal comes first, since a tool there would fill the wrong machine's clipboard.
    ClipboardError where no way is left; `keep_off_disk` leaves the file out.
    """
    text = _safe(text)
    remote = over_ssh(environ)
    if not remote and (tool := _copied_by_tool(text, environ)):
        return Copied("tool", _lines(text), tool=tool)
    if send is not None and environ.get("TERM", "dumb") != "dumb" and (sequence := osc52(text, environ)):
        send(sequence)
        if in_tmux(environ):
            # By default tmux lets no sequence through, but hands its own buffer to the terminal.
            _run(("tmux", "load-buffer", "-w", "-"), text.encode(), environ)
        return Copied("terminal", _lines(text))
    if remote and (tool := _copied_by_tool(text, environ)):
        return Copied("tool", _lines(text), tool=tool)
    if keep_off_disk:
        raise ClipboardError(
            "Nothing was copied: no clipboard tool works here, the terminal cannot take it, and a private "
            "chat is not written to a file. Installing xclip or wl-clipboard helps."
        )
    return save(text)


def save(text: str) -> Copied:
    """Write `text` to a private file, in place of the last one. ClipboardError where that fails."""
    path = paths.state_dir() / "copied.txt"
    try:
        paths.write_private(path, _safe(text))
    except OSError as err:
        raise ClipboardError(f"Nothing was copied: {path} cannot be written, {err.strerror or err}.") from err
    return Copied("file", _lines(text), path=path)


def paste(environ: Mapping[str, str] = os.environ) -> str:
    """The text on the clipboard. ClipboardError where no tool gives it."""
    for tool in tools(environ):
        data = _run(tool.paste, None, environ)
        if data is None:
            continue
        if len(data) > PASTE_LIMIT_BYTES:
            raise ClipboardError(
                "The clipboard contains more than 16 MiB; save it to a file and attach that."
            )
        return clean_text(data.decode("utf-8", "replace")).replace("\r\n", "\n")
    if over_ssh(environ):
        raise ClipboardError("The clipboard is on your own machine: paste with your terminal's key.")
    raise ClipboardError(
        "No clipboard tool works here: paste with your terminal's key, or install wl-clipboard or xclip."
    )


def _copied_by_tool(text: str, environ: Mapping[str, str]) -> str | None:
    """The name of the tool that took `text`."""
    for tool in tools(environ):
        if _run(tool.copy, text.encode(tool.encoding), environ) is not None:
            return tool.name
    return None


def _run(command: Sequence[str], data: bytes | None, environ: Mapping[str, str]) -> bytes | None:
    """What a tool writes, when it succeeds in time; without output where it is given `data`."""
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            # A tool that stays to serve the clipboard would hold a pipe open for good.
            stdout=subprocess.PIPE if data is None else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TOOL_TIME_S,
            # macOS takes text for another encoding where no locale says UTF-8, as in tmux or over ssh.
            env={**environ, "LC_ALL": "en_US.UTF-8"} if command in (_MAC.copy, _MAC.paste) else dict(environ),
            # It outlives the terminal, and its Ctrl-C is not ours.
            start_new_session=True,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return (done.stdout or b"") if done.returncode == 0 else None


def _safe(text: str) -> str:
    return clean_text(_CONTROLS.sub("", text.replace("\r\n", "\n")))


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))
