"""Walking a folder and searching its files, by open folders and never through a link.

Whoever swaps a folder for a link while it is walked finds that the link is not followed. A regular
expression can take for ever and hold the interpreter, so `tools.builtin.search` runs `main` in a process
of its own. Needs the standard library only.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tools.workspace import Bar, PathError, Workspace, open_file, open_folder, open_real_folder

_SKIPPED = frozenset(
    ".git .hg .svn node_modules __pycache__ .venv venv .tox .mypy_cache .ruff_cache .pytest_cache".split()
)
_MOST_FILES = 200_000
_MOST_BYTES = 5 << 20
_DEEPEST = 100
_MOST_SAID = 20
_LINE = 300


def is_skipped(folder: str) -> bool:
    """Whether a folder of this name is walked past: version control, caches, installed packages."""
    return folder in _SKIPPED


@dataclass(frozen=True)
class Found:
    """A regular file that a walk came to. It can be opened until the walk goes on."""

    name: str
    """Relative to where the walk began."""
    folder: int
    """A descriptor of the folder it lies in."""
    base: str

    def open(self) -> int:
        """A descriptor of the file. Raises OSError or PathError where it is another one by now."""
        return open_file(self.folder, self.base)


class Walk:
    """The regular files below the real path `root`, or `root` itself, sorted folder by folder.

    No link is followed. What `bar` holds back is left out, and so are folders that `is_skipped` names.
    Raises OSError when `root` cannot be opened.
    """

    def __init__(self, root: Path, bar: Bar) -> None:
        self._root = root
        self._bar = bar
        self._count = 0
        self.left_out: list[str] = []
        """What was left out and should be told, one line each."""

    def __iter__(self) -> Iterator[Found]:
        with ExitStack() as opened:
            try:
                folder = open_real_folder(self._root)
            except NotADirectoryError:
                above = open_real_folder(self._root.parent)
                opened.callback(os.close, above)
                yield Found(self._root.name, above, self._root.name)
                return
            yield from self._below(folder, "", _DEEPEST)

    def _below(self, folder: int, prefix: str, depth: int) -> Iterator[Found]:
        """Of an open folder, which this closes."""
        try:
            folders: list[str] = []
            for entry in entries(folder):
                name = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in _SKIPPED and self._lets_in(name):
                        folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False) and self._lets_in(name):
                    self._count += 1
                    if self._count > _MOST_FILES:
                        return
                    yield Found(name, folder, entry.name)
            for base in folders:
                name = f"{prefix}{base}"
                if not depth:
                    self._tell(f"{name}: it is nested too deeply")
                    continue
                try:
                    inner = open_folder(folder, base)
                except OSError:
                    continue
                yield from self._below(inner, f"{name}/", depth - 1)
                if self._count > _MOST_FILES:
                    return
        finally:
            os.close(folder)

    def _lets_in(self, name: str) -> bool:
        why = self._bar(self._root / name)
        if why:
            self._tell(f"{name}: {why}")
        return why is None

    def _tell(self, line: str) -> None:
        if len(self.left_out) < _MOST_SAID:
            self.left_out.append(line)
        elif len(self.left_out) == _MOST_SAID:
            self.left_out.append("and more")


def entries(folder: int) -> list[os.DirEntry[str]]:
    """What an open folder holds, by name; nothing where it cannot be listed."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def left_out_note(lines: list[str]) -> str:
    """One line that tells what a walk left out, "" where that is nothing."""
    return f"[left out: {'; '.join(lines)}]" if lines else ""


def name_matches(name: str, pattern: str) -> bool:
    """Whether a relative name fits a pattern: `*.py` fits at any depth, `src/**/x.py` from the top."""
    if "/" not in pattern:
        return fnmatchcase(name.rpartition("/")[2], pattern)
    return _parts_match(name.split("/"), pattern.strip("/").split("/"))


def _parts_match(parts: list[str], patterns: list[str]) -> bool:
    """Each pattern takes one part, `**` any number; the set of reachable parts keeps it linear."""
    reached: set[int] = {0}
    for pattern in patterns:
        if pattern == "**":
            reached = set(range(min(reached, default=len(parts) + 1), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], pattern)}
    return len(parts) in reached


def search(walk: Walk, files: str, is_hit: Callable[[str], object]) -> Iterator[str]:
    """Lines that `is_hit` accepts, as `name:line: text`, in text files of at most 5 MB."""
    for found in walk:
        if not name_matches(found.name, files):
            continue
        for number, line in enumerate(_lines(found), 1):
            if is_hit(line):
                yield f"{found.name}:{number}: {line.strip()[:_LINE]}"


def _lines(found: Found) -> list[str]:
    try:
        with os.fdopen(found.open(), "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, PathError):
        return []
    if b"\0" in data[:8192] or len(data) > _MOST_BYTES:
        return []
    return data.decode("utf-8-sig", "replace").split("\n")


def main(arguments: list[str]) -> int:
    """`arguments`: one JSON object with root, workspace, hidden, files, pattern, ignore_case and most.

    Writes the hits; 2 for a pattern that is none, or where `root` cannot be read.
    """
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    job = json.loads(arguments[0])
    try:
        pattern = re.compile(job["pattern"], re.IGNORECASE if job["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as err:
        print(f"That is not a regular expression: {err}.")
        return 2
    space = Workspace.at(job["workspace"], hidden=tuple(map(Path, job["hidden"])))
    root = Path(job["root"])
    walk = Walk(root, space.bar_below(root))
    try:
        for count, line in enumerate(search(walk, job["files"], pattern.search)):
            if count == job["most"]:
                print(f"[there are more than {count} lines; narrow the search]")
                break
            print(line)
    except OSError as err:
        print(f"It cannot be searched: {err.strerror or err}.")
        return 2
    if note := left_out_note(walk.left_out):
        print(note)
    return 0
