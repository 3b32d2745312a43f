from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli import main
from app.cli.flags import settings_of
from app.settings.config import resolve
from app.settings.kinds import SettingError
from app.settings.text_or_file import LIMIT_BYTES, grammar_text, schema_text, template_text

Reader = Callable[[str], str]
READERS: list[Reader] = [schema_text, grammar_text, template_text]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (schema_text, ' {"type": "object"}'),
        (schema_text, "[]"),
        (schema_text, "false"),
        (schema_text, "5"),
        (grammar_text, 'root ::= "yes"'),
        (template_text, "{{ messages }}"),
    ],
)
def test_the_text_itself_is_taken(read: Reader, text: str) -> None:
    assert read(text) == text


@pytest.mark.parametrize("read", READERS)
def test_a_file_is_read_without_its_byte_order_mark(read: Reader, tmp_path: Path) -> None:
    file = tmp_path / "5"
    file.write_text("\ufeffwhat it holds", encoding="utf-8")
    assert read(str(file)) == "what it holds"


def test_a_file_whose_name_is_json_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "5").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert schema_text("5") == "{}"


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("/no/such/file", "'/no/such/file' cannot be read: No such file"),
        ("/dev/zero", "neither a file nor a pipe"),
        ("no\0name", "cannot be read"),
    ],
)
def test_what_cannot_be_read_names_the_flag(read: Reader, value: str, message: str) -> None:
    with pytest.raises(SettingError, match=f"^--[a-z-]+.*{message}"):
        read(value)


@pytest.mark.parametrize("read", READERS)
def test_a_file_beyond_the_limit_is_refused(read: Reader, tmp_path: Path) -> None:
    file = tmp_path / "huge"
    file.write_bytes(b"x" * (LIMIT_BYTES + 1))
    with pytest.raises(SettingError, match="larger than 1 MiB"):
        read(str(file))


@given(st.sampled_from(READERS), st.text())
def test_any_value_is_a_text_or_a_setting_error(read: Reader, value: str) -> None:
    try:
        assert isinstance(read(f"/nonexistent/{value}"), str)
    except SettingError as err:
        assert len(str(err)) < 400


def test_flags_take_the_text_itself() -> None:
    assert settings_of({"grammar": 'root ::= "yes"'}).get("generation.grammar") == 'root ::= "yes"'
    assert settings_of({"chat_template": "{{ x }}"}).get("load.chat_template") == "{{ x }}"


@pytest.mark.parametrize(
    ("given_flag", "message"),
    [
        ({"schema": "false"}, "--schema .* must be a JSON schema: an object, not False"),
        ({"schema": "[]"}, "--schema .* must be a JSON schema: an object"),
        ({"schema": ""}, "--schema is empty"),
        ({"chat_template": ""}, "--chat-template is empty"),
        ({"grammar": "/dev/zero"}, "--grammar: '/dev/zero' cannot be read"),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(given_flag: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        settings_of(given_flag)


def test_a_long_assignment_is_not_echoed_whole() -> None:
    with pytest.raises(SettingError) as caught:
        settings_of({"set": ["x" * 100_000]})
    assert len(str(caught.value)) < 300


def test_every_way_of_a_template_takes_a_file_or_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("{{ messages }}")
    monkeypatch.chdir(tmp_path)
    ways = (
        lambda value: settings_of({"set": [f"chat_template={value}"]}),
        lambda value: settings_of({"chat_template": value}),
        lambda value: resolve({}, environ={"FIRESIDE_CHAT_TEMPLATE": value}),
    )
    for way in ways:
        for value in ("mine.jinja", str(file), "{{ messages }}"):
            assert way(value).load_options() == {"chat_template": "{{ messages }}"}
    assert ways[0]("mine.jinja").template_notice == f"The chat template is the file {file}."
    assert ways[0]("{{ x }}").template_notice == "The chat template is the text given."
    assert ways[2]("mine.jinja").template_notice == ""


def test_a_template_in_the_settings_file_is_kept_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.jinja"
    file.write_text("{{ messages }}")
    monkeypatch.chdir(tmp_path)
    assert main.main(["config", "set", "chat_template", "mine.jinja"]) == 0
    assert f"to the file {file}" in capfd.readouterr().out
    monkeypatch.chdir("/")
    assert settings_of({}).load_options() == {"chat_template": "{{ messages }}"}
    assert main.main(["config", "set", "chat_template", "{{ x }}"]) == 0
    assert "to the text given" in capfd.readouterr().out


@pytest.mark.parametrize("way", [{"set": ["chat_template=none.jinja"]}, {"chat_template": "none.jinja"}])
def test_a_template_file_that_is_not_there_is_refused_by_every_flag(way: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"'none\.jinja' cannot be read: No such file"):
        settings_of(way)
