from __future__ import annotations

from backend.types import ChatOutcome, ReasoningPiece, TextPiece
from tests.app.repl.chatting import chat

THOUGHT = "first consider the outer ring, then"


async def test_a_reply_that_was_cut_inside_its_thought_says_so() -> None:
    outcome = ChatOutcome(finish="length", prompt_tokens=3, text="", reasoning=THOUGHT)
    told = await chat("q", scripts=[[ReasoningPiece(THOUGHT), outcome]])
    assert "cut off while thinking" in told.seen
    assert THOUGHT not in told.seen


async def test_a_reply_that_was_cut_inside_its_answer_says_that() -> None:
    outcome = ChatOutcome(finish="length", prompt_tokens=3, text="The outer", reasoning=THOUGHT)
    told = await chat("q", scripts=[[ReasoningPiece(THOUGHT), TextPiece("The outer"), outcome]])
    assert "cut off at its token limit" in told.seen
    assert "while it thought" not in told.seen


async def test_a_reply_without_a_word_says_that_it_ended() -> None:
    told = await chat("q", "again", scripts=[[""], ["fine"]])
    assert told.seen.count("the model ended without an answer") == 1
    told = await chat("q", scripts=[[ReasoningPiece(THOUGHT)]])
    assert "the model ended with its thought" in told.seen
