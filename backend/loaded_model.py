"""`LoadedModel`: weights, vocabulary, template and memory plan of a model file, which requests are answered
by."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend import native
from backend.binding import FormatBinding
from backend.config_checks import shown
from backend.engine.params import EngineParams
from backend.engine.sampling import eog_tokens
from backend.gguf.info import GGUFInfo, read_gguf
from backend.load_options import MOST_SLOTS, LoadOptions, default_threads
from backend.memory import host_free_bytes
from backend.plan import DeviceMemory, Plan, make_plan
from backend.tokenizer import Tokenizer
from backend.types import LIBRARY_DEFAULTS, GenerationConfig, ModelLoadError, TemplateError

if TYPE_CHECKING:
    from backend.chat import ChatTemplate
    from backend.chat_engine import Request


class LoadedModel:
    """The weights of one GGUF in memory, with all that is known of them."""

    def __init__(
        self, info: GGUFInfo, model: native.Model, plan: Plan, options: LoadOptions, memory: Memory
    ) -> None:
        self.info = info
        self.model = model
        self.options = options
        self.plan = plan
        self.tokenizer = Tokenizer(model)
        self.max_seq = plan.max_seq
        self._memory = memory
        self._freed = False
        self._adapters = tuple((_load_adapter(model, path), scale) for path, scale in options.lora)

    @property
    def closed(self) -> bool:
        return self._freed

    @property
    def main_device(self) -> str:
        """The device that most layers are on."""
        return max(self.plan.devices, key=lambda device: device.layers).name

    def _check_open(self) -> None:
        """The vocabulary is freed memory after the last release."""
        if self._freed:
            raise ValueError("the model is closed")

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
class Memory:
    """The devices a model may use, and how much of each is free."""

    gpus: tuple[native.Device, ...]
    weights_on_host: int = 0

    def now(self) -> tuple[DeviceMemory, tuple[DeviceMemory, ...]]:
        gpus = tuple(DeviceMemory(gpu.description or gpu.name, "gpu", gpu.free_bytes) for gpu in self.gpus)
        # Weights that are loaded already count as free: the plan subtracts them itself.
        free = host_free_bytes()
        return DeviceMemory("CPU", "cpu", free + self.weights_on_host if free else 0), gpus


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
