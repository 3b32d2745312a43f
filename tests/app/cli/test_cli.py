from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import backend
from app import __version__
from app.cli import main as cli
from app.frontend.start import Start


def test_version_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capfd.readouterr().out == f"fireside {__version__}\n"


GROUPS = ["models", "sessions", "tools", "themes"]


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["repl"],
        ["bench"],
        ["models"],
        ["models", "list"],
        ["config", "set"],
        ["sessions"],
        ["sessions", "rm"],
        ["tools"],
        ["tools", "run"],
    ],
)
def test_every_command_has_help(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command, "--help"]) == 0
    out = capfd.readouterr().out
    assert out.startswith(f"Usage: {' '.join(['fireside', *command])}")
    assert "\x1b" not in out


@pytest.mark.parametrize(("group", "listing"), [("config", "show"), *zip(GROUPS, ["list"] * 4, strict=True)])
def test_a_group_alone_lists(group: str, listing: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main([group]) == 0
    alone = capfd.readouterr()
    assert alone.err == ""
    assert cli.main([group, listing]) == 0
    assert alone.out == capfd.readouterr().out != ""
    assert cli.main([group, "--help"]) == 0
    assert f"fireside {group} [OPTIONS] [COMMAND] [ARGS]..." in capfd.readouterr().out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (["run", "qwen3-4b"], "There is no command 'run'. To chat with a model: fireside -m qwen3-4b."),
        (["chat"], "There is no command 'chat'. To chat with a model: fireside -m NAME."),
        (["qwen3-4b"], "There is no command 'qwen3-4b'. To chat with a model: fireside -m qwen3-4b."),
        (["two words"], "To chat with a model: fireside -m 'two words'."),
        (["why\nnot"], "There is no command 'why\\nnot'."),
        (["modls"], "Did you mean 'models'"),
        (["models", "fetch"], "No such command 'fetch'. `fireside models --help`"),
    ],
)
def test_an_unknown_command_says_how_to_chat(
    line: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(line) == 2
    assert told in capfd.readouterr().err


def test_the_usage_line_says_that_a_command_is_optional(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    assert "Usage: fireside [OPTIONS] [COMMAND] [ARGS]..." in capfd.readouterr().out


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("temperature", "hot", "generation.temperature must be a number, not 'hot'."),
        ("temperature", "-1", "temperature must be"),
        ("approve", "everything", "approve must be one of ask, read, all, none, plan, not 'everything'."),
        ("slots", "0", "load.slots must be a whole number of at least 1, not 0."),
        ("tools", "mine.py", "in settings, a tool file is named by its full path, not 'mine.py'."),
    ],
)
def test_a_value_that_cannot_be_set_is_named_as_it_was_typed(
    key: str, value: str, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["config", "set", "--", key, value]) == 2
    assert capfd.readouterr().err.startswith(f"fireside: {told}")


def test_a_theme_that_is_not_there_is_not_set(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "set", "theme", "nope"]) == 2
    err = capfd.readouterr().err
    assert "There is no theme 'nope'" in err and "hearth" in err
    assert cli.main(["config", "set", "theme", "moss"]) == 0


def test_a_mistyped_command_names_the_help_of_its_group(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "lits"]) == 2
    err = capfd.readouterr().err
    assert "Did you mean 'list'? `fireside models --help`" in err


def test_bench_passes_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, ...]] = []

    def main(*arguments: object) -> int:
        seen.append(arguments)
        return 3

    monkeypatch.setattr(backend, "bench", SimpleNamespace(main=main), raising=False)
    flags = [
        "--quick",
        "--json",
        "-m",
        "a.gguf",
        "--only",
        "decode,prefill",
        "--only",
        "load",
        "--pairs",
        "4",
    ]
    assert cli.main(["bench", *flags]) == 3
    assert seen == [("a.gguf", True, True, ("decode", "prefill", "load"), 4)]


def test_bench_measures_the_engine_only(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "transcript"]) == 2
    assert "transcript" in capfd.readouterr().err


def test_settings_are_shown_with_their_origin(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("FIRESIDE_CONFIG", str(tmp_path))
    monkeypatch.setenv("FIRESIDE_TOP_K", "3")
    assert cli.main(["config", "set", "system", "Be\x1b brief."]) == 0
    assert cli.main(["config", "path"]) == 0
    assert cli.main(["config", "show"]) == 0
    out = capfd.readouterr().out
    assert f'system = "Be\\u001b brief."    # {tmp_path / "config.toml"}' in out
    assert "generation.top_k = 3    # FIRESIDE_TOP_K" in out
    assert cli.main(["config", "show", "--json", "--all"]) == 0
    values = json.loads(capfd.readouterr().out)
    assert values["generation.top_k"] == {"value": 3, "origin": "FIRESIDE_TOP_K"}
    assert values["generation.seed"] == {"value": None, "origin": "default"}


def test_without_settings_it_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "show"]) == 0
    assert "every default applies" in capfd.readouterr().out


def test_flags_before_a_command_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def run(start: Start, *, plain: bool) -> int:
        seen.append((start.settings.get("model"), start.settings.get("generation.seed"), plain))
        return 0

    monkeypatch.setattr("app.repl.run", run)
    assert cli.main(["-m", "a.gguf", "--seed", "1", "repl", "--seed", "2", "--plain"]) == 0
    assert seen == [("a.gguf", 2, True)]


def test_a_setting_can_be_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "set", "temperature", "0.3"]) == 0
    assert cli.main(["config", "unset", "temperature"]) == 0
    capsys.readouterr()
    assert cli.main(["config", "show", "--json"]) == 0
    assert "generation.temperature" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("face", ["repl", "tui"])
def test_flags_of_a_chat_before_a_face_reach_it(face: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Start] = []
    monkeypatch.setattr("app.repl.run", lambda start, plain: seen.append(start) or 0)
    monkeypatch.setattr("app.tui.run.run", lambda start: seen.append(start) or 0)
    code = cli.main(["--private", "--approve", "read", face])
    if face == "tui" and code == 2:  # no terminal here
        return
    assert code == 0
    assert (seen[0].private, seen[0].approve) == (True, "read")
