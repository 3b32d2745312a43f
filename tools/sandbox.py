"""The bubblewrap sandbox for what tools run: a read-only system, a writable workspace, no network.

Where bubblewrap does not work nothing is wrapped, and the description says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.workspace import Workspace

_TRIAL_S = 5.0
_COVERED = ("/tmp", "/var/tmp", "/run", "/var/run")
_SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_READ_ONLY = (".fireside", ".vscode", ".envrc", ".git/hooks", ".git/config", ".github", ".husky")


@dataclass(frozen=True)
class Sandbox:
    """How commands are confined. `bwrap` is the program's path, None where it does not work."""

    bwrap: str | None
    trouble: str = ""
    """Why it does not confine what it runs, as the end of a sentence; "" where it was tried and does."""

    @property
    def proven(self) -> bool:
        """Whether it was tried, and what it ran did not get out."""
        return self.bwrap is not None and not self.trouble

    def gap(self, space: Workspace | None) -> str:
        """Why a command in `space` would not be confined, as the end of a sentence; "" where it would.

        Looks at the disk: not on the event loop.
        """
        return self.trouble or ("" if self.bwrap else "no sandbox works here")

    def describe(self, *, network: bool, space: Workspace | None = None) -> str:
        """One line for an approval of a command in `space`. Looks at the disk: not on the event loop."""
        if gap := self.gap(space):
            return f"not sandboxed: it can read, change and reach whatever you can ({gap})"
        reach = "with network" if network else "no network"
        return f"sandboxed: read-only system, home hidden, writes only to the workspace, {reach}"

    def wrap(self, command: Sequence[str], space: Workspace, *, network: bool) -> list[str]:
        """`command` as it is started: inside the sandbox where there is one, in the workspace."""
        if self.bwrap is None:
            return list(command)
        options = [self.bwrap, "--die-with-parent", "--new-session", "--unshare-all"]
        if network:
            options.append("--share-net")
        options += [*_SYSTEM, *_mounts(space, network=network), "--setenv", "TMPDIR", "/tmp"]
        return [*options, "--chdir", str(space.root), "--", *command]


def _mounts(space: Workspace, *, network: bool) -> Iterator[str]:
    covered = [Path(path) for path in _COVERED if Path(path).is_dir() and not Path(path).is_symlink()]
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if home.is_dir() and home != Path("/"):
        covered.append(home)
    for path in covered:
        yield from ("--tmpfs", str(path))
    for path in _interpreter_folders():
        if _is_below(path, covered):
            yield from ("--ro-bind", str(path), str(path))
    resolver = Path(os.path.realpath("/etc/resolv.conf"))
    if network and resolver.exists() and _is_below(resolver, covered):
        yield from ("--ro-bind", str(resolver), str(resolver))
    yield from ("--bind", str(space.root), str(space.root))
    for name in _READ_ONLY:
        path = space.root / name
        if path.exists() and not path.is_symlink():
            yield from ("--ro-bind", str(path), str(path))
    for path in space.hidden:
        if path.exists() and (_is_below(path, [space.root]) or not _is_below(path, covered)):
            yield from ("--tmpfs", str(path)) if path.is_dir() else ("--ro-bind", "/dev/null", str(path))


def _interpreter_folders() -> list[Path]:
    """What Python needs to start, outermost first."""
    folders = {Path(os.path.realpath(path)) for path in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    return sorted(folders, key=lambda path: len(path.parts))


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    return any(path == folder or folder in path.parents for folder in folders)


@cache
def find_sandbox() -> Sandbox:
    """The sandbox of this machine, tried once; takes some milliseconds the first time."""
    program = shutil.which("bwrap")
    if program is None or sys.platform != "linux":
        return Sandbox(None)
    try:
        trial = subprocess.run(
            # All that a real call needs: some containers let it start but not mount.
            [program, "--unshare-all", *_SYSTEM, "--tmpfs", "/tmp", "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Sandbox(None)
    return Sandbox(program if trial.returncode == 0 else None)
