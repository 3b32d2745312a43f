"""The machine and the models that a demo tells of, so that its pictures are the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.demo.script import Machine, Model
from app.models.catalog import LoadPlan, ModelFacts

GIB = 1 << 30
_CONTEXT = 8192
_SLOTS = 4
_COMPUTE_GIB = 0.3
_FOLDER = Path("models")


@dataclass(frozen=True)
class Entry:
    """A model in a list, as the manager tells those of a real machine."""

    name: str
    path: Path
    size_bytes: int
    quantization: str
    kind: str = "chat"
    problem: str | None = None


class DemoMachine:
    """Lists a demo's models, and plans loads of them by its figures."""

    def __init__(self, machine: Machine, models: Sequence[Model]) -> None:
        self._machine = machine
        self._models = {_FOLDER / f"{model.name}.gguf": model for model in models}

    def entries(self) -> list[Entry]:
        """The models, as a list of those on a real machine."""
        return [
            Entry(model.name, path, round(model.size_gib * GIB), model.quantization)
            for path, model in self._models.items()
        ]

    def facts(self, path: Path) -> ModelFacts:
        """What the demo says of a model."""
        model = self._models[path]
        return ModelFacts(path, model.trained, model.layers, model.licence, {})

    def plan(self, path: Path, *, context: int | None = None, cache: str | None = None) -> LoadPlan:
        """What a load would take: all layers on the GPU, else as many as fit there."""
        model, machine = self._models[path], self._machine
        context = context or min(_CONTEXT, model.trained)
        kv = model.cache_mib_per_1k / 1024 * context / 1024 * (0.53 if cache == "q8_0" else 1) * _SLOTS
        needed = model.size_gib + kv + _COMPUTE_GIB
        on_gpu = model.layers
        if needed > machine.gpu_free_gib:
            on_gpu = max(0, int(model.layers * (machine.gpu_free_gib - _COMPUTE_GIB) / (model.size_gib + kv)))
        fits = needed <= machine.gpu_free_gib + machine.memory_free_gib
        share = on_gpu / model.layers
        notes = ()
        if fits and on_gpu < model.layers:
            notes = (f"{on_gpu} of {model.layers} layers run on the GPU, the rest on the CPU.",)
        return LoadPlan(
            device="gpu",
            total_bytes=round(machine.gpu_gib * GIB),
            free_bytes=round(machine.gpu_free_gib * GIB),
            weights_bytes=round(model.size_gib * (share if fits else 1) * GIB),
            context_bytes=round(kv * (share if fits else 1) * GIB),
            compute_bytes=round(_COMPUTE_GIB * GIB),
            context=context,
            slots=_SLOTS,
            cache=cache or "f16",
            layers=model.layers,
            layers_on_gpu=on_gpu if fits else 0,
            fits=fits,
            notes=notes,
        )
