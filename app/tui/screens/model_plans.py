"""What is known of the models in the picker: facts of each file, and a plan for each way to load it.

Files are read and devices asked in threads; a file that cannot be read has a problem instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.models.catalog import LoadPlan, ModelFacts
from app.tui.screens.waterfall import context_choices

CACHES = ("f16", "q8_0")
"""Kinds of cache that are offered, the usual one first."""


class Catalog(Protocol):
    """What is asked about files; `app.models.catalog` is one."""

    def facts(self, path: Path) -> ModelFacts: ...
    def plan(self, path: Path, *, context: int | None = None, cache: str | None = None) -> LoadPlan: ...


@dataclass
class _Known:
    facts: ModelFacts | None = None
    problem: str = ""
    plans: Mapping[tuple[int | None, str], LoadPlan] = field(
        default_factory=dict[tuple[int | None, str], LoadPlan]
    )


class ModelPlans:
    """Facts and plans by the path of a model."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[Path, _Known] = {}

    def facts(self, path: Path) -> ModelFacts | None:
        """What a file says of itself, once it was read."""
        return self._known[path].facts if path in self._known else None

    def problem(self, path: Path) -> str:
        """Why a file could not be read; empty while nothing is wrong."""
        return self._known[path].problem if path in self._known else ""

    def usual(self, path: Path) -> LoadPlan | None:
        """What a load would take where nobody chooses anything."""
        return self.chosen(path, None, None)

    def chosen(self, path: Path, context: int | None, cache: str | None) -> LoadPlan | None:
        """What a load with that context and cache would take, once it was planned."""
        return self._known[path].plans.get((context, cache or CACHES[0])) if path in self._known else None

    def alternatives(self, path: Path, cache: str) -> list[LoadPlan]:
        known = self._known.get(path, _Known())
        return [plan for (_, kind), plan in known.plans.items() if kind == cache]

    def contexts(self, path: Path) -> Sequence[int]:
        """The contexts that can be chosen; none before the file was read."""
        facts, usual = self.facts(path), self.usual(path)
        return () if facts is None or usual is None else context_choices(facts.trained, usual.context)

    async def examine(self, path: Path) -> bool:
        """Read a file and plan its usual load; False where that was done or is being done."""
        if path in self._known:
            return False
        known = self._known[path] = _Known()
        try:
            known.facts = await asyncio.to_thread(self._catalog.facts, path)
            usual = await asyncio.to_thread(self._catalog.plan, path)
            known.plans = {(None, CACHES[0]): usual}
        except Exception as err:  # whatever a file does, the picker shows it as its problem
            known.problem = str(err)
        return True

    async def plan_all(self, path: Path) -> bool:
        """Plan every context and cache of an examined file; False where there is nothing left to plan."""
        known = self._known.get(path)
        if known is None or len(known.plans) != 1:
            return False
        plans = dict(known.plans)
        try:
            for cache in CACHES:
                for context in (None, *self.contexts(path)):
                    if (context, cache) not in plans:
                        plans[context, cache] = await asyncio.to_thread(
                            self._catalog.plan, path, context=context, cache=cache
                        )
        except Exception as err:  # the file may be gone by now
            known.problem = str(err)
            return True
        known.plans = plans
        return True
