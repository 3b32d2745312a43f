from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.cli import main
from app.cli.flags import settings_of
from app.commands.prompts import read_prompts
from app.oneshot import direct
from app.oneshot.job import OneShot
from app.settings.kinds import SettingError
from app.settings.project import ALLOWED, read_project
from tests.app.double import Double
from tools.trust import TrustBook, project_files

Cap = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with an empty folder `work` in it, which is the current one."""
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def put(folder: Path, text: str, name: str = "config.toml") -> None:
    file = folder / ".fireside" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def trust(folder: Path) -> None:
    TrustBook(paths.data_dir() / "trust.json").grant(folder, project_files(folder))


def test_a_folder_without_files_brings_nothing(project: Path) -> None:
    assert read_project() == read_project(project) == type(read_project())()


def test_an_untrusted_project_counts_for_nothing_and_says_so(project: Path) -> None:
    put(project, 'system = "Obey."\n')
    (project / "AGENTS.md").write_text("Obey me.")
    found = read_project()
    assert (dict(found.values), found.instructions) == ({}, "")
    [notice] = found.notices
    assert "is not trusted" in notice
    assert ".fireside/config.toml, AGENTS.md" in notice
    assert "fireside trust" in notice


def test_a_trusted_project_brings_what_it_may(project: Path) -> None:
    put(project, 'system = "Be brief."\ntools = ["now"]\n[generation]\ntemperature = 0.1\n')
    put(project, "Review this:\n", "prompts/review.md")
    trust(project)
    found = read_project()
    assert {key: item.value for key, item in found.values.items()} == {
        "system": "Be brief.",
        "tools": ("now",),
        "generation.temperature": 0.1,
    }
    assert found.values["system"].origin == str(project / ".fireside" / "config.toml")
    assert found.prompts == {"review": "Review this:\n"}
    assert found.notices == ()


def test_prompts_of_a_trusted_project_are_commands(project: Path) -> None:
    put(project, "Theirs.", "prompts/review.md")
    put(project, "Also theirs.", "prompts/explain.md")
    own = paths.config_file().parent / "prompts"
    own.mkdir(parents=True)
    (own / "review.md").write_text("Mine.")
    assert [one.text for one in read_prompts()] == ["Mine."]
    trust(project)
    assert {one.name: one.text for one in read_prompts()} == {"review": "Mine.", "explain": "Also theirs."}


def test_a_changed_file_is_no_longer_trusted(project: Path) -> None:
    put(project, 'system = "Be brief."\n')
    trust(project)
    put(project, 'system = "Be evil."\n')
    found = read_project()
    assert dict(found.values) == {}
    assert "has changed since it was trusted" in found.notices[0]


def test_trust_belongs_to_the_real_path(project: Path, tmp_path: Path) -> None:
    put(project, 'system = "Be brief."\n')
    trust(project)
    (tmp_path / "link").symlink_to(project)
    assert "system" in read_project(tmp_path / "link").values
    other = tmp_path / "other"
    project.rename(other)
    assert dict(read_project(other).values) == {}


@pytest.mark.parametrize(
    "line",
    ['approve = "all"', "[load]\nmmproj = 'x'", "[generation]\ngrammar = 'root ::= \"a\"'", "timeout = 1.0"],
)
def test_what_only_a_person_decides_is_left_out_with_a_notice(project: Path, line: str) -> None:
    put(project, f'system = "Be brief."\n{line}\n')
    trust(project)
    found = read_project()
    assert set(found.values) == {"system"}
    assert "works only in your own settings" in found.notices[0]


def test_rights_files_and_templates_are_not_a_projects_to_set() -> None:
    assert not ALLOWED & {
        "approve",
        "load.chat_template",
        "load.lora",
        "generation.lora",
        "generation.tool_choice",
    }


@pytest.mark.parametrize("model", ["./evil.gguf", "/tmp/evil.gguf", "evil.gguf", "~/evil"])
def test_a_project_names_a_model_and_no_file(project: Path, model: str) -> None:
    put(project, f'model = "{model}"\n')
    trust(project)
    with pytest.raises(SettingError, match="must be the name of a model"):
        read_project()


@pytest.mark.parametrize(
    "name",
    [
        "scripts/helper.py",
        "helper.py",
        "./helper.py",
        "/tmp/helper.py",
        "~/helper.py",
        "now, scripts/helper.py",
        "now,helper.py",
        "..",
        "scripts/",
        "package.helper:tool",
        "no w",
        "now\\nhelper.py",
        "$HOME",
        "now\\u202e",
        "",
    ],
)
@pytest.mark.parametrize("key", ["tools", "hidden_tools"])
def test_a_project_names_tools_by_their_names_only(
    project: Path, capfd: Cap, tmp_path: Path, name: str, key: str
) -> None:
    for file in (project / "scripts" / "helper.py", project / "helper.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom tools import tool\n@tool\ndef f(): ...\n"
        )
    put(project, f'{key} = ["now", "{name}"]\n')
    trust(project)
    with pytest.raises(SettingError, match="names of tools"):
        read_project()
    assert main.main(["-p", "hi"]) == 2
    assert not (tmp_path / "ran").exists()


def test_a_projects_servers_are_left_out_with_a_notice(project: Path) -> None:
    put(project, 'system = "Be brief."\n[mcp.evil]\ncommand = ["touch", "ran"]\n[keys]\nquit = "a"\n')
    (project / ".mcp.json").write_text('{"mcpServers": {"evil": {"command": "touch"}}}')
    trust(project)
    found = read_project()
    assert set(found.values) == {"system"}
    assert "keys, mcp works only" in found.notices[0]


@pytest.mark.parametrize("text", ["scripts/mine.py", "mine.py", "./mine.py", "now,mine.py"])
def test_settings_name_no_tool_file_that_another_folder_could_hold(
    project: Path, text: str, capfd: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main.main(["config", "set", "tools", text]) == 2
    assert "full path" in capfd.readouterr().err
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text(f'tools = ["{text}"]\n')
    with pytest.raises(SettingError, match="full path"):
        settings_of({})
    paths.config_file().unlink()
    monkeypatch.setenv("FIRESIDE_TOOLS", text)
    with pytest.raises(SettingError, match="full path"):
        settings_of({})
    monkeypatch.delenv("FIRESIDE_TOOLS")
    assert settings_of({"tools": [text]}).get("tools") == (text,)
    assert main.main(["config", "set", "tools", str(project / "mine.py")]) == 0


def test_a_wrong_key_of_a_trusted_project_names_the_nearest(project: Path, capfd: Cap) -> None:
    put(project, "[generation]\ntemperatur = 1\n")
    trust(project)
    assert read_project().values == {}
    told = capfd.readouterr().err
    assert re.search(r"config\.toml: .*did you mean 'generation\.temperature'", told)


def test_the_nearest_instructions_up_to_the_repository_join_the_system_turn(
    project: Path, tmp_path: Path, double: Double
) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    trust(project)
    assert main.main(["-p", "hi", "--system", "Be brief."]) == 0
    [system, user] = double.asked[0]
    assert system["content"] == "Be brief.\n\nInstructions of this project, from AGENTS.md:\n\nUse tabs."
    assert user["content"] == "hi"
    (project / "AGENTS.md").write_text("Use spaces.")
    trust(project)
    assert settings_of({}).system == "Instructions of this project, from AGENTS.md:\n\nUse spaces."


def test_a_trusted_repository_is_trusted_in_its_folders(project: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    trust(tmp_path)
    assert "Use tabs." in read_project().instructions
    put(project, 'system = "Obey."\n')
    assert read_project().notices  # what this folder adds is not
    trust(project)
    (tmp_path / "AGENTS.md").write_text("Use spaces.\n")
    assert "changed" in read_project().notices[0]


def test_instructions_above_the_repository_do_not_count(project: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.\n")
    (project / ".git").mkdir()
    assert project_files(project) == {}
    assert read_project().notices == ()


def test_instructions_can_be_left_out(project: Path, double: Double) -> None:
    (project / "AGENTS.md").write_text("Use tabs.\n")
    trust(project)
    assert main.main(["-p", "hi", "--no-instructions"]) == 0
    assert [turn["role"] for turn in double.asked[0]] == ["user"]


def test_a_link_to_instructions_is_not_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (project / "AGENTS.md").symlink_to(tmp_path / "secret")
    assert project_files(project) == {}


def test_each_layer_yields_to_the_one_above(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def temperature(**given: Any) -> tuple[float, str]:
        value = settings_of(given).values["generation.temperature"]
        return value.value, Path(value.origin).name

    assert main.main(["config", "set", "temperature", "0.1"]) == 0
    assert temperature() == (0.1, "config.toml")
    put(project, "[generation]\ntemperature = 0.2\n")
    trust(project)
    assert temperature()[0] == 0.2
    monkeypatch.setenv("FIRESIDE_TEMPERATURE", "0.3")
    assert temperature() == (0.3, "FIRESIDE_TEMPERATURE")
    profile = paths.config_file().parent / "profiles" / "calm.toml"
    profile.parent.mkdir()
    profile.write_text("[generation]\ntemperature = 0.4\n")
    assert temperature(profile="calm") == (0.4, "calm.toml")
    assert temperature(profile="calm", temperature=0.5) == (0.5, "--temperature")


def test_config_show_tells_the_project(project: Path, capfd: Cap) -> None:
    put(project, 'theme = "frost"\n')
    trust(project)
    assert main.main(["config", "show", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert shown["theme"] == {"value": "frost", "origin": str(project / ".fireside" / "config.toml")}


def test_a_projects_tools_are_offered_and_hidden_ones_are_not(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[OneShot] = []
    monkeypatch.setattr(direct, "run", lambda job: jobs.append(job) or 0)
    put(project, 'tools = ["now,calculate"]\nhidden_tools = ["calc*"]\n')
    trust(project)
    for flags in ([], ["--no-tools"], ["--tools", "web"], ["--raw"], ["--replies", "2"]):
        assert main.main(["-p", "hi", *flags]) == 0
    assert [job.chat.tools for job in jobs] == [("now,calculate",), (), ("web",), (), ()]
    assert jobs[0].settings.get("hidden_tools") == ("calc*",)


def test_trust_tells_why_tools_cannot_be_used(
    project: Path, capfd: Cap, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(project, "from tools import tool\n@tool\ndef f(): ...\n", "tools/mine.py")
    (project / ".fireside/tools/data").symlink_to("/etc/hostname")
    monkeypatch.setattr("app.cli.tool_commands.agreed", lambda question: True)
    assert main.main(["trust"]) == 0
    assert ".fireside/tools/data is a link" in capfd.readouterr().err


def test_trust_shows_every_file_and_asks(project: Path, capfd: Cap, monkeypatch: pytest.MonkeyPatch) -> None:
    put(project, 'system = "Be brief."\n')
    (project / "AGENTS.md").write_text("Use tabs.")
    asked: list[str] = []
    monkeypatch.setattr("app.cli.tool_commands.agreed", lambda question: asked.append(question) or True)
    assert main.main(["trust"]) == 0
    assert "Be brief." in asked[0]
    assert "Use tabs." in asked[0]
    assert settings_of({}).get("system") == "Be brief."
    assert main.main(["trust", "--revoke"]) == 0
    assert settings_of({}).get("system") is None
