"""Models from the Hugging Face Hub: what a repository offers, fetching it, checking what was fetched.

Downloads go through huggingface_hub, which resumes them; it is imported when something is asked of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backend import places
from backend.gguf.file import gib, quoted, shown
from backend.models import own_folder, quantization_in
from backend.types import BackendError

Progress = Callable[[int, int], bool]
"""Called with bytes done and bytes in all; returning False stops the download, which can be resumed."""

_NAME = re.compile(r"^(?:hf\.co/)?([\w.-]+/[\w.-]+?)(?::([\w.-]+))?$")
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0", "Q5_K_M", "Q8_0", "F16", "BF16", "F32")
"""Quantizations in the order they are taken where none is asked for."""
_MARGIN_BYTES = 512 << 20
"""Left free on the disk."""
_RECORD = ".fireside-hub.json"
_CHUNK = 1 << 22


class DownloadError(BackendError):
    """A repository or a download failed; `remedy` says what to do."""

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class RepoFile:
    """One file of a repository. `sha256` is empty where the hub does not tell it."""

    name: str
    size_bytes: int
    sha256: str = ""


@dataclass(frozen=True)
class RemoteFile:
    """What a pull would fetch, and what it needs. Sizes are bytes."""

    repo: str
    revision: str
    licence: str
    quantization: str
    files: tuple[RepoFile, ...]
    """Every part of the model, the projector last if there is one."""
    folder: Path
    missing_bytes: int
    """What is not here yet."""
    free_bytes: int
    """Of the disk the folder is on."""

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def model_path(self) -> Path:
        """The file to load: the first part."""
        return self.folder / self.files[0].name


def is_repo_name(name: str) -> bool:
    """Whether a model's name means a repository (`user/repo`, `user/repo:quantization`)."""
    return _NAME.match(name) is not None and not name.lower().endswith(".gguf")


def offer(name: str, *, projector: bool = True, endpoint: str | None = None) -> RemoteFile:
    """What `user/repo[:quantization]` has for us. Asks the hub; fetches nothing. Raises DownloadError."""
    match = _NAME.match(name)
    if not match:
        raise DownloadError(
            f"{quoted(name)} is not the name of a repository.",
            remedy="Write it as user/repo or user/repo:Q4_K_M.",
        )
    repo, asked = match[1], match[2]
    info = _repo_info(repo, endpoint)
    siblings: Sequence[Any] = info.siblings or ()
    files = [_repo_file(sibling) for sibling in siblings]
    models = [file for file in files if file.name.lower().endswith(".gguf") and not _is_projector(file.name)]
    if not models:
        raise DownloadError(
            f"{repo} contains no GGUF file.", remedy="Look for a repository whose name ends in -GGUF."
        )
    quantization, chosen = _choose(repo, models, asked)
    projectors = sorted(
        (file for file in files if _is_projector(file.name)), key=lambda file: file.size_bytes
    )
    if projector and projectors:
        chosen = [*chosen, projectors[0]]
    places.require_own(own_folder().parent)
    folder = own_folder() / repo
    missing = sum(file.size_bytes for file in chosen if not _is_here(folder, file))
    licence = _licence(info)
    return RemoteFile(
        repo, str(info.sha or "main"), licence, quantization, tuple(chosen), folder, missing, _free(folder)
    )


def pull(wanted: RemoteFile, progress: Progress | None = None, *, endpoint: str | None = None) -> Path:
    """Fetch what an offer names, resuming what is half here, and check every hash. The file to load.

    Raises DownloadError where the disk is too small, the hub fails, or a hash is wrong.
    """
    if wanted.missing_bytes + _MARGIN_BYTES > wanted.free_bytes:
        raise DownloadError(
            f"{wanted.repo} needs {gib(wanted.missing_bytes)} more, and the disk of "
            f"{shown(wanted.folder, 200)} has {gib(wanted.free_bytes)} free.",
            remedy="Free some space, choose a smaller quantization, or set FIRESIDE_DATA to another disk.",
        )
    wanted.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    done = 0
    for file in wanted.files:
        path = wanted.folder / file.name
        if not _is_here(wanted.folder, file):
            _fetch(wanted, file, _Meter(progress, done, wanted.total_bytes), endpoint)
            _check(path, file)
        done += file.size_bytes
        if progress:
            progress(done, wanted.total_bytes)
    _record(wanted)
    return wanted.model_path


