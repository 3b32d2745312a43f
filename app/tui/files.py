"""The files of a project for the `@` picker: what git knows, else what is there, without hidden ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MOST = 20_000
GIT_S = 3.0
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


def project_files(folder: Path) -> list[str]:
    """Paths below `folder`, relative to it, shortest first. Reads the disk: not for the event loop."""
    found = _known_to_git(folder)
    if found is None:
        found = _walked(folder)
    return sorted(found, key=lambda path: (path.count("/"), len(path), path))


def _known_to_git(folder: Path) -> list[str] | None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(
            command, cwd=folder, capture_output=True, check=True, timeout=GIT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    paths = listed.stdout.decode("utf-8", "surrogateescape").split("\0")
    return [path for path in dict.fromkeys(paths) if path and path.isprintable()][:MOST]


def _walked(folder: Path) -> list[str]:
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        inside = os.path.relpath(place, folder)
        for name in sorted(files):
            if not name.startswith(".") and name.isprintable():
                found.append(name if inside == "." else f"{inside}/{name}")
        if len(found) >= MOST:
            break
    return found[:MOST]
