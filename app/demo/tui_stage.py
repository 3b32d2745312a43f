"""The full-screen face as a stage: without a terminal for tests and pictures, on one for people."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from app.demo.fixture import Fixture
from app.demo.picture import portable
from app.demo.player import PATIENCE_S, POLL_S, Player
from app.exits import ExitCode, Failure
from app.frontend.history import History
from app.terminal.glyphs import choose
from app.terminal.output import color_depth
from app.terminal.theming import palette, read
from app.tui.app import FiresideApp


class TuiStage:
    """The running app; `pilot` presses its keys."""

    def __init__(self, app: FiresideApp, pilot: Any) -> None:
        self._app, self._pilot = app, pilot

    async def type(self, text: str) -> None:
        for character in text:
            await self._pilot.press("ctrl+j" if character == "\n" else character)

    async def press(self, key: str) -> None:
        await self._pilot.press(key)

    async def answer(self, key: str) -> None:
        card = self._app.parts.approval
        question = card.question
        await self.press(key)
        # A letter counts once nothing followed it; what is remembered is granted by enter.
        while card.question is question and not card.is_writing:
            if card.is_choosing:
                await self.press("enter")
            await asyncio.sleep(POLL_S)

    async def settled(self) -> None:
        await self._pilot.pause()

    def screen(self) -> str:
        width, height = self._app.size
        rows = self._app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        return "\n".join(strip.text[:width].rstrip() for strip in rows[:height])

    def states(self) -> frozenset[str]:
        app, found = self._app, set[str]()
        if app.model.name and app.model.load is None:
            found.add("ready")
        if app.parts.approval.question is not None and app.parts.approval.armed:
            found.add("asking")
        elif app.chat.busy:
            found.add("running")
        else:
            found.add("idle")
        return frozenset(found)

    def picture(self, title: str) -> str:
        return portable(self._app.export_screenshot(title=title))


async def play(
    world: Fixture,
    *,
    speed: float | None = None,
    pictures: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> list[Path]:
    """Play a demo's steps on the app; the pictures that were drawn. Raises Failure.

    With a `speed` it plays on this very terminal, in that terminal's size; else on none.
    """
    demo, on_terminal = world.demo, speed is not None
    depth = color_depth() if on_terminal else "truecolor"
    app = FiresideApp(
        world.start,
        palette(read(demo.theme), depth),
        choose(False),
        make=world.make_manager,
        history=History(),
        motion=on_terminal,
        hyperlinks=True,
        catalog=world.machine,
    )
    drawn: list[Path] = []
    problem: Failure | None = None

    async def perform(pilot: Any) -> None:
        nonlocal problem
        player = Player(demo, TuiStage(app, pilot), speed, pictures, patience_s)
        try:
            await player.play()
        except Failure as err:
            problem = err
        drawn.extend(player.drawn)
        app.exit()

    try:
        await app.run_async(
            headless=not on_terminal, size=None if on_terminal else demo.size, auto_pilot=perform
        )
    finally:
        await app.startup.close_down()
    if (failure := problem or app.startup.failure) is not None:
        raise failure
    if world.engine.left:
        raise Failure(
            "demo_failed",
            f"The demo {demo.title!r} ended with {world.engine.left} of its replies unused.",
            remedy="Take them out of `replies`, or add the steps that ask for them.",
            exit_code=ExitCode.FAILED,
        )
    return drawn
