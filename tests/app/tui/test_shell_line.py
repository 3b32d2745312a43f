from __future__ import annotations

import time
from pathlib import Path

from app.tui.shell_line import MOST_SHOWN_BYTES, run_line


async def test_a_program_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    began = time.monotonic()
    result = await run_line("sleep 60 & echo here", tmp_path)
    assert result.output == "here\n"
    assert time.monotonic() - began < 30


async def test_much_output_is_shown_in_part_and_kept_with_its_end(tmp_path: Path) -> None:
    shown: list[str] = []
    result = await run_line(
        "i=0; while [ $i -lt 400 ]; do printf '%01000d\\n' $i; i=$((i+1)); done", tmp_path, shown.append
    )
    assert sum(map(len, shown)) < 2 * MOST_SHOWN_BYTES
    assert result.cut
    assert result.output.endswith("399\n")


async def test_characters_are_whole_and_the_end_code_is_told(tmp_path: Path) -> None:
    shown: list[str] = []
    result = await run_line("printf '\\303'; sleep 0.05; printf '\\251\\n'; exit 3", tmp_path, shown.append)
    assert "".join(shown) == result.output == "é\n"
    assert result.code == 3


async def test_a_line_that_takes_too_long_ends(tmp_path: Path) -> None:
    result = await run_line("echo begins; sleep 60", tmp_path, limit_s=0.5)
    assert result.output.startswith("begins\n")
    assert "ended after" in result.output
    assert result.code != 0
