"""An error that wants an answer: a sentence, why, what is safe, and ways on with what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.tui.grid import Grid
from app.tui.widgets.cells import Span, fitted, plain, width_of, wrapped
from app.tui.widgets.choices import Choice, ChoicePage, PageRow
from app.tui.widgets.ink import Ink


@dataclass(frozen=True)
class Failure:
    """An error as a person needs it: a sentence, why, what is safe, and what can be done."""

    title: str
    cause: str = ""
    safe: str = ""
    choices: tuple[Choice, ...] = ()


class ErrorCard(ChoicePage):
    """An error that waits: its edge says so, its choices have keys and tell what they cost."""

    def __init__(self, failure: Failure, *, id: str | None = None) -> None:
        super().__init__(failure.choices, id=id)
        self._failure = replace(
            failure, title=plain(failure.title), cause=plain(failure.cause), safe=plain(failure.safe)
        )

    @property
    def failure(self) -> Failure:
        return self._failure

    @property
    def glows(self) -> bool:
        return False

    def page(self, grid: Grid, ink: Ink) -> list[PageRow]:
        edge = Span(ink.glyphs.waiting, "error")
        width = max(8, grid.measure - 2)
        mark = ink.glyphs.failed
        rows: list[PageRow] = []
        for number, line in enumerate(wrapped(self._failure.title, width)):
            head = Span(f"{mark} " if not number else "  ", "error")
            rows.append(PageRow(edge, (head, Span(line, "error", bold=True))))
        for text, role in ((self._failure.cause, "text"), (self._failure.safe, "muted")):
            if text:
                rows += [PageRow(edge, (Span(f"  {line}", role),)) for line in wrapped(text, width)]
        if self.choices:
            rows.append(PageRow(edge, ()))
        label_width = max((width_of((Span(choice.label),)) for choice in self.choices), default=0)
        for number in range(len(self.choices)):
            rows.append(self._card_row(number, edge, label_width, ink))
        return rows

    def _card_row(self, number: int, edge: Span, label_width: int, ink: Ink) -> PageRow:
        choice = self.choices[number]
        here = number == self._at and self.has_focus
        prompt = Span(ink.glyphs.prompt, "primary", bold=ink.plain)
        key = fitted((Span(ink.key(choice.key), bold=True),), max(3, len(ink.key(choice.key)) + 1))
        label = fitted((Span(plain(choice.label), bold=number == self._at),), label_width)
        line = (Span("  "), *key, *label, Span("   "), Span(plain(choice.cost), "muted"))
        return PageRow(prompt if here else edge, line, number)
