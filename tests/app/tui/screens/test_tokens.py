"""The token view: confidence as attributes, every token reached by keys, an alternative given back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.widgets import Static

from app.sessions.errors import FiresideError
from app.sessions.manager import SessionManager
from app.tui.screens.token_flow import Token, flow, percent, span_of, tokens_of, visible
from app.tui.screens.tokens import TokenChoice, TokenView, last_tokens, record_tokens
from backend.engines.scripted import ScriptedEngine
from tests.app.tui import snapshots
from tests.app.tui.screens.harness import Harness, settled

TEXTS = ["The", " loop", " reads", " one", " element", ".", "\n", "So", " it", " ends", "."]
CHANCES = [0.9, 0.4, 0.1, 0.8, 0.95, 0.99, 0.6, 0.3, 0.7, 0.15, 0.99]

EVIL = (7, "\x1b[31m", 0.01)


async def never() -> None:
    raise AssertionError


def reply() -> list[Token]:
    return [
        Token(
            number, text, p, ((number, text, p), (100 + number, " other", (1 - p) / 2), (7, "\x1b[31m", 0.01))
        )
        for number, (text, p) in enumerate(zip(TEXTS, CHANCES, strict=True))
    ]


@pytest.mark.parametrize(
    ("name", "size", "options"),
    [
        ("tokens-80x24-hearth", (80, 24), {}),
        ("tokens-140x40-daylight", (140, 40), {"theme": "daylight"}),
        ("tokens-80x24-plain", (80, 24), {"depth": None, "ascii": True}),
    ],
)
async def test_the_token_view(name: str, size: tuple[int, int], options: dict[str, Any]) -> None:
    app = Harness(**options)
    async with app.run_test(size=size) as pilot:
        await app.open(TokenView(app, reply(), never))
        await pilot.press("n", "n")
        await pilot.pause()
        snapshots.check(app, name)


async def test_an_alternative_is_chosen_with_keys() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        view = TokenView(app, reply(), never)
        await app.open(view)
        await pilot.press("right", "right", "enter", "home", "enter")
        assert app.result == "not closed yet", "the written token is no alternative"
        await pilot.press("up", "up", "enter")
        assert app.result == TokenChoice(2, 102)


async def test_every_token_is_reached_by_rows_and_by_doubts() -> None:
    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        view = TokenView(app, reply(), never)
        await app.open(view)
        await pilot.press("down")
        await pilot.pause()
        assert view.flow.at == 7
        await pilot.press("up", "end")
        assert view.flow.at == 10
        await pilot.press("home", "n", "n", "n", "n", "n")
        assert view.flow.at == 9
        await pilot.press("p")
        assert view.flow.at == 7
        await pilot.press("escape")
        assert app.result is None


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_a_reply_without_tokens_offers_to_record_those_of_the_next(size: tuple[int, int]) -> None:
    app = Harness(behind=Static(""))
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        session = await manager.create()
        await manager.configure(session.id, config={"top_k": 3})
        async with app.run_test(size=size) as pilot:
            await app.open(TokenView(app, [], lambda: record_tokens(manager, session.id)))
            await pilot.press("tab", "n")
            await settled(app, pilot)
            words = " ".join(" ".join(snapshots.text_of(app)).split())
            assert "no recorded tokens" in words and "its likeliest alternatives." in words
            await pilot.press("enter")
            await settled(app, pilot)
            words = " ".join(" ".join(snapshots.text_of(app)).split())
            assert "Token details are recorded from the next reply on." in words
            held = (await manager.settings(session.id))["config"]["value"]
            assert held == {"top_k": 3, "logprobs": 5}
            await pilot.press("escape")
            assert app.result is None


async def test_why_tokens_cannot_be_recorded_is_told() -> None:
    async def fails() -> None:
        raise FiresideError("The chat is open in another Fireside.")

    app = Harness()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.open(TokenView(app, [], fails))
        await pilot.press("enter")
        await settled(app, pilot)
        assert any("open in another Fireside" in line for line in snapshots.text_of(app))


async def test_thousands_of_tokens_scroll_to_the_last_one() -> None:
    app = Harness()
    tokens = [Token(number, f" word{number}", 0.9) for number in range(5000)]
    async with app.run_test(size=(80, 24)) as pilot:
        view = TokenView(app, tokens, never)
        await app.open(view)
        await pilot.press("end")
        await pilot.pause()
        assert view.flow.at == 4999
        assert any("word4999" in line for line in snapshots.text_of(app))


def test_doubt_is_told_without_colour() -> None:
    spans = [span_of(Token(0, "x", p), "x") for p in (0.5, 0.49, 0.2, 0.19)]
    assert [(span.underline, span.bold) for span in spans] == [
        (False, False),
        (True, False),
        (True, False),
        (True, True),
    ]


def test_the_stores_form_becomes_probabilities() -> None:
    wire = {
        "id": 3,
        "text": "a",
        "logprob": math.log(0.25),
        "top": [[3, "a", math.log(0.25)], [4, "b", -1e9]],
    }
    (token,) = tokens_of([wire])
    assert token.p == pytest.approx(0.25) and token.others[1] == (4, "b", 0.0)
    assert tokens_of([{**wire, "logprob": float("nan"), "top": []}])[0].p == 0.0


def test_percents_are_short_and_never_zero() -> None:
    assert [percent(p) for p in (1.0, 0.41, 0.0312, 0.0004)] == ["100 %", "41 %", "3.1 %", "under 0.1 %"]


texts = st.text(st.one_of(st.sampled_from(" ab\n\t\x1b漢😀e\u0301"), st.characters()), max_size=12)


@given(st.lists(texts, max_size=30), st.integers(2, 40))
@settings(deadline=None)
def test_rows_hold_every_token_in_order_and_within_the_width(pieces: list[str], width: int) -> None:
    tokens = [Token(number, text, 0.5) for number, text in enumerate(pieces)]
    rows = flow(tokens, width)
    assert all(sum(cell_len(text) for _, text in row) <= width for row in rows)
    numbers = [number for row in rows for number, _ in row]
    assert numbers == sorted(numbers) and set(numbers) == set(range(len(tokens)))
    for number, token in enumerate(tokens):
        joined = "".join(text for row in rows for at, text in row if at == number)
        assert joined == visible(token.text, token.id)


async def test_the_newest_reply_with_tokens_is_found_in_a_chat() -> None:
    token = {"id": 3, "text": "Yes", "logprob": -0.1, "top": [[3, "Yes", -0.1]]}
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Is it?"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Yes"}],
            "tokens": [token],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Sure?"}]},
    ]
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        session = await manager.create(initial_items=items)
        item_id, tokens = await last_tokens(manager, session.id)
        assert [token.text for token in tokens] == ["Yes"]
        path = await manager.list_items(session.id)
        assert item_id == path[1].id
        empty = await manager.create()
        assert await last_tokens(manager, empty.id) == ("", [])
