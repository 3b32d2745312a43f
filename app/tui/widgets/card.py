"""How the card of an open question looks: the call or form, its keys, and what each of them would allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from app.glyphs import Glyphs
from app.tui.grid import Grid, grid_of
from app.tui.keys import Labels
from app.tui.widgets.card_field import CardField
from app.tui.widgets.question import Question, body_rows, scope_row, title_row
from app.tui.widgets.text_rows import RowSpans, Span, padded, width_of, wrapped, wrapped_spans

CALL_ANSWERS = (
    ("allow_once", "once"),
    ("allow_chat", "this chat"),
    ("allow_always", "always"),
    ("allow_edited", "edit"),
    ("refuse", "no, go on"),
    ("refuse_stop", "no, stop"),
)
"""What a key of the card does, by its name in the table of keys, and the word beside it."""
LEAST_BODY_ROWS = 2
OTHER_ROWS = 15
"""Rows of a screen that the body leaves: those of the card itself, seam, composer, and a few above."""
FIELD_ROWS = 6


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
        self._most_body = 8
        self.question: Question | None = None
        self._count = (1, 1)
        self._armed = False
        self._drafting = False
        self._cursor = -1
        self._scroll = 0
        self._mode = ""
        self._wider = 0
        self._label = Labels(keymap, glyphs)
        self._edited: dict[str, Any] | None = None
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
        self._grid = grid
        self._most_body = max(LEAST_BODY_ROWS, min(height - OTHER_ROWS, height // 2))
        self._draw()

    @property
    def rows(self) -> list[RowSpans]:
        """What the card says, without edge and ground."""
        return [*self._upper_rows(), *self._lower_rows()]

    def _upper_rows(self) -> list[RowSpans]:
        question = self.question
        if question is None:
            return []
        cells = self._grid.measure
        body = body_rows(question, cells, self._glyphs, self._edited)
        rows: list[RowSpans] = [
            title_row(question, self._facts(), cells, self._glyphs, self._edited is not None)
        ]
        room = self._most_body
        last = max(0, len(body) - room)
        self._scroll = min(self._scroll, last)
        if body:
            rows.append([])
            rows += body[self._scroll : self._scroll + room]
        if last:
            more = len(body) - room - self._scroll
            told = f"{self._glyphs.below} {more:,} more" if more else f"{self._glyphs.above} the end"
            rows.append([(told, "$muted"), ("   up, down", "bold"), (" scroll", "$muted")])
        return rows

    def _facts(self) -> list[Span]:
        if self._drafting and not self.has_focus_within:
            return [(self._label("next"), "bold"), (" answers", "$muted")]
        number, count = self._count
        return [(f"{number} of {count}", "$muted")] if count > 1 else []

    def _lower_rows(self) -> list[RowSpans]:
        question = self.question
        if question is None:
            return []
        if self._mode:
            return self._field_rows()
        rows: list[RowSpans] = [[]]
        if self._complaint:
            rows += [[(row, "$error")] for row in wrapped(self._complaint, self._grid.measure)]
        if question.choices:
            for choice in question.choices:
                detail: list[Span] = [("   ", ""), (choice.detail, "$muted")] if choice.detail else []
                rows.append(
                    [self._key(self._glyphs.key(choice.key)), (f"  {choice.label}", self._tone), *detail]
                )
            return rows
        if question.kind == "form":
            enter = self._key(self._glyphs.key("enter"))
            return [*rows, [enter, (" answers", self._tone), ("   ", ""), *self._refusals()]]
        hinted = self._answers_offered()[self._cursor][0] if self._cursor >= 0 else self._default_hint()
        said = scope_row(question, hinted, self._wider, self._label)
        return [*rows, *self._answer_rows(), *wrapped_spans(said, self._grid.measure)]

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
        gone = {"allow_chat", "allow_always"} if self._edited is not None else set[str]()
        if question.offer("session") is None:
            gone.add("allow_chat")
        if question.offer("always") is None:
            gone.add("allow_always")
        return [(name, said) for name, said in CALL_ANSWERS if name not in gone]

    def _default_hint(self) -> str:
        offered = [name for name, _ in self._answers_offered()]
        return "allow_chat" if "allow_chat" in offered else "allow_once"

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
        upper, lower = self._upper_rows(), self._lower_rows()
        prompt_at = -1 if self._mode or not self.has_focus_within else self._key_row(lower)
        self._upper.update(self._dressed(upper, -1))
        self._lower.update(self._dressed(lower, prompt_at))
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

    def _field_height(self) -> int:
        rows = max(1, min(FIELD_ROWS, self.field.wrapped_document.height))
        self.field.styles.height = rows
        return rows

    def _key_row(self, rows: Sequence[RowSpans]) -> int:
        return next((place for place, row in enumerate(rows) if row), -1)

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
