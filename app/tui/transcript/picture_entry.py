"""A picture on the page: one row that names it, and its cells under that where it can be drawn."""

from __future__ import annotations

from typing import ClassVar

from app.markdown.rows import Row, Run
from app.tui.transcript.chrome import GAP, line
from app.tui.transcript.entry import Dress, Entry, Kind, Section, Sheet
from app.tui.transcript.pictures import Drawing
from app.tui.widgets.cells import plain


class PictureRow(Entry):
    """A picture: its name and size, why it is not drawn, and its cells once they are there."""

    kind: ClassVar[Kind] = "picture"
    foldable: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        *,
        size: str = "",
        file_id: str = "",
        problem: str = "",
        drawing: Drawing | None = None,
        id: str = "",
    ) -> None:
        """`size` as "1.2 MB"; `file_id` of the chat's file that holds it; `drawing` may come later."""
        super().__init__(id=id)
        self.name = name
        self.size = size
        self.file_id = file_id
        self.problem = problem
        self.drawing = drawing

    @property
    def beside(self) -> int:
        rows = self.drawing.cells[1] if self.drawing and not self.folded else 0
        return 1 + bool(self.problem) + rows

    @property
    def source(self) -> str:
        return plain(self.name)

    def arrange(self, sheet: Sheet) -> list[Section]:
        drawing = self.drawing
        facts = [f"{drawing.width}x{drawing.height}"] if drawing else []
        facts += [plain(self.size)] if self.size else []
        mark = f"{sheet.glyphs.folded} " if self.folded else ""
        label = [Run(f"{mark}picture", "muted"), Run(GAP), Run(self.source, "text", 0)]
        label += [Run(f"{GAP}{GAP.join(facts)}", "muted")] if facts else []
        dress = Dress(sheet.glyphs.edge, "user", "surface")
        rows = [line(label, [], sheet)]
        if self.problem:
            rows.append(line([Run(plain(self.problem), "muted")], [], sheet))
        if drawing is None or self.folded or sheet.mode.plain or sheet.mode.ascii:
            return [Section(dress, rows)]
        # Until it is drawn for this width its place is kept, so that nothing moves when it is.
        cells = drawing.fit(sheet.measure)
        drawn = list(drawing.rows) if cells == drawing.cells else []
        return [Section(dress, rows), Section(dress, drawn or [Row()] * cells[1])]
