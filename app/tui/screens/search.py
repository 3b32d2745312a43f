"""Search over all chats: what was found, grouped by chat, with who said it before each line."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import work
from textual.binding import Binding
from textual.widget import Widget
from textual.widgets import Input

from app.clock import now, seconds
from app.sessions.errors import FiresideError
from app.tui.screens.dialog import Dialog, Hint, spread
from app.tui.shell import Shell
from app.tui.widgets.ages import when
from app.tui.widgets.cells import Span, fitted, marked, plain
from app.tui.widgets.filter import Filter
from app.tui.widgets.rows import BLANK, Lines, Row, RowList

Search = Callable[..., Awaitable[Sequence[Mapping[str, Any]]]]

LIMIT = 200
"""Hits asked for; a person types on rather than read more."""
ROLES = ("any", "you", "model", "thought", "tool")
SINCE = {"any": 0, "today": 1, "a week": 7, "a month": 31, "a year": 366}
ARCHIVED = ("shown", "hidden")
_ROLE_WIDTH = 11
_DAY_S = 24 * 3600
_WORD = re.compile(r"[^\W_]+")
_TYPING_HINTS: Sequence[Hint] = (("enter", "opens"), ("tab", "filters"), ("esc", "closes"))
_FILTER_HINTS: Sequence[Hint] = (("left right", "which"), ("up down", "change"), ("tab", "back"))
_HELP = (
    "All words have to occur; the last one may be a beginning.",
    "Messages, answers, thoughts and the output of tools are looked through.",
)


@dataclass(frozen=True)
class Hit:
    """One place that was found. Texts are printable lines."""

    session_id: str
    item_id: str
    title: str
    role: str
    created_at: int
    preview: str
    archived: bool = False


@dataclass(frozen=True)
class Found:
    """What a person opens: a chat at an item, with the words to mark in it."""

    session_id: str
    item_id: str
    query: str


def hit_of(wire: Mapping[str, Any]) -> Hit:
    """A hit as the manager tells it."""
    kind = str(wire.get("type") or "")
    role = {"reasoning": "thought", "compaction": "summary", "error": "error"}.get(kind, "tool")
    if kind == "message":
        role = {"user": "you", "assistant": "model"}.get(str(wire.get("role")), "system")
    return Hit(
        session_id=str(wire["session_id"]),
        item_id=str(wire["item_id"]),
        title=plain(str(wire.get("title") or "")) or "without a title",
        role=role,
        created_at=int(wire.get("created_at") or 0),
        preview=plain(str(wire.get("preview") or "")),
        archived=bool(wire.get("archived")),
    )


def places_of(query: str, text: str) -> list[tuple[int, int]]:
    """Where the words of a query stand in a text, touching ones as one; sorted and apart."""
    folded = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    found: list[tuple[int, int]] = []
    for word in {word.lower() for word in _WORD.findall(query)}:
        start = folded.find(word)
        while start >= 0:
            found.append((start, start + len(word)))
            start = folded.find(word, start + len(word))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def by_chat(hits: Iterable[Hit]) -> dict[str, list[Hit]]:
    """Hits under their chats, in the order in which the chats were met."""
    chats: dict[str, list[Hit]] = {}
    for hit in hits:
        chats.setdefault(hit.session_id, []).append(hit)
    return chats


def counted(hits: Sequence[Hit], seconds: float, limit: int = LIMIT) -> str:
    """`7 matches in 4 chats, 3 ms`; no more are looked for than `limit`."""
    chats = len({hit.session_id for hit in hits})
    more = "over " if len(hits) >= limit else ""
    matches = "1 match" if len(hits) == 1 else f"{more}{len(hits)} matches"
    return f"{matches} in {chats} chat{'s' if chats != 1 else ''}, {max(1, round(seconds * 1000))} ms"


class SearchScreen(Dialog[Found | None]):
    """Find text in all chats. Gives back what to open, or None."""

    WIDTH = 104
    BINDINGS: ClassVar[Any] = [
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("down,ctrl+n", "move(1)", show=False, priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("tab,shift+tab", "zone", show=False, priority=True),
        Binding("left", "turn(-1)", show=False),
        Binding("right", "turn(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    def __init__(
        self,
        shell: Shell,
        *,
        query: str = "",
        search: Search | None = None,
        clock: Callable[[], float] = now,
        timer: Callable[[], float] = seconds,
    ) -> None:
        super().__init__(shell, "search all chats", _TYPING_HINTS)
        self._search = search
        self._clock = clock
        self._timer = timer
        self._hits: list[Hit] = []
        self._seconds = 0.0
        self._asked = ""
        self._failure = ""
        self._filters = {"role": 0, "since": 0, "archived": 0}
        self._filter_at = 0
        self._in_filters = False
        self.filter = Filter("what was said", query)
        self._filter_row = FilterRow(id="filters")
        self._rule = Lines(id="rule")
        self.list = RowList(id="list")

    def body(self) -> Iterable[Widget]:
        yield spread(self.filter)
        yield spread(self._filter_row)
        yield spread(self._rule)
        yield spread(self.list, hanging=True, top=1, bottom=1)

    def on_mount(self) -> None:
        self._ask()

    def resized(self) -> None:
        self._rule.show([Row((Span(self.ink.glyphs.rule * self.inner_width, "faint"),), indent=0)])
        self._fill()

    # ---- asking ----------------------------------------------------------------------------

    @work(exclusive=True, group="search")
    async def _ask(self) -> None:
        query = self.filter.value
        if not query.strip():
            self._take(query, [], 0.0)
            return
        search = self._search or self.shell.manager.search
        began = self._timer()
        try:
            found = await search(query, limit=LIMIT)
        except FiresideError as err:
            self._failure = str(err)
            self._take(query, [], 0.0)
            return
        self._failure = ""
        self._take(query, [hit_of(hit) for hit in found], self._timer() - began)

    def _take(self, query: str, hits: list[Hit], seconds: float) -> None:
        self._asked, self._hits, self._seconds = query, hits, seconds
        if self.is_attached:
            self._fill()

    # ---- what is shown ---------------------------------------------------------------------

    @property
    def chosen(self) -> Hit | None:
        """The hit that enter opens."""
        return next((hit for hit in self._hits if hit.item_id == self.list.selected), None)

    def _shown(self) -> list[Hit]:
        role = ROLES[self._filters["role"]]
        days = list(SINCE.values())[self._filters["since"]]
        oldest = self._clock() - days * _DAY_S if days else 0
        hides = ARCHIVED[self._filters["archived"]] == "hidden"
        return [
            hit
            for hit in self._hits
            if role in ("any", hit.role) and hit.created_at >= oldest and not (hides and hit.archived)
        ]

    def _fill(self) -> None:
        hits = self._shown()
        rows: list[Row] = []
        now = self._clock()
        for group in by_chat(hits).values():
            rows += [BLANK] if rows else []
            title = Span(group[0].title, bold=True)
            rows.append(Row((title,), (Span(when(group[0].created_at, now), "muted"),)))
            rows += [self._hit_row(hit) for hit in group]
        self.list.show(rows or self._nothing())
        fact = counted(hits, self._seconds) if self._asked.strip() and not self._failure else ""
        self.filter.say(fact)
        self._filter_row.show([self._filters_row()])

    def _hit_row(self, hit: Hit) -> Row:
        glyphs, text = self.ink.glyphs, hit.preview
        role = {"you": "user", "model": "assistant", "thought": "reasoning", "tool": "tool"}
        who = fitted([Span(hit.role, role.get(hit.role, "muted"))], _ROLE_WIDTH)
        # The store marks what it cut with an ellipsis, whose width no two terminals agree on.
        before, after = text.startswith("\u2026"), text.endswith("\u2026")
        text = text.strip("\u2026") if before or after else text
        said = marked(
            text,
            places_of(self._asked, text),
            Span(""),
            Span("", "accent", bold=True, underline=True),
        )
        left = [Span(glyphs.cut_left, "faint")] if before else []
        right = [Span(glyphs.cut_right, "faint")] if after else []
        return Row([*who, *left, *said, *right], (), hit.item_id)

    def _nothing(self) -> list[Row]:
        if self._failure:
            return [Row((Span(plain(self._failure), "error"),))]
        if not self._asked.strip():
            return [Row((Span(line, "muted"),)) for line in _HELP]
        if self._hits:
            words = "Nothing that was found passes the filters."
            return [Row((Span(words, bold=True),)), Row((Span("tab changes them.", "muted"),))]
        words = f"No chat holds {plain(self._asked)}."
        return [
            Row((Span(words, bold=True),)),
            Row((Span("Fewer words find more; a beginning of the last one is enough.", "muted"),)),
        ]

    def _filters_row(self) -> Row:
        values = (
            ROLES[self._filters["role"]],
            list(SINCE)[self._filters["since"]],
            ARCHIVED[self._filters["archived"]],
        )
        prompt = self.ink.glyphs.prompt if self._in_filters else " "
        spans = [Span(f"{prompt} ", "primary", bold=self.ink.plain)]
        for number, (name, value) in enumerate(zip(self._filters, values, strict=True)):
            here = self._in_filters and number == self._filter_at
            spans += [Span(f"{name} ", "muted"), Span(value, "primary" if here else "text", underline=here)]
            spans.append(Span("   "))
        return Row(spans, indent=0)

    # ---- keys ------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._ask()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        event.stop()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.action_choose()

    def action_move(self, step: int) -> None:
        if not self._in_filters:
            self.list.move(step)
            return
        name = list(self._filters)[self._filter_at]
        count = {"role": len(ROLES), "since": len(SINCE), "archived": len(ARCHIVED)}[name]
        self._filters[name] = (self._filters[name] + step) % count
        self._fill()

    def action_page(self, direction: int) -> None:
        self.list.page(direction)

    def action_zone(self) -> None:
        """Go between the words and the filters."""
        self._in_filters = not self._in_filters
        self.hint(_FILTER_HINTS if self._in_filters else _TYPING_HINTS)
        (self._filter_row if self._in_filters else self.filter.input).focus()
        self._fill()

    def action_turn(self, step: int) -> None:
        if self._in_filters:
            self._filter_at = (self._filter_at + step) % len(self._filters)
            self._fill()

    def action_choose(self) -> None:
        """Open what is selected."""
        if self._in_filters:
            self.action_zone()
        elif (hit := self.chosen) is not None:
            self.dismiss(Found(hit.session_id, hit.item_id, self._asked))


class FilterRow(Lines, can_focus=True):
    """The filters. It holds the focus while one is changed."""
