"""The page on a terminal with colours: it draws edges and settles Markdown, row by row."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Sequence

from rich.cells import cell_len

from app.commands.face import Rows
from app.frontend.question import Question, body_of, fact_rows, title_row
from app.markdown.sgr import Span, TerminalStyle
from app.repl.page import (
    CARD_ROWS,
    HOW_TO_ANSWER,
    LEAST_PAGE_ROWS,
    MEASURE,
    MOST_RESULT_ROWS,
    TEXT_COLUMN,
    Kind,
    ToolRow,
    Unread,
    end_of,
    offer_rows,
)
from app.repl.settling import SettlingText, shortened
from app.terminal.output import one_line, sanitize
from app.terminal.text_rows import RowSpans, wrapped


class StyledPage:
    """The page on a terminal with styles. `put` prints rows for good, `live` shows the last row."""

    def __init__(
        self,
        ink: TerminalStyle,
        put: Callable[[Sequence[str]], None],
        live: Callable[[Sequence[Span] | None], None],
        columns: Callable[[], int],
        *,
        show_thinking: bool = False,
        lines: Callable[[], int] = lambda: shutil.get_terminal_size().lines,
    ) -> None:
        """`columns` and `lines` of the screen now."""
        self._lines = lines
        self._unread = Unread()
        self.ink = ink
        self._put = put
        self._live = live
        self._columns = columns
        self._show_thinking = show_thinking
        self._last: Kind = "blank"
        self._answer: SettlingText | None = None
        self._thought: SettlingText | None = None
        self._state = ""
        self._late: asyncio.TimerHandle | None = None

    @property
    def measure(self) -> int:
        """Cells of a line of text."""
        return max(10, min(MEASURE, self._columns() - TEXT_COLUMN - 2))

    def user(self, text: str, note: str = "") -> None:
        rows = wrapped(sanitize(text).replace("\t", "    ").rstrip("\n"), self.measure)
        first: RowSpans = [(f"{self.ink.glyphs.prompt} ", "bold $primary"), (rows[0], "")]
        if note:
            first.append((f"   {note}", "$muted"))
        self._print("user", [first, *([("  ", ""), (row, "")] for row in rows[1:])])

    def begin(self, name: str, note: str = "") -> None:
        row: RowSpans = [("  ", ""), (self._cut(name), "bold $assistant")]
        if note:
            row.append((f"   {note}", "$muted"))
        self._print("head", [row])

    def answer(self, text: str) -> None:
        if self._answer is None:
            self._answer = SettlingText(self.measure, self.ink.mode)
            text = text.lstrip("\n")
        self._answer.append(text)
        self._answer.resize(self.measure)
        self._settle()

    def end_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._body("answer", answer, "  ", final=True)
        self._show()

    def think(self, text: str) -> None:
        if self._thought is None:
            self._thought = SettlingText(self.measure, self.ink.mode)
            text = text.lstrip("\n")
        self._thought.append(text)
        self._settle()

    def end_thought(self, seconds: float | None) -> None:
        thought, self._thought = self._thought, None
        if thought is None:
            return
        edge = self._aside_edge("$reasoning")
        if self._show_thinking:
            self._body("aside", thought, edge, final=True)
        took = "" if seconds is None else f" for {seconds:.1f} s"
        text = f"thought{took}"
        self._print("aside", [[(f"{self.ink.glyphs.aside} ", "$reasoning"), (text, "italic $reasoning")]])
        self._show()

    def tool(self, row: ToolRow) -> None:
        glyphs = self.ink.glyphs
        edge: Span = (f"{glyphs.aside} ", "$tool")
        spans: RowSpans = [edge, (self._cut(row.name), "bold $tool")]
        summary = shortened(row.summary or row.outcome, self.measure // 2, glyphs.cut_right)
        room = self.measure - sum(cell_len(text) for text, _ in spans) - cell_len(summary) - 6
        if row.target and room > 4:
            spans.append((f" {shortened(row.target, room, glyphs.cut_right)}", ""))
        # Only what failed has the colour of a failure; what was not run has done nothing wrong.
        signs = {"done": (glyphs.done, "$success"), "failed": (glyphs.failed, "$error")}
        sign, style = signs.get(row.outcome, ("", "$muted"))
        spans += [(f"  {sign}", style), (f" {summary}".lstrip() if not sign else f" {summary}", "$muted")]
        details = [
            [edge, (f"  {part}", "$muted")]
            for line in end_of(row.detail)
            for part in wrapped(sanitize(line).replace("\t", "    "), self.measure - 2)[:MOST_RESULT_ROWS]
        ]
        self._print("aside", [spans, *details])
        self._show()

    def card(self, question: Question, note: str) -> None:
        glyphs = self.ink.glyphs
        # The full screen's card takes keys at once; here a line is written.
        ends: list[Span] = [(HOW_TO_ANSWER, "$muted")] if question.kind == "call" else []
        cells = self.measure - 2
        self._unread = Unread(question.id, body_of(question, cells, glyphs))
        self._print("aside", self._edge_rows([title_row(question, ends, self.measure, glyphs)]))
        self.read_on(self._page_rows())
        rows = [*fact_rows(question, cells, glyphs), *offer_rows(question, cells)]
        if note:
            rows.append([(note, "$muted")])
        self._print("aside", self._edge_rows(rows))

    def unread(self, question: Question) -> int:
        return self._unread.count if self._unread.question_id == question.id else 0

    def read_on(self, count: int = 0) -> None:
        self._print("aside", self._edge_rows(self._unread.take(count or self._page_rows())))

    def _page_rows(self) -> int:
        return max(LEAST_PAGE_ROWS, self._lines() - CARD_ROWS)

    def _edge_rows(self, rows: Sequence[Sequence[Span]]) -> list[RowSpans]:
        edge: Span = (f"{self.ink.glyphs.waiting} ", "bold $approval")
        return [[edge, *row] for row in rows]

    def state(self, text: str) -> None:
        self._state = text
        self._show()

    def stats(self, text: str) -> None:
        self._print("stats", [[("  ", ""), (text, "$muted")]])

    def note(self, text: str, *, warning: bool = False) -> None:
        dashes = self.ink.glyphs.rule * 3
        style = "$warning" if warning else "$muted"
        self._print("note", [[("  ", ""), (f"{dashes} {self._cut(text)} {dashes}", style)]])

    def news(self, text: str, *, error: bool = False) -> None:
        if not text.strip():
            return
        rows = wrapped(sanitize(text).replace("\t", " ").strip("\n"), self.measure)
        if error:
            glyphs = self.ink.glyphs
            edge: Span = (f"{glyphs.waiting} ", "$error")
            spans: list[RowSpans] = [[edge, (row, "")] for row in rows]
            spans[0] = [edge, (f"{glyphs.failed} ", "$error"), (rows[0], "bold")]
        else:
            spans = [[("  ", ""), (row, "$muted")] for row in rows]
        self._print("news", spans)

    def table(self, title: str, body: Rows | str) -> None:
        rows: list[RowSpans] = [[("  ", ""), (self._cut(title), "bold")]] if title else []
        if isinstance(body, str):
            lines = sanitize(body).replace("\t", "    ").split("\n")
            rows += [[("  ", ""), (part, "")] for line in lines for part in wrapped(line, self.measure)]
        else:
            rows += [[("  ", ""), *row] for row in _columns(body, self.measure)]
        self._print("table", rows)

    def facts(self, name: str, facts: Sequence[str]) -> None:
        rows: list[RowSpans] = [[("  ", ""), (self._cut(name), "bold")]]
        for fact in map(one_line, facts):
            used = sum(cell_len(text) for text, _ in rows[-1])
            if used + 3 + cell_len(fact) > self.measure + TEXT_COLUMN:
                rows.append([("  ", ""), (fact, "$muted")])
            else:
                rows[-1].append((f"   {fact}", "$muted"))
        self._print("news", rows)

    def rest(self) -> None:
        if self._last != "blank":
            self._put([""])
            self._last = "blank"

    # ---- parts -----------------------------------------------------------------------------

    def _settle(self) -> None:
        """Print the rows that are final; those passed over now come soon, even if no more text does."""
        text, waits = self._answer, 0.0
        if text is not None:
            self._body("answer", text, "  ", final=False)
            waits = text.wait_s
        elif self._thought is not None and self._show_thinking:
            self._body("aside", self._thought, self._aside_edge("$reasoning"), final=False)
            waits = self._thought.wait_s
        self._show()
        if waits and self._late is None:
            with contextlib.suppress(RuntimeError):  # Without a loop nobody looks meanwhile.
                self._late = asyncio.get_running_loop().call_later(waits, self._settle_late)

    def _settle_late(self) -> None:
        self._late = None
        self._settle()

    def _body(self, kind: Kind, text: SettlingText, edge: str, *, final: bool) -> None:
        width = self.measure
        rows = [
            self._edged(edge, self.ink.body(row, width)) for row in (text.finish() if final else text.take())
        ]
        if rows:
            self._out(kind, rows)

    def _edged(self, edge: str, row: str) -> str:
        return f"{edge}{row}" if row else edge.rstrip(" ")

    def _aside_edge(self, style: str) -> str:
        return self.ink.write([(f"{self.ink.glyphs.aside} ", style)])

    def _cut(self, text: str) -> str:
        return shortened(text, self.measure, self.ink.glyphs.cut_right)

    def _print(self, kind: Kind, rows: Sequence[Sequence[Span]]) -> None:
        self._out(kind, [self.ink.write(row) for row in rows])

    def _out(self, kind: Kind, rows: Sequence[str]) -> None:
        before = self._last
        together = before == kind and kind not in ("user", "head", "table")
        gap = before != "blank" and not together and (before != "head" or kind == "user")
        self._put([*([""] if gap else []), *rows])
        self._last = kind

    def _show(self) -> None:
        """Draw the live row: what is being said, or what goes on."""
        cells = max(8, self._columns() - TEXT_COLUMN - 2)
        if self._thought is not None:
            edge: Span = (f"{self.ink.glyphs.aside} ", "$reasoning")
            self._live([edge, (self._thought.tail(cells) or "thinking", "italic $muted")])
        elif self._answer is not None:
            self._live([("  ", ""), (self._answer.tail(cells), "$muted")])
        elif self._state:
            self._live([("  ", ""), (shortened(self._state, cells, self.ink.glyphs.cut_right), "$muted")])
        else:
            self._live(None)


def _columns(rows: Rows, measure: int) -> list[RowSpans]:
    """Columns side by side, the last one wrapped; the first is bold."""
    count = max((len(row) for row in rows), default=0)
    widths = [
        min(max((cell_len(row[place]) for row in rows if len(row) > place), default=0), measure // 2)
        for place in range(count)
    ]
    found: list[RowSpans] = []
    for row in rows:
        cells = [*map(one_line, row)] + [""] * (count - len(row))
        start = sum(width + 3 for width in widths[:-1])
        room = max(10, measure - start)
        last = wrapped(cells[-1], room) if cells else [""]
        spans: RowSpans = []
        for place, cell in enumerate(cells[:-1]):
            shown = shortened(cell, widths[place], "\u203a")
            blanks = " " * (widths[place] - cell_len(shown) + 3)
            spans.append((shown + blanks, "bold" if place == 0 else ""))
        found.append([*spans, (last[0], "" if spans else "bold")])
        found += [[(" " * start + part, "")] for part in last[1:]]
    return found
