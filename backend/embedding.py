"""Texts to vectors on an embedding model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from backend.native import Batch, Context, ContextParams, Model
from backend.types import ContextOverflowError, EngineError


def embed(model: Model, texts: Sequence[str], *, cells: int, n_threads: int) -> list[list[float]]:
    """One vector of length 1 per text, pooled as the model says (else the mean of its tokens).

    Raises ContextOverflowError for a text that does not fit, EngineError when llama.cpp fails.
    """
    tokens = [model.tokenize(text, add_special=True) or [max(model.bos, 0)] for text in texts]
    longest = max(map(len, tokens), default=0)
    if longest > cells:
        raise ContextOverflowError(longest, cells)
    if not tokens:
        return []
    rows = min(cells, max(longest, 32))
    params = ContextParams(
        n_ctx=rows, n_batch=rows, n_ubatch=rows, n_threads=n_threads, flash_attn=False, embeddings=True
    )
    try:
        context = Context(model, params)
    except MemoryError as err:
        raise EngineError(
            f"There was not enough memory to embed a text of {longest} tokens.", remedy="Split the text."
        ) from err
    try:
        return [_vector(context, ids, Batch(rows)) for ids in tokens]
    finally:
        context.close()


def _vector(context: Context, ids: list[int], batch: Batch) -> list[float]:
    batch.clear()
    batch.add(0, 0, ids, outputs=len(ids))
    context.wipe(0)
    if code := context.decode(batch):
        raise EngineError(f"llama.cpp could not embed the text (code {code}).")
    if context.pools:
        vector = context.embedding(seq_id=0)
    else:
        columns = zip(*(context.embedding(row=row) for row in range(len(ids))), strict=True)
        vector = [sum(column) / len(ids) for column in columns]
    norm = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / norm for value in vector]
