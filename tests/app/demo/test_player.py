"""The player does each step in order, waits for what it names, and says what did not come true."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.demo.player import Player
from app.demo.script import Demo, Step
from app.exits import Failure


@dataclass
class Board:
    """A stage that shows what was typed, and is idle after some looks."""

    looks_until_idle: int = 3
    rows: list[str] = field(default_factory=lambda: [""])
    keys: list[str] = field(default_factory=list)
    looks: int = 0

    async def type(self, text: str) -> None:
        self.rows[-1] += text

    async def press(self, key: str) -> None:
        self.keys.append(key)
        if key == "enter":
            self.rows.append("")

    async def answer(self, key: str) -> None:
        await self.press(key)

    async def settled(self) -> None:
        pass

    def screen(self) -> str:
        return "\n".join(self.rows)

    def states(self) -> frozenset[str]:
        self.looks += 1
        return frozenset({"idle", "asking"} if self.looks > self.looks_until_idle else {"running"})

    def picture(self, title: str) -> str:
        return f"<svg>{title}: {self.screen()}</svg>"


def demo(*steps: Step) -> Demo:
    return Demo(title="A demo", steps=steps)


async def test_steps_are_done_in_order_and_pictures_are_drawn(tmp_path: Path) -> None:
    board = Board()
    player = Player(
        demo(
            Step(type="Say hello."),
            Step(press="escape enter"),
            Step(wait="idle"),
            Step(expect="Say hello."),
            Step(screenshot="hello"),
        ),
        board,
        pictures=tmp_path / "new",
    )
    await player.play()
    assert board.keys == ["escape", "enter"]
    assert board.looks > 3
    assert player.drawn == [tmp_path / "new" / "hello.svg"]
    assert player.drawn[0].read_text() == "<svg>A demo: Say hello.\n</svg>"


async def test_a_person_watching_sees_the_same_text_typed_letter_by_letter() -> None:
    board = Board()
    await Player(demo(Step(type="Hello, you."), Step(sleep=2)), board, speed=1e6).play()
    assert board.screen() == "Hello, you."


async def test_an_approval_is_answered_once_it_is_open() -> None:
    board = Board()
    await Player(demo(Step(approve="session")), board).play()
    assert board.keys == ["s"]
    assert board.looks > 3


async def test_what_never_comes_true_is_told_with_the_screen() -> None:
    board = Board(rows=["a row that stands there"])
    with pytest.raises(Failure) as raised:
        await Player(demo(Step(expect="another")), board, patience_s=0.01).play()
    assert "Step 1" in raised.value.message
    assert "a row that stands there" in raised.value.message


async def test_a_text_broken_over_two_rows_is_found() -> None:
    board = Board(rows=["one two", "three"])
    await Player(demo(Step(expect="two three")), board, patience_s=0.01).play()
