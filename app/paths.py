"""Where Fireside keeps its files, and how it writes them: folders 0700, files 0600.

Each folder can be moved by an environment variable, and each is found without a home directory.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backend.places import Kind

CONFIG_FILE = "config.toml"


def config_file() -> Path:
    """The settings file. `FIRESIDE_CONFIG` names its folder, or the file itself when it ends in .toml."""
    override = os.environ.get("FIRESIDE_CONFIG")
    if override and override.endswith(".toml"):
        return Path(override).absolute()
    return _folder("config") / CONFIG_FILE


def data_dir() -> Path:
    """Models and chats; `FIRESIDE_DATA` moves it."""
    return _folder("data")


def state_dir() -> Path:
    """Logs and histories; `FIRESIDE_STATE` moves it."""
    return _folder("state")


def require_own(path: Path) -> Path:
    """`path`, once nobody but this user and the system's could have changed what is there, if anything.

    Raises ForeignPathError, an OSError whose text says who could, and what to do.
    """
    # By its whole name: the package looks for other names of its own in a module that costs more.
    from backend.places import require_own as require

    return require(path)


def is_own(path: Path) -> bool:
    """Whether `require_own` takes `path`."""
    from backend.places import is_own as owned

    return owned(path)


def holds_home(folder: str | Path | None) -> bool:
    """Whether a workspace is the home folder or holds it: it ends at dot names then."""
    if folder is None:
        return False
    try:
        home, root = os.path.realpath(os.path.expanduser("~")), os.path.realpath(folder)
    except OSError:  # The current folder is gone.
        return False
    return os.path.commonpath((home, root)) == root


def make_private_dir(path: Path) -> Path:
    """Create `path` with its parents, readable by its owner only; returns it.

    OSError where that is not possible, or where the folder belongs to somebody else.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o700, exist_ok=True)
    owner = path.lstat().st_uid
    if owner != os.getuid():
        from backend.places import ForeignPathError

        raise ForeignPathError(
            f"{path} belongs to user {owner}, not to you, so it is not used. Name a folder of your own with "
            f"FIRESIDE_CONFIG, FIRESIDE_DATA or FIRESIDE_STATE."
        )
    path.chmod(0o700)
    return require_own(path)


def write_private(path: Path, text: str) -> None:
    """Replace the file at `path` by `text` in one step; a crash leaves the old or the new one.

    A link stays one: the file that it leads to is replaced. OSError tells which file could not be written.
    """
    is_elsewhere = path.is_symlink() or os.environ.get("FIRESIDE_CONFIG") == str(path)
    real = Path(os.path.realpath(path)) if is_elsewhere else path
    if is_elsewhere and real.parent.is_dir():
        # Where a person has it lie the folder is for other things too: it stays as open as it is.
        require_own(real.parent)
    else:
        make_private_dir(real.parent)
    draft = real.with_name(f".{real.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        draft.replace(real)
    except OSError as err:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise type(err)(err.errno, err.strerror, str(path)) from err


def touch_private(path: Path) -> Path:
    """Create an empty file that only its owner reads, if there is none; returns `path`."""
    make_private_dir(path.parent)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return path


def _folder(kind: Kind) -> Path:
    from backend.places import folder as found

    return found(kind)
