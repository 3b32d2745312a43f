"""Where a person's own folders lie, and whether anybody else could have changed what is in them.

Knows the account, the environment and the marks of files; creates and reads nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import deque
from pathlib import Path
from typing import Literal

Kind = Literal["config", "data", "state"]

_BELOW_HOME: dict[Kind, str] = {"config": ".config", "data": ".local/share", "state": ".local/state"}
_MOST_LINKS = 40
_UNMAPPED_OWNER = 65534
"""Whom the kernel names where a container does not know the owner."""


class ForeignPathError(PermissionError):
    """Somebody else could have written what is there; the text says who, where, and what to do."""

    def __init__(self, fault: str) -> None:
        super().__init__(errno.EACCES, fault)

    def __str__(self) -> str:
        return str(self.strerror)


def folder(kind: Kind) -> Path:
    """The folder of that kind: `FIRESIDE_CONFIG`, `_DATA` or `_STATE`, else by the rules of the system.

    An account without a home has them in the folder for temporary files, under its number.
    """
    if override := os.environ.get(f"FIRESIDE_{kind.upper()}"):
        return Path(override).absolute()
    # The specification has paths that are not whole ignored.
    if (given := os.environ.get(f"XDG_{kind.upper()}_HOME", "")) and os.path.isabs(given):
        return Path(given, "fireside")
    home = _home()
    if home is None:
        return _temporary_folder() / f"fireside-{os.getuid()}" / kind
    if sys.platform == "darwin":
        return home / "Library/Application Support/fireside"
    return home / _BELOW_HOME[kind] / "fireside"


def require_own(path: Path) -> Path:
    """`path`, once nobody but this user and the system's could have changed what is there.

    Nothing may be there. Raises ForeignPathError.
    """
    if os.path.lexists(path) and (fault := _fault(path)):
        raise ForeignPathError(
            f"{path} is not used, because {fault} Check what is in it before you use it, or name a folder "
            f"of your own with FIRESIDE_CONFIG, FIRESIDE_DATA and FIRESIDE_STATE."
        )
    return path


def is_own(path: Path) -> bool:
    """Whether nobody but this user and the system's could have changed what is at `path`."""
    return not os.path.lexists(path) or not _fault(path)


def _home() -> Path | None:
    """The home folder of this account; None where nothing could be kept in it."""
    home = os.environ.get("HOME", "")
    if not os.path.isabs(home):
        home = _registered_home()
    if not os.path.isabs(home) or Path(home).is_relative_to("/nonexistent"):
        return None
    there = home
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    try:
        found = os.stat(there)
    except OSError:
        return None
    is_mine = found.st_uid == os.getuid() or os.access(there, os.W_OK)
    return Path(home) if is_mine and stat.S_ISDIR(found.st_mode) else None


def _registered_home() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def _temporary_folder() -> Path:
    given = os.environ.get("TMPDIR", "")
    return Path(given if os.path.isabs(given) and os.path.isdir(given) else "/tmp")


# ---- who could have changed it -------------------------------------------------------------


def _fault(path: Path) -> str:
    """The first thing on the way to `path` that somebody else could have put there; empty for none."""
    left = deque(Path(os.path.abspath(path)).parts)
    place, above, links = "", None, 0
    while left:
        part = left.popleft()
        if part == os.pardir:
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, part)
        try:
            found = os.lstat(here)
        except OSError:  # Gone, or not to be seen: reading it will tell.
            return ""
        if fault := _fault_of(here, found, above, is_last=not left):
            return fault
        if not stat.S_ISLNK(found.st_mode):
            place, above = here, found
            continue
        links += 1
        if links > _MOST_LINKS:
            return f"{here} leads in a circle."
        target = os.readlink(here)
        left.extendleft(reversed(Path(target).parts))
        if os.path.isabs(target):
            place, above = "", None
    return ""


def _fault_of(here: str, found: os.stat_result, above: os.stat_result | None, *, is_last: bool) -> str:
    if found.st_uid not in (0, os.getuid()) and not _is_the_systems(found, above, is_last):
        return f"{here} belongs to user {_user(found.st_uid)}, not to you."
    # A device or a pipe holds nothing, and whoever reads it sees what it is.
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) or _is_closed(here, found):
        return ""
    if _is_registered(here, is_last):
        return ""
    return f"users other than you can write to {here}: `chmod go-w {here}` prevents it."


def _is_closed(here: str, found: os.stat_result) -> bool:
    """Whether others than its owner cannot put another thing in place of what is in it."""
    if not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return True
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return True
    return not found.st_mode & stat.S_IWOTH and _is_private_group(here, found.st_gid)


def _is_private_group(here: str, group: int) -> bool:
    """Whether this user is alone in the group: many systems give everybody one, and files to it.

    With a list of further rights on the file, the mark for the group stands for all of them.
    """
    import grp
    import pwd

    try:
        me, found = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    if me.pw_gid != group or me.pw_name != found.gr_name or set(found.gr_mem) - {me.pw_name}:
        return False
    try:
        return sys.platform != "linux" or "system.posix_acl_access" not in os.listxattr(here)
    except OSError:
        return True


def _is_registered(here: str, is_last: bool) -> bool:
    """Whether this is above the home that the system gives this account: its log-in trusts that, too."""
    home = os.path.realpath(_registered_home() or "/")
    return not is_last and home != here and home.startswith(os.path.join(here, ""))


def _is_the_systems(found: os.stat_result, above: os.stat_result | None, is_last: bool) -> bool:
    """Whether a container merely does not know the owner, who had the right to put it there."""
    if is_last or found.st_uid != _UNMAPPED_OWNER:
        return False
    if above is not None and above.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    try:
        return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
    except OSError:
        return False


def _user(number: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return str(number)
