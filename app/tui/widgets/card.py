"""How the card of an open question looks. One file, because its rows share what height there is.

The call or form, its keys, and what each of them would allow.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.errors import NoWidget
from textual.screen import Screen
from textual.signal import Signal
from textual.widgets import Static

from app.frontend.card_body import Body
from app.frontend.question import Question, Scope, body_of, fact_rows, scope_row, title_row
from app.terminal.glyphs import Glyphs
from app.terminal.text_rows import RowSpans, Span, cut, padded, width_of, wrapped, wrapped_spans
from app.tui.grid import Grid, grid_of
from app.tui.keys import Labels
from app.tui.widgets.card_field import CardField

CALL_ANSWERS = (
    ("allow_once", "once"),
    ("allow_chat", "this chat"),
    ("allow_always", "always"),
    ("allow_edited", "edit"),
    ("refuse", "no, go on"),
    ("refuse_stop", "no, stop"),
)
"""What a key of the card does, by its name in the table of keys, and the word beside it."""
SCOPES: tuple[Scope, ...] = ("session", "always")
BODY_AT = 2
"""Rows of the upper part before the body: the title and a blank one."""
ALLOWING = ("allow_once", "allow_chat", "allow_always")
LEAST_BODY_ROWS = 2
OTHER_ROWS = 9
"""Rows of a screen that the card leaves: seam, composer, status, and a few above."""
FIELD_ROWS = 6
CHOSEN_ROWS = 4
"""Rows of a chosen rule that stand below the call; a longer one takes its place."""
RULE_ROWS = 2
"""Rows that a rule takes before it is chosen; a chosen one is shown whole."""
QUICK_CHARS = 40_000
"""As much is laid out at once; more beside the event loop."""


class QuestionCard(Vertical, can_focus=True):
    """Draws one question, docked above the seam. It takes no key itself."""

    DEFAULT_CSS = """
    QuestionCard { height: auto; width: 1fr; background: $background; display: none; }
    QuestionCard > Static { height: auto; width: 1fr; }
    QuestionCard > Horizontal { height: auto; width: 1fr; display: none; }
    QuestionCard > Horizontal > Static { height: auto; width: auto; }
    QuestionCard CardField {
        width: 1fr; height: 1; padding: 0; border: none; background: $panel;
        & .text-area--cursor, &:focus .text-area--cursor {
            color: $panel; background: $foreground; text-style: none;
        }
        & .text-area--selection { background: $selection; }
    }
    QuestionCard CardField:focus { border: none; }
    """

    def __init__(self, glyphs: Glyphs, keymap: Mapping[str, str]) -> None:
        super().__init__(id="approval")
        self._glyphs = glyphs
        self._grid = grid_of(80)
        self._height = 24
        self._body: Body | None = None
        """What is asked, in rows of this width; None while it is laid out."""
        self._body_of: tuple[object, ...] = ()
        self._revision = 0
        """Which version of the question it is: one with other arguments is read anew."""
        self._room = LEAST_BODY_ROWS
        self._seen = 0
        """Rows of the body that were on the screen, from its first one on."""
        self._waived = False
        """Whether a person said that the rest need not be read."""
        self._drawn_at = -1
        self._fits = True
        """Whether all that an answer would allow was on the screen when it was painted last."""
        self._choosing = ""
        """The answer that enter would give: its rule is shown whole."""
        self.question: Question | None = None
        self._count = (1, 1)
        self._armed = False
        self._drafting = False
        self._cursor = -1
        self._scroll = 0
        self._mode = ""
        self._wider = 0
        self._label = Labels(keymap, glyphs)
        self._answers: dict[str, Any] = {}
        self._complaint = ""
        self._upper = Static("", markup=False)
        self._lower = Static("", markup=False)
        self._side = Static("", markup=False)
        self.field = CardField()

    def compose(self) -> ComposeResult:
        yield self._upper
        with Horizontal():
            yield self._side
            yield self.field
        yield self._lower

    def place(self, grid: Grid, height: int) -> None:
        """Stand in the columns of `grid`, on a screen of `height` rows."""
        self._grid, self._height = grid, height
        self._draw()

    @property
    def rows(self) -> list[RowSpans]:
        """What the card says, without edge and ground."""
        lower = self._lower_rows()
        return [*self._upper_rows(self._height_below(lower)), *lower]

    @property
    def unread(self) -> int:
        """Rows that were never on the screen; none where a person said that they need not be."""
        return 0 if self._waived or self._body is None else max(0, len(self._body) - self._seen)

    @property
    def is_choosing(self) -> bool:
        """Whether a rule is shown that enter would save."""
        return bool(self._choosing)

    @property
    def is_writing(self) -> bool:
        """Whether a text is written in the card."""
        return bool(self._mode)

    @property
    def laid_out(self) -> bool:
        """Whether what is asked is there to be read."""
        return self._body is not None

    def _lay_out(self, question: Question) -> None:
        """Make the rows of what is asked, for this width."""
        rule = self._long_rule(question)
        wanted = (question.id, question.edited, self._revision, self._grid.measure, len(rule))
        if wanted == self._body_of:
            return
        # A call has been read before a rule about it can be chosen.
        whole = self._body is not None and self.unread == 0 and self._body_of[:3] == wanted[:3] and not rule
        self._body_of, self._body = wanted, None
        if rule:
            self._take_body(Body([rule]), False)
        elif question.size <= QUICK_CHARS:
            self._take_body(body_of(question, self._grid.measure, self._glyphs), whole)
        else:
            self.run_worker(self._lay_out_long(question, wanted, whole), exclusive=True, group="body")

    def _long_rule(self, question: Question) -> list[RowSpans]:
        """The rule that is chosen, where it takes more rows than stand below; it is read like a call then."""
        if not self._choosing:
            return []
        said = scope_row(question, self._choosing, self._wider, self._label)
        rows = wrapped_spans(said, self._grid.measure)
        return rows if len(rows) > CHOSEN_ROWS else []

    async def _lay_out_long(self, question: Question, wanted: tuple[object, ...], whole: bool) -> None:
        body = await asyncio.to_thread(body_of, question, self._grid.measure, self._glyphs)
        if wanted == self._body_of:
            self._take_body(body, whole)
            self._laid_out()
            self._draw()

    def _take_body(self, body: Body, whole: bool) -> None:
        """`whole`: it was read already, at another width."""
        self._body = body
        self._seen = len(body) if whole else 0

    def _laid_out(self) -> None:
        """What was long is there to be read now."""

    def _upper_rows(self, lower: int) -> list[RowSpans]:
        """All above the facts, where `lower` rows stand below."""
        question = self.question
        if question is None:
            return []
        cells = self._grid.measure
        rows: list[RowSpans] = [title_row(question, self._facts(), cells, self._glyphs)]
        if self._body is None:
            return [*rows, [], [("laying it out", "$muted")]]
        count = len(self._body)
        room = max(LEAST_BODY_ROWS, min(self._height - OTHER_ROWS - lower - 2, self._height // 2))
        # A row tells how to go on, where not all of it fits.
        self._room = room if count <= room else max(LEAST_BODY_ROWS, room - 1)
        last = max(0, count - self._room)
        self._scroll = min(self._scroll, last)
        if count:
            rows += [[], *self._body.rows(self._scroll, self._room)]
        if last:
            more = count - self._room - self._scroll
            told = f"{self._glyphs.below} {more:,} more" if more else f"{self._glyphs.above} the end"
            rows.append([(told, "$muted"), ("   up, down", "bold"), (" scroll", "$muted")])
        return rows

    def _painted(self, body: Body | None, scroll: int) -> None:
        """The terminal was sent these rows: keys that come together are done before anything is painted."""
        if body is self._body and scroll == self._scroll:
            self._drawn_at = scroll
            self._look()

    def on_mount(self) -> None:
        """A screen of other rows cuts off others."""
        signal = cast("Signal[Screen[Any]]", self.screen.screen_layout_refresh_signal)
        signal.subscribe(self, self._fit)

    def _fit(self, screen: Screen[Any]) -> None:
        if self.question is not None and self._fits != (fits := self._shows_what_it_allows()):
            self._fits = fits
            self._draw()

    def _shows_what_it_allows(self) -> bool:
        """Whether the facts, the keys and a chosen rule are on the screen: a very low one cuts them off."""
        question = self.question
        if question is None or self._mode or not self.is_attached:
            return True
        rows = len(self._lower_rows())
        if question.kind == "call" and not self._choosing:
            rows -= len(self._hint_rows(question, self._grid.measure))
        with contextlib.suppress(NoWidget):
            return self.screen.find_widget(self._lower).visible_region.height >= rows
        return False

    def _rows_in_sight(self) -> int:
        """Rows of the body that nothing covers, from the first one on, such as a list over the draft."""
        seen = self.screen.find_widget(self._upper).visible_region
        for row in range(seen.y + BODY_AT, seen.bottom):
            ends = (seen.x, seen.right - 1)
            if any(self.screen.get_widget_at(x, row)[0] is not self._upper for x in ends):
                return row - seen.y - BODY_AT
        return seen.height - BODY_AT

    def _look(self) -> None:
        """Take note of the rows that stand on the screen now."""
        if self._body is None or not self.is_attached or cast("App[Any]", self.app).screen is not self.screen:
            return
        with contextlib.suppress(NoWidget):
            last = self._scroll + min(self._rows_in_sight(), self._room) if self.unread else 0
            if self._drawn_at == self._scroll <= self._seen < last:
                before = self.unread
                self._seen = min(len(self._body), last)
                if before and not self.unread:
                    self._read()

    def _read(self) -> None:
        """The last row was on the screen."""
        self._draw()

    def _facts(self) -> list[Span]:
        if not self._fits:
            return [("enlarge the window to allow", "bold $error")]
        if self._drafting and not self.has_focus_within:
            return [(self._label("next"), "bold"), (" answers", "$muted")]
        number, count = self._count
        return [(f"{number} of {count}", "$muted")] if count > 1 else []

    def _lower_rows(self) -> list[RowSpans]:
        question = self.question
        if question is None:
            return []
        facts = fact_rows(question, self._grid.measure, self._glyphs)
        above = [[], *facts] if facts else []
        return [*above, *(self._field_rows() if self._mode else self._key_rows(question))]

    def _key_rows(self, question: Question) -> list[RowSpans]:
        rows: list[RowSpans] = [[]]
        if self._complaint:
            rows += [[(row, "$error")] for row in wrapped(self._complaint, self._grid.measure)]
        cells = self._grid.measure
        if self.unread and question.kind == "form":
            return [*rows, *wrapped_spans(self._unread_row("answer"), cells)]
        if question.choices:
            for choice in question.choices:
                label: list[Span] = [(f"  {choice.label}", self._tone)]
                detail: list[Span] = [("   ", ""), (choice.detail, "$muted")] if choice.detail else []
                rows += wrapped_spans([self._key(self._glyphs.key(choice.key)), *label, *detail], cells)
            return rows
        if question.kind == "form":
            enter = self._key(self._glyphs.key("enter"))
            return [*rows, [enter, (" answers", self._tone), ("   ", ""), *self._refusals()]]
        if self._choosing:
            keys: RowSpans = self._unread_row("allow") if self.unread else self._chosen_row()
            keys += [("   ", ""), ("esc", "bold"), (" goes back", "$muted")]
            said = scope_row(question, self._choosing, self._wider, self._label)
            long = self._long_rule(question)
            return [*rows, *([] if long else wrapped_spans(said, cells)), *wrapped_spans(keys, cells)]
        unread = wrapped_spans(self._unread_row("allow"), cells) if self.unread else []
        return [*rows, *unread, *self._answer_rows(), *self._hint_rows(question, cells)]

    def _chosen_row(self) -> RowSpans:
        return [self._key(self._glyphs.key("enter"), True), (" allows and remembers it", self._tone)]

    def _unread_row(self, verb: str) -> RowSpans:
        return [
            self._key(self._label("page_down")),
            (" reads on", self._tone),
            ("   ", ""),
            self._key(self._label("allow_unread")),
            (f" {self.unread:,} rows unread, {verb} anyway", self._tone),
        ]

    def _hint_rows(self, question: Question, cells: int) -> list[RowSpans]:
        """What the answer under the cursor would do, else the rules that could be remembered."""
        if self._cursor >= 0:
            name = self._answers_offered()[self._cursor][0]
            return wrapped_spans(scope_row(question, name, self._wider, self._label), cells)
        if self.unread:
            return []
        offered = [name for name, _ in self._answers_offered() if name in ALLOWING[1:]]
        if not offered:
            why = (
                "your own arguments run once"
                if question.edited
                else "nothing can be remembered for this call"
            )
            return [[(why, "$muted")]]
        rows: list[RowSpans] = []
        told = [question.offer(scope, self._wider) for scope in SCOPES]
        if len(offered) == 2 and told[0] and told[1] and told[0].text == told[1].text:
            keys = f"{self._label('allow_chat')}, {self._label('allow_always')}"
            rows += self._cut_rows(
                [(keys, "bold $approval"), *scope_row(question, "", self._wider, self._label)]
            )
        else:
            for name in offered:
                rows += self._cut_rows(scope_row(question, name, self._wider, self._label))
        return rows

    def _cut_rows(self, said: RowSpans) -> list[RowSpans]:
        """A few rows of what an answer would remember; choosing it shows all."""
        cells = self._grid.measure
        rows = wrapped_spans(said, cells)
        if len(rows) <= RULE_ROWS:
            return rows
        last = "".join(text for text, _ in rows[RULE_ROWS - 1])
        return [*rows[: RULE_ROWS - 1], [(cut(f"{last} ", cells - 1, self._glyphs.cut_right), "")]]

    def _answer_rows(self) -> list[RowSpans]:
        """The answers beside each other; one that does not fit begins the next row."""
        rows: list[RowSpans] = [[]]
        for place, (name, said) in enumerate(self._answers_offered()):
            gap: RowSpans = [("   ", "")] if rows[-1] else []
            answer = [self._key(self._label(name), place == self._cursor), (f" {said}", self._tone)]
            if width_of([*rows[-1], *gap, *answer]) > self._grid.measure and rows[-1]:
                rows.append(answer)
            else:
                rows[-1] += [*gap, *answer]
        return [part for row in rows for part in wrapped_spans(row, self._grid.measure)]

    def _refusals(self) -> list[Span]:
        return [
            self._key(self._label("refuse")),
            (" no answer", self._tone),
            ("   ", ""),
            self._key(self._label("refuse_stop")),
            (" no, stop", self._tone),
        ]

    def _field_rows(self) -> list[RowSpans]:
        rows: list[RowSpans] = []
        if self._complaint:
            rows += [[(row, "$error")] for row in wrapped(self._complaint, self._grid.measure)]
        ends = {"reason": "refuses", "edit": "shows the call again"}.get(self._mode, "answers")
        rows.append([("enter", "bold"), (f" {ends}   ", "$muted"), ("esc", "bold"), (" goes back", "$muted")])
        return rows

    def _answers_offered(self) -> list[tuple[str, str]]:
        question = self.question
        if question is None:
            return []
        gone = set(ALLOWING) if self.unread or self._body is None else set[str]()
        gone |= {
            name for name, scope in zip(ALLOWING[1:], SCOPES, strict=True) if question.offer(scope) is None
        }
        return [(name, said) for name, said in CALL_ANSWERS if name not in gone]

    @property
    def _alive(self) -> bool:
        return self._armed and (self.has_focus_within or not self._drafting)

    @property
    def _tone(self) -> str:
        return "" if self._alive else "$muted"

    def _key(self, key: str, pointed: bool = False) -> Span:
        style = "bold $approval" if self._alive else "$muted"
        return (key, f"{style} reverse" if pointed else style)

    def _draw(self) -> None:
        if self.question is None or not self.is_attached:
            return
        grid = self._grid
        self._lay_out(self.question)
        facts = len(fact_rows(self.question, grid.measure, self._glyphs))
        lower = self._lower_rows()
        upper = self._upper_rows(self._height_below(lower))
        prompt_at = -1 if self._mode or not self.has_focus_within else self._prompt_row(lower, facts)
        self._upper.update(self._dressed(upper, -1))
        self._lower.update(self._dressed(lower, prompt_at))
        self._drawn_at = -1
        self.call_after_refresh(self._painted, self._body, self._scroll)
        field = self.field.parent
        assert isinstance(field, Horizontal)
        field.display = bool(self._mode)
        if self._mode:
            rows = self._field_height()
            edges = [(" " * grid.edge, ""), (self._glyphs.waiting, "$approval"), (" ", "on $panel")]
            first = [(" " * grid.edge, ""), (self._glyphs.prompt, "bold $primary"), (" ", "on $panel")]
            lines = [first, *[edges] * (rows - 1)]
            self._side.update(_joined(lines))
            field.styles.padding = (0, max(0, grid.width - grid.right), 0, 0)

    def _height_below(self, lower: Sequence[RowSpans]) -> int:
        """Rows below the body: as many before it is read as then, so that nothing read moves out of sight."""
        if self._mode:
            return len(lower) + self._field_height()
        waived, self._waived = self._waived, True
        try:
            return max(len(lower), len(self._lower_rows()))
        finally:
            self._waived = waived

    def _field_height(self) -> int:
        rows = max(1, min(FIELD_ROWS, self.field.wrapped_document.height))
        self.field.styles.height = rows
        return rows

    def _prompt_row(self, rows: Sequence[RowSpans], facts: int) -> int:
        """The first row of keys, below the facts."""
        start = facts + 1 if facts else 0
        return next((place for place, row in enumerate(rows) if row and place >= start), -1)

    def _dressed(self, rows: Sequence[RowSpans], prompt_at: int) -> Content:
        grid = self._grid
        lines: list[RowSpans] = []
        for place, row in enumerate(rows):
            edge: Span = (self._glyphs.waiting, "$approval")
            if place == prompt_at:
                edge = (self._glyphs.prompt, "bold $primary")
            filled = padded([(" ", ""), *row], grid.column - 1)
            body = [
                (text, style if " on " in f" {style}" else f"{style} on $panel".strip())
                for text, style in filled
            ]
            lines.append([(" " * grid.edge, ""), edge, *body])
        return _joined(lines)


def _joined(lines: Sequence[Sequence[Span]]) -> Content:
    spans: list[Span] = []
    for place, line in enumerate(lines):
        if place:
            spans.append(("\n", ""))
        spans += line
    return Content.assemble(*spans)
