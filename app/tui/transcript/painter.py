"""Rows to strips: the edge, the grounds and the colours of one palette on one grid.

Strips hold no position but links: what lies under the mouse is asked of the view.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from app.markdown.links import web_address
from app.markdown.rows import Row, Run, split_style
from app.terminal.glyphs import Glyphs
from app.terminal.textual_theme import laid_over, tone_style
from app.terminal.theming import Attribute, Palette, Tone
from app.tui.grid import Grid
from app.tui.transcript.entry import LIVE_EDGE, Dress

_GROUNDS: dict[str, Tone] = {
    "page": "background",
    "surface": "surface",
    "code": "code_background",
    "added": "diff_add_background",
    "removed": "diff_remove_background",
}
_ATTRIBUTES: dict[str, Attribute] = {"b": "bold", "i": "italic", "u": "underline"}
_SYNTAX = frozenset(
    {"keyword", "string", "number", "comment", "function", "builtin", "decorator", "operator"}
)
_TONES: dict[str, Tone] = {
    "link": "accent",
    "code": "text",
    "chip": "text",
    "added": "diff_add",
    "removed": "diff_remove",
}
HREF = "fireside.href"
"""Key of a link's target in a style's meta."""


class Mark(NamedTuple):
    """A stretch of a row's source that looks different."""

    start: int
    end: int
    kind: Literal["selection", "hit", "here"]
    """Selected, found, and found where the search stands."""


