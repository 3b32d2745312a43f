"""A SentencePiece vocabulary puts a blank in front of a word: at a reply's start it is none of the reply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend import GenerativeModel, Request, load
from backend.types import ChatOutcome, PrefillProgress, TextPiece
from tests.tiny_gguf import CHATML, make_model

HI = [{"role": "user", "content": "hi"}]
BLANK_WRITTEN = CHATML.replace("'\n' + message['content']", "' ' + message['content']").replace(
    "<|im_start|>assistant\n", "<|im_start|>assistant"
)


@pytest.fixture(params=["verbatim", "with a blank"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GenerativeModel]:
    template = CHATML if request.param == "verbatim" else BLANK_WRITTEN
    path = make_model(tmp_path / "spm.gguf", "llama", vocab="spm", chat_template=template)
    with load(path, threads=1, max_seq=512) as model:
        yield model


def said(model: GenerativeModel, words: str, messages: Any = HI, **fields: Any) -> tuple[str, int]:
    """The text that a reply of exactly these words gives, and how many tokens of its prompt were reused."""
    pieces = list(model.answer(Request(messages=messages, forced=ids(model, words), **fields)))
    (outcome,) = [piece for piece in pieces if isinstance(piece, ChatOutcome)]
    assert outcome.text == "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))
    reused = max((piece.reused for piece in pieces if isinstance(piece, PrefillProgress)), default=0)
    return outcome.text, reused


def ids(model: GenerativeModel, words: str) -> tuple[int, ...]:
    """Ids that begin with the blank of a word, as such a model writes them."""
    return tuple(model.tokenizer.encode(words))


def test_a_reply_that_begins_with_a_word_has_no_leading_blank(model: GenerativeModel) -> None:
    assert model.tokenizer.decode(ids(model, "the end")) == " the end"
    assert said(model, "the end")[0] == "the end"


def test_a_blank_more_is_the_models_own(model: GenerativeModel) -> None:
    assert said(model, " the end")[0].startswith(" ")


def test_raw_text_goes_on_with_its_blank(model: GenerativeModel) -> None:
    pieces = list(model.answer(Request(text="hi", forced=ids(model, "the end"))))
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextPiece)) == " the end"


def test_a_reply_that_is_continued_keeps_its_blank(model: GenerativeModel) -> None:
    begun = [*HI, {"role": "assistant", "content": "so"}]
    assert said(model, "the end", begun, continue_reply=True)[0] == " the end"


def test_the_next_turn_reads_none_of_the_reply_again(model: GenerativeModel) -> None:
    words = "the and you is the and you"
    text, _ = said(model, words, conversation="chat")
    prompt = len(model.pipeline.prepare(Request(messages=HI)).result().tokens)
    later = [*HI, {"role": "assistant", "content": text}, {"role": "user", "content": "and"}]
    reused = said(model, "on", later, conversation="chat")[1]
    assert reused >= prompt + len(ids(model, words)) - 1
