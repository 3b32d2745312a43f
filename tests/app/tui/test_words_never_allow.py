"""Words allow nothing: not those of a sentence, at no speed, nor a paste, with or without its marks."""

from __future__ import annotations

import random

import pytest
from textual.events import Key, Paste

from app.tui.widgets import approval
from tests.app.tui.pilot import Running, running
from tests.app.tui.test_approvals import Asker, Recorder, asked, call, chosen

pytestmark = pytest.mark.timeout(60)
SENTENCES = [
    "wait",
    "actually, don't",
    "stop that",
    "yes but only the first",
    "y n",
    "ya",
    "aye",
    "sa",
    "xy",
    "ws",
]
SLOW = [
    "wait",
    "stop that",
    "actually, no",
    "so",
    "as",
    "us",
    "aw",
    "sw",
    "saw",
    "ssss",
    "sasa",
    "wawa",
    "wwa",
]


def made_up(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    return ["".join(chance.choices("yyssaawuenx bh,'", k=chance.randint(2, 9))).strip() for _ in range(count)]


async def nothing_allowed(run: Running, tool: Recorder) -> None:
    assert tool.calls == []
    assert run.app.parts.approval.question is not None
    assert await run.app.manager.rules(run.app.chat.id or "") == []


async def back(run: Running) -> None:
    """The keys at the card again, the draft empty."""
    run.app.parts.draft.put("")
    run.app.parts.approval.focus()
    await run.until(lambda: run.app.parts.approval.has_focus and run.app.parts.approval.armed)


def press(run: Running, text: str) -> None:
    for char in text:
        run.app.post_message(Key("enter", "\r") if char == "\n" else Key(char, char))


@pytest.mark.parametrize("together", [False, True])
async def test_no_sentence_allows_at_the_speed_of_a_hand(
    together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval, "ALONE_S", 60.0)  # no hand is slower than this
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        for sentence in [one for one in [*SENTENCES, *made_up(1, 12)] if len(one) > 1]:
            if together:
                press(run, sentence)
            else:
                await run.pilot.press(*("space" if char == " " else char for char in sentence))
            await run.until(lambda sentence=sentence: run.app.parts.draft.text == sentence)
            await nothing_allowed(run, tool)
            await run.pilot.press("enter")
            await run.until(lambda: run.app.parts.draft.text == "")
            await nothing_allowed(run, tool)
            await back(run)


async def test_no_slow_sentence_saves_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "ALONE_S", 0.001)  # every letter is alone
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        card = run.app.parts.approval
        for sentence in [*SLOW, *(f"{'swau'[n % 4]}{one}" for n, one in enumerate(made_up(2, 10)))]:
            typed = sentence.translate(str.maketrans("ynxe", "bbbb"))  # those act by themselves
            for char in typed:
                await run.pilot.press("space" if char == " " else char)
                await run.until(lambda: not card._held)
            await run.pilot.press("enter")
            await run.pilot.pause()
            await nothing_allowed(run, tool)
            await run.pilot.press("escape") if card.is_choosing else None
            await back(run)


@pytest.mark.parametrize(
    "text", ["y", "y\n", "a\n", "s\n\n", "y\ny\ny\n", "wait\nno\n", "y and\nmore\n", "a\ny\n"]
)
@pytest.mark.parametrize("marked", [True, False])
async def test_a_paste_is_a_part_of_the_message(
    text: str, marked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not marked and len(text) < 2:
        return  # a single letter without a mark is a key
    monkeypatch.setattr(approval, "ALONE_S", 60.0)
    tool = Recorder()
    both = [call("c1", text="x"), call("c2", text="z")]
    async with running([both, ["done"]], tools=[tool]) as run:
        await asked(run)
        if marked:
            run.app.post_message(Paste(text))
        else:
            press(run, text)
        await run.until(lambda: run.app.parts.draft.text.strip() == text.strip())
        await run.pilot.pause(0.1)
        await nothing_allowed(run, tool)
        assert run.app.parts.draft.text.strip() == text.strip()


async def test_a_letter_before_a_paste_is_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "ALONE_S", 60.0)
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("y")
        run.app.post_message(Paste("es please"))
        await run.until(lambda: run.app.parts.draft.text == "yes please")
        await nothing_allowed(run, tool)


async def test_a_letter_alone_answers_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press("y")
        assert tool.calls == []
        await run.until(lambda: tool.calls == [{"text": "x"}])


async def test_what_is_remembered_is_shown_whole_and_can_be_left() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        await chosen(run, "a")
        assert "keep: exactly this call" in "\n".join(run.screen())
        await run.pilot.press("escape")
        await run.until(lambda: not run.app.parts.approval.is_choosing)
        await nothing_allowed(run, tool)
        await run.pilot.press("enter")
        await nothing_allowed(run, tool)
        await chosen(run, "a")
        await run.pilot.press("enter")
        await run.until(lambda: tool.calls == [{"text": "x"}])
        rules = await run.app.manager.rules(run.app.chat.id or "")
        assert [rule["scope"] for rule in rules] == ["always"]


async def test_words_after_a_choice_take_it_back_and_none_is_lost() -> None:
    tool = Recorder()
    async with running([[call(text="x")], ["done"]], tools=[tool]) as run:
        await asked(run)
        await chosen(run, "a")
        await run.pilot.press(*"ctually")
        await run.until(lambda: run.app.parts.draft.text == "actually")
        assert not run.app.parts.approval.is_choosing
        await run.pilot.press("enter")
        await run.until(lambda: run.app.parts.draft.text == "")
        await nothing_allowed(run, tool)


@pytest.mark.parametrize("words", ["yes but only this", "no way", "1st", "2 y"])
async def test_words_choose_nothing_in_a_form(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "ALONE_S", 60.0)
    kind = {"type": "boolean"} if words[0] in "yn" else {"type": "string", "enum": ["red", "blue"]}
    tool = Asker(schema={"type": "object", "properties": {"it": kind}})
    async with running([[call()], ["done"]], tools=[tool]) as run:
        await asked(run)
        await run.pilot.press(*("space" if char == " " else char for char in words), "enter")
        await run.until(lambda: run.app.parts.draft.text == "" and run.app.parts.waiting.messages)
        assert tool.answers == [] and run.app.parts.approval.question is not None
