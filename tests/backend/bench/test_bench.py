from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backend import bench
from backend.bench import Options
from backend.bench.cases import CASES, Bench, ResultRow, attention_advice
from backend.bench.pairs import Estimate, Target
from backend.bench.report import head, line
from backend.bench.sides import LocalSide, RemoteSide, make_side
from backend.bench.workload import BenchError
from backend.types import ModelLoadError

pytestmark = pytest.mark.timeout(60)  # They start processes, and load models there.

SHORT_S = 0.001


def measure(model: Path, *names: str, quick: bool = True, pairs: int = 2) -> tuple[dict[str, Any], list[str]]:
    """Measure with both sides in this process, which is wrong for speed and right for a test."""
    printed: list[str] = []
    found = bench.run(
        Options(str(model), quick=quick, only=names, pairs=pairs, threads=1),
        begun=lambda begun: printed.extend(head(begun)),
        measured=lambda row: printed.append(line(row)),
        launch=make_side,
        min_s=SHORT_S,
    )
    return found, printed


def test_a_quick_run_yields_every_field(tiny_llama: Path) -> None:
    found, printed = measure(tiny_llama, "decode")
    assert found["quick"] and not found["is_claim"]
    assert found["attention"] == {"flash_attn": False, "why": found["attention"]["why"]}
    assert found["calibration"]["python_s"] > 0
    assert [row["name"] for row in found["rows"]] == [
        "decode alone at 64 tokens, flash attention off",
        "decode 8 sequences at 64 tokens, flash attention off",
    ]
    for row in found["rows"]:
        assert set(row) == set(ResultRow.__dataclass_fields__)
        assert row["ours"] > 0 and row["theirs"] > 0 and row["note"] == ""
        assert row["ratio"]["low"] <= row["ratio"]["median"] <= row["ratio"]["high"]
        assert row["ratio"]["count"] == 2
        assert row["target"]["kind"] == "at least"
        assert row["verdict"] in ("reached", "missed", "unclear")
    assert json.loads(json.dumps(found)) == found
    assert "supports no claim" in "\n".join(printed)
    assert printed[-1].startswith("decode 8 sequences at 64 tokens")


@pytest.mark.parametrize("name", sorted(set(CASES) - {"decode", "startup", "memory"}))
def test_every_case_measures_a_tiny_model(tiny_llama: Path, name: str) -> None:
    found, _ = measure(tiny_llama, name)
    assert found["rows"]
    for row in found["rows"]:
        assert row["case"] == name
        assert row["note"] == "" or row["ratio"], row["note"]
        assert row["ratio"]["median"] > 0


@pytest.mark.parametrize("name", ["startup", "memory"])
@pytest.mark.timeout(60)
def test_a_process_of_its_own_tells_its_figures(tiny_llama: Path, name: str) -> None:
    found, _ = measure(tiny_llama, name)
    assert all(row["ours"] > 0 for row in found["rows"])


def test_what_a_model_cannot_hold_is_said_and_the_rest_is_measured(tiny_llama: Path) -> None:
    found, printed = measure(tiny_llama, "decode", quick=False, pairs=1)
    notes = {row["name"]: row["note"] for row in found["rows"]}
    assert "trained with 2048" in notes["decode alone at 2,048 tokens, flash attention off"]
    assert notes["decode 4 sequences at 512 tokens, flash attention on"] == ""
    assert len(found["rows"]) == 4 + 3 + 3 + 4 + 4 * 3
    assert any("trained with 2048" in text for text in printed)


@pytest.mark.parametrize("model", ["tiny_recurrent", "tiny_gemma3"])
def test_a_memory_that_cannot_be_cut_is_measured_by_reading_anew(
    model: str, request: pytest.FixtureRequest
) -> None:
    found, _ = measure(request.getfixturevalue(model), "first-token", "pipeline")
    assert all(row["ratio"] for row in found["rows"])


