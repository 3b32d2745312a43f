from pathlib import Path

import pytest

from backend import ModelLoadError, load
from tests import tiny_gguf

GREEDY = {"temperature": 0, "max_new_tokens": 24, "ignore_eos": True}


def test_an_adapter_changes_the_reply_and_its_scale_matters(tiny_llama: Path, tmp_path: Path) -> None:
    adapter = str(tiny_gguf.make_adapter(tmp_path / "a.gguf", strength=8.0))
    replies: dict[float | None, str] = {}
    for scale in (None, 0.0, 1.0):
        lora = () if scale is None else ((adapter, scale),)
        with load(tiny_llama, threads=1, lora=lora) as model:
            replies[scale] = model.generate("hello", **GREEDY)
    assert replies[0.0] == replies[None]
    assert replies[1.0] != replies[None]


def test_a_model_is_no_adapter(tiny_llama: Path) -> None:
    with pytest.raises(ModelLoadError, match="not a LoRA adapter"):
        load(tiny_llama, threads=1, lora=((str(tiny_llama), 1.0),))
