from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.benchmarks import transcript as bench
from tests.benchmarks.transcript import Case, Row


async def test_a_case_is_measured_with_what_came_before() -> None:
    row = await bench._append(Case("a case", "- item\n" * 5, ("word ",), messages=4), 3)
    assert row.name == "a case"
    assert row.worst is not None and row.worst >= row.ms > 0
    assert await bench._append_stock(Case("a case", "x", ("word ",)), 2) > 0


def test_rows_say_whether_their_target_is_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row("fast", 2.0, 3.0, textual=61.0), Row("slow", 4.0, 3.0), Row("told", 1.0, None)]

    async def measure(quick: bool, told: Callable[[Row], None]) -> list[Row]:
        for row in rows:
            told(row)
        return rows

    monkeypatch.setattr(bench, "_measure", measure)
    assert bench.main(as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["reached"] for row in found["rows"]] == [True, False, None]
    assert found["rows"][0]["textual"] == 61.0
    assert found["interpreter_ms"] > 0
    assert bench.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert "reached" in lines[0] and "Textual's Markdown 61" in lines[0]
    assert "missed" in lines[1]
