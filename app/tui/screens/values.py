"""Lists of values with their origin, one of which is edited where the filter stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from rich.cells import cell_len
from textual import work
from textual.binding import Binding

from app.markdown.fuzzy import Match
from app.sessions.errors import FiresideError
from app.settings.kinds import SettingError
from app.tui.screens.dialog import Hint
from app.tui.shell import Shell
from app.tui.widgets.cells import Span, fitted, marked, plain, wrapped
from app.tui.widgets.picker import Entry, Picker
from app.tui.widgets.rows import ListRow

_BROWSE: Sequence[Hint] = (("enter", "edits"), ("ctrl+x", "resets"), ("esc", "closes"))
_EDIT: Sequence[Hint] = (("enter", "saves"), ("esc", "cancels"))
_NAME_WIDTH, _LEAST_VALUE_WIDTH, _MOST_VALUE_WIDTH = 22, 6, 22
_NARROW_NAME_WIDTH = 17
_WIDE = 90
UNSET = "default"
"""Where a value comes from that nobody set. It needs no word: what somebody set is to be found."""
_ORIGIN_FROM = 48
"""Cells from which a row has room for where its value comes from; else the line below the list tells it."""


@dataclass(frozen=True)
class Shown:
    """One value: what it is called, what it is, where that comes from, and what it does."""

    key: str
    name: str
    value: str
    """As a person would type it; empty where nothing is set."""
    origin: str
    group: str
    does: str = ""
    usual: str = ""
    """What holds where nothing is set."""
    takes: str = ""
    """What may be typed for it, and where else it can be set."""


class ValuesScreen(Picker):
    """Values to look at and to edit. What derives from it knows where they lie."""

    WIDTH = 104
    PREVIEW_ROWS = 2
    BINDINGS: ClassVar[Any] = [Binding("ctrl+x", "take_back", show=False, priority=True)]

    def __init__(self, shell: Shell, title: str, current: str | None = None) -> None:
        super().__init__(shell, title, hints=_BROWSE, current=current)
        self._shown: dict[str, Shown] = {}
        self._edited: str | None = None
        self._query = ""
        self._note: tuple[str, str] | None = None

    # ---- for what derives from it ----------------------------------------------------------

    async def values(self) -> Sequence[Shown]:
        """All values as they are now."""
        raise NotImplementedError

    async def change(self, key: str, text: str | None) -> str:
        """Set a value from text, None takes it back. A sentence on what holds now.

        Raises SettingError, FiresideError or ValueError with a reason a person understands.
        """
        raise NotImplementedError

    # ---- showing ---------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.reload()

    @work(exclusive=True, group="values")
    async def reload(self) -> None:
        """Read all values anew."""
        try:
            self._shown = {value.key: value for value in await self.values()}
        except FiresideError as err:
            self._empty = str(err)
        self.give(map(self._entry, self._shown.values()))

    def _entry(self, value: Shown) -> Entry:
        return Entry(value.key, value.name, group=value.group, terms=value.does)

    def row_of(self, entry: Entry, fit: Match, label_width: int) -> ListRow:
        """Name, value and, where there is room, what it does; at the right where it comes from."""
        value, mark = self._shown[entry.key], self.ink.glyphs.cut_right
        label = plain(entry.label)
        places = [(start, min(end, len(label))) for start, end in fit.places if start < len(label)]
        name = marked(label, places, Span(""), Span("", "accent", bold=True, underline=True))
        is_set = bool(value.value) and value.origin != UNSET
        shown = Span(_shown_value(value), "text" if value.value else "muted", bold=is_set)
        does = Span(plain(value.does), "muted")
        name_width = _NAME_WIDTH if self.inner_width >= _ORIGIN_FROM else _NARROW_NAME_WIDTH
        cells = [*fitted(name, name_width, mark), Span("  ")]
        if self.inner_width >= _WIDE:
            cells += [*fitted((shown,), self._value_width, mark), Span("  "), does]
        else:
            cells.append(shown)
        told = "" if value.origin == UNSET else plain(value.origin)
        origin = (Span(told, "muted"),) if told and self.inner_width >= _ORIGIN_FROM else ()
        return ListRow(cells, origin, entry.key, named=len(name))

    @property
    def _value_width(self) -> int:
        """As wide as the widest value, so that what they do stands near them."""
        widest = max((cell_len(_shown_value(value)) for value in self._shown.values()), default=0)
        return max(_LEAST_VALUE_WIDTH, min(widest, _MOST_VALUE_WIDTH))

    def selected(self, entry: Entry | None) -> None:
        self._show_note()

    def _show_note(self) -> None:
        value = self._shown.get(self.list.selected or "")
        if self._note is not None:
            text, role = self._note
        elif value is None:
            text, role = "", "muted"
        else:
            text, role = ". ".join(filter(None, (value.does, value.takes))), "muted"
            if self.inner_width < _ORIGIN_FROM:
                text = f"{value.origin}: {text}"
        self.preview.show(
            ListRow((Span(line, role),)) for line in wrapped(plain(text), self.inner_width - 2)[:2]
        )

    # ---- editing ---------------------------------------------------------------------------

    @property
    def editing(self) -> str | None:
        """The key of the value that is edited."""
        return self._edited

    def choose(self) -> None:
        """Begin to edit what is selected, or keep what was written."""
        if self._edited is not None:
            self._keep(self._edited, self.filter.value)
            return
        key = self.list.selected
        if key is None:
            return
        self._edited, self._query, self._note = key, self.filter.value, None
        self.list.active = False
        self.hint(_EDIT)
        value = self._shown[key]
        now = f", {value.usual} if unset" if value.usual else ""
        self.filter.ask(f"{value.name}{now}", value.value)
        self._show_note()

    def typed(self) -> None:
        if self._edited is None:
            self._note = None
            self.refill(best=True)

    def action_take_back(self) -> None:
        """Take the selected value back to what holds without it."""
        if self._edited is None and (key := self.list.selected) is not None:
            self._keep(key, None)

    @work(exclusive=True, group="change")
    async def _keep(self, key: str, text: str | None) -> None:
        try:
            said = await self.change(key, text if text else None)
        except (SettingError, FiresideError, ValueError, OSError) as err:
            self._note = (str(err), "error")
            self._show_note()
            return
        self._note = (said, "success")
        self._leave()
        self.reload()

    def _leave(self) -> None:
        if self._edited is None:
            return
        self._edited = None
        self.list.active = True
        self.hint(_BROWSE)
        self.filter.ask("type to filter", self._query)

    def action_move(self, step: int) -> None:
        if self._edited is None:
            self._note = None
            super().action_move(step)

    def action_close(self) -> None:
        if self._edited is None:
            self.dismiss(None)
            return
        self._note = None
        self._leave()
        self.refill()


def _shown_value(value: Shown) -> str:
    return plain(value.value or value.usual)


def as_text(value: Any) -> str:
    """A value as a person would type it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case dict():
            import json

            return json.dumps(value)
        case list() | tuple():
            return ", ".join(map(str, cast("Sequence[Any]", value)))
        case _:
            return str(value)
