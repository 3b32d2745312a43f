from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.context import Cancellation, Limits
from tools.process import Ended, run_process, tool_environment

pytestmark = pytest.mark.timeout(60)  # They start processes.

ROOT = Path(__file__).resolve().parents[2]


async def shell(text: str, folder: Path, **options: object) -> Ended:
    limits = Limits(**{"time_s": 50.0, **options})  # type: ignore[arg-type]
    return await run_process(
        ("/bin/sh", "-c", text), folder=folder, limits=limits, cancellation=Cancellation()
    )


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def until(condition: Callable[[], object], seconds: float = 40.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.01)


async def test_output_of_both_streams_keeps_its_order(tmp_path: Path) -> None:
    ended = await shell("echo one; echo two >&2; echo three; exit 3", tmp_path)
    assert ended.captured.text == "one\ntwo\nthree\n"
    assert (ended.end, ended.exit_code) == ("exited", 3)


async def test_a_signal_is_an_exit_code(tmp_path: Path) -> None:
    assert (await shell("kill -9 $$", tmp_path)).exit_code == 137


async def test_a_missing_program_is_told(tmp_path: Path) -> None:
    ended = await run_process(
        ("no-such-program",), folder=tmp_path, limits=Limits(), cancellation=Cancellation()
    )
    assert ended.exit_code == 127
    assert "cannot be started" in ended.captured.text


async def test_cc_04_standard_input_is_empty(tmp_path: Path) -> None:
    assert (await shell("cat; read x; echo end", tmp_path)).captured.text == "end\n"


async def test_as_10_no_terminal_can_be_opened(tmp_path: Path) -> None:
    assert "no" in (await shell("(: </dev/tty) 2>/dev/null && echo yes || echo no", tmp_path)).captured.text


async def test_the_environment_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "s3cret")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("PATH", f".::bin:{os.environ['PATH']}")
    names = {line.partition("=")[0] for line in (await shell("env", tmp_path)).captured.text.splitlines()}
    assert "LC_TIME" in names
    assert not {"API_KEY", "LD_PRELOAD", "BASH_ENV", "PYTHONPATH"} & names
    assert all(folder.startswith("/") for folder in tool_environment()["PATH"].split(":"))
    assert tool_environment()["TERM"] == "dumb"


async def test_cc_04_a_timeout_ends_the_whole_tree(tmp_path: Path) -> None:
    command = "sleep 600 & echo $! > a; setsid sleep 600 & (trap '' TERM; sleep 600) & echo $! > b; wait"
    ended = await shell(command, tmp_path, time_s=0.5)
    assert (ended.end, ended.exit_code) == ("timed_out", None)
    for name in "ab":
        assert not alive(int((tmp_path / name).read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux adopts orphans")
async def test_nothing_that_detached_itself_is_left_behind(tmp_path: Path) -> None:
    daemon = (
        "import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
        "open('daemon','w').write(str(os.getpid()))\nopen('ready','w').close()\ntime.sleep(600)"
    )
    (tmp_path / "daemon.py").write_text(daemon)
    command = f"{sys.executable} -S daemon.py; while [ ! -e ready ]; do sleep 0.01; done; echo started"
    ended = await shell(command, tmp_path)
    assert ended.captured.text == "started\n"
    assert not alive(int((tmp_path / "daemon").read_text()))


async def test_a_background_process_does_not_keep_the_call_open(tmp_path: Path) -> None:
    ended = await shell("sleep 600 & echo done", tmp_path)
    assert (ended.captured.text, ended.end) == ("done\n", "exited")


async def test_a_cancel_ends_the_tree(tmp_path: Path) -> None:
    cancellation = Cancellation()
    limits = Limits(time_s=50)
    command = ("/bin/sh", "-c", "sleep 600 & echo $! > pid; mv pid ready; wait")
    task = asyncio.create_task(
        run_process(command, folder=tmp_path, limits=limits, cancellation=cancellation)
    )
    await until((tmp_path / "ready").exists)
    cancellation.set()
    assert (await task).end == "cancelled"
    assert not alive(int((tmp_path / "ready").read_text()))


async def test_cancelling_the_task_ends_the_tree(tmp_path: Path) -> None:
    command = "sleep 600 & echo $! > pid; mv pid ready; wait"
    task = asyncio.create_task(shell(command, tmp_path))
    await until((tmp_path / "ready").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(int((tmp_path / "ready").read_text()))


async def test_a_cancel_while_it_starts_ends_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command runs while the event loop has yet to hear that it was started."""
    start, begun = asyncio.create_subprocess_exec, asyncio.Event()

    async def slow(*command: str, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **options)
        await until((tmp_path / "ready").exists, 40)
        begun.set()
        await asyncio.sleep(0)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    task = asyncio.create_task(shell("sleep 600 & echo $! > pid; mv pid ready; wait", tmp_path))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not alive(int((tmp_path / "ready").read_text()))


async def test_the_death_of_the_parent_ends_the_tree(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib\nfrom tools.context import *\nfrom tools.process import run_process\n"
        "command = ('/bin/sh', '-c', 'setsid sleep 600 & echo $! > pid; mv pid ready; wait')\n"
        "asyncio.run(run_process(command, folder=pathlib.Path('.'), limits=Limits(), "
        "cancellation=Cancellation()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment)
    try:
        await until((tmp_path / "ready").exists)
        pid = int((tmp_path / "ready").read_text())
        assert alive(pid)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    await until(lambda: not alive(pid))


async def test_endless_output_is_ended_and_cut(tmp_path: Path) -> None:
    ended = await run_process(
        ("yes",),
        folder=tmp_path,
        limits=Limits(time_s=50, output_bytes=1000, kept_bytes=200_000),
        cancellation=Cancellation(),
        output_folder=tmp_path / "outputs",
    )
    assert ended.end == "too_much_output"
    assert len(ended.captured.text) <= 1000
    assert ended.captured.file is not None
    assert ended.captured.file.stat().st_size == 200_000


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
async def test_memory_is_bounded(tmp_path: Path) -> None:
    command = f"{sys.executable} -S -c 'x = bytearray(400 << 20); print(len(x))'"
    ended = await shell(command, tmp_path, memory_bytes=200 << 20)
    assert "MemoryError" in ended.captured.text
    assert ended.exit_code == 1


async def test_an_argument_the_system_does_not_take_is_told(tmp_path: Path) -> None:
    for bad in ("x" * 200_000, "a\0b"):
        with pytest.raises(ValueError, match="128 KiB"):
            await shell(bad, tmp_path)


async def test_output_arrives_while_it_runs(tmp_path: Path) -> None:
    seen: list[str] = []
    command = "printf 'caf\\303'; printf '\\251'; echo; while [ ! -e go ]; do sleep 0.01; done"
    task = asyncio.create_task(
        run_process(
            ("/bin/sh", "-c", command),
            folder=tmp_path,
            limits=Limits(time_s=50),
            cancellation=Cancellation(),
            on_output=seen.append,
        )
    )
    with contextlib.suppress(AssertionError):
        await until(lambda: "".join(seen) == "café\n")
    assert "".join(seen) == "café\n"
    assert not task.done()
    (tmp_path / "go").touch()
    assert (await task).exit_code == 0
