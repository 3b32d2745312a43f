"""The page of the architecture against the tree it describes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROOMS = ("app", "backend", "tools", "tests")
PRODUCT = [path for room in ("app", "backend", "tools") for path in sorted((ROOT / room).rglob("*.py"))]
OWN_WORDS = frozenset(
    "room rooms door doors desk hub senses ground offer offers keep glance world hand hands ink".split()
)
"""Words that a newcomer would have to learn before a file or a class says what it is."""


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


def classes(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("name", ["Reply", "Choice", "Page", "Row", "Place"])
def test_a_class_name_means_one_thing(name: str) -> None:
    found = [f"{path.relative_to(ROOT)}" for path in PRODUCT for one in classes(path) if one == name]
    assert len(found) < 2, found


def test_no_module_and_no_class_has_a_name_of_our_own_making() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in PRODUCT
        for name in (path.stem, *classes(path))
        if words(name) & OWN_WORDS and path.parent.name != "program"
    ]
    assert found == []
