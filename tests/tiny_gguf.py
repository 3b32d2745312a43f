"""Makes small GGUF files with random weights, so that tests run real llama.cpp in milliseconds.

Every file is deterministic by `seed`. The weights are scaled so that greedy output varies from
position to position instead of collapsing to one token; what a model writes has no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from numpy.typing import NDArray

Architecture = Literal["llama", "gemma3", "mamba", "lfm2", "bert"]
VocabKind = Literal["bpe", "spm", "wpm"]
Weights = dict[str, NDArray[np.float32]]

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
EOG_TOKENS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>")
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>")
USER_TOKENS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
_NORMAL, _UNKNOWN, _CONTROL, _USER, _BYTE = 1, 2, 3, 4, 6


@dataclass(frozen=True)
class Shape:
    """Sizes of a tiny model. `head_count_kv` may differ per layer; 0 marks a layer without attention."""

    n_layer: int = 2
    n_embd: int = 64
    n_ff: int = 96
    n_head: int = 4
    head_count_kv: int | tuple[int, ...] = 2
    n_ctx: int = 2048
    sliding_window: int = 0

    @property
    def head_length(self) -> int:
        return self.n_embd // self.n_head

    def kv_heads(self, layer: int) -> int:
        return self.head_count_kv if isinstance(self.head_count_kv, int) else self.head_count_kv[layer]


SHAPES: Mapping[Architecture, Shape] = {
    "llama": Shape(),
    # Every sixth layer of gemma3 sees everything, so six layers hold both kinds.
    "gemma3": Shape(n_layer=6, sliding_window=32),
    "mamba": Shape(n_head=0, head_count_kv=0, n_ff=0),
    "lfm2": Shape(n_layer=3, head_count_kv=(0, 2, 0)),
    "bert": Shape(n_head=4, head_count_kv=4, n_ctx=512),
}


@dataclass(frozen=True)
class Vocab:
    """Tokens with their types; `merges` for BPE, `scores` for SentencePiece."""

    model: str
    pre: str
    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    special: Mapping[str, int | bool] | None = None

    def id(self, token: str) -> int:
        return self.tokens.index(token)


def bpe_vocab() -> Vocab:
    """Byte-level BPE: 256 bytes, a few English merges, ChatML's control tokens."""
    pairs = (
        "h e|t he|Ġ t|Ġt he|i n|in g|a n|an d|Ġ and|e r|o u|y ou|Ġ you|r e|o n|Ġ s|Ġ w|l l|"
        "e ll|o r|e n|a t|i s|Ġ is|s s|u s|us er|a ss|is t|ist an|istan t|ass istant"
    ).split("|")
    merged = ["".join(pair.split(" ")) for pair in pairs]
    text = [*_byte_characters(), *merged]
    tokens = (*text, *CONTROL_TOKENS, *USER_TOKENS)
    types = (_NORMAL,) * len(text) + (_CONTROL,) * len(CONTROL_TOKENS) + (_USER,) * len(USER_TOKENS)
    special = {
        "bos_token_id": tokens.index("<|im_start|>"),
        "eos_token_id": tokens.index("<|im_end|>"),
        "padding_token_id": tokens.index("<|endoftext|>"),
        "add_bos_token": False,
    }
    return Vocab("gpt2", "smollm", tokens, types, merges=tuple(pairs), special=special)


