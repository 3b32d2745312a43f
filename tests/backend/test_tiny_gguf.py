from __future__ import annotations

import filecmp
from pathlib import Path
from typing import get_args

import pytest

from tests import tiny_gguf


@pytest.mark.parametrize("architecture", get_args(tiny_gguf.Architecture))
def test_a_seed_names_one_file(tmp_path: Path, architecture: tiny_gguf.Architecture) -> None:
    first, again, other = (tmp_path / name for name in ("first.gguf", "again.gguf", "other.gguf"))
    tiny_gguf.make_model(first, architecture, seed=3)
    tiny_gguf.make_model(again, architecture, seed=3)
    tiny_gguf.make_model(other, architecture, seed=4)
    assert filecmp.cmp(first, again, shallow=False)
    assert not filecmp.cmp(first, other, shallow=False)
    assert first.stat().st_size < 2_000_000


def test_bpe_merges_only_name_tokens_of_the_vocabulary() -> None:
    vocab = tiny_gguf.bpe_vocab()
    assert len(set(vocab.tokens)) == len(vocab.tokens)
    for merge in vocab.merges:
        left, right = merge.split(" ")
        assert {left, right, left + right} <= set(vocab.tokens)


@pytest.mark.parametrize("vocab", [tiny_gguf.spm_vocab(), tiny_gguf.wpm_vocab()], ids=["spm", "wpm"])
def test_vocabularies_hold_no_token_twice(vocab: tiny_gguf.Vocab) -> None:
    assert len(set(vocab.tokens)) == len(vocab.tokens) == len(vocab.types)
