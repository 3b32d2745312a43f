"""The tools for single files and folders: read, write, edit, list.

Paths lead where `ToolContext.path` lets them; links slipped in afterwards are not followed.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tools.builtin.nearest import nearest
from tools.builtin.search_files import entries, is_skipped, left_out_note
from tools.context import ToolContext
from tools.definition import Attempt, ToolError, Touch, tool
from tools.workspace import (
    COMPARED_BYTES,
    Bar,
    open_folder,
    open_real,
    open_real_folder,
    read_real,
    write_real,
)

_LINE_BYTES = 1 << 20
_MOST_ENTRIES = 500
_DEEPEST = 100
_PATH = Touch(paths=("path",))


def _must_be_file(attempt: Attempt) -> None:
    path, real = attempt.arguments["path"], attempt.path
    if real is None:
        return
    with _explained(path, real):
        mode = os.stat(real, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        raise ToolError(f"{path} is a folder, not a regular file; list_files shows what is in it.")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{path} is not a regular file.")
    if not os.access(real, os.R_OK):
        raise ToolError(f"{path} cannot be used: {os.strerror(errno.EACCES)}.")


@tool(does="read", touch=_PATH, check=_must_be_file)
def read_file(context: ToolContext, path: str, start_line: int = 1, line_count: int = 500) -> str:
    """Read a text file.

    Args:
        path: The file, relative to the workspace.
        start_line: The first line to read, counted from 1.
        line_count: How many lines to read at most.
    """
    real = context.path(path)
    room = context.limits.output_bytes - 256
    lines: list[bytes] = []
    number = 0
    with _explained(path, real), os.fdopen(open_real(real), "rb") as file:
        if b"\0" in file.read(8192):
            raise ToolError(f"{path} is binary ({os.fstat(file.fileno()).st_size:,} bytes), not text.")
        file.seek(0)
        for number, line in enumerate(iter(lambda: file.readline(_LINE_BYTES), b""), 1):
            context.cancellation.raise_if_set()
            if number < start_line:
                continue
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)  # no part of the text
            room -= len(line)
            if (lines and room < 0) or len(lines) >= line_count:
                text = b"".join(lines).decode("utf-8", "replace")
                return f"{text}[there is more; read on with start_line={number}]"
            lines.append(line)
    if not lines and number:
        raise ToolError(f"{path} has only {number} lines.")
    return b"".join(lines).decode("utf-8", "replace") or f"{path} is empty."


def _must_be_writable(attempt: Attempt) -> None:
    path, real = attempt.arguments["path"], attempt.path
    if real is None:
        return
    if real.is_dir():
        raise ToolError(f"{path} is a folder; a file needs a name of its own.")
    if real.exists() and not real.is_file():
        raise ToolError(f"{path} already exists and is not a regular file.")
    above = next(folder for folder in real.parents if folder.exists())
    if not above.is_dir():
        raise ToolError(f"{above.name} is a file, so {path} cannot be in it.")


def _written(arguments: Mapping[str, Any], _old: bytes | None) -> bytes:
    return _encoded(str(arguments["content"]))


@tool(does="write", touch=_PATH, change=_written, check=_must_be_writable)
def write_file(context: ToolContext, path: str, content: str) -> str:
    """Write a whole file; its folders are made, and what was there is replaced.

    Args:
        path: The file, relative to the workspace.
        content: The whole new content.
    """
    real = context.path(path, write=True)
    data = _encoded(content)
    with _explained(path, real):
        old = _current(real)
        context.check_unchanged(real, old)
        write_real(real, data)
    return f"{'Wrote' if old is None else 'Replaced'} {path} ({len(data):,} bytes)."


def _edited(arguments: Mapping[str, Any], old: bytes | None) -> bytes:
    if old is None:
        raise ToolError(f"There is no file {arguments['path']}; write_file creates one.")
    if len(old) > COMPARED_BYTES:
        raise ToolError(f"{arguments['path']} is larger than {COMPARED_BYTES:,} bytes.")
    try:
        text = old.decode()
    except UnicodeDecodeError as err:
        raise ToolError(f"{arguments['path']} is not UTF-8, so editing it could damage it.") from err
    before, after = str(arguments["old_text"]), str(arguments["new_text"])
    if "\r\n" in text and "\r\n" not in before and text.count("\r\n") == text.count("\n"):
        before, after = before.replace("\n", "\r\n"), after.replace("\n", "\r\n")
    if not before or before == after:
        raise ToolError("old_text must not be empty, and new_text must differ from it.")
    count = text.count(before)
    if count == 0:
        raise ToolError(
            f"{arguments['path']} does not contain old_text, character for character.", _near(text, before)
        )
    if count > 1 and arguments.get("everywhere") is not True:
        raise ToolError(
            f"old_text occurs {count} times in {arguments['path']}: "
            f"give more of the lines around it, or set everywhere."
        )
    if len(text) + count * (len(after) - len(before)) > COMPARED_BYTES:
        raise ToolError(f"{arguments['path']} would become larger than {COMPARED_BYTES:,} characters.")
    return _encoded(text.replace(before, after))


@tool(does="write", touch=_PATH, change=_edited)
def edit_file(context: ToolContext, path: str, old_text: str, new_text: str, everywhere: bool = False) -> str:
    """Replace a piece of a text file.

    Args:
        path: The file, relative to the workspace.
        old_text: What is there now, exactly, with enough around it to be the only such place.
        new_text: What replaces it.
        everywhere: Replace every such place.
    """
    real = context.path(path, write=True)
    with _explained(path, real):
        old = _current(real)
        context.check_unchanged(real, old)
        arguments = {"path": path, "old_text": old_text, "new_text": new_text, "everywhere": everywhere}
        write_real(real, _edited(arguments, old))
    return f"Edited {path}."


def must_be_folder(attempt: Attempt) -> None:
    """The check of a tool that looks through the folder at `path`. Raises ToolError."""
    path, real = attempt.arguments.get("path", "."), attempt.path
    if real is None:
        return
    with _explained(path, real):
        if not stat.S_ISDIR(os.stat(real, follow_symlinks=False).st_mode):
            raise ToolError(f"{path} is a file, not a folder.")


@tool(does="read", touch=_PATH, check=must_be_folder)
def list_files(context: ToolContext, path: str = ".", depth: int = 1) -> str:
    """List a folder: one entry a line, folders with a slash, files with their size in bytes.

    Args:
        path: The folder, relative to the workspace.
        depth: How many levels of folders to list.
    """
    real = context.path(path)
    listing = _Listing(real, context.place.bar_below(real))
    lines: list[str] = []
    with (
        _explained(path, real),
        closing(listing.lines(open_real_folder(real), "", min(max(depth, 1), _DEEPEST))) as found,
    ):
        for line in found:
            context.cancellation.raise_if_set()
            if len(lines) == _MOST_ENTRIES:
                lines.append(f"[there are more than {_MOST_ENTRIES} entries; list one of its folders]")
                break
            lines.append(line)
    if note := left_out_note(listing.left_out):
        lines.append(note)
    return "\n".join(lines) or f"{path} is empty."


class _Listing:
    """The entries below a folder, by open folders only."""

    def __init__(self, root: Path, bar: Bar) -> None:
        self._root = root
        self._bar = bar
        self.left_out: list[str] = []

    def lines(self, folder: int, prefix: str, depth: int) -> Generator[str]:
        """Of an open folder, which this closes."""
        try:
            for entry in entries(folder):
                name = f"{prefix}{entry.name}"
                why = self._bar(self._root / name)
                if why == "":
                    continue
                with suppress(OSError):
                    yield _line(folder, entry, name)
                if depth == 1 or is_skipped(entry.name) or not entry.is_dir(follow_symlinks=False):
                    continue
                if why:
                    self.left_out.append(f"{name}: {why}")
                    continue
                yield from self._deeper(folder, entry.name, name, depth - 1)
        finally:
            os.close(folder)

    def _deeper(self, folder: int, base: str, name: str, depth: int) -> Generator[str]:
        try:
            inner = open_folder(folder, base)
        except OSError as err:
            self.left_out.append(f"{name}: {err.strerror}")
            return
        yield from self.lines(inner, f"{name}/", depth)


def _line(folder: int, entry: os.DirEntry[str], name: str) -> str:
    if entry.is_symlink():
        return f"{name} -> {os.readlink(entry.name, dir_fd=folder)}"
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    return f"{name}  {entry.stat(follow_symlinks=False).st_size:,}"


def _current(real: Path) -> bytes | None:
    try:
        return read_real(real, COMPARED_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as err:
        raise ToolError(
            "The text contains half a character (a lone surrogate) and cannot be written."
        ) from err


def _near(text: str, wanted: str) -> str:
    first = next((line for line in wanted.splitlines() if line.strip()), "")
    found = nearest(first, text.splitlines())
    return f" The nearest line is: {found[0][:200]}" if found else ""


@contextmanager
def _explained(path: str, real: Path) -> Generator[None]:
    """System errors as sentences that name the path the model wrote."""
    try:
        yield
    except FileNotFoundError as err:
        raise ToolError(f"There is no {path}.", _similar(real)) from err
    except (IsADirectoryError, NotADirectoryError) as err:
        raise ToolError(f"{path} is not what is needed here: {err.strerror}.") from err
    except OSError as err:
        raise ToolError(f"{path} cannot be used: {err.strerror or err}.") from err


def _similar(real: Path) -> str:
    try:
        folder = open_real_folder(real.parent)
    except OSError:
        return ""
    try:
        names = [entry.name for entry in entries(folder)]
    finally:
        os.close(folder)
    found = nearest(real.name, names, most=3)
    return f" There is: {', '.join(found)}." if found else ""
