"""Names what no published model has, where Python cannot tell whether llama.cpp survives it.

A file with an oddity is tried in a child process first (`backend.probe`); the rules come from files
that made llama.cpp abort, crash or read beyond its buffers.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from backend.gguf.checks import BYTE_TOKENS
from backend.gguf.info import GGUFInfo
from backend.gguf.layers import number
from backend.gguf.tables import ENCODERS, TENSOR_TYPES

_COMMON_TOKENIZERS = ("gpt2", "llama", "bert", "rwkv", "gemma4")
_NO_WEIGHTS = ("F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K")
_WEIGHT_TYPES = frozenset(kind for kind, storage in TENSOR_TYPES.items() if storage.name not in _NO_WEIGHTS)
_F32 = 0
_ALWAYS_F32 = re.compile(
    r"(_norm\.weight|\.ssm_a|\.ssm_d|\.ssm_conv1d\.weight|\.shortconv\.conv\.weight|^position_embd\.weight"
    r"|^token_types\.weight|\.ffn_gate_inp\.weight)$"
)
_BYTE_TYPE = 6
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
# Tokens that a tokenizer puts around a text, with the id that llama.cpp assumes where none is stored.
_BORDER_TOKENS = {
    "bert": {"bos": 101, "cls": 101, "seperator": 102, "unknown": 100},
    "llama": {"bos": 1, "eos": 2, "unknown": 0},
    "gpt2": {"bos": 11, "eos": 11},
}


def needs_probe(info: GGUFInfo) -> bool:
    """Whether a file that passed `check_model` is odd enough to be tried in a child process first."""
    return bool(oddities(info))


def oddities(info: GGUFInfo) -> tuple[str, ...]:
    """What is unusual about a checked model, as clauses; empty for every file a converter makes.

    `info` must have been read with `tokens=True`.
    """
    tests: tuple[tuple[Callable[[GGUFInfo], bool], str], ...] = (
        (_has_unknown_architecture, "its architecture is not on our list"),
        (_has_odd_tensors, "it stores tensors in types that models do not use"),
        (_has_odd_lists, "its vocabulary lists do not fit together"),
        (_has_odd_bytes, "its vocabulary has byte tokens that are not bytes"),
        (_has_odd_borders, "its special tokens are not in its vocabulary"),
        (_has_odd_state, "its recurrent state has a size of zero"),
        (_has_odd_heads, "its attention heads do not divide evenly"),
        (_has_odd_positions, "its rotary dimensions do not fit its heads"),
        (_has_odd_window, "its sliding window does not fit its layers"),
        (_has_odd_epsilon, "its normalisation constant is not a small number"),
        (_has_odd_experts, "it groups experts it does not have"),
        (_has_odd_outputs, "its last layers do not fit its shape"),
    )
    return tuple(text for test, text in tests if test(info))


def _has_unknown_architecture(info: GGUFInfo) -> bool:
    return not info.is_known


def _has_odd_tensors(info: GGUFInfo) -> bool:
    return any(
        tensor.type not in _WEIGHT_TYPES
        or (tensor.type != _F32 and (len(tensor.dimensions) < 2 or _ALWAYS_F32.search(name)))
        for name, tensor in info.tensors.items()
    )


def _has_odd_lists(info: GGUFInfo) -> bool:
    if info.metadata.get("tokenizer.ggml.model") not in _COMMON_TOKENIZERS:
        return True
    for key, kinds in _ARRAY_KINDS.items():
        array = info.arrays.get(key)
        if array is None:
            if key in info.kinds:
                return True
            continue
        is_parallel = key.endswith(("scores", "token_type"))
        if array.kind not in kinds or (is_parallel and array.length != info.n_vocab):
            return True
    embeddings = info.tensors.get("token_embd.weight")
    return embeddings is None or embeddings.dimensions[-1] != info.n_vocab


def _has_odd_bytes(info: GGUFInfo) -> bool:
    if b"\0" in b"".join(info.tokens):
        return True
    types = info.token_types[::4]
    if _BYTE_TYPE not in types:
        return False
    marked = {token for token, kind in zip(info.tokens, types, strict=False) if kind == _BYTE_TYPE}
    return info.metadata.get("tokenizer.ggml.model") in ("gpt2", "bert") or not marked <= BYTE_TOKENS


def _has_odd_borders(info: GGUFInfo) -> bool:
    prefix, suffix = "tokenizer.ggml.", "_token_id"
    stored = {
        key[len(prefix) : -len(suffix)]: value
        for key, value in info.metadata.items()
        if key.startswith(prefix) and key.endswith(suffix)
    }
    if any(not isinstance(value, int) or not 0 <= value < info.n_vocab for value in stored.values()):
        return True
    assumed = _BORDER_TOKENS.get(str(info.metadata.get("tokenizer.ggml.model")), {})
    return any(name not in stored and token >= info.n_vocab for name, token in assumed.items())


def _has_odd_state(info: GGUFInfo) -> bool:
    keys = (f"{info.architecture}.{name}" for name in _STATE_SIZES)
    return any(key in info.metadata and not number(info.metadata, key) for key in keys)


def _has_odd_heads(info: GGUFInfo) -> bool:
    for layer in info.layers:
        if layer.n_head_kv and (not layer.n_head or layer.n_head % layer.n_head_kv):
            return True
        if info.architecture in ENCODERS and layer.n_head * layer.key_length != info.n_embd:
            return True
    lengths = (f"{info.architecture}.attention.{name}" for name in ("key_length", "value_length"))
    if any(key in info.metadata and not number(info.metadata, key) for key in lengths):
        return True
    # Only encoders are built to look ahead; others keep a memory that does not allow it.
    looks_ahead = info.metadata.get(f"{info.architecture}.attention.causal") is False
    return looks_ahead and info.architecture not in ENCODERS


def _has_odd_positions(info: GGUFInfo) -> bool:
    key = f"{info.architecture}.rope.dimension_count"
    if key not in info.metadata:
        return False
    n_rotated = number(info.metadata, key)
    longest = max((layer.key_length for layer in info.layers if layer.n_head_kv), default=n_rotated)
    # With zero of them one architecture never comes back from its first token.
    return n_rotated == 0 or n_rotated % 2 == 1 or n_rotated > longest


def _has_odd_window(info: GGUFInfo) -> bool:
    key = f"{info.architecture}.attention.sliding_window_pattern"
    array = info.arrays.get(key)
    if array and array.length != info.n_layer:
        return True
    return (
        key in info.metadata and info.sliding_window > 0 and not any(layer.windowed for layer in info.layers)
    )


def _has_odd_epsilon(info: GGUFInfo) -> bool:
    names = ("layer_norm_epsilon", "layer_norm_rms_epsilon", "group_norm_epsilon")
    values = (info.metadata.get(f"{info.architecture}.attention.{name}", 0.0) for name in names)
    return any(not isinstance(value, float) or not 0.0 <= value < 1.0 for value in values)


def _has_odd_experts(info: GGUFInfo) -> bool:
    count, groups, used = (
        number(info.metadata, f"{info.architecture}.{name}")
        for name in ("expert_count", "expert_group_count", "expert_group_used_count")
    )
    return used > groups or groups > count or (groups > 0 and count % groups != 0)


def _has_odd_outputs(info: GGUFInfo) -> bool:
    n_predicting = number(info.metadata, f"{info.architecture}.nextn_predict_layers")
    width = info.metadata.get(f"{info.architecture}.embedding_length_out", info.n_embd)
    return n_predicting >= info.n_layer or width != info.n_embd
