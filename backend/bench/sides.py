"""Sides of a comparison in processes of their own.

Two thread teams in one process are more threads than processors to OpenMP, which then stops spinning
at its barriers and decodes several times slower or, beside a busy neighbour, faster: neither side may
run where the other does.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Protocol, TextIO

from backend.bench.fresh import child_program
from backend.bench.workload import BenchError, Setup
from backend.types import BackendError


class Side(Protocol):
    """Something that can be called by a method's name. Arguments and results are JSON-ready."""

    def call(self, method: str, *arguments: Any) -> Any: ...
    def close(self) -> None: ...


class LocalSide:
    """A side in this process."""

    def __init__(self, side: Any) -> None:
        self._side = side

    def call(self, method: str, *arguments: Any) -> Any:
        """Run a method of the side."""
        if method == "open":
            return self._side.open(Setup(**arguments[0]))
        return getattr(self._side, method)(*arguments)

    def close(self) -> None:
        """Free what it holds."""
        self._side.close()


class RemoteSide:
    """A side in a process of its own, which ends when its input is closed."""

    def __init__(self, kind: str, *arguments: Any) -> None:
        self._child = subprocess.Popen(
            child_program(__name__, "serve_side", kind, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def call(self, method: str, *arguments: Any) -> Any:
        """Have the child run a method; its result. BenchError when it fails or has ended."""
        ask, answers = self._child.stdin, self._child.stdout
        assert ask is not None and answers is not None
        try:
            ask.write(json.dumps([method, *arguments]) + "\n")
            ask.flush()
            line = answers.readline()
        except OSError as err:
            raise BenchError("A measuring process ended before its time.") from err
        if not line:
            raise BenchError("A measuring process ended before its time.")
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the child."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._child.wait()


def make_side(kind: str, *arguments: Any) -> LocalSide:
    """The side that `kind` names: bare, engine or whole."""
    if kind == "bare":
        from backend.bench.bare import BareLoop

        return LocalSide(BareLoop(*arguments))
    if kind == "engine":
        from backend.bench.ours import OurEngine

        return LocalSide(OurEngine(*arguments))
    from backend.bench.whole import WholePipeline

    return LocalSide(WholePipeline(*arguments))


def serve(make: Callable[[], LocalSide], calls: Iterable[str], answers: TextIO) -> None:
    """Make a side and answer one call per line; an expected failure is an answer too."""
    side: LocalSide | None = None
    for line in calls:
        try:
            side = side or make()
            answer = {"result": side.call(*json.loads(line))}
        except (BackendError, MemoryError) as err:
            answer = {"error": str(err)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def serve_side(_began: float, kind: str, *arguments: Any) -> None:
    """A side of comparisons: answers one call per line, and is gone once its input ends."""
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    calls: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            calls.put(line)
        os._exit(0)  # Whoever asked is gone: no measurement may go on for nobody.

    threading.Thread(target=listen, daemon=True).start()
    serve(lambda: make_side(kind, *arguments), iter(calls.get, None), sys.stdout)


class Contender:
    """A side with the context it needs, which it builds when it is asked to measure."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._setup: Setup | None = None
        self._opened: Setup | None = None
        self.rival: Contender | None = None
        """Whose context must go first, where memory holds only one."""

    def use(self, setup: Setup, *, rival: Contender | None = None) -> None:
        """Measure with this context from now on."""
        self._setup = setup
        self.rival = rival

    def has(self, setup: Setup) -> bool:
        """Whether that context is built."""
        return self._opened == setup

    def call(self, method: str, *arguments: Any) -> Any:
        """Measure, once the context is there."""
        if self.rival:
            self.rival.release()
        if self._setup and self._opened != self._setup:
            self._opened = None
            self._side.call("open", asdict(self._setup))
            self._opened = self._setup
        return self._side.call(method, *arguments)

    def release(self) -> None:
        """Free the context, until it is measured again."""
        if self._opened:
            self._opened = None
            self._side.call("close")
