"""Refuses files that are no loadable model, or are known to make llama.cpp end the process."""

from __future__ import annotations

from typing import NoReturn

from backend.gguf.file import DOWNLOAD_AGAIN, fail, quoted
from backend.gguf.info import GGUFInfo, require_model
from backend.gguf.layers import number
from backend.gguf.tables import UNSUITED
from backend.types import LoadCause

_MAX_EXPERTS = 512
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_POOLINGS = range(5)
BYTE_TOKENS = frozenset(b"<0x%02X>" % byte for byte in range(256))
"""What a SentencePiece vocabulary falls back to."""


def check_model(info: GGUFInfo) -> None:
    """Raise ModelLoadError if `info` is no loadable model or would end the process inside llama.cpp.

    `info` must have been read with `tokens=True`.
    """
    check_metadata(info)
    _check_vocabulary(info)


def check_metadata(info: GGUFInfo) -> None:
    """The part of `check_model` that needs no tokens, for a listing."""
    require_model(info)
    _check_architecture(info)
    _check_experts(info)
    _check_positions(info)


# ---- what is refused -----------------------------------------------------------------------


def _check_architecture(info: GGUFInfo) -> None:
    if problem := UNSUITED.get(info.architecture):
        _refuse(info, f"{problem} ({info.architecture})", "unsupported_arch", "Choose a chat model.")


def _check_experts(info: GGUFInfo) -> None:
    count, used = _stored(info, "expert_count"), _stored(info, "expert_used_count")
    if count > _MAX_EXPERTS:
        _refuse(info, f"says it has {count:,} experts; at most {_MAX_EXPERTS} are possible")
    if used > count or (count and not used):
        _refuse(info, f"says it uses {used:,} of {count:,} experts")


def _check_positions(info: GGUFInfo) -> None:
    key = f"{info.architecture}.rope.scaling.type"
    scaling = info.metadata.get(key, "none")
    if info.kinds.get(key, "string") != "string" or scaling not in _ROPE_SCALINGS:
        _refuse(info, f"names the unknown position scaling {quoted(scaling)}")
    pooling = _stored(info, "pooling_type")
    if pooling not in _POOLINGS:
        _refuse(info, f"names the unknown pooling {pooling:,}")


def _check_vocabulary(info: GGUFInfo) -> None:
    model = info.metadata.get("tokenizer.ggml.model", "")
    if model in ("no_vocab", "none"):
        _refuse(info, "has no vocabulary", "not_a_chat_model", "Choose a model made for text.")
    tokens = frozenset(info.tokens)
    if not tokens:
        _refuse(info, "contains no tokens")
    if len(tokens) < len(info.tokens):
        # llama.cpp gives every empty token a name of its own.
        empty = max(info.tokens.count(b"") - 1, 0)
        if len(tokens) + empty < len(info.tokens):
            _refuse(info, f"contains {len(info.tokens) - len(tokens) - empty:,} tokens twice")
    if model == "llama" and not tokens >= BYTE_TOKENS:
        lacking = len(BYTE_TOKENS - tokens)
        _refuse(info, f"lacks {lacking} of the 256 byte tokens of its SentencePiece vocabulary")


def _refuse(
    info: GGUFInfo, problem: str, cause: LoadCause = "bad_metadata", remedy: str = DOWNLOAD_AGAIN
) -> NoReturn:
    fail(info.path, problem, cause, remedy)


def _stored(info: GGUFInfo, name: str) -> int:
    return number(info.metadata, f"{info.architecture}.{name}")
