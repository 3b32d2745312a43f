"""Loading tools: built-in ones by module, files from the bytes that were read, installed packages.

Loading runs the plugin's code; whether that is allowed is decided before, by the registry.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tools.definition import Tool
from tools.folder_modules import digest_of, take_folder
from tools.manifest import Manifest
from tools.output import describe_error

GROUP = "fireside.tools"


class PluginError(Exception):
    """A plugin cannot be loaded; the text names it and says why."""


def load_builtin(manifest: Manifest) -> Tool:
    """The built-in tool of this manifest."""
    return getattr(importlib.import_module(manifest.origin), manifest.attribute)


def load_source(data: bytes, *, origin: str, source: str) -> dict[str, Tool]:
    """The tools that the Python file `data` defines, by name.

    Exactly these bytes are run, never a cached compilation of the file. Raises PluginError.
    """
    digest = hashlib.sha256(data).hexdigest()
    module = ModuleType(f"fireside_plugin_{digest[:16]}")
    return _loaded(module, data, origin, source, digest)


def load_from_folder(origin: str, files: Mapping[str, bytes], *, source: str) -> dict[str, Tool]:
    """The tools that the file at `origin` (a real path) defines, by name.

    `files`, by whole path, are all that its folder holds: what it imports from there is a module of one
    package with it, and runs exactly these bytes. Raises PluginError.
    """
    package = take_folder(os.path.dirname(origin), files)
    module = ModuleType(f"{package}.{os.path.basename(origin).removesuffix('.py')}")
    module.__package__ = package
    return _loaded(module, files[origin], origin, source, digest_of(files))


def _loaded(module: ModuleType, data: bytes, origin: str, source: str, digest: str) -> dict[str, Tool]:
    module.__file__ = origin
    sys.modules[module.__name__] = module
    try:
        exec(compile(data, origin, "exec", dont_inherit=True), module.__dict__)
        return {made.name: made.loaded_from(source, digest) for made in _tools_of(module)}
    except (Exception, SystemExit) as err:
        sys.modules.pop(module.__name__, None)
        raise PluginError(f"The tools of {origin} cannot be loaded. {describe_error(err)}") from err


def installed() -> tuple[EntryPoint, ...]:
    """The installed plugins, not imported."""
    return tuple(entry_points(group=GROUP))


def entry_point_source(point: EntryPoint) -> bytes | None:
    """The source of an installed plugin's module, found without importing it or its packages."""
    first, *rest = point.module.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return _read(Path(spec.origin)) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *rest)
        found = _read(path.with_suffix(".py")) or _read(path / "__init__.py")
        if found is not None:
            return found
    return None


def load_entry_point(point: EntryPoint) -> dict[str, Tool]:
    """The tools of an installed plugin: a tool, several, or a module of them. Raises PluginError."""
    data = entry_point_source(point)
    digest = hashlib.sha256(data or b"").hexdigest()
    version = point.dist.version if point.dist else ""
    name = f"{point.name} ({point.value})"
    try:
        value = point.load()
        found = list(_tools_of(value)) if isinstance(value, ModuleType) else _tools_in(value)
    except (Exception, SystemExit) as err:
        raise PluginError(f"The plugin {name} cannot be loaded. {describe_error(err)}") from err
    if not found:
        raise PluginError(f"The plugin {name} contains no tool.")
    return {made.name: made.loaded_from(f"plugin {point.name}", f"{version} {digest}") for made in found}


def _tools_of(module: ModuleType) -> Iterator[Tool]:
    """The tools a module defines; those it only imports from here are not its own."""
    for value in list(vars(module).values()):
        if isinstance(value, Tool) and not value.function.__module__.startswith("tools."):
            yield value


def _tools_in(value: Any) -> list[Tool]:
    if isinstance(value, Tool):
        return [value]
    if not isinstance(value, list | tuple):
        return []
    return [item for item in cast("list[Any]", value) if isinstance(item, Tool)]


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.suffix == ".py" else None
    except OSError:
        return None
