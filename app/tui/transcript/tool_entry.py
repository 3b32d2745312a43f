"""A tool call on the page: its name and main argument, arguments as they stream, and what it returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from app.markdown.diff import DiffBody
from app.markdown.literal import LiteralText
from app.markdown.rows import Body, Run
from app.tui.transcript.chrome import GAP, line
from app.tui.transcript.entry import PLAIN, Dress, Entry, Kind, Section, Sheet, with_body
from app.tui.widgets.cells import plain

SHOWN_ROWS = 8
"""Rows of a result before "more"."""
ARGUMENT_ROWS = 4

State = Literal["writing", "asks", "waits", "running", "done", "failed", "denied"]
"""Arguments still streaming; waiting for an answer of yours, or for its turn; running; and the three ends."""

_NO_DIFF = DiffBody("")
_WORDS = {"writing": "writing", "asks": "asks", "waits": "waits", "running": "running"}


class ToolCall(Entry):
    """One call: folded it is one row, open its arguments, its diff and its result hang below."""

    kind: ClassVar[Kind] = "tool"
    inset: ClassVar[int] = 2
    foldable: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        target: str = "",
        *,
        arguments: str = "",
        approved_arguments: str | None = None,
        diff: str = "",
        output: str = "",
        state: State = "done",
        facts: str = "",
        id: str = "",
    ) -> None:
        """`target` is the main argument, `facts` as "41 lines, 12 ms"; `diff` a unified diff of what changes.

        `arguments` are JSON as the model wrote it, `approved_arguments` what you made of it.
        """
        super().__init__(id=id, live=state in _WORDS)
        self.name = name
        self.target = target
        self.approved_arguments = approved_arguments
        self.state: State = state
        self.facts = facts
        self.folded = not self.live
        self.whole = False
        """Whether the arguments are shown beside the target, and the result beyond its first rows."""
        self._arguments = LiteralText(arguments, finished=not self.live)
        self._output = LiteralText(output, finished=not self.live)
        self._diff = DiffBody(diff) if diff else None

    @property
    def arguments(self) -> str:
        """The arguments so far."""
        return self._arguments.source

    @property
    def output(self) -> str:
        """What it returned so far."""
        return self._output.source

    @output.setter
    def output(self, text: str) -> None:
        if text != self._output.source:
            self._output = LiteralText(text, finished=not self.live)
            self.touch()

    @property
    def diff(self) -> str:
        """A unified diff of what the call changes; "" where it changes no file."""
        return "" if self._diff is None else self._diff.source

    @diff.setter
    def diff(self, text: str) -> None:
        self._diff = DiffBody(text) if text else None
        self.touch()

    @property
    def source(self) -> str:
        head = f"{plain(self.name)} {self.approved_arguments or self.arguments or self.target}".rstrip()
        return "\n".join([part for part in (head, self.output or self.diff) if part])

    @property
    def parts(self) -> Sequence[str]:
        return (
            f"{plain(self.name)} {plain(self.target)}".rstrip(),
            self.arguments,
            plain(self.approved_arguments or ""),
            self.diff,
            self.output,
        )

    def grow(self, text: str) -> None:
        """As of any entry; of output, a carriage return starts the open line again."""
        first, *again = text.split("\r") if self.body is self._output else [text]
        super().grow(first)
        for part in again:
            self._output.restart_line()
            super().grow(part)

    def reveal(self, section: int) -> None:
        super().reveal(section)
        if section and not self.whole:
            self.whole = True
            self.touch()

    @property
    def body(self) -> Body:
        """What streams now: arguments until the call runs, then output."""
        return self._arguments if self.state == "writing" else self._output

    def release(self) -> None:
        super().release()
        self._arguments.release()
        self._output.release()
        if self._diff is not None:
            self._diff.release()

    def settle(self, budget: float) -> bool:
        return self._diff is not None and self._diff.settle(budget)

    def toggle(self) -> None:
        """Folded, open, with all rows where there are more, folded again."""
        cut = any([section.hidden for section in self.sections])
        if not self.folded and cut and not self.whole:
            self.whole = True
        else:
            self.folded, self.whole = not self.folded, False
        self.touch()

    def end(self, state: State, facts: str = "", *, fold: bool = True) -> None:
        """The call ended; `facts` stands at the right. Folds unless it failed or `fold` is False."""
        self.state, self.facts, self.live = state, facts, state in _WORDS
        self._arguments.finish()
        self._output.finish()
        if fold and state == "done" and not self.live:
            self.folded = True
        self.touch()

    def arrange(self, sheet: Sheet) -> list[Section]:
        glyphs = sheet.glyphs
        hang = Dress(hang=glyphs.aside, hang_role="tool", tone="muted")
        width = sheet.measure - 2
        shut = self.folded
        told = self.state == "writing" or self.whole or (not self.target and self._diff is None)
        changed = self.approved_arguments is not None and self.approved_arguments != self.arguments
        row = line(
            [Run("you changed it to ", "muted"), Run(plain(self.approved_arguments or ""), "text", 0)],
            [],
            sheet._replace(measure=width),
        )
        return [
            self._head(sheet),
            with_body(
                self._arguments,
                hang,
                width,
                limit=0 if self.whole else ARGUMENT_ROWS,
                tail=self.live,
                shut=shut or not told or not self.arguments,
            ),
            Section(hang._replace(tone="text"), [row], shut=shut or not changed),
            with_body(
                self._diff or _NO_DIFF, hang._replace(tone="text"), width, shut=shut or self._diff is None
            ),
            with_body(
                self._output,
                hang,
                width,
                limit=0 if self.whole else SHOWN_ROWS,
                tail=True,  # what is new of a program's output is at its end
                shut=shut or not self.output,
            ),
        ]

    def _head(self, sheet: Sheet) -> Section:
        glyphs = sheet.glyphs
        name = plain(self.name)
        left: list[Run] = [
            Run(f"{glyphs.folded if self.folded else glyphs.unfolded} ", "tool"),
            Run(name, "tool:b", 0),
            *([Run(f" {plain(self.target)}", "text", len(name))] if self.target else []),
        ]
        return Section(PLAIN, [line(left, self._facts(sheet), sheet)])

    def _change_runs(self) -> list[Run]:
        """Lines that a change of a file added and removed."""
        rows = self.diff.split("\n") if self.diff else []
        bodies = [row for row in rows if not row.startswith(("+++", "---"))]
        added, removed = (sum(row.startswith(sign) for row in bodies) for sign in "+-")
        return [Run(f" +{added:,}", "added"), Run(f" -{removed:,}", "removed")] if rows else []

    def _facts(self, sheet: Sheet) -> Sequence[Run]:
        facts = "" if sheet.narrow else plain(self.facts)
        match self.state:
            case "done":
                change = self._change_runs()
                told = [*change, *([Run(f"{',' if change else ''} {facts}", "muted")] if facts else [])]
                return [Run(sheet.glyphs.done, "success"), *told]
            case "failed":
                return [Run(sheet.glyphs.failed, "error"), Run(f" {facts or 'failed'}", "error")]
            case "denied":
                return [Run(facts or "not run", "muted")]
            case "asks":
                return [Run("asks", "approval:b")]
            case _:
                word = _WORDS[self.state]
                role = "primary" if self.state == "running" else "muted"
                return [Run(word, role), *([Run(f"{GAP}{facts}", "muted")] if facts else [])]