def test_sides_give_way_to_each_other_where_memory_holds_one(
    tiny_llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []

    class Watched(LocalSide):
        name = ""

        def call(self, method: str, *arguments: Any) -> Any:
            calls.append((self.name, method))
            return super().call(method, *arguments)

    def launch(kind: str, *arguments: Any) -> Watched:
        side = Watched(make_side(kind, *arguments)._side)
        side.name = kind
        return side

    bytes_per_cell = make_side("engine", str(tiny_llama), 1).call("describe")["bytes_per_cell"]
    room = 1.5 * bytes_per_cell * 320 / 0.6
    monkeypatch.setattr("backend.bench.cases.host_free_bytes", lambda: int(room))
    options = Options(str(tiny_llama), quick=True, only=("prefill",), pairs=1, threads=1)
    found = bench.run(options, launch=launch, min_s=SHORT_S)
    assert found["rows"][0]["ratio"]
    opened: set[str] = set()
    for name, method in calls:
        if method == "open":
            opened.add(name)
        elif method == "close":
            opened.discard(name)
        assert len(opened) <= 1


def test_too_little_memory_is_said(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.bench.cases.host_free_bytes", lambda: 1000)
    found, _ = measure(tiny_llama, "prefill")
    assert found["rows"][0]["note"] == "There is not enough free memory for this context."


def test_sides_of_their_own_processes_answer_and_end(tiny_llama: Path) -> None:
    options = Options(str(tiny_llama), quick=True, only=("prefill",), pairs=1, threads=1)
    found = bench.run(options, min_s=SHORT_S)
    assert found["rows"][0]["ratio"]["median"] > 0


def test_a_broken_model_is_refused_before_anything_starts(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with pytest.raises(ModelLoadError):
        bench.run(Options(str(broken)))


def test_an_unknown_case_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no case 'speed'.*decode, auto, prefill"):
        Options(only=("speed",))
    with pytest.raises(ValueError, match="At least one pair"):
        Options(pairs=0)


def test_quick_means_few_cases_and_names_mean_those() -> None:
    assert Options().names == tuple(CASES)
    assert set(Options(quick=True).names) < set(CASES)
    assert Options(quick=True, only=("memory", "decode")).names == ("decode", "memory")


def test_the_command_prints_one_object(tiny_llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("backend.bench.sides.RemoteSide", make_side)
        patch.setattr("backend.bench.pairs.MIN_S", SHORT_S)
        assert bench.main(str(tiny_llama), True, True, ("prefill",), 1) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["case"] == "prefill"


def test_a_line_shows_ratio_interval_verdict_and_repeats() -> None:
    ratio = Estimate(0.991, 0.985, 0.998, 10, repeats=3, noisy=0)
    row = ResultRow(
        "decode", "decode alone", "tok/s", 101.5, 102.4, ratio, Target("at least", 0.98), "reached"
    )
    text = line(row)
    assert text.startswith("decode alone")
    for part in ("101.5", "102.4", "0.991 [0.985 0.998]", "at least 0.98: reached", "3 repeated"):
        assert part in text


@pytest.mark.parametrize(
    ("high", "flash", "advised"), [(0.95, False, True), (1.1, False, False), (0.95, True, False)]
)
def test_the_other_attention_is_advised_only_where_it_is_surely_faster(
    high: float, flash: bool, advised: bool
) -> None:
    advice = attention_advice(Estimate(0.9, 0.85, high, 10), flash=flash)
    assert ("fireside config set load.flash_attn on" in advice) is advised


def test_what_a_file_calls_itself_cannot_reach_the_terminal_as_it_is(tiny_llama: Path) -> None:
    side = make_side("engine", str(tiny_llama), 1)

    class Renamed:
        def call(self, method: str, *arguments: Any) -> Any:
            answer = side.call(method, *arguments)
            return {**answer, "name": "\x1b[31mred"} if method == "describe" else answer

        def close(self) -> None:
            side.close()

    found = Bench(
        str(tiny_llama),
        Renamed(),
        make_side("bare", str(tiny_llama), 0),
        make_side("whole", str(tiny_llama), 1),
        pairs=1,
        quick=True,
        min_s=SHORT_S,
    )
    assert "\x1b" not in "\n".join(head(found))
    side.close()


def test_a_side_ends_with_whoever_asked_it_even_in_the_middle_of_a_call(tiny_llama: Path) -> None:
    side = RemoteSide("engine", str(tiny_llama), 1)
    setup = side.call("describe")["setup"]
    side.call("open", {**setup, "cells": 512})
    child = side._child
    assert child.stdin is not None
    child.stdin.write(json.dumps(["write", 64, 3600.0]) + "\n")
    child.stdin.close()
    assert child.wait(timeout=8) == 0
    side.close()


def test_a_failing_call_is_told_and_the_side_goes_on(tiny_llama: Path) -> None:
    side = RemoteSide("engine", str(tiny_llama), 1)
    with pytest.raises(BenchError, match="not open"):
        side.call("write", 64, SHORT_S)
    assert side.call("describe")["trained"] == 2048
    side.close()


def test_a_side_that_ends_by_itself_is_told(tiny_llama: Path) -> None:
    side = RemoteSide("engine", str(tiny_llama), 1)
    side._child.kill()
    with pytest.raises(BenchError, match="ended before its time"):
        side.call("describe")
    side.close()
