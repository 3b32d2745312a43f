from __future__ import annotations

from tests.app.repl.chatting import chat


async def test_thinking_stays_off_until_it_is_on_again_also_in_another_process() -> None:
    first = await chat("/think off", "a", "b", scripts=[["1"], ["2"]])
    assert [request.config.enable_thinking for request in first.engine.requests] == [False, False]
    again = await chat("c", "/think on", "d", scripts=[["3"], ["4"]], last=True)
    assert [request.config.enable_thinking for request in again.engine.requests] == [False, True]


async def test_a_temperature_of_zero_is_no_missing_one() -> None:
    told = await chat("/set temperature 1.5", "a", "/set temperature 0", "b", scripts=[["1"], ["2"]])
    assert [request.config.temperature for request in told.engine.requests] == [1.5, 0.0]
