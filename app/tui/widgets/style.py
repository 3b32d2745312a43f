"""Spans to strips: the one place where side panes and dialogs meet palette and glyphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.terminal.output import one_row
from app.terminal.textual_theme import tone_style
from app.tui.widgets.cells import Span

if TYPE_CHECKING:
    from textual.message_pump import MessagePump

    from app.terminal.glyphs import Glyphs
    from app.terminal.theming import Attribute, Palette, Tone
    from app.tui.shell import Shell


class WidgetStyle:
    """What a widget draws with. Made anew when the theme changes."""

    def __init__(self, palette: Palette, glyphs: Glyphs) -> None:
        self.palette = palette
        self.glyphs = glyphs

    @property
    def plain(self) -> bool:
        """True where grounds do not differ, so that dashes and attributes hold the structure."""
        return not self.palette.tones

    def style(self, span: Span, ground: str) -> Style:
        attributes = [name for name in ("bold", "italic", "underline") if getattr(span, name)]
        return tone_style(
            self.palette,
            cast("Tone", span.role),
            cast("Tone", ground),
            cast("tuple[Attribute, ...]", tuple(attributes)),
        )

    def strip(self, spans: Iterable[Span], ground: str) -> Strip:
        """A row of cells."""
        return Strip([Segment(one_row(span.text), self.style(span, ground)) for span in spans if span.text])

    def key(self, name: str) -> str:
        """A key as it is written in a hint."""
        return self.glyphs.key(name)


def style_of(node: MessagePump) -> WidgetStyle:
    """The ink of the program that `node` is a part of, which is a Shell."""
    app = cast("Any", node).app
    shell = cast("Shell", app)
    held: WidgetStyle | None = app.__dict__.get("_ink")
    if held is None or held.palette is not shell.palette or held.glyphs is not shell.glyphs:
        held = app.__dict__["_ink"] = WidgetStyle(shell.palette, shell.glyphs)
    return held