def spm_vocab() -> Vocab:
    """SentencePiece with byte fallback: letters and a few words are tokens, the rest falls to bytes."""
    words = ["▁the", "▁and", "▁you", "▁is", "ing", "er", "in", "he", "▁t", "▁a", "an", "▁s", "re", "on"]
    letters = [*"▁etaoinshrdlcumwfgypbvk.,!?'-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ\n<>|_/:", "é", "ü", "你"]
    head = ["<unk>", "<s>", "</s>"]
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    chat = [token for token in CONTROL_TOKENS if token != "<|endoftext|>"]
    tokens = (*head, *fallback, *words, *letters, *chat, *USER_TOKENS)
    types = (
        (_UNKNOWN, _CONTROL, _CONTROL)
        + (_BYTE,) * 256
        + (_NORMAL,) * (len(words) + len(letters))
        + (_CONTROL,) * len(chat)
        + (_USER,) * len(USER_TOKENS)
    )
    scores = tuple(0.0 if kind != _NORMAL else -float(rank) / 16 for rank, kind in enumerate(types))
    special = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "add_bos_token": True}
    return Vocab("llama", "default", tokens, types, scores=scores, special=special)


def wpm_vocab() -> Vocab:
    """WordPiece as BERT has it: words start with `▁`, their continuations with nothing."""
    head = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789"]
    signs = [*".,!?'-:;()"]
    words = ["▁the", "▁and", "▁hello", "▁world", "▁fire", "side", "ing", "er", "▁a", "▁cat", "▁dog"]
    words += [f"▁{letter}" for letter in [*letters, *signs] if letter != "a"]
    tokens = (*head, *words, *letters)
    types = (_CONTROL,) * len(head) + (_NORMAL,) * (len(words) + len(letters))
    special = {
        "padding_token_id": 0,
        "unknown_token_id": 1,
        "bos_token_id": 2,
        "cls_token_id": 2,
        "eos_token_id": 3,
        "seperator_token_id": 3,
        "mask_token_id": 4,
        "token_type_count": 2,
    }
    return Vocab("bert", "jina-v2-en", tokens, types, special=special)


def make_model(
    path: Path,
    architecture: Architecture = "llama",
    *,
    vocab: VocabKind | None = None,
    chat_template: str | None = CHATML,
    seed: int = 0,
    shape: Shape | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """A model of `architecture` that loads and decodes in llama.cpp, written to `path`.

    `metadata` adds or overrides keys (bool, int, float, str or a list of them). The end tokens get
    small logits, so that a greedy reply rarely ends by itself.
    """
    shape = shape or SHAPES[architecture]
    words = _vocab(vocab or ("wpm" if architecture == "bert" else "bpe"))
    values = metadata_of(architecture, shape, words)
    if chat_template is not None and architecture != "bert":
        values["tokenizer.chat_template"] = chat_template
    values.update(metadata or {})
    return write(path, architecture, values, weights_of(architecture, shape, words, seed=seed))


def metadata_of(architecture: Architecture, shape: Shape, vocab: Vocab) -> dict[str, Any]:
    """Everything a model's header needs, without a chat template."""
    return {
        "general.type": "model",
        "general.name": f"Tiny {architecture}",
        "general.file_type": 0,
        **_hyperparameters(architecture, shape),
        **_tokenizer(vocab),
    }


def weights_of(architecture: Architecture, shape: Shape, vocab: Vocab, *, seed: int = 0) -> Weights:
    """Random weights by name, with quiet logits for the control tokens of `vocab`."""
    weights = _BUILDERS[architecture](np.random.default_rng(seed), shape, len(vocab.tokens))
    if "output.weight" in weights:
        quiet = [index for index, kind in enumerate(vocab.types) if kind == _CONTROL]
        weights["output.weight"][quiet] *= 0.05
    return weights


def make_projector(path: Path) -> Path:
    """A header like a vision projector's (`mmproj`): never a model by itself."""
    values = {
        "general.type": "mmproj",
        "general.name": "Tiny projector",
        "clip.has_vision_encoder": True,
        "clip.projector_type": "mlp",
        "clip.vision.image_size": 32,
        "clip.vision.patch_size": 8,
        "clip.vision.embedding_length": 16,
        "clip.vision.block_count": 1,
        "clip.vision.projection_dim": 64,
    }
    weights = {"mm.0.weight": np.zeros((64, 16), np.float32), "mm.0.bias": np.zeros(64, np.float32)}
    return write(path, "clip", values, weights)


def make_adapter(path: Path, *, seed: int = 0, shape: Shape | None = None, strength: float = 1.0) -> Path:
    """A LoRA adapter for the tiny llama of the same shape: rank 4 on the query and value projections."""
    shape = shape or SHAPES["llama"]
    rng = np.random.default_rng(seed)
    weights: Weights = {}
    for layer in range(shape.n_layer):
        rows = {"attn_q": shape.n_embd, "attn_v": shape.kv_heads(layer) * shape.head_length}
        for name, n_out in rows.items():
            weights[f"blk.{layer}.{name}.weight.lora_a"] = _matrix(rng, 4, shape.n_embd)
            weights[f"blk.{layer}.{name}.weight.lora_b"] = _matrix(rng, n_out, 4) * np.float32(strength)
    values = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 8.0}
    return write(path, "llama", values, weights)


