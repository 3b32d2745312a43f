from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import Future

import pytest

from app.terminal.priority import NICENESS, drawing_yields

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


async def look() -> dict[str, int]:
    with drawing_yields():
        process = await asyncio.create_subprocess_exec("nice", stdout=asyncio.subprocess.PIPE)
        written, _ = await process.communicate()
        return {
            "drawing": niceness(),
            "worker": await asyncio.to_thread(niceness),
            "process": int(subprocess.run(["nice"], capture_output=True, check=True).stdout),
            "process of the loop": int(written),
        }


def in_a_thread_of_its_own() -> dict[str, int]:
    """`look`, in a thread that may be spoilt: nobody gets a priority back."""
    found: Future[dict[str, int]] = Future()

    def main() -> None:
        try:
            found.set_result(asyncio.run(look()))
        except BaseException as err:
            found.set_exception(err)

    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    return found.result()


def test_only_the_drawing_thread_yields() -> None:
    before, popen = niceness(), subprocess.Popen
    found = in_a_thread_of_its_own()
    assert found.pop("drawing") == NICENESS
    assert set(found.values()) == {before}
    assert subprocess.Popen is popen
    assert niceness() == before


def test_errors_of_a_start_come_through() -> None:
    async def start() -> None:
        with drawing_yields():
            with pytest.raises(FileNotFoundError):
                subprocess.run(["/no/such/program"], check=False)
            with pytest.raises(FileNotFoundError):
                await asyncio.create_subprocess_exec("/no/such/program")

    thread = threading.Thread(target=lambda: asyncio.run(start()))
    thread.start()
    thread.join()
