"""The kinds of entries that people and models make: turns, names, answers, thoughts, notes and errors.

Calls and diffs are in `tool_entry` and `diff`. Every text given here may be hostile; bodies and
`plain` make it printable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len

from app.markdown.literal import LiteralText
from app.markdown.rows import Body, Row, Run
from app.tui.transcript.chrome import GAP, GROUP_GAP, line, one_line
from app.tui.transcript.entry import LIVE_EDGE, PLAIN, Dress, Entry, Kind, Section, Sheet, with_body
from app.tui.widgets.cells import cut, plain

if TYPE_CHECKING:
    from app.markdown.markdown import MarkdownText

TIME_ROOM = 10
"""Cells that a turn of yours leaves free at the right."""
_FACTS_SHARE = 0.6


class UserTurn(Entry):
    """What the person wrote, shown literally."""

    kind: ClassVar[Kind] = "user"
    inset: ClassVar[int] = TIME_ROOM

    def __init__(
        self,
        text: str,
        *,
        time: str = "",
        attachments: Sequence[str] = (),
        id: str = "",
        in_full: Callable[[str], str] = str,
    ) -> None:
        """`time` stands at the right; each attachment is one muted row, as `trace.txt  1.1 KB`. `in_full`
        puts what words stand for in their place."""
        super().__init__(id=id)
        self._in_full = in_full
        self.time = time
        self.attachments = tuple(attachments)
        self._body = LiteralText(text, finished=True)

    def in_full(self, piece: str) -> str:
        return self._in_full(piece)

    @property
    def hidden(self) -> bool:
        return not self.source and not self.attachments

    @property
    def beside(self) -> int:
        return len(self.attachments)

    @property
    def source(self) -> str:
        return self._body.source

    @property
    def body(self) -> Body:
        return self._body

    def arrange(self, sheet: Sheet) -> list[Section]:
        right = () if not self.time else (Run(plain(self.time), "muted"),)
        dress = Dress(sheet.glyphs.edge, "user", "surface", right=right)
        sections = [with_body(self._body, dress, sheet.measure - TIME_ROOM, shut=not self.source)]
        if self.attachments:
            rows = [line([Run(one_line(text), "muted")], [], sheet) for text in self.attachments]
            sections.append(Section(dress if not self.source else dress._replace(right=()), rows))
        return sections


class NameRow(Entry):
    """Who answers, with duration and speed at the right; the row above thought, calls and answer."""

    kind: ClassVar[Kind] = "name"
    stop: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        facts: Sequence[str] = (),
        *,
        variant: tuple[int, int] | None = None,
        live: bool = False,
        id: str = "",
    ) -> None:
        """`facts` as ("2.4 s", "109 tok/s"); `variant` as (2, 3) for the second of three."""
        super().__init__(id=id, live=live)
        self.name = name
        self.variant_keys = "[ ]"
        """What walks the variants."""
        self.facts = tuple(facts)
        self.variant = variant

    @property
    def source(self) -> str:
        return plain(self.name)

    def arrange(self, sheet: Sheet) -> list[Section]:
        left = [Run(self.source, "assistant:b", 0)]
        if self.variant is not None and self.variant[1] > 1:
            place, count = self.variant
            keys = f"{GAP}{self.variant_keys}" if self.variant_keys else ""
            left += [Run(f"{GROUP_GAP}variant {place} of {count}{keys}", "muted")]
        facts = "" if sheet.narrow else GROUP_GAP.join([plain(fact) for fact in self.facts])
        right = [Run(cut(facts, int(sheet.measure * _FACTS_SHARE)), "muted")] if facts else []
        dress = Dress(LIVE_EDGE, "primary") if self.live else PLAIN
        return [Section(dress, [line(left, right, sheet)])]


class Answer(Entry):
    """Markdown that a model wrote."""

    kind: ClassVar[Kind] = "answer"

    @property
    def beside(self) -> int:
        return 0

    def __init__(self, text: str = "", *, live: bool = False, id: str = "") -> None:
        super().__init__(id=id, live=live)
        self._body = _markdown(text, finished=not live)
        self._blank = not text or text.isspace()

    @property
    def source(self) -> str:
        return self._body.source

    @property
    def body(self) -> Body:
        return self._body

    @property
    def hidden(self) -> bool:
        if self._blank:
            text = self._body.source
            self._blank = not text or text.isspace()
        return self._blank

    def arrange(self, sheet: Sheet) -> list[Section]:
        return [with_body(self._body, PLAIN, sheet.measure)]


class Thought(Entry):
    """What a model thought before it answered: one row, or that row and the text hanging below it."""

    kind: ClassVar[Kind] = "thought"
    inset: ClassVar[int] = 2
    foldable: ClassVar[bool] = True

    def __init__(
        self,
        text: str = "",
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        live: bool = False,
        id: str = "",
    ) -> None:
        """Open while live, folded otherwise."""
        super().__init__(id=id, live=live)
        self.seconds = seconds
        self.tokens = tokens
        self.folded = not live
        self._body = _markdown(text, finished=not live)

    @property
    def source(self) -> str:
        return self._body.source

    @property
    def body(self) -> Body:
        return self._body

    @property
    def parts(self) -> Sequence[str]:
        return ("", self._body.source)

    @property
    def label(self) -> str:
        """What the first row says."""
        parts: list[str] = []
        if self.seconds is not None:
            parts.append(f"for {self.seconds:.1f} s" if self.seconds < 60 else f"for {self.seconds:,.0f} s")
        if self.tokens is not None:
            parts.append(f"{self.tokens:,} token{'s' * (self.tokens != 1)}")
        word = "thinking" if self.live else "thought"
        return (
            f"{word} {', '.join(parts)}" if parts and self.seconds is not None else ", ".join([word, *parts])
        )

    def arrange(self, sheet: Sheet) -> list[Section]:
        glyph = sheet.glyphs.folded if self.folded else sheet.glyphs.unfolded
        head = line([Run(f"{glyph} ", "reasoning"), Run(self.label, "reasoning:i")], [], sheet)
        sections = [Section(PLAIN, [head])]
        if not self.folded:
            dress = Dress(hang=sheet.glyphs.aside, hang_role="reasoning", tone="reasoning", attributes="i")
            sections.append(with_body(self._body, dress, sheet.measure - 2))
        return sections


class Note(Entry):
    """A line across the measure: another model, summarised or dropped turns. A text below it unfolds."""

    kind: ClassVar[Kind] = "note"
    inset: ClassVar[int] = 2

    def __init__(self, label: str, text: str = "", *, lost: bool = False, id: str = "") -> None:
        """`text` is Markdown that opening shows; `lost` where something is gone from the context."""
        super().__init__(id=id)
        self.label = label
        self.lost = lost
        self.folded = True
        self._body = _markdown(text, finished=True) if text else None

    @property
    def source(self) -> str:
        return plain(self.label) if self._body is None else self._body.source

    @property
    def parts(self) -> Sequence[str]:
        return (plain(self.label),) if self._body is None else ("", self._body.source)

    @property
    def body(self) -> Body | None:
        return self._body

    def toggle(self) -> None:
        if self._body is not None:
            self.folded = not self.folded
            self.touch()

    def arrange(self, sheet: Sheet) -> list[Section]:
        glyphs, label = sheet.glyphs, plain(self.label)
        if self._body is not None:
            label = f"{glyphs.folded if self.folded else glyphs.unfolded} {label}"
        dashes = glyphs.rule * 3
        label = cut(label, max(1, sheet.measure - 8), glyphs.cut_right)
        rest = max(0, sheet.measure - cell_len(label) - 5)
        runs = (
            Run(f"{dashes} ", "faint"),
            Run(label, "warning" if self.lost else "muted", 0 if self._body is None else -1),
            Run(f" {glyphs.rule * rest}", "faint"),
        )
        sections = [Section(PLAIN, [Row(runs)])]
        if self._body is not None:
            dress = Dress(hang=glyphs.aside, tone="muted")
            sections.append(with_body(self._body, dress, sheet.measure - 2, shut=self.folded))
        return sections


class KeyChoice(NamedTuple):
    """A way out of an error."""

    key: str
    label: str
    cost: str = ""
    """What it costs or gives, in a few words."""


class ErrorEntry(Entry):
    """What went wrong: one sentence, the cause, what is safe, and the ways out with their keys."""

    kind: ClassVar[Kind] = "error"

    def __init__(
        self,
        sentence: str,
        cause: str = "",
        *,
        safe: str = "",
        remedy: str = "",
        choices: Sequence[KeyChoice] = (),
        chosen: int | None = None,
        id: str = "",
    ) -> None:
        """`chosen` is the choice that the prompt stands at, None where keys go elsewhere."""
        super().__init__(id=id)
        self.sentence = sentence
        self.cause = cause
        self.safe = safe
        self.remedy = remedy
        self.choices = tuple(choices)
        self.chosen = chosen

    @property
    def beside(self) -> int:
        return len(self.parts) + len(self.choices) + bool(self.choices)

    @property
    def source(self) -> str:
        return "\n".join(self.parts)

    @property
    def parts(self) -> Sequence[str]:
        return [text for text in (self.sentence, self.cause, self.safe, self.remedy) if text]

    def arrange(self, sheet: Sheet) -> list[Section]:
        glyphs = sheet.glyphs
        dress = Dress(glyphs.waiting, "error")
        mark = f"{glyphs.failed} "
        indent = " " * cell_len(mark)
        sections: list[Section] = []
        for text, tone, attributes in (
            (self.sentence, "error", "b"),
            (self.cause, "text", ""),
            (self.safe, "muted", ""),
            (self.remedy, "text", ""),
        ):
            if text:
                first = not sections
                lead = dress._replace(tone=tone, attributes=attributes)
                body = LiteralText(text, finished=True)
                body.layout(max(1, sheet.measure - len(indent)), sheet.mode)
                rows = [
                    row._replace(runs=(Run(mark if first and not at else indent, "error"), *row.runs))
                    for at, row in enumerate(body.rows)
                ]
                sections.append(Section(lead, rows))
        return [*sections, *self._ways_out(dress, indent, sheet)]

    def _ways_out(self, dress: Dress, indent: str, sheet: Sheet) -> list[Section]:
        if not self.choices:
            return []
        width = max([cell_len(plain(choice.label)) for choice in self.choices])
        sections = [Section(dress, [Row()])]
        for index, (key, label, cost) in enumerate(self.choices):
            chosen = index == self.chosen
            room = " " * (width - cell_len(plain(label)) + 3)
            runs = [
                Run(f"{indent}{sheet.glyphs.key(plain(key))}  ", "text:b"),
                Run(plain(label), "text:b" if chosen else "text"),
                *([Run(f"{room}{plain(cost)}", "muted")] if cost else []),
            ]
            edge = Dress(sheet.glyphs.prompt, "primary", attributes="") if chosen else dress
            sections.append(Section(edge, [line(runs, [], sheet)]))
        return sections


class Progress(Entry):
    """A prompt being read or a model being loaded: a meter, and a row of numbers."""

    kind: ClassVar[Kind] = "progress"
    stop: ClassVar[bool] = False

    def __init__(
        self, word: str, fraction: float | None = 0.0, *, left: str = "", facts: Sequence[str] = ()
    ) -> None:
        """`word` as "reading"; `fraction` of 0 to 1, None before it is known; `left` as "5 s left"; `facts`
        are the second row."""
        super().__init__(live=True)
        self.word = word
        self.fraction = fraction
        self.left = left
        self.facts = tuple(facts)

    @property
    def beside(self) -> int:
        return 2 if self.facts else 1

    def arrange(self, sheet: Sheet) -> list[Section]:
        if self.fraction is None:
            return [Section(PLAIN, [line([Run(plain(self.word), "muted")], [], sheet)])]
        glyphs = sheet.glyphs
        share = min(1.0, max(0.0, self.fraction))
        number = f"{share * 100:.0f} %"
        left = plain(self.left)
        room = sheet.measure - cell_len(self.word) - 2 - 8 - (cell_len(left) + 3 if left else 0)
        size = max(0, min(36, room))
        done = round(size * share)
        runs = [
            Run(f"{plain(self.word)}{GAP}"),
            Run(glyphs.meter * done, "primary"),
            Run(glyphs.rule * (size - done), "faint"),
            Run(f"{GAP}{number}", "text:b"),
            Run(f"{GROUP_GAP}{left}" if left else "", "muted"),
        ]
        rows = [line(runs, [], sheet)]
        if self.facts:
            rows.append(line([Run(GROUP_GAP.join([plain(fact) for fact in self.facts]), "muted")], [], sheet))
        return [Section(PLAIN, rows)]


def _markdown(text: str, *, finished: bool) -> MarkdownText:
    # Imported with the first text: an empty chat's first frame needs nothing of it (20 ms).
    from app.markdown.markdown import MarkdownText

    return MarkdownText(text, finished=finished)
