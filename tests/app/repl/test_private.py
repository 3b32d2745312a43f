"""Private chats line by line: left, they are closed, the engine forgets them, and nothing leads back."""

from __future__ import annotations

import pytest

from app.repl.chat import CLOSED
from app.repl.face import ReplFace
from backend.engines.scripted import ScriptedEngine
from backend.types import EngineError
from tests.app.repl.chatting import chat


@pytest.mark.parametrize("leaving", ["/new", "/private", "/delete", "/quit"])
async def test_a_private_chat_that_is_left_is_closed_and_that_is_told(leaving: str) -> None:
    ids: list[str | None] = []
    faces: list[ReplFace] = []
    told = await chat(
        *("/private", "a secret", lambda: ids.append(faces[0].session_id), leaving),
        scripts=[["psst"]],
        watch=faces.append,
    )
    assert told.engine.forgotten == ids and ids[0] is not None
    assert told.seen.count(CLOSED) == 1


async def test_the_end_of_input_closes_a_private_chat() -> None:
    told = await chat("a secret", scripts=[["psst"]], private=True)
    assert len(told.engine.forgotten) == 1
    assert CLOSED in told.seen


async def test_from_a_private_chat_one_comes_back_to_those_that_are_kept() -> None:
    faces: list[ReplFace] = []
    told = await chat(
        *("aloud", "/private", "a secret", "/resume", "hello again"),
        scripts=[["one"], ["psst"], ["three"]],
        answers=["aloud"],
        watch=faces.append,
    )
    assert len(told.engine.forgotten) == 1
    assert told.seen.index("psst") < told.seen.index(CLOSED) < told.seen.index("hello again")
    said = str(told.engine.requests[-1].messages)
    assert "aloud" in said and "a secret" not in said
    assert not faces[0].is_private


async def test_where_there_is_no_such_chat_the_private_one_stays_open() -> None:
    told = await chat("/private", "a secret", "/resume nowhere", "more", scripts=[["psst"], ["two"]])
    assert "No chat starts with" in told.seen
    assert "a secret" in str(told.engine.requests[-1].messages)


async def test_a_private_chat_stays_open_beside_its_copy() -> None:
    told = await chat("/private", "a secret", "/fork", "/new", scripts=[["psst"]])
    assert len(told.engine.forgotten) == 2
    assert told.seen.index("original is unchanged") < told.seen.index(CLOSED)


async def test_one_that_the_engine_fails_to_forget_is_closed_too_and_that_is_told() -> None:
    class Broken(ScriptedEngine):
        async def forget(self, conversation: str) -> None:
            raise EngineError("The engine ended.", remedy="Load the model again.")

    told = await chat(
        *("/private", "a secret", "/new", "aloud"), engine=Broken([["psst"], ["two"]], closed=True)
    )
    assert "The engine ended." in told.seen
    assert CLOSED not in told.seen
    assert "a secret" not in str(told.engine.requests[-1].messages)


async def test_a_private_chat_in_which_nothing_was_said_is_left_without_a_word() -> None:
    told = await chat("/private", "/new")
    assert CLOSED not in told.seen
