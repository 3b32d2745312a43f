"""A model named `user/repo[:quantization]` that is not here: what it takes is shown, a person is asked once.

Where nobody can be asked it is fetched only with consent given beforehand (`--pull`).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from app.characters import clip, quote
from app.exits import ExitCode, Failure
from app.settings.config import Settings, Value
from app.terminal.confirm import agreed
from app.terminal.output import is_terminal, notify, takes_styles

if TYPE_CHECKING:
    from backend.downloads import RemoteFile

_METER_PERIOD_S = 0.1


def source_of(settings: Settings) -> str | None:
    """The model to load, fetched first where that is wanted.

    None leaves `FIRESIDE_MODEL` to the backend, so that its errors name it. Raises ModelLoadError
    for a repository whose model is not here and may not be fetched, Failure where fetching fails.
    """
    named = settings.values.get("model")
    if named is None:
        return None
    if "/" in named.value and not Path(named.value).exists() and (path := _of_repository(settings)):
        return str(path)
    return None if named.origin == "FIRESIDE_MODEL" else named.value


def with_model_here(settings: Settings) -> Settings:
    """`settings` with a model that is named by its repository as the file it is, fetched where wanted.

    For faces that load it later, when nothing can be asked line by line. Raises as `source_of`.
    """
    named, source = settings.values.get("model"), source_of(settings)
    if named is None or source is None or source == named.value:
        return settings
    return settings._replace(values={**settings.values, "model": Value(source, named.origin)})


def fetch(name: str, *, consent: bool, projector: bool = True) -> Path:
    """Fetch a model of the hub after showing what it takes; the file to load.

    Asks at the terminal unless `consent` was given. Failure (hub, not_confirmed) where it is not had.
    """
    from backend import downloads

    try:
        wanted = downloads.offer(name, projector=projector)
        _show(wanted)
        if wanted.missing_bytes and not consent and not agreed("Fetch it?"):
            raise Failure(
                "not_confirmed",
                "Nothing was fetched.",
                remedy=f"To agree beforehand: fireside models pull {name} --yes",
                exit_code=ExitCode.FAILED,
            )
        return downloads.pull(wanted, Meter())
    except downloads.DownloadError as err:
        raise Failure("hub", str(err), remedy=err.remedy, exit_code=ExitCode.NO_MODEL) from err


def byte_size(count: int) -> str:
    """A size as a person reads it."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


class Meter:
    """One line of progress on a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self._rewrites = takes_styles(sys.stderr)
        self._shown = 0.0

    def __call__(self, done: int, total: int) -> bool:
        now = time.monotonic()
        if self._rewrites and (now - self._shown > _METER_PERIOD_S or done >= total):
            self._shown = now
            percent = 100 * done // total if total else 100
            end = "\n" if done >= total else ""
            sys.stderr.write(f"\r\x1b[K{percent} % of {byte_size(total)}{end}")
            sys.stderr.flush()
        return True


def _of_repository(settings: Settings) -> Path | None:
    """The file of a model that is named by its repository; None for any other name."""
    from backend.downloads import is_repo_name
    from backend.models import resolve
    from backend.types import ModelLoadError

    name, consent = settings.values["model"].value, bool(settings.get("pull"))
    if not is_repo_name(name):
        return None
    if (found := resolve(name)) is not None:
        # The beginning of another name is good enough, but for somebody who asks for a download.
        if not consent or name.casefold() in map(str.casefold, found.names):
            return found.path
    elif not consent and not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise ModelLoadError(
            f"The model {quote(name)} is not on this machine.",
            cause="not_found",
            remedy=f"Fetch it first: fireside models pull {clip(name)}, or add --pull.",
        )
    return fetch(name, consent=consent)


def _show(wanted: RemoteFile) -> None:
    parts = f", {len(wanted.files)} files" if len(wanted.files) > 1 else ""
    notify(
        f"{wanted.repo} {wanted.quantization}{parts}: {byte_size(wanted.total_bytes)}, "
        f"{byte_size(wanted.missing_bytes)} to fetch, {byte_size(wanted.free_bytes)} free; "
        f"licence {wanted.licence}"
    )
