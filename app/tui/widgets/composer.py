"""The composer: where a message is written. One file, because it is one text area and its keys.

It grows with the text, folds long pastes, walks the history.
Enter sends; a paste never does. What is sent leaves as a `Submitted` message, nothing is posted here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.geometry import Region
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Static
from textual.widgets.text_area import Edit, EditResult

from app.frontend.draft import Beginning, as_keys
from app.frontend.history import History
from app.frontend.paste import Folds, is_long, normalized
from app.terminal.glyphs import Glyphs
from app.terminal.output import sanitize
from app.tui.grid import Grid
from app.tui.widgets.key_order import KeysInOrder
from app.tui.widgets.soft_rows import SoftArea

if TYPE_CHECKING:
    from app.tui.vi.bindings import ViBindings

PLACEHOLDER = "message   / command   @ file   ! shell"
GATHER_KEYS = 200
"""Keys of one burst that are put in one by one; it is a paste by then."""
GATHER_S = 0.1
# Without brackets around it a paste is nothing but keys that come in one read.
BURST_S = 0.01
SETTLE_S = 0.04
PASTE_S = 0.5
"""Keys that come together so soon after such lines are the rest of their paste."""


MENTION = re.compile(r'(?<!\S)@(?:"[^"\n]+"|\S+)')
MOST_WORD_CHARS = 400
"""A path is looked for so far around the row that it may stand in."""
PICKING_KEYS = frozenset({"up", "down", "ctrl+p", "ctrl+n", "tab", "enter", "escape"})


class Draft(KeysInOrder, SoftArea):
    """The text area of the composer. Newline: ctrl+j, alt+enter, shift+enter, or enter after a backslash."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "older_or_up", show=False),
        Binding("down", "newer_or_down", show=False),
        Binding("ctrl+u", "delete_to_start_of_line", show=False),
        Binding("ctrl+w,alt+backspace,ctrl+backspace", "delete_word_left", show=False),
        Binding("alt+left,ctrl+left", "cursor_word_left", show=False),
        Binding("alt+right,ctrl+right", "cursor_word_right", show=False),
        Binding("ctrl+underscore", "undo", show=False),
        Binding("ctrl+d,delete", "delete_or_leave", show=False),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"draft--word"}

    @dataclass
    class Sent(Message):
        """The draft is ready to go."""

    @dataclass
    class Left(Message):
        """Ctrl-D at an empty draft."""

    @dataclass
    class Picking(Message):
        """A key for the list that is open."""

        key: str

    def __init__(self, history: History) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder=PLACEHOLDER,
        )
        self.cursor_blink = False
        self.match_cursor_bracket = False
        self.folds = Folds()
        self.beginning = Beginning()
        self.history_of_messages = history
        self.frees: Callable[[str], bool] = lambda key: False
        """Whether a printable key means something else while the draft is empty."""
        self.send_keys: Collection[str] = ("enter",)
        self.newline_keys: Collection[str] = ("ctrl+j", "alt+enter", "shift+enter")
        self.picking: Callable[[], bool] = lambda: False
        """Whether a list is open that some keys belong to."""
        self.moves: Callable[[int], bool] = lambda step: False
        """Whether something beside an empty draft takes a step up (-1) or down."""
        self.pictures_in: Callable[[str], str | None] = lambda text: None
        """What stands in the draft for a paste that is the paths of pictures, and nothing else."""
        self.vi: ViBindings | None = None
        """Who takes the keys first, for a person who wants vi's."""
        self._most_rows = 8
        self._walked_to: str | None = None
        self._left_typed = True
        """Of the draft behind the walk through the history: whether keys began it."""
        self._look = 0
        self._dressed_for: tuple[bool, int] | None = None
        self._burst_from: int | None = None
        self._last_key = 0.0
        self._pasted_at = float("-inf")
        self._settling: Timer | None = None
        self._burst_keys = 0
        self._gathered: list[str] = []
        """The rest of a long burst of keys, put in at its end: each edit costs what the whole line does."""
        self._enter_waits = False

    # ---- what is in it ---------------------------------------------------------------------

    @property
    def whole(self) -> str:
        """The draft with its pastes in full."""
        return self.folds.unfold(self.text)

    @property
    def kept(self) -> str:
        """The whole draft as keys would have to write it, for a place that keeps only text."""
        return as_keys(self.text, self.folds, typed=self.beginning.typed)

    @property
    def begins_typed(self) -> bool:
        """Whether there is a first character, which keys wrote."""
        return bool(self._first_mark) and self.beginning.typed and not self.folds.begins(self.text)

    @property
    def caret(self) -> int:
        """Where the caret stands, in code points of the text."""
        row, column = self.cursor_location
        if self.vi is not None and self.vi.keys.mode == "visual":
            return min(self.vi.caret, len(self.text))  # another draft may have taken its place
        return sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column

    def put(self, text: str, caret: int | None = None, *, typed: bool = True) -> None:
        """Show another draft, the caret at its end or at `caret`. `typed`: as if keys had begun it."""
        self._pasted_at = float("-inf")
        text = sanitize(text)
        self.load_text(text)
        self.beginning.reset(typed=typed)
        self.move_cursor(self.location_of(len(text) if caret is None else caret))

    def location_of(self, place: int) -> tuple[int, int]:
        """Row and column of a place counted in code points."""
        before = self.text[:place]
        return before.count("\n"), len(before) - before.rfind("\n") - 1

    def replace_range(self, start: int, end: int, text: str) -> None:
        """Put `text` in place of the code points from `start` to `end`, the caret after it."""
        result = self.replace(text, self.location_of(start), self.location_of(end))
        self.move_cursor(result.end_location)

    def edit(self, edit: Edit) -> EditResult:
        """Change the text, and know whether its first character is one that was typed."""
        is_first = self._is_first(edit.top)
        uncovers = is_first and bool(self.get_text_range(edit.top, edit.bottom).strip())
        result = super().edit(edit)
        if is_first and edit.text.strip():
            self.beginning.written(edit.text)
        elif uncovers:
            self.beginning.uncovered()
        return result

    def _undo_batch(self, edits: Sequence[Edit]) -> None:
        """As the base class; what comes back was pasted, or typed."""
        before = self._first_place
        super()._undo_batch(edits)
        self._edited_again(edits, before)

    def _redo_batch(self, edits: Sequence[Edit]) -> None:
        """As the base class; what comes back was pasted, or typed."""
        before = self._first_place
        super()._redo_batch(edits)
        self._edited_again(edits, before)

    def _edited_again(self, edits: Sequence[Edit], before: tuple[int, int]) -> None:
        if any(edit.top <= max(before, self._first_place) for edit in edits):
            self.beginning.uncovered()

    def put_back(self, start: int, end: int, text: str) -> None:
        """As `replace_range`, with a text that was in the draft before: nobody knows who wrote it."""
        self.replace_range(start, end, text)
        if self._is_first(self.location_of(start)):
            self.beginning.uncovered()

    @property
    def _first_place(self) -> tuple[int, int]:
        """Where the first character stands that is no blank; the end where there is none."""
        for row, line in enumerate(self.document.lines):
            if line.strip():
                return row, len(line) - len(line.lstrip())
        return self.document.end

    def _is_first(self, place: tuple[int, int]) -> bool:
        """Whether only blanks stand before a place."""
        row, column = place
        lines = self.document.lines
        return not lines[row][:column].strip() and not any(line.strip() for line in lines[:row])

    @property
    def _first_mark(self) -> str:
        return next((line.strip()[0] for line in self.document.lines if line.strip()), "")

    def dress(self, piece: Text, line: str, start: int) -> None:
        """Words that stand for a paste or a file are muted."""
        style = self.get_component_rich_style("draft--word", partial=True)
        first = max(0, start - MOST_WORD_CHARS)
        around = line[first : start + len(piece) + MOST_WORD_CHARS]
        spans = [found.span() for found in MENTION.finditer(around)]
        for word in self.folds.words:
            spans += [found.span() for found in re.finditer(re.escape(word), around)]
        for begin, end in spans:
            if first + end > start:
                piece.stylize(style, max(0, first + begin - start), first + end - start)

    def render_lines(self, crop: Region) -> list[Strip]:
        """As the base class, which looks its styles up at every key: they change with theme and focus."""
        look = (self.has_focus, self._look)
        if look != self._dressed_for:
            self._dressed_for = look
            self._theme.apply_css(self)
        return ScrollView.render_lines(self, crop)

    def notify_style_update(self) -> None:
        self._look += 1
        super().notify_style_update()

    # ---- keys ------------------------------------------------------------------------------

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        """Printable keys are the draft's, but for the free ones of an empty draft."""
        return not self._is_free(key) and super().check_consume_key(key, character)

    def _is_free(self, key: str) -> bool:
        return not self.text and self.frees(key)

    async def _on_key(self, event: events.Key) -> None:
        if event.key in PICKING_KEYS and self.picking() and not self._ends_a_line(event):
            event.prevent_default()
            event.stop()
            self.post_message(self.Picking(event.key))
            return
        if self._gathers(event):
            event.prevent_default()
            event.stop()
            return
        self._put_gathered()
        if self._enter_waits:
            # More came with it: it was a line end of a paste.
            self._enter_waits = False
            self.action_newline()
        if event.key in self.send_keys or event.key in self.newline_keys:
            # Not by bindings: those run after the keys that came with this one.
            event.prevent_default()
            event.stop()
            self.action_send() if event.key in self.send_keys else self.action_newline()
            return
        if self._is_free(event.key) and not (self.vi is not None and self.vi.keys.is_pending):
            event.prevent_default()
            return
        if self.vi is not None and self.vi.take(event):
            event.prevent_default()
            event.stop()
            return
        if event.is_printable:
            if event.time - self._last_key > BURST_S or self._burst_from is None:
                self._burst_from = self.caret
                self._burst_keys = 0
            self._burst_keys += 1
            self._last_key = event.time
            self._settle_later()

    def _ends_a_line(self, event: events.Key) -> bool:
        """Whether enter came with the keys before it: it is not for a list that opened meanwhile."""
        together = self._burst_from is not None and event.time - self._last_key <= BURST_S
        return together and event.key in self.send_keys

    def _gathers(self, event: events.Key) -> bool:
        """Keep a key of a long burst for the end of the burst; False where it is none."""
        if self._burst_from is None or self._burst_keys < GATHER_KEYS:
            return False
        if self.vi is not None and self.vi.keys.mode != "insert":
            return False
        if event.key in self.send_keys:
            if self._enter_waits:
                self._gathered.append("\n")
            self._enter_waits = True
        elif event.key in self.newline_keys:
            self._gathered += ["\n", "\n"] if self._enter_waits else ["\n"]
            self._enter_waits = False
        elif event.is_printable and event.time - self._last_key <= GATHER_S:
            self._gathered += ["\n", event.character or ""] if self._enter_waits else [event.character or ""]
            self._enter_waits = False
            self._last_key = event.time
        else:
            return False
        self._settle_later()
        return True

    def _put_gathered(self) -> None:
        if self._gathered:
            text = "".join(self._gathered)
            self._gathered.clear()
            self.insert_text(text)

    def _settle_later(self) -> None:
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(SETTLE_S, self._settle)

    def _settle(self) -> None:
        """The keys that came together have ended: fold what was pasted, send what was sent."""
        self._settling = None
        self._put_gathered()
        start, self._burst_from = self._burst_from, None
        waits, self._enter_waits = self._enter_waits, False
        if start is not None and self._is_paste(self.text[start : self.caret]):
            self._pasted_at = time.monotonic()
            self.beginning.pasted(first=not self.text[:start].strip())
            if waits:
                self.action_newline()  # its last line ends like the others
                waits = False
        if start is not None and is_long(pasted := self.text[start : self.caret]):
            self.replace_range(start, self.caret, self.folds.fold(pasted))
        if waits:
            self._send()

    def _is_paste(self, together: str) -> bool:
        """Whether keys that came together are lines of a paste, or the rest of one."""
        return "\n" in together or time.monotonic() - self._pasted_at < PASTE_S

    def action_send(self) -> None:
        """Send; but wait a moment for what may follow, where the key came together with others."""
        if self._burst_from is None:
            self._send()
            return
        self._enter_waits = True
        self._settle_later()

    def _send(self) -> None:
        """Send, or break the line where it ends with a backslash."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if column and line[:column].endswith("\\") and column == len(line):
            self.replace("\n", (row, column - 1), (row, column))
            return
        if self.vi is not None:
            self.vi.reset()
        self.post_message(self.Sent())

    def action_newline(self) -> None:
        """Break the line."""
        self._replace_via_keyboard("\n", *self.selection)

    def action_cursor_line_start(self, select: bool = False) -> None:
        """To the start of the row; in an empty draft the key may mean something else."""
        if not self.text:
            raise SkipAction
        super().action_cursor_line_start(select)

    def action_cursor_line_end(self, select: bool = False) -> None:
        """To the end of the row; in an empty draft the key may mean something else."""
        if not self.text:
            raise SkipAction
        super().action_cursor_line_end(select)

    def action_delete_or_leave(self) -> None:
        """Delete the character at the caret; in an empty draft the key means leaving."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.Left())

    def insert_text(self, text: str) -> None:
        """Insert at the caret, in place of a selection."""
        result = self._replace_via_keyboard(text, *self.selection)
        if result is not None:
            self.move_cursor(result.end_location)

    def begin(self, text: str) -> None:
        """Words that were typed elsewhere; what comes together with them is the same message's."""
        if self.vi is not None:
            self.vi.reset()
        start = self.caret
        self.insert_text(sanitize(text))
        self._burst_from = start
        self._last_key = time.monotonic()
        if "\n" in text:
            self._pasted_at = time.monotonic()
        self._settle_later()

    def action_older_or_up(self) -> None:
        """A row up; from the first row to the message sent before."""
        if not self.text and self.moves(-1):
            return
        if not self.cursor_at_first_line:
            self.action_cursor_up()
            return
        walking = self.history_of_messages.walking
        found = self.history_of_messages.older(self.text, "" if walking else self.text[: self.caret])
        if found is not None:
            if not walking:
                self._left_typed = self.beginning.typed
            self._show_walked(found)

    def action_newer_or_down(self) -> None:
        """A row down; from the last row towards what was being typed."""
        if not self.text and self.moves(1):
            return
        if not self.cursor_at_last_line:
            self.action_cursor_down()
            return
        found = self.history_of_messages.newer()
        if found is not None:
            self._show_walked(found, typed=self.history_of_messages.walking or self._left_typed)

    def action_delete_left(self) -> None:
        """Remove a character, or the whole word of a folded paste."""
        before = self.text[: self.caret]
        word = None if self.selection.start != self.selection.end else self.folds.word_before(before)
        if word is None:
            super().action_delete_left()
            return
        self.replace_range(len(before) - len(word), len(before), "")

    def _show_walked(self, text: str, *, typed: bool = True) -> None:
        self._walked_to = text
        self.put(text, typed=typed)

    def on_text_area_changed(self) -> None:
        """Typing ends the walk through the history; the composer grows with the text."""
        if self._walked_to != self.text:
            self.history_of_messages.end()
        self.fit()

    # ---- pastes ----------------------------------------------------------------------------

    async def _on_paste(self, event: events.Paste) -> None:
        # The event must not reach the base class, which would insert it once more.
        event.prevent_default()
        event.stop()
        self.paste(event.text)

    def paste(self, text: str, *, plain: bool = False) -> None:
        """One insert, whatever the text holds; a long one as a word that stands for it, unless `plain`."""
        text = sanitize(normalized(text))
        if not text:
            return
        shown = text
        if not plain:
            shown = self.pictures_in(text) or (self.folds.fold(text) if is_long(text) else text)
        is_first = self._is_first(min(self.selection)) and bool(text.strip())
        self.insert_text(shown)
        self.beginning.pasted(first=is_first)

    def action_paste(self) -> None:
        """What was cut or copied here is pasted as if it came from elsewhere."""
        self.paste(self.app.clipboard)  # pyright: ignore[reportUnknownMemberType]

    # ---- size ------------------------------------------------------------------------------

    def limit_rows(self, most: int) -> None:
        self._most_rows = most
        self.fit()

    def fit(self) -> None:
        """As many rows as the text has."""
        rows = max(1, min(self._most_rows, self.wrapped_document.height))
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows

    def _on_resize(self) -> None:
        super()._on_resize()
        self.scroll_cursor_visible()  # the caret stands elsewhere in other rows
        self.call_later(self.fit)


