"""Judges whether llama.cpp can be trusted with a file whose header was read.

`check_model` refuses what is known to make llama.cpp end the process. `oddities` names what no
published model has and Python cannot decide: such a file is tried in a child process first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from backend.gguf import GGUFInfo, require_model
from backend.gguf_file import DOWNLOAD_AGAIN, fail, quoted
from backend.gguf_layers import number
from backend.gguf_tables import TENSOR_TYPES, UNSUITED
from backend.types import LoadCause

_MAX_EXPERTS = 512
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")
_POOLINGS = range(5)
_COMMON_TOKENIZERS = ("gpt2", "llama", "bert", "rwkv", "gemma4")
_WEIGHT_TYPES = frozenset(
    kind
    for kind, storage in TENSOR_TYPES.items()
    if storage.name not in ("F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K")
)
_F32 = 0
_BYTE_TOKENS = frozenset(b"<0x%02X>" % byte for byte in range(256))
_STATE_SIZES = (
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "ssm.group_count",
    "wkv.head_size",
    "shortconv.l_cache",
    "kda.head_dim",
)
_ARRAY_KINDS = {
    "tokenizer.ggml.tokens": ("string",),
    "tokenizer.ggml.merges": ("string",),
    "tokenizer.ggml.scores": ("float32",),
    "tokenizer.ggml.token_type": ("int32", "uint32"),
}


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


def needs_probe(info: GGUFInfo) -> bool:
    """Whether a file that passed `check_model` is odd enough to be tried in a child process first."""
    return bool(oddities(info))


def oddities(info: GGUFInfo) -> tuple[str, ...]:
    """What is unusual about a checked model, as clauses; empty for every file a converter makes."""
    tests: tuple[tuple[Callable[[GGUFInfo], bool], str], ...] = (
        (lambda info: not info.is_known, "its architecture is not on our list"),
        (_has_odd_tensors, "it stores tensors in types that models do not use"),
        (_has_odd_vocabulary, "its vocabulary lists do not fit together"),
        (_has_odd_state, "its recurrent state has a size of zero"),
        (_has_odd_heads, "its attention heads do not divide evenly"),
    )
    return tuple(text for test, text in tests if test(info))


# ---- what is refused -----------------------------------------------------------------------


def _check_architecture(info: GGUFInfo) -> None:
    if problem := UNSUITED.get(info.architecture):
        _refuse(info, f"{problem} ({info.architecture})", "unsupported_arch", "Choose a chat model.")


def _check_experts(info: GGUFInfo) -> None:
    count, used = _stored(info, "expert_count"), _stored(info, "expert_used_count")
    if count > _MAX_EXPERTS:
        _refuse(info, f"says it has {count:,} experts; {_MAX_EXPERTS} is the most")
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
        _refuse(info, "holds no tokens")
    if len(tokens) < len(info.tokens):
        # llama.cpp gives every empty token a name of its own.
        empty = max(info.tokens.count(b"") - 1, 0)
        if len(tokens) + empty < len(info.tokens):
            _refuse(info, f"holds {len(info.tokens) - len(tokens) - empty:,} tokens twice")
    if model == "llama" and not tokens >= _BYTE_TOKENS:
        lacking = len(_BYTE_TOKENS - tokens)
        _refuse(info, f"lacks {lacking} of the 256 byte tokens of its SentencePiece vocabulary")


def _refuse(
    info: GGUFInfo, problem: str, cause: LoadCause = "bad_metadata", remedy: str = DOWNLOAD_AGAIN
) -> NoReturn:
    fail(info.path, problem, cause, remedy)


# ---- what is odd ---------------------------------------------------------------------------


def _has_odd_tensors(info: GGUFInfo) -> bool:
    return any(
        tensor.type not in _WEIGHT_TYPES
        or ((len(tensor.dimensions) < 2 or name.endswith("_norm.weight")) and tensor.type != _F32)
        for name, tensor in info.tensors.items()
    )


def _has_odd_vocabulary(info: GGUFInfo) -> bool:
    if info.metadata.get("tokenizer.ggml.model") not in _COMMON_TOKENIZERS:
        return True
    for key, kinds in _ARRAY_KINDS.items():
        array = info.arrays.get(key)
        if array and (
            array.kind not in kinds or (key.endswith(("scores", "type")) and array.length != info.n_vocab)
        ):
            return True
    embeddings = info.tensors.get("token_embd.weight")
    return embeddings is None or embeddings.dimensions[-1] != info.n_vocab


def _has_odd_state(info: GGUFInfo) -> bool:
    keys = (f"{info.architecture}.{name}" for name in _STATE_SIZES)
    return any(key in info.metadata and not number(info.metadata, key) for key in keys)


def _has_odd_heads(info: GGUFInfo) -> bool:
    return any(
        layer.n_head_kv and (not layer.n_head or layer.n_head % layer.n_head_kv) for layer in info.layers
    )


def _stored(info: GGUFInfo, name: str) -> int:
    return number(info.metadata, f"{info.architecture}.{name}")
