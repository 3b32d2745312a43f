from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from app import paths
from app.cli import trust_question
from app.cli.trust_question import ask_about_trust
from app.settings.project import read_project
from tools.trust import TrustBook, project_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings and instructions, which is the current one."""
    (tmp_path / ".fireside").mkdir()
    (tmp_path / ".fireside" / "config.toml").write_text('system = "Be brief."\n')
    (tmp_path / "AGENTS.md").write_text("Use tabs.\x1b[2J")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Person:
    """Whoever sits at the terminal: `read` is what they were shown since they last looked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capfd = monkeypatch, capfd
        monkeypatch.setattr(trust_question, "is_terminal", lambda stream: True)

    def will_type(self, *lines: str) -> None:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    def read(self) -> str:
        return self._capfd.readouterr().err


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Person:
    return Person(monkeypatch, capfd)


def test_a_yes_trusts_exactly_these_files(folder: Path, person: Person) -> None:
    person.will_type("s", "y")
    ask_about_trust()
    shown = person.read()
    assert ".fireside/config.toml (21 bytes), AGENTS.md (13 bytes)" in shown
    assert 'system = "Be brief."' in shown
    assert "\x1b" not in shown
    assert read_project().values["system"].value == "Be brief."
    ask_about_trust()
    assert person.read() == ""


@pytest.mark.parametrize("word", ["n", "", "sure"])
def test_anything_else_is_a_no_that_holds_until_something_changes(
    word: str, folder: Path, person: Person
) -> None:
    person.will_type(word)
    ask_about_trust()
    assert "They are not used." in person.read()
    assert dict(read_project().values) == {}
    ask_about_trust()
    assert person.read() == ""
    (folder / "AGENTS.md").write_text("Use spaces.")
    person.will_type("y")
    ask_about_trust()
    assert "Trust it" in person.read()
    assert "Use spaces." in read_project().instructions


def test_a_change_is_asked_about_again_with_its_difference(folder: Path, person: Person) -> None:
    TrustBook(paths.data_dir() / "trust.json").grant(folder, project_files(folder))
    (folder / ".fireside" / "config.toml").write_text('system = "Be evil."\n')
    person.will_type("show", "n")
    ask_about_trust()
    shown = person.read()
    assert "has changed since you trusted it" in shown
    assert '-system = "Be brief."' in shown
    assert '+system = "Be evil."' in shown
    assert dict(read_project().values) == {}


def test_where_nobody_is_nothing_is_asked(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ask_about_trust()
    assert capfd.readouterr() == ("", "")
    assert dict(read_project().values) == {}


def test_a_folder_that_brings_nothing_is_not_asked_about(
    tmp_path: Path, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ask_about_trust()
    (tmp_path / ".fireside").mkdir()
    ask_about_trust()
    assert person.read() == ""
