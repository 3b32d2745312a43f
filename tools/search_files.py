"""Walking a folder and searching its files, without following links; also a script for patterns.

A regular expression can take for ever and hold the interpreter, so `tools.search` runs this file as
a process of its own for those. Imports the standard library only.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

_SKIPPED = frozenset(
    ".git .hg .svn node_modules __pycache__ .venv venv .tox .mypy_cache .ruff_cache .pytest_cache".split()
)
_MOST_FILES = 200_000
_MOST_BYTES = 5 << 20
_LINE = 300


def is_skipped(folder: str) -> bool:
    """Whether a folder of this name is walked past: version control, caches, installed packages."""
    return folder in _SKIPPED


def walk(root: Path, hidden: Sequence[Path] = ()) -> Iterator[tuple[str, Path]]:
    """The regular files below `root` (or `root` itself) with their relative names, sorted by folder.

    No link is followed; `hidden` folders and those `is_skipped` names are left out.
    """
    if not root.is_dir():
        yield root.name, root
        return
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and Path(folder, name) not in hidden
        )
        for name in sorted(names):
            path = Path(folder, name)
            count += 1
            if count > _MOST_FILES:
                return
            if path.is_file() and not path.is_symlink() and path not in hidden:
                yield path.relative_to(root).as_posix(), path


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


def search(
    root: Path,
    files: str,
    is_hit: Callable[[str], object],
    hidden: Sequence[Path] = (),
) -> Iterator[str]:
    """Lines that `is_hit` accepts, as `name:line: text`, in text files of at most 5 MB."""
    for name, path in walk(root, hidden):
        if not name_matches(name, files):
            continue
        for number, line in enumerate(_lines(path), 1):
            if is_hit(line):
                yield f"{name}:{number}: {line.strip()[:_LINE]}"


def _lines(path: Path) -> list[str]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return []
    if b"\0" in data[:8192] or len(data) > _MOST_BYTES:
        return []
    return data.decode("utf-8", "replace").split("\n")


def main(arguments: list[str]) -> int:
    """`arguments`: one JSON object with root, files, pattern, ignore_case, hidden and most. Writes
    the hits; 2 for a pattern that is none."""
    job = json.loads(arguments[0])
    try:
        pattern = re.compile(job["pattern"], re.IGNORECASE if job["ignore_case"] else 0)
    except (re.error, RecursionError, OverflowError) as err:
        print(f"That is no regular expression: {err}.")
        return 2
    hidden = [Path(path) for path in job["hidden"]]
    for count, line in enumerate(search(Path(job["root"]), job["files"], pattern.search, hidden)):
        if count == job["most"]:
            print(f"[there are more than {count} lines; narrow the search]")
            break
        print(line)
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    sys.exit(main(sys.argv[1:]))
