"""Every tool that could be offered, listed before it is loaded, and loaded only when it is chosen.

A broken plugin costs one warning that names it. An untrusted project's tools are listed, never run.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tools.builtin.manifests import BUILT_IN
from tools.definition import Tool
from tools.manifest import Manifest, ManifestError, read_manifests
from tools.plugins import (
    PluginError,
    entry_point_source,
    installed,
    load_builtin,
    load_entry_point,
    load_from_folder,
    load_source,
)
from tools.trust import TOOLS_FOLDER, Trust, TrustBook, TrustError, read_plain, read_tools


class UnknownToolError(LookupError):
    """No tool has such a name; the text offers those that are near."""


@dataclass
class _Source:
    """Tools that are loaded together, at most once, whether that succeeds or not."""

    load: Callable[[], Mapping[str, Tool]]
    tools: Mapping[str, Tool] | None = None
    error: PluginError | None = None

    def loaded(self) -> Mapping[str, Tool]:
        """The tools. Raises PluginError, the same one each time."""
        if self.error is not None:
            raise self.error
        if self.tools is None:
            try:
                self.tools = self.load()
            except PluginError as err:
                self.error = err
                raise
        return self.tools


@dataclass(frozen=True)
class _Entry:
    manifest: Manifest
    source: _Source


class ToolRegistry:
    """The tools of one program: built-in, single files, the user's folder, a trusted project, plugins.

    `files` are the FILE values of `--tools`. `project` counts only as far as `trust` says; without a
    trust book it is never trusted. `is_own` tells whether only this person can change a file; by default
    that takes its marks alone. Of two tools with one name the first counts, in that order.
    """

    def __init__(
        self,
        *,
        files: Sequence[Path] = (),
        user_folder: Path | None = None,
        project: Path | None = None,
        trust: TrustBook | None = None,
        plugins: bool = True,
        is_own: Callable[[Path], bool] | None = None,
    ) -> None:
        self.warnings: list[str] = []
        """One line for each thing that is broken or left out."""
        self.untrusted: tuple[Manifest, ...] = ()
        """What the project would offer if it were trusted."""
        self.trust = Trust("trusted")
        """How far the project's tool files are trusted."""
        self._is_own = is_own or _is_own
        self._entries: dict[str, _Entry] = {}
        for manifest in BUILT_IN:
            self._enter(manifest, _Source(lambda one=manifest: {one.name: load_builtin(one)}))
        for path in files:
            self._take_file(path)
        if user_folder is not None:
            self._take_folder(user_folder)
        if project is not None:
            self._take_project(project, trust)
        if plugins:
            self._take_plugins()

    def manifests(self) -> tuple[Manifest, ...]:
        """All tools that could be loaded, without loading them."""
        return tuple(entry.manifest for entry in self._entries.values())

    def select(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The names that patterns choose, several to a text with commas: `read_*,now`.

        Raises UnknownToolError for one that chooses nothing.
        """
        chosen: dict[str, None] = {}
        for pattern in (part.strip() for text in patterns for part in text.split(",")):
            if not pattern:
                continue
            found = [name for name in self._entries if fnmatchcase(name, pattern)]
            if not found:
                raise UnknownToolError(self._unknown(pattern))
            chosen.update(dict.fromkeys(found))
        return tuple(chosen)

    def get(self, name: str) -> Tool:
        """The tool of this name, loaded. Raises UnknownToolError, PluginError."""
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownToolError(self._unknown(name))
        made = entry.source.loaded().get(name)
        if made is None:
            raise PluginError(f"{entry.manifest.origin} names a tool {name} but does not define it.")
        return made

    def load(self, names: Iterable[str]) -> dict[str, Tool]:
        """The tools of these names; each that is broken becomes a warning and is left out."""
        found: dict[str, Tool] = {}
        for name in names:
            try:
                found[name] = self.get(name)
            except PluginError as err:
                self._warn(str(err))
        return found

    def add(self, made: Tool) -> None:
        """Take a tool that exists already, as an MCP server's or a caller's own."""
        does = tuple(sorted(made.does))
        manifest = Manifest(
            made.name, made.description.partition("\n")[0][:200], does, made.source, made.source, made.name
        )
        self._enter(manifest, _Source(lambda: {made.name: made}, {made.name: made}))

    # ---- where tools come from -------------------------------------------------------------

    def _take_file(self, path: Path) -> None:
        data = read_plain(Path(os.path.realpath(path)))
        if data is None:
            self._warn(f"The tool file {path} cannot be read.")
            return
        self._take_source(data, str(path), "file")

    def _take_folder(self, folder: Path) -> None:
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".py")
        except OSError:
            return
        for path in paths:
            data = read_plain(path)
            if data is None or not self._is_own(path) or not self._is_own(folder):
                self._warn(
                    f"The tool file {path} is left out: it must be a plain file that only you can change."
                )
                continue
            self._take_source(data, str(path), "user")

    def _take_project(self, project: Path, trust: TrustBook | None) -> None:
        found = read_tools(project)
        if not found.files:
            return
        try:
            self.trust = Trust("unknown") if trust is None else trust.check(project, found.files)
        except TrustError as err:
            self.trust = Trust("unknown")
            self._warn(str(err))
        # Those of folders below are parts of these.
        files = [name for name in found.files if Path(name).parent == TOOLS_FOLDER and name.endswith(".py")]
        if self.trust.state == "trusted" and not found.fault:
            self._take_trusted(Path(os.path.realpath(project)), files, found.files)
            return
        listed: list[Manifest] = []
        for name in files:
            listed += self._manifests(found.files[name], str(project / name), "project", is_part=True)
        self.untrusted = tuple(listed)
        why = "the project is not trusted"
        if self.trust.state == "changed":
            why = "the project has changed since it was trusted"
        self._warn(f"The tools of {project} are left out, because {found.fault or why}.")

    def _take_trusted(self, root: Path, names: Sequence[str], files: Mapping[str, bytes]) -> None:
        """The tools of a project that is trusted with all `files` of its tools folder."""
        whole = {str(root / name): data for name, data in files.items()}
        count = len(self._entries)
        for name in names:
            origin = str(root / name)
            source = _Source(lambda one=origin: load_from_folder(one, whole, source="project"))
            for manifest in self._manifests(files[name], origin, "project", is_part=True):
                self._enter(manifest, source)
        if names and len(self._entries) == count:
            self._warn(f"{root / TOOLS_FOLDER} defines no tool: decorate a function with @tool.")

    def _take_plugins(self) -> None:
        for point in installed():
            source = _Source(lambda one=point: load_entry_point(one))
            origin = f"{point.name} ({point.value})"
            data = entry_point_source(point)
            found = self._manifests(data, origin, "entry point", is_part=True) if data is not None else ()
            if point.attr:
                found = tuple(one for one in found if one.attribute == point.attr)
            if not found:
                found = (Manifest(point.name, "", ("execute",), "entry point", origin),)
            for manifest in found:
                self._enter(manifest, source)

    def _take_source(self, data: bytes, origin: str, kind: str) -> None:
        source = _Source(lambda: load_source(data, origin=origin, source=kind))
        found = self._manifests(data, origin, kind)
        for manifest in found:
            self._enter(manifest, source)

    def _manifests(
        self, data: bytes, origin: str, kind: str, *, is_part: bool = False
    ) -> tuple[Manifest, ...]:
        """What a file offers; one that is part of something larger may offer nothing."""
        try:
            found = read_manifests(data, source=kind, origin=origin)
        except ManifestError as err:
            self._warn(str(err))
            return ()
        if not found and not is_part:
            self._warn(f"{origin} defines no tool: decorate a function with @tool.")
        return found

    def _enter(self, manifest: Manifest, source: _Source) -> None:
        there = self._entries.get(manifest.name)
        if there is not None:
            self._warn(
                f"The tool {manifest.name} of {manifest.origin} is left out: "
                f"{there.manifest.origin} has one of this name."
            )
            return
        self._entries[manifest.name] = _Entry(manifest, source)

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _unknown(self, name: str) -> str:
        if any(fnmatchcase(manifest.name, name) for manifest in self.untrusted):
            return f"The tool {name[:80]} is the project's, which is not trusted."
        near = difflib.get_close_matches(name, self._entries, 3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`fireside tools list` shows all."
        return f"No tool named {name[:80]}. {hint}"


def split_choices(values: Iterable[str]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """The values of `--tools` as name patterns and as files: what ends in .py or holds a slash."""
    names: list[str] = []
    files: list[Path] = []
    for value in values:
        parts = [value] if os.path.isfile(os.path.expanduser(value)) else value.split(",")
        for part in filter(None, map(str.strip, parts)):
            if part.endswith(".py") or os.sep in part:
                files.append(Path(os.path.expanduser(part)))
            else:
                names.append(part)
    return tuple(names), tuple(files)


def _is_own(path: Path) -> bool:
    """Whether nobody but this user, or the system's, can change it."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid in (os.getuid(), 0) and not stat.S_IMODE(found.st_mode) & 0o022
