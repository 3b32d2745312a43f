"""The model picker and its waterfall."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.models import catalog
from app.models.catalog import LoadPlan, ModelFacts
from app.terminal import glyphs
from app.terminal.figures import gib as size
from app.tui.screens.models import ModelChoice, ModelPicker
from app.tui.screens.waterfall import (
    bars,
    context_choices,
    fit,
    larger_that_fits,
    tokens,
    verdict,
    waterfall,
)
from app.tui.widgets.cells import width_of
from tests.app.tui import snapshots
from tests.app.tui.screens.harness import Harness, settled

GIB = 1 << 30


def gib(number: float) -> int:
    return int(number * GIB)


def load_plan(**changes: Any) -> LoadPlan:
    fields: dict[str, Any] = {
        "device": "gpu",
        "total_bytes": 8 * GIB,
        "free_bytes": gib(7.4),
        "weights_bytes": gib(2.33),
        "context_bytes": gib(1.13),
        "compute_bytes": gib(0.3),
        "context": 8192,
        "slots": 4,
        "cache": "f16",
        "layers": 36,
        "layers_on_gpu": 36,
        "fits": True,
    }
    return LoadPlan(**{**fields, **changes})


def model(file: str, size_gib: float, **changes: Any) -> Any:
    path = Path.home() / "models" / f"{file.replace(' ', '-')}.gguf"
    fields = {"name": file, "quantization": "Q4_K_M", "kind": "chat", "problem": None}
    return SimpleNamespace(path=path, size_bytes=gib(size_gib), **{**fields, **changes})


def models() -> list[Any]:
    return [
        model("SmolLM2 360M", 0.37, quantization="Q8_0"),
        model("Qwen3 4B", 2.33),
        model("Gemma 3 12B", 6.8),
        model("Llama 3.3 70B", 39.6),
        model("cut off", 1.6, kind="broken", problem="is cut off: 3 of 40 tensors are missing."),
        model("minilm", 0.1, kind="embedding"),
    ]


class FakeCatalog:
    """Answers as a machine with a GPU of 8 GiB would."""

    def facts(self, path: Path) -> ModelFacts:
        return ModelFacts(path, 40_960, 36, "Apache 2.0", {})

    def plan(self, path: Path, *, context: int | None = None, cache: str | None = None) -> LoadPlan:
        context = context or 8192
        kv = gib(1.13) * context // 8192 // (2 if cache == "q8_0" else 1)
        changes: dict[str, Any] = {"context": context, "cache": cache or "f16", "context_bytes": kv}
        if "Llama" in path.name:
            return load_plan(**changes, weights_bytes=gib(39.6), fits=False, layers=80, layers_on_gpu=0)
        if "Gemma" in path.name:
            notes = ("31 of 48 layers run on the GPU, the rest on the CPU.",)
            return load_plan(**changes, weights_bytes=gib(4.6), layers=48, layers_on_gpu=31, notes=notes)
        return load_plan(**changes, fits=gib(2.63) + kv < gib(7.4))


async def opened(app: Harness, pilot: Any, **options: Any) -> ModelPicker:
    card: Any = SimpleNamespace(model_id="SmolLM2 360M")
    options = {"models": models(), "card": card, "catalog": FakeCatalog(), **options}
    picker = ModelPicker(app, **options)
    await app.open(picker)
    await settled(app, pilot)
    return picker


# ---- arithmetic ----------------------------------------------------------------------------


def test_sizes_and_contexts_as_they_are_written() -> None:
    assert [size(gib(count)) for count in (0.05, 0.37, 2.33, 17.3)] == [
        "<0.1 GiB",
        "0.4 GiB",
        "2.3 GiB",
        "17.3 GiB",
    ]
    assert [tokens(count) for count in (8192, 40_960, 2000)] == ["8k", "40k", "2000"]


def test_contexts_around_the_planned_one_are_offered_up_to_the_trained_one() -> None:
    assert context_choices(40_960, 8192) == (4096, 8192, 16_384, 32_768, 40_960)
    assert context_choices(2048, 2048) == (2048,)
    assert context_choices(131_072, 100_000) == (16_384, 32_768, 65_536, 100_000, 131_072)


@pytest.mark.parametrize(
    ("changes", "larger", "words", "short"),
    [
        ({}, 16_384, "fits; 16k would fit too", "gpu"),
        ({}, None, "fits", "gpu"),
        ({"layers_on_gpu": 31, "layers": 48}, None, "31 of 48 layers on gpu, slower", "31 of 48 on gpu"),
        ({"weights_bytes": gib(38.17), "fits": False}, None, "does not fit, 39.6 of 8.0 GiB", "does not fit"),
        ({"device": "memory", "layers_on_gpu": 0}, None, "fits, on the cpu", "cpu"),
    ],
)
def test_the_verdict_in_words(changes: dict[str, Any], larger: int | None, words: str, short: str) -> None:
    plan = load_plan(**changes)
    assert verdict(plan, larger)[1] == words
    assert fit(plan)[1] == short


def test_each_part_begins_where_the_last_one_ended() -> None:
    parts = bars(load_plan(), 42)
    assert [name for name, *_ in parts] == [
        "in use by others",
        "weights, 36 of 36 layers",
        "context, 8,192 tokens",
        "compute buffers",
        "free",
    ]
    ends = [start + cells for _, _, start, cells, _ in parts]
    assert [start for _, _, start, _, _ in parts] == [0, *ends[:-1]]
    assert ends[-1] == 42


@given(st.lists(st.integers(0, 100 * GIB), min_size=5, max_size=5), st.integers(1, 60))
def test_no_bar_leaves_its_row(sizes: list[int], width: int) -> None:
    total, free, weights, context, compute = sizes
    plan = load_plan(
        total_bytes=total,
        free_bytes=free,
        weights_bytes=weights,
        context_bytes=context,
        compute_bytes=compute,
    )
    for row in waterfall(plan, width, glyphs.UNICODE)[3::2]:
        assert width_of(row.left) == width
    for _, count, start, cells, _ in bars(plan, width):
        assert start >= 0 and start + cells <= width and (cells > 0 or not count)


def test_the_longest_context_that_fits_is_named_only_where_it_is_longer() -> None:
    plans = [load_plan(context=size, fits=size < 20_000) for size in (4096, 8192, 16_384, 32_768)]
    assert larger_that_fits(plans[1], plans) == 16_384
    assert larger_that_fits(plans[2], plans) is None


# ---- the screen ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "theme", "size", "options"),
    [
        ("models-140x40-daylight", "daylight", (140, 40), {}),
        ("models-80x24-hearth", "hearth", (80, 24), {}),
        ("models-140x30-plain", "hearth", (140, 30), {"depth": None, "ascii": True}),
    ],
)
async def test_the_picker_beside_its_picture(
    name: str, theme: str, size: tuple[int, int], options: dict[str, Any]
) -> None:
    app = Harness(theme=theme, **options)
    async with app.run_test(size=size) as pilot:
        await opened(app, pilot, servers=[("qwen3-32b", "http://127.0.0.1:8080")])
        await pilot.press("down")
        await settled(app, pilot)
        snapshots.check(app, name)


async def test_a_context_and_a_cache_are_chosen_with_the_mouse() -> None:
    app = Harness()
    async with app.run_test(size=(140, 40)) as pilot:
        picker = await opened(app, pilot)
        await pilot.press("down")
        await settled(app, pilot)
        rows = ["".join(span.text for span in row.left) for row in picker.choices.rows]
        y, cache = (next(y for y, row in enumerate(rows) if name in row) for name in ("16k", "q8_0"))
        await pilot.click("#plan", offset=(rows[y].index("16k") + 1, y))
        await pilot.click("#plan", offset=(rows[cache].index("q8_0"), cache))
        await pilot.press("enter")
        path = str(models()[1].path)
        assert app.result == ModelChoice(path, {"max_seq": 16_384, "kv_cache_type": "q8_0"})


async def test_a_context_and_a_cache_are_chosen_with_keys_and_given_back() -> None:
    app = Harness()
    async with app.run_test(size=(140, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press("down")
        await settled(app, pilot)
        await pilot.press("tab", "right", "down", "right")
        assert any("fits; 40k would fit too" in line for line in snapshots.text_of(app))
        await pilot.press("enter")
        path = str(models()[1].path)
        assert app.result == ModelChoice(path, {"max_seq": 16_384, "kv_cache_type": "q8_0"})


async def test_enter_loads_what_the_filter_found_with_the_usual_plan() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot)
        await pilot.press(*"gem", "enter")
        assert app.result == ModelChoice(str(models()[2].path), {})


async def test_a_broken_file_is_not_loaded_and_its_problem_is_said() -> None:
    app = Harness()
    async with app.run_test(size=(140, 40)) as pilot:
        await opened(app, pilot)
        await pilot.press(*"cut off", "enter")
        await settled(app, pilot)
        text = "\n".join(snapshots.text_of(app))
        assert "cannot be loaded" in text and "3 of 40 tensors are missing" in text
        assert app.result == "not closed yet"


async def test_nothing_here_and_nothing_fitting_point_at_the_download() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, models=[])
        assert any("There are no models on this machine yet." in line for line in snapshots.text_of(app))
        await pilot.press(*"qwen", "ctrl+d")
        assert app.result == ModelChoice("", {}, "qwen")


async def test_a_hostile_name_stays_on_its_row() -> None:
    app = Harness()
    async with app.run_test(size=(100, 30)) as pilot:
        name = "[bold]\x1b[31mred\u202eevil\x1b[0m\n" + "漢字" * 100
        await opened(app, pilot, models=[model("x", 1, name=name)])
        row = next(line for line in snapshots.text_of(app) if "[bold]" in line)
        assert "[31mredevil" in row and "\x1b" not in row and "1.0 GiB" in row


async def test_esc_chooses_nothing() -> None:
    app = Harness()
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(app, pilot)
        await pilot.press("escape")
        assert app.result is None


async def test_a_file_that_vanishes_while_it_is_planned_is_told() -> None:
    class Vanishing(FakeCatalog):
        def plan(self, path: Path, *, context: int | None = None, cache: str | None = None) -> LoadPlan:
            if context is not None:
                raise FileNotFoundError(f"{path.name} is gone.")
            return super().plan(path, context=context, cache=cache)

    app = Harness()
    async with app.run_test(size=(140, 40)) as pilot:
        await opened(app, pilot, catalog=Vanishing())
        assert any("is gone." in line for line in snapshots.text_of(app))


async def test_real_files_are_planned_on_this_machine(tiny_llama: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(
        bytes.fromhex("47475546030000000000000000000000010000000000000001000000000000006b08000000")
    )
    listed = [
        SimpleNamespace(
            name=path.stem, path=path, size_bytes=9, quantization="F32", kind="chat", problem=None
        )
        for path in (tiny_llama, broken)
    ]
    app = Harness()
    async with app.run_test(size=(140, 40)) as pilot:
        await opened(app, pilot, models=listed, catalog=catalog)
        text = "\n".join(snapshots.text_of(app))
        assert "fits" in text and "compute buffers" in text
        await pilot.press("down")
        await settled(app, pilot)
        assert "problem" in "\n".join(snapshots.text_of(app))
