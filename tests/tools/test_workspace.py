from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.workspace import PathError, Workspace, open_real, read_real, write_real


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a")
    (tmp_path / "ws-old").mkdir()
    (tmp_path / "ws-old" / "secret.txt").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("out")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to(root / "src")
    (root / "dangling").symlink_to(tmp_path / "outside" / "new.txt")
    (root / "loop").symlink_to(root / "loop")
    return root


OUTSIDE = [
    "../ws-old/secret.txt",
    "..",
    "../ws/../ws-old",
    "/etc/passwd",
    "~/notes.txt",
    "~",
    "link/a.txt",
    "link/new.txt",
    "link",
    "dangling",
    "src/../../ws-old/secret.txt",
    "src/../link/sub/new.txt",
    "inner/../../outside/a.txt",
    "./././../outside/",
    "/",
]


@pytest.mark.parametrize("text", OUTSIDE)
def test_as_06_and_07_what_leads_outside_is_outside(root: Path, text: str) -> None:
    assert not Workspace.at(root).locate(text).inside


def test_as_06_a_sibling_with_the_same_prefix_is_outside(root: Path) -> None:
    assert not Workspace.at(root).locate(f"{root}-old/secret.txt").inside


@pytest.mark.parametrize(
    "text", [".", "src/a.py", "src/", "new/deep/file.txt", "inner/a.py", "src/../src/a.py"]
)
def test_what_stays_inside_is_inside(root: Path, text: str) -> None:
    assert Workspace.at(root).locate(text).inside
    assert Workspace.at(root).locate(str(root / text)).inside


def test_a_workspace_reached_through_a_link_is_the_real_one(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    space = Workspace.at(tmp_path / "alias")
    assert space.root == root
    assert space.locate(str(tmp_path / "alias" / "src")).inside


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "x" * 5000, "loop", "loop/a"])
def test_what_is_no_path_is_refused(root: Path, text: str) -> None:
    with pytest.raises(PathError):
        Workspace.at(root).locate(text)


@pytest.mark.parametrize(
    "text",
    [
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".g\u200cit/config",
        ".git. /config",
        ".fireside/tools/x.py",
        "sub/.vscode/tasks.json",
        ".envrc",
        "sub/.ENVRC",
        "~/.bashrc",
        "~/.config/fish/config.fish",
        "~/.config/systemd/user/x.service",
        "~/.ssh/authorized_keys",
        "~/.local/lib/python3.11/site-packages/x.py",
        "lib/evil.pth",
        ".gitmodules",
    ],
)
def test_files_that_become_code_are_known(root: Path, text: str) -> None:
    assert Workspace.at(root).locate(text).code


def test_anything_on_path_becomes_code(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "bin").mkdir()
    (root / "tools").symlink_to(root / "bin")
    monkeypatch.setenv("PATH", f"/usr/bin:{root / 'bin'}")
    assert Workspace.at(root).locate("bin/ls").code
    assert Workspace.at(root).locate("tools/ls").code
    assert not Workspace.at(root).locate("src/ls").code


@pytest.mark.parametrize("text", ["src/a.py", "gitignore", ".gitignore", "src/git/x", "profile"])
def test_ordinary_files_do_not(root: Path, text: str) -> None:
    assert not Workspace.at(root).locate(text).code


def test_own_data_is_hidden_even_inside(root: Path) -> None:
    space = Workspace.at(root, hidden=(root / "data",))
    assert space.locate("data/chats.db").hidden
    assert space.locate("src/../data").hidden
    assert not space.locate("database").hidden


STEP = st.sampled_from(
    ["..", ".", "src", "inner", "link", "dangling", "a.py", "new", "", "ws", "ws-old", "~"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(STEP, min_size=1, max_size=8))
def test_inside_means_that_the_kernel_agrees(root: Path, steps: list[str]) -> None:
    text = "/".join(steps)
    try:
        place = Workspace.at(root).locate(text)
    except PathError:
        return
    written = os.path.join(root, os.path.expanduser(text))
    if os.path.exists(written):
        real = os.stat(place.path)
        assert (real.st_ino, real.st_dev) == (os.stat(written).st_ino, os.stat(written).st_dev)
    assert place.inside == (os.path.commonpath([place.path, root]) == str(root))
    assert not any(parent.is_symlink() for parent in (place.path, *place.path.parents))


def test_a_link_slipped_in_after_the_check_is_not_followed(root: Path, tmp_path: Path) -> None:
    place = Workspace.at(root).locate("later/a.txt")
    (root / "later").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError):
        read_real(place.path, 100)
    with pytest.raises(OSError):
        write_real(place.path, b"x")
    assert (tmp_path / "outside" / "a.txt").read_text() == "out"


def test_a_file_replaced_by_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    place = Workspace.at(root).locate("src/b.py")
    (root / "src" / "b.py").symlink_to(tmp_path / "outside" / "a.txt")
    with pytest.raises(OSError):
        open_real(place.path)
    with pytest.raises(PathError):
        write_real(place.path, b"x")
    assert (tmp_path / "outside" / "a.txt").read_text() == "out"


def test_only_regular_files_are_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")
    with pytest.raises(PathError):
        open_real(root / "pipe")
    with pytest.raises(PathError):
        read_real(root / "src", 10)


