"""The bubblewrap sandbox for what tools run: a read-only system, a writable workspace, no network.

It counts as one only where what ran in it tried to get out and could not. Where bubblewrap does not
work nothing is wrapped, and the description says so.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.sandbox import mounts
from tools.sandbox.code_names import holds_code
from tools.sandbox.seccomp import filter_program
from tools.sandbox.survey import Key, Survey, survey
from tools.secrets import is_secret
from tools.workspace import Workspace

_NAMESPACES = ("--die-with-parent", "--new-session", "--unshare-all")
_VERDICT_S = 120.0


@dataclass(frozen=True)
class Wrapped:
    """A command as it is started, and which places of code it cannot change."""

    command: list[str]
    guarded: frozenset[Key] = frozenset()


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

    def wraps(self, space: Workspace) -> bool:
        """Whether commands in `space` run in it: not where the workspace contains the system itself."""
        return self.bwrap is not None and not mounts.holds_system(space.root)

    def gap(self, space: Workspace | None) -> str:
        """Why a command in `space` would not be confined to it, as the end of a sentence; "" where it would.

        The first time it looks over the whole workspace: not on the event loop.
        """
        if self.bwrap is None or self.trouble:
            return self.trouble or "there is no sandbox here"
        if space is None:
            return ""
        if not self.wraps(space):
            return f"the workspace {space.root} contains the system itself"
        if mounts.holds_homes(space.root):
            return "the workspace contains a home folder, so everything in it can be read and changed"
        if space.root in mounts.programs(space):
            return "the workspace itself is a folder of programs"
        if mounts.is_of_system(space.root):
            return f"the workspace {space.root} is part of the system or of programs"
        if is_secret(space.root):
            return "the workspace itself is a place for keys and passwords"
        if holds_code(space.root.parts):
            return "the workspace itself is a folder whose files other programs run or obey"
        return verdict(space)

    def describe(self, *, network: bool, space: Workspace | None = None) -> str:
        """One line for an approval of a command in `space`; as slow as `gap`."""
        gap = self.gap(space)
        if not self.proven or (space is not None and not self.wraps(space)):
            return f"not sandboxed: it can read, change and reach whatever you can ({gap})"
        home = "home not hidden"
        if mounts.hides_homes() and not (space and mounts.holds_homes(space.root)):
            shown = mounts.shown_of_homes(space)
            home = f"home hidden except {shown}" if shown else "home hidden"
        reach = "with network, this machine's own services included" if network else "no network"
        kind = f"only partly sandboxed, because {gap}" if gap else "sandboxed"
        return f"{kind}: read-only system, {home}, writes only to the workspace, {reach}"

    def wrap(self, command: Sequence[str], space: Workspace, *, network: bool) -> list[str]:
        """`command` as it is started: inside the sandbox where there is one, in the workspace. Without the
        filter of system calls, which needs a descriptor."""
        if not self.wraps(space):  # such a workspace takes seconds to look over
            return list(command)
        return self.confine(command, space, network=network, found=look_over(space), filter_fd=None).command

    def confine(
        self,
        command: Sequence[str],
        space: Workspace,
        *,
        network: bool,
        found: Survey,
        filter_fd: int | None,
    ) -> Wrapped:
        """As `wrap`, for a workspace that was just looked over as `found`, with the descriptor of
        `filtered`."""
        if self.bwrap is None or not self.wraps(space):
            return Wrapped(list(command))
        options, guarded = mounts.options(space, found, network=network)
        parts = [self.bwrap, *_NAMESPACES, *(("--share-net",) if network else ()), *options]
        parts += ("--cap-drop", "ALL", "--setenv", "TMPDIR", "/tmp")
        if os.path.isdir(home := os.environ.get("HOME", "")):
            parts += ("--setenv", "HOME", os.path.realpath(home))
        if filter_fd is not None:
            parts += ("--seccomp", str(filter_fd))
        return Wrapped([*parts, "--chdir", str(space.root), "--", *command], guarded)


def look_over(space: Workspace) -> Survey:
    """The workspace as it is now; not on the event loop."""
    return survey(space.root, hidden=space.hidden, programs=mounts.programs(space), twins=space.twins)


_verdicts: dict[Path, tuple[float, str]] = {}


def verdict(space: Workspace) -> str:
    """Why the whole of `space` cannot be watched; "" where it can. Looks at most every two minutes."""
    since, told = _verdicts.get(space.root, (0.0, ""))
    if since and time.monotonic() - since < _VERDICT_S:
        return told
    return remember(space, look_over(space))


def last_verdict(space: Workspace) -> str:
    """What `verdict` said last, however long ago; "" where it was never asked."""
    return _verdicts.get(space.root, (0.0, ""))[1]


def remember(space: Workspace, found: Survey) -> str:
    """Keep what a look at `space` came to, and return it."""
    _verdicts[space.root] = (time.monotonic(), found.trouble)
    return found.trouble


@contextlib.contextmanager
def filtered() -> Generator[int | None]:
    """A descriptor of the filter of system calls, for one start; None where there is none."""
    program = filter_program()
    if program is None or sys.platform != "linux":
        yield None
        return
    handle = os.memfd_create("fireside-filter", os.MFD_CLOEXEC)
    try:
        os.write(handle, program)
        os.lseek(handle, 0, os.SEEK_SET)
        yield handle
    finally:
        os.close(handle)
