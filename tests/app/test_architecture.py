"""The page of the architecture against the tree it describes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
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


@cache
def classes(path: Path) -> list[str]:
    return re.findall(r"^\s*class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("name", ["Reply", "Choice", "Page", "Row", "Place"])
def test_a_class_name_means_one_thing(name: str) -> None:
    found = [f"{path.relative_to(ROOT)}" for path in PRODUCT for one in classes(path) if one == name]
    assert len(found) < 2, found


def test_a_long_file_says_first_why_it_is_one() -> None:
    def first(path: Path) -> tuple[int, str]:
        lines = path.read_text(encoding="utf-8").splitlines()
        return len(lines), lines[0]

    found = {str(path.relative_to(ROOT)): first(path) for path in PRODUCT if path.stat().st_size > 10_000}
    assert [
        name for name, (lines, told) in found.items() if lines > 400 and "One file, because" not in told
    ] == []


def test_no_module_and_no_class_has_a_name_of_our_own_making() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in PRODUCT
        for name in (path.stem, *classes(path))
        if words(name) & OWN_WORDS
    ]
    assert found == []


def statements(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """All statements of a body, also those in others; what has none in it is not walked through."""
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            found = getattr(node, inner, ())
            if isinstance(found, list):
                yield from statements(found)


@cache
def imports(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The modules that the file imports anywhere in it: all of them, and those that it runs."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    typed = {
        child
        for node in body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in statements(node.body)
    }

    def named(nodes: Iterable[ast.AST]) -> frozenset[str]:
        found = {
            name if (name := f"{node.module}.{one.name}") in MODULES else node.module
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for one in node.names
        }
        return frozenset(found & MODULES.keys())

    everywhere = list(statements(body))
    return named(everywhere), named(set(everywhere) - typed)


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in PRODUCT}


def circles(graph: Mapping[str, AbstractSet[str]]) -> list[set[str]]:
    """The groups of modules in which each leads to each."""
    graph = {name: set(targets) - {name} for name, targets in graph.items()}
    while True:
        aimed = set().union(*graph.values()) if graph else set()
        left = {name: targets & graph.keys() for name, targets in graph.items() if name in aimed}
        left = {name: targets & left.keys() for name, targets in left.items() if targets & left.keys()}
        if left == graph:
            break
        graph = left

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        open_ = [start]
        while open_:
            new = graph.get(open_.pop(), set()) - seen
            seen |= new
            open_ += new
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {frozenset(other for other in reach[name] if name in reach.get(other, ())) for name in reach}
    return [set(group) for group in groups if len(group) > 1]


def test_no_module_needs_itself_when_it_runs() -> None:
    assert circles({name: imports(path)[1] for name, path in MODULES.items()}) == []


def test_few_pairs_know_each_other_by_type() -> None:
    found = circles({name: imports(path)[0] for name, path in MODULES.items()})
    assert len(found) <= 4, found
