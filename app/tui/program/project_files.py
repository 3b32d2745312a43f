"""The files of a project for the `@` picker: what git knows, else what is there, without hidden ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MOST = 20_000
GIT_S = 3.0
_OWN_WORK = (
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false"),
)
"""A repository's own settings name programs that git would run for a list of files."""
_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
"""Nor is what the repository lacks fetched, which runs a program of its choice too."""
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


def project_files(folder: Path) -> list[str]:
    """Paths below `folder`, relative to it, shortest first. Reads the disk: not for the event loop."""
    found = _known_to_git(folder)
    if found is None:
        found = _walked(folder)
    return sorted(found, key=lambda path: (path.count("/"), len(path), path))


def _known_to_git(folder: Path) -> list[str] | None:
    command = ["git", *_OWN_WORK, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **_NO_FETCH},
            capture_output=True,
            check=True,
            timeout=GIT_S,
            stdin=subprocess.DEVNULL,
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
