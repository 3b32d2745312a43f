from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.cli import main
from app.doctor import engine, surroundings
from app.doctor.check import Check
from app.settings.profiles import profiles_folder
from tests.backend.engines.scripted_server import ScriptedServer
from tools.sandbox.bubblewrap import Sandbox

Cap = pytest.CaptureFixture[str]
TOLD: dict[str, Any] = {
    "version": "0.3.36",
    "system_info": "CPU : AVX2 = 1 | FMA = 0 |",
    "gpu_offload": False,
    "devices": [
        {"name": "CPU", "description": "x", "kind": "cpu", "free_bytes": 10**9, "total_bytes": 2 * 10**9}
    ],
}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tiny_llama: Path) -> None:
    """A machine whose llama.cpp says TOLD, with a model, without a GPU."""
    monkeypatch.setattr(engine, "look", lambda: TOLD)
    monkeypatch.setattr(engine, "machine_gpus", dict)
    monkeypatch.setattr(engine, "processor_flags", frozenset)
    monkeypatch.setenv("FIRESIDE_MODEL", str(tiny_llama))


def report(capfd: Cap, code: int = 0) -> dict[str, dict[str, Any]]:
    assert main.main(["doctor", "--json"]) == code
    told = json.loads(capfd.readouterr().out)
    assert told["ok"] == (code == 0)
    return {check["name"]: check for check in told["checks"]}


@pytest.mark.timeout(60)
def test_the_installed_llama_cpp_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "machine_gpus", dict)
    found = list(engine.checks())
    assert [check.name for check in found[:3]] == ["llama.cpp", "processor", "device"]
    assert "llama-cpp-python 0.3." in found[0].text
    assert found[2].facts["total_bytes"] > 0
    assert all(check.state != "problem" for check in found)


def test_where_all_is_well_it_says_so(bare: None, capfd: Cap) -> None:
    assert main.main(["doctor"]) == 0
    out = capfd.readouterr().out
    for line in ("ok       Python: ", "ok       llama.cpp: ", "ok       model: tiny-llama", "note     GPU: "):
        assert f"\n{line}" in f"\n{out}"
    assert out.endswith("Everything that a chat needs is here.\n")
    names = set(report(capfd))
    assert {"settings", "models", "store", "terminal", "clipboard", "pictures", "sandbox", "memory"} <= names


def test_without_a_model_no_chat_begins(bare: None, monkeypatch: pytest.MonkeyPatch, capfd: Cap) -> None:
    monkeypatch.setenv("FIRESIDE_MODEL", "/nowhere/m.gguf")
    model = report(capfd, 1)["model"]
    assert model["state"] == "problem"
    assert "/nowhere/m.gguf" in model["text"]
    assert main.main(["doctor"]) == 1
    assert "problem  model: " in capfd.readouterr().out


@pytest.mark.parametrize("what", ["settings", "profile"])
def test_a_mistake_in_the_settings_is_found(what: str, bare: None, capfd: Cap) -> None:
    file = paths.config_file() if what == "settings" else profiles_folder() / "a.toml"
    file.parent.mkdir(parents=True)
    file.write_text("sistem = 'x'\n")
    settings = report(capfd)["settings"]
    assert settings["state"] == "warning"
    assert str(file) in settings["text"] and "did you mean 'system'" in settings["text"]
    assert main.main(["doctor"]) == 0
    told = capfd.readouterr()
    assert (told.out + told.err).count("did you mean 'system'") == 1
    file.write_text("system = 'x'\n")
    assert report(capfd)["settings"]["state"] == "ok"


@pytest.mark.parametrize("what", ["settings", "profile"])
def test_settings_that_cannot_be_read_are_a_problem(what: str, bare: None, capfd: Cap) -> None:
    file = paths.config_file() if what == "settings" else profiles_folder() / "a.toml"
    file.parent.mkdir(parents=True)
    file.write_text("system = [\n")
    settings = report(capfd, 1)["settings"]
    assert settings["state"] == "problem" and str(file) in settings["text"]


def test_a_damaged_store_is_found(bare: None, capfd: Cap) -> None:
    file = paths.make_private_dir(paths.data_dir()) / "chats.db"
    file.write_bytes(b"no database at all" * 100)
    store = report(capfd, 1)["store"]
    assert "is damaged" in store["text"]
    assert str(file) in store["remedy"]
    assert file.read_bytes().startswith(b"no database")


