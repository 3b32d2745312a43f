"""The model picker: what is on this machine, whether it fits, and what a load would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from app.frontend.model_name import short_name
from app.markdown.fuzzy import Match, ranked
from app.models import catalog as model_catalog
from app.models.catalog import LoadPlan
from app.models.suggested import SUGGESTED
from app.tui.screens.dialog import Hint, spread
from app.tui.screens.model_plans import CACHES, Catalog, ModelPlans
from app.tui.screens.model_rows import Listed, ModelTable
from app.tui.screens.waterfall import (
    larger_that_fits,
    tokens,
    verdict_rows,
    waterfall,
)
from app.tui.screens.zones import ChoiceRows, Zones
from app.tui.shell import Shell
from app.tui.widgets.cells import (
    Span,
    plain,
    width_of,
    wrapped,
)
from app.tui.widgets.filter import Filter
from app.tui.widgets.rows import BLANK, Lines, ListRow, RowList

if TYPE_CHECKING:
    from backend.types import ChatCard

WIDE_FROM = 110
"""Cells of the panel from which the memory plan stands beside the list."""
PLAN_WIDTH = 42
LOW_BELOW = 16
_CHOICES = ("context", "cache")
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
        here = {short_name(plain(model.name)) for model in self._models.values()}
        self._suggested = {f"hub {one.repository}": one for one in SUGGESTED if one.name not in here}
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
        self._divider.show([ListRow((Span(self.ink.glyphs.aside, "faint"),), indent=0)] * self.sheet_rows)
        self._fill()

    # ---- the list --------------------------------------------------------------------------

    def _fill(self, select: str | None = None, *, best: bool = False) -> None:
        query = self.filter.value
        names = {key: short_name(plain(model.name)) for key, model in self._models.items()}
        names |= {key: plain(name) for key, (name, _) in self._servers.items()}
        names |= {key: one.name for key, one in self._suggested.items()}
        found = ranked(query, list(names), lambda key: f"{names[key]} {self._full_name(key)}")
        here = [(key, match) for key, match in found if key in self._models]
        away = [(key, match) for key, match in found if key in self._servers]
        table = self._table
        rows = [self._model_row(table, key, names[key], match) for key, match in here]
        if away:
            rows += [BLANK, ListRow((Span("on a server", "muted"),)), table.rule]
            rows += [table.server(key, names[key], match, self._servers[key][1]) for key, match in away]
        to_fetch = [(key, match) for key, match in found if key in self._suggested]
        if not here and not away:
            rows = self._nothing()
        if to_fetch:
            rows += [BLANK, ListRow((Span("to download, by this machine's memory", "muted"),)), table.rule]
            rows += [table.suggested(key, names[key], match, self._suggested[key]) for key, match in to_fetch]
        first = found[0][0] if found and best else select
        self._columns.show([] if self._low else table.head())
        self.list.show(rows, first)
        self.filter.say(f"{len(found)} of {len(names)}" if query else "")
        self._show_selected()

    @property
    def _table(self) -> ModelTable:
        return ModelTable(self._left_width, self.ink.glyphs)

    def _model_row(self, table: ModelTable, key: str, name: str, match: Match) -> ListRow:
        model = self._models[key]
        plan, loaded = self._plans.usual(model.path), self._is_loaded(model)
        return table.model(key, name, match, model, plan, loaded=loaded)

    def _full_name(self, key: str) -> str:
        one = self._suggested.get(key)
        return plain(self._models[key].name) if key in self._models else one.repository if one else ""

    def _nothing(self) -> list[ListRow]:
        key = self.ink.key("ctrl+d")
        if not self._models:
            return [
                ListRow((Span("There are no models on this machine yet.", bold=True),)),
                ListRow((Span(f"{key} downloads one from Hugging Face.", "muted"),)),
            ]
        return [
            ListRow((Span(f"No model here matches {plain(self.filter.value)}.", bold=True),)),
            ListRow((Span(f"{key} looks for it on Hugging Face.", "muted"),)),
        ]

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
        problem = model.problem or self._plans.problem(model.path)
        facts = self._plans.facts(model.path)
        self._facts.show(self._table.facts(model, facts, problem) if self.wide else [])
        self.choices.show(self._plan_rows(model))

    def _plan_rows(self, model: Listed) -> list[ListRow]:
        """The memory plan; beside a narrow list only its verdict and what can be chosen."""
        found = self._chosen_plan(model)
        if problem := self._plans.problem(model.path):
            rows = wrapped(plain(problem), PLAN_WIDTH)
            return [ListRow((Span(line, "muted"),)) for line in rows[: self.sheet_rows - 5]]
        if found is None:
            return [ListRow((Span("memory plan", bold=True),))] if self.wide else []
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

    def _choice_rows(self, model: Listed, found: LoadPlan, plans: Sequence[LoadPlan]) -> list[ListRow]:
        small = {plan.context for plan in plans if not plan.fits}
        values = self._plans.contexts(model.path)
        contexts = [(tokens(value), value == found.context, value in small) for value in values]
        caches = [(name, name == found.cache, False) for name in CACHES]
        rows = [self._choice_row(0, _CHOICES[0], contexts), self._choice_row(1, _CHOICES[1], caches)]
        layers = Span("all on the cpu", "warning")
        if found.device == "gpu":
            layers = Span(f"{found.layers_on_gpu} of {found.layers}", "warning" if found.partial else "text")
        return [*rows, ListRow((Span(f"{'layers':<10}", "muted"), layers))]

    def _choice_row(self, number: int, name: str, choices: Sequence[tuple[str, bool, bool]]) -> ListRow:
        """One thing to choose: its values as (text, chosen, too much)."""
        active = self.in_choices and self._choice == number
        prompt = Span(f"{self.ink.glyphs.prompt} " if active else "  ", "primary", bold=True)
        spans = [prompt, Span(f"{name:<10}", "text" if active else "muted", bold=active)]
        for text, chosen, too_much in choices:
            role = "primary" if chosen and active else "faint" if too_much else "text"
            spans += [Span(text, role, bold=chosen, underline=chosen), Span("   ")]
        return ListRow(spans, indent=0)

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
            self._take(contexts.index(found.context) + step if found.context in contexts else 0)
        else:
            self._take(CACHES.index(found.cache) + step)

    def _take(self, place: int) -> None:
        """Take one of the contexts or caches by its place; beyond an end the last one there."""
        model = self._models.get(self.list.selected or "")
        contexts = self._plans.contexts(model.path) if model else ()
        if self._choice == 0 and contexts:
            self._chosen_context = contexts[max(0, min(place, len(contexts) - 1))]
        elif self._choice == 1:
            self._chosen_cache = CACHES[max(0, min(place, len(CACHES) - 1))]
        self._show_selected()

    def choice_clicked(self, x: int, y: int) -> None:
        spans = self.choices.rows[y].left if y < len(self.choices.rows) else ()
        name = spans[1].text.strip() if len(spans) > 1 else ""
        if name not in _CHOICES:
            return
        self._choice = _CHOICES.index(name)
        for place, span in enumerate(spans[2:]):
            start = width_of(spans[: place + 2])
            if span.text.strip() and start <= x < start + width_of([span]):
                self._take(place // 2)
                return
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
        if key in self._suggested:
            self.dismiss(ModelChoice("", {}, self._suggested[key].repository))
            return
        model = self._models[key]
        if model.problem or model.kind == "embedding":
            why = model.problem or "An embedding model cannot write text."
            self.filter.say((Span(plain(why)[:60], "error"),))
            return
        options: dict[str, Any] = {}
        if self._chosen_context is not None:
            options["max_seq"] = self._chosen_context
        if self._chosen_cache is not None:
            options["kv_cache_type"] = self._chosen_cache
        self.dismiss(ModelChoice(key, options))
