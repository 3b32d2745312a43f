"""What an empty chat shows until its first message: the model, what to try, and the last chats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.models.starter import NAME as STARTER
from app.terminal.figures import short_count
from app.terminal.glyphs import Glyphs
from app.terminal.text_rows import RowSpans, Span, cut, width_of, wrapped
from app.tui.grid import Grid, grid_of
from app.tui.widgets.cells import plain

__all__ = ["MOST_CHATS", "STARTER", "Facts", "Opening", "OpeningRow", "Recent", "opening_rows"]
MOST_CHATS = 3
_WHAT_CELLS = 13
_VERB = "continue "
_AGE_AT = 60
"""The most cells before the age of a chat: farther away the eye does not connect them."""
_TRY: Sequence[tuple[str, str]] = (
    ("a question", "Why is the sky blue?"),
    ("@file", "attaches a file"),
    ("/", "lists the commands"),
)


class Recent(NamedTuple):
    """A chat to continue."""

    id: str
    title: str
    age: str


class Facts(NamedTuple):
    """What the page tells."""

    model: str = ""
    """Its name; empty while none is loaded."""
    failed: bool = False
    """None could be loaded."""
    window: int | None = None
    gpu_layers: int | None = None
    layers: int = 0
    starter: bool = False
    private: bool = False
    recent: Sequence[Recent] = ()
    more: bool = False
    """Whether there are more chats than these."""


class OpeningRow(NamedTuple):
    """A row from the edge on; `chat` is the place of the chat it continues."""

    edge: Span
    spans: RowSpans
    chat: int | None = None


BLANK = OpeningRow((" ", ""), [])


def opening_rows(
    facts: Facts, at: int, grid: Grid, height: int, glyphs: Glyphs, label: Callable[[str], str]
) -> list[OpeningRow]:
    """The page in at most `height` rows; what is least needed goes first. `at` is the chosen chat."""
    title, small = _title(facts, grid, glyphs, label), _small(facts, grid, label)
    tries = [
        OpeningRow((" ", ""), _pair((what, "bold"), [(does, "$muted")], grid, glyphs)) for what, does in _TRY
    ]
    chats = [_chat(facts, place, at, grid, glyphs, label) for place in range(len(facts.recent))]
    here = chats[at : at + 1]
    more = [_all_chats(grid, glyphs, label)] if facts.more and label("chats") else []
    kept = _kept(facts, grid)
    for parts in (
        [[*title, *small], tries, [*chats, *more, *kept]],
        [[*title, *small], tries, [*here, *kept]],
        [title, tries, [*here, *kept]],
        [[*title, *tries, *here, *kept]],
        [[*title, *here, *kept]],
        [title],
    ):
        rows: list[OpeningRow] = []
        for part in filter(None, parts):
            rows += [*([BLANK] if rows else []), *part]
        if len(rows) <= height:
            return rows
    return []


def _title(facts: Facts, grid: Grid, glyphs: Glyphs, label: Callable[[str], str]) -> list[OpeningRow]:
    missing = f"no model is loaded; {label('models') or '/model'} shows what there is"
    told = plain(facts.model) or (missing if facts.failed else "loading the model")
    words = [told, f"{short_count(facts.window)} context"] if facts.model and facts.window else [told]
    if facts.model:
        words.append(_where(facts))
    room = grid.measure - 10
    spans: RowSpans = [("fireside", "bold $primary"), ("  ", "")]
    while len(words) > 1 and width_of([(", ".join(words), "")]) > room:
        words.pop(1)
    return [
        OpeningRow(
            (glyphs.ember[0], "$primary"), [*spans, (cut(", ".join(words), room, glyphs.cut_right), "")]
        )
    ]


def _where(facts: Facts) -> str:
    on_gpu, layers = facts.gpu_layers, facts.layers
    if on_gpu is None or not layers:
        return "on this machine"
    if on_gpu <= 0:
        return "on this machine's CPU"
    if on_gpu < layers:
        return f"{on_gpu} of {layers} layers on this machine's GPU"
    return "on this machine's GPU"


def _small(facts: Facts, grid: Grid, label: Callable[[str], str]) -> list[OpeningRow]:
    if not (facts.starter and facts.model):
        return []
    key = label("models") or "/model"
    words = f"A small model, quick and often wrong; {key} chooses another."
    return [OpeningRow((" ", ""), [(line, "$muted")]) for line in wrapped(words, grid.measure)]


def _kept(facts: Facts, grid: Grid) -> list[OpeningRow]:
    if not facts.private:
        return []
    words = "Private: nothing of this chat is saved."
    return [OpeningRow((" ", ""), [(line, "$muted")]) for line in wrapped(words, grid.measure)]


def _chat(
    facts: Facts, place: int, at: int, grid: Grid, glyphs: Glyphs, label: Callable[[str], str]
) -> OpeningRow:
    chat, chosen = facts.recent[place], place == at
    what: Span = (label("send") if chosen else "", "bold")
    room = min(grid.measure, _AGE_AT) - _WHAT_CELLS - len(_VERB) - len(chat.age) - 2
    name = cut(plain(chat.title), max(4, room), glyphs.cut_right)
    name = name + " " * max(0, room - width_of([(name, "")]))
    verb = (_VERB if chosen else " " * len(_VERB), "$muted")
    told = [verb, (name, "" if chosen else "$muted"), ("  ", ""), (chat.age, "$muted")]
    edge: Span = (glyphs.edge, "$primary") if chosen else (" ", "")
    return OpeningRow(edge, _pair(what, told, grid, glyphs), place)


def _all_chats(grid: Grid, glyphs: Glyphs, label: Callable[[str], str]) -> OpeningRow:
    return OpeningRow((" ", ""), _pair((label("chats"), "bold"), [("all chats", "$muted")], grid, glyphs))


def _pair(what: Span, told: Sequence[Span], grid: Grid, glyphs: Glyphs) -> RowSpans:
    cells = max(_WHAT_CELLS, width_of([what]) + 2)
    if cells + width_of(told) > grid.measure and len(told) == 1:
        told = [(cut(told[0][0], max(0, grid.measure - cells), glyphs.cut_right), told[0][1])]
    return [what, (" " * (cells - width_of([what])), ""), *told]


class Opening(Static):
    """The page. It takes no keys: who has them calls `move` and asks for `chosen`."""

    DEFAULT_CSS = "Opening { height: auto; width: 1fr; background: $background; display: none; }"

    class Chosen(Message):
        """A chat was clicked."""

        def __init__(self, session_id: str) -> None:
            super().__init__()
            self.session_id = session_id

    def __init__(self, glyphs: Glyphs, label: Callable[[str], str]) -> None:
        super().__init__("", id="opening", markup=False)
        self._glyphs = glyphs
        self._label = label
        self._grid, self._height = grid_of(80), 0
        self._facts = Facts()
        self._at = 0
        self._rows: list[OpeningRow] = []

    def show(self, facts: Facts | None, grid: Grid, height: int) -> None:
        """Tell `facts` in the columns of `grid` and at most `height` rows; None hides the page."""
        if facts is None:
            self.display, self._at = False, 0
            return
        if (facts, grid, height) == (self._facts, self._grid, self._height) and self.display:
            return
        self._facts, self._grid, self._height = facts, grid, height
        self._at = min(self._at, max(0, len(facts.recent) - 1))
        self._draw()

    @property
    def chosen(self) -> str | None:
        """The id of the chat that enter continues, where that is on the screen."""
        if not self.display or all(row.chat != self._at for row in self._rows):
            return None
        return self._facts.recent[self._at].id

    def move(self, step: int) -> bool:
        """Choose the chat above or below; False where there is none."""
        if not self.display or not 0 <= self._at + step < len(self._facts.recent):
            return False
        self._at += step
        self._draw()
        return True

    def on_click(self, event: events.Click) -> None:
        """A click on a chat continues it."""
        if 0 <= event.y < len(self._rows) and (place := self._rows[event.y].chat) is not None:
            self.post_message(self.Chosen(self._facts.recent[place].id))

    def _draw(self) -> None:
        grid = self._grid
        self._rows = opening_rows(self._facts, self._at, grid, self._height, self._glyphs, self._label)
        self.display = bool(self._rows)
        lines: list[Span] = []
        for row in self._rows:
            lines += [("\n", "")] if lines else []
            lines += [(" " * grid.edge, ""), row.edge, (" ", ""), *row.spans]
        self.update(Content.assemble(*lines))
