from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend.gguf.checks import check_model
from backend.gguf.info import read_gguf
from backend.gguf.oddities import needs_probe, oddities
from backend.probe import probe
from backend.types import ModelLoadError
from tests import tiny_gguf

np = tiny_gguf.np

# Metadata that made llama.cpp 0.3.36 abort, crash, hang or read beyond its buffers.
ODD: list[tuple[tiny_gguf.Architecture, dict[str, Any], str]] = [
    ("llama", {"tokenizer.ggml.token_type": [1] * 10}, "lists do not fit"),
    ("llama", {"tokenizer.ggml.scores": ["a"] * 296}, "lists do not fit"),
    ("llama", {"tokenizer.ggml.merges": [1, 2]}, "lists do not fit"),
    ("llama", {"tokenizer.ggml.model": "t5"}, "lists do not fit"),
    ("llama", {"tokenizer.ggml.token_type": [6] * 296}, "byte tokens that are not bytes"),
    ("llama", {"tokenizer.ggml.bos_token_id": 99_999}, "special tokens"),
    ("bert", {"tokenizer.ggml.unknown_token_id": 65_536}, "special tokens"),
    ("mamba", {"mamba.ssm.conv_kernel": 0}, "size of zero"),
    ("llama", {"llama.attention.head_count": 0}, "do not divide"),
    ("llama", {"llama.attention.head_count": 7}, "do not divide"),
    ("bert", {"bert.attention.key_length": 64}, "do not divide"),
    ("bert", {"bert.attention.key_length": 0}, "do not divide"),
    ("lfm2", {"lfm2.attention.causal": False}, "do not divide"),
    ("lfm2", {"lfm2.rope.dimension_count": 0}, "rotary"),
    ("lfm2", {"lfm2.rope.dimension_count": 7}, "rotary"),
    ("lfm2", {"lfm2.rope.dimension_count": 65_536}, "rotary"),
    ("gemma3", {"gemma3.attention.sliding_window_pattern": [0]}, "sliding window"),
    ("llama", {"llama.attention.layer_norm_rms_epsilon": -1.5}, "normalisation"),
    ("llama", {"llama.attention.layer_norm_rms_epsilon": float("nan")}, "normalisation"),
    ("bert", {"bert.expert_group_count": 4}, "groups experts"),
    ("mamba", {"mamba.nextn_predict_layers": 64}, "last layers"),
    ("bert", {"bert.embedding_length_out": 513}, "last layers"),
]


@pytest.mark.parametrize(("architecture", "metadata", "clause"), ODD, ids=range(len(ODD)))
def test_what_llama_cpp_would_not_survive_is_odd(
    tmp_path: Path, architecture: tiny_gguf.Architecture, metadata: dict[str, Any], clause: str
) -> None:
    path = tiny_gguf.make_model(tmp_path / "odd.gguf", architecture, metadata=metadata)
    info = read_gguf(path, tokens=True)
    check_model(info)
    assert any(clause in text for text in oddities(info))


@pytest.mark.parametrize("name", ["blk.0.ssm_a", "blk.0.ssm_conv1d.weight", "output_norm.weight"])
def test_tensors_that_stay_32_bit_floats_are_odd_in_another_type(tmp_path: Path, name: str) -> None:
    shape, vocab = tiny_gguf.SHAPES["mamba"], tiny_gguf.bpe_vocab()
    weights: dict[str, Any] = dict(tiny_gguf.weights_of("mamba", shape, vocab))
    weights[name] = weights[name].astype(np.float16)
    metadata = tiny_gguf.metadata_of("mamba", shape, vocab)
    info = read_gguf(tiny_gguf.write(tmp_path / "m.gguf", "mamba", metadata, weights), tokens=True)
    assert needs_probe(info)


def test_a_quantized_matrix_is_not_odd(tmp_path: Path) -> None:
    shape, vocab = tiny_gguf.SHAPES["llama"], tiny_gguf.bpe_vocab()
    weights: dict[str, Any] = dict(tiny_gguf.weights_of("llama", shape, vocab))
    weights["output.weight"] = weights["output.weight"].astype(np.float16)
    metadata = tiny_gguf.metadata_of("llama", shape, vocab)
    info = read_gguf(tiny_gguf.write(tmp_path / "m.gguf", "llama", metadata, weights), tokens=True)
    assert oddities(info) == ()


_INTEGERS = (0, 1, 2, 3, 7, 64, 255, 513, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, -1)
_OTHERS = (0.0, -1.5, float("inf"), float("nan"), "", "x", "yarn", True, False)
_ARRAYS = ([0], [1, 2, 3], [0.5], ["a"], [2] * 6)
_VALUES = st.sampled_from((*_INTEGERS, *_OTHERS, *_ARRAYS))
_NAMES = """
    block_count feed_forward_length vocab_size expert_count expert_used_count expert_group_count
    expert_shared_count leading_dense_block_count nextn_predict_layers embedding_length_out pooling_type
    logit_scale embedding_scale attention.head_count attention.head_count_kv attention.key_length
    attention.value_length attention.sliding_window attention.sliding_window_pattern attention.causal
    attention.scale attention.max_alibi_bias attention.clamp_kqv attention.shared_kv_layers
    attention.layer_norm_epsilon attention.layer_norm_rms_epsilon rope.dimension_count rope.freq_base
    rope.scaling.type rope.scaling.factor rope.dimension_sections ssm.group_count ssm.inner_size
    ssm.state_size ssm.time_step_rank ssm.conv_kernel shortconv.l_cache
""".split()
_TOKENIZER_NAMES = """
    model pre bos_token_id eos_token_id unknown_token_id padding_token_id mask_token_id add_bos_token
    add_space_prefix precompiled_charsmap token_type_count scores merges token_type
""".split()


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    architecture=st.sampled_from(sorted(tiny_gguf.SHAPES)),
    vocab=st.sampled_from(["bpe", "spm"]),
    changes=st.dictionaries(
        st.sampled_from(_NAMES) | st.sampled_from([f"tokenizer.ggml.{name}" for name in _TOKENIZER_NAMES]),
        _VALUES,
        min_size=1,
        max_size=2,
    ),
)
def test_no_file_that_passes_ends_llama_cpp(
    tiny_models: Path,
    architecture: tiny_gguf.Architecture,
    vocab: tiny_gguf.VocabKind,
    changes: dict[str, Any],
) -> None:
    prefixed = {
        name if name.startswith("tokenizer") else f"{architecture}.{name}": value
        for name, value in changes.items()
    }
    path = tiny_gguf.make_model(
        tiny_models / "soak.gguf",
        architecture,
        vocab="wpm" if architecture == "bert" else vocab,
        metadata=prefixed,
    )
    try:
        info = read_gguf(path, tokens=True)
        check_model(info)
    except ModelLoadError:
        return
    if needs_probe(info):
        return
    failure = probe(path)
    # A refusal with a reason is fine; a signal or a hang is not.
    assert failure is None or "was refused by llama.cpp" in str(failure)
