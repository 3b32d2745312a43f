"""Line by line too, only an exact answer below the whole of a call allows it."""

from __future__ import annotations

import pytest
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from app.repl.keys_input import _together
from tests.app.repl.chatting import Told, chat
from tests.app.tui.test_approvals import Recorder, call

LONG = "\n".join(f"row {number}" for number in range(90))


async def told(*answers: str, text: str = "x", plain: bool = False) -> tuple[Recorder, Told]:
    tool = Recorder()
    scripts = [[call(text=text)], ["done"]]
    return tool, await chat("go", scripts=scripts, answers=list(answers), tools=[tool], plain=plain)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        "y but only the first",
        "yes but only the first",
        "yes",
        "Y",
        "y.",
        "ys",
        "s please",
        "a y",
        "wait",
        "allow",
        "",
    ],
)
async def test_words_run_nothing(words: str, plain: bool) -> None:
    tool, _ = await told(words, plain=plain)
    assert tool.calls == []


@pytest.mark.parametrize("text", ["y\ny", "y\n", "\ny\n\n", "s\na\ny"])
async def test_lines_that_come_together_are_a_part_of_the_message(text: str) -> None:
    tool, found = await told(text, "n")
    assert tool.calls == []
    assert found.person.inserted == [text]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("answers", "runs"),
    [
        (("y", "n"), False),
        (("s", "a", "n"), False),
        (("u", "y"), True),
        (("u", "n"), False),
        (("", "y", "n"), False),
        (("",) * 20 + ("y",), False),
        (("",) * 5 + ("y",), True),
        (("n",), False),
    ],
)
async def test_a_long_call_is_read_or_allowed_by_a_key_that_says_unread(
    answers: tuple[str, ...], runs: bool, plain: bool
) -> None:
    tool, found = await told(*answers, text=LONG, plain=plain)
    assert bool(tool.calls) == runs
    assert "rows unread" in found.person.asked[0][0]
    if runs and "u" not in answers:
        assert all(f"row {number}" in found.seen for number in range(90))


async def test_always_is_offered_only_where_it_can_be_remembered() -> None:
    _, found = await told("n")
    keys = found.person.asked[0][0]
    assert ("always" in keys) == ("from now on" in found.seen)


@pytest.mark.parametrize(
    ("keys", "pasted"),
    [
        (["y", Keys.ControlM], "y\n"),
        (["y", Keys.ControlJ, "n", Keys.ControlM], "y\nn\n"),
        (["y"], None),
        ([Keys.ControlM], None),
        (["y", "e", "s"], None),
    ],
)
def test_keys_of_one_read_with_a_line_end_are_a_paste(keys: list[str], pasted: str | None) -> None:
    pressed = [KeyPress(key) for key in keys]
    found = _together(pressed)
    assert found == ([KeyPress(Keys.BracketedPaste, pasted)] if pasted else pressed)
