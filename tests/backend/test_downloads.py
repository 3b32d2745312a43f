"""Pulling through the real huggingface_hub, from a hub-shaped server on loopback."""

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from backend import downloads
from backend.downloads import DownloadError

pytest.importorskip("huggingface_hub")
SHA = "a" * 40


@dataclass
class Repository:
    files: dict[str, bytes]
    licence: str = "apache-2.0"
    cut_after: int | None = None
    """Bytes after which the server drops the first connection."""
    hashes: dict[str, str] = field(default_factory=dict)
    ranges: list[str] = field(default_factory=list)


class Hub:
    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        hub_itself = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_HEAD(self) -> None:
                hub_itself.answer(self, body=False)

            def do_GET(self) -> None:
                hub_itself.answer(self, body=True)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        path = request.path.partition("?")[0]
        if path.startswith("/api/models/"):
            name = "/".join(path.split("/")[3:5])
            if name not in self.repositories:
                return self.send(request, 404, b"{}", {"X-Error-Code": "RepoNotFound"}, body=body)
            return self.send(request, 200, json.dumps(self.info(name)).encode(), {}, body=body)
        owner, repo, _, _, *rest = path.strip("/").split("/")
        repository = self.repositories[f"{owner}/{repo}"]
        content = repository.files["/".join(rest)]
        start, headers = 0, {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": SHA}
        status = 200
        if wanted := request.headers.get("Range"):
            repository.ranges.append(wanted)
            start = int(wanted.removeprefix("bytes=").split("-")[0])
            status = 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        cut = repository.cut_after if body else None
        if cut is not None:
            repository.cut_after = None
        self.send(request, status, content[start:], headers, body=body, cut=cut)

    def send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        content: bytes,
        headers: dict[str, str],
        *,
        body: bool,
        cut: int | None = None,
    ) -> None:
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            request.send_header(name, value)
        request.end_headers()
        if body:
            request.wfile.write(content if cut is None else content[:cut])
            if cut is not None:
                request.close_connection = True

    def info(self, name: str) -> dict[str, Any]:
        repository = self.repositories[name]
        siblings = [
            {
                "rfilename": file,
                "size": len(content),
                "lfs": {
                    "sha256": repository.hashes.get(file, hashlib.sha256(content).hexdigest()),
                    "size": len(content),
                    "pointerSize": 130,
                },
            }
            for file, content in repository.files.items()
        ]
        return {"id": name, "sha": SHA, "tags": [f"license:{repository.licence}"], "siblings": siblings}

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server() -> Iterator[Hub]:
    running = Hub()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path / "data" / "models"


MODEL = bytes(range(256)) * 400


def test_the_asked_for_quantization_is_fetched_and_checked(server: Hub, own_data: Path) -> None:
    server.repositories["ann/tiny-GGUF"] = Repository(
        {"tiny-Q8_0.gguf": MODEL, "tiny-Q4_K_M.gguf": MODEL[:999]}
    )
    wanted = downloads.offer("ann/tiny-GGUF:q8_0", endpoint=server.url)
    assert (wanted.quantization, wanted.licence, wanted.total_bytes) == ("Q8_0", "apache-2.0", len(MODEL))
    seen: list[tuple[int, int]] = []
    path = downloads.pull(wanted, lambda done, total: seen.append((done, total)) or True, endpoint=server.url)
    assert path == own_data / "ann/tiny-GGUF/tiny-Q8_0.gguf"
    assert path.read_bytes() == MODEL
    assert seen[-1] == (len(MODEL), len(MODEL))
    assert seen == sorted(seen)
    assert list(downloads.verify(path)) == [(path, True)]
    assert downloads.offer("ann/tiny-GGUF:Q8_0", endpoint=server.url).missing_bytes == 0


def test_a_sensible_quantization_is_the_default(server: Hub) -> None:
    files = {f"m-{name}.gguf": MODEL for name in ("F32", "Q8_0", "Q4_K_M", "Q2_K")}
    server.repositories["ann/m"] = Repository(files)
    assert downloads.offer("ann/m", endpoint=server.url).quantization == "Q4_K_M"


def test_all_parts_and_the_projector_come(server: Hub) -> None:
    files = {f"big-Q4_0-0000{part}-of-00003.gguf": MODEL[part:] for part in (1, 2, 3)}
    server.repositories["ann/big"] = Repository({**files, "mmproj-f16.gguf": MODEL[:50], "README.md": b"hi"})
    wanted = downloads.offer("ann/big", endpoint=server.url)
    path = downloads.pull(wanted, endpoint=server.url)
    assert path.name == "big-Q4_0-00001-of-00003.gguf"
    assert sorted(file.name for file in path.parent.glob("*.gguf")) == sorted([*files, "mmproj-f16.gguf"])
    assert all(good for _, good in downloads.verify(path))
    assert len(downloads.remove(path)) == 3


