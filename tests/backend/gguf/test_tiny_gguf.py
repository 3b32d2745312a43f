from __future__ import annotations

import filecmp
from pathlib import Path
from typing import get_args

import pytest

from backend import native
from backend.samplers import SamplerChain
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


def greedy(model: native.Model, context: native.Context, prompt: list[int], count: int) -> list[int]:
    batch, chain, written = native.Batch(256), SamplerChain(), list[int]()
    chain.add(native.C.llama_sampler_init_greedy())
    position, tokens = 0, prompt
    for _ in range(count):
        batch.clear()
        row = batch.add(0, position, tokens, outputs=1)
        assert context.decode(batch) == 0
        position += len(tokens)
        tokens = [chain.sample(context, row)]
        written += tokens
    chain.close()
    return written


@pytest.mark.parametrize(
    "name", ["tiny_llama", "tiny_llama_spm", "tiny_gemma3", "tiny_recurrent", "tiny_hybrid"]
)
def test_greedy_replies_vary_and_depend_on_the_prompt(name: str, request: pytest.FixtureRequest) -> None:
    model = native.Model.load(request.getfixturevalue(name))
    assert model is not None, native.log.tail()
    replies: list[list[int]] = []
    for text in ("<|im_start|>user\nhello you<|im_end|>\n", "<|im_start|>user\nhello the<|im_end|>\n"):
        context = native.Context(model, native.ContextParams(n_ctx=512, n_threads=1))
        prompt = model.tokenize(text, parse_special=True)
        replies.append(greedy(model, context, prompt, 64))
        context.close()
    model.close()
    assert replies[0] != replies[1]
    assert min(len(set(reply)) for reply in replies) > 16


def test_every_chatml_end_token_ends_a_reply(tiny_llama: Path) -> None:
    model = native.Model.load(tiny_llama, vocab_only=True)
    assert model is not None, native.log.tail()
    ends = {model.token_text(token) for token in range(model.n_vocab) if model.is_eog(token)}
    model.close()
    assert ends == set(tiny_gguf.EOG_TOKENS)


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_llama_spm"])
def test_every_text_survives_the_tokenizer(name: str, request: pytest.FixtureRequest) -> None:
    model = native.Model.load(request.getfixturevalue(name), vocab_only=True)
    assert model is not None, native.log.tail()
    text = "the cat, 你好 🙂 é\n\ttab"
    pieces = b"".join(model.piece(token) for token in model.tokenize(text))
    model.close()
    assert pieces.decode().lstrip(" ") == text


def test_the_encoder_embeds_what_it_reads(tiny_embedding: Path) -> None:
    model = native.Model.load(tiny_embedding)
    assert model is not None, native.log.tail()
    context = native.Context(model, native.ContextParams(n_ctx=128, n_threads=1, embeddings=True))
    vectors: list[list[float]] = []
    for text in ("hello world", "the cat", "hello world"):
        tokens = model.tokenize(text, add_special=True)
        batch = native.Batch(128)
        batch.add(0, 0, tokens, outputs=len(tokens))
        assert context.encode(batch) == 0
        vectors.append(context.embedding())
    context.close()
    model.close()
    assert vectors[0] == vectors[2] != vectors[1]
    assert any(vectors[0])


def test_the_adapter_fits_the_tiny_llama(tiny_llama: Path, tiny_adapter: Path) -> None:
    model = native.Model.load(tiny_llama)
    assert model is not None, native.log.tail()
    adapter = native.C.llama_adapter_lora_init(model.handle, str(tiny_adapter).encode())
    assert adapter, native.log.tail()
    model.close()
