"""Whether a file would become code by what is around it, although neither its name nor its folder says so.

A link, the settings of a repository, or a folder that git takes for one lead to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tools.names import plain_name
from tools.sandbox import git_folder
from tools.sandbox.code_names import is_code, may_be_code
from tools.sandbox.survey import survey

_MOST_ENTRIES = 20_000
"""Names that are looked at in one folder."""


def is_led_to(path: Path, root: Path) -> bool:
    """Whether what is written to the real `path` in the real folder `root` becomes code. Looks at the
    folders on the way to it, and over the whole of `root` as the sandbox does: not on the event loop."""
    if root not in path.parents:
        return False
    ways = {path, *(folder for folder in path.parents if root in folder.parents)}
    names = [(way.parent, way.name) for way in ways]
    if any(git_folder.is_part_of_one(folder, name) for folder, name in names):
        return True
    if not ways.isdisjoint(git_folder.led_to(root)):
        return True
    if any(target in ways for folder, _ in names for target in _code_links(folder, root)):
        return True
    return any(spot.path in ways for spot in survey(root).code if spot.via is not None)


def _code_links(folder: Path, root: Path) -> Iterator[Path]:
    """Where links in `folder` lead that have the name of what becomes code."""
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False):
                if not may_be_code(plain_name(entry.name)) or not entry.is_symlink():
                    continue
                if is_code(Path(entry.path).relative_to(root).parts):
                    yield Path(os.path.realpath(entry.path))
    except OSError:
        return
