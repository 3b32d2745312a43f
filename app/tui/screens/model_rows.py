"""The list of models as rows: name, quantization, size and whether it fits, and the facts of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.markdown.fuzzy import Match
from app.models.catalog import LoadPlan, ModelFacts
from app.models.suggested import Suggestion
from app.terminal.figures import gib
from app.terminal.glyphs import Glyphs
from app.tui.screens.waterfall import fit
from app.tui.widgets.cells import Line, Span, columns, cut_left, fitted, from_home, marked, plain, width_of
from app.tui.widgets.rows import BLANK, ListRow

_QUANT, _SIZE = 7, 8
_SERVER_NAME = 21
_NO_QUANT_BELOW, _SIGNS_ONLY_BELOW = 50, 40
"""Cells under which the quantization goes, and the words beside the sign of what fits."""


class Listed(Protocol):
    """A model as the manager lists it."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def quantization(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def problem(self) -> str | None: ...


@dataclass(frozen=True)
class ModelTable:
    """The columns of the list, in `width` cells. Names and paths are foreign; they are made printable."""

    width: int
    glyphs: Glyphs

    @property
    def rule(self) -> ListRow:
        """The rule under a heading."""
        return ListRow((Span(self.glyphs.rule * (self.width - 2), "faint"),))

    def head(self) -> list[ListRow]:
        """The names of the columns."""
        fits = (Span(f"{self._signs()['none']}fit", "muted"),)
        cells = self._cells((Span("on this machine", "muted"),), "quant", "size", fits)
        return [BLANK, ListRow(cells), self.rule]

    def model(
        self, key: str, name: str, match: Match, model: Listed, plan: LoadPlan | None, *, loaded: bool
    ) -> ListRow:
        """The row of a model. `plan` is its usual load, None where that is not known yet."""
        label = _label(name, match)
        shown_size = gib(model.size_bytes) if model.size_bytes else ""
        cells = self._cells(label, model.quantization, shown_size, self._fit(model, plan, loaded))
        return ListRow(cells, (), key, named=len(label))

    def server(self, key: str, name: str, match: Match, url: str) -> ListRow:
        label = _label(name, match)
        cells = fitted(label, _SERVER_NAME, self.glyphs.cut_right)
        return ListRow([*cells, Span("  "), Span(plain(url), "muted")], (), key, named=len(label))

    def suggested(self, key: str, name: str, match: Match, one: Suggestion) -> ListRow:
        """The row of a model that can be fetched."""
        label = _label(name, match)
        about = (Span(self._signs()["none"]), Span(f"{one.memory_gib} GiB, {one.licence}", "muted"))
        cells = self._cells(label, one.quantization, gib(one.size_bytes), about)
        return ListRow(cells, (), key, named=len(label))

    def facts(self, model: Listed, facts: ModelFacts | None, problem: str) -> list[ListRow]:
        """Where a model lies and what its file says, or why it cannot be read."""
        path = cut_left(from_home(model.path), self.width - 12, self.glyphs.cut_left)
        rows = [BLANK, _fact("file", plain(path))]
        if problem:
            return [*rows, _fact("problem", plain(problem), "error"), BLANK]
        trained = f"{facts.trained:,} tokens, {facts.layers} layers" if facts else ""
        licence = plain(facts.licence) or "not stated" if facts else ""
        return [*rows, _fact("trained", trained), _fact("licence", licence)]

    def _fit(self, model: Listed, plan: LoadPlan | None, loaded: bool) -> Line:
        signs = self._signs()
        if model.problem or model.kind == "broken":
            return (Span(signs["failed"], "error"), Span("cannot be loaded", "muted"))
        if model.kind == "embedding":
            return (Span(signs["none"]), Span("cannot chat", "muted"))
        if plan is None:
            return (Span(signs["none"]), Span("loaded" if loaded else "", "muted"))
        mark, words, role = fit(plan, loaded=loaded)
        return (Span(signs[mark], role, bold=True), Span(words, "muted"))

    def _signs(self) -> Mapping[str, str]:
        """The signs of the column `fit`, all of one width."""
        glyphs = self.glyphs
        signs = {"done": glyphs.done, "partial": glyphs.partial, "failed": glyphs.failed, "none": ""}
        return {name: sign.ljust(len(glyphs.done) + 1) for name, sign in signs.items()}

    def _cells(self, name: Line, quantization: str, shown_size: str, fitting: Line) -> list[Span]:
        inner = self.width - 2
        fit_width = 22 if inner >= 64 else 14 if inner >= _SIGNS_ONLY_BELOW else 0
        cells: list[tuple[Line, int]] = [((Span(shown_size, "muted"),), -_SIZE)]
        if inner >= _NO_QUANT_BELOW:
            cells.insert(0, ((Span(plain(quantization), "muted"),), _QUANT))
        if not fit_width:
            fitting = fitting[:1]
            fit_width = width_of(fitting)
        taken = fit_width + 3 + sum(abs(width) + 2 for _, width in cells)
        left = columns([(name, max(8, inner - taken)), *cells], mark=self.glyphs.cut_right)
        return [*left, Span("   "), *fitting]


def _label(name: str, match: Match) -> list[Span]:
    """A name with what was typed marked in it; the rest of a match lies in the file's name."""
    places = [(start, min(end, len(name))) for start, end in match.places if start < len(name)]
    return marked(name, places, Span(""), Span("", "accent", bold=True, underline=True))


def _fact(name: str, value: str, role: str = "text") -> ListRow:
    return ListRow((Span(f"{name:<10}", "muted"), Span(value, role)))