def make_split(folder: Path, *, n_parts: int = 3) -> list[Path]:
    """The tiny llama in `n_parts` files, in order."""
    shape, vocab = SHAPES["llama"], bpe_vocab()
    values, weights = metadata_of("llama", shape, vocab), weights_of("llama", shape, vocab)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "split.gguf", "llama", values, weights, per_part=-(-len(weights) // n_parts))
    return sorted(folder.glob("split-*-of-*.gguf"))


def write(
    path: Path,
    architecture: str,
    values: Mapping[str, Any],
    weights: Mapping[str, Any],
    *,
    per_part: int = 0,
) -> Path:
    """Write a GGUF of `values` and `weights` as they are, sensible or not.

    `per_part` tensors go into each file of a split model; 0 makes one file.
    """
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=per_part)
    for key, value in values.items():
        _add(writer, key, value)
    for name, tensor in weights.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def with_window(window: int) -> Shape:
    """The shape of the tiny gemma3 with another sliding window."""
    return replace(SHAPES["gemma3"], sliding_window=window)


# ---- metadata ------------------------------------------------------------------------------


def _vocab(kind: VocabKind) -> Vocab:
    match kind:
        case "bpe":
            return bpe_vocab()
        case "spm":
            return spm_vocab()
        case "wpm":
            return wpm_vocab()


