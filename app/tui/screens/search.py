"""Search over all chats while a person types, with filters beside the words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textual import work
from textual.widget import Widget

from app.clock import now, seconds
from app.sessions.errors import FiresideError
from app.tui.screens.dialog import Hint, spread
from app.tui.screens.hits import MODEL, PUT_AWAY, Hit, counted, hit_of, hit_rows
from app.tui.screens.zones import ChoiceRows, Zones
from app.tui.shell import Shell
from app.tui.widgets.cells import Span, plain, width_of
from app.tui.widgets.filter import Filter
from app.tui.widgets.rows import Lines, ListRow, RowList

Search = Callable[..., Awaitable[Sequence[Mapping[str, Any]]]]

LIMIT, FILTERED_LIMIT = 200, 2000
"""Hits asked for: a person types on rather than read more, but a filter must not miss the older ones."""
ANY = "any"
ROLES = (ANY, "you", MODEL, "thought", "tool", "title")
SINCE = {ANY: 0, "today": 1, "a week": 7, "a month": 31, "a year": 366}
ARCHIVED = ("shown", "hidden")
_DAY_S = 24 * 3600
_WIDE_FROM = 50
_TYPING_HINTS: Sequence[Hint] = (("enter", "opens"), ("tab", "filters"), ("esc", "closes"))
_FILTER_HINTS: Sequence[Hint] = (("left right", "which"), ("up down", "change"), ("tab", "back"))
_HELP = (
    "All words must occur; the last one may be incomplete.",
    "Titles, messages, replies, thinking and tool output are searched.",
)


@dataclass(frozen=True)
class Found:
    """What a person opens: a chat at an item, with the words to mark in it; without an item, at its end."""

    session_id: str
    item_id: str
    query: str


class SearchScreen(Zones[Found | None]):
    """Find text in all chats. Gives back what to open, or None."""

    WIDTH = 104

    def __init__(
        self,
        shell: Shell,
        *,
        query: str = "",
        search: Search | None = None,
        clock: Callable[[], float] = now,
        timer: Callable[[], float] = seconds,
    ) -> None:
        super().__init__(
            shell,
            "search all chats",
            _TYPING_HINTS,
            _FILTER_HINTS,
            filter=Filter("what was said", query),
            choices=ChoiceRows(id="filters"),
        )
        self._search = search
        self._clock = clock
        self._timer = timer
        self._hits: list[Hit] = []
        self._seconds = 0.0
        self._asked = ("", 0)
        self._asking = False
        self._failure = ""
        self._chosen: dict[str, str] = {}
        self._filter_at = 0
        self._rule = Lines(id="rule")

    def body(self) -> Iterable[Widget]:
        yield spread(self.filter)
        yield spread(self.choices)
        yield spread(self._rule)
        yield spread(self.list, hanging=True, top=1, bottom=1)

    def on_mount(self) -> None:
        self._ask()

    def resized(self) -> None:
        self._rule.show([ListRow((Span(self.ink.glyphs.rule * self.inner_width, "faint"),), indent=0)])
        self._fill()

    # ---- asking ----------------------------------------------------------------------------

    @property
    def _wanted(self) -> tuple[str, int]:
        """The words to look for, and how many hits."""
        return self.filter.value, FILTERED_LIMIT if self._chosen else LIMIT

    @work(group="search")
    async def _ask(self) -> None:
        """Look for what is typed; for one thing at a time, and then for what was typed meanwhile."""
        if self._asking:
            return
        self._asking = True
        try:
            while self.is_attached:
                wanted = self._wanted
                if wanted == self._asked and not self._failure:
                    return
                await self._look(*wanted)
                if wanted == self._wanted:
                    return
        finally:
            self._asking = False

    async def _look(self, query: str, limit: int) -> None:
        found: Sequence[Mapping[str, Any]] = ()
        search = self._search or self.shell.manager.search
        self._failure = ""
        began = self._timer()
        if query.strip():
            try:
                found = await search(query, limit=limit)
            except FiresideError as err:
                self._failure = str(err)
        self._asked, self._seconds = (query, limit), self._timer() - began
        self._hits = [hit_of(hit) for hit in found]
        if self.is_attached:
            self._fill()

    # ---- what is shown ---------------------------------------------------------------------

    @property
    def chosen(self) -> Hit | None:
        """The hit that enter opens."""
        return next((hit for hit in self._hits if hit.key == self.list.selected), None)

    @property
    def _filters(self) -> dict[str, Sequence[str]]:
        """The filters and what each can be, those only that part what was found."""
        models = sorted({hit.model for hit in self._hits if hit.model})
        filters: dict[str, Sequence[str]] = {"role": ROLES, "model": (ANY, *models), "since": tuple(SINCE)}
        if PUT_AWAY in self._chosen or any(hit.archived for hit in self._hits):
            filters[PUT_AWAY] = ARCHIVED
        return filters

    def _shown(self) -> list[Hit]:
        chosen = self._chosen
        days = SINCE.get(chosen.get("since", ANY), 0)
        oldest = self._clock() - days * _DAY_S if days else 0
        return [
            hit
            for hit in self._hits
            if chosen.get("role", hit.role) == hit.role
            and chosen.get("model", hit.model) == hit.model
            and hit.created_at >= oldest
            and not (hit.archived and PUT_AWAY in chosen)
        ]

    def _fill(self) -> None:
        hits = self._shown()
        query, limit = self._asked
        # The mark, its column of air, the thumb and the air before it take a cell each.
        width = self.inner_width - 2
        rows = hit_rows(hits, query, self._clock(), width, self.ink.glyphs)
        self.list.show(rows or self._nothing(query))
        told = query.strip() and not self._failure
        fact = counted(hits, self._seconds, limit) if told else ""
        room = self.inner_width // 2
        shorter = (fact, fact.partition(",")[0], fact.partition(" in ")[0])
        self.filter.say(next((words for words in shorter if width_of([Span(words)]) <= room), ""))
        self.show_choices()

    def _nothing(self, query: str) -> list[ListRow]:
        if self._failure:
            return [ListRow((Span(plain(self._failure), "error"),))]
        if not query.strip():
            return [ListRow((Span(line, "muted"),)) for line in _HELP]
        if self._hits:
            words = "The filters hide every match."
            return [ListRow((Span(words, bold=True),)), ListRow((Span("tab changes them.", "muted"),))]
        words = f"No matches for {plain(query)}."
        return [
            ListRow((Span(words, bold=True),)),
            ListRow((Span("Fewer words find more; the start of the last one is enough.", "muted"),)),
        ]

    @property
    def _filter_gap(self) -> str:
        return "   " if self.inner_width >= _WIDE_FROM else "  "

    def show_choices(self) -> None:
        self._filter_at = min(self._filter_at, len(self._filters) - 1)
        prompt = self.ink.glyphs.prompt if self.in_choices else " "
        spans = [Span(f"{prompt} ", "primary", bold=True)]
        gap = self._filter_gap
        for number, (name, values) in enumerate(self._filters.items()):
            here = self.in_choices and number == self._filter_at
            value = self._chosen.get(name, values[0])
            spans += [Span(gap)] if number else []
            spans += [Span(f"{name} ", "muted"), Span(value, "primary" if here else "text", underline=here)]
        self.choices.show([ListRow(spans, indent=0)])

    # ---- keys ------------------------------------------------------------------------------

    def typed(self) -> None:
        self._ask()

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        event.stop()

    def move_choice(self, step: int) -> None:
        """Another value of the filter that the prompt is at."""
        name, values = list(self._filters.items())[self._filter_at]
        place = values.index(held) if (held := self._chosen.get(name)) in values else 0
        value = values[(place + step) % len(values)]
        if value == values[0]:
            self._chosen.pop(name, None)
        else:
            self._chosen[name] = value
        self._fill()
        self._ask()

    def turn_choice(self, step: int) -> None:
        """Another filter."""
        self._filter_at = (self._filter_at + step) % len(self._filters)
        self.show_choices()

    def choice_clicked(self, x: int, y: int) -> None:
        left = 2
        for number, (name, values) in enumerate(self._filters.items()):
            value = self._chosen.get(name, values[0])
            left += width_of([Span(f"{name} {value}{self._filter_gap}")])
            if x < left:
                self._filter_at = number
                self.move_choice(1)
                return

    def choose(self) -> None:
        """Open what is selected; at the filters, go back to the words."""
        if self.in_choices:
            self.action_zone()
        elif (hit := self.chosen) is not None:
            self.dismiss(Found(hit.session_id, hit.item_id, self._asked[0]))
