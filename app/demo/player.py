"""Plays the steps of a demo on a stage: a face with somebody, or something, in front of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.demo.script import STATES, Demo, Scope, Step
from app.exits import ExitCode, Failure

PATIENCE_S = 110.0
"""How long a step may wait for what it names."""
POLL_S = 0.02
CHARS_PER_S = 14.0
KEYS: Mapping[Scope, str] = {
    "once": "y",
    "session": "s",
    "always": "a",
    "edit": "e",
    "no": "n",
    "stop": "x",
}
"""The key of an approval that gives each answer."""


class Stage(Protocol):
    """A face that a demo plays on."""

    async def type(self, text: str) -> None:
        """Type `text`; a line break in it does not send it."""

    async def press(self, key: str) -> None: ...

    async def answer(self, key: str) -> None:
        """Answer the open question by the key for it."""

    async def settled(self) -> None:
        """Wait until what was done so far is drawn."""

    def screen(self) -> str:
        """What stands on the screen now, without colours."""
        ...

    def states(self) -> frozenset[str]:
        """Which of STATES hold now."""
        ...

    def picture(self, title: str) -> str:
        """The screen as SVG."""
        ...


@dataclass
class Player:
    """Plays `demo`: with the pauses of a person where `speed` is given, else as fast as it goes.

    Pictures go to the folder `pictures`; None makes none.
    """

    demo: Demo
    stage: Stage
    speed: float | None = None
    pictures: Path | None = None
    patience_s: float = PATIENCE_S
    drawn: list[Path] = field(default_factory=list[Path])

    async def play(self) -> None:
        """All steps. Raises Failure for a step that cannot be done."""
        for number, step in enumerate(self.demo.steps, 1):
            try:
                await self._do(step)
            except TimeoutError:
                raise self._failed(number, step) from None
            await self.stage.settled()

    async def _do(self, step: Step) -> None:
        match step.action:
            case "type":
                await self._type(step.value)
            case "press":
                for key in step.value.split():
                    await self.stage.press(key)
                    await self._pause(0.4)
            case "wait":
                await self._until(step.value)
            case "approve":
                await self._until("asking")
                await self._pause(1.2)
                await self.stage.answer(KEYS[step.value])
            case "expect":
                await self._until(step.value)
            case "screenshot":
                self._draw(step.value)
            case "sleep":
                await self._pause(step.value)

    async def _type(self, text: str) -> None:
        if self.speed is None:
            await self.stage.type(text)
            return
        rhythm = random.Random(text)
        for character in text:
            await self.stage.type(character)
            # People pause at the ends of words, and never type evenly.
            await self._pause(rhythm.uniform(0.5, 1.5) * (2 if character in " .,?\n" else 1) / CHARS_PER_S)

    async def _pause(self, seconds: float) -> None:
        if self.speed is not None:
            await asyncio.sleep(seconds / self.speed)

    async def _until(self, wanted: str) -> None:
        holds = self._condition(wanted)
        deadline = time.monotonic() + self.patience_s
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError
            await asyncio.sleep(POLL_S)
            await self.stage.settled()

    def _condition(self, wanted: str) -> Callable[[], bool]:
        if wanted in STATES:
            return lambda: wanted in self.stage.states()
        # A text that a narrow screen broke over two rows is there all the same.
        flat = "".join(wanted.split())
        return lambda: flat in "".join(self.stage.screen().split())

    def _draw(self, name: str) -> None:
        if self.pictures is None:
            return
        self.pictures.mkdir(parents=True, exist_ok=True)
        file = self.pictures / f"{name}.svg"
        file.write_text(self.stage.picture(self.demo.title), encoding="utf-8")
        self.drawn.append(file)

    def _failed(self, number: int, step: Step) -> Failure:
        rows = [row.rstrip() for row in self.stage.screen().splitlines()]
        screen = "\n".join(f"  {row}" for row in rows if row)
        return Failure(
            "demo_failed",
            f"Step {number} of the demo {self.demo.title!r}, {step.action} = {step.value!r}, "
            f"did not happen within {self.patience_s:.0f} s. The screen says:\n{screen}\n",
            remedy="Correct the step, or what it waits for.",
            exit_code=ExitCode.FAILED,
        )
