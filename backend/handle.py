"""A loaded model with its users counted, freed by the last one, and how a file becomes one."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backend import native, places
from backend.gguf.info import GGUFInfo
from backend.load_options import LoadOptions, default_threads
from backend.loaded_model import LoadedModel, Memory
from backend.loading import check_file, find_model
from backend.plan import Plan, make_plan
from backend.refusals import refusal
from backend.types import EngineError, ModelLoadError

if TYPE_CHECKING:
    from backend.pipeline import Pipeline


class ModelHandle(LoadedModel):
    """A loaded GGUF with its users counted by `retain` and `release`; the last release frees it."""

    def __init__(
        self, info: GGUFInfo, model: native.Model, plan: Plan, options: LoadOptions, memory: Memory
    ) -> None:
        super().__init__(info, model, plan, options, memory)
        self._users = 0
        self._lock = threading.Lock()
        self._embedding = threading.Lock()
        self._pipeline: Pipeline | None = None

    def retain(self) -> None:
        """Count one more user. EngineError once the model was freed."""
        with self._lock:
            if self.closed:
                raise EngineError("The model was closed.", remedy="Load it again.")
            self._users += 1

    def release(self) -> None:
        """Count one user less; the last one frees context and weights."""
        with self._lock:
            self._users -= 1
            self._freed = self._users == 0
        if self._freed:
            if self._pipeline:
                self._pipeline.close()
            self.model.close()

    def pipeline(self) -> Pipeline:
        """What answers requests on this model; made once, shared by all its users."""
        from backend.pipeline import Pipeline

        with self._lock:
            if self._freed:
                raise EngineError("The model was closed.", remedy="Load it again.")
            if self._pipeline is None:
                self._pipeline = Pipeline(self)
            return self._pipeline

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 per text, on a context of its own that is freed again."""
        from backend.embedding import embed

        self.retain()
        try:
            with self._embedding:
                return embed(self.model, texts, cells=self.max_seq, n_threads=self._threads)
        finally:
            self.release()


def open_model(
    source: str | os.PathLike[str] | None,
    options: LoadOptions,
    progress: Callable[[float], bool] | None = None,
    *,
    most_cells: int | None = None,
    for_text: bool = False,
) -> ModelHandle:
    """Find, check, plan and load a model. Every failure is a ModelLoadError with a remedy.

    `most_cells`: tokens that one sequence will take at most, where the caller knows. `for_text`: refuse
    a model that cannot write.
    """
    _log_to_file()
    info = check_file(find_model(source), for_text=for_text)
    gpus = tuple(device for device in native.devices() if device.kind in ("gpu", "igpu"))
    memory = Memory(gpus)
    notes: list[str] = []
    # Native code reads the weights without the interpreter's lock: 70 ms for what comes after them.
    # No daemon: one that still imports while the process ends takes it down.
    importing = threading.Thread(target=_import_ahead, name="fireside-import")
    importing.start()
    while True:
        demand = replace(options.demand(options.asked_slots), most_cells=most_cells)
        plan = make_plan(info, demand, *memory.now())
        model = _load_weights(info, plan, options, progress)
        if model is not None and not (plan.is_tight and _context_fails(model, plan, options)):
            break
        if model is not None:
            model.close()
        options = _smaller(info, plan, options, notes)
    # Modules that import each other in a circle, as jinja2's do, are half made to a second thread.
    importing.join()
    plan = replace(plan, notes=(*plan.notes, *notes))
    memory = Memory(gpus, plan.devices[0].weights_bytes if plan.devices else 0)
    try:
        handle = ModelHandle(info, model, plan, options, memory)
        handle.require_call_format()
        return handle
    except BaseException:
        model.close()
        raise


def _import_ahead() -> None:
    """Import what the first request needs. A failure shows itself there."""
    for name in ("backend.chat", "jinja2.sandbox", "backend.chat.sandbox", "backend.pipeline"):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def plan_load(info: GGUFInfo, options: LoadOptions) -> Plan:
    """The memory plan a load with these options would follow now. Raises ModelLoadError (out_of_memory)."""
    gpus = tuple(device for device in native.devices() if device.kind in ("gpu", "igpu"))
    return make_plan(info, options.demand(options.asked_slots), *Memory(gpus).now())


def _load_weights(
    info: GGUFInfo, plan: Plan, options: LoadOptions, progress: Callable[[float], bool] | None
) -> native.Model | None:
    """The loaded weights, or None where memory ran out and a smaller plan may do."""
    cancelled = False

    def on_progress(fraction: float) -> bool:
        nonlocal cancelled
        cancelled = progress is not None and progress(fraction) is False
        return not cancelled

    native.log.recent.clear()
    model = native.Model.load(
        info.path,
        n_gpu_layers=plan.n_gpu_layers,
        main_gpu=options.main_gpu,
        tensor_split=options.tensor_split,
        mmap=options.mmap,
        mlock=options.mlock,
        progress=on_progress,
    )
    if model is not None:
        return model
    if cancelled:
        raise ModelLoadError(
            f"Loading {info.path.name} was cancelled.",
            cause="cancelled",
            remedy="Load it again when you need it.",
        )
    failure = refusal(info.path, native.log.tail(20))
    if failure.cause == "out_of_memory":
        return None
    raise failure


def _context_fails(model: native.Model, plan: Plan, options: LoadOptions) -> bool:
    """Whether a context that is a tight fit cannot be built. It is freed again."""
    params = native.ContextParams(
        n_ctx=plan.n_ctx,
        n_seq_max=plan.slots,
        n_batch=plan.n_batch,
        n_ubatch=plan.n_ubatch,
        n_threads=options.threads or default_threads(),
        flash_attn=plan.flash_attn,
        kv_type=plan.kv_type,
        kv_unified=plan.kv_unified,
        swa_full=plan.swa_full,
    )
    try:
        native.Context(model, params).close()
    except MemoryError:
        return True
    return False


def _smaller(info: GGUFInfo, plan: Plan, options: LoadOptions, notes: list[str]) -> LoadOptions:
    """Options for a smaller plan: fewer layers on the GPU first, then half the context."""
    if plan.n_gpu_layers > 0 and options.n_gpu_layers == "auto":
        fewer = plan.n_gpu_layers * 3 // 4
        notes.append(
            f"The GPU ran out of memory, so {fewer} layers are on it instead of {plan.n_gpu_layers}."
        )
        return replace(options, n_gpu_layers=fewer)
    half = plan.max_seq // 2
    if half >= 512 and options.max_seq is None:
        notes.append(f"Memory ran out, so the context has {half} tokens instead of {plan.max_seq}.")
        return replace(options, max_seq=half)
    raise ModelLoadError(
        f"There is not enough memory for {info.path.name} with a context of {plan.max_seq} tokens.",
        cause="out_of_memory",
        remedy="Ask for a smaller context (--ctx), put fewer layers on the GPU (--gpu-layers), or choose a "
        "smaller quantization.",
    )


def _log_to_file() -> None:
    """Send the native log to the state folder; without a home it stays in memory."""
    if native.log.has_file:
        return
    with contextlib.suppress(OSError):
        native.log.to_file(places.require_own(places.folder("state")) / "native.log")
