"""The theme picker: what is under the mark is drawn at once; leaving it takes the old theme back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.terminal import theming
from app.terminal.theming import ThemeError
from app.tui.shell import Shell
from app.tui.widgets.cells import Span, plain
from app.tui.widgets.picker import Entry, Picker
from app.tui.widgets.rows import BLANK, ListRow

if TYPE_CHECKING:
    from app.tui.widgets.style import WidgetStyle


def theme_entries(names: Iterable[str]) -> list[Entry]:
    """Every theme with a few words about it; a broken one with what is wrong."""
    found: list[Entry] = []
    for name in names:
        try:
            theme = theming.read(name)
        except ThemeError as err:
            found.append(Entry(name, name, plain(str(err)), (Span("broken", "error"),)))
            continue
        tone = "yours" if theme.colors is None else "dark" if theme.dark else "light"
        found.append(Entry(name, name, theme.title, (Span(tone, "muted"),)))
    return found


def sample(ink: WidgetStyle) -> list[ListRow]:
    """A little of everything that a theme colours."""
    glyphs = ink.glyphs
    return [
        ListRow(
            (Span(glyphs.edge, "user"), Span(" Is the tail of a list cheap?")), indent=0, ground="surface"
        ),
        BLANK,
        ListRow((Span("SmolLM2", "assistant", bold=True),), (Span("2.4 s   109 tok/s", "muted"),)),
        ListRow(
            (Span(f"{glyphs.folded} ", "reasoning"), Span("thought for 3.2 s", "reasoning", italic=True))
        ),
        ListRow(
            (
                Span("Yes. A slice such as "),
                Span("buf[-3:]", "primary"),
                Span(" copies three items; see "),
                Span("lists", "accent", underline=True),
                Span("."),
            )
        ),
        ListRow(
            (
                Span(f"{glyphs.done} ok", "success"),
                Span(f"   {glyphs.partial} warning", "warning"),
                Span(f"   {glyphs.failed} error", "error"),
                Span("   asks", "approval", bold=True),
                Span("   muted", "muted"),
                Span("   faint", "faint"),
            )
        ),
    ]


class ThemePicker(Picker):
    """Choose a theme. Gives back its name, None where the old one came back."""

    PREVIEW_ROWS = 6

    def __init__(self, shell: Shell) -> None:
        self._before = shell.palette.name
        super().__init__(
            shell,
            "themes",
            theme_entries(theming.names()),
            hints=(("enter", "applies"), ("esc", "cancels")),
            current=self._before,
        )

    def selected(self, entry: Entry | None) -> None:
        if entry is not None and not self._is_broken(entry) and entry.key != self.shell.palette.name:
            self._use(entry.key)
        self.preview.show(sample(self.ink))

    def choose(self) -> None:
        entry = self.chosen
        if entry is None or self._is_broken(entry):
            return
        self.dismiss(entry.key)

    def action_close(self) -> None:
        if self.shell.palette.name != self._before:
            self._use(self._before)
        self.dismiss(None)

    def _use(self, name: str) -> None:
        try:
            self.shell.use_theme(name)
        except ThemeError as err:
            self.filter.say((Span(plain(str(err))[:60], "error"),))
        for widget in self.query("*"):
            widget.refresh()

    @staticmethod
    def _is_broken(entry: Entry) -> bool:
        return any(span.role == "error" for span in entry.facts)
