"""Tries a model file in a throw-away process, so that a crash inside llama.cpp costs nothing.

Used only where the checks in Python cannot decide (`gguf_oddities.needs_probe`): a file with metadata
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

from backend.refusals import at_fault, refusal
from backend.types import ModelLoadError

_TIMEOUT_S = 20
_SLOWEST_DISK = 20_000_000
"""Bytes a second: a file gets the time such a disk needs, beyond the timeout."""
_CELLS = 64
_TEXTS = ("Hello, world.\n", "", "\u65e5\u672c \U0001f642")
"""Letters, nothing at all, and characters that fall back to bytes."""
_CHILD = "import sys; sys.path[:] = {path!r}; from backend.probe import try_model; try_model({model!r})"


def probe(path: Path) -> ModelLoadError | None:
    """Load `path` and evaluate one token in a child process; the error a load would end in, or None."""
    child = _CHILD.format(path=sys.path, model=os.fspath(path.absolute()))
    timeout_s = _TIMEOUT_S + path.stat().st_size // _SLOWEST_DISK
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", child],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout_s,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return at_fault(path, f"kept llama.cpp busy for over {timeout_s} s")
    if ended.returncode == 0:
        return None
    if ended.returncode < 0:
        return at_fault(path, f"makes llama.cpp end with {_signal_name(-ended.returncode)}")
    return refusal(path, _log_of(ended.stdout))


def try_model(path: str) -> None:
    """The child's part: load, tokenize and evaluate. Exit 0 if all of it works, else print why and exit 1."""
    from backend import native
    from backend.gguf.info import read_gguf

    embeds = read_gguf(Path(path)).is_embedding
    model = native.Model.load(path)
    if model is None:
        print(json.dumps(native.log.tail()[-4000:]))
        raise SystemExit(1)
    for token in range(model.n_vocab):
        model.piece(token)
    tokens = [token for text in _TEXTS for token in model.tokenize(text, add_special=True)][:_CELLS] or [0]
    context = native.Context(model, native.ContextParams(n_ctx=_CELLS, n_batch=_CELLS, embeddings=embeds))
    batch = native.Batch(_CELLS)
    batch.add(0, 0, tokens, outputs=len(tokens) if embeds else 1)
    if context.decode(batch) != 0:
        print(json.dumps("it could not evaluate a text"))
        raise SystemExit(1)
    if embeds:
        context.embedding(row=None if context.pools else 0)


def _log_of(output: bytes) -> str:
    try:
        return str(json.loads(output))
    except ValueError:
        return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
