"""What is measured in an interpreter of its own: start-up and peak memory. Each function is the whole
work of one child process and imports what it uses itself, because imports are part of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PROGRAM = (
    "import time; began = time.perf_counter(); import sys; sys.path[:] = {path!r}; "
    "from {module} import {name}; {name}(began, *{arguments!r})"
)
_TIMEOUT_S = 600
_PROMPT, _REPLY = 512, 16
"""Tokens read and written before the peak of memory is taken."""


def child_program(module: str, name: str, *arguments: Any) -> list[str]:
    """The command that runs a function of a module in a new interpreter, with our own packages."""
    program = _PROGRAM.format(path=sys.path, module=module, name=name, arguments=arguments)
    return [sys.executable, "-I", "-c", program]


def run_fresh(name: str, *arguments: Any) -> dict[str, float]:
    """Run a function of this module in a new interpreter; what it told, and `whole`, the child's seconds.

    Raises BenchError when the child fails.
    """
    began = time.perf_counter()
    try:
        output = subprocess.run(
            child_program(__name__, name, *arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        ).stdout
        whole = time.perf_counter() - began
        return {**json.loads(output), "whole": whole}
    except (OSError, ValueError, subprocess.SubprocessError) as err:
        from backend.bench.workload import BenchError

        reason = str(err)
        if isinstance(err, subprocess.CalledProcessError):
            reason = err.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2] or reason
        raise BenchError(f"A fresh interpreter could not be measured: {reason}") from err


def bare_interpreter() -> float:
    """Seconds of `python -c pass`, what every other start is held against."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], stdin=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


# ---- run by children -----------------------------------------------------------------------


def startup(began: float, path: str, threads: int | None) -> None:
    """Import, load, and write the first token of a short chat; seconds of each."""
    from backend.model import load

    imported = time.perf_counter()
    model = load(path, threads=threads)
    loaded = time.perf_counter()
    next(iter(model.stream_generate("Say hello.", max_new_tokens=1, ignore_eos=True, decode=False)))
    first = time.perf_counter()
    print(json.dumps({"import": imported - began, "load": loaded - imported, "first_token": first - loaded}))


def engine_memory(_began: float, path: str, cells: int, threads: int | None) -> None:
    """Peak resident bytes of the model API with `cells` cells, after a prompt and a reply."""
    from backend.bench.workload import CONFIG, Prompts
    from backend.model import load

    model = load(path, max_seq=cells, threads=threads)
    prompt = model.tokenizer.decode(Prompts(model.handle.model).of(min(_PROMPT, cells // 2)))
    model.generate(prompt, raw=True, config=CONFIG, max_new_tokens=_REPLY)
    print(json.dumps({"peak": peak_resident_bytes()}))
    model.close()


def bare_memory(_began: float, path: str, setup: dict[str, Any]) -> None:
    """Peak resident bytes of the bare loop with the same context, after the same work."""
    from backend.bench.bare import BareLoop
    from backend.bench.workload import Setup

    context = Setup(**setup)
    loop = BareLoop(path, context.n_gpu_layers)
    loop.open(context)
    loop.write(min(_PROMPT, context.cells // 2), 0.0)
    print(json.dumps({"peak": peak_resident_bytes()}))
    loop.close()


def peak_resident_bytes() -> int:
    """Of this process. Not from `getrusage` on Linux, which keeps the parent's peak across an exec."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
