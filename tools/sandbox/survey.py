"""A look over a whole workspace: which of its files become code, and where keys and passwords lie.

Follows no link. Stops at a bound, and says so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tools.names import plain_name
from tools.sandbox import git_folder
from tools.sandbox.code_names import is_code, may_be_code
from tools.secrets import is_secret, may_be_secret

MOST_ENTRIES = 500_000
"""Files and folders that are looked at."""
MOST_SECRETS = 200
_MOST_MARKED = 20_000

_IN_CODE = -1
"""In a folder that is code as a whole: keys are all that is looked for."""

Key = tuple[int, int, str]
"""A folder's device and number, and a name in it: where a file is, whatever becomes of the way there."""
Mark = tuple[object, ...]


@dataclass(frozen=True)
class Spot:
    """One file, folder or link that becomes code."""

    path: Path
    key: Key
    mark: Mark = ()
    """Changes when its content does, by whatever name it was written."""
    is_link: bool = False
    has_other_names: bool = False
    """One of its files is known by a further name, through which it can be written."""
    in_git: bool = False
    """Part of what git takes for a repository's own folder."""
    bare: Path | None = None
    """The folder that is a repository's by what lies in it, where that is not named `.git`."""
    via: Path | None = None
    """The link or the settings that lead to it, where its own name is no reason."""


