from __future__ import annotations

from dataclasses import replace

from app.repl.face import ReplFace
from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.repl.chatting import chat


async def test_thinking_stays_off_until_it_is_on_again_also_in_another_process() -> None:
    first = await chat("/think off", "a", "b", scripts=[["1"], ["2"]])
    assert [request.config.enable_thinking for request in first.engine.requests] == [False, False]
    again = await chat("c", "/think on", "d", scripts=[["3"], ["4"]], last=True)
    assert [request.config.enable_thinking for request in again.engine.requests] == [False, True]


async def test_a_temperature_of_zero_is_no_missing_one() -> None:
    told = await chat("/set temperature 1.5", "a", "/set temperature 0", "b", scripts=[["1"], ["2"]])
    assert [request.config.temperature for request in told.engine.requests] == [1.5, 0.0]


async def test_a_call_cannot_be_required_of_a_model_that_cannot_call() -> None:
    engine = ScriptedEngine([], closed=True, card=replace(CARD, supports_tools=False))
    told = await chat("/set tool_choice required", "/set tool_choice auto", engine=engine)
    seen = " ".join(told.seen.split())
    assert "This model cannot call tools; allow it with /set load.tool_call_format generic" in seen
    assert "tool_choice = auto, from the next message on." in seen
    told = await chat("/set tool_choice required", scripts=[])
    assert "tool_choice = required, from the next message on." in told.seen


async def test_each_setting_is_offered_with_what_it_does() -> None:
    from app.commands import complete

    found: dict[str, str] = {}

    def watch(face: ReplFace) -> None:
        faces.append(face)

    async def ask() -> None:
        for line in ("/set ", "/unset ", "/set load."):
            command = line.partition(" ")[0]
            found.update({f"{command} {one.text}": one.detail for one in await complete(faces[0], line)})

    faces: list[ReplFace] = []
    await chat("/think", ask, watch=watch)
    assert found["/set temperature"].startswith("higher is freer")
    assert found["/set load.tool_call_format"] == "how tool calls are written; generic works with any model"
    assert found["/unset workspace"] == "the folder that tools work in"
    assert [line for line, words in found.items() if not words] == []
