"""What in the folder of a git repository becomes code: its settings, its hooks, what these name.

A fresh repository, and one that was cloned, has none: its settings are of a few harmless kinds and its
hooks are samples. So `git init` and `git clone` leave nothing that would have to be taken away.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tools.regular_file import start_of

HEAD = "head"
_MARKS = ("HEAD", "objects", "refs", "commondir")
_NAMES = frozenset(("hooks", "config", "config.worktree", "commondir", "attributes", "git-rebase-todo"))
_IN_PROGRESS = frozenset((("rebase-merge", "strategy"), ("rebase-apply", "strategy"), ("sequencer", "opts")))
"""What names the program that merges, once somebody goes on with what was begun."""
UNWALKED = frozenset(("objects", "refs", "logs", "lfs"))
"""Folders of a repository that hold content and names only."""

_MOST_BYTES = 256 << 10
_SECTION = re.compile(
    r'\[(core|user|extensions|remote|branch|submodule|init)(?: +"(?!-)[^"\\\s;|&$`]*")?\]\Z'
)
"""A name that begins with a dash is an option of the program that git calls with it."""
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)\Z")
_HARMLESS = {
    "core": frozenset(
        "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks "
        "autocrlf eol safecrlf quotepath sparsecheckout sparsecheckoutcone".split()
    ),
    "user": frozenset(("name", "email")),
    "extensions": frozenset(("objectformat", "refstorage")),
    "remote": frozenset("url fetch tagopt".split()),
    "branch": frozenset("remote merge rebase".split()),
    "submodule": frozenset(("active", "url")),
    "init": frozenset(("defaultbranch",)),
}
_URL = re.compile(
    r"(?:https?|ssh|git|file)://[^\s\"\\]*\Z|[\w.-]+@[\w.-]+:[^\s\"\\:-][^\s\"\\:]*\Z|/[^\s\"\\:]*\Z"
)
_WORDS = re.compile(r"[^\s\"';&|!]+")
_MOST_WORDS = 20
_MOST_INCLUDED = 20
_MOST_SETTINGS = 1_000
"""That may name something: what names nothing, as each branch has it, does not count."""
_LONGEST = 1_000
_CONTINUED = re.compile(r"\\\r?\n")
_FOLDERS = frozenset(("hookspath", "templatedir"))
_NO_PROGRAMS = frozenset(
    "url pushurl fetch push merge remote worktree excludesfile attributesfile name email active".split()
)
_STRATEGIES = frozenset("ort recursive resolve octopus ours subtree".split())
_STRATEGY = re.compile(r"(?im)^.*\bstrategy\b(?!-)[^\S\n]*(?:=(.*))?$")
_RUNS = re.compile(r"(?m)^\s*(?:exec|x)\b")


def is_git_folder(names: Collection[str]) -> bool:
    """Whether a folder with these entries is one that git takes for a repository's own."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def is_git_code(parts: tuple[str, ...]) -> bool:
    """Whether the entry at these plain parts, below a git folder, becomes code."""
    name = parts[-1]
    if name == "attributes":
        return parts[-2:-1] == ("info",)
    return name in _NAMES or parts[-2:] in _IN_PROGRESS


def is_bare_code(plain: str) -> bool:
    """Whether an entry right in a git folder that is not named `.git` becomes code, or makes it one."""
    return plain == HEAD or plain in _NAMES


def is_harmless(path: Path) -> bool:
    """Whether what `is_git_code` names runs nothing as it is: fresh settings, sample hooks."""
    try:
        if path.is_symlink():
            return False
        if path.is_dir():
            return all(name.endswith(".sample") for name in os.listdir(path))
        data = start_of(path, _MOST_BYTES + 1)
        text = "" if data is None else data.decode()
    except (OSError, ValueError):
        return False
    if data is None or len(data) > _MOST_BYTES:
        return False
    match path.name.lower():
        case "config":
            return _is_plain(text)
        case "commondir":
            above = path.parent.parent
            return (
                text.strip() == "../.." and above.name == "worktrees" and is_git_folder(_names(above.parent))
            )
        case "git-rebase-todo":
            return _RUNS.search(text) is None
        case "strategy":
            return text.strip() in _STRATEGIES
        case "opts":
            return {(found[1] or "").strip() for found in _STRATEGY.finditer(text)} <= _STRATEGIES
        case _:
            return not text.strip()


def _is_plain(text: str) -> bool:
    section = ""
    for line in map(str.strip, text.split("\n")):
        if not line or line[0] in "#;":
            continue
        if found := _SECTION.match(line):
            section = found[1]
            continue
        found = _SETTING.match(line)
        if found is None or found[1].lower() not in _HARMLESS.get(section, ()):
            return False
        value = found[2].strip()
        is_address = found[1].lower() == "url" or (section, found[1].lower()) == ("branch", "remote")
        if value.startswith("-") or "\\" in value or '"' in value:
            return False
        if is_address and ("::" in value or (found[1].lower() == "url" and not _URL.match(value))):
            return False
    return True


@dataclass(frozen=True)
class Named:
    """Where the settings of git may lead."""

    path: Path
    """It need not exist."""
    is_folder: bool
    """What lies below it is run, or copied to where it is."""


