"""The layers of a model by its metadata and tensors: heads, cache lengths, windows, recurrent state.

Missing or senseless values become zeros here; whether a file is fit to load is decided elsewhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backend.gguf.header import Tensor, Value
from backend.gguf.tables import WINDOW_PERIODS

_LAYER_NAME = re.compile(r"^blk\.(\d{1,5})\.(.+)$", re.DOTALL)
_STATE_NAMES = ("ssm_", "shortconv", "time_mix", "channel_mix")
_INT_MAX = 2**31 - 1
_F32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Layer:
    """One block of the model. Lengths count elements of one head."""

    n_head: int
    n_head_kv: int
    """0 where the layer keeps no keys and values."""
    key_length: int
    value_length: int
    windowed: bool
    """It sees only the sliding window."""
    state_bytes: int
    """Recurrent state of one sequence, 0 for plain attention."""
    weights_bytes: int


def numbers(metadata: Mapping[str, Value], key: str) -> tuple[int, ...]:
    """The whole numbers stored under `key`, one or an array of them, each held within 0 and 2**31 - 1."""
    value = metadata.get(key, ())
    values = value if isinstance(value, tuple) else (value,)
    return tuple(max(0, min(item, _INT_MAX)) for item in values if isinstance(item, int))


def number(metadata: Mapping[str, Value], key: str) -> int:
    """The number stored under `key`, the largest of an array, 0 if there is none."""
    return max(numbers(metadata, key), default=0)


def read_layers(
    architecture: str, metadata: Mapping[str, Value], tensors: Iterable[Tensor], n_layer: int, n_embd: int
) -> tuple[Layer, ...]:
    """`n_layer` layers as `metadata` and the names of `tensors` describe them."""

    def stored(name: str) -> int:
        return number(metadata, f"{architecture}.{name}")

    def per_layer(name: str) -> tuple[int, ...]:
        values = numbers(metadata, f"{architecture}.{name}")
        padding = values if len(values) == 1 else (0,)
        return (values + padding * n_layer)[:n_layer]

    heads = per_layer("attention.head_count")
    heads_kv = per_layer("attention.head_count_kv")
    if f"{architecture}.attention.head_count_kv" not in metadata:
        heads_kv = heads
    head_length = n_embd // max(*heads, 1) if heads else 0
    key = stored("attention.key_length") or head_length
    value = stored("attention.value_length") or head_length
    key_windowed = stored("attention.key_length_swa") or key
    value_windowed = stored("attention.value_length_swa") or value
    # Some models let the last layers read the cache of an earlier one.
    n_caching = n_layer - stored("attention.shared_kv_layers")
    windowed = _windowed(architecture, metadata, n_layer)
    state_bytes = _state_bytes(architecture, metadata, n_embd)
    own = _by_layer(tensors)
    layers: list[Layer] = []
    for index in range(n_layer):
        has_state = any(name.startswith(_STATE_NAMES) for name in own[index])
        caches = index < n_caching and _has_cache(own[index], has_state)
        layers.append(
            Layer(
                n_head=heads[index],
                n_head_kv=heads_kv[index] if caches else 0,
                key_length=key_windowed if windowed[index] else key,
                value_length=value_windowed if windowed[index] else value,
                windowed=windowed[index],
                state_bytes=state_bytes if has_state else 0,
                weights_bytes=sum(own[index].values()),
            )
        )
    return tuple(layers)


def _by_layer(tensors: Iterable[Tensor]) -> defaultdict[int, dict[str, int]]:
    """The size in bytes of every tensor, by layer and by the name within the layer."""
    found: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for tensor in tensors:
        if match := _LAYER_NAME.match(tensor.name):
            found[int(match[1])][match[2]] = tensor.size_bytes
    return found


def _has_cache(names: Iterable[str], has_state: bool) -> bool:
    # A linear-attention layer may hold a joint attn_qkv and still cache no keys and values.
    return any(
        name.startswith(("attn_k.", "attn_k_b", "attn_kv")) or (name.startswith("attn_qkv") and not has_state)
        for name in names
    )


def _windowed(architecture: str, metadata: Mapping[str, Value], n_layer: int) -> tuple[bool, ...]:
    """Which layers see only the sliding window.

    Where neither the file nor our table tells, none: the plan then counts too much memory, not too little.
    """
    if not number(metadata, f"{architecture}.attention.sliding_window"):
        return (False,) * n_layer
    pattern = metadata.get(f"{architecture}.attention.sliding_window_pattern")
    if isinstance(pattern, tuple) and len(pattern) >= n_layer:
        return tuple(bool(item) for item in pattern[:n_layer])
    period = pattern if isinstance(pattern, int) and pattern > 0 else WINDOW_PERIODS.get(architecture, 1)
    return tuple(index % period < period - 1 for index in range(n_layer))


def _state_bytes(architecture: str, metadata: Mapping[str, Value], n_embd: int) -> int:
    """Recurrent state of one layer and one sequence; llama.cpp keeps it as 32-bit floats."""

    def stored(name: str) -> int:
        return number(metadata, f"{architecture}.{name}")

    n_inner, n_state, n_conv = stored("ssm.inner_size"), stored("ssm.state_size"), stored("ssm.conv_kernel")
    convolution = max(n_conv - 1, 0) * (n_inner + 2 * stored("ssm.group_count") * n_state)
    scan = n_inner * n_state
    short_convolution = max(stored("shortconv.l_cache") - 1, 0) * n_embd
    mix = n_embd * (stored("wkv.head_size") + 2) if stored("wkv.head_size") else 0
    return _F32_BYTES * (convolution + scan + short_convolution + mix)
