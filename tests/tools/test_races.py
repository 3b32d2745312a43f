"""A folder that is swapped for a link while tools work in it: nothing behind the link is read or written."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tools.builtin.files import edit_file, list_files, read_file, write_file
from tools.builtin.search import find_files, search_text
from tools.builtin.search_files import Walk, search
from tools.context import ToolContext
from tools.permission.permissions import decide
from tools.run import run
from tools.workspace import Workspace

try:
    _exchange = ctypes.CDLL(None, use_errno=True).renameat2
except AttributeError:
    pytest.skip("two names cannot be exchanged in one step here", allow_module_level=True)
_HERE, _EXCHANGE = -100, 2

MARKER = "marker-of-the-outside"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    (folder / "deep").mkdir(parents=True)
    for name in ("inner.txt", f"{MARKER}.txt", f"deep/{MARKER}.txt"):
        (folder / name).write_text(f"{MARKER} is the old text\n")
    return folder


@contextmanager
def swapping(root: Path, outside: Path) -> Iterator[None]:
    """`root/moving`, a folder, is a link to `outside` again and again meanwhile."""
    (root / "moving" / "deep").mkdir(parents=True)
    (root / "moving" / "inner.txt").write_text("this is the old text\n")
    (root / "moving" / "deep" / "inner.txt").write_text("this is the old text\n")
    (root / "other").symlink_to(outside)
    done = threading.Event()

    one, other = os.fsencode(root / "moving"), os.fsencode(root / "other")

    def swap() -> None:
        while not done.is_set():
            assert _exchange(_HERE, one, _HERE, other, _EXCHANGE) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


CALLS: list[tuple[Any, int, dict[str, Any]]] = [
    (list_files, 300, {"depth": 4}),
    (list_files, 250, {"path": "moving"}),
    (find_files, 300, {"pattern": "*"}),
    (find_files, 250, {"pattern": "*", "path": "moving"}),
    (search_text, 6, {"text": "e"}),
    (search_text, 4, {"text": "e", "path": "moving"}),
    (read_file, 250, {"path": "moving/inner.txt"}),
    (read_file, 150, {"path": f"moving/{MARKER[:-1]}.txt"}),
    (write_file, 120, {"path": "moving/inner.txt", "content": "new"}),
    (write_file, 120, {"path": "moving/deep/new/made.txt", "content": "new"}),
    (edit_file, 120, {"path": "moving/inner.txt", "old_text": "old", "new_text": "new"}),
]


@pytest.mark.parametrize(("made", "times", "arguments"), CALLS, ids=lambda one: getattr(one, "name", None))
async def test_nothing_behind_a_link_that_was_slipped_in_is_touched(
    space: Workspace, outside: Path, made: Any, times: int, arguments: dict[str, Any]
) -> None:
    texts: set[str] = set()
    before = sorted(path.relative_to(outside) for path in outside.rglob("*"))
    with swapping(space.root, outside):
        for _ in range(times):
            context = ToolContext(space=space)
            decision = decide(_Call(made.name, arguments), made, "read", (), space)
            # What was inside when it was decided about is what this is about; the rest asks.
            if decision.verdict == "ask" and "outside" in decision.reason:
                continue
            context.grants = decision.grants
            texts.add((await run(made, arguments, context)).text)
    shown = "\n".join(texts).replace(str(outside), "")
    assert f"{MARKER}.txt" not in shown and f"{MARKER} is" not in shown
    assert sorted(path.relative_to(outside) for path in outside.rglob("*")) == before
    assert all("old" in path.read_text() for path in outside.rglob("*.txt"))


def test_lines_behind_such_a_link_are_not_found(space: Workspace, outside: Path) -> None:
    hits: set[str] = set()
    with swapping(space.root, outside):
        for _ in range(400):
            hits.update(search(Walk(space.root, space.bar_below(space.root)), "*", lambda line: True))
    assert any("moving/inner.txt:1:" in hit for hit in hits)
    assert not any(MARKER in hit for hit in hits)


class _Call:
    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name = name
        self.arguments = arguments
