"""Lets the engine go first: the drawing thread yields to it, and nothing it starts inherits that.

On Linux a thread has a priority of its own, which the threads and processes it starts inherit and
cannot raise again. So they are started by threads that were there before.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

NICENESS = 19
WORKERS = 12


@contextmanager
def drawing_yields() -> Generator[None]:
    """From here on the calling thread, which draws and runs the event loop, has the lowest priority.

    `asyncio.to_thread` and `subprocess.Popen` go by threads that keep theirs; the thread itself does
    not get its own back. Does nothing but on Linux. Call it in the running event loop.
    """
    if sys.platform != "linux":
        yield
        return
    workers = _started(ThreadPoolExecutor(WORKERS, thread_name_prefix="fireside-work"), WORKERS)
    starter = _started(ThreadPoolExecutor(1, thread_name_prefix="fireside-start"), 1)
    asyncio.get_running_loop().set_default_executor(workers)
    plain = subprocess.Popen
    subprocess.Popen = _by_helper(starter)  # asyncio, too, finds it there
    with suppress(OSError):  # where it is forbidden, all have the same priority
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    try:
        yield
    finally:
        subprocess.Popen = plain
        starter.shutdown(wait=False)


def _by_helper(starter: ThreadPoolExecutor) -> type[subprocess.Popen[Any]]:
    """A Popen that the helper's thread constructs, and so is the parent of its priority."""

    class HelperPopen(subprocess.Popen[Any]):
        def __init__(self, *args: Any, **options: Any) -> None:
            starter.submit(super().__init__, *args, **options).result()

    return HelperPopen


def _started(pool: ThreadPoolExecutor, size: int) -> ThreadPoolExecutor:
    """`pool` with all of its threads running: a pool starts them by whoever needs one."""
    barrier = threading.Barrier(size + 1)
    for _ in range(size):
        pool.submit(barrier.wait)
    barrier.wait()
    return pool
