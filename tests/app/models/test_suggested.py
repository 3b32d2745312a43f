"""Three models to go on with are named alike wherever a person may look for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli import main
from app.models.suggested import SUGGESTED
from app.terminal.figures import gib
from app.tui.screens.models import ModelChoice, ModelPicker
from tests.app.tui.screens.harness import Harness, settled

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_there_is_one_for_each_usual_amount_of_memory() -> None:
    assert [one.memory_gib for one in SUGGESTED] == [4, 8, 16]
    for one in SUGGESTED:
        assert one.size_bytes < one.memory_gib * (1 << 30) / 2


def test_the_readme_names_them_with_size_and_licence() -> None:
    for one in SUGGESTED:
        row = f"| {one.memory_gib} GiB | `{one.repository}` | {gib(one.size_bytes)} | {one.licence} |"
        assert row in README


def test_the_readme_says_what_the_starter_cannot_do_and_what_is_scripted() -> None:
    assert "often wrong" in README
    assert "The replies, chats and models in these pictures are scripted" in README


def test_the_help_of_pull_names_them(capfd: pytest.CaptureFixture[str]) -> None:
    assert main.main(["models", "pull", "--help"]) == 0
    told = capfd.readouterr().out
    for one in SUGGESTED:
        assert f"{one.memory_gib} GiB: {one.repository} ({gib(one.size_bytes)}, {one.licence})" in told


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (140, 40)])
async def test_the_picker_offers_them_and_enter_fetches_one(size: tuple[int, int]) -> None:
    app = Harness()
    chosen: list[ModelChoice | None] = []
    async with app.run_test(size=size) as pilot:
        app.push_screen(ModelPicker(app, []), chosen.append)
        await settled(app, pilot)
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        for one in SUGGESTED:
            (row,) = [row for row in rows if one.name in row]
            assert gib(one.size_bytes) in row
            assert f"{one.memory_gib} GiB, {one.licence}" in row
        assert any("There are no models on this machine yet." in row for row in rows)
        await pilot.press("down", "enter")
        await settled(app, pilot)
    assert chosen == [ModelChoice("", {}, SUGGESTED[1].repository)]
