from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

import pytest

from app.frontend.shell_line import MOST_SHOWN_BYTES, run_line


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
    assert result.is_cut
    assert result.output.endswith("399\n")


async def test_characters_are_whole_and_the_end_code_is_told(tmp_path: Path) -> None:
    shown: list[str] = []
    result = await run_line("printf '\\303'; sleep 0.05; printf '\\251\\n'; exit 3", tmp_path, shown.append)
    assert "".join(shown) == result.output == "é\n"
    assert result.code == 3


async def test_a_line_that_takes_too_long_ends(tmp_path: Path) -> None:
    result = await run_line("echo begins; sleep 60", tmp_path, limit_s=0.5)
    assert result.output.startswith("begins\n")
    assert result.ended == "It was ended after 0 s." and "[ended after" in result.block("x")["text"]
    assert result.code != 0


@pytest.mark.parametrize("end", ["stop", "late", "cancel"])
async def test_a_line_ends_with_all_that_it_started(tmp_path: Path, end: str) -> None:
    stop, began = asyncio.Event(), tmp_path / "began"
    line = f"sh -c \"trap '' INT TERM; echo \\$\\$ > {began}; sleep 60; sleep 60\" & echo here; wait"
    running = asyncio.create_task(run_line(line, tmp_path, stop=stop, limit_s=1.0 if end == "late" else 60.0))
    async with asyncio.timeout(30):
        while not began.exists() or not began.read_text().strip():
            await asyncio.sleep(0.01)
        if end == "stop":
            stop.set()
        elif end == "cancel":
            running.cancel()
        if end == "cancel":
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            result = await running
            assert result.output == "here\n" and result.is_stopped is (end == "stop")
        pid = int(began.read_text())
        while not _is_gone(pid):
            await asyncio.sleep(0.01)


def _is_gone(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_line_that_is_stopped_may_clean_up(tmp_path: Path) -> None:
    stop = asyncio.Event()
    line = "trap 'echo cleaned; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    result = await run_line(line, tmp_path, lambda text: stop.set(), stop=stop)
    assert result.output == "ready\ncleaned\n" and result.code == 7 and result.is_stopped
    assert result.block(line)["text"].endswith("cleaned\n\n[stopped]\n\n")


async def test_cd_leads_the_next_lines_to_another_folder(tmp_path: Path) -> None:
    (tmp_path / "in here").mkdir()
    result = await run_line("cd 'in here'", tmp_path)
    assert (result.code, result.folder, result.line_count) == (0, tmp_path / "in here", 1)
    assert (await run_line("cd", tmp_path)).folder == Path.home().resolve()
    missing = await run_line("cd missing", tmp_path)
    assert missing.code == 1 and missing.folder == tmp_path and "there is no folder" in missing.output
    both = await run_line("cd 'in here' && pwd", tmp_path)
    assert both.output == f"{tmp_path}/in here\n" and both.folder == tmp_path


@pytest.mark.parametrize("private", [False, True])
async def test_a_file_has_all_of_a_long_output(tmp_path: Path, private: bool) -> None:
    result = await run_line("seq 100000", tmp_path, private=private)
    assert result.is_cut and result.line_count == 100_000 and len(result.output) < 20_000
    if private and not Path("/dev/shm").is_dir():
        assert "whole output" not in result.output
        return
    whole = Path(result.output.partition("the whole output is in ")[2].partition("]")[0])
    assert whole.read_text().endswith("\n100000\n") and whole.stat().st_mode & 0o077 == 0
    assert not private or whole.parent == Path("/dev/shm")
    whole.unlink()


async def test_a_private_output_is_not_kept_on_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.frontend.shell_line.memory_folder", lambda: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = await run_line("seq 100000", tmp_path, private=True)
    assert "characters left out]" in result.output and list(tmp_path.iterdir()) == []


async def test_a_shell_that_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/no/shell")
    with pytest.raises(OSError, match="/no/shell cannot be started: No such file"):
        await run_line("echo here", tmp_path)
