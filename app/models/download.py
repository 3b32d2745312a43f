"""How a model is fetched, everywhere: what it takes is shown, a person is asked once, the figures are told.

Where nobody can be asked it is fetched only with consent given beforehand (`--pull`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from app.characters import clip, quote
from app.exits import ExitCode, Failure
from app.settings.config import Settings, Value
from app.terminal.confirm import agreed
from app.terminal.figures import gib
from app.terminal.output import errors, is_terminal, notify, takes_styles

if TYPE_CHECKING:
    from backend.downloads import RemoteFile

_METER_PERIOD_S = 0.1


def source_of(settings: Settings) -> str | None:
    """The model to use: that of the server that the settings name, else as `file_of`."""
    return source_on(settings) or file_of(settings)


def source_on(settings: Settings) -> str | None:
    """The source of a model on a server, where the settings name one; SettingError where they name none that
    could be used."""
    named = settings.get("model", "")
    if "server" not in settings.values and ":" not in named:
        return None
    from app.settings.servers import source_of  # most chats need none

    return source_of(settings)


def file_of(settings: Settings) -> str | None:
    """The model of this machine to load, fetched first where that is wanted.

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
    if source is None or source == (named and named.value):
        return settings
    if named is None:  # a server is named instead
        named = settings.values["server"]
    return settings._replace(values={**settings.values, "model": Value(source, named.origin)})


# ---- the flow ------------------------------------------------------------------------------

Progress = Callable[[int, int], bool]
"""Called on another thread with bytes done and in all (0: not known yet); False ends the download."""
Fetch = Callable[[Progress], Path]


def terms(wanted: RemoteFile) -> tuple[str, str]:
    """What a person agrees to: which model, and what it takes."""
    parts = f", {len(wanted.files)} files" if len(wanted.files) > 1 else ""
    return (
        f"{wanted.repo} {wanted.quantization}{parts}, {gib(wanted.total_bytes)}",
        f"{gib(wanted.missing_bytes)} to fetch, {gib(wanted.free_bytes)} free; licence {wanted.licence}",
    )


def is_repository(name: str) -> bool:
    """Whether a text names a repository of the hub."""
    from backend.downloads import is_repo_name

    return is_repo_name(name.strip())


def fetch(name: str, *, consent: bool, projector: bool = True) -> Path:
    """Fetch a model of the hub after showing what it takes; the file to load.

    Asks at the terminal unless `consent` was given. Failure (hub, not_confirmed) where it is not had.
    """
    from backend import downloads

    try:
        wanted = downloads.offer(name, projector=projector)
        notify(": ".join(terms(wanted)))
        if wanted.missing_bytes and not consent and not agreed("Fetch it?"):
            raise Failure(
                "not_confirmed",
                "Nothing was fetched.",
                remedy=f"To agree beforehand: fireside models pull {name} --yes",
                exit_code=ExitCode.FAILED,
            )
        return downloads.pull(wanted, Meter())
    except downloads.DownloadError as err:
        raise _failed(err) from err


async def download(
    name: str,
    agree: Callable[[str, str], Awaitable[bool]],
    show: Callable[[int, int], None],
    stopped: Callable[[], bool],
) -> Path | None:
    """As `fetch`, in a chat: None where `agree`, given `terms`, does not, or where it is stopped.

    Raises Failure (hub).
    """
    import asyncio

    from backend import downloads

    try:
        wanted = await asyncio.to_thread(downloads.offer, name.strip())
    except Exception as err:
        raise _failed(err) from err
    if wanted.missing_bytes and not await agree(*terms(wanted)):
        return None
    return await fetched(lambda progress: downloads.pull(wanted, progress), show, stopped)


async def fetched(fetch: Fetch, show: Callable[[int, int], None], stopped: Callable[[], bool]) -> Path | None:
    """Run a download in a thread; None once `stopped`, which any thread may ask. Raises Failure (hub).

    `show` gets the newest figures alone, on the event loop: a fast disk reports faster than a screen is
    drawn. Being cancelled ends the download.
    """
    import asyncio
    import threading

    loop, left, waiting = asyncio.get_running_loop(), threading.Event(), threading.Event()
    newest = (0, 0)

    def arrived() -> None:
        waiting.clear()
        show(*newest)

    def progress(done: int, total: int) -> bool:
        nonlocal newest
        newest = done, total
        if left.is_set() or stopped():
            return False
        if not waiting.is_set():
            waiting.set()
            loop.call_soon_threadsafe(arrived)
        return True

    try:
        return await asyncio.to_thread(fetch, progress)
    except asyncio.CancelledError:
        left.set()
        raise
    except Exception as err:
        if stopped():
            return None
        raise _failed(err) from err


def _failed(err: Exception) -> Failure:
    """A network fails in many ways; each is told."""
    remedy = str(getattr(err, "remedy", ""))
    return Failure("hub", str(err) or type(err).__name__, remedy=remedy, exit_code=ExitCode.NO_MODEL)


class Meter:
    """One line of progress on a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self._out = errors()
        self._rewrites = takes_styles(self._out)
        self._shown = 0.0

    def __call__(self, done: int, total: int) -> bool:
        now = time.monotonic()
        is_due = now - self._shown > _METER_PERIOD_S or done >= total
        if self._out is not None and self._rewrites and is_due:
            self._shown = now
            percent = 100 * done // total if total else 100
            end = "\n" if done >= total else ""
            self._out.write(f"\r\x1b[K{percent} % of {gib(total)}{end}")
            self._out.flush()
        return True


# ---- a model named by its repository -------------------------------------------------------


def _of_repository(settings: Settings) -> Path | None:
    """The file of a model that is named by its repository; None for any other name."""
    from backend.models import resolve
    from backend.types import ModelLoadError

    name, consent = settings.values["model"].value, bool(settings.get("pull"))
    if not is_repository(name):
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
