"""The screen: where its parts stand, what they are drawn with, and nothing of what they mean."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget

from app.frontend.history import History
from app.frontend.paste import normalized
from app.frontend.start import in_thread
from app.terminal.fd_guard import FdGuard
from app.terminal.glyphs import Glyphs
from app.terminal.guard import interrupts_left_to_programs
from app.terminal.output import sanitize, title_sequence
from app.terminal.textual_theme import install
from app.terminal.theming import Palette
from app.tui.bell import Attention
from app.tui.driver import ScreenDriver
from app.tui.frame import composer_rows, is_tall, side_by_default, side_overlays, side_width
from app.tui.grid import Grid, grid_of
from app.tui.keys import Labels, bindings, keys_of
from app.tui.transcript.view import Transcript
from app.tui.widgets.composer import Composer, Draft
from app.tui.widgets.seam import News, Seam
from app.tui.widgets.status import Facts, StatusBar

if TYPE_CHECKING:
    from app.tui.widgets.approval import ApprovalCard
    from app.tui.widgets.side import ChatsPane
    from app.tui.widgets.waiting import WaitingList


OFFERED = frozenset({"save_copy", "undo_delete"})
"""What the seam offers for a moment: no letter of a message that is begun then may be taken for it."""


LEAVING = ("copy", "quit", "suspend")
"""What acts from the first frame on, by the names in `keys`."""


def writing_by_vi(draft: Draft) -> bool:
    """Whether keys write, and esc would leave that mode of vi's first."""
    return draft.has_focus and draft.vi is not None and draft.vi.inserts


_PARTS = (
    "app.tui.chat.chat",
    "app.tui.transcript.gallery",
    "app.tui.widgets.approval",
    "app.tui.widgets.completion",
    "app.tui.widgets.opening",
    "app.tui.widgets.side",
    "app.tui.widgets.waiting",
)
"""What the first frame does without."""


