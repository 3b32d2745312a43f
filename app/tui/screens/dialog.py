"""The look of every dialog: a panel without a frame, fixed at the top, over a screen that fell quiet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.color import Color
from textual.containers import Vertical
from textual.events import Click, Resize
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widget import Widget

from app.terminal.textual_theme import tone_style
from app.tui.frame import NARROW, is_tall
from app.tui.shell import Shell
from app.tui.transcript.pictures import UPPER
from app.tui.widgets.cells import Span
from app.tui.widgets.rows import Lines, ListRow
from app.tui.widgets.style import WidgetStyle, style_of

ResultT = TypeVar("ResultT")
Hint = tuple[str, str]
"""A key, and what it does. Without a key it is only said."""

TOP_TALL, TOP_LOW = 6, 1
MAX_ROWS = 24
LOW_MARGIN_ROWS = 4
"""Rows left free under a dialog: seam, composer and status stay in sight, and a blank one where there
is one above the status."""
PADDING = 3
_HINT_GAP = 3
SPREAD, HANGING = "-spread", "-hanging"
"""Classes of what is as wide as the content, or hangs over it by a cell on the left and two on the
right: widths in fractions would all be cut by the widest margin."""


class Backdrop:
    """The screen below, all its text ghostly on one ground."""

    def __init__(self, below: Screen[object], style: Style) -> None:
        self._below = below
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._below._compositor, options):  # pyright: ignore[reportPrivateUsage]
            # A picture is colours alone: without them its cells would be stripes.
            yield segment if segment.control else Segment(segment.text.replace(UPPER, " "), self._style)


class Sheet(Vertical):
    """The panel. Where grounds do not differ it is framed by light dashes."""

    DEFAULT_CSS = "Sheet { background: $panel; padding: 0; }"

    def render_line(self, y: int) -> Strip:
        ink, (width, height) = style_of(self), self.size
        if not ink.plain or width < 2:
            return ink.strip([Span(" " * width)], "panel")
        rule, side = ink.glyphs.rule, ink.glyphs.aside
        if y in (0, height - 1):
            return ink.strip([Span(rule * width, "faint")], "panel")
        return ink.strip([Span(side, "faint"), Span(" " * (width - 2)), Span(side, "faint")], "panel")


class Dialog(ModalScreen[ResultT], Generic[ResultT]):
    """A dialog with a title, its keys beside it, and a body. Esc closes it without deciding."""

    BINDINGS: ClassVar[Any] = [("escape", "close", "closes")]
    DEFAULT_CSS = "Dialog { align: left top; }"
    AUTO_FOCUS = "*"
    WIDTH: ClassVar[int] = 76
    """76, 104 or 120 cells."""
    ROWS: ClassVar[int | None] = MAX_ROWS
    """Rows wanted; None: as many as `rows_wanted` says."""

    def __init__(self, shell: Shell, heading: str, hints: Sequence[Hint] = ()) -> None:
        super().__init__()
        # Translucent, so that Textual hands over what is below; set here, where no style sheet wins.
        self.styles.background = Color(0, 0, 0, 0.5)
        self.shell = shell
        self.heading = heading
        self._hints = tuple(hints)
        self._head = Lines(id="head")

    # ---- for the dialogs that derive from it -----------------------------------------------

    def body(self) -> Iterable[Widget]:
        """The widgets under the title row, each as wide as the panel."""
        return ()

    def rows_wanted(self) -> int:
        """The height of a dialog that is as high as what it says."""
        return MAX_ROWS

    def resized(self) -> None:
        """The size is known, or is another one."""

    def hint(self, hints: Sequence[Hint]) -> None:
        """Say other keys in the title row."""
        self._hints = tuple(hints)
        self._show_head()

    @property
    def ink(self) -> WidgetStyle:
        return style_of(self)

    @property
    def inner_width(self) -> int:
        """Cells between the panel's paddings."""
        return max(0, self.sheet_width - 2 * PADDING)

    @property
    def sheet_width(self) -> int:
        """Cells of the panel."""
        width = self.size.width
        return width if width < NARROW else min(self.width_wanted, width - 2)

    @property
    def width_wanted(self) -> int:
        """Cells of the panel where there is room."""
        return self.WIDTH

    @property
    def sheet_rows(self) -> int:
        height = self.size.height
        below = 0 if height < 16 else LOW_MARGIN_ROWS + is_tall(height)
        most = max(3, height - self._top - below)
        return min(most, self.rows_wanted() if self.ROWS is None else self.ROWS)

    @property
    def _top(self) -> int:
        height = self.size.height
        return TOP_TALL if is_tall(height) else TOP_LOW if height >= 16 else 0

    # ---- making ----------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Sheet(id="sheet"):
            yield spread(self._head, top=1, bottom=1)
            yield from self.body()

    def on_mount(self) -> None:
        self.fit()

    def on_resize(self, event: Resize) -> None:
        self.fit()

    def on_click(self, event: Click) -> None:
        """A click beside the panel closes it, as esc does."""
        if not self.query_one("#sheet").region.contains(event.screen_x, event.screen_y):
            event.stop()
            self.run_worker(self.run_action("close"))

    def fit(self) -> None:
        """Take the size that the screen and the content ask for."""
        sheet = self.query_one("#sheet")
        sheet.styles.width = self.sheet_width
        sheet.styles.height = self.sheet_rows
        left = (self.size.width - self.sheet_width) // 2
        sheet.styles.offset = (left, self._top)
        for widget in self.query(f".{SPREAD}"):
            widget.styles.width = self.inner_width
        for widget in self.query(f".{HANGING}"):
            widget.styles.width = self.inner_width + 3
        self._show_head()
        self.resized()

    def _show_head(self) -> None:
        if not self.is_attached:
            return
        ink = self.ink
        words = [f"{ink.key(key)} {word}" if key else word for key, word in self._hints]
        room = self.inner_width - len(self.heading)
        # The last way out and the first way on are what a narrow terminal has to tell.
        while words and sum(len(word) + _HINT_GAP for word in words) > room:
            del words[1 if len(words) > 2 else 0]
        hints: list[Span] = []
        for word in words:
            hints += [Span(" " * _HINT_GAP if hints else ""), Span(word, "muted")]
        self._head.show([ListRow((Span(self.heading, bold=True),), hints, indent=0)])

    def render(self) -> RenderableType:
        rendered = super().render()
        if not isinstance(rendered, BackgroundScreen):
            return rendered
        below = cast("Screen[object]", rendered.screen)
        return Backdrop(below, tone_style(self.ink.palette, "ghost", "backdrop"))

    def action_close(self) -> None:
        """Leave without a choice."""
        self.dismiss(None)


def spread(widget: Widget, *, hanging: bool = False, top: int = 0, bottom: int = 0) -> Widget:
    """`widget` between the panel's paddings; a list hangs its mark and its thumb into them."""
    left, right = (PADDING - 1, PADDING - 2) if hanging else (PADDING, PADDING)
    widget.styles.margin = (top, right, bottom, left)
    widget.add_class(HANGING if hanging else SPREAD)
    return widget
