"""What a model picker asks of the machine: files and their facts, what each load would take.

Everything here blocks: it reads files and asks devices, so a face calls it from a thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.terminal.output import sanitize

SLOTS = 4
"""What the full-screen face and the REPL ask of a load."""


@dataclass(frozen=True)
class ModelFacts:
    """What a file says of itself. Texts are foreign."""

    path: Path
    trained: int
    layers: int
    licence: str
    defaults: Mapping[str, Any]
    """Sampling values that the file names."""


@dataclass(frozen=True)
class LoadPlan:
    """What one load would take of the device that holds its layers. Sizes are bytes, 0 is not known."""

    device: str
    """`gpu` or `memory`"""
    total_bytes: int
    free_bytes: int
    weights_bytes: int
    context_bytes: int
    compute_bytes: int
    context: int
    """Tokens of one chat."""
    slots: int
    cache: str
    layers: int
    layers_on_gpu: int
    fits: bool
    notes: tuple[str, ...] = ()

    @property
    def needed_bytes(self) -> int:
        return self.weights_bytes + self.context_bytes + self.compute_bytes

    @property
    def others_bytes(self) -> int:
        """In use by other programs; 0 where the total is not known."""
        return max(0, self.total_bytes - self.free_bytes)

    @property
    def partial(self) -> bool:
        """Whether a part of the layers runs on the CPU though there is a GPU."""
        return self.device == "gpu" and self.layers_on_gpu < self.layers


@dataclass(frozen=True)
class SearchedFolder:
    """Where models are looked for, and in a few words what is there."""

    path: Path
    found: str


def facts(path: Path) -> ModelFacts:
    """What the file at `path` says of itself. Raises ModelLoadError for what is no model."""
    from backend.gguf.info import read_gguf

    info = read_gguf(path)
    return ModelFacts(
        path=info.path,
        trained=info.n_ctx_train,
        layers=info.n_layer,
        licence=sanitize(str(info.metadata.get("general.license", "")))[:80],
        defaults=info.defaults.as_dict(),
    )


def plan(path: Path, *, context: int | None = None, cache: str | None = None, slots: int = SLOTS) -> LoadPlan:
    """What a load would take now. One that does not fit is told with what it would need.

    Raises ModelLoadError for a file that is no model.
    """
    from backend import native
    from backend.gguf.info import read_gguf
    from backend.handle import plan_load
    from backend.load_options import LoadOptions
    from backend.plan import DeviceMemory, make_plan
    from backend.types import ModelLoadError

    info = read_gguf(path)
    options = LoadOptions(slots=slots, max_seq=context, kv_cache_type=cache)
    devices = native.devices()
    gpus = [device for device in devices if device.kind in ("gpu", "igpu")]
    try:
        made, fits = plan_load(info, options), True
    except ModelLoadError as err:
        if err.cause != "out_of_memory":
            raise
        # A host whose free memory is not known has no limit: so the plan tells what it would need.
        least = LoadOptions(slots=1, max_seq=context or min(info.n_ctx_train, 512), kv_cache_type=cache)
        made, fits = make_plan(info, least.demand(1), DeviceMemory("CPU", "cpu", 0)), False
    on_gpu = [device for device in made.devices if device.kind != "cpu"]
    counted = on_gpu if any(device.layers for device in on_gpu) else made.devices
    if gpus and (not fits or counted is on_gpu):
        device, total, free = "gpu", sum(gpu.total_bytes for gpu in gpus), sum(gpu.free_bytes for gpu in gpus)
    else:
        device, total, free = "memory", _host_total(), _host_free()
    return LoadPlan(
        device=device,
        total_bytes=total,
        free_bytes=free,
        weights_bytes=sum(each.weights_bytes for each in counted),
        context_bytes=sum(each.kv_cache_bytes for each in counted),
        compute_bytes=sum(each.compute_bytes for each in counted),
        context=made.max_seq,
        slots=made.slots,
        cache=made.kv_type,
        layers=info.n_layer,
        layers_on_gpu=min(made.n_gpu_layers, info.n_layer),
        fits=fits,
        notes=made.notes if fits else (),
    )


def memory() -> tuple[int, int, int]:
    """Bytes of GPU memory, of host memory that is free, and of host memory in all; 0 is not known."""
    from backend import native

    gpus = [device for device in native.devices() if device.kind == "gpu"]
    return sum(gpu.total_bytes for gpu in gpus), _host_free(), _host_total()


def places() -> list[SearchedFolder]:
    """Where models are looked for on this machine, the own folder first."""
    from backend.models import model_files_in, own_folder

    home = Path.home()
    huggingface = Path(os.environ.get("HF_HUB_CACHE") or home / ".cache/huggingface/hub")
    looked = [
        own_folder(),
        huggingface,
        home / ".lmstudio/models",
        Path(os.environ.get("OLLAMA_MODELS") or home / ".ollama/models"),
        Path(os.environ.get("LLAMA_CACHE") or home / ".cache/llama.cpp"),
    ]
    return [SearchedFolder(path, _content(path, len(model_files_in(path)))) for path in looked]


def _content(path: Path, models: int) -> str:
    if models:
        return f"{models} GGUF file{'s' if models > 1 else ''}"
    try:
        names = [entry.name for entry in os.scandir(path) if not entry.name.startswith(".")]
    except FileNotFoundError:
        return "not there"
    except OSError:
        return "cannot be read"
    others = sum(name.startswith("models--") for name in names)
    if others:
        return f"{others} model{'s' if others > 1 else ''}, none as GGUF"
    return "no GGUF file" if names else "empty"


def _host_total() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0


def _host_free() -> int:
    from backend.memory import host_free_bytes

    return host_free_bytes()


def require_writer(source: str | None) -> None:
    """Raise ModelLoadError where there is no such model, or where it cannot write."""
    from backend.loading import look_for

    look_for(source, for_text=True)