def test_a_missing_part_is_said_before_anything_is_fetched(server: Hub) -> None:
    server.repositories["ann/big"] = Repository({"big-Q4_0-00001-of-00002.gguf": MODEL})
    with pytest.raises(DownloadError, match="1 of 2"):
        downloads.offer("ann/big", endpoint=server.url)


def test_a_broken_download_is_resumed(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1 << 16)
    repository = server.repositories["ann/m"] = Repository({"m-Q8_0.gguf": MODEL * 30}, cut_after=1_000_000)
    wanted = downloads.offer("ann/m", endpoint=server.url)
    try:
        path = downloads.pull(wanted, endpoint=server.url)
    except DownloadError as err:
        assert "where it stopped" in err.remedy
        path = downloads.pull(wanted, endpoint=server.url)
    assert path.read_bytes() == MODEL * 30
    assert any(not wanted.startswith("bytes=0") for wanted in repository.ranges)


def test_stopping_keeps_what_came(server: Hub) -> None:
    server.repositories["ann/m"] = Repository({"m-Q8_0.gguf": MODEL * 100})
    wanted = downloads.offer("ann/m", endpoint=server.url)
    with pytest.raises(DownloadError, match="was stopped"):
        downloads.pull(wanted, lambda done, total: False, endpoint=server.url)
    assert not wanted.model_path.exists()
    assert downloads.pull(wanted, endpoint=server.url).read_bytes() == MODEL * 100


def test_a_damaged_file_is_deleted_and_said(server: Hub) -> None:
    server.repositories["ann/m"] = Repository({"m-Q8_0.gguf": MODEL}, hashes={"m-Q8_0.gguf": "0" * 64})
    wanted = downloads.offer("ann/m", endpoint=server.url)
    with pytest.raises(DownloadError, match="damaged"):
        downloads.pull(wanted, endpoint=server.url)
    assert not wanted.model_path.exists()


def test_a_file_that_changed_later_fails_its_check(server: Hub) -> None:
    server.repositories["ann/m"] = Repository({"m-Q8_0.gguf": MODEL})
    path = downloads.pull(downloads.offer("ann/m", endpoint=server.url), endpoint=server.url)
    path.write_bytes(MODEL[:-1] + b"x")
    assert list(downloads.verify(path)) == [(path, False)]


def test_a_full_disk_is_said_before_anything_is_fetched(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.repositories["ann/m"] = Repository({"m-Q8_0.gguf": MODEL})
    monkeypatch.setattr(downloads, "_free", lambda folder: 1000)
    wanted = downloads.offer("ann/m", endpoint=server.url)
    with pytest.raises(DownloadError, match="free"):
        downloads.pull(wanted, endpoint=server.url)
    assert not wanted.folder.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ann/nothing", "no repository"),
        ("ann/m:Q9_9", "no quantization"),
        ("no repo", "not the name"),
        ("ann/text", "no GGUF"),
    ],
)
def test_what_is_not_there_is_said(server: Hub, name: str, message: str) -> None:
    server.repositories["ann/m"] = Repository({"m-Q8_0.gguf": MODEL})
    server.repositories["ann/text"] = Repository({"README.md": b"hi"})
    with pytest.raises(DownloadError, match=message) as raised:
        downloads.offer(name, endpoint=server.url)
    assert raised.value.remedy


def test_an_unreachable_hub_is_said() -> None:
    with pytest.raises(DownloadError, match="failed"):
        downloads.offer("ann/m", endpoint="http://127.0.0.1:9")


def test_only_own_models_are_deleted(tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(MODEL)
    with pytest.raises(DownloadError, match="own model folder"):
        downloads.remove(other)
    assert other.exists()


@pytest.mark.parametrize(
    ("name", "is_one"),
    [("ann/m", True), ("ann/m:Q4_0", True), ("hf.co/ann/m", True), ("m", False), ("./ann/m.gguf", False),
     ("ann/m/file.gguf", False), ("ann/m.gguf", False)],
)  # fmt: skip
def test_names_of_repositories(name: str, is_one: bool) -> None:
    assert downloads.is_repo_name(name) is is_one


def test_a_model_in_a_subfolder_is_known_and_verified(server: Hub) -> None:
    server.repositories["ann/m"] = Repository({"Q8_0/m-Q8_0.gguf": MODEL})
    path = downloads.pull(downloads.offer("ann/m", endpoint=server.url), endpoint=server.url)
    assert path.parts[-2:] == ("Q8_0", "m-Q8_0.gguf")
    assert list(downloads.verify(path)) == [(path, True)]
    assert downloads.offer("ann/m", endpoint=server.url).missing_bytes == 0


@pytest.mark.parametrize("name", ["../evil-Q8_0.gguf", "/etc/evil-Q8_0.gguf", "a/../../evil-Q8_0.gguf"])
def test_a_file_outside_the_repository_is_refused(server: Hub, name: str) -> None:
    server.repositories["ann/m"] = Repository({name: MODEL})
    with pytest.raises(DownloadError, match="outside itself"):
        downloads.offer("ann/m", endpoint=server.url)