class Stage(App[int]):
    """Composes and places the parts. `palette` and `glyphs` are what everything is drawn with.

    The first frame has few of them, so that it comes soon; `furnish` brings the rest.
    """

    TITLE = "fireside"
    ENABLE_COMMAND_PALETTE = False
    ESCAPE_TO_MINIMIZE = False
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    CSS = """
    Screen { background: $background; color: $foreground; layout: vertical; }
    MainScreen { layout: horizontal; layers: base above; }
    #side { display: none; height: 1fr; width: 31; background: $surface; }
    #side.-open { display: block; }
    #side.-overlay { layer: above; dock: left; }
    #main { width: 1fr; height: 1fr; layers: base above; }
    #transcript { height: 1fr; width: 1fr; }
    #transcript.-tall { margin-top: 1; }
    #approval, #waiting, #seam { margin-top: 1; }
    StatusBar.-tall { margin-top: 1; }
    """

    def __init__(
        self,
        palette: Palette,
        glyphs: Glyphs,
        history: History,
        *,
        motion: bool = True,
        hyperlinks: bool = True,
        keymap: Mapping[str, str] | None = None,
    ) -> None:
        """Without `motion` nothing moves by itself; `hyperlinks` where the terminal knows OSC 8.

        `keymap` binds other keys, by the names in `keys`.
        """
        super().__init__(driver_class=ScreenDriver)
        self.animation_level = "none"
        self.palette = palette
        self.glyphs = glyphs
        self.bound = dict(keymap or {})
        self.label = Labels(self.bound, glyphs)
        if self.bound:
            self._rebind()
        self.composer = Composer(glyphs, history)
        self.seam = Seam(glyphs)
        self.seam.label = self.hint_label
        self.status = StatusBar(glyphs)
        self.transcript = Transcript(
            palette=palette, glyphs=glyphs, motion=motion, hyperlinks=hyperlinks, id="transcript"
        )
        self.side = Container(id="side")
        self.furnished = False
        """Whether all parts are there."""
        self.fd_guard: FdGuard | None = None
        """What keeps native output off the screen, where there is one."""
        self.side_wanted: bool | None = None
        """Whether the person opened or closed the side pane; None: the width decides."""
        self._motion = motion
        self._title = ""
        self._tells_focus = False
        self._key_at = time.monotonic()
        self._early: list[events.Event] | None = []
        install(self, palette)

    def _rebind(self) -> None:
        """The keys of the config in place of those of the class. There is no public way to take one away."""
        held = self._bindings.key_to_bindings
        ours = {binding.id for binding in bindings()}
        for key in list(held):
            held[key] = [binding for binding in held[key] if binding.id not in ours]
        for binding in bindings(self.bound):
            held.setdefault(binding.key, []).append(binding)

    @property
    def draft(self) -> Draft:
        """Where messages are written."""
        return self.composer.draft

    @cached_property
    def approval(self) -> ApprovalCard:
        """The card of an open question."""
        from app.tui.widgets.approval import ApprovalCard

        return ApprovalCard(self.glyphs, self.bound)

    @cached_property
    def waiting(self) -> WaitingList:
        """What waits for the running reply."""
        from app.tui.widgets.waiting import WaitingList

        return WaitingList(self.glyphs, self.bound)

    @cached_property
    def pane(self) -> ChatsPane:
        """All chats."""
        from app.tui.widgets.side import ChatsPane

        return ChatsPane(motion=self._motion)

    def get_default_screen(self) -> Screen[None]:
        """The screen that all parts stand on."""
        return MainScreen(id="_default")

    def compose(self) -> ComposeResult:
        # Now, while no part has a look yet that would have to be found anew.
        self.place(*self.size)
        yield self.side
        with Vertical(id="main"):
            yield self.transcript
            yield self.seam
            yield self.composer
            yield self.status

    async def furnish(self) -> None:
        """Bring the parts that the first frame does without."""
        # Beside the event loop: a key would wait for it.
        await in_thread(_import_parts)
        main = self.query_one("#main")
        await self.side.mount(self.pane)
        await main.mount(self.approval, self.waiting, before=self.seam)
        await main.mount(*self.overlays())
        self.furnished = True
        self.place(*self.size)

    def overlays(self) -> Sequence[Widget]:
        """What lies over the main area when it is open."""
        return ()

    # ---- keys ------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Until `take_keys` letters go to the draft; a key that means more waits, with all after it.

        Those that stop or leave never wait: the rest of the screen may not come.
        """
        if isinstance(event, (events.Key, events.Paste)):
            self._key_at = time.monotonic()
            if self._early is not None and not self._leaves(event) and not self._writes_now(event):
                self._early.append(event)
                return
        await super().on_event(event)

    def _leaves(self, event: events.Key | events.Paste) -> bool:
        if isinstance(event, events.Paste):
            return False
        if any(event.key in keys_of(name, self.bound) for name in LEAVING):
            return True
        vi = self.draft.vi
        empty = not self.draft.text and not self.early_text
        return event.key == "ctrl+d" and empty and (vi is None or vi.inserts)

    def _writes_now(self, event: events.Key | events.Paste) -> bool:
        if self._early:
            return False
        char = event.character if isinstance(event, events.Key) else None
        return char is not None and char.isalnum() and self.draft.has_focus

    def take_keys(self) -> None:
        """Keys go to the draft from now on, those first that were pressed while the program started."""
        self.draft.focus()
        self.call_later(self._hand_on)

    @property
    def early_text(self) -> str:
        """What was written while the program started and is not in the draft yet."""
        return "".join(_written_by(event) for event in self._early or ())

    def drop_early(self) -> None:
        """The keys that wait come to nothing."""
        if self._early is not None:
            self._early = []

    async def _hand_on(self) -> None:
        early, self._early = self._early or [], None
        for event in early:
            await self.on_event(event)

    # ---- sizes -----------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """Another size of the terminal."""
        # Textual tells its subclasses first: until it has heard too, `size` is the size of before.
        self.call_next(self.place, *event.size)

    def place(self, width: int, height: int) -> None:
        """Give every part its columns and rows."""
        tall = is_tall(height)
        self.transcript.set_class(tall, "-tall")
        self.status.set_class(tall, "-tall")
        opened = self.side_open
        self.side.set_class(opened, "-open")
        self.side.set_class(side_overlays(width), "-overlay")
        self.side.styles.width = side_width(width)
        grid = self.grid
        self.composer.place(grid, composer_rows(height))
        self.seam.place(grid)
        if self.furnished:
            self.waiting.place(grid)
            self.approval.place(grid, height)
            self.placed(grid)

    def placed(self, grid: Grid) -> None:
        """The parts have their columns: whoever shows something of this width draws it anew."""

    @property
    def side_open(self) -> bool:
        """Whether the side pane is there."""
        if self.side_wanted is not None:
            return self.side_wanted
        return side_by_default(self.size.width)

    @property
    def grid(self) -> Grid:
        """The columns of the main area."""
        width = self.size.width
        beside = self.side_open and not side_overlays(width)
        return grid_of(width - side_width(width) if beside else width)

    # ---- telling ---------------------------------------------------------------------------

    def say(self, text: str, *, error: bool = False) -> None:
        """One piece of news, in the seam."""
        self.seam.say(News(text, error=error))

    def hint_label(self, name: str) -> str:
        """A key as hints write it: by its name in the table, one that works where keys go now."""
        writing = self.draft.has_focus and (bool(self.draft.text) or name in OFFERED)
        label = self.label(name, writing=writing)
        if name == "stop" and writing_by_vi(self.draft):
            return f"{label} {label}"  # the first one leaves the insert mode
        return label

    def show_facts(self, facts: Facts) -> None:
        """What the status bar tells."""
        self.status.show(facts, self.grid)

    def show_hints(self) -> None:
        """Tell in the seam what keys do where they go."""

    @contextlib.contextmanager
    def lent(self) -> Generator[tuple[int, int] | None]:
        """Within, the terminal is another program's, whose output goes where this leads."""
        driver = self._driver
        away = driver.lent() if isinstance(driver, ScreenDriver) else contextlib.nullcontext()
        try:
            with away, interrupts_left_to_programs():
                yield self.fd_guard.terminal if self.fd_guard else None
        finally:
            if self._driver is not None and not self.is_lent:
                self._driver.write(title_sequence(self._title))

    @property
    def is_lent(self) -> bool:
        """Whether another program has the terminal."""
        return isinstance(self._driver, ScreenDriver) and self._driver.is_lent

    def set_terminal_title(self, title: str) -> None:
        """The title of the terminal's window."""
        if title != self._title and self._driver is not None:
            self._title = title
            self._driver.write(title_sequence(title))

    def on_app_focus(self) -> None:
        """The terminal tells where the focus is."""
        self._tells_focus = True

    def on_app_blur(self) -> None:
        """The terminal tells where the focus is."""
        self._tells_focus = True

    @property
    def attention(self) -> Attention:
        """Where the person may be. In an editor the screen here is not seen."""
        focused = self.app_focus and not self.is_lent if self._tells_focus or self.is_lent else None
        return Attention(focused, time.monotonic() - self._key_at)

    def redraw_with(self, palette: Palette) -> None:
        """Draw with another palette from now on."""
        self.palette = palette
        install(self, palette)
        self.transcript.set_look(palette)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Draw, and leave the terminal's own cursor at the caret: input methods compose there.

        Textual moves it with the caret only, and not with what moves a field: a size, a dialog, a card.
        """
        if self.screen_stack:
            self.cursor_position = self.caret
        super()._display(screen, renderable)  # pyright: ignore[reportUnknownMemberType]

    @property
    def caret(self) -> Offset:
        """Where on the screen keys write: in the field that has them, else in the draft."""
        found = getattr(self.focused, "cursor_screen_offset", None)
        return found if found is not None else self.draft.cursor_screen_offset

    def write_out(self, sequence: str) -> None:
        """Send a control sequence of our own to the terminal."""
        if self._driver is not None:
            self._driver.write(sequence)
            self._driver.flush()


class MainScreen(Screen[None]):
    """The chats at the left where they are open, and the conversation."""

    AUTO_FOCUS = "Draft"


def _written_by(event: events.Event) -> str:
    if isinstance(event, events.Paste):
        return sanitize(normalized(event.text))
    if not isinstance(event, events.Key):
        return ""
    return "\n" if event.key == "enter" else (event.is_printable and event.character) or ""


def _import_parts() -> None:
    for name in _PARTS:
        import_module(name)


def one_line(text: str) -> str:
    """A text on one line, without what a screen must not be sent."""
    return " ".join(sanitize(text).split())
