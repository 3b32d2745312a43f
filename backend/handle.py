"""A loaded model file: weights, vocabulary, template, memory plan. Counted, and freed by its last user."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from backend import config_checks, native, places
from backend.binding import FormatBinding
from backend.config_checks import shown
from backend.engine.params import EngineParams
from backend.engine.sampling import eog_tokens
from backend.gguf.info import GGUFInfo, read_gguf
from backend.loading import check_file, find_model
from backend.memory import host_free_bytes
from backend.plan import Demand, DeviceMemory, Plan, make_plan
from backend.refusals import refusal
from backend.request_checks import check_whole
from backend.tokenizer import Tokenizer
from backend.types import (
    LIBRARY_DEFAULTS,
    ComputeDtype,
    EngineError,
    GenerationConfig,
    KvCacheMode,
    ModelLoadError,
    TemplateError,
)

if TYPE_CHECKING:
    from backend.chat import ChatTemplate
    from backend.chat_engine import Request
    from backend.pipeline import Pipeline

MOST_SLOTS = 256
_PAGED_SLOTS = 8
_MOST_DEVICES = 128
_LEAST_THREAD_LIMIT = 64
_SWITCH = (True, False)


@dataclass(frozen=True)
class LoadOptions:
    """The keywords of `backend.load`, checked. A value that cannot be is a ValueError naming it."""

    n_gpu_layers: int | Literal["auto"] = "auto"
    max_seq: int | None = None
    kv_cache_mode: KvCacheMode | None = None
    kv_cache_type: str | None = None
    flash_attn: bool | Literal["auto"] = "auto"
    compute_dtype: ComputeDtype | None = None
    chat_template: str | None = None
    threads: int | None = None
    main_gpu: int = 0
    tensor_split: Sequence[float] | None = None
    mmap: bool = True
    mlock: bool = False
    slots: int | None = None
    tool_call_format: str | None = None
    lora: Sequence[tuple[str, float]] = field(default=())

    def __post_init__(self) -> None:
        if self.kv_cache_mode not in (None, *get_args(KvCacheMode)):
            raise ValueError(
                f"kv_cache_mode must be paged, continuous or None, not {shown(self.kv_cache_mode)}"
            )
        if self.compute_dtype not in (None, *get_args(ComputeDtype)):
            choices = " or ".join(get_args(ComputeDtype))
            raise ValueError(
                f"compute_dtype must be {choices}, not {shown(self.compute_dtype)}: llama.cpp keeps the "
                "weights as the file has them, and computes with f32 between them"
            )
        for name, least in (("max_seq", 1), ("slots", 1), ("threads", 1), ("main_gpu", 0)):
            check_whole(name, getattr(self, name), least, optional=name != "main_gpu")
        if self.threads and self.threads > (most := most_threads()):
            raise ValueError(f"threads must be at most {most} on this machine, not {shown(self.threads)}")
        if self.n_gpu_layers != "auto":
            check_whole("n_gpu_layers", self.n_gpu_layers, -1)
        for name, choices in (("flash_attn", ("auto", True, False)), ("mmap", _SWITCH), ("mlock", _SWITCH)):
            if (value := getattr(self, name)) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, not {shown(value)}")
        for name in ("chat_template", "kv_cache_type", "tool_call_format"):
            if (value := getattr(self, name)) is not None and not isinstance(value, str):
                raise ValueError(f"{name} must be text, not {type(value).__name__}")
        if self.tensor_split is not None:
            _check_shares(self.tensor_split)
        config_checks.adapters(self.lora)
        object.__setattr__(self, "lora", tuple(self.lora or ()))
        self.demand(self.asked_slots)

    @property
    def asked_slots(self) -> int:
        """Slots of the first context: what was asked for, else one, or up to eight where paged."""
        return min(self.slots or (1 if self.kv_cache_mode is None else _PAGED_SLOTS), MOST_SLOTS)

    def demand(self, slots: int) -> Demand:
        """What the memory plan is asked for that many slots."""
        return Demand(
            slots=slots,
            max_seq=self.max_seq,
            kv_type=self.kv_cache_type,
            flash_attn=self.flash_attn,
            n_gpu_layers=self.n_gpu_layers,
            unified=self.kv_cache_mode == "continuous",
        )


def _check_shares(shares: object) -> None:
    """ValueError where `tensor_split` is not a list of the share of each device."""
    if not isinstance(shares, list | tuple):
        raise ValueError(f"tensor_split must be a list of numbers, not {type(shares).__name__}")
    if len(found := cast("Sequence[object]", shares)) > _MOST_DEVICES:
        raise ValueError(f"tensor_split names {len(found)} devices; {_MOST_DEVICES} is the most")
    for share in found:
        if config_checks.number("each share of tensor_split", share, float, 0, math.inf) is None:
            raise ValueError("each share of tensor_split must be a number, not None")


class ModelHandle:
    """One loaded GGUF. `retain` and `release` count its users; the last release frees it."""

    def __init__(
        self, info: GGUFInfo, model: native.Model, plan: Plan, options: LoadOptions, memory: _Memory
    ) -> None:
        self.info = info
        self.model = model
        self.options = options
        self.plan = plan
        self.tokenizer = Tokenizer(model)
        self.max_seq = plan.max_seq
        self._memory = memory
        self._users = 0
        self._freed = False
        self._lock = threading.Lock()
        self._embedding = threading.Lock()
        self._pipeline: Pipeline | None = None
        self._adapters = tuple((_load_adapter(model, path), scale) for path, scale in options.lora)

    @property
    def closed(self) -> bool:
        return self._freed

    @property
    def main_device(self) -> str:
        """The device that most layers are on."""
        return max(self.plan.devices, key=lambda device: device.layers).name

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

    def _check_open(self) -> None:
        """The vocabulary is freed memory after the last release."""
        if self._freed:
            raise ValueError("the model is closed")

    def pipeline(self) -> Pipeline:
        """What answers requests on this model; made once, shared by all its users."""
        from backend.pipeline import Pipeline

        with self._lock:
            if self._freed:
                raise EngineError("The model was closed.", remedy="Load it again.")
            if self._pipeline is None:
                self._pipeline = Pipeline(self)
            return self._pipeline

    @property
    def template(self) -> ChatTemplate | None:
        """The chat template: the one the load named, else the file's own. TemplateError when broken."""
        match self._template:
            case TemplateError() as broken:
                raise TemplateError(str(broken)) from broken
            case template:
                return template

    @cached_property
    def _template(self) -> ChatTemplate | TemplateError | None:
        """Compiled and learned once. One that is broken too: to find that can take most of a second."""
        source = self.options.chat_template or self.info.chat_template
        if not source:
            return None
        self._check_open()
        from backend.chat import ChatTemplate

        try:
            return ChatTemplate(
                source,
                bos_token=self.model.token_text(self.model.bos),
                eos_token=self.model.token_text(self.model.eos),
                name=self.info.name or self.info.path.name,
                tool_call_format=self.options.tool_call_format,
                special_tokens=self.tokenizer.special_texts,
                given=bool(self.options.chat_template),
            )
        except TemplateError as err:
            return err

    def require_call_format(self) -> None:
        """ValueError where the load names a format of calls that the template does not write."""
        wanted, name = self.options.tool_call_format, self.info.path.name
        if wanted in (None, "generic"):
            return
        if self.template is None:
            raise ValueError(
                f"tool_call_format: {name} has no chat template, so it cannot write {shown(wanted)}"
            )

    def binding_for(self, request: Request) -> FormatBinding:
        """What ties this model's format to its vocabulary; raw text needs no template at all."""
        return self._binding if request.messages is not None else self._raw_binding

    @cached_property
    def _binding(self) -> FormatBinding:
        return FormatBinding(self.template, self.model, self.tokenizer)

    @cached_property
    def _raw_binding(self) -> FormatBinding:
        return FormatBinding(None, self.model, self.tokenizer)

    @cached_property
    def eog_tokens(self) -> tuple[int, ...]:
        """Every token that ends a generation."""
        self._check_open()
        return eog_tokens(self.model)

    @property
    def defaults(self) -> GenerationConfig:
        """The checkpoint's own decode defaults (`general.sampling.*` of the file), nothing else."""
        return self.info.defaults

    def resolve(self, config: GenerationConfig) -> GenerationConfig:
        """`config` over the checkpoint's defaults over the library's."""
        return config.over(self.defaults).over(LIBRARY_DEFAULTS)

    def explain(self, config: GenerationConfig) -> dict[str, tuple[Any, str]]:
        """Every setting that is in force, with where it comes from: config, model or library."""
        origins = (("library", LIBRARY_DEFAULTS), ("model", self.defaults), ("config", config))
        found: dict[str, tuple[Any, str]] = {}
        for origin, layer in origins:
            found |= {name: (value, origin) for name, value in layer.as_dict().items()}
        return found

    def engine_params(self, slots: int) -> EngineParams:
        """What a context with that many slots is built with, or fewer where memory is short.

        A slot keeps `max_seq` cells whatever their number: the window is final since the load.
        """
        asked = min(slots, MOST_SLOTS)
        plan = self.plan
        if asked > plan.slots:
            demand = replace(self.options.demand(asked), max_seq=self.max_seq)
            with contextlib.suppress(ModelLoadError):  # No room for more: what was planned stays.
                wider = make_plan(self.info, demand, *self._memory.now())
                plan = wider if wider.slots > plan.slots and wider.max_seq >= self.max_seq else plan
        return EngineParams(
            max_seq=self.max_seq,
            slots=plan.slots,
            n_batch=plan.n_batch,
            n_ubatch=plan.n_ubatch,
            n_threads=self._threads,
            flash_attn=plan.flash_attn,
            kv_type=plan.kv_type,
            unified=plan.kv_unified,
            swa_full=plan.swa_full,
            slot_bytes=plan.kv_cache_bytes // plan.slots,
            adapters=self._adapters,
            abortable=plan.n_gpu_layers == 0,
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 per text, on a context of its own that is freed again."""
        from backend.embedding import embed

        self.retain()
        try:
            with self._embedding:
                return embed(self.model, texts, cells=self.max_seq, n_threads=self._threads)
        finally:
            self.release()

    @property
    def _threads(self) -> int:
        return self.options.threads or default_threads()

    def residency(self, params: EngineParams | None) -> dict[str, Any]:
        """Weights per device and the pipeline's part, with the sampling that the file names, JSON-ready.

        `params`: of the context, if built.
        """
        built = params is not None
        share = params.slots / self.plan.slots if params else 0.0
        devices = [
            {
                "name": device.name,
                "kind": device.kind,
                "weights_bytes": device.weights_bytes,
                "kv_cache_bytes": int(device.kv_cache_bytes * share),
                "compute_bytes": device.compute_bytes if built else 0,
                "layers": device.layers,
            }
            for device in self.plan.devices
        ]
        pipeline = {
            "kv_cache_bytes": params.slot_bytes * params.slots if params else 0,
            "slots": params.slots if params else self.plan.slots,
            "context": self.max_seq,
        }
        return {
            "devices": devices,
            "pipeline": pipeline,
            "notes": list(self.plan.notes),
            "defaults": self.defaults.as_dict(),
        }


@dataclass(frozen=True)
class _Memory:
    """The devices a model may use, and how much of each is free."""

    gpus: tuple[native.Device, ...]
    weights_on_host: int = 0

    def now(self) -> tuple[DeviceMemory, tuple[DeviceMemory, ...]]:
        gpus = tuple(DeviceMemory(gpu.description or gpu.name, "gpu", gpu.free_bytes) for gpu in self.gpus)
        # Weights that are loaded already count as free: the plan subtracts them itself.
        free = host_free_bytes()
        return DeviceMemory("CPU", "cpu", free + self.weights_on_host if free else 0), gpus


def open_model(
    source: str | os.PathLike[str] | None,
    options: LoadOptions,
    progress: Callable[[float], bool] | None = None,
    *,
    most_cells: int | None = None,
) -> ModelHandle:
    """Find, check, plan and load a model. Every failure is a ModelLoadError with a remedy.

    `most_cells`: tokens that one sequence will take at most, where the caller knows.
    """
    _log_to_file()
    info = check_file(find_model(source))
    gpus = tuple(device for device in native.devices() if device.kind in ("gpu", "igpu"))
    memory = _Memory(gpus)
    notes: list[str] = []
    # Native code reads the weights without the interpreter's lock: 70 ms for what comes after them.
    # No daemon: one that still imports while the process ends takes it down.
    threading.Thread(target=_import_ahead, name="fireside-import").start()
    while True:
        demand = replace(options.demand(options.asked_slots), most_cells=most_cells)
        plan = make_plan(info, demand, *memory.now())
        model = _load_weights(info, plan, options, progress)
        if model is not None and not (plan.is_tight and _context_fails(model, plan, options)):
            break
        if model is not None:
            model.close()
        options = _smaller(info, plan, options, notes)
    plan = replace(plan, notes=(*plan.notes, *notes))
    memory = _Memory(gpus, plan.devices[0].weights_bytes if plan.devices else 0)
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
    return make_plan(info, options.demand(options.asked_slots), *_Memory(gpus).now())


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


def _load_adapter(model: native.Model, path: str) -> Any:
    """A LoRA adapter of this model. ModelLoadError where it is none, or is made for another model."""
    file = Path(path).expanduser()
    info = read_gguf(file)
    if info.kind != "adapter":
        raise ModelLoadError(
            f"{file.name} is a {info.kind}, not a LoRA adapter.",
            cause="bad_metadata",
            remedy="Give the file of a LoRA adapter in GGUF form with --lora.",
        )
    adapter = model.load_adapter(file)
    if adapter is None:
        raise ModelLoadError(
            f"The LoRA adapter {file.name} does not fit this model: {native.log.tail(2)}",
            cause="bad_metadata",
            remedy="Use it with the base model it was trained on.",
        )
    return adapter


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


def most_threads() -> int:
    """More than this many threads are refused: OpenMP ends the process when it cannot have them."""
    return max(_LEAST_THREAD_LIMIT, 4 * (os.cpu_count() or 1))


def default_threads() -> int:
    """Physical cores this process may use, less one where there are more than two."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    cores: set[str] = set()
    for cpu in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            cores.add(path.read_text())
        except OSError:
            cores.add(str(cpu))
    return len(cores) - 1 if len(cores) > 2 else max(len(cores), 1)


def _log_to_file() -> None:
    """Send the native log to the state folder; without a home it stays in memory."""
    if native.log.has_file:
        return
    with contextlib.suppress(OSError):
        native.log.to_file(places.require_own(places.folder("state")) / "native.log")


def check_options(options: Mapping[str, Any]) -> LoadOptions:
    """Options from keywords; an unknown one is a ValueError that names it."""
    unknown = sorted(set(options) - set(LoadOptions.__dataclass_fields__))
    if unknown:
        raise ValueError(f"unknown load setting: {', '.join(map(repr, unknown))}")
    return LoadOptions(**options)
