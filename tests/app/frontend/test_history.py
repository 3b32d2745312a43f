from __future__ import annotations

import stat
from pathlib import Path

from app.frontend.history import History


def test_walks_back_and_forth_and_returns_to_the_draft(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl")
    for text in ("one", "two\nlines", "three"):
        history.add(text)
    assert history.older("draft", "") == "three"
    assert history.older("three", "") == "two\nlines"
    assert history.newer() == "three"
    assert history.newer() == "draft"
    assert history.newer() is None


def test_only_those_that_begin_alike(tmp_path: Path) -> None:
    history = History()
    for text in ("git status", "make", "git push", "ls"):
        history.add(text)
    assert history.older("git", "git") == "git push"
    assert history.older("git push", "git") == "git status"
    assert history.older("git status", "git") is None
    assert history.newer() == "git push"
    assert history.newer() == "git"


def test_is_kept_in_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "h.jsonl"
    History(file).add("kept \u2028 whole\n")
    History(file).add("secret", keep=False)
    with file.open("ab") as handle:
        handle.write(b'{"not": "a text"}\n"torn')
    assert History(file).entries == ["kept \u2028 whole\n"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_nothing_is_remembered_twice_in_a_row() -> None:
    history = History()
    history.add("same")
    history.add("same")
    history.add("  ")
    assert history.entries == ["same"]