def test_writing_keeps_permissions_and_leaves_no_draft(root: Path) -> None:
    (root / "run.sh").write_text("old")
    (root / "run.sh").chmod(0o750)
    write_real(root / "run.sh", b"new")
    write_real(root / "deep" / "er" / "x.txt", b"made")
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o750
    assert (root / "run.sh").read_text() == "new"
    assert (root / "deep/er/x.txt").read_text() == "made"
    assert not [path for path in root.rglob("*") if path.name.startswith(".run.sh")]


def test_a_hard_link_to_the_outside_is_broken_not_written(root: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "a.txt", root / "hard.txt")
    write_real(root / "hard.txt", b"new")
    assert (tmp_path / "outside" / "a.txt").read_text() == "out"


# ---- secrets -------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder whose keys lie behind a link, as those of people who keep their dot files in git."""
    home = tmp_path / "home"
    for name in ("dotfiles/keys", "project/sub", ".aws", ".cache", "Documents"):
        (home / name).mkdir(parents=True)
    (home / ".ssh").symlink_to(home / "dotfiles" / "keys")
    files = ("dotfiles/keys/work", ".aws/credentials", ".cache/x", "Documents/a.txt", "project/sub/a.py")
    for name in files:
        (home / name).write_text("x")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.parametrize(
    "text",
    [
        "~/.ssh/id_rsa",
        "~/.ssh",
        "~/.SSH/id_rsa",
        "~/.ssh/work",
        "~/dotfiles/keys/work",
        "../dotfiles/keys/work",
        "sub/../../.aws/credentials",
        "/proc/self/root/etc/shadow",
        "/etc/shadow",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/dev/fd/0",
        "/proc/1/environ",
        "/proc/thread-self/environ",
        "/proc/1/task/1/environ",
        "/proc/self/mem",
        "/proc/kcore",
        ".ssh/id_ed25519",
        "sub/.Ssh/x",
        ".s\u200bsh/x",
        ".netrc",
        "sub/.env",
        "keys",
        "keys/work",
        "sub/linked",
    ],
)
def test_secrets_are_known_wherever_they_lie_and_however_they_are_spelled(home: Path, text: str) -> None:
    space = Workspace.at(home / "project")
    (home / "project" / "keys").symlink_to(home / ".ssh")
    (home / "project" / "sub" / "linked").symlink_to(home / ".aws" / "credentials")
    assert space.locate(text).secret


@pytest.mark.parametrize("text", ["sub/a.py", ".", "~/Documents/a.txt", "/proc/cpuinfo", "/etc/hosts"])
def test_ordinary_files_are_no_secrets(home: Path, text: str) -> None:
    assert not Workspace.at(home / "project").locate(text).secret


def test_a_link_named_as_a_secret_does_not_make_the_home_folder_one(home: Path) -> None:
    (home / ".gnupg").symlink_to(home)
    assert not Workspace.at(home / "project").locate("~/Documents/a.txt").secret


# ---- a workspace that is too wide ----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (".", True),
        ("Documents/a.txt", True),
        ("project/sub/a.py", True),
        (".cache/x", False),
        (".bashrc", False),
        ("project/.git/config", False),
        ("Library/Keychains/x", False),
    ],
)
def test_a_home_folder_as_workspace_ends_at_its_dot_names(home: Path, text: str, inside: bool) -> None:
    place = Workspace.at(home).locate(text)
    assert place.inside is inside
    assert ("hidden name" in place.border) is not inside


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("home/Documents/a.txt", True),
        ("home", True),
        (".", True),
        ("home/.cache/x", False),
        ("beside", False),
    ],
)
def test_a_folder_that_holds_the_home_folder_ends_at_it(home: Path, text: str, inside: bool) -> None:
    space = Workspace.at(home.parent)
    assert space.locate(text).inside is inside
    assert "a folder that contains your whole home folder" in space.width


def test_the_root_of_the_system_is_such_a_folder(home: Path) -> None:
    space = Workspace.at("/")
    assert space.locate(str(home / "Documents")).inside
    for text in ("/etc/passwd", "/proc/cpuinfo", "/var/log", str(home / ".cache")):
        assert not space.locate(text).inside, text
    assert "your home folder" in Workspace.at(home).width
    assert Workspace.at(home / "project").width == ""


# ---- what is no file -----------------------------------------------------------------------


def test_a_pipe_is_neither_read_nor_written_and_holds_nobody(root: Path) -> None:
    os.mkfifo(root / "src" / "pipe")
    with pytest.raises(PathError, match="regular"):
        read_real(root / "src" / "pipe", 10)
    with pytest.raises(PathError, match="regular"):
        write_real(root / "src" / "pipe", b"x")


def test_a_device_is_not_even_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    real_open = os.open

    def recording(path: object, *args: object, **more: object) -> int:
        opened.append(path)
        return real_open(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("tools.workspace.os.open", recording)
    with pytest.raises(PathError):
        open_real(Path("/dev/null"))
    assert "null" not in opened


def test_a_hard_link_is_broken_by_writing_and_what_it_named_stays(root: Path, tmp_path: Path) -> None:
    os.link(tmp_path / "outside" / "a.txt", root / "src" / "hard.txt")
    write_real(root / "src" / "hard.txt", b"new")
    assert (tmp_path / "outside" / "a.txt").read_text() == "out"
    assert (root / "src" / "hard.txt").stat().st_nlink == 1
