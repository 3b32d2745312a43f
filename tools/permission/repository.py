"""Whether git, asked for something that only tells, would run a program that a repository names.

Even `git status` can: by a hook, by its settings, by those of a repository inside it.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from tools.definition import ToolError
from tools.workspace import read_real

_SECTION = re.compile(r'\[(\w+)(?: "(?!-)[^"\\\s;|&$`]*")?\]\Z')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*=\s*(?!-)((?:(?!::)[^\\\"])*)\Z")
_HARMLESS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks "
    "autocrlf eol",
    "user": "name email",
    "remote": "url fetch",
    "branch": "remote merge rebase",
    "init": "defaultbranch",
    "pull": "rebase",
}
_MOST_CONFIG = 1 << 18
_MOST_INDEX = 64 << 20
_LINKED_REPOSITORY = b"\0\0\xe0\0"
"""The mode of an entry that is a repository of its own, in which git would run git again."""


def why_it_may_run_something(folder: Path) -> str:
    """Why git in the real `folder` might run what a file there says, "" where it cannot.

    Looks for the repository as git does, upwards. Text as the end of a sentence.
    """
    for place in (folder, *folder.parents):
        if all(os.path.lexists(place / name) for name in ("HEAD", "objects", "refs")):
            return f"{place} looks like a repository itself"
        if os.path.lexists(place / ".git"):
            return _of(place / ".git")
    return ""


def _of(git: Path) -> str:
    try:
        names = [name for name in ("HEAD", "objects", "refs") if not os.path.lexists(git / name)]
        if not stat.S_ISDIR(git.lstat().st_mode) or names or os.path.lexists(git / "commondir"):
            return f"{git} leads to another repository"
        if why := _in_settings(read_real(git / "config", _MOST_CONFIG + 1)):
            return f"the settings of the repository {why}"
        hooks = git / "hooks"
        if os.path.lexists(hooks) and not all(name.endswith(".sample") for name in os.listdir(hooks)):
            return "the repository has hooks, which git runs"
        return _in_index(git)
    except (OSError, ToolError, ValueError):
        return f"{git} cannot be read"


def _in_settings(data: bytes) -> str:
    if len(data) > _MOST_CONFIG:
        return "are too long"
    section = ""
    for line in map(str.strip, data.decode().split("\n")):
        if not line or line[0] in "#;":
            continue
        if found := _SECTION.match(line):
            section = found[1].lower()
        elif (
            not (found := _SETTING.match(line)) or found[1].lower() not in _HARMLESS.get(section, "").split()
        ):
            return "may name a program"
    return ""


def _in_index(git: Path) -> str:
    try:
        data = read_real(git / "index", _MOST_INDEX + 1)
    except FileNotFoundError:
        return ""
    # A split index keeps its entries elsewhere, a sparse one keeps folders for them.
    if len(data) > _MOST_INDEX or any(mark in data for mark in (_LINKED_REPOSITORY, b"link\0", b"sdir\0")):
        return "the repository may contain another one"
    return ""