def verify(path: Path) -> Iterator[tuple[Path, bool | None]]:
    """Hash every pulled file beside the model at `path`: True or False, None where no hash is known."""
    folder = _recorded_folder(path)
    known = {file.name: file for file in _recorded(folder)}
    for part in _parts_beside(path):
        file = known.get(part.relative_to(folder).as_posix())
        yield part, None if file is None or not file.sha256 else _sha256(part) == file.sha256


def remove(path: Path) -> list[Path]:
    """Delete a model of the own folder, all parts. Returns what was deleted. DownloadError for any other."""
    folder = own_folder().resolve()
    if not path.resolve().is_relative_to(folder):
        raise DownloadError(
            f"{shown(path, 300)} is not in Fireside's own model folder.",
            remedy="Delete it with the program it belongs to.",
        )
    removed = [part for part in _parts_beside(path) if part.exists() or part.is_symlink()]
    for part in removed:
        part.unlink()
    for parent in path.parents:
        if parent.resolve() == folder or any(child.name != _RECORD for child in parent.iterdir()):
            break
        with contextlib.suppress(OSError):
            (parent / _RECORD).unlink(missing_ok=True)
            shutil.rmtree(parent / ".cache", ignore_errors=True)
            parent.rmdir()
    return removed


# ---- choosing ------------------------------------------------------------------------------


def _choose(repo: str, models: list[RepoFile], asked: str | None) -> tuple[str, list[RepoFile]]:
    """The quantization to take, and all its parts."""
    groups: dict[str, list[RepoFile]] = {}
    for file in sorted(models, key=lambda file: file.name):
        groups.setdefault(_PART.sub("", file.name).removesuffix(".gguf"), []).append(file)
    by_quantization = {quantization_in(stem): (stem, files) for stem, files in groups.items()}
    listed = ", ".join(sorted(shown(name or stem) for name, (stem, _) in by_quantization.items()))
    if asked:
        fitting = [name for name in by_quantization if name.casefold() == asked.casefold()]
        if not fitting:
            raise DownloadError(
                f"{repo} has no quantization {quoted(asked)}.", remedy=f"It has: {listed}. Name one of these."
            )
        name = fitting[0]
    else:
        order = [each for each in _PREFERRED if each in by_quantization]
        smallest = min(by_quantization, key=lambda each: sum(f.size_bytes for f in by_quantization[each][1]))
        name = order[0] if order else smallest
    stem, files = by_quantization[name]
    if found := _PART.search(files[0].name):
        expected = int(found[2])
        if len(files) != expected:
            raise DownloadError(
                f"{repo} lacks parts of {shown(stem)}: {len(files)} of {expected} are there.",
                remedy="Choose another quantization or repository.",
            )
    return name, files


def _is_projector(name: str) -> bool:
    return name.lower().endswith(".gguf") and "mmproj" in name.lower().rpartition("/")[2]


def _repo_file(sibling: Any) -> RepoFile:
    name, lfs = str(sibling.rfilename), sibling.lfs
    if name.startswith("/") or ".." in name.split("/"):
        raise DownloadError(
            f"The repository names a file outside itself: {quoted(name)}.",
            remedy="Do not use this repository.",
        )
    return RepoFile(name, int(sibling.size or 0), str(lfs.sha256) if lfs else "")


def _licence(info: Any) -> str:
    card = getattr(info, "card_data", None)
    named = getattr(card, "license", None) if card else None
    tagged = next((tag[8:] for tag in info.tags or () if str(tag).startswith("license:")), "")
    return str(named or tagged or "not stated")


# ---- fetching ------------------------------------------------------------------------------


def _hub() -> Any:
    try:
        hub: Any = importlib.import_module("huggingface_hub")
        importlib.import_module("huggingface_hub.utils.logging").set_verbosity_error()
        return hub
    except ImportError as err:
        raise DownloadError(
            "Fetching models needs the package huggingface_hub.",
            remedy="Install it: python -m pip install 'huggingface_hub>=1,<2'",
        ) from err


