from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from app import paths


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_variables_move_each_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRESIDE_CONFIG", str(tmp_path / "c"))
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "d"))
    monkeypatch.setenv("FIRESIDE_STATE", str(tmp_path / "s"))
    assert paths.config_file() == tmp_path / "c" / "config.toml"
    assert paths.data_dir() == tmp_path / "d"
    assert paths.state_dir() == tmp_path / "s"


def test_the_settings_file_itself_may_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRESIDE_CONFIG", str(tmp_path / "mine.toml"))
    assert paths.config_file() == tmp_path / "mine.toml"


def test_without_a_home_every_folder_is_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name == "HOME" or name.startswith("XDG_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    for folder in (paths.config_file(), paths.data_dir(), paths.state_dir()):
        assert folder.is_absolute()
        assert "~" not in str(folder)


def test_folders_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        paths.write_private(tmp_path / "a" / "file", "text")
        paths.touch_private(tmp_path / "b" / "file")
    finally:
        os.umask(before)
    for folder in ("a", "b"):
        assert mode(tmp_path / folder) == 0o700
        assert mode(tmp_path / folder / "file") == 0o600


def test_a_write_replaces_the_whole_file(tmp_path: Path) -> None:
    paths.write_private(tmp_path / "file", "a long text")
    paths.write_private(tmp_path / "file", "short")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "short"


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belongs to user"):
        paths.make_private_dir(tmp_path / "theirs")


def test_a_folder_that_holds_the_home_folder_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home" / "me"
    (home / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    for folder in (
        home,
        tmp_path / "link",
        tmp_path / "home",
        tmp_path,
        Path("/"),
        str(home / "project" / ".."),
    ):
        assert paths.holds_home(folder), folder
    for folder in (home / "project", tmp_path / "home" / "m", "/usr", None):
        assert not paths.holds_home(folder), folder


def test_a_link_stays_one_and_the_file_behind_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir(mode=0o755)
    (tmp_path / "dotfiles" / "real").write_text("old")
    (tmp_path / "file").symlink_to("dotfiles/real")
    paths.write_private(tmp_path / "file", "new")
    assert (tmp_path / "file").is_symlink()
    assert (tmp_path / "dotfiles" / "real").read_text() == "new"
    assert [path.name for path in (tmp_path / "dotfiles").iterdir()] == ["real"]
    assert mode(tmp_path / "dotfiles") == 0o755
    (tmp_path / "dotfiles" / "real").unlink()
    paths.write_private(tmp_path / "file", "again")
    assert (tmp_path / "dotfiles" / "real").read_text() == "again"


def test_the_folder_of_a_settings_file_that_was_named_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    monkeypatch.setenv("FIRESIDE_CONFIG", str(tmp_path / "shared" / "mine.toml"))
    paths.write_private(paths.config_file(), "")
    assert mode(tmp_path / "shared") == 0o1777
    assert mode(tmp_path / "shared" / "mine.toml") == 0o600
    monkeypatch.setenv("FIRESIDE_CONFIG", str(tmp_path / "new" / "mine.toml"))
    paths.write_private(paths.config_file(), "")
    assert mode(tmp_path / "new") == 0o700


def test_nothing_is_written_through_a_link_that_others_could_have_put_there(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "real").touch()
    (tmp_path / "file").symlink_to("open/real")
    with pytest.raises(PermissionError, match="chmod go-w"):
        paths.write_private(tmp_path / "file", "text")
    assert (tmp_path / "open" / "real").read_text() == ""


@pytest.mark.parametrize("place", ["a/b/c", "file"])
def test_each_folder_that_is_made_is_private(tmp_path: Path, place: str) -> None:
    before = os.umask(0)
    try:
        made = paths.make_private_dir(tmp_path / place)
    finally:
        os.umask(before)
    while made != tmp_path:
        assert mode(made) == 0o700
        made = made.parent
