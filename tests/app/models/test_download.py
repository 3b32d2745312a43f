"""One flow wherever a model is fetched: agreed to once, shown by its newest figures, told where it fails."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from app.commands.models import fetch_model
from app.exits import Failure
from app.models.download import Progress, download, fetched, terms
from backend import downloads
from backend.downloads import DownloadError, RemoteFile, RepoFile


def wanted(folder: Path, *, missing: int = 2_330_000_000) -> RemoteFile:
    files = (RepoFile("m-00001-of-00002.gguf", 2 * 10**9), RepoFile("m-00002-of-00002.gguf", 33 * 10**7))
    return RemoteFile("ann/m", "main", "mit", "Q4_0", files, folder, missing, 10**12)


class Face:
    """What a download asks of a face."""

    def __init__(self, answer: str | None = "yes", *, gives_up: bool = False) -> None:
        self.answer, self.gives_up = answer, gives_up
        self.asked: list[tuple[str, str]] = []
        self.shares: list[float | None] = []
        self.said: list[str] = []

    @property
    def gave_up(self) -> bool:
        return self.gives_up

    async def choose(self, title: str, choices: Any) -> str | None:
        self.asked.append((title, choices[0].detail))
        return self.answer

    def show_download(self, share: float | None) -> None:
        self.shares.append(share)

    def say(self, text: str, *, error: bool = False) -> None:
        self.said.append(text)


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteFile:
    found = wanted(tmp_path)
    monkeypatch.setattr(downloads, "offer", lambda name: found)
    return found


def pulls(monkeypatch: pytest.MonkeyPatch, *reports: tuple[int, int]) -> None:
    def pull(wanted: RemoteFile, progress: Progress) -> Path:
        if not all(progress(*report) for report in reports):
            raise DownloadError("The download was stopped.", remedy="Start it again.")
        return wanted.model_path

    monkeypatch.setattr(downloads, "pull", pull)


def test_what_is_agreed_to_names_model_size_room_and_licence(tmp_path: Path) -> None:
    assert terms(wanted(tmp_path)) == (
        "ann/m Q4_0, 2 files, 2.2 GiB",
        "2.2 GiB to fetch, 931.3 GiB free; licence mit",
    )


async def test_a_face_agrees_once_sees_the_share_and_gets_the_file(
    offered: RemoteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls(monkeypatch, (1, 4), (4, 4))
    face: Any = Face()
    assert await fetch_model(face, " ann/m ") == str(offered.model_path)
    assert face.asked == [terms(offered)]
    assert face.shares[0] == 0.0 and face.shares[-2:] == [1.0, None]
    assert face.said == []


async def test_who_says_no_gets_no_download(offered: RemoteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "pull", lambda *_: pytest.fail("it was fetched"))
    face: Any = Face("no")
    assert await fetch_model(face, "ann/m") is None
    assert face.shares == [None] and face.said == []


async def test_what_is_here_already_is_not_asked_about(
    offered: RemoteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "offer", lambda name: wanted(tmp_path, missing=0))
    pulls(monkeypatch)
    face: Any = Face(None)
    assert await fetch_model(face, "ann/m") == str(offered.model_path)
    assert face.asked == []


async def test_one_that_is_stopped_is_told_with_how_it_goes_on(
    offered: RemoteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls(monkeypatch, (1, 4), (4, 4))
    face: Any = Face(gives_up=True)
    assert await fetch_model(face, "ann/m") is None
    assert face.said == ["The download was stopped. Fetch the model again to resume it."]
    assert face.shares[-1] is None


@pytest.mark.parametrize("at", ["offer", "pull"])
@pytest.mark.parametrize("error", [DownloadError("It failed.", remedy="Try again."), OSError("It failed.")])
async def test_a_network_that_fails_is_one_failure(
    at: str, error: Exception, offered: RemoteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(downloads, at, fail)

    async def agree(*_: str) -> bool:
        return True

    with pytest.raises(Failure) as told:
        await download("ann/m", agree, lambda *_: None, lambda: False)
    assert told.value.code == "hub" and told.value.message == "It failed."
    assert told.value.remedy == getattr(error, "remedy", "")


async def test_a_fast_download_shows_its_newest_figures_alone() -> None:
    shown: list[tuple[int, int]] = []

    def fetch(progress: Progress) -> Path:
        for done in range(10_001):
            assert progress(done, 10_000)
        return Path("m.gguf")

    assert await fetched(fetch, lambda *figures: shown.append(figures), lambda: False) == Path("m.gguf")
    assert shown[-1] == (10_000, 10_000)
    assert len(shown) < 5000


async def test_leaving_ends_the_thread_that_fetches() -> None:
    begun, ended = threading.Event(), threading.Event()

    def fetch(progress: Progress) -> Path:
        while progress(1, 2):
            begun.set()
        ended.set()
        raise OSError("stopped")

    task = asyncio.create_task(fetched(fetch, lambda *_: None, lambda: False))
    await asyncio.to_thread(begun.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 5)