class Painter:
    """Makes strips. A change of palette or grid makes a new painter."""

    def __init__(
        self, palette: Palette, glyphs: Glyphs, grid: Grid, width: int, *, hyperlinks: bool = True
    ) -> None:
        """`width` is that of the strips in cells; `hyperlinks` where the terminal opens links itself."""
        self._hyperlinks = hyperlinks
        self._palette = palette
        self._glyphs = glyphs
        self._width = width
        self._edge = min(grid.edge, max(0, width - 1))
        self._text = min(grid.text, width)
        self._right = min(grid.right, width)
        self._styles: dict[tuple[str, str, Dress, str | None], Style] = {}
        self._page = tone_style(palette, "text", "background")
        self.blank = Strip([Segment(" " * width, self._page)] if width else [], width)
        self.ember = 0
        """Step of the ember."""

    def strip(self, row: Row, dress: Dress, *, first: bool = False, marks: Sequence[Mark] = ()) -> Strip:
        ground = row.ground if row.ground != "page" else dress.ground
        segments = [Segment(" " * self._edge, self._page)] if self._edge else []
        segments.append(self._edge_cell(dress))
        at = self._edge + 1
        lead = dress.ground if row.indent or dress.hang else ground
        fill = self._ground_style(lead)
        segments.append(Segment(" " * (self._text - at), fill))
        at = self._text
        if dress.hang:
            segments.append(
                Segment(dress.hang, tone_style(self._palette, cast("Tone", dress.hang_role), _GROUNDS[lead]))
            )
            segments.append(Segment(" ", fill if row.indent else self._ground_style(ground)))
            at += 2
        at = self._runs(segments, row, dress, lead, ground, at, marks)
        if first and dress.right:
            at = self._facts(segments, dress, ground, at)
        filled = self._ground_style(ground)
        if at < self._right:
            if row.wraps and self._right - at >= 1:
                segments.append(Segment(" " * (self._right - at - 1), filled))
                segments.append(
                    Segment(self._glyphs.cut_right, tone_style(self._palette, "faint", _GROUNDS[ground]))
                )
            else:
                segments.append(Segment(" " * (self._right - at), filled))
            at = self._right
        if at < self._width:
            segments.append(Segment(" " * (self._width - at), self._page))
            at = self._width
        strip = Strip(_joined(segments), at)
        return strip if at <= self._width else strip.crop(0, self._width)

    def edge(self, strip: Strip, glyph: str, role: Tone) -> Strip:
        """`strip` with another edge, for the block cursor."""
        style = tone_style(self._palette, role, "background", ("bold",))
        return Strip.join(
            [
                strip.crop(0, self._edge),
                Strip([Segment(glyph, style)], 1),
                strip.crop(self._edge + 1, self._width),
            ]
        )

    def _runs(
        self,
        segments: list[Segment],
        row: Row,
        dress: Dress,
        lead: str,
        ground: str,
        at: int,
        marks: Sequence[Mark],
    ) -> int:
        """Append the runs; where the indent ends one cell early the row's own ground begins."""
        before = row.indent - 1 if row.indent and lead != ground else 0
        for run in row.runs:
            text, look = run.text, run
            size = len(text) if text.isascii() else cell_len(text)
            at += size
            if before > 0:
                head = text[:before]
                segments.append(Segment(head, self._style(look, lead, dress)))
                before -= len(head)
                text = text[len(head) :]
                if not text:
                    continue
                look = run._replace(text=text, offset=run.offset + len(head) if run.offset >= 0 else -1)
            style = self._style(look, ground, dress)
            if not marks or look.offset < 0:
                segments.append(Segment(text, style))
                continue
            pieces = _whole(look, marks) if look.stands_for else _cut(text, look.offset, marks)
            for piece, kind in pieces:
                segments.append(Segment(piece, style if kind is None else self._marked(style, kind)))
        return at

    def _facts(self, segments: list[Segment], dress: Dress, ground: str, at: int) -> int:
        size = sum([cell_len(run.text) for run in dress.right])
        room = self._right - 1 - at - size
        if room < 1:
            return at
        segments.append(Segment(" " * room, self._ground_style(ground)))
        segments += [Segment(run.text, self._style(run, ground, dress)) for run in dress.right]
        return self._right - 1

    def _edge_cell(self, dress: Dress) -> Segment:
        if not dress.edge:
            return Segment(" ", self._page)
        glyph = (
            dress.edge
            if dress.edge != LIVE_EDGE
            else self._glyphs.ember[self.ember % len(self._glyphs.ember)]
        )
        return Segment(glyph, tone_style(self._palette, cast("Tone", dress.edge_role), "background"))

    def _ground_style(self, ground: str) -> Style:
        return tone_style(self._palette, "text", _GROUNDS[ground])

    def _style(self, run: Run, ground: str, dress: Dress) -> Style:
        key = (run.style, ground, dress, run.href)
        style = self._styles.get(key)
        if style is None:
            if len(self._styles) > 4096:
                self._styles.clear()
            style = self._styles[key] = self._make_style(run, ground, dress)
        return style

    def _make_style(self, run: Run, ground: str, dress: Dress) -> Style:
        palette = self._palette
        if run.style[0] == "#":
            upper, _, lower = run.style.partition("/")
            return Style(color=upper, bgcolor=lower or palette.hex(_GROUNDS[ground]))
        role, letters = split_style(run.style)
        letters += dress.attributes
        attributes = {_ATTRIBUTES[letter] for letter in letters if letter in _ATTRIBUTES}
        on = _GROUNDS[ground]
        if role == "text":
            role = dress.tone
        elif role in _SYNTAX:
            look = palette.syntax[role]  # type: ignore[index]
            role = look.role
            attributes |= {*look.attributes}
        elif role == "chip":
            on = "chip" if palette.tones else on
            role = dress.tone
        elif role == "link":
            attributes.add("underline")
        style = tone_style(palette, _TONES.get(role, cast("Tone", role)), on, tuple(sorted(attributes)))
        if "s" in letters:
            style += Style(strike=True)
        if run.href is not None:
            style += Style.from_meta({HREF: run.href})
            if self._hyperlinks and (address := web_address(run.href)):
                style = _with_link(style, address)
        return style

    def _marked(self, style: Style, kind: str) -> Style:
        if kind == "selection":
            if not self._palette.tones:
                return laid_over(style, Style(reverse=True))
            return laid_over(style, Style(bgcolor=self._palette.hex("selection")))
        found = laid_over(style, tone_style(self._palette, "accent", None, ("bold", "underline")))
        return laid_over(found, Style(bgcolor=self._palette.hex("selection"))) if kind == "here" else found


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbours of one style as one: each segment costs the terminal its colours, twenty bytes and more."""
    joined: list[Segment] = []
    for segment in segments:
        if joined and joined[-1].style is segment.style:
            joined[-1] = Segment(joined[-1].text + segment.text, segment.style)
        elif segment.text:
            joined.append(segment)
    return joined


def _with_link(style: Style, address: str) -> Style:
    """OSC 8 with an id of its own address: a random one would make every picture differ."""
    style += Style(link=address)
    style._link_id = f"{zlib.crc32(address.encode()):x}"  # pyright: ignore[reportPrivateUsage]
    return style


def _whole(run: Run, marks: Sequence[Mark]) -> list[tuple[str, str | None]]:
    """A run that shows its source in other words is marked as a whole."""
    end = run.offset + run.stands_for
    over = [mark.kind for mark in marks if mark.start < end and run.offset < mark.end]
    return [(run.text, over[-1] if over else None)]


def _cut(text: str, offset: int, marks: Sequence[Mark]) -> list[tuple[str, str | None]]:
    """`text` in pieces, each with the kind of the last mark over it."""
    edges = {0, len(text)}
    for mark in marks:
        edges |= {min(len(text), max(0, mark.start - offset)), min(len(text), max(0, mark.end - offset))}
    pieces: list[tuple[str, str | None]] = []
    places = sorted(edges)
    for start, end in pairwise(places):
        kind = None
        for mark in marks:
            if mark.start - offset <= start and end <= mark.end - offset:
                kind = mark.kind
        pieces.append((text[start:end], kind))
    return pieces
