from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from app.terminal import theming
from app.terminal.theming import SHIPPED, TONES


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FIRESIDE_CONFIG", str(tmp_path))
    (tmp_path / "themes").mkdir()
    file = tmp_path / "themes" / "mine.toml"
    file.write_text('name = "mine"\ntitle = "x"\ndark = maybe\n')
    return file


def test_the_list_shows_what_is_broken_and_goes_on(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["themes", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SHIPPED) + 1
    assert lines[0].split() == ["*", "hearth", "dark", "dark,", "warm,", "default"]
    assert f"{broken}, line 3: " in lines[-1]


def test_the_list_as_json(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["themes", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == [*SHIPPED, "mine"]
    assert [row["name"] for row in rows if row["current"]] == ["hearth"]
    assert [row["name"] for row in rows if row["problem"]] == ["mine"]
    assert all(Path(row["file"]).name == f"{row['name']}.toml" for row in rows)
    assert rows[-1]["file"] == str(broken)


def test_the_preview_of_all_leaves_broken_ones_out(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert broken.exists()
    assert main(["themes", "preview"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(f" {name}   " in out for name in SHIPPED)


@pytest.mark.parametrize(
    ("color", "expected"),
    [("truecolor", "38;2;240;186;39"), ("256", "38;5;178"), ("16", "\x1b[1;93m")],
)
def test_the_preview_keeps_to_the_depth(
    color: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["themes", "preview", "hearth", "--color", color]) == 0
    assert expected in capsys.readouterr().out


def test_the_preview_as_json_has_every_colour(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["themes", "preview", "--json", "paper", "terminal"]) == 0
    paper, terminal = json.loads(capsys.readouterr().out)
    assert set(paper["colors"]) == set(TONES)
    assert paper["colors"]["text"] == {"hex": "#3a2d23", "index": 236}
    assert terminal["colors"] is None
    assert terminal["ansi"]["dark"]["tool"] == 6


@pytest.mark.parametrize("arguments", [["heart"], ["hearth", "--color", "pink"], ["mine"]])
def test_what_cannot_be_shown_is_a_usage_error(
    broken: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert broken.exists()
    assert main(["themes", "preview", *arguments]) == 2
    assert capsys.readouterr().err.startswith("fireside: ")
    assert theming.DEFAULT in SHIPPED
