"""The part of the transcript that draws: strips of the page, the scroll bar, what lies under the mouse.

Textual's general way of painting costs more than the text itself, so this widget answers the
compositor with cached strips, and touches layout and scroll bar only when they change.
"""

from __future__ import annotations

from typing import cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Offset, Region, Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from app.markdown.rows import Mode, Row, Run
from app.terminal.glyphs import UNICODE, Glyphs
from app.terminal.theming import Palette, palette, read
from app.tui.grid import NARROW, Grid, grid_of
from app.tui.transcript.entry import LIVE_EDGE, Entry, Section, Sheet
from app.tui.transcript.page import Page
from app.tui.transcript.painter import Mark, Painter
from app.tui.transcript.scrollbar import AsciiBar, HalfCellBar, thumb
from app.tui.transcript.search import Search
from app.tui.transcript.selection import Point, part_of, selected_text, span_of, to_offset

SCROLLBAR_CELLS = 1
_KEPT_STRIPS = 4000
_VIRTUAL_SIZE = cast("Reactive[Size]", Widget.virtual_size)


class Canvas(ScrollView):
    """Draws a `Page`. Its rows are painted on demand; positions are rows of the page."""

    DEFAULT_CSS = """
    Canvas { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    """
    ALLOW_SELECT = True

    def __init__(
        self,
        *,
        palette: Palette | None = None,
        glyphs: Glyphs = UNICODE,
        hyperlinks: bool = True,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._palette = palette or _default_palette()
        self._glyphs = glyphs
        self._hyperlinks = hyperlinks
        self._grid: Grid = grid_of(80)
        self.page = Page(self._sheet())
        """What is shown. To read; change it through the transcript's methods."""
        self._painter: Painter | None = None
        self._strips: dict[tuple[Entry, int], tuple[Row, Section, Painter, Strip]] = {}
        self._cursor: Entry | None = None
        self._search = Search("", ())
        self._ember = 0
        self._thumb = (-1, -1)
        self._laid_out = False

    # ---- looks -----------------------------------------------------------------------------------

    @property
    def palette(self) -> Palette:
        """The colours in use."""
        return self._palette

    def on_mount(self) -> None:
        self._dress()

    def set_look(
        self, palette: Palette | None = None, glyphs: Glyphs | None = None, *, hyperlinks: bool | None = None
    ) -> None:
        """Draw with other colours or signs from now on. Colours alone lay nothing out again."""
        self._palette = palette or self._palette
        self._glyphs = glyphs or self._glyphs
        self._hyperlinks = self._hyperlinks if hyperlinks is None else hyperlinks
        self._painter = None
        if self.is_mounted:
            self._dress()
        if self._laid_out and self._sheet() != self.page.sheet:
            self._reflow()
        self.refresh()

    def _dress(self) -> None:
        bar = self.vertical_scrollbar
        bar.renderer = HalfCellBar if self._glyphs.unicode else AsciiBar  # pyright: ignore[reportAttributeAccessIssue]
        page, grip = self._palette.hex("background"), self._palette.hex("scrollbar")
        styles = self.styles
        styles.background = page
        styles.scrollbar_color = styles.scrollbar_color_hover = styles.scrollbar_color_active = grip
        styles.scrollbar_background = page
        styles.scrollbar_background_hover = styles.scrollbar_background_active = page

    def _sheet(self) -> Sheet:
        mode = Mode(not self._palette.tones, not self._glyphs.unicode, not self._hyperlinks)
        return Sheet(self._grid.measure, self._grid.width < NARROW, mode, self._glyphs)

    def _paints(self) -> Painter:
        if self._painter is None:
            width = self.scrollable_content_region.width
            self._painter = Painter(
                self._palette, self._glyphs, self._grid, width, hyperlinks=self._hyperlinks
            )
            self._painter.ember = self._ember
        return self._painter

    def _reflow(self) -> None:
        raise NotImplementedError

    # ---- painting --------------------------------------------------------------------------------

    def render_lines(self, crop: Region) -> list[Strip]:
        painter = self._paints()
        top = self.scroll_offset.y
        filters = self.get_line_filters()
        background = self.background_colors[1] if filters else None
        selection = self.text_selection
        span = None if selection is None else span_of(selection)
        strips = [self._strip_at(painter, top + y, span) for y in range(crop.y, crop.bottom)]
        for each in filters:
            assert background is not None
            strips = [_filtered(strip, each, background) for strip in strips]
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _strip_at(self, painter: Painter, y: int, span: tuple[Point, Point] | None) -> Strip:
        found = self._row_at(y)
        if found is None:
            return painter.blank
        index, inside, at, section_index, section, row = found
        entry = self.page.entries[index]
        marks: list[Mark] = []
        if self._search.hits:
            marks += self._search.marks(entry, section_index, *_range_of(row))
        if span is not None and (part := part_of(span, index, section_index)):
            marks.append(Mark(*part, "selection"))
        caret = entry.live and section.body is not None and inside == entry.height - 1
        if marks:
            row = self._with_caret(row) if caret else row
            strip = painter.strip(row, section.dress, first=not at, marks=marks)
        else:
            # the same row looks different with a caret, or at another step of the ember
            slot = -1 if caret else -2 - painter.ember % 4 if section.dress.edge == LIVE_EDGE else inside
            strip = self._cached(painter, (entry, slot), at, section, row)
        return strip if entry is not self._cursor or inside else self._with_cursor(painter, strip)

    def _cached(self, painter: Painter, key: tuple[Entry, int], at: int, section: Section, row: Row) -> Strip:
        cached = self._strips.get(key)
        if cached is not None and cached[0] is row and cached[1] is section and cached[2] is painter:
            return cached[3]
        shown = self._with_caret(row) if key[1] == -1 else row
        strip = painter.strip(shown, section.dress, first=not at)
        if len(self._strips) >= _KEPT_STRIPS:
            self._strips.clear()
        self._strips[key] = (row, section, painter, strip)
        return strip

    def _with_caret(self, row: Row) -> Row:
        return row._replace(runs=(*row.runs, Run(self._glyphs.caret, "primary")))

    def _with_cursor(self, painter: Painter, strip: Strip) -> Strip:
        return painter.edge(strip, self._glyphs.prompt, "primary")

    def _row_at(self, y: int) -> tuple[int, int, int, int, Section, Row] | None:
        """(entry, row in it, row in the section, section index, section, row) at `y`; None: blank."""
        page = self.page
        index, inside = page.find(y)
        if index >= len(page.entries):
            return None
        inside -= page.gap(index)
        entry = page.entries[index]
        if inside < 0 or inside >= entry.height or entry.sheet != page.sheet:
            return None
        section_index, at = entry.at(inside)
        section = entry.sections[section_index]
        return index, inside, at, section_index, section, section.row(at)

    def _refresh_rows(self, top: int, bottom: int) -> None:
        """Have rows of the screen painted anew, and not the scroll bar beside them."""
        width = self.scrollable_content_region.width
        if width and top < bottom:
            self.refresh(Region(0, top, width, bottom - top))

    # ---- the scroll bar --------------------------------------------------------------------------

    def _bar(self, *, exactly: bool = False) -> None:
        """Painting the bar costs more than the text: touch it only when its thumb moves by a cell."""
        if not self.show_vertical_scrollbar:
            return
        rows, total = self.size.height, self.virtual_size.height
        place = thumb(rows, total, rows, self.scroll_y)
        if place == self._thumb and not exactly:
            return
        self._thumb = place
        bar = self.vertical_scrollbar
        bar.window_size = rows
        bar.window_virtual_size = total
        bar.position = self.scroll_y

    def _set_height(self, rows: int) -> None:
        """Publish the page's height. The reactive itself would ask for a layout of the screen."""
        size = Size(self.scrollable_content_region.width, rows)
        if size != self.virtual_size:
            self.set_reactive(_VIRTUAL_SIZE, size)

    # ---- what lies under the mouse ---------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """Row `y` of the screen with places in the source as meta; the mouse's look-ups come here."""
        found = self._row_at(self.scroll_offset.y + y)
        if found is None:
            index, _ = self.page.find(self.scroll_offset.y + y)
            return Strip([_spot(" ", Point(index, 0, 0))] * max(1, self.size.width))
        index, _, _, section_index, section, row = found
        start = Point(index, section_index, row.offset)
        lead = self._grid.text + (2 if section.dress.hang else 0)
        # cell by cell, since the compositor adds the cells inside a segment to its offset
        segments = [_spot(" ", start)] * lead
        offset = row.offset
        for run in row.runs:
            if run.offset < 0 or run.stands_for:
                size, last = cell_len(run.text), max(0, run.stands_for - 1)
                steps = [*range(size - 1), max(size - 1, last)] if run.stands_for else [0] * size
                offset = run.offset if run.stands_for else offset
                places = [Point(index, section_index, offset + min(step, last)) for step in steps]
                segments += [_spot(" ", place) for place in places]
                offset += run.stands_for
                continue
            segments.append(_spot(run.text, Point(index, section_index, run.offset)))
            offset = run.offset + len(run.text)
        return Strip(segments)

    @property
    def selection_span(self) -> tuple[Point, Point] | None:
        """Both ends of what is selected here."""
        selection = self.text_selection
        return None if selection is None else span_of(selection)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selected_text(self.page.entries, span_of(selection)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def select(self, start: Point, end: Point) -> None:
        """Select the text between two points."""
        self.screen.selections = {self: Selection(to_offset(start), to_offset(end))}

    def point_at(self, at: Offset) -> Point | None:
        """The place in the text at an offset in this widget."""
        _, offset = self.screen.get_widget_and_offset_at(*(self.region.offset + at))
        return None if offset is None else span_of(Selection(offset, None))[0]


def _filtered(strip: Strip, each: LineFilter, background: Color) -> Strip:
    return strip.apply_filter(each, background)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _range_of(row: Row) -> tuple[int, int]:
    spans = [
        (run.offset, run.offset + (run.stands_for or len(run.text))) for run in row.runs if run.offset >= 0
    ]
    return (min([start for start, _ in spans]), max([end for _, end in spans])) if spans else (0, 0)


def _spot(text: str, point: Point) -> Segment:
    return Segment(text, Style.from_meta({"offset": tuple(to_offset(point))}))


def _default_palette() -> Palette:
    return palette(read("hearth"))
