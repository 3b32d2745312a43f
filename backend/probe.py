"""Tries a model file in a throw-away process, so that a crash inside llama.cpp costs nothing.

Used only where the checks in Python cannot decide (`gguf_checks.needs_probe`): a file with metadata
that no converter writes, or of an architecture our list does not have. It costs some 100 ms, and
reads the weights once, which the load that follows would do anyway.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from backend.gguf_file import DOWNLOAD_AGAIN, shown
from backend.loading import refusal
from backend.types import ModelLoadError

_TIMEOUT_S = 120
_CELLS = 64
_CHILD = "import sys; sys.path[:] = {path!r}; from backend.probe import try_model; try_model({model!r})"


def probe(path: Path) -> ModelLoadError | None:
    """Load `path` and evaluate one token in a child process; the error a load would end in, or None."""
    child = _CHILD.format(path=sys.path, model=os.fspath(path.absolute()))
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", child],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _failure(path, f"was not loaded within {_TIMEOUT_S} s")
    if ended.returncode == 0:
        return None
    if ended.returncode < 0:
        return _failure(path, f"makes llama.cpp end with {_signal_name(-ended.returncode)}")
    return refusal(path, _log_of(ended.stdout))


def try_model(path: str) -> None:
    """The child's part: exit 0 if the model loads and evaluates a token, else print why and exit 1."""
    from backend import native

    model = native.Model.load(path)
    if model is None:
        print(json.dumps(native.log.tail()[-4000:]))
        raise SystemExit(1)
    # Every row may have an output: models that look ahead need it.
    context = native.Context(model, native.ContextParams(n_ctx=_CELLS, n_batch=_CELLS, n_outputs_max=_CELLS))
    batch = native.Batch(_CELLS)
    batch.add(0, 0, [0], outputs=1)
    if context.decode(batch) != 0:
        print(json.dumps("it could not evaluate a token"))
        raise SystemExit(1)


def _log_of(output: bytes) -> str:
    try:
        return str(json.loads(output))
    except ValueError:
        return ""


def _failure(path: Path, problem: str) -> ModelLoadError:
    return ModelLoadError(f"{shown(path, 300)} {problem}.", cause="bad_metadata", remedy=DOWNLOAD_AGAIN)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
