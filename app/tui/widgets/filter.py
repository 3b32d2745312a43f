"""The line that a picker is filtered with: the prompt, the text, and a fact at the right."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Paste
from textual.geometry import Offset, Region
from textual.message import Message
from textual.widgets import Input

from app.terminal.output import one_row, sanitize
from app.tui.widgets.cells import Line, Span, width_of
from app.tui.widgets.key_order import KeysInOrder
from app.tui.widgets.rows import Lines, ListRow
from app.tui.widgets.style import style_of

MAX_CHARS = 4000
MAX_PASTE_CHARS = 100_000
_CARET_ROOM = "  "


class FilterInput(KeysInOrder, Input):
    """A single line without a frame. A paste of several lines becomes one."""

    class Cut(Message):
        """A paste was longer than a line can be: its end was left out."""

    DEFAULT_CSS = """
    FilterInput, FilterInput:focus {
        border: none; height: 1; padding: 0; width: 1fr;
        background: $panel; background-tint: $panel 0%; color: $foreground;
    }
    FilterInput > .input--cursor { background: $panel; color: $foreground; text-style: reverse; }
    FilterInput.-hidden > .input--cursor { color: $panel; text-style: none; }
    FilterInput > .input--placeholder { color: $muted; }
    """

    def __init__(self, placeholder: str, value: str = "") -> None:
        super().__init__(max_length=MAX_CHARS, compact=True, select_on_focus=False)
        self.ask(placeholder)
        self.cursor_blink = False
        # Textual takes a text only once there is a screen for its caret.
        self.first = one_row(value)[:MAX_CHARS]

    def validate_value(self, value: str) -> str:
        """What stands in the line, whoever put it there: a chat's title is as foreign as any text."""
        return one_row(value)

    def ask(self, placeholder: str) -> None:
        """Say what is wanted, behind the caret."""
        self.placeholder = f"{_CARET_ROOM}{placeholder}" if placeholder else ""

    def on_mount(self) -> None:
        self.value, self.first = self.first, ""

    @property
    def cursor_screen_offset(self) -> Offset:
        """Where the caret is drawn: Textual tells the cell behind it at the end of the text."""
        found = super().cursor_screen_offset
        return found - (1, 0) if self.cursor_at_end else found

    def on_resize(self) -> None:
        """The caret stays in sight, of a text too that was there before the line had a width."""
        x = self.cursor_screen_offset.x - self.content_region.x + self.scroll_offset.x
        self.scroll_to_region(Region(x, 0, 1, 1), force=True, animate=False)

    def _on_paste(self, event: Paste) -> None:
        """Take a paste of several lines as one: Textual would keep only the first."""
        event.stop()
        event.prevent_default()
        lines = [sanitize(line).replace("\t", " ") for line in event.text[:MAX_PASTE_CHARS].splitlines()]
        text = " ".join(lines)
        room = MAX_CHARS - len(self.value) + len(self.selected_text)
        if text[:room]:
            self.replace(text[:room], *self.selection)
        if len(text) > room:
            self.call_after_refresh(self.post_message, self.Cut())


class Filter(Horizontal):
    """The prompt, what is typed, and how much it found. A prompt stands there only while keys go here."""

    DEFAULT_CSS = """
    Filter { height: 1; width: 1fr; background: $panel; }
    Filter #prompt { width: 2; }
    Filter #fact { width: auto; }
    """

    def __init__(self, placeholder: str = "type to filter", value: str = "") -> None:
        super().__init__()
        self.input = FilterInput(placeholder, value)
        self._prompt = Lines([ListRow(())], id="prompt")
        self._fact = Lines([ListRow(())], id="fact")
        self._hidden = False

    def compose(self) -> ComposeResult:
        yield self._prompt
        yield self.input
        yield self._fact

    @property
    def value(self) -> str:
        return self.input.first or self.input.value

    def say(self, fact: str | Line) -> None:
        """A fact at the right end."""
        spans = [Span(fact, "muted")] if isinstance(fact, str) else list(fact)
        self._fact.styles.width = (width_of(spans) + 2) if spans else 0
        self._fact.show([ListRow(spans, indent=2)])

    def ask(self, placeholder: str, value: str = "") -> None:
        """Let something else be typed here; the caret goes to its end. Nobody is told of a change."""
        self.input.ask(placeholder)
        with self.input.prevent(Input.Changed):
            self.input.value = value
        self.input.cursor_position = len(value)

    def on_filter_input_cut(self, event: FilterInput.Cut) -> None:
        """Say that a part of a paste is not there."""
        event.stop()
        self.say([Span(f"cut at {MAX_CHARS:,} characters", "warning")])

    def hide(self, hidden: bool) -> None:
        """Show neither prompt nor caret, as long as nothing is typed."""
        self._hidden = hidden
        self.input.set_class(hidden, "-hidden")
        if self.is_mounted:
            self._show_prompt(focused=self.input.has_focus)

    def on_mount(self) -> None:
        self._show_prompt(focused=self.input.has_focus)
        self.watch(self.input, "has_focus", self._on_focus_changed, init=False)

    def _on_focus_changed(self, focused: bool) -> None:
        self._show_prompt(focused=focused)

    def _show_prompt(self, *, focused: bool) -> None:
        ink = style_of(self)
        mark = ink.glyphs.prompt if focused and not self._hidden else " "
        self._prompt.show([ListRow((Span(mark, "primary", bold=True),), indent=0)])