def _byte_characters() -> list[str]:
    """The printable stand-ins of byte-level BPE for bytes 0 to 255."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(spare)) for byte in range(256)]


def _hyperparameters(architecture: Architecture, shape: Shape) -> dict[str, Any]:
    values: dict[str, Any] = {
        "context_length": shape.n_ctx,
        "embedding_length": shape.n_embd,
        "block_count": shape.n_layer,
        "feed_forward_length": shape.n_ff,
        "attention.head_count": shape.n_head,
    }
    epsilon = "attention.layer_norm_epsilon" if architecture == "bert" else "attention.layer_norm_rms_epsilon"
    values[epsilon] = 1e-5
    match architecture:
        case "llama" | "gemma3" | "lfm2":
            kv = shape.head_count_kv
            values["attention.head_count_kv"] = kv if isinstance(kv, int) else list(kv)
            values["rope.dimension_count"] = shape.head_length
            values["rope.freq_base"] = 10000.0
        case "mamba":
            values["ssm.conv_kernel"] = 4
            values["ssm.inner_size"] = 2 * shape.n_embd
            values["ssm.state_size"] = 8
            values["ssm.time_step_rank"] = 4
        case "bert":
            values["attention.causal"] = False
            values["pooling_type"] = 1
    if architecture == "gemma3":
        values["attention.key_length"] = values["attention.value_length"] = shape.head_length
        values["attention.sliding_window"] = shape.sliding_window
    if architecture == "lfm2":
        values["shortconv.l_cache"] = 3
    return {f"{architecture}.{key}": value for key, value in values.items()}


def _tokenizer(vocab: Vocab) -> dict[str, Any]:
    values: dict[str, Any] = {
        "model": vocab.model,
        "pre": vocab.pre,
        "tokens": list(vocab.tokens),
        "token_type": list(vocab.types),
        **(vocab.special or {}),
    }
    if vocab.merges:
        values["merges"] = list(vocab.merges)
    if vocab.scores:
        values["scores"] = list(vocab.scores)
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_int32(key, value) if value < 0 else writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case Sequence():
            writer.add_array(key, value)
        case _:
            raise TypeError(f"no GGUF value for {key}: {value!r}")


# ---- weights -------------------------------------------------------------------------------


def _matrix(rng: np.random.Generator, n_out: int, n_in: int, gain: float = 1.0) -> NDArray[np.float32]:
    """Random rows that keep the size of what they are applied to, times `gain`."""
    return (rng.standard_normal((n_out, n_in)) * gain / np.sqrt(n_in)).astype(np.float32)


def _ones(*dimensions: int) -> NDArray[np.float32]:
    return np.ones(dimensions, np.float32)


def _ends(rng: np.random.Generator, shape: Shape, n_vocab: int) -> Weights:
    # Logits spread by about 6: the best one stands clear of the rest, so near ties are rare.
    return {
        "token_embd.weight": _matrix(rng, n_vocab, shape.n_embd, gain=np.sqrt(shape.n_embd)),
        "output.weight": _matrix(rng, n_vocab, shape.n_embd, gain=6.0),
        "output_norm.weight": _ones(shape.n_embd),
    }


def _attention(rng: np.random.Generator, shape: Shape, layer: int) -> Weights:
    n_kv = shape.kv_heads(layer) * shape.head_length
    n_q = shape.n_head * shape.head_length
    # Sharp queries and keys look at few positions; a flat average would forget the order.
    return {
        f"blk.{layer}.attn_q.weight": _matrix(rng, n_q, shape.n_embd, gain=1.5),
        f"blk.{layer}.attn_k.weight": _matrix(rng, n_kv, shape.n_embd, gain=1.5),
        f"blk.{layer}.attn_v.weight": _matrix(rng, n_kv, shape.n_embd, gain=2.0),
        f"blk.{layer}.attn_output.weight": _matrix(rng, shape.n_embd, n_q, gain=2.0),
    }


def _gated_mlp(rng: np.random.Generator, shape: Shape, layer: int) -> Weights:
    return {
        f"blk.{layer}.ffn_norm.weight": _ones(shape.n_embd),
        f"blk.{layer}.ffn_gate.weight": _matrix(rng, shape.n_ff, shape.n_embd),
        f"blk.{layer}.ffn_up.weight": _matrix(rng, shape.n_ff, shape.n_embd),
        f"blk.{layer}.ffn_down.weight": _matrix(rng, shape.n_embd, shape.n_ff, gain=2.0),
    }


def _llama(rng: np.random.Generator, shape: Shape, n_vocab: int) -> Weights:
    weights = _ends(rng, shape, n_vocab)
    for layer in range(shape.n_layer):
        weights[f"blk.{layer}.attn_norm.weight"] = _ones(shape.n_embd)
        weights |= _attention(rng, shape, layer) | _gated_mlp(rng, shape, layer)
    return weights


def _gemma3(rng: np.random.Generator, shape: Shape, n_vocab: int) -> Weights:
    weights = _llama(rng, shape, n_vocab)
    # gemma3 multiplies embeddings by sqrt(n_embd); undone here, else they would drown the layers.
    weights["token_embd.weight"] /= np.float32(np.sqrt(shape.n_embd))
    for layer in range(shape.n_layer):
        for name in ("attn_q_norm", "attn_k_norm"):
            weights[f"blk.{layer}.{name}.weight"] = _ones(shape.head_length) * np.float32(1.5)
        for name in ("post_attention_norm", "post_ffw_norm"):
            weights[f"blk.{layer}.{name}.weight"] = _ones(shape.n_embd)
    return weights


def _mamba(rng: np.random.Generator, shape: Shape, n_vocab: int) -> Weights:
    weights = _ends(rng, shape, n_vocab)
    n_inner, n_state, n_rank, n_conv = 2 * shape.n_embd, 8, 4, 4
    decay = -np.tile(np.arange(1, n_state + 1, dtype=np.float32), (n_inner, 1))
    for layer in range(shape.n_layer):
        block = f"blk.{layer}."
        weights[block + "attn_norm.weight"] = _ones(shape.n_embd)
        weights[block + "ssm_in.weight"] = _matrix(rng, 2 * n_inner, shape.n_embd, gain=1.5)
        weights[block + "ssm_conv1d.weight"] = _matrix(rng, n_inner, n_conv, gain=1.5)
        weights[block + "ssm_conv1d.bias"] = np.zeros(n_inner, np.float32)
        weights[block + "ssm_x.weight"] = _matrix(rng, n_rank + 2 * n_state, n_inner, gain=1.5)
        weights[block + "ssm_dt.weight"] = _matrix(rng, n_inner, n_rank)
        weights[block + "ssm_dt.bias"] = np.full(n_inner, -2.0, np.float32)
        weights[block + "ssm_a"] = decay
        weights[block + "ssm_d"] = _ones(n_inner)
        weights[block + "ssm_out.weight"] = _matrix(rng, shape.n_embd, n_inner, gain=3.0)
    return weights


def _lfm2(rng: np.random.Generator, shape: Shape, n_vocab: int) -> Weights:
    weights = _ends(rng, shape, n_vocab)
    weights["token_embd_norm.weight"] = weights.pop("output_norm.weight")
    for layer in range(shape.n_layer):
        block = f"blk.{layer}."
        weights[block + "attn_norm.weight"] = _ones(shape.n_embd)
        weights |= _gated_mlp(rng, shape, layer)
        if shape.kv_heads(layer):
            weights |= _attention(rng, shape, layer)
            weights[block + "attn_q_norm.weight"] = _ones(shape.head_length) * np.float32(1.5)
            weights[block + "attn_k_norm.weight"] = _ones(shape.head_length) * np.float32(1.5)
            continue
        weights[block + "shortconv.conv.weight"] = _matrix(rng, shape.n_embd, 3)
        weights[block + "shortconv.in_proj.weight"] = _matrix(rng, 3 * shape.n_embd, shape.n_embd)
        weights[block + "shortconv.out_proj.weight"] = _matrix(rng, shape.n_embd, shape.n_embd, gain=2.0)
    return weights


def _bert(rng: np.random.Generator, shape: Shape, n_vocab: int) -> Weights:
    n_embd, n_ff = shape.n_embd, shape.n_ff

    def norm(name: str) -> Weights:
        return {f"{name}.weight": _ones(n_embd), f"{name}.bias": np.zeros(n_embd, np.float32)}

    def linear(name: str, n_out: int, n_in: int) -> Weights:
        return {f"{name}.weight": _matrix(rng, n_out, n_in), f"{name}.bias": np.zeros(n_out, np.float32)}

    weights: Weights = {
        "token_embd.weight": _matrix(rng, n_vocab, n_embd, gain=np.sqrt(n_embd)),
        "token_types.weight": _matrix(rng, 2, n_embd),
        "position_embd.weight": _matrix(rng, shape.n_ctx, n_embd),
        **norm("token_embd_norm"),
    }
    for layer in range(shape.n_layer):
        block = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights |= linear(block + name, n_embd, n_embd)
        weights |= norm(block + "attn_output_norm") | norm(block + "layer_output_norm")
        weights |= linear(block + "ffn_up", n_ff, n_embd) | linear(block + "ffn_down", n_embd, n_ff)
    return weights


_BUILDERS = {"llama": _llama, "gemma3": _gemma3, "mamba": _mamba, "lfm2": _lfm2, "bert": _bert}
