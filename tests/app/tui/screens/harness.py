"""A program that is nothing but a Shell: it holds a screen and records what is asked of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from app.settings.config import Settings
from app.terminal import glyphs, theming
from app.terminal.textual_theme import install
from app.tui.keys import Labels

BEHIND = "\n".join(f"row {number} of the chat behind it" for number in range(60))


class Harness(App[None]):
    """The Shell of a test. `told` holds what was said, `asked` what was asked, newest last."""

    CSS = "Screen { background: $background; color: $foreground; } #behind { height: 100%; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        *,
        theme: str = "hearth",
        depth: theming.ColorSystem | None = "truecolor",
        ascii: bool = False,
        manager: Any = None,
        behind: Any = None,
    ) -> None:
        super().__init__()
        self.palette = theming.palette(theming.read(theme), depth)
        self.glyphs = glyphs.ASCII if ascii else glyphs.UNICODE
        install(self, self.palette)
        self.manager = manager
        self.settings = Settings({})
        self.told: list[str] = []
        self.asked: list[tuple[Any, ...]] = []
        self.result: Any = "not closed yet"
        self.states: dict[str, Any] = {}
        self._behind = behind

    def compose(self) -> ComposeResult:
        yield self._behind or Static(BEHIND, id="behind", markup=False)

    async def open(self, screen: Any) -> None:
        """Push a screen; what it gives back is kept as `result`."""

        def keep(result: Any) -> None:
            self.result = result

        await self.push_screen(screen, keep)

    async def ready(self) -> None:
        pass

    async def open_chat(self, session_id: str, *, item_id: str | None = None, query: str = "") -> None:
        self.asked.append(("open_chat", session_id, item_id, query))

    async def new_chat(self, *, private: bool = False) -> None:
        self.asked.append(("new_chat", private))

    async def close_chat(self, session_id: str) -> None:
        self.asked.append(("close_chat", session_id))

    def live_states(self) -> Mapping[str, Any]:
        return self.states

    def say(self, text: str, *, error: bool = False) -> None:
        self.told.append(text)

    async def load_model(self, source: str | None, options: Mapping[str, Any] | None = None) -> bool:
        self.asked.append(("load_model", source, dict(options or {})))
        return True

    def use_theme(self, name: str) -> None:
        self.asked.append(("use_theme", name))
        self.palette = theming.palette(theming.read(name))
        install(self, self.palette)

    def label(self, name: str) -> str:
        return Labels({}, self.glyphs)(name)

    def key_rows(self) -> Sequence[tuple[str, str, str]]:
        return (
            ("write", "enter", "send"),
            ("write", "ctrl+j", "new line"),
            ("write", "ctrl+g", "open in the editor"),
            ("write", "up", "earlier message"),
            ("write", "@ / !", "file, command, shell"),
            ("read", "alt+up", "block cursor"),
            ("read", "c", "copy block, C its code"),
            ("read", "e", "edit, as a branch"),
            ("read", "f", "fork from here"),
            ("read", "end", "to the newest line"),
            ("reply", "esc", "stop, keep the text"),
            ("reply", "ctrl+r", "another variant"),
            ("reply", "[ ]", "walk the variants"),
            ("reply", "ctrl+t", "fold all thinking"),
            ("move", "ctrl+b", "chats"),
            ("move", "ctrl+n", "new chat"),
            ("move", "ctrl+f", "search all chats"),
            ("move", "ctrl+l", "models"),
            ("more", "ctrl+p", "any command, by name"),
            ("more", "/keys", "change any of these"),
            ("more", "f1 ?", "this page"),
            ("more", "shift+tab", "what runs unasked"),
            ("more", "pageup pagedown", "a page up or down"),
            ("more", "r o p t", "redo link pager tokens"),
            ("more", "ctrl+q", "quit"),
        )


async def settled(app: Harness, pilot: Pilot[None]) -> None:
    """Wait until nothing is being worked on, what work begins at its end included."""
    await pilot.pause()
    while any(not worker.is_finished for worker in app.workers):
        await pilot.pause(0.005)
    await pilot.pause()


async def until(pilot: Pilot[None], holds: Callable[[], object]) -> None:
    """Wait for a condition; it is asked whenever the program had a turn."""
    while not holds():
        await pilot.pause(0.005)
    await pilot.pause()
