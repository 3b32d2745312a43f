"""The page of the architecture against the tree it describes."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROOMS = ("app", "backend", "tools", "tests")


def test_every_file_it_names_is_there() -> None:
    there = [path.name for room in ROOMS for path in (ROOT / room).rglob("*.py")] + ["fireside.py"]
    named = [name.rpartition("/")[2] for name in re.findall(r"`([\w*/]+\.py)`", PAGE)]
    gone = [name for name in named if not any(Path(file).match(name) for file in there)]
    assert named
    assert gone == []


def test_every_library_has_a_row_and_only_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    needed = {
        re.split(r"[<>=\[]", text)[0]
        for text in (*project["dependencies"], *optional["starter"], *optional["mcp"], *optional["serve"])
    }
    rows = Counter(re.findall(r"^\| ([\w-]+)", PAGE.partition("## Libraries")[2], re.MULTILINE))
    assert needed <= set(rows)
    assert [name for name, count in rows.items() if count > 1] == []


def test_no_row_is_there_twice() -> None:
    rows = Counter(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert rows
    assert [row for row, count in rows.items() if count > 1] == []
