"""The demos of this repository: each plays to its end, and draws the pictures that are shown."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from app.demo.run import run
from app.demo.script import read_demo
from app.demo.terminal_stage import TerminalStage
from app.exits import Failure

ROOT = Path(__file__).parents[3]
INNER = (sys.executable, "-P", "-m", "app.cli.played")
DEMOS = sorted((ROOT / "screenshots").glob("*.toml"))
pytestmark = [pytest.mark.model, pytest.mark.timeout(120)]


@pytest.mark.parametrize("demo", DEMOS, ids=lambda file: file.stem)
def test_a_demo_plays_and_draws_the_pictures_that_are_shown(demo: Path, tmp_path: Path) -> None:
    assert run([demo], INNER, svg=tmp_path) == 0
    drawn = sorted(tmp_path.glob("*.svg"))
    assert {file.stem for file in drawn} == {
        step.screenshot for step in read_demo(demo).steps if step.screenshot
    }
    for picture in drawn:
        shown = demo.parent / picture.name
        if os.environ.get("UPDATE_PICTURES"):
            shown.write_bytes(picture.read_bytes())
        assert shown.read_bytes() == picture.read_bytes(), f"UPDATE_PICTURES=1 draws {shown.name} anew"


def test_a_step_that_cannot_come_true_fails_the_test(tmp_path: Path) -> None:
    file = tmp_path / "never.toml"
    file.write_text('title = "Never"\n[[steps]]\nwait = "a text that nobody writes"\n')
    with pytest.raises(Failure, match="Step 1"):
        run([file], INNER, test=True, patience_s=0.2)


def test_replies_that_nobody_asks_for_are_told(tmp_path: Path) -> None:
    file = tmp_path / "left.toml"
    file.write_text('title = "Left"\nreplies = ["Hello."]\n[[steps]]\nwait = "ready"\n')
    with pytest.raises(Failure, match="1 of its replies unused"):
        run([file], INNER, test=True)


async def test_it_plays_live_on_a_terminal(tmp_path: Path) -> None:
    argv = [sys.executable, str(ROOT / "fireside.py"), "demo", str(ROOT / "screenshots" / "first-chat.toml")]
    environ = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": str(tmp_path)}
    heard: list[bytes] = []
    async with TerminalStage(
        [*argv, "--speed", "100"], (100, 30), environ=environ, heard=heard.append
    ) as stage:
        assert await stage.ended() == 0
    written = b"".join(heard)
    assert "Take the second unless" in written.decode("utf-8", "replace").replace("\x1b", "")
    assert written.index(b"\x1b[?1049h") < written.rindex(b"\x1b[?1049l")


def test_a_cast_is_recorded(tmp_path: Path) -> None:
    cast = tmp_path / "first.cast"
    assert run([ROOT / "screenshots" / "first-chat.toml"], INNER, cast=cast, speed=100) == 0
    header, *rows = map(json.loads, cast.read_text().splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, 100, 30)
    assert "SmolLM2 135M" in "".join(row[2] for row in rows)


def test_a_demo_needs_a_terminal_or_a_purpose() -> None:
    with pytest.raises(Failure, match="plays on a terminal"):
        run([DEMOS[0]], INNER)
