"""When git runs what a repository says, and so may not be covered by a rule."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.permission.repository import why_it_may_run_something

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")


def git(folder: Path, *arguments: str) -> None:
    command = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=m", *arguments)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init")
    (root / "a.txt").write_text("a")
    git(root, "add", "a.txt")
    git(root, "commit", "-m", "one")
    git(root, "remote", "add", "origin", "https://example.com/x.git")
    return root


def test_a_fresh_repository_runs_nothing(repository: Path) -> None:
    assert why_it_may_run_something(repository) == ""
    (repository / "sub").mkdir()
    assert why_it_may_run_something(repository / "sub") == ""


def test_so_does_a_folder_without_one(tmp_path: Path) -> None:
    assert why_it_may_run_something(tmp_path) == ""


def append(text: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with (root / ".git" / "config").open("a") as file:
            file.write(text)

    return change


def hook(root: Path) -> None:
    path = root / ".git" / "hooks" / "post-index-change"
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\ntouch pwned\n")
    path.chmod(0o755)


def linked_repository(root: Path) -> None:
    inner = root / "inner"
    inner.mkdir()
    git(inner, "init")
    (inner / "b.txt").write_text("b")
    git(inner, "add", "b.txt")
    git(inner, "commit", "-m", "two")
    git(root, "add", "inner")


def bare(root: Path) -> None:
    for name in ("HEAD", "config", "objects", "refs"):
        source = root / ".git" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, root / name)


def elsewhere(root: Path) -> None:
    shutil.move(root / ".git", root / "kept")
    (root / ".git").write_text("gitdir: kept\n")


def linked(root: Path) -> None:
    shutil.move(root / ".git", root / "kept")
    (root / ".git").symlink_to("kept")


def common(root: Path) -> None:
    (root / ".git" / "commondir").write_text("../elsewhere")


def broken(root: Path) -> None:
    (root / ".git" / "HEAD").unlink()


def configured_by_a_link(root: Path) -> None:
    shutil.move(root / ".git" / "config", root / "config")
    (root / ".git" / "config").symlink_to("../config")


@pytest.mark.parametrize(
    "change",
    [
        append("[core]\n\tfsmonitor = ./run.sh\n"),
        append("[Core]\n\tFsMonitor = ./run.sh\n"),
        append("[core] fsmonitor = ./run.sh\n"),
        append("[core]\n\thooksPath = hooks\n"),
        append("[include]\n\tpath = ../settings\n"),
        append('[includeIf "gitdir:/"]\n\tpath = ../settings\n'),
        append('[filter "x"]\n\tclean = ./run.sh\n'),
        append("[gpg]\n\tprogram = ./run.sh\n"),
        append("[log]\n\tshowSignature = true\n"),
        append("[alias]\n\tstatus = !./run.sh\n"),
        append("[core]\n\tpager = ./run.sh\n"),
        append("[core]\n\tworktree = /\n"),
        append("[extensions]\n\tworktreeConfig = true\n"),
        append('[remote "origin"]\n\tpromisor = true\n'),
        append("[core]\n\tbare = false \\\n\n"),
        append("\xff"),
        append("[core\n"),
        append("x" * 300_000),
        hook,
        linked_repository,
        bare,
        elsewhere,
        linked,
        common,
        broken,
        configured_by_a_link,
    ],
)
def test_what_could_run_something_is_seen(repository: Path, change: Callable[[Path], None]) -> None:
    change(repository)
    assert why_it_may_run_something(repository)
    (repository / "sub").mkdir()
    assert why_it_may_run_something(repository / "sub")
