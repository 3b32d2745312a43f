"""A message that the context cannot hold: both numbers, nothing lost, and the next one is answered."""

from __future__ import annotations

from dataclasses import replace

from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.repl.chatting import chat, last_user_text

LONG = " ".join(["word"] * 1400)


async def test_it_is_told_with_both_numbers_and_the_chat_goes_on() -> None:
    engine = ScriptedEngine([["short answer"]], card=replace(CARD, max_seq=256), closed=True)
    told = await chat(LONG, "hi", engine=engine, answers=["3"])
    seen = " ".join(told.seen.replace("\u254f", " ").split())
    assert "1400 tokens" in seen and "room for 256" in seen
    assert seen.count("Shorten") == 1
    assert "Your message is kept" in seen
    assert "short answer" in seen
    assert last_user_text(engine).endswith("hi")


async def test_piped_lines_after_it_are_answered() -> None:
    engine = ScriptedEngine([["short answer"]], card=replace(CARD, max_seq=256), closed=True)
    told = await chat(LONG, "hi", engine=engine, piped=True)
    assert "short answer" in told.seen
    assert last_user_text(engine).endswith("hi")
    assert told.code == 4
