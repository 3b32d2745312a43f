"""The folder a chat works in: where a path a model wrote really leads, and opening exactly that.

Paths are compared by components after every symlink is followed, never as text.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tools.definition import ToolError
from tools.names import plain_name
from tools.sandbox.code_names import is_code, is_code_anywhere
from tools.sandbox.expected import expect
from tools.secrets import is_secret, may_be_secret

_LONGEST = 4096

COMPARED_BYTES = 10 << 20
"""A larger file is neither compared nor edited."""

HOLDS_SECRETS = "it contains keys, passwords or tokens"

Bar: TypeAlias = Callable[[Path], str | None]
"""Why a walk must leave out the real path below it: None where it need not, "" where nobody is told."""


class PathError(ToolError):
    """A path cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Place:
    """Where a path leads once every link is followed."""

    path: Path
    inside: bool
    """In the workspace, and none of the dot names of one that holds the whole home folder."""
    code: bool
    """A file that becomes code: something runs it later without asking."""
    hidden: bool
    """Among Fireside's own data, which no tool may see."""
    shown: str
    """Relative to the workspace where it lies in it, else absolute."""
    secret: bool = False
    """Keys, passwords or tokens lie there, or it is memory or variables of a process."""
    border: str = ""
    """Why it is not inside, "" where it is."""


@dataclass(frozen=True)
class Workspace:
    """A real folder and what is off limits in it. Build it with `Workspace.at`."""

    root: Path
    hidden: tuple[Path, ...] = ()
    path_folders: tuple[Path, ...] = field(default=())
    """The real folders of PATH: what lands there is run by name."""
    home: Path | None = None
    """The real home folder, where the workspace is it or holds it."""
    links: tuple[Path, ...] = ()
    """Where the links lead that have the name of a secret in the home folder or right in the workspace."""
    twins: frozenset[tuple[int, int]] = frozenset()
    """Device and number of such files there that have a further name, and of those in folders of keys."""

    @classmethod
    def at(cls, folder: str | Path, *, hidden: tuple[Path, ...] = ()) -> Workspace:
        """The workspace at `folder`, which must exist; `hidden` are Fireside's own folders.

        Raises PathError.
        """
        try:
            root = Path(folder).expanduser().resolve(strict=True)
        except (OSError, RuntimeError) as err:
            reason = _reason(err) if isinstance(err, OSError) else str(err)
            raise PathError(f"The workspace {folder} cannot be used: {reason}.") from err
        if not root.is_dir():
            raise PathError(f"The workspace {folder} is not a folder.")
        names = os.environ.get("PATH", os.defpath).split(os.pathsep)
        folders = tuple(Path(os.path.realpath(name)) for name in names if name.startswith("/"))
        home = Path(os.path.realpath(os.path.expanduser("~")))
        own = tuple(Path(os.path.realpath(path)) for path in hidden)
        wide = home if _is_below(home, root) else None
        return cls(root, own, folders, wide, tuple(_secret_links(home, root)), frozenset(_twins(home, root)))

    @property
    def width(self) -> str:
        """What a person should know of a workspace that is too wide to be one, "" for any other."""
        if self.home is None:
            return ""
        what = (
            "your home folder" if self.home == self.root else "a folder that contains your whole home folder"
        )
        return f"the workspace is {what}: {_WIDE if self.home == self.root else _WIDER}"

    def locate(self, text: str) -> Place:
        """Where the path a model wrote leads, relative to the workspace; `~` is the home folder.

        The file need not exist. Raises PathError for what is no path at all.
        """
        if not text.strip() or "\0" in text or len(text) > _LONGEST:
            raise PathError("A path must be 1 to 4,096 characters without a zero byte.")
        try:
            written = self.root / os.path.expanduser(text)
            real = Path(os.path.realpath(written))
            _refuse_loops(written)
        except (OSError, ValueError) as err:
            raise PathError(f"The path {text!r} cannot be followed: {_reason(err)}.") from err
        # A link may carry the name that tells what it leads to.
        named = Path(os.path.normpath(written))
        return self.place(real, is_secret(named) or _is_of_a_process(named))

    def place(self, real: Path, secret: bool = False) -> Place:
        """The place at a real path; `secret` where something else than its name says that it is one."""
        lies_in = _is_below(real, self.root)
        parts = real.relative_to(self.root).parts if lies_in else real.parts
        names = tuple(map(plain_name, real.parts))
        acts = is_code(parts) or is_code_anywhere(real.parts)
        code = acts or any(_is_named(path, names, 1) for path in self.path_folders)
        hidden = any(_is_named(path, names) for path in self.hidden)
        secret = secret or is_secret(real) or _is_of_a_process(real) or self._is_linked(real)
        border = self._guard(real) if lies_in else "outside the workspace"
        shown = str(real.relative_to(self.root)) if lies_in else str(real)
        return Place(real, not border, code, hidden, shown, secret, border)

    def bar_below(self, root: Path) -> Bar:
        """What a walk that begins at the real path `root` leaves out: secrets, Fireside's own data, and
        what is not inside although `root` is."""
        start, hidden = self.place(root), {plain_name(path.name) for path in self.hidden}

        def bar(path: Path) -> str | None:
            if plain_name(path.name) in hidden and self.place(path).hidden:
                return ""
            if not start.secret and self._may_be_secret(path):
                return HOLDS_SECRETS
            return self._guard(path) or None if start.inside else None

        return bar

    def _may_be_secret(self, path: Path) -> bool:
        named = may_be_secret(plain_name(path.name)) and is_secret(path)
        return named or _is_of_a_process(path) or self._is_linked(path)

    def _is_linked(self, real: Path) -> bool:
        return any(_is_below(real, path) for path in self.links) or self._is_twin(real)

    def _is_twin(self, real: Path) -> bool:
        """Whether it is a secret file, by another name."""
        if not self.twins:
            return False
        try:
            found = os.stat(real, follow_symlinks=False)
        except (OSError, ValueError):
            return False
        return (found.st_dev, found.st_ino) in self.twins

    def _guard(self, real: Path) -> str:
        """Why a path in the workspace does not count as inside: it is too wide to be meant whole."""
        if self.home is None or _is_below(self.home, real):
            return ""
        if not _is_below(real, self.home):
            return "outside your home folder, which the workspace contains"
        first, *rest = real.relative_to(self.home).parts
        if first in _SYSTEM_FOLDERS or any(name.startswith(".") for name in (first, *rest)):
            return "a hidden name in your home folder, which the workspace contains"
        return ""


