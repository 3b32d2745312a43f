"""Modules of a project's tools folder, made of the bytes that were read and trusted.

Whatever its tools import from the folder, and whenever: no file of it is read a second time, and no
cached compilation is used.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, PathEntryFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_FOLDERS: dict[str, Mapping[str, bytes]] = {}
"""The files of each folder that was taken, by whole path."""


def take_folder(folder: str, files: Mapping[str, bytes]) -> str:
    """Have `folder` (a real path) hold only `files` (by whole path) for every later import.

    Returns the name of the package that its modules are in, another one for other content.
    """
    package = f"fireside_plugin_{digest_of(files)[:16]}"
    _FOLDERS[folder] = files
    if _hook not in sys.path_hooks:
        sys.path_hooks.insert(0, _hook)
    for place in [place for place in sys.path_importer_cache if _root_of(place)[0] == folder]:
        del sys.path_importer_cache[place]
    if package not in sys.modules:
        module = ModuleType(package)
        module.__path__ = [folder]
        sys.modules[package] = module
    return package


def digest_of(files: Mapping[str, bytes]) -> str:
    """What stands for these files by name and content: 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name}\0{hashlib.sha256(data).hexdigest()}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _root_of(place: str) -> tuple[str | None, str]:
    """The folder that was taken which `place` is or lies in, and `place` as a path of it.

    By its name, too: a link may have been put in place of the folder since.
    """
    for path in (os.path.abspath(place), os.path.realpath(place)):
        for root in _FOLDERS:
            if path == root or path.startswith(f"{root}{os.sep}"):
                return root, path
    return None, place


def _hook(place: str) -> _Finder:
    root, path = _root_of(place)
    if root is None:
        raise ImportError
    return _Finder(path, _FOLDERS[root])


class _Finder(PathEntryFinder):
    """What can be imported from one place in the folder."""

    def __init__(self, place: str, files: Mapping[str, bytes]) -> None:
        self._place = place
        self._files = files

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        base = os.path.join(self._place, fullname.rpartition(".")[2])
        for file, inside in ((os.path.join(base, "__init__.py"), [base]), (f"{base}.py", None)):
            if (data := self._files.get(file)) is not None:
                return _spec(fullname, _Code(data, file), file, inside)
        if any(file.startswith(f"{base}{os.sep}") for file in self._files):
            return _spec(fullname, None, None, [base])
        return None


def _spec(name: str, loader: Loader | None, file: str | None, inside: Sequence[str] | None) -> ModuleSpec:
    spec = ModuleSpec(name, loader, origin=file, is_package=inside is not None)
    if inside is not None:
        spec.submodule_search_locations = list(inside)
    spec.has_location = file is not None
    return spec


class _Code(Loader):
    """Runs one file of the folder as a module."""

    def __init__(self, data: bytes, file: str) -> None:
        self._data = data
        self._file = file

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._data, self._file, "exec", dont_inherit=True), module.__dict__)
