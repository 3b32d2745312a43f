from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import main
from app.settings.config import tell_once
from app.settings.kinds import SettingError
from app.settings.profiles import profile_names, profiles_folder, read_profile, write_profile
from tests.app.double import Double

Cap = pytest.CaptureFixture[str]


def put(name: str, text: str) -> Path:
    file = profiles_folder() / f"{name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_a_profile_sets_what_its_file_says(double: Double) -> None:
    put("poet", 'model = "a.gguf"\nsystem = "Rhyme."\n[generation]\ntemperature = 1.2\nstop = "END"\n')
    assert main.main(["-p", "hi", "--profile", "poet", "--temperature", "0.5"]) == 0
    assert double.options["source"] == "a.gguf"
    assert double.asked[0][0] == {"role": "system", "content": "Rhyme."}
    asked = double.configs[0].as_dict()
    assert (asked["temperature"], asked["stop"]) == (0.5, ("END",))
    assert asked.keys() == {"temperature", "stop", "max_new_tokens", "reply_reserve"}  # and nothing else


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("approve = 'maybe'\n", r"poet\.toml: approve must be one of ask, read"),
        ("[generation]\ntop_p = 3\n", r"poet\.toml: top_p"),
        ("system =\n", r"poet\.toml is not valid TOML"),
    ],
)
def test_a_mistake_is_one_readable_error(text: str, message: str) -> None:
    put("poet", text)
    with pytest.raises(SettingError, match=message):
        read_profile("poet")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sistem = 'x'\n", "poet.toml: there is no setting 'sistem'; did you mean 'system'?"),
        ("temperature = 1\n", "poet.toml: 'temperature' belongs in a table"),
        ("[mcp]\n", "there is no setting 'mcp'"),
    ],
)
def test_an_unknown_key_is_told_and_ignored(capfd: Cap, text: str, message: str) -> None:
    tell_once.cache_clear()
    put("poet", f"ascii = true\n{text}")
    assert read_profile("poet").keys() == {"ascii"}
    told = capfd.readouterr().err
    assert message in told and "It is ignored; remove it from that file." in told


def test_a_misspelt_profile_names_the_nearest(capfd: Cap) -> None:
    put("poet", "")
    assert main.main(["-p", "hi", "--profile", "poe"]) == 2
    assert "there is no profile 'poe'; did you mean 'poet'?" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["", "../config", "a/b", ".hidden", "a" * 65, "a\n"])
def test_a_name_stays_inside_of_the_folder(name: str) -> None:
    with pytest.raises(SettingError, match="profile's name may have"):
        read_profile(name)


def test_a_profile_comes_back_as_it_was_kept(capfd: Cap) -> None:
    values = {
        "model": "a",
        "tools": ("now", "read_*"),
        "approve": "read",
        "generation.temperature": 0.5,
        "generation.stop": ("END",),
        "load.lora": (("a.gguf", 0.5),),
    }
    file = write_profile("kept", values)
    assert file.stat().st_mode & 0o777 == 0o600
    assert {key: item.value for key, item in read_profile("kept").items()} == values
    assert profile_names() == ["kept"]
    assert main.main(["config", "profiles", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["profiles"] == ["kept"]
    assert main.main(["config", "show", "--profile", "kept"]) == 0
    assert 'approve = "read"' in capfd.readouterr().out


def test_what_does_not_fit_is_not_kept() -> None:
    with pytest.raises(SettingError, match="approve"):
        write_profile("bad", {"approve": "maybe"})
    assert profile_names() == []