_WIDE = "names that begin with a dot ask as if they were outside"
_WIDER = "what is outside your home folder, or has a name that begins with a dot, asks as if it were outside"
_SYSTEM_FOLDERS = frozenset(("Library", "AppData", "snap"))
_MEMORY = frozenset(("kcore", "keys", "key-users", "kmem", "mem", "kmsg", "port"))


def _is_below(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _is_named(folder: Path, names: tuple[str, ...], deepest: int | None = None) -> bool:
    """Whether `names` is `folder` or at most `deepest` levels below, as a forgiving file system sees it."""
    own = tuple(map(plain_name, folder.parts))
    return names[: len(own)] == own and (deepest is None or len(names) <= len(own) + deepest)


def _is_of_a_process(real: Path) -> bool:
    """Memory, variables and open files of a process; those of the kernel too."""
    match real.parts[1:3]:
        case ("proc", name):
            return name.isdecimal() or name in ("self", "thread-self") or name in _MEMORY
        case ("dev", name):
            return name in _MEMORY or name in ("fd", "stdin", "stdout", "stderr")
        case _:
            return False


def _secret_links(home: Path, root: Path) -> Iterator[Path]:
    for folder in (home, home / ".config", home / ".local" / "share", root):
        for path in _secrets_in(folder):
            if not path.is_symlink():
                continue
            leads = Path(os.path.realpath(path))
            # A link to a folder around the home folder, or the workspace, would make all of it secret.
            if not _is_below(home, leads) and not _is_below(root, leads):
                yield leads


def _twins(home: Path, root: Path) -> Iterator[tuple[int, int]]:
    for folder in (home, *(home / name for name in _OF_KEYS), root):
        for path in _secrets_in(folder):
            with suppress(OSError):
                found = path.lstat()
                if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                    yield found.st_dev, found.st_ino


_OF_KEYS = (".ssh", ".aws", ".gnupg", ".kube", ".docker", ".config/gh", ".config/gcloud")


def _secrets_in(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [folder / entry.name for entry in entries]
    except OSError:
        return []
    of_keys = is_secret(folder)
    return [path for path in found if of_keys or (may_be_secret(plain_name(path.name)) and is_secret(path))]


def _refuse_loops(path: Path) -> None:
    try:
        os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return


# ---- files, by their real path only --------------------------------------------------------

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_LISTED = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_RDONLY


def open_real(path: Path) -> int:
    """A descriptor of the regular file at the real path `path`.

    No component may be a symlink, so that one slipped in after the check leads nowhere. Raises
    PathError for anything but a regular file, OSError as `os.open`.
    """
    folder = folder_at(path.parent)
    try:
        return open_file(folder, path.name, os.O_RDONLY)
    except PathError as err:
        raise PathError(f"{path} is not a regular file.") from err
    finally:
        os.close(folder)


def open_file(folder: int, name: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the regular file `name` in the open folder `folder`; errors as `open_real`."""
    # Opening a device can do something, so what is no file is left alone even before it is opened.
    kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISREG(kind) or stat.S_ISLNK(kind):
        handle = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return handle
        os.close(handle)
    raise PathError(f"{name} is not a regular file.")


def open_real_folder(path: Path) -> int:
    """A descriptor of the folder at the real path `path`, no component of which may be a symlink.

    Raises OSError, NotADirectoryError for what is no folder.
    """
    if path == Path(path.anchor):
        return os.open(path, _LISTED)
    above = folder_at(path.parent)
    try:
        return open_folder(above, path.name)
    finally:
        os.close(above)


def open_folder(folder: int, name: str) -> int:
    """A descriptor of the folder `name` in the open folder `folder`. Raises OSError, also for a link."""
    return os.open(name, _LISTED, dir_fd=folder)


def read_real(path: Path, limit_bytes: int) -> bytes:
    """The first `limit_bytes` bytes of the file at the real path `path`; errors as `open_real`."""
    with os.fdopen(open_real(path), "rb") as file:
        return file.read(limit_bytes)


def write_real(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace the file at the real path `path` in one step, its folders made where needed.

    An existing file keeps its permissions, unless it is to be `private`: the owner's alone. Other names
    of the same file, hard links, keep what it held. Raises OSError; then the old file is untouched.
    """
    folder = folder_at(path.parent, create=True)
    draft = f".{path.name[:80]}.{secrets.token_hex(4)}"
    try:
        mode = _mode(path.name, folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(draft, flags, 0o600 if private else 0o666, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if mode is not None and not private:
                    os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            expect(path, data)
            os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def remove_real(path: Path) -> None:
    """Remove the file at the real path `path`, no folder of which may be a symlink. Raises OSError."""
    folder = folder_at(path.parent)
    try:
        os.unlink(path.name, dir_fd=folder)
    finally:
        os.close(folder)


def _mode(name: str, folder: int) -> int | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise PathError(f"{name} already exists and is not a regular file.")
    return stat.S_IMODE(found) & 0o777


def folder_at(path: Path, *, create: bool = False) -> int:
    """A descriptor of the folder at the real path `path`, to name entries of; with `create` its missing
    parts are made. No component may be a symlink. Raises OSError.
    """
    handle = os.open(path.anchor, _STEP)
    for part in path.parts[1:]:
        try:
            handle = _step(handle, part, create=create)
        except OSError as err:
            err.filename = str(path)
            raise
    return handle


def _step(folder: int, name: str, *, create: bool) -> int:
    try:
        if create:
            try:
                return os.open(name, _STEP, dir_fd=folder)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
        return os.open(name, _STEP, dir_fd=folder)
    finally:
        os.close(folder)


def _reason(err: OSError | ValueError) -> str:
    return err.strerror or str(err) if isinstance(err, OSError) else str(err)
