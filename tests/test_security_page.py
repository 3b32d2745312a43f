"""The page of promises against the tests that hold them."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_ROW = re.compile(r"^\| (?!-)(?!promise )(?P<promise>[^|]+) \| (?P<tests>[^|]+) \|$", re.MULTILINE)
ROWS = _ROW.findall(PAGE.partition("## Promises")[2].partition("\n## What each mode")[0])
NAMED = sorted(set(_NAMED.findall(PAGE)))


def test_every_promise_names_a_test() -> None:
    assert len(ROWS) >= 20
    assert [promise for promise, tests in ROWS if not _NAMED.search(tests)] == []


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[f"{file}::{name}" for file, name in NAMED])
def test_every_test_it_names_is_there(file: str, name: str) -> None:
    assert name in functions(file)


def test_it_says_how_to_report_a_fault_and_what_it_does_not_promise() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert {"Promises", "What each mode does", "Limits", "Reporting a fault"} <= set(headings)


def test_the_modes_are_those_of_the_program() -> None:
    from app.settings.kinds import CHOICES

    table = PAGE.partition("## What each mode does")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(CHOICES["approval"])
