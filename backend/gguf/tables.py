"""What the format and llama.cpp define by number or by name: tensor types, file types, architectures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class TensorType(NamedTuple):
    """A storage type of ggml: `block` elements take `block_bytes` bytes."""

    name: str
    block: int
    block_bytes: int


TENSOR_TYPES: Mapping[int, TensorType] = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    9: TensorType("Q8_1", 32, 36),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    15: TensorType("Q8_K", 256, 292),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
    40: TensorType("NVFP4", 64, 36),
    41: TensorType("Q1_0", 128, 18),
    42: TensorType("Q2_0", 64, 18),
}

REMOVED_TENSOR_TYPES = frozenset({4, 5, 31, 32, 33, 36, 37, 38})
"""Types that older files hold and llama.cpp no longer reads."""

FILE_TYPES: Mapping[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
"""`general.file_type` to the name people use for the quantization."""

ARCHITECTURES = frozenset(
    """
    afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet bloom
    chameleon chatglm codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2
    deepseek2-ocr deepseek32 deepseek4 dflash dots1 dots3note dream eagle3 ernie4_5 ernie4_5-moe
    eurobert exaone exaone-moe exaone4 falcon falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n
    gemma4 gemma4-assistant glm-dsa glm4 glm4moe glm5-next gpt-oss gpt2 gptj gptneox granite
    granite_swa granitehybrid granitemoe graniteswitch grok grovemoe hrm_text hunyuan-dense
    hunyuan-moe hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3 kimi-k3
    kimi-linear laguna lfm2 lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba mamba2
    maple mellum mimo2 minicpm minicpm3 minimax-01 minimax-m2 minimax-m3 mistral3 mistral4
    modern-bert mpt muse-glimmer nanbeige nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert
    nomic-bert-moe olmo olmo2 olmoe openelm orion paddleocr pangu-embedded phi2 phi3 phimoe plamo
    plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe
    qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp refact rnd1 rwkv6 rwkv6qwen2 rwkv7 seed_oss
    smallthinker smollm3 spark2_5 stablelm starcoder starcoder2 step35 t5 t5encoder talkie
    wavtokenizer-dec xverse
    """.split()
)
"""Architectures llama.cpp knew when this list was taken; newer ones exist, so a miss is only a hint."""

ENCODERS = frozenset(
    """
    bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 modern-bert eurobert
    gemma-embedding llama-embed t5encoder
    """.split()
)
"""Architectures that embed text and never generate it."""

DIFFUSION = frozenset({"dream", "llada", "llada-moe", "rnd1"})
"""Architectures that write a whole text at once in rounds."""

UNSUITED: Mapping[str, str] = {
    **dict.fromkeys(DIFFUSION, "is a diffusion model, which does not write token by token"),
    **dict.fromkeys(
        ("dflash", "eagle3", "gemma4-assistant"), "is a draft model, which only speeds up another model"
    ),
    **dict.fromkeys(("wavtokenizer-dec", "qwen3tts", "pockettts"), "makes sound, not text"),
    "t5": "is an encoder-decoder, which cannot chat",
}
"""Architectures llama.cpp loads and a chat cannot use, with the reason as a clause."""

WINDOW_PERIODS: Mapping[str, int] = {
    "afmoe": 4,
    "cohere2": 4,
    "exaone4": 4,
    "gemma-embedding": 6,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "llama4": 4,
    "olmo2": 4,
}
"""Where the file does not say it: every n-th layer sees the whole context, the others a window."""