@dataclass
class Survey:
    """What one look found."""

    code: list[Spot] = field(default_factory=list[Spot])
    secrets: list[Path] = field(default_factory=list[Path])
    elsewhere: list[Path] = field(default_factory=list[Path])
    """Real paths outside of the workspace that links with the name of a secret lead to."""
    repositories: list[Path] = field(default_factory=list[Path])
    """The `.git` folders."""
    entries: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it came to the end."""
        return self.entries <= MOST_ENTRIES

    @property
    def trouble(self) -> str:
        """Why it is not whole, as the end of a sentence; "" where it is."""
        if not self.is_whole:
            return f"the workspace contains more than {MOST_ENTRIES:,} files, too many to watch"
        if len(self.secrets) + len(self.elsewhere) > MOST_SECRETS:
            return f"the workspace contains more than {MOST_SECRETS} places with keys, too many to cover"
        return ""


def survey(
    root: Path,
    *,
    hidden: Sequence[Path] = (),
    programs: Sequence[Path] = (),
    twins: Collection[tuple[int, int]] = (),
) -> Survey:
    """Look over `root`, a real path. `hidden` is left out; the folders `programs` below it are code, and
    files of these devices and numbers, `twins`, are secret.

    Takes about a second for 200,000 files: not on the event loop. Never raises for what it meets.
    """
    look = _Look(root, frozenset(map(str, hidden)), frozenset(map(str, programs)), frozenset(twins))
    look.whole()
    return look.found


class _Look:
    def __init__(
        self, root: Path, hidden: frozenset[str], programs: frozenset[str], twins: frozenset[tuple[int, int]]
    ) -> None:
        self._twins = twins
        self._root = root
        self._programs = programs
        self._left_out = hidden | programs
        self._seen: dict[Path, int] = {}
        self._asked: set[Path] = set()
        self._followed: set[Path] = set()
        self.found = Survey()

    def whole(self) -> None:
        """Look over the root and all below."""
        self._todo: list[tuple[str, tuple[str, ...], int | None]] = [(str(self._root), (), None)]
        while self._todo and self.found.entries <= MOST_ENTRIES:
            self._folder(*self._todo.pop())
        for target in git_folder.led_to(self._root):
            if os.path.exists(target) and target not in self._seen:
                self._spot(target, in_git=True)

    def _folder(self, path: str, parts: tuple[str, ...], in_git: int | None) -> None:
        """One folder. `parts` are its plain ones below the root, the first `in_git` of them lead to the
        git folder that it is in."""
        try:
            entries = _entries(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:  # What cannot be looked into may hold anything.
            self._add(Path(path), Spot(Path(path), _key(path)))
            return
        self.found.entries += len(entries)
        if self._twins:
            self._secret_twins(Path(path), entries)
        bare = None
        if in_git is None and git_folder.is_git_folder(entries):
            bare = Path(path)
        start = path.rstrip("/")
        watched = in_git is not None or bare is not None
        for name, (is_folder, is_link) in entries.items():
            plain = name.lower() if name.isascii() else plain_name(name)
            if watched or _may_count(plain) or name.endswith((".", " ")):
                whole = f"{start}/{name}"
                try:
                    self._entry(whole, (*parts, plain_name(name)), in_git, bare, is_folder, is_link)
                except (OSError, ValueError):  # One odd entry must not hide all others.
                    self._add(Path(whole), Spot(Path(whole), _key(whole)))
            elif is_folder and f"{start}/{name}" not in self._left_out:
                self._todo.append((f"{start}/{name}", (*parts, plain), None))
            elif is_folder and f"{start}/{name}" in self._programs:
                self._add(Path(path, name), Spot(Path(path, name), _key(f"{start}/{name}")))

    def _secret_twins(self, folder: Path, names: Collection[str]) -> None:
        for path in (folder / name for name in names):
            with suppress(OSError):
                found = os.lstat(path)
                if (found.st_dev, found.st_ino) in self._twins and path not in self.found.secrets:
                    self.found.secrets.append(path)

    def _entry(
        self,
        path: str,
        parts: tuple[str, ...],
        in_git: int | None,
        bare: Path | None,
        is_folder: bool,
        is_link: bool,
    ) -> None:
        plain = parts[-1]
        if path in self._left_out:
            if path in self._programs:
                self._add(Path(path), Spot(Path(path), _key(path)))
            return
        is_secret_place = may_be_secret(plain) and is_secret(Path(path))
        if is_secret_place:
            target = Path(os.path.realpath(path)) if is_link else Path(path)
            if self._is_inside(target) and os.path.exists(target):
                self.found.secrets.append(target)
            elif is_link and os.path.exists(target):
                self.found.elsewhere.append(target)
        deeper = is_folder and not is_link and not is_secret_place
        if in_git == _IN_CODE:
            if deeper:
                self._todo.append((path, parts, _IN_CODE))
            return
        if plain == ".git" and is_folder:
            self.found.repositories.append(Path(path))
            self._todo.append((path, parts, len(parts)))
            self._named(Path(path, "config"), Path(path).parent)
            return
        below = parts if in_git is None else parts[in_git:]
        if in_git is not None and len(below) == 1 and plain in git_folder.UNWALKED:
            return
        git_code = (in_git is not None and git_folder.is_git_code(below)) or (
            bare is not None and git_folder.is_bare_code(plain)
        )
        code = git_code or (may_be_code(plain) and is_code(below))
        if code:
            self._spot(Path(path), in_git=git_code, bare=bare if git_code else None)
        if deeper:
            self._todo.append((path, parts, _IN_CODE if code else in_git))

    def _spot(
        self, path: Path, *, in_git: bool = False, bare: Path | None = None, via: Path | None = None
    ) -> None:
        try:
            mark, others = _mark(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:  # Its folder is closed, and whoever opens it finds what lies there.
            path, (mark, others) = path.parent, ((), False)
        is_link = path.is_symlink()
        if is_link:
            target = Path(os.path.realpath(path))
            inside = self._is_inside(target)
            if inside and os.path.exists(target):
                self._spot(target, in_git=in_git, via=path)
            mark = (*mark, _mark(target)[0] if inside and os.path.exists(target) else None)
        self._add(path, Spot(path, _key(str(path)), mark, is_link, others, in_git, bare, via))
        if not is_link and path not in self._followed and path.is_dir():
            self._followed.add(path)
            self._follow_links(path)
        if in_git and path.name == "config":
            self._named(path, path.parent)

    def _follow_links(self, folder: Path) -> None:
        """What links in a folder that is code lead to is code as well, whatever its name."""
        todo, looked = [str(folder)], 0
        while todo and looked <= _MOST_MARKED:
            place = todo.pop()
            with suppress(OSError):
                for name, (is_folder, is_link) in _entries(place).items():
                    looked += 1
                    if is_folder and not is_link:
                        todo.append(f"{place}/{name}")
                    target = Path(os.path.realpath(f"{place}/{name}")) if is_link else folder
                    is_other = target != folder and folder not in target.parents
                    if is_other and self._is_inside(target) and os.path.exists(target):
                        self._spot(target, in_git=True, via=folder)

    def _add(self, path: Path, spot: Spot) -> None:
        known = self._seen.get(path)
        if known is None:
            self._seen[path] = len(self.found.code)
            self.found.code.append(spot)
        elif spot.via is None:
            self.found.code[known] = spot

    def _named(self, config: Path, tree: Path) -> None:
        """What the settings of a repository run or include."""
        if config in self._asked:  # They may name themselves.
            return
        self._asked.add(config)
        for named in git_folder.named_paths(config, tree):
            target = Path(os.path.realpath(named.path))
            if self._is_inside(target) and os.path.exists(target):
                self._spot(target, in_git=True, via=config)

    def _is_inside(self, path: Path) -> bool:
        return self._root in path.parents


def _entries(path: str) -> dict[str, tuple[bool, bool]]:
    """What lies in a folder: whether it is a folder, and whether a link. Raises OSError."""
    with os.scandir(path) as found:
        return {one.name: (one.is_dir(follow_symlinks=False), one.is_symlink()) for one in found}


def _may_count(plain: str) -> bool:
    return may_be_code(plain) or may_be_secret(plain)


def _key(path: str) -> Key:
    folder, name = os.path.split(path)
    try:
        found = os.stat(folder)
    except OSError:
        return (0, 0, name)
    return (found.st_dev, found.st_ino, name)


def _mark(path: Path) -> tuple[Mark, bool]:
    """The mark of a file, link or whole folder, and whether one of its files has a further name."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return ("link", found.st_ino, os.readlink(path)), False
    if not stat.S_ISDIR(found.st_mode):
        return _file_mark(found), found.st_nlink > 1
    marks: list[object] = [found.st_dev, found.st_ino]
    others, todo = False, [str(path)]
    while todo and len(marks) <= _MOST_MARKED:
        folder = todo.pop()
        for name in _sorted_names(folder):
            below = f"{folder}/{name}"
            try:
                one = os.lstat(below)
            except OSError:  # Too deep for a path, or gone.
                marks.append(name)
                continue
            if stat.S_ISDIR(one.st_mode):
                todo.append(below)
                marks += (name, one.st_ino)
                continue
            marks += (name, *_file_mark(one))
            others = others or one.st_nlink > 1
    return tuple(marks), others


def _sorted_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _file_mark(found: os.stat_result) -> Mark:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)
