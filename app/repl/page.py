"""The chat as it goes down the screen: who speaks, what was called, what is news. Only ever added to.

`StyledPage` draws edges and settles Markdown; a plain page (`plain_page`) writes words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from app.commands.face import Rows
from app.frontend.card_body import Body
from app.frontend.question import Question, Scope, rule_text
from app.terminal.text_rows import RowSpans, wrapped

MEASURE = 92
TEXT_COLUMN = 2
MOST_RESULT_ROWS = 4
HOW_TO_ANSWER = "key, then enter"
LEAST_PAGE_ROWS = 5
CARD_ROWS = 8
"""Rows of the screen that the first page of a card leaves for its title, its facts and the question."""
Kind = Literal["blank", "user", "head", "aside", "answer", "stats", "note", "news", "table", "card"]


@dataclass(frozen=True)
class ToolRow:
    """What became of one call."""

    name: str
    target: str
    outcome: Literal["done", "failed", "refused", "not run"]
    summary: str
    detail: Sequence[str] = ()


def end_of(detail: Sequence[str]) -> list[str]:
    """The last lines of a result, which tell how it ended, and how many are before them."""
    left_out = len(detail) - MOST_RESULT_ROWS
    return [*([f"[{left_out:,} more]"] if left_out > 0 else []), *detail[max(0, left_out) :]]


@dataclass
class Unread:
    """The body of a card, and how much of it was written."""

    question_id: str = ""
    body: Body | None = None
    written: int = 0

    @property
    def count(self) -> int:
        """Rows that were not written yet."""
        return 0 if self.body is None else len(self.body) - self.written

    def take(self, count: int) -> list[RowSpans]:
        rows = [] if self.body is None else self.body.rows(self.written, count)
        self.written += len(rows)
        return rows


def offer_rows(question: Question, cells: int) -> list[RowSpans]:
    """What each answer would remember, whole."""
    if question.kind != "call":
        return []
    rows: list[RowSpans] = []
    for scope, key in (("session", "s"), ("always", "a")):
        offer = question.offer(cast("Scope", scope))
        if offer is not None:
            until = "until this chat closes" if key == "s" else "from now on; /tools removes it"
            said = f"allows {rule_text(offer)} {until}"
            rows += (
                [[(f"{key} ", "bold $approval"), (said, "$muted")]]
                if len(said) < cells - 2
                else [[(part, "$muted")] for part in wrapped(f"{key} {said}", cells)]
            )
    return rows


class ReplPage(Protocol):
    """Where a chat is shown. Texts are untrusted; the page cleans them."""

    def user(self, text: str, note: str = "") -> None:
        """A message of the person; `note` such as "queued"."""

    def begin(self, name: str, note: str = "") -> None:
        """A reply of a model begins."""

    def answer(self, text: str) -> None:
        """More of the answer."""

    def end_answer(self) -> None:
        """The answer's text is whole, or was stopped."""

    def think(self, text: str) -> None:
        """More of a thought."""

    def end_thought(self, seconds: float | None) -> None:
        """The thought is over; None where nobody knows how long it took."""

    def tool(self, row: ToolRow) -> None:
        """A call has ended."""

    def card(self, question: Question, note: str) -> None:
        """A question to the person, whole; `note` says how to come to answer it."""

    def unread(self, question: Question) -> int:
        """Rows of the last card that were not written yet; none where it asks something else."""
        ...

    def read_on(self, count: int = 0) -> None:
        """Write more of the last card: so many rows, or a screenful."""

    def state(self, text: str) -> None:
        """What goes on, in a word; "" when nothing does. It leaves no trace."""

    def stats(self, text: str) -> None:
        """Figures of a reply."""

    def note(self, text: str, *, warning: bool = False) -> None:
        """Something that happened to the chat."""

    def news(self, text: str, *, error: bool = False) -> None:
        """Something about the program, or an error."""

    def table(self, title: str, body: Rows | str) -> None:
        """Something to read."""

    def facts(self, name: str, facts: Sequence[str]) -> None:
        """What is known of the model."""

    def rest(self) -> None:
        """The person writes now."""