def named_paths(config: Path, tree: Path) -> Iterator[Named]:
    """Where the settings at `config` may lead, and those that they include: a folder of hooks, included
    settings, programs. Paths in them are taken from the work tree `tree` and from where they are."""
    todo, left = [config], _MOST_SETTINGS
    for place in todo:
        for key, value in islice(_settings(place), left):
            left -= 1
            for named in _named(key, value, tree, place.parent):
                yield named
                if key == "path" and len(todo) < _MOST_INCLUDED and named.path not in todo:
                    todo.append(named.path)


def _settings(config: Path) -> Iterator[tuple[str, str]]:
    """Plain keys, and values as they are written, of what may name a program or a file."""
    try:
        data = start_of(config, _MOST_BYTES, follow=True)
    except OSError:
        return
    text = _CONTINUED.sub("", (data or b"").decode("utf-8", "replace"))
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        key = key.rpartition("]")[2].strip().lower()
        if equals and key not in _NO_PROGRAMS:
            yield key, value


def _named(key: str, value: str, tree: Path, beside: Path) -> Iterator[Named]:
    words = _WORDS.findall(value)[:_MOST_WORDS]
    # One bare word is a command of git or of PATH, unless it includes settings beside these.
    is_bare = len(words) == 1 and "/" not in words[0] and key not in _FOLDERS
    whole = _as_git_reads(value[:_LONGEST])
    for word in dict.fromkeys((*words, whole.removeprefix("!"), *_as_a_shell_reads(whole))):
        if not word or "\0" in word:
            continue
        for folder in (beside,) if is_bare else (tree, beside):
            path = folder / os.path.expanduser(word)
            if key in _FOLDERS:
                yield Named(path, True)
            elif os.path.isfile(path) or (not os.path.lexists(path) and (key == "path" or "/" in word)):
                yield Named(path, False)


def _as_git_reads(value: str) -> str:
    """A value without its quotes, its escapes and the comment behind it."""
    kept: list[str] = []
    quoted, escaped = False, False
    for char in value:
        if escaped:
            kept.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            kept.append(char)
    return "".join(kept).strip()


def _as_a_shell_reads(text: str) -> list[str]:
    try:
        return shlex.split(text.removeprefix("!"))[:_MOST_WORDS]
    except ValueError:
        return []


def is_part_of_one(folder: Path, name: str) -> bool:
    """Whether git takes `folder` for a repository's own once `name` lies in it, and `name` is what makes
    it one or becomes code in one."""
    there = {mark for mark in _MARKS if os.path.lexists(folder / mark)}
    return is_git_folder({*there, name}) and (is_bare_code(name.lower()) or not is_git_folder(there))


def led_to(root: Path) -> Iterator[Path]:
    """The real paths in the real folder `root` that settings in force there run or include: those of the
    repository around it, and the person's own. Folders of hooks need not exist."""
    own = set(_own_settings())
    for config, tree in (*_settings_around(root), *((path, root) for path in own)):
        for named in named_paths(config, tree):
            real = Path(os.path.realpath(named.path))
            # A bare word in what holds for every repository is a command of git.
            is_command = config in own and named.path.parent == root and not named.is_folder
            if root in real.parents and not is_command:
                yield real


def _settings_around(root: Path) -> Iterator[tuple[Path, Path]]:
    """Each with the work tree that paths in it are taken from."""
    for tree in (root, *root.parents):
        git = tree / ".git"
        if os.path.lexists(git):
            for folder in (git,) if git.is_dir() else linked_repository(tree):
                yield folder / "config", tree
                yield folder / "config.worktree", tree
            return


def _own_settings() -> tuple[Path, ...]:
    given = os.environ.get("XDG_CONFIG_HOME", "")
    folder = given if given.startswith("/") else os.path.expanduser("~/.config")
    return Path(os.path.expanduser("~/.gitconfig")), Path(folder, "git", "config"), Path("/etc/gitconfig")


def linked_repository(root: Path) -> tuple[Path, ...]:
    """The real folders of the repository that has `root` as a further work tree or a submodule, where
    `root/.git` is a file that leads there; only where that repository says so itself."""
    told = _words(root / ".git")
    if not told.startswith("gitdir:"):
        return ()
    folder = Path(os.path.realpath(root / told.removeprefix("gitdir:").strip()))
    back, config = _words(folder / "gitdir"), _words(folder / "config")
    tree = re.search(r"(?mi)^\s*worktree\s*=\s*(\S+)\s*$", config)
    leads = (folder / back, folder / tree[1] / ".git" if tree else folder)
    if not (back or tree) or not any(os.path.realpath(path) == str(root / ".git") for path in leads):
        return ()
    common = Path(os.path.realpath(folder / (_words(folder / "commondir") or ".")))
    return tuple(dict.fromkeys((common, folder))) if is_git_folder(_names(common)) else ()


def _words(path: Path) -> str:
    try:
        text = (start_of(path, _MOST_BYTES, follow=True) or b"").decode().strip()
    except (OSError, ValueError):
        return ""
    return "" if "\0" in text else text


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
