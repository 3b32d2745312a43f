"""What the folder that Fireside is started in brings along: settings, prompts, instructions.

All of it counts only where a person trusts the folder with exactly these files; nobody is asked here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from app import paths
from app.characters import clip, quote
from app.settings.config import OTHER_TABLES, Value, tables_in, values_of
from app.settings.kinds import SettingError
from app.settings.table import SETTINGS

ALLOWED = frozenset(key for key, one in SETTINGS.items() if one.project)
"""The settings that a project may bring; the others are the person's own business."""
_FOLDER = ".fireside"
_TOOL_NAMES = re.compile(r"[A-Za-z0-9_*?\[\]!-][A-Za-z0-9_.*?\[\]!-]{0,99}")
_INSTRUCTIONS = "AGENTS.md"


@dataclass(frozen=True)
class Project:
    """What a folder brings, as far as it is trusted."""

    values: Mapping[str, Value] = field(default_factory=dict[str, Value])
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The text of each file in `.fireside/prompts`, by the name of its command."""
    instructions: str = ""
    """The text of AGENTS.md, with a line that says where it is from."""
    notices: tuple[str, ...] = ()
    """What a person should know: what is not trusted, what is not taken from a project."""


def read_project(folder: Path | None = None) -> Project:
    """What `folder` (default: the current one) brings. SettingError for a trusted file with a mistake."""
    folder = folder or Path()
    if not brings_something(folder):
        return Project()
    from tools import trust

    files = {
        **trust.project_settings(folder),
        **trust.project_prompts(folder),
        **trust.project_instructions(folder),
    }
    if not files:
        return Project()
    try:
        state = (
            trust.TrustBook(paths.require_own(paths.data_dir() / "trust.json"))
            .check_project(folder, files)
            .state
        )
    except (trust.TrustError, OSError) as err:
        return Project(notices=(str(err),))
    if state != "trusted":
        changed = "has changed since it was trusted" if state == "changed" else "is not trusted"
        names = clip(", ".join(sorted(files)))
        return Project(
            notices=(f"this folder {changed}, so {names} is not used; `fireside trust` shows and asks",)
        )
    return _of(folder, files)


def _of(folder: Path, files: Mapping[str, bytes]) -> Project:
    from tools.trust import INSTRUCTIONS_FILE, PROMPTS_FOLDER, SETTINGS_FILE

    values: dict[str, Value] = {}
    notices: list[str] = []
    prompts: dict[str, str] = {}
    instructions = ""
    root = Path(os.path.realpath(folder))
    for name, data in files.items():
        if name == str(SETTINGS_FILE):
            values, notices = _allowed(data, str(root / SETTINGS_FILE))
        elif Path(name).parent == PROMPTS_FOLDER:
            prompts[Path(name).stem] = data.decode("utf-8-sig", "replace")
        elif os.path.basename(name) == INSTRUCTIONS_FILE:
            text = data.decode("utf-8-sig", "replace").strip()
            instructions = f"Instructions of this project, from {INSTRUCTIONS_FILE}:\n\n{text}"
    return Project(values, prompts, instructions, tuple(notices))


def _allowed(data: bytes, origin: str) -> tuple[dict[str, Value], list[str]]:
    found = values_of(data, origin, OTHER_TABLES)
    kept = {key: item for key, item in found.items() if key in ALLOWED}
    notices: list[str] = []
    if ignored := sorted((found.keys() - ALLOWED) | tables_in(data, origin)):
        notices.append(f"{origin}: {', '.join(ignored)} works only in your own settings, so it is not used")
    if (model := kept.get("model")) is not None and _is_path(model.value):
        raise SettingError(
            f"{origin}: model must be the name of a model; a project cannot name a file or a server."
        )
    for key in ("tools", "hidden_tools"):
        if key in kept:
            _require_names(key, kept[key])
    return kept, notices


def _require_names(key: str, tools: Value) -> None:
    """Files of tools are the person's to name: nothing else would have been shown and kept."""
    for text in cast("tuple[object, ...]", tools.value) if isinstance(tools.value, tuple) else ():
        for name in str(text).split(","):
            if not _TOOL_NAMES.fullmatch(name.strip()) or name.strip().endswith(".py"):
                raise SettingError(
                    f"{tools.origin}: {key} must be names of tools or patterns of them, not {quote(text)}; "
                    f"a project cannot name a file. Its own tools are in {_FOLDER}/tools."
                )


def _is_path(model: object) -> bool:
    return isinstance(model, str) and (
        "://" in model
        or model.lower().startswith(("server:", "unix:"))
        or model.startswith((os.sep, ".", "~"))
        or model.lower().endswith(".gguf")
        or os.path.exists(model)
    )


def brings_something(folder: Path) -> bool:
    """Whether a closer look is worth its time: most folders hold nothing of the kind."""
    try:
        real = os.path.realpath(folder)
    except OSError:  # the current folder is gone
        return False
    if os.path.isdir(os.path.join(real, _FOLDER)):
        return True
    while True:
        if os.path.isfile(os.path.join(real, _INSTRUCTIONS)):
            return True
        parent = os.path.dirname(real)
        if parent == real:
            return False
        real = parent