@contextlib.contextmanager
def _hub_errors(repo: str) -> Generator[None]:
    errors: Any = importlib.import_module("huggingface_hub.errors")
    http: Any = importlib.import_module("httpx")
    try:
        yield
    except errors.GatedRepoError as err:
        raise DownloadError(
            f"{repo} requires you to accept its terms first.",
            remedy="Accept them on its page on Hugging Face, then log in with: hf auth login",
        ) from err
    except errors.RepositoryNotFoundError as err:
        raise DownloadError(
            f"The hub has no repository {repo}.", remedy="Check the name for a typo."
        ) from err
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as err:
        raise DownloadError(
            f"{repo} cannot be reached: this machine is offline, or HF_HUB_OFFLINE is set.",
            remedy="Try again with a connection; the download resumes where it stopped.",
        ) from err
    except (errors.HfHubHTTPError, http.HTTPError, OSError) as err:
        raise DownloadError(
            f"The hub failed for {repo}: {shown(err, 200)}",
            remedy="Try again; the download resumes where it stopped.",
        ) from err


def _repo_info(repo: str, endpoint: str | None) -> Any:
    hub = _hub()
    with _hub_errors(repo):
        return hub.HfApi(endpoint=endpoint).model_info(repo, files_metadata=True)


def _fetch(wanted: RemoteFile, file: RepoFile, meter: _Meter, endpoint: str | None) -> None:
    hub = _hub()
    try:
        with _hub_errors(wanted.repo):
            hub.hf_hub_download(
                wanted.repo,
                file.name,
                revision=wanted.revision,
                local_dir=wanted.folder,
                endpoint=endpoint,
                tqdm_class=meter.bar_class(),
            )
    except _StoppedError as err:
        raise DownloadError(
            f"The download of {wanted.repo} was stopped.",
            remedy="Pull it again: it resumes where it stopped.",
        ) from err


class _StoppedError(Exception):
    """The progress callback asked for an end."""


class _Meter:
    """One total over all files, fed by huggingface_hub's progress bars."""

    def __init__(self, progress: Progress | None, before: int, total: int) -> None:
        self._progress = progress
        self._done = before
        self._total = total

    def advance(self, count: float) -> None:
        self._done += int(count)
        if self._progress and self._progress(min(self._done, self._total), self._total) is False:
            raise _StoppedError

    def bar_class(self) -> type[Any]:
        """A progress bar that draws nothing and tells us how far it is."""
        tqdm: Any = importlib.import_module("tqdm")
        meter = self

        class Bar(tqdm.tqdm):
            def __init__(self, *_: Any, initial: float = 0, **__: Any) -> None:
                super().__init__(disable=True)  # pyright: ignore[reportUnknownMemberType]
                meter.advance(initial)

            def update(self, n: float | None = 1) -> None:
                meter.advance(n or 0)

        return Bar


def _check(path: Path, file: RepoFile) -> None:
    if path.stat().st_size == file.size_bytes and (not file.sha256 or _sha256(path) == file.sha256):
        return
    path.unlink()
    raise DownloadError(
        f"{shown(file.name)} arrived damaged: its size or hash is not what the hub says. It was deleted.",
        remedy="Pull it again.",
    )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


# ---- what is here --------------------------------------------------------------------------


def _is_here(folder: Path, file: RepoFile) -> bool:
    """Whether a file was fetched and checked before: recorded with this hash, and of this size."""
    path = folder / file.name
    if not path.is_file() or path.stat().st_size != file.size_bytes:
        return False
    return any(known == file for known in _recorded(folder))


def _recorded_folder(path: Path) -> Path:
    """The folder above a file that remembers what was fetched, else the file's own."""
    return next((parent for parent in path.parents if (parent / _RECORD).is_file()), path.parent)


def _recorded(folder: Path) -> list[RepoFile]:
    try:
        content: Any = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return [RepoFile(str(e["name"]), int(e["size_bytes"]), str(e["sha256"])) for e in content["files"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _record(wanted: RemoteFile) -> None:
    """Remember the hashes of what was checked, for `verify` and for the next pull."""
    kept = {file.name: file for file in (*_recorded(wanted.folder), *wanted.files)}
    content = {"repo": wanted.repo, "files": [asdict(file) for file in kept.values()]}
    draft = wanted.folder / f"{_RECORD}.{os.getpid()}"
    draft.write_text(json.dumps(content, indent=1), encoding="utf-8")
    draft.replace(wanted.folder / _RECORD)


def _parts_beside(path: Path) -> list[Path]:
    """The model's file, or all parts of it where it is split."""
    found = _PART.search(path.name)
    if not found:
        return [path]
    stem, count = path.name[: found.start()], int(found[2])
    return [path.with_name(f"{stem}-{part:05d}-of-{count:05d}.gguf") for part in range(1, count + 1)]


def _free(folder: Path) -> int:
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
