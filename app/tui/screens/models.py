"""The model picker: what is on this machine, whether it fits, and what a load would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from textual import work
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from app import model_catalog
from app.model_catalog import LoadPlan
from app.tui.model_state import short_name
from app.tui.screens.dialog import Hint, spread
from app.tui.screens.model_plans import CACHES, Catalog, ModelPlans
from app.tui.screens.waterfall import (
    fit,
    larger_that_fits,
    size,
    tokens,
    verdict_rows,
    waterfall,
)
from app.tui.screens.zones import ChoiceRows, Zones
from app.tui.shell import Shell
from app.tui.widgets.cells import Line, Span, columns, cut_left, fitted, from_home, marked, plain, wrapped
from app.tui.widgets.filter import Filter
from app.tui.widgets.fuzzy import Match, ranked
from app.tui.widgets.rows import BLANK, Lines, Row, RowList

if TYPE_CHECKING:
    from backend.types import ChatCard

WIDE_FROM = 110
"""Cells of the panel from which the memory plan stands beside the list."""
PLAN_WIDTH = 42
LOW_BELOW = 16
_QUANT, _SIZE = 7, 8
_FILTER_HINTS: Sequence[Hint] = (
    ("enter", "loads"),
    ("tab", "context"),
    ("ctrl+d", "download"),
    ("esc", "closes"),
)
_CHOICE_HINTS: Sequence[Hint] = (
    ("enter", "loads"),
    ("left right", "choose"),
    ("tab", "filter"),
    ("esc", "closes"),
)


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
class ModelChoice:
    """A model to load, and how. `source` is empty where a model is to be downloaded instead."""

    source: str
    options: Mapping[str, Any]
    query: str = ""
    """What was looked for, where a download is wanted."""


class ModelPicker(Zones[ModelChoice | None]):
    """Choose a model, its context and its cache. Gives back a ModelChoice, or None."""

    WIDTH = 120
    BINDINGS: ClassVar[Any] = [
        Binding("ctrl+d", "download", show=False, priority=True),
        Binding("d", "download", show=False),
    ]

    def __init__(
        self,
        shell: Shell,
        models: Iterable[Listed],
        *,
        card: ChatCard | None = None,
        servers: Sequence[tuple[str, str]] = (),
        catalog: Catalog = model_catalog,
        query: str = "",
    ) -> None:
        super().__init__(
            shell,
            "models",
            _FILTER_HINTS,
            _CHOICE_HINTS,
            filter=Filter("type to filter", query),
            choices=ChoiceRows(id="plan"),
        )
        self._models = {str(model.path): model for model in models}
        self._servers = {f"server {url}": (name, url) for name, url in servers}
        self._card = card
        self._plans = ModelPlans(catalog)
        self._chosen_context: int | None = None
        self._chosen_cache: str | None = None
        self._choice = 0
        self._columns = Lines(id="columns")
        self._facts = Lines(id="facts")
        self._divider = Lines(id="divider")

    def body(self) -> Iterable[Widget]:
        left = Vertical(self.filter, self._columns, self.list, self._facts, id="left")
        both = Horizontal(left, self._divider, self.choices, id="both")
        yield spread(both, hanging=True, bottom=1)

    def on_mount(self) -> None:
        loaded = next((key for key, model in self._models.items() if self._is_loaded(model)), None)
        self._fill(select=loaded)
        self._examine_all()

    def _is_loaded(self, model: Listed) -> bool:
        return self._card is not None and self._card.model_id in (model.name, model.path.stem)

    # ---- layout ----------------------------------------------------------------------------

    @property
    def wide(self) -> bool:
        """Whether the memory plan stands beside the list."""
        return self.sheet_width >= WIDE_FROM

    @property
    def _low(self) -> bool:
        """Whether rows are so few that the list needs all of them."""
        return not self.wide and self.sheet_rows < LOW_BELOW

    @property
    def _left_width(self) -> int:
        return self.inner_width - PLAN_WIDTH - 5 if self.wide else self.inner_width

    def resized(self) -> None:
        both, left = self.query_one("#both"), self.query_one("#left")
        both.styles.layout = "horizontal" if self.wide else "vertical"
        both.styles.background = left.styles.background = "transparent"
        left.styles.width = self._left_width + 3
        for widget in (self.filter, self._columns, self._facts):
            widget.styles.width = self._left_width
            widget.styles.margin = (0, 0, 0, 1)
        self.list.styles.width = self._left_width + 3
        self._divider.display = self.wide
        self._divider.styles.width = 1
        self.choices.styles.width = PLAN_WIDTH + 2 if self.wide else self.inner_width
        self.choices.styles.margin = 0 if self.wide else (0 if self._low else 1, 0, 0, 1)
        self.choices.styles.height = "1fr" if self.wide else "auto"
        self._divider.show([Row((Span(self.ink.glyphs.aside, "faint"),), indent=0)] * self.sheet_rows)
        self._fill()

    # ---- the list --------------------------------------------------------------------------

    def _fill(self, select: str | None = None, *, best: bool = False) -> None:
        query = self.filter.value
        names = {key: short_name(plain(model.name)) for key, model in self._models.items()}
        names |= {key: plain(name) for key, (name, _) in self._servers.items()}
        found = ranked(query, list(names), lambda key: f"{names[key]} {self._full_name(key)}")
        here = [(key, match) for key, match in found if key in self._models]
        away = [(key, match) for key, match in found if key in self._servers]
        rows = [self._model_row(key, names[key], match) for key, match in here]
        if away:
            rule = Row((Span(self.ink.glyphs.rule * (self._left_width - 2), "faint"),))
            rows += [BLANK, Row((Span("on a server", "muted"),)), rule]
            rows += [self._server_row(key, names[key], match) for key, match in away]
        if not found:
            rows = self._nothing()
        first = found[0][0] if found and best else select
        self._columns.show(self._column_rows())
        self.list.show(rows, first)
        self.filter.say(f"{len(found)} of {len(names)}" if query else "")
        self._show_selected()

    def _full_name(self, key: str) -> str:
        return plain(self._models[key].name) if key in self._models else ""

    def _nothing(self) -> list[Row]:
        key = self.ink.key("ctrl+d")
        if not self._models:
            return [
                Row((Span("There is no model on this machine yet.", bold=True),)),
                Row((Span(f"{key} downloads one from Hugging Face.", "muted"),)),
            ]
        return [
            Row((Span(f"No model here fits {plain(self.filter.value)}.", bold=True),)),
            Row((Span(f"{key} looks for it on Hugging Face.", "muted"),)),
        ]

    def _column_rows(self) -> list[Row]:
        if self._low:
            return []
        head = self._cells(
            (Span("on this machine", "muted"),),
            "quant",
            "size",
            (Span(f"{self._signs()['none']}fit", "muted"),),
        )
        return [BLANK, Row(head), Row((Span(self.ink.glyphs.rule * (self._left_width - 2), "faint"),))]

    def _model_row(self, key: str, name: str, match: Match) -> Row:
        model = self._models[key]
        label = _label(name, match)
        shown_size = size(model.size_bytes) if model.size_bytes else ""
        cells = self._cells(label, model.quantization, shown_size, self._fit(key, model))
        return Row(cells, (), key, named=len(label))

    def _fit(self, key: str, model: Listed) -> Line:
        signs = self._signs()
        if model.problem or model.kind == "broken":
            return (Span(signs["failed"], "error"), Span("cannot be loaded", "muted"))
        if model.kind == "embedding":
            return (Span(signs["none"]), Span("embeds, no chat", "muted"))
        found = self._plans.usual(model.path)
        if found is None:
            return (Span(signs["none"]), Span("loaded" if self._is_loaded(model) else "", "muted"))
        mark, words, role = fit(found, loaded=self._is_loaded(model))
        return (Span(signs[mark], role, bold=True), Span(words, "muted"))

    def _signs(self) -> Mapping[str, str]:
        """The signs of the column `fit`, all of one width."""
        glyphs = self.ink.glyphs
        signs = {"done": glyphs.done, "partial": glyphs.partial, "failed": glyphs.failed, "none": ""}
        return {name: sign.ljust(len(glyphs.done) + 1) for name, sign in signs.items()}

    def _cells(self, name: Line, quantization: str, shown_size: str, fitting: Line) -> list[Span]:
        inner = self._left_width - 2
        fit_width = 22 if inner >= 64 else max(14, inner - 40)
        name_width = max(8, inner - fit_width - 3 - _SIZE - 2 - _QUANT - 2)
        left = columns(
            [
                (name, name_width),
                ((Span(plain(quantization), "muted"),), _QUANT),
                ((Span(shown_size, "muted"),), -_SIZE),
            ],
            mark=self.ink.glyphs.cut_right,
        )
        return [*left, Span("   "), *fitting]

    def _server_row(self, key: str, name: str, match: Match) -> Row:
        label = _label(name, match)
        url = (Span(plain(self._servers[key][1]), "muted"),)
        return Row(
            [*fitted(label, 21, self.ink.glyphs.cut_right), Span("  "), *url], (), key, named=len(label)
        )

    # ---- the selected one ------------------------------------------------------------------

    def _chosen_plan(self, model: Listed) -> LoadPlan | None:
        return self._plans.chosen(model.path, self._chosen_context, self._chosen_cache)

    def _show_selected(self) -> None:
        key = self.list.selected
        model = self._models.get(key or "")
        if key is None or model is None:
            self._facts.show([])
            self.choices.show([])
            return
        self._facts.show(self._fact_rows(model))
        self.choices.show(self._plan_rows(model))

    def _fact_rows(self, model: Listed) -> list[Row]:
        if not self.wide:
            return []
        path = cut_left(from_home(model.path), self._left_width - 12, self.ink.glyphs.cut_left)
        rows = [BLANK, _fact("file", plain(path))]
        if problem := model.problem or self._plans.problem(model.path):
            return [*rows, _fact("problem", plain(problem), "error"), BLANK]
        facts = self._plans.facts(model.path)
        trained = f"{facts.trained:,} tokens, {facts.layers} layers" if facts else ""
        rows.append(_fact("trained", trained))
        rows.append(_fact("licence", plain(facts.licence) or "not stated" if facts else ""))
        return rows

    def _plan_rows(self, model: Listed) -> list[Row]:
        """The memory plan; beside a narrow list only its verdict and what can be chosen."""
        found = self._chosen_plan(model)
        if problem := self._plans.problem(model.path):
            rows = wrapped(plain(problem), PLAN_WIDTH)
            return [Row((Span(line, "muted"),)) for line in rows[: self.sheet_rows - 5]]
        if found is None:
            return [Row((Span("memory plan", bold=True),))] if self.wide else []
        plans = self._plans.alternatives(model.path, found.cache)
        larger, glyphs = larger_that_fits(found, plans), self.ink.glyphs
        words = verdict_rows(found, larger, PLAN_WIDTH, glyphs)
        choices = self._choice_rows(model, found, plans)
        if not self.wide:
            return [words[0]] if self._low and not self.in_choices else [*choices, words[0]]
        rows = [*waterfall(found, PLAN_WIDTH, glyphs), BLANK, *choices, BLANK, *words]
        if len(rows) > self.sheet_rows - 4:
            rows = [row for row in rows if row != BLANK]
        return rows

    def _choice_rows(self, model: Listed, found: LoadPlan, plans: Sequence[LoadPlan]) -> list[Row]:
        small = {plan.context for plan in plans if not plan.fits}
        values = self._plans.contexts(model.path)
        contexts = [(tokens(value), value == found.context, value in small) for value in values]
        caches = [(name, name == found.cache, False) for name in CACHES]
        rows = [self._choice_row(0, "context", contexts), self._choice_row(1, "cache", caches)]
        layers = Span("all on the cpu", "warning")
        if found.device == "gpu":
            layers = Span(f"{found.layers_on_gpu} of {found.layers}", "warning" if found.partial else "text")
        return [*rows, Row((Span(f"{'layers':<10}", "muted"), layers))]

    def _choice_row(self, number: int, name: str, choices: Sequence[tuple[str, bool, bool]]) -> Row:
        """One thing to choose: its values as (text, chosen, too much)."""
        active = self.in_choices and self._choice == number
        prompt = Span(f"{self.ink.glyphs.prompt} " if active else "  ", "primary", bold=self.ink.plain)
        spans = [prompt, Span(f"{name:<10}", "text" if active else "muted", bold=active)]
        for text, chosen, too_much in choices:
            role = "primary" if chosen and active else "faint" if too_much else "text"
            spans += [Span(text, role, bold=chosen, underline=chosen), Span("   ")]
        return Row(spans, indent=0)

    # ---- looking at files ------------------------------------------------------------------

    @work(exclusive=True, group="examine")
    async def _examine_all(self) -> None:
        """Look at the selected model first, then at the others."""
        keys = sorted(self._models, key=lambda key: key != self.list.selected)
        for key in keys:
            if self._models[key].problem is None and self._models[key].kind != "embedding":
                await self._examine(key)

    async def _examine(self, key: str) -> None:
        path = self._models[key].path
        if await self._plans.examine(path) and self.is_attached:
            self._fill()
        if key == self.list.selected and await self._plans.plan_all(path) and self.is_attached:
            self._show_selected()

    @work(exclusive=True, group="selected")
    async def _look_closer(self, key: str) -> None:
        await self._examine(key)

    # ---- keys ------------------------------------------------------------------------------

    def typed(self) -> None:
        self._fill(best=True)

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        event.stop()
        self._chosen_context = self._chosen_cache = None
        self._show_selected()
        if event.key in self._models and self._models[event.key].problem is None:
            self._look_closer(event.key)

    def has_choices(self) -> bool:
        model = self._models.get(self.list.selected or "")
        return model is not None and bool(self._plans.contexts(model.path))

    def show_choices(self) -> None:
        self._show_selected()

    def move_choice(self, step: int) -> None:
        self._choice = (self._choice + step) % 2
        self._show_selected()

    def turn_choice(self, step: int) -> None:
        """Take the next context or cache."""
        model = self._models.get(self.list.selected or "")
        found = self._chosen_plan(model) if model else None
        if model is None or found is None:
            return
        if self._choice == 0:
            contexts = self._plans.contexts(model.path)
            place = contexts.index(found.context) if found.context in contexts else 0
            self._chosen_context = contexts[max(0, min(place + step, len(contexts) - 1))]
        else:
            place = CACHES.index(found.cache) + step
            self._chosen_cache = CACHES[max(0, min(place, len(CACHES) - 1))]
        self._show_selected()

    def action_download(self) -> None:
        self.dismiss(ModelChoice("", {}, self.filter.value))

    def choose(self) -> None:
        """Load what is selected, unless it cannot be loaded."""
        key = self.list.selected
        if key is None:
            return
        if key in self._servers:
            self.dismiss(ModelChoice(self._servers[key][1], {}))
            return
        model = self._models[key]
        if model.problem or model.kind == "embedding":
            why = model.problem or "An embedding model writes no text."
            self.filter.say((Span(plain(why)[:60], "error"),))
            return
        options: dict[str, Any] = {}
        if self._chosen_context is not None:
            options["max_seq"] = self._chosen_context
        if self._chosen_cache is not None:
            options["kv_cache_type"] = self._chosen_cache
        self.dismiss(ModelChoice(key, options))


def _label(name: str, match: Match) -> list[Span]:
    """A name with what was typed marked in it; the rest of a match lies in the file's name."""
    places = [(start, min(end, len(name))) for start, end in match.places if start < len(name)]
    return marked(name, places, Span(""), Span("", "accent", bold=True, underline=True))


def _fact(name: str, value: str, role: str = "text") -> Row:
    return Row((Span(f"{name:<10}", "muted"), Span(value, role)))
