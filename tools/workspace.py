"""The folder a chat works in: where a path a model wrote really leads, and opening exactly that.

Paths are compared by components after every symlink is followed, never as text.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tools.definition import ToolError
from tools.names import plain_name

_CODE_FOLDERS = frozenset(
    ".fireside .git .hg .svn .vscode .idea .zed .cursor .devcontainer .husky .github .gitlab .ssh .direnv "
    ".githooks launchagents launchdaemons .gnupg init.d cron.d cron.daily".split()
)
_CODE_CONFIGS = frozenset(("autostart", "systemd", "fish", "git", "environment.d"))
_CODE_FILES = frozenset(
    ".envrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile "
    ".zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xinitrc .xprofile .xsession "
    ".xsessionrc config.fish .gitconfig .gitmodules .gitattributes .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs "
    ".pypirc .pythonrc .pythonrc.py .pdbrc .gdbinit .lldbinit .vimrc .exrc .nvimrc .emacs .tmux.conf "
    ".screenrc .wgetrc .curlrc .netrc .mcp.json .pre-commit-config.yaml .tool-versions .mise.toml mise.toml "
    "sitecustomize.py usercustomize.py crontab sudoers ld.so.preload".split()
)
_CODE_ENDINGS = (".pth", ".code-workspace")
_LONGEST = 4096

COMPARED_BYTES = 10 << 20
"""A larger file is neither compared nor edited."""


class PathError(ToolError):
    """A path cannot be used; the text says which and why."""


@dataclass(frozen=True)
class Place:
    """Where a path leads once every link is followed."""

    path: Path
    inside: bool
    """In the workspace."""
    code: bool
    """A file that becomes code: something runs it later without asking."""
    hidden: bool
    """Among Fireside's own data, which no tool may see."""
    shown: str
    """Relative to the workspace where it is inside, else absolute."""


@dataclass(frozen=True)
class Workspace:
    """A real folder and what is off limits in it. Build it with `Workspace.at`."""

    root: Path
    hidden: tuple[Path, ...] = ()
    path_folders: tuple[Path, ...] = field(default=())
    """The real folders of PATH: what lands there is run by name."""

    @classmethod
    def at(cls, folder: str | Path, *, hidden: tuple[Path, ...] = ()) -> Workspace:
        """The workspace at `folder`, which must exist; `hidden` are Fireside's own folders.

        Raises PathError.
        """
        try:
            root = Path(folder).expanduser().resolve(strict=True)
        except (OSError, RuntimeError) as err:
            raise PathError(f"The workspace {folder} cannot be used: {err}.") from err
        if not root.is_dir():
            raise PathError(f"The workspace {folder} is not a folder.")
        names = os.environ.get("PATH", os.defpath).split(os.pathsep)
        folders = tuple(Path(os.path.realpath(name)) for name in names if name.startswith("/"))
        return cls(root, tuple(Path(os.path.realpath(path)) for path in hidden), folders)

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
        inside = real == self.root or self.root in real.parents
        parts = real.relative_to(self.root).parts if inside else real.parts
        code = _has_code_name(parts) or real.parent in self.path_folders or real in self.path_folders
        hidden = any(real == path or path in real.parents for path in self.hidden)
        shown = str(real.relative_to(self.root)) if inside else str(real)
        return Place(real, inside, code, hidden, shown)


def _refuse_loops(path: Path) -> None:
    try:
        os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return


def _has_code_name(parts: tuple[str, ...]) -> bool:
    names = [plain_name(part) for part in parts]
    if any(name in _CODE_FOLDERS for name in names):
        return True
    if ".config" in names and not _CODE_CONFIGS.isdisjoint(names):
        return True
    if ".local" in names and not {"bin", "lib"}.isdisjoint(names):
        return True
    return bool(names) and (names[-1] in _CODE_FILES or names[-1].endswith(_CODE_ENDINGS))


# ---- files, by their real path only --------------------------------------------------------

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


def open_real(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the regular file at the real path `path`.

    No component may be a symlink, so that one slipped in after the check leads nowhere. Raises
    PathError for anything but a regular file, OSError as `os.open`.
    """
    folder = _open_folder(path.parent, create=False)
    try:
        handle = os.open(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise PathError(f"{path} is not a regular file.")


def read_real(path: Path, limit_bytes: int) -> bytes:
    """The first `limit_bytes` bytes of the file at the real path `path`; errors as `open_real`."""
    with os.fdopen(open_real(path), "rb") as file:
        return file.read(limit_bytes)


def write_real(path: Path, data: bytes) -> None:
    """Replace the file at the real path `path` in one step, its folders made where needed.

    An existing file keeps its permissions. Raises OSError; then the old file is untouched.
    """
    folder = _open_folder(path.parent, create=True)
    draft = f".{path.name[:80]}.{secrets.token_hex(4)}"
    try:
        mode = _mode(path.name, folder)
        handle = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder
        )
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(draft, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _mode(name: str, folder: int) -> int | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise PathError(f"{name} is there already and is not a regular file.")
    return stat.S_IMODE(found) & 0o777


def _open_folder(path: Path, *, create: bool) -> int:
    handle = os.open(path.anchor, _FOLDER)
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
                return os.open(name, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
        return os.open(name, _FOLDER, dir_fd=folder)
    finally:
        os.close(folder)


def _reason(err: OSError | ValueError) -> str:
    return err.strerror or str(err) if isinstance(err, OSError) else str(err)
