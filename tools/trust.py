"""Which projects a person trusts: by real path, and by the content of every file that would be loaded.

Trust is given by a person's answer only. With a file changed, added or removed there is none.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tools.permission.preview import one_row, show_change
from tools.private_file import PrivateFile, PrivateFileError
from tools.regular_file import start_of

TOOLS_FOLDER = Path(".fireside", "tools")
PROMPTS_FOLDER = Path(".fireside", "prompts")
SETTINGS_FILE = Path(".fireside", "config.toml")
INSTRUCTIONS_FILE = "AGENTS.md"

_MOST_FILES = 100
_MOST_TOOL_FILES = 200
_MOST_FOLDERS = 100
_MOST_BYTES = 1 << 20
_MOST_TOOL_BYTES = 4 << 20
_KEPT_TEXT = 65_536


class TrustError(Exception):
    """The record of trusted projects cannot be read or kept; nothing is trusted then."""


@dataclass(frozen=True)
class Trust:
    """How far a project is trusted with some files."""

    state: Literal["trusted", "changed", "unknown"]
    difference: str = ""
    """What is new or changed since it was trusted, as a diff; for an unknown project the files."""


@dataclass
class ToolFolder:
    """Everything below a project's folder of tools, as it was read."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The content of each file, whatever its kind, by its name relative to the project."""
    fault: str = ""
    """Why not all of it could be shown and kept: then none of it may run."""


