"""Files of any name that something elsewhere in the workspace makes code are known to writing tools too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.builtin.files import write_file
from tools.permission.permissions import decide
from tools.workspace import Workspace


def link(path: Path, target: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def repository(folder: Path, config: str) -> None:
    for name in ("objects", "refs", "hooks"):
        (folder / ".git" / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git/config").write_text(config)


def hooks_by_a_link(root: Path) -> str:
    repository(root, "")
    (root / "hk").mkdir()
    (root / ".git/hooks").rmdir()
    link(root / ".git/hooks", root / "hk")
    return "hk/pre-commit"


def one_hook_by_a_link(root: Path) -> str:
    repository(root, "")
    (root / "scripts").mkdir()
    (root / "scripts/pre-commit").write_text("#!/bin/sh\n")
    link(root / ".git/hooks/pre-commit", root / "scripts/pre-commit")
    return "scripts/pre-commit"


def a_link_deeper_than_the_target(root: Path) -> str:
    (root / "conf").mkdir()
    (root / "conf/dev").write_text("")
    link(root / "sub/.envrc", root / "conf/dev")
    return "conf/dev"


def hooks_of_a_nested_repository(root: Path) -> str:
    repository(root / "sub", "[core]\n\thooksPath = ../hk\n")
    (root / "hk").mkdir()
    (root / "hk/x").write_text("")
    return "hk/pre-commit"


def settings_of_a_nested_repository(root: Path) -> str:
    (root / "inc").write_text("")
    repository(root / "sub", "[include]\n\tpath = ../../inc\n")
    return "inc"


@pytest.mark.parametrize(
    "made",
    [
        hooks_by_a_link,
        one_hook_by_a_link,
        a_link_deeper_than_the_target,
        hooks_of_a_nested_repository,
        settings_of_a_nested_repository,
    ],
)
def test_what_becomes_code_from_elsewhere_is_asked_about(tmp_path: Path, made: object) -> None:
    path = made(tmp_path)  # type: ignore[operator]
    call = SimpleNamespace(name="write_file", arguments={"path": path, "content": "touch x\n"})
    assert decide(call, write_file, "all", (), Workspace.at(tmp_path)).verdict == "ask"
    call.arguments["path"] = "plain/notes.txt"
    assert decide(call, write_file, "all", (), Workspace.at(tmp_path)).verdict == "allow"
