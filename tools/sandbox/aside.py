"""Files that a run made and that would become code, moved out of the workspace and kept for a person.

Each lies in a folder of its own below one folder of ours. Nothing is ever overwritten, neither on the
way out nor on the way back.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

from tools.definition import ToolError
from tools.regular_file import start_of
from tools.workspace import folder_at

_RECORD = "record.json"
_THING = "file"
_MOST_NAMES = 200


class AsideError(ToolError):
    """What was moved aside cannot be found, brought back or dropped; the text says why."""


@dataclass(frozen=True)
class Kept:
    """One thing that was moved aside."""

    id: str
    workspace: str
    path: str
    """Relative to the workspace."""
    reason: str
    """What the run had done: "made" or "changed"."""
    at: float
    """Unix time, in seconds."""


class Aside:
    """What was moved aside, in one folder; without one in a temporary one that ends with this process."""

    def __init__(self, folder: Path | None = None) -> None:
        self._given = folder
        self._made: Path | None = None

    def take(self, workspace: Path, path: Path, reason: str) -> Kept | None:
        """Move `path`, which lies in the real folder `workspace`, aside. None where it is gone.

        No link is followed on the way to it. Raises OSError; then it lies there still, but by another name
        where that could be done.
        """
        try:
            parent = folder_at(path.parent)
        except FileNotFoundError:
            return None
        try:
            if not _is_there(path.name, parent):
                return None
            name = secrets.token_hex(4)
            kept = Kept(name, str(workspace), str(path.relative_to(workspace)), reason, time.time())
            place = None
            try:
                place = self._folder() / name
                place.mkdir(mode=0o700)
                (place / _RECORD).write_text(json.dumps(asdict(kept)))
                _move(path.name, parent, place / _THING)
            except (OSError, RecursionError) as err:
                with contextlib.suppress(OSError):
                    os.rename(path.name, f"aside-{name}", src_dir_fd=parent, dst_dir_fd=parent)
                if place is not None:
                    shutil.rmtree(place, ignore_errors=True)
                raise OSError(f"it cannot be moved: {err}") from err
            return kept
        finally:
            os.close(parent)

    def all(self) -> list[Kept]:
        """Everything that is kept, the oldest first."""
        folder = self._made or self._given
        if folder is None or not folder.is_dir():
            return []
        found: list[Kept] = []
        for place in folder.iterdir():
            with contextlib.suppress(OSError, ValueError, TypeError):
                record = cast("dict[str, Any]", json.loads((place / _RECORD).read_text()))
                found.append(Kept(**record))
        return sorted(found, key=lambda one: (one.at, one.id))

    def find(self, which: str) -> Kept:
        """The one with this id, or at this place of `all`, counted from 1. Raises AsideError."""
        found = self.all()
        for number, kept in enumerate(found, 1):
            if which in (kept.id, str(number)):
                return kept
        held = f"there are {len(found)}" if found else "nothing was moved aside"
        raise AsideError(f"{which[:40]!r} is not one of the files that were moved aside: {held}.")

    def text(self, kept: Kept, limit_bytes: int = 20_000) -> str:
        """What a person sees before allowing it: a file's text, a link's target, a folder's names."""
        thing = self._folder() / kept.id / _THING
        try:
            if thing.is_symlink():
                return f"a link to {os.readlink(thing)}"
            if thing.is_dir():
                return "\n".join(islice(_names(str(thing)), _MOST_NAMES)) or "an empty folder"
            data = start_of(thing, limit_bytes)
            return "a pipe, a socket or a device" if data is None else data.decode("utf-8", "replace")
        except OSError as err:
            return f"it cannot be read: {err.strerror}"

    def allow(self, kept: Kept) -> Path:
        """Put it back where it was; its path. Raises AsideError where something is there already."""
        path = Path(kept.workspace, kept.path)
        try:
            parent = folder_at(path.parent, create=True)
        except OSError as err:
            raise AsideError(f"{path} cannot be put back: {err.strerror}.") from err
        try:
            if _is_there(path.name, parent):
                raise AsideError(f"{path} already exists; move it away first. Nothing was changed.")
            _bring(self._folder() / kept.id / _THING, path.name, parent)
        except OSError as err:
            raise AsideError(f"{path} cannot be put back: {err.strerror or err}.") from err
        finally:
            os.close(parent)
        self.drop(kept)
        return path

    def drop(self, kept: Kept) -> None:
        """Delete it. Raises AsideError."""
        place = self._folder() / kept.id
        try:
            shutil.rmtree(place)
        except (OSError, RecursionError) as err:
            raise AsideError(f"{place} cannot be deleted: {err}.") from err

    def _folder(self) -> Path:
        if self._made is None:
            self._made = self._given or _temporary()
            self._made.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._made


def _names(top: str) -> Iterator[str]:
    todo = [top]
    while todo:
        folder = todo.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            yield os.path.relpath(entry.path, top)
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)


def _temporary() -> Path:
    memory = "/dev/shm"
    place = memory if os.access(memory, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="fireside-aside-", dir=place))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _move(name: str, folder: int, to: Path) -> None:
    """Move an entry of a folder; over to another file system by copying what are files, folders, links."""
    with contextlib.suppress(OSError):
        os.rename(name, to, src_dir_fd=folder)
        return
    source = Path(f"/proc/self/fd/{folder}", name)
    if _is_folder(source):
        _open_up(source)
    _copy(source, to)
    if _is_folder(source):
        shutil.rmtree(source)
    else:
        os.unlink(name, dir_fd=folder)


def _open_up(folder: Path) -> None:
    """Make a folder and those in it readable by their owner."""
    todo = [str(folder)]
    while todo:
        above = todo.pop()
        os.chmod(above, 0o700)
        with os.scandir(above) as entries:
            todo += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


def _bring(thing: Path, name: str, folder: int) -> None:
    with contextlib.suppress(OSError):
        os.rename(thing, name, dst_dir_fd=folder)
        return
    _copy(thing, Path(f"/proc/self/fd/{folder}", name))


def _copy(source: Path, to: Path) -> None:
    if _is_folder(source):
        shutil.copytree(source, to, symlinks=True, ignore=_special)
    elif source.is_symlink() or source.is_file():
        shutil.copy2(source, to, follow_symlinks=False)


def _is_folder(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir()


def _special(folder: str, names: list[str]) -> set[str]:
    """Pipes, sockets and devices, which have no content to keep."""
    kinds = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return {name for name, mode in kinds.items() if not any(is_kind(mode) for is_kind in plain)}