class Composer(Horizontal):
    """The prompt at the edge and the draft beside it."""

    DEFAULT_CSS = """
    Composer { height: auto; width: 1fr; background: $background; }
    Composer > #prompt { width: 2; height: 1; color: $primary; text-style: bold; }
    Composer > Draft { height: 1; width: 1fr; padding: 0; border: none; background: $background; }
    Composer > Draft:focus { border: none; }
    Draft .text-area--placeholder { color: $faint; }
    Draft .draft--word { color: $muted; }
    Draft .text-area--cursor, Draft:focus .text-area--cursor {
        color: $background; background: $foreground; text-style: none;
    }
    Draft .text-area--selection { background: $selection; }
    """

    def __init__(self, glyphs: Glyphs, history: History) -> None:
        super().__init__(id="composer")
        self._glyphs = glyphs
        self._prompt = Static(glyphs.prompt, id="prompt", markup=False)
        self.draft = Draft(history)

    def compose(self) -> Sequence[Static | Draft]:
        return [self._prompt, self.draft]

    def place(self, grid: Grid, most_rows: int) -> None:
        """Stand in the columns of `grid`."""
        self.styles.padding = (0, max(0, grid.width - grid.text - grid.measure), 0, grid.edge)
        self.draft.limit_rows(most_rows)

    def on_descendant_focus(self) -> None:
        """The prompt is where keys go."""
        self._prompt.update(self._glyphs.prompt)

    def on_descendant_blur(self) -> None:
        """It is elsewhere now."""
        self._prompt.update("")