def test_a_store_that_cannot_be_written_costs_a_warning(
    bare: None, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    monkeypatch.setenv("FIRESIDE_DATA", "/proc/nowhere")
    assert report(capfd)["store"]["state"] == "warning"


@pytest.mark.parametrize(
    ("kind", "cuda", "lines"),
    [
        ("cuda", (12, 8), ["whl/cu125", "-DGGML_CUDA=on"]),
        ("cuda", (12, 3), ["whl/cu123", "-DGGML_CUDA=on"]),
        ("cuda", (13, 5), ["whl/cu132", "-DGGML_CUDA=on"]),
        ("cuda", (9, 0), ["-DGGML_CUDA=on"]),
        ("cuda", None, ["-DGGML_CUDA=on"]),
        ("metal", None, ["whl/metal", "-DGGML_METAL=on"]),
        ("rocm", None, ["whl/rocm72", "-DGGML_HIP=on"]),
        ("vulkan", None, ["whl/vulkan", "-DGGML_VULKAN=on"]),
    ],
)
def test_a_gpu_that_is_not_used_has_the_line_that_changes_it(
    kind: str, cuda: Any, lines: list[str], bare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "machine_gpus", lambda: {kind: cuda})
    monkeypatch.setattr(engine, "WHEEL_PYTHONS", (sys.version_info[:2],))
    [gpu] = [check for check in engine.checks() if check.name == "GPU"]
    assert gpu.state == "warning"
    commands = [line for line in gpu.remedy.splitlines() if "-m pip install" in line]
    assert len(commands) == len(lines)
    for command, part in zip(commands, lines, strict=True):
        assert part in command
        assert "--force-reinstall" in command
        # `--prefer-binary` would compile where there is no wheel, for minutes and without the GPU.
        assert ("--only-binary llama-cpp-python" in command) == ("/whl/" in command)
        assert "--prefer-binary" not in command


def test_a_build_with_gpu_support_needs_no_line(bare: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "look", lambda: {**TOLD, "gpu_offload": True})
    monkeypatch.setattr(engine, "machine_gpus", lambda: {"cuda": (12, 4)})
    assert [check.state for check in engine.checks() if check.name == "GPU"] == ["ok"]


def test_processor_features_that_the_build_leaves_out_are_named(
    bare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "processor_flags", lambda: frozenset(("avx2", "fma", "avx512f")))
    [processor] = [check for check in engine.checks() if check.name == "processor"]
    assert processor.facts["missed"] == ["FMA", "AVX512"]
    assert "-DGGML_NATIVE=on" in processor.remedy


@pytest.mark.parametrize(
    ("ended", "problem"),
    [
        (subprocess.CompletedProcess([], -signal.SIGILL, b"", b""), "newer processor"),
        (subprocess.CompletedProcess([], 1, b"", b"x\nImportError: no lib\n"), "ImportError: no lib"),
        (subprocess.TimeoutExpired([], 1), "took over"),
    ],
)
def test_a_llama_cpp_that_does_not_load_is_a_problem(
    ended: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any, **__: Any) -> Any:
        if isinstance(ended, Exception):
            raise ended
        return ended

    monkeypatch.setattr(engine.subprocess, "run", run)
    monkeypatch.setattr(engine, "machine_gpus", dict)
    [check, *_] = engine.checks()
    assert check.state == "problem"
    assert problem in check.text
    assert "-m pip install" in check.remedy


def test_a_look_that_fails_is_told_and_stops_nothing(
    bare: None, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    def fail() -> Check:
        raise RuntimeError("boom\x1b[2J")

    fail.__name__ = "sandbox"
    monkeypatch.setattr(surroundings, "sandbox", fail)
    assert main.main(["doctor"]) == 0
    out = capfd.readouterr().out
    assert "sandbox: could not be checked: boom" in out
    assert "\x1b" not in out
    assert "extras" in out


def test_every_check_can_be_told_to_a_program() -> None:
    for check in surroundings.checks():
        assert json.loads(json.dumps(check.as_dict()))["name"]


@pytest.mark.parametrize(
    ("found", "state", "told"),
    [
        (Sandbox("/usr/bin/bwrap"), "ok", "nothing escaped it"),
        (Sandbox("/usr/bin/bwrap", "what ran in it could see the home"), "warning", "could see the home"),
        (Sandbox(None, "bubblewrap is not installed"), "warning", "not installed"),
        (
            Sandbox(None, "bubblewrap is installed but does not work here: no"),
            "warning",
            "does not work here",
        ),
    ],
)
def test_the_doctor_tells_what_got_out_of_the_sandbox(
    monkeypatch: pytest.MonkeyPatch, found: Sandbox, state: str, told: str
) -> None:
    monkeypatch.setattr("tools.sandbox.escape.find_sandbox", lambda: found)
    monkeypatch.setattr(surroundings.sys, "platform", "linux")
    check = surroundings.sandbox()
    assert check.state == state
    assert told in check.text
    assert bool(check.remedy) == (state == "warning")
    assert check.facts["proven"] == (state == "ok")


def test_servers_of_the_settings_are_asked_and_the_chosen_one_is_the_model(
    bare: None, capfd: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FIRESIDE_MODEL")
    with ScriptedServer("toy", max_model_len=4096) as server:
        file = paths.config_file()
        paths.write_private(
            file,
            f'server = "lab"\n[servers.lab]\nurl = "{server.url}"\n[servers.gone]\nurl = "http://127.0.0.1:9"\n',
        )
        told = report(capfd)
    assert told["model"]["text"] == "toy on lab, 4096 tokens of context"
    assert (told["servers"]["state"], told["servers"]["text"]) == ("warning", "2 named, 1 models")
    assert "gone: The server gone cannot be reached: nothing answers there." in told["servers"]["remedy"]


def test_a_chosen_server_that_does_not_answer_is_a_problem(
    bare: None, capfd: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FIRESIDE_MODEL")
    paths.write_private(paths.config_file(), 'server = "http://127.0.0.1:9"\n')
    told = report(capfd, 1)
    assert told["model"]["state"] == "problem" and "nothing answers there" in told["model"]["text"]
