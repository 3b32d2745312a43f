"""Text to token ids and back, by the vocabulary inside the model file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from backend.config_checks import shown
from backend.engine.detokenize import Detokenizer
from backend.native import Model
from backend.request_checks import check_flags, check_ids, check_prompt

SENTENCE_PIECE = 1
"""`Model.vocab_type` of such a vocabulary."""
_FENCE = "\x01"
"""A character of no word: put in front of a text it keeps a SentencePiece vocabulary from adding a
space there, and its own tokens are cut off again."""


class StreamingDecoder:
    """Ids in pieces to text in pieces; an unfinished character waits for its last byte."""

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None:
        self._detokenizer = Detokenizer(tokenizer.visible_piece if skip_special_tokens else tokenizer.piece)

    def push(self, ids: Iterable[int]) -> str:
        return "".join(map(self._detokenizer.push, check_ids(ids)))

    def flush(self) -> str:
        """What was held: an unfinished character as U+FFFD."""
        return self._detokenizer.flush()


class Tokenizer:
    """The model's own tokenizer (checklist 10). Ids are ints below `vocab_size`.

    Everything raises ValueError once the model is closed: its vocabulary is freed memory then.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def _open(self) -> Model:
        if self._model.handle is None:
            raise ValueError("the model is closed")
        return self._model

    @property
    def vocab_size(self) -> int:
        return self._model.n_vocab

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Ids of `text`. Control tokens are recognised in it only with `special`; no BOS is added."""
        check_flags(special=special)
        return self._open.tokenize(check_prompt(text, "text"), parse_special=special)

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of `ids`; bytes that are not UTF-8 become U+FFFD."""
        check_ids(ids)
        decoder = self.streaming_decoder(skip_special_tokens=skip_special_tokens)
        return decoder.push(ids) + decoder.flush()

    def piece(self, token: int) -> bytes:
        """The bytes of one token, a control token spelled out. ValueError outside the vocabulary."""
        if not isinstance(token, int) or not 0 <= token < self._open.n_vocab:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"token {shown(token)} is outside the vocabulary of {self._open.n_vocab}")
        return self._open.piece(token)

    def visible_piece(self, token: int) -> bytes:
        """The bytes of one token, nothing for a control token."""
        piece = self.piece(token)
        return b"" if self._open.is_control(token) else piece

    def streaming_decoder(self, *, skip_special_tokens: bool = True) -> StreamingDecoder:
        """A decoder for ids that arrive one after another."""
        check_flags(skip_special_tokens=skip_special_tokens)
        return StreamingDecoder(self, skip_special_tokens=skip_special_tokens)

    @cached_property
    def special_texts(self) -> tuple[str, ...]:
        """Every control or user-defined token as text."""
        pieces = (self._open.piece(token) for token in self._open.special_tokens)
        return tuple(piece.decode("utf-8", "replace") for piece in pieces)

    def encode_prompt(self, parts: Sequence[str]) -> list[int]:
        """Ids of a prompt that a template wrote, with one BOS where the vocabulary wants one.

        Control tokens are parsed in each part; none forms across a border between parts.
        """
        first, *rest = parts or ("",)
        tokens = self._open.tokenize(first, parse_special=True) + self.encode_rest(rest)
        if self._open.adds_bos and (not tokens or tokens[0] != self._open.bos):
            tokens.insert(0, self._open.bos)
        return tokens

    def encode_rest(self, parts: Sequence[str]) -> list[int]:
        """Ids of parts that continue a prompt."""
        return [token for part in parts for token in self._inner(part)]

    def _inner(self, part: str) -> list[int]:
        """Ids of a part that continues another: no space is put in front of it."""
        if not self._fence:
            return self._open.tokenize(part, parse_special=True)
        tokens = self._open.tokenize(_FENCE + part, parse_special=True)
        return tokens[len(self._fence) :] if tokens[: len(self._fence)] == self._fence else tokens

    @cached_property
    def _fence(self) -> list[int]:
        return self._open.tokenize(_FENCE) if self._open.vocab_type == SENTENCE_PIECE else []
