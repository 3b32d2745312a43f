"""Probabilities of tokens on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backend.types import TokenLogprob

_LEAST = -9999.0
"""What a client reads for a token that cannot be: JSON has no infinity."""


def content_of(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """As chat completions show them."""
    shown = [
        {
            **_shown(token.text, token.logprob),
            "top_logprobs": [_shown(text, logprob) for _, text, logprob in token.top],
        }
        for token in tokens
    ]
    return {"content": shown, "refusal": None}


def flat(tokens: Sequence[TokenLogprob], start: int = 0) -> dict[str, Any]:
    """As completions of text show them; `start` is the offset of the first token in the text."""
    offsets: list[int] = []
    for token in tokens:
        offsets.append(start)
        start += len(token.text)
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [finite(token.logprob) for token in tokens],
        "top_logprobs": [{text: finite(logprob) for _, text, logprob in token.top} for token in tokens],
        "text_offset": offsets,
    }


def finite(logprob: float) -> float:
    """A logprob that JSON can say."""
    return max(logprob, _LEAST)


def _shown(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": finite(logprob), "bytes": list(text.encode("utf-8", "replace"))}
