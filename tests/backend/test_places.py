"""Where a person's folders lie, and which of them count."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from backend import places
from backend.places import ForeignPathError, is_own, require_own

STRANGER = 54321
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file to somebody else")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of one's own, two below a shared one, with a file in it."""
    (tmp_path / "shared").mkdir(mode=0o700)
    (tmp_path / "shared" / "mine").mkdir(mode=0o700)
    (tmp_path / "shared" / "mine" / "config.toml").touch(mode=0o600)
    return tmp_path / "shared" / "mine"


def test_what_is_ones_own_counts_and_what_is_not_there_too(folder: Path) -> None:
    assert require_own(folder / "config.toml") == folder / "config.toml"
    assert require_own(folder / "none" / "config.toml")
    assert is_own(Path("/etc/passwd"))
    assert is_own(Path("/"))


SPOILT: dict[str, Callable[[Path], object]] = {
    "a file that all may write": lambda folder: (folder / "config.toml").chmod(0o666),
    "a folder that all may write": lambda folder: folder.chmod(0o777),
    "a folder above that all may write": lambda folder: folder.parent.chmod(0o777),
    "a file that another group may write": lambda folder: _for_group(folder / "config.toml", 0o660),
    "a folder that another group may write": lambda folder: _for_group(folder, 0o770),
    "a folder above that another group may write": lambda folder: _for_group(folder.parent, 0o770),
}
FOREIGN: dict[str, Callable[[Path], object]] = {
    "another's file": lambda folder: os.chown(folder / "config.toml", STRANGER, -1),
    "another's folder": lambda folder: os.chown(folder, STRANGER, -1),
    "another's folder above": lambda folder: os.chown(folder.parent, STRANGER, -1),
    "another's sticky folder above": lambda folder: (
        os.chown(folder.parent, STRANGER, -1),
        folder.parent.chmod(0o1777),
    ),
    "another's link": lambda folder: _linked(folder),
    "a link to another's file": lambda folder: (
        (folder / "real.toml").touch(mode=0o600),
        os.chown(folder / "real.toml", STRANGER, -1),
        (folder / "config.toml").unlink(),
        (folder / "config.toml").symlink_to("real.toml"),
    ),
    "a link through another's folder": lambda folder: (
        (folder / "theirs").mkdir(),
        (folder / "config.toml").rename(folder / "theirs" / "config.toml"),
        os.chown(folder / "theirs", STRANGER, -1),
        (folder / "config.toml").symlink_to(folder / "theirs" / ".." / "theirs" / "config.toml"),
    ),
}


def _for_group(path: Path, mode: int) -> None:
    mine = pwd.getpwuid(os.getuid()).pw_gid
    other = next((group for group in os.getgroups() if group != mine), 12345 if os.getuid() == 0 else None)
    if other is None:
        pytest.skip("there is no second group")
    os.chown(path, -1, other)
    path.chmod(mode)


def _linked(folder: Path) -> None:
    (folder / "config.toml").rename(folder / "real.toml")
    folder.chmod(0o1777)
    (folder / "config.toml").symlink_to("real.toml")
    os.chown(folder / "config.toml", STRANGER, -1, follow_symlinks=False)


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_others_may_write_is_refused_with_what_to_do(
    folder: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(folder)
    with pytest.raises(
        ForeignPathError, match=r"users other than you can write to .*chmod go-w .*FIRESIDE_CONFIG"
    ):
        require_own(folder / "config.toml")
    assert not is_own(folder / "config.toml")


@as_root
@pytest.mark.parametrize("spoil", FOREIGN.values(), ids=FOREIGN)
def test_what_belongs_to_somebody_else_is_refused(folder: Path, spoil: Callable[[Path], object]) -> None:
    spoil(folder)
    with pytest.raises(ForeignPathError, match=rf"belongs to user {STRANGER}, not to you.*FIRESIDE_CONFIG"):
        require_own(folder / "config.toml")


def test_links_of_ones_own_and_sticky_folders_are_ordinary(folder: Path) -> None:
    (folder / "config.toml").rename(folder.parent / "dot.toml")
    (folder / "config.toml").symlink_to("../dot.toml")
    folder.parent.chmod(0o1777)
    assert is_own(folder / "config.toml")
    (folder.parent / "dot.toml").unlink()
    assert is_own(folder / "config.toml")
    (folder.parent / "dot.toml").symlink_to(folder / "config.toml")
    assert not is_own(folder / "config.toml")  # A circle.


def test_a_group_of_ones_own_may_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = (folder / "config.toml").stat().st_gid
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me", pw_gid=group, pw_dir="/"))
    members: list[str] = []
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name="me", gr_mem=members))
    (folder / "config.toml").chmod(0o664)
    folder.chmod(0o775)
    assert is_own(folder / "config.toml")
    members.append("me")
    assert is_own(folder / "config.toml")
    members.append("colleague")
    assert not is_own(folder / "config.toml")
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name="users", gr_mem=[]))
    assert not is_own(folder / "config.toml")


def test_above_the_home_that_the_system_gives_its_log_in_decides(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.chmod(0o777)
    assert not is_own(folder / "config.toml")
    monkeypatch.setattr(
        pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me", pw_gid=1, pw_dir=str(folder))
    )
    assert is_own(folder / "config.toml")
    folder.chmod(0o777)
    assert not is_own(folder / "config.toml")


# ---- where they lie ------------------------------------------------------------------------

FOLDERS = "from backend import places; print(*(places.folder(kind) for kind in ('config', 'data', 'state')))"


def told(**environ: str) -> list[str]:
    names = ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {FOLDERS}"],
        env={**clean, **environ},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_they_lie_below_home_by_the_rules_of_the_system(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("other systems have other rules")
    below = [f"{tmp_path}/{name}/fireside" for name in (".config", ".local/share", ".local/state")]
    assert told(HOME=str(tmp_path)) == below
    assert told(HOME=f"{tmp_path}/new")[0] == f"{tmp_path}/new/.config/fireside"
    assert (
        told(HOME=str(tmp_path), XDG_CONFIG_HOME="relative", XDG_DATA_HOME="./x", XDG_STATE_HOME="") == below
    )
    assert told(HOME=str(tmp_path), XDG_CONFIG_HOME="/x/y")[0] == "/x/y/fireside"
    home = pwd.getpwuid(os.getuid()).pw_dir
    for relative in ("", "here", "./here", "~"):
        assert told(HOME=relative)[0] == f"{home}/.config/fireside"


@pytest.mark.parametrize("home", ["/nonexistent", "/nonexistent/x", "/dev/null"])
def test_an_account_without_a_home_has_them_in_the_temporary_folder(tmp_path: Path, home: str) -> None:
    number = os.getuid()
    assert told(HOME=home, TMPDIR=str(tmp_path))[0] == f"{tmp_path}/fireside-{number}/config"
    for other in ("relative", "", "/none"):
        assert told(HOME=home, TMPDIR=other)[1] == f"/tmp/fireside-{number}/data"


@pytest.mark.parametrize("kind", ["config", "data", "state"])
def test_a_variable_of_ours_moves_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: places.Kind
) -> None:
    monkeypatch.setenv(f"FIRESIDE_{kind.upper()}", str(tmp_path))
    assert places.folder(kind) == tmp_path