class TrustBook:
    """The trusted projects of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = PrivateFile(path)

    def check(self, project: Path, files: Mapping[str, bytes]) -> Trust:
        """Whether `files` (relative name to content) are what was trusted, no more and no less.

        They are all of the project's tools, all it has but its tools, or both. Raises TrustError.
        """
        return self._compare(project, files, files)

    def check_project(self, project: Path, files: Mapping[str, bytes]) -> Trust:
        """As `check`, where instructions of a folder above also count as that folder's own.

        So a repository that is trusted need not be trusted once more in each of its folders.
        """
        left = dict(files)
        for name, data in files.items():
            above, file = os.path.split(name)
            if file != INSTRUCTIONS_FILE or not above:
                continue
            if self.check(Path(project, above), {INSTRUCTIONS_FILE: data}).state == "trusted":
                del left[name]
        return self._compare(project, left, files) if left else Trust("trusted")

    def grant(self, project: Path, files: Mapping[str, bytes]) -> None:
        """Trust the project with exactly these files, as the person saw them. Raises TrustError."""
        found = {name: _kept(data) for name, data in files.items()}
        self._change(_key(project), found)

    def revoke(self, project: Path) -> None:
        """Trust it no longer. Raises TrustError."""
        self._change(_key(project), None)

    def _compare(self, project: Path, files: Mapping[str, bytes], there: Mapping[str, bytes]) -> Trust:
        """How `files` were trusted, where `there` also are those that need no trust of this project."""
        known = self._projects().get(_key(project))
        if known is None:
            return Trust("unknown", _difference({}, files))
        hashes = {name: kept["sha256"] for name, kept in known.items()}
        changed = {name: data for name, data in files.items() if hashes.get(name) != _sha(data)}
        looked_at = set(map(_is_tool, there))
        gone = [name for name in known if name not in there and _is_tool(name) in looked_at]
        if not changed and not gone:
            return Trust("trusted")
        parts = [_difference(known, changed), *(f"{one_row(name)} is gone" for name in sorted(gone))]
        return Trust("changed", "\n".join(filter(None, parts)))

    def _change(self, key: str, files: Any) -> None:
        try:
            with self._file.locked():
                projects = self._projects()
                projects.pop(key, None)
                if files is not None:
                    projects[key] = files
                self._file.write(json.dumps({"version": 1, "projects": projects}))
        except PrivateFileError as err:
            raise TrustError(str(err)) from err

    def _projects(self) -> dict[str, dict[str, dict[str, str]]]:
        try:
            data = self._file.read()
        except PrivateFileError as err:
            raise TrustError(f"No project is trusted. {err}") from err
        if data is None:
            return {}
        try:
            projects = json.loads(data)["projects"]
            return {str(key): _checked(files) for key, files in projects.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as err:
            raise TrustError(f"{self._path} is damaged, so no project is trusted: move it away.") from err


def _checked(files: Any) -> dict[str, dict[str, str]]:
    return {str(name): {"sha256": kept["sha256"], "text": str(kept["text"])} for name, kept in files.items()}


def project_files(project: Path) -> dict[str, bytes]:
    """Every file of a project that would be loaded, with its content, by name relative to it.

    Its tools, settings and prompts, and the instructions that hold in it. Links are left out: what
    they lead to could change without being seen. Nothing is run.
    """
    return {
        **project_tools(project),
        **project_settings(project),
        **project_prompts(project),
        **project_instructions(project),
    }


def project_tools(project: Path) -> dict[str, bytes]:
    """Every file below the tools folder of a project with its content, by name relative to it."""
    return read_tools(project).files


def read_tools(project: Path) -> ToolFolder:
    """All that is below the tools folder of a project. What is not a plain file in it is a fault."""
    found = ToolFolder()
    root = Path(os.path.realpath(project))
    if (root / TOOLS_FOLDER).is_symlink() or (root / TOOLS_FOLDER.parent).is_symlink():
        return found
    folders = [TOOLS_FOLDER]
    for place in folders:
        for name in _listed(root / place, found):
            _take(root, place / name, found, folders)
            if excess := _excess(found, folders):
                found.fault = excess
                return found
    return found


def _excess(found: ToolFolder, folders: Sequence[Path]) -> str:
    """Why a folder of tools is more than anybody reads through; empty where it is not."""
    if len(found.files) > _MOST_TOOL_FILES or len(folders) > _MOST_FOLDERS:
        return f"it has more than {_MOST_TOOL_FILES} files or {_MOST_FOLDERS} folders"
    if sum(map(len, found.files.values())) > _MOST_TOOL_BYTES:
        return f"it has more than {_MOST_TOOL_BYTES >> 20} MB"
    return ""


def _listed(folder: Path, found: ToolFolder) -> list[str]:
    """The first names of a folder, enough to tell that there are too many."""
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, _MOST_TOOL_FILES + 1)]
    except FileNotFoundError:
        pass
    except OSError as err:
        found.fault = f"{one_row(folder.name)} cannot be read: {err.strerror}"
    return sorted(names)


def _take(root: Path, name: Path, found: ToolFolder, folders: list[Path]) -> None:
    """Add the file of that name, or the folder to those that are still to be read."""
    try:
        kind = os.lstat(root / name).st_mode
    except OSError:
        return
    if stat.S_ISDIR(kind):
        folders.append(name)
        return
    data = read_plain(root / name)
    if data is not None:
        found.files[str(name)] = data
    elif stat.S_ISLNK(kind):
        found.fault = f"{one_row(str(name))} is a link, and what it leads to could change unseen"
    elif stat.S_ISREG(kind):
        found.fault = f"{one_row(str(name))} cannot be read, or has more than {_MOST_BYTES >> 20} MB"
    else:
        found.fault = f"{one_row(str(name))} is not a plain file"


def project_prompts(project: Path) -> dict[str, bytes]:
    """The prompt files of a project with their content, by name relative to it."""
    return _files_in(project, PROMPTS_FOLDER, ".md")


def project_settings(project: Path) -> dict[str, bytes]:
    """The settings file of a project and its content; nothing where it has none."""
    root = Path(os.path.realpath(project))
    if (root / SETTINGS_FILE.parent).is_symlink():
        return {}
    data = read_plain(root / SETTINGS_FILE)
    return {} if data is None else {str(SETTINGS_FILE): data}


def project_instructions(project: Path) -> dict[str, bytes]:
    """The nearest AGENTS.md and its content, up to the root of the repository that `project` is in.

    Outside of a repository only the folder itself counts.
    """
    root = Path(os.path.realpath(project))
    folders = [root, *root.parents]
    top = next((index for index, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    for folder in folders[: top + 1]:
        data = read_plain(folder / INSTRUCTIONS_FILE)
        if data is not None and data.strip():
            return {os.path.relpath(folder / INSTRUCTIONS_FILE, root): data}
    return {}


def _files_in(project: Path, place: Path, ending: str) -> dict[str, bytes]:
    folder = Path(os.path.realpath(project)) / place
    if folder.is_symlink() or folder.parent.is_symlink() or not folder.is_dir():
        return {}
    names = sorted(name for name in os.listdir(folder) if name.endswith(ending))
    found: dict[str, bytes] = {}
    for name in names[:_MOST_FILES]:
        data = read_plain(folder / name)
        if data is not None:
            found[str(place / name)] = data
    return found


def read_plain(path: Path) -> bytes | None:
    """The content of a regular file of at most 1 MB that is no link; else None."""
    try:
        data = start_of(path, _MOST_BYTES + 1)
    except OSError:
        return None
    return data if data is not None and len(data) <= _MOST_BYTES else None


def _key(project: Path) -> str:
    return os.path.realpath(project)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _kept(data: bytes) -> dict[str, str]:
    text = data.decode("utf-8", "surrogateescape") if len(data) <= _KEPT_TEXT else ""
    return {"sha256": _sha(data), "text": text}


def _is_tool(name: str) -> bool:
    return Path(name).is_relative_to(TOOLS_FOLDER)


def _difference(known: Mapping[str, Mapping[str, str]], files: Mapping[str, bytes]) -> str:
    parts: list[str] = []
    for name, data in sorted(files.items()):
        shown, old = one_row(name), known.get(name)
        before = None if old is None else old.get("text", "").encode("utf-8", "surrogateescape")
        if old is not None and not before and old["sha256"] != _sha(b""):
            parts.append(f"{shown} is a different file; its old content was not kept, so here is all of it:")
            before = None
        parts.append(show_change(shown, before, data) or f"{shown} is empty")
    return "\n".join(parts)
