"""The parts of the screen: what they are, where they stand, what they are drawn with; nothing they mean."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.containers import Container, Vertical
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget

from app.frontend.history import History
from app.frontend.start import in_thread
from app.terminal.glyphs import Glyphs
from app.terminal.textual_theme import install
from app.terminal.theming import Palette
from app.tui.frame import composer_rows, is_tall, side_by_default, side_overlays, side_width
from app.tui.grid import Grid, grid_of
from app.tui.keys import Labels, free_keys, keys_of
from app.tui.program.signal import Signal
from app.tui.transcript.view import Transcript
from app.tui.widgets.composer import Composer, Draft
from app.tui.widgets.seam import News, Seam
from app.tui.widgets.status import StatusBar

if TYPE_CHECKING:
    from app.tui.widgets.approval import ApprovalCard
    from app.tui.widgets.completion import CompletionList
    from app.tui.widgets.opening import Opening
    from app.tui.widgets.side import ChatsPane
    from app.tui.widgets.waiting import WaitingList

OFFERED = frozenset({"save_copy", "undo_delete"})
"""What the seam offers for a moment: no letter of a message that is begun then may be taken for it."""
LATER = (
    "app.tui.chat.chat",
    "app.tui.program.blocks",
    "app.tui.program.cards",
    "app.tui.program.commands",
    "app.tui.program.completion",
    "app.tui.program.copying",
    "app.tui.program.dialogs",
    "app.tui.program.empty_chat",
    "app.tui.program.first_run",
    "app.tui.program.focus",
    "app.tui.program.hints",
    "app.tui.program.other_programs",
    "app.tui.program.reading",
    "app.tui.program.screens",
    "app.tui.program.sending",
    "app.tui.program.shell_lines",
    "app.tui.program.side",
    "app.tui.program.status",
    "app.tui.program.stopping",
    "app.tui.transcript.gallery",
    "app.tui.widgets.approval",
    "app.tui.widgets.completion",
    "app.tui.widgets.opening",
    "app.tui.widgets.side",
    "app.tui.widgets.waiting",
)
"""What the first frame does without."""


class Parts:
    """The widgets of the main screen. `palette` and `glyphs` are what everything is drawn with.

    The first frame has few of them, so that it comes soon; `furnish` brings the rest.
    """

    def __init__(
        self,
        app: App[Any],
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
        self.placed: Signal[[]] = Signal()
        """The parts have other columns: whoever shows something of this width draws it anew."""
        self.vi_mode: Signal[[]] = Signal()
        """Vi has another mode in the draft."""
        self.vi_page: Signal[[int]] = Signal()
        """Vi turns a page, up or down."""
        self.palette = palette
        self.glyphs = glyphs
        self.bound = dict(keymap or {})
        self.label = Labels(self.bound, glyphs)
        """The key of a thing as it is bound, by its name in the table of keys."""
        self.composer = Composer(glyphs, history)
        self.seam = Seam(glyphs)
        self.seam.label = self.hint_label
        self.status = StatusBar(glyphs)
        self.transcript = Transcript(
            palette=palette, glyphs=glyphs, motion=motion, hyperlinks=hyperlinks, id="transcript"
        )
        self.side = Container(id="side")
        self.main = Vertical(self.transcript, self.seam, self.composer, self.status, id="main")
        self.furnished = False
        """Whether all parts are there."""
        self.side_wanted: bool | None = None
        """Whether the person opened or closed the side pane; None: the width decides."""
        self._app = app
        self._motion = motion
        install(app, palette)

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
        from app.tui.widgets.side import ChatsPane

        return ChatsPane(motion=self._motion)

    @cached_property
    def completion(self) -> CompletionList:
        """What a command or a file may be."""
        from app.tui.widgets.completion import CompletionList

        return CompletionList(self.glyphs)

    @cached_property
    def opening(self) -> Opening:
        """What an empty chat shows until its first message."""
        from app.tui.widgets.opening import Opening

        return Opening(self.glyphs, self.label)

    async def furnish(self) -> None:
        """Bring the parts that the first frame does without; `load` before."""
        await self.side.mount(self.pane)
        await self.main.mount(self.approval, self.waiting, self.opening, before=self.seam)
        await self.main.mount(self.completion)
        self.furnished = True
        self.place(*self._app.size)

    # ---- sizes -----------------------------------------------------------------------------

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
            self.placed()

    def open_side(self, wanted: bool | None) -> None:
        """Open the side pane or close it; None: as the width decides."""
        self.side_wanted = wanted
        self.place(*self._app.size)

    @property
    def side_open(self) -> bool:
        """Whether the side pane is there."""
        if self.side_wanted is not None:
            return self.side_wanted
        return side_by_default(self._app.size.width)

    @property
    def grid(self) -> Grid:
        """The columns of the main area."""
        width = self._app.size.width
        beside = self.side_open and not side_overlays(width)
        return grid_of(width - side_width(width) if beside else width)

    # ---- keys ------------------------------------------------------------------------------

    def bind_keys(self, *, vi: bool) -> None:
        """The keys of the draft as they are bound; with vi's where a person wants those."""
        draft, free = self.draft, free_keys(self.bound)
        draft.send_keys = keys_of("send", self.bound)
        draft.newline_keys = keys_of("newline", self.bound)
        draft.frees = lambda key: key in free
        if vi:
            from app.tui.vi.bindings import ViBindings

            draft.vi = ViBindings(draft, self.vi_mode, self.vi_page)

    @property
    def vi_redoes(self) -> bool:
        """Whether ctrl+r is vi's now."""
        vi = self.draft.vi
        return self.draft.has_focus and vi is not None and vi.takes_redo

    def give_keys(self, part: Widget) -> None:
        """Let keys go to a part from the very next one on: `focus` would let some pass before."""
        self.draft.screen.set_focus(part)

    def caret(self) -> Offset:
        """Where on the screen keys write: in the field that has them, else in the draft."""
        found = getattr(self._app.focused, "cursor_screen_offset", None)
        return found if found is not None else self.draft.cursor_screen_offset

    # ---- telling ---------------------------------------------------------------------------

    def say(self, text: str, *, error: bool = False) -> None:
        """One piece of news, in the seam."""
        self.seam.say(News(text, error=error))

    @contextlib.asynccontextmanager
    async def telling(self) -> AsyncGenerator[None]:
        """Within, what a session refuses is told in the seam."""
        from app.exits import explain
        from app.sessions.errors import FiresideError

        try:
            yield
        except FiresideError as err:
            self.say(str(explain(err)), error=True)

    def hint_label(self, name: str) -> str:
        """A key as hints write it: by its name in the table, one that works where keys go now."""
        writing = self.draft.has_focus and (bool(self.draft.text) or name in OFFERED)
        label = self.label(name, writing=writing)
        if name == "stop" and _written_by_vi(self.draft):
            return f"{label} {label}"  # the first one leaves the insert mode
        return label

    def draw_with(self, palette: Palette) -> None:
        """Draw with another palette from now on."""
        self.palette = palette
        install(self._app, palette)
        self.transcript.set_look(palette)


class MainScreen(Screen[None]):
    """The chats at the left where they are open, and the conversation."""

    AUTO_FOCUS = "Draft"


async def load() -> None:
    """Import what the first frame does without."""
    # Beside the event loop: a key would wait for it.
    await in_thread(_import_later)


def _import_later() -> None:
    for name in LATER:
        import_module(name)


def _written_by_vi(draft: Draft) -> bool:
    """Whether keys write, and esc would leave that mode of vi's first."""
    return draft.has_focus and draft.vi is not None and draft.vi.inserts
