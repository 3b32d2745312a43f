"""The question whether to trust a folder, before a chat begins in it: asked once for what it brings."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from app import paths
from app.settings.project import brings_something
from app.terminal.confirm import answer, fits, read_through, rows_of, say
from app.terminal.output import is_terminal, notify

_DECLINED = "declined-folders"
_MOST_DECLINED = 1000


def ask_about_trust(folder: Path | None = None) -> None:
    """Ask the person at the terminal about a folder that is not trusted with what it brings.

    A no holds until something in the folder changes. Where nobody is there, or the answer cannot
    be kept, nothing is asked and nothing is trusted.
    """
    folder = folder or Path()
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)) or not brings_something(folder):
        return
    from tools import trust

    files = trust.project_files(folder)
    try:
        book = trust.TrustBook(paths.require_own(paths.data_dir() / "trust.json"))
        found = book.check_project(folder, files)
        if found.state == "trusted" or (mark := _mark(folder, files)) in _declined():
            return
        what = "has changed since you trusted it" if found.state == "changed" else "contains this"
        sizes = ", ".join(
            f"{_in_one_line(name)} ({len(data):,} bytes)" for name, data in sorted(files.items())
        )
        say(f"The folder {_in_one_line(os.path.realpath(folder))} {what}: {sizes}.")
        if fault := trust.read_tools(folder).fault:
            say(f"Its tools cannot be used: {fault}.")
        say("They can tell the model what to do, and tools among them run on this machine.")
        if _is_agreed(found.difference):
            book.grant(folder, files)
        else:
            _decline(mark)
            say("They are not used. `fireside trust` asks again.")
    except (trust.TrustError, OSError) as err:
        notify(str(err))


def _is_agreed(difference: str) -> bool:
    """Yes, no, or a look first; anything else is asked again, and the end of the input means no.

    What fits the screen is shown at once; what does not is agreed to unread only by a key that says so.
    """
    rows = rows_of(difference)
    seen = fits(rows)
    if seen:
        say("\n".join(rows))
    while True:
        keys = "[y]es, [s]how them again" if seen else f"[s]how them, [u] trust {len(rows):,} rows unread"
        match answer(f"Trust it with these files? {keys}, [N]o "):
            case "y" | "yes" if seen:
                return True
            case "u" if not seen:
                return True
            case "s" | "show":
                seen = read_through(rows) or seen
            case None | "" | "n" | "no":
                return False
            case _:
                say(
                    "Please answer y, s or n." if seen else "Please read them first with s, or answer u or n."
                )


def _in_one_line(name: str) -> str:
    """A name, which may hold anything to look like words of ours."""
    from tools.permission.visible import one_row

    return one_row(name)


def _mark(folder: Path, files: Mapping[str, bytes]) -> str:
    """What stands for exactly these files in this folder."""
    import hashlib

    digest = hashlib.sha256(os.path.realpath(folder).encode("utf-8", "surrogateescape"))
    for name, data in sorted(files.items()):
        digest.update(f"\0{name}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return digest.hexdigest()


def _declined() -> list[str]:
    try:
        return (
            paths.require_own(paths.state_dir() / _DECLINED)
            .read_text(encoding="ascii", errors="replace")
            .split()
        )
    except OSError:
        return []


def _decline(mark: str) -> None:
    marks = [*_declined(), mark][-_MOST_DECLINED:]
    try:
        paths.write_private(paths.state_dir() / _DECLINED, "\n".join(marks) + "\n")
    except OSError as err:
        notify(f"your answer could not be saved: {err.strerror or err}")
