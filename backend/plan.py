"""The memory plan: cells and slots of a model. One file, because its formulas hold only together.

Arithmetic over the metadata.
Pure: it asks no device and loads nothing. The formulas were fitted to what llama.cpp reports.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from backend.gguf.file import gib, shown
from backend.gguf.info import GGUFInfo
from backend.gguf.layers import number
from backend.gguf.tables import ENCODERS
from backend.types import ModelLoadError

KV_BYTES = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}
"""Bytes of one cached number by `kv_cache_type`."""
SHARE = 0.7
"""Of the free memory, what a plan takes unless a person asked for more."""

_GPU_SHARE = 0.9
_CELL_STEP = 256
_AUTO_CELLS = 8192
"""A context that nobody chose is not cut below this before slots are given up."""
_LEAST_CELLS = 512
_EMBEDDING_CELLS = 2048
_BATCH_ROWS = 512
_CPU_UBATCH_ROWS = 128
_F32_BYTES, _F16_BYTES = 4, 2


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A device that may hold weights and cache.

    `kind` is `cpu` for the host, whose `free_bytes` may be 0: not known, so no limit.
    """

    name: str
    kind: str
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Demand:
    """What the caller of a load asks for; None and "auto" leave it to the plan."""

    slots: int = 1
    max_seq: int | None = None
    """Cells of one sequence, in tokens."""
    most_cells: int | None = None
    """What one sequence will take at most, where that is known and nobody asked for more."""
    kv_type: str | None = None
    flash_attn: bool | Literal["auto"] = "auto"
    n_gpu_layers: int | Literal["auto"] = "auto"
    """-1 is all, output layer included."""
    unified: bool = False
    """One cache for all slots instead of one partition each."""
    n_draft: int = 0
    """Most drafted tokens per slot and step: each takes one row of logits."""
    companion_bytes: int = 0
    """What a projector, a draft model or adapters take on the device of the layers."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots must be at least 1, not {self.slots}")
        if self.max_seq is not None and self.max_seq < 1:
            raise ValueError(f"max_seq must be at least 1, not {self.max_seq}")
        if self.kv_type is not None and self.kv_type not in KV_BYTES:
            raise ValueError(f"kv_cache_type must be one of {', '.join(KV_BYTES)}, not {self.kv_type!r}")
        if self.n_gpu_layers != "auto" and self.n_gpu_layers < -1:
            raise ValueError(f"n_gpu_layers must be at least -1, not {self.n_gpu_layers}")
        if self.is_quantized and self.flash_attn is False:
            raise ValueError(
                f"kv_cache_type {self.kv_type} needs flash attention, which flash_attn=False forbids"
            )

    @property
    def is_quantized(self) -> bool:
        return self.kv_type is not None and KV_BYTES[self.kv_type] < _F16_BYTES


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """What one device will hold. Sizes are bytes."""

    name: str
    kind: str
    layers: int
    weights_bytes: int
    kv_cache_bytes: int
    compute_bytes: int
    free_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_cache_bytes + self.compute_bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a context and what it will take. `n_ctx` counts the cells of all slots."""

    n_ctx: int
    max_seq: int
    slots: int
    n_batch: int
    n_ubatch: int
    flash_attn: bool
    swa_full: bool
    kv_type: str
    kv_unified: bool
    n_gpu_layers: int
    n_outputs: int
    devices: tuple[DevicePlan, ...] = field(default=())
    """The host first."""
    notes: tuple[str, ...] = ()
    """What was given up, in sentences for a person."""

    @property
    def weights_bytes(self) -> int:
        return sum(device.weights_bytes for device in self.devices)

    @property
    def kv_cache_bytes(self) -> int:
        return sum(device.kv_cache_bytes for device in self.devices)

    @property
    def compute_bytes(self) -> int:
        return sum(device.compute_bytes for device in self.devices)

    @property
    def is_tight(self) -> bool:
        """It takes over 70 % of what is free somewhere: build the context once before trusting it."""
        return not _fits(self, SHARE)


def make_plan(info: GGUFInfo, demand: Demand, host: DeviceMemory, gpus: Sequence[DeviceMemory] = ()) -> Plan:
    """The best plan within the memory that is free.

    Cells shrink before slots do, down to `min(trained, 8192)`; an asked-for `max_seq` is kept and
    costs slots. Raises ModelLoadError (out_of_memory) when not even a small context fits.
    """
    return _Planner(info, demand, host, tuple(gpus)).plan()


def kv_cache_bytes(info: GGUFInfo, layers: range, plan: Plan) -> int:
    """Keys, values and recurrent states of `layers` under `plan`; an encoder keeps none."""
    if info.architecture in ENCODERS:
        return 0
    width = KV_BYTES[plan.kv_type]
    total = 0.0
    for index in layers:
        layer = info.layers[index]
        numbers = layer.n_head_kv * (layer.key_length + layer.value_length)
        total += numbers * width * _cells(info, plan, layer.windowed) * (1 if plan.kv_unified else plan.slots)
        total += layer.state_bytes * plan.slots
    return round(total)


def compute_bytes(info: GGUFInfo, plan: Plan) -> int:
    """Scratch of the compute graph on one device.

    Without flash attention the scores of all heads are written out: heads x cells x rows x 4
    bytes. SmolLM2 at 32,768 cells and 512 rows: 646 MiB without, 46 with.
    """
    rows = plan.n_ubatch
    mask_width = _F16_BYTES if plan.flash_attn else _F32_BYTES
    kinds = {layer.windowed for layer in info.layers if layer.n_head_kv or info.is_embedding}
    masks = sum(_cells(info, plan, windowed) for windowed in kinds) * rows * mask_width
    scores = 0
    if not plan.flash_attn:
        scores = max(
            (
                layer.n_head * _cells(info, plan, layer.windowed)
                for layer in info.layers
                if layer.windowed in kinds
            ),
            default=0,
        )
    attention = scores + (12 if plan.flash_attn else 6) * info.n_embd
    experts = number(info.metadata, f"{info.architecture}.expert_used_count")
    expert_length = number(info.metadata, f"{info.architecture}.expert_feed_forward_length")
    feed_forward = 2 * (info.n_ff + info.n_embd) + experts * (2 * expert_length + info.n_embd)
    logits = (4 * info.n_embd + (0 if info.is_embedding else info.n_vocab)) * plan.n_outputs
    scan = 7 * number(info.metadata, f"{info.architecture}.ssm.inner_size")
    return masks + _F32_BYTES * max(rows * max(attention, feed_forward, scan), logits)


def _cells(info: GGUFInfo, plan: Plan, windowed: bool) -> int:
    """Cells of one cache: a partition's, or the unified cache's."""
    whole = plan.n_ctx if plan.kv_unified else plan.n_ctx // plan.slots
    if info.is_embedding:
        return min(whole, plan.n_ubatch)
    if not windowed or plan.swa_full:
        return whole
    seen = info.sliding_window * (plan.slots if plan.kv_unified else 1)
    return min(whole, _padded(seen + plan.n_ubatch))


def _padded(cells: int) -> int:
    return -(-cells // _CELL_STEP) * _CELL_STEP


def _fits(plan: Plan, share: float) -> bool:
    return all(
        device.total_bytes <= device.free_bytes * (share if device.kind == "cpu" else max(share, _GPU_SHARE))
        for device in plan.devices
        if device.free_bytes or device.kind != "cpu"
    )


class _Planner:
    """Tries plans from the best one down; the first that fits wins."""

    def __init__(
        self, info: GGUFInfo, demand: Demand, host: DeviceMemory, gpus: tuple[DeviceMemory, ...]
    ) -> None:
        self._info = info
        self._demand = demand
        self._host = host
        self._gpus = gpus
        own = sum(layer.weights_bytes for layer in info.layers)
        outputs = [tensor for name, tensor in info.tensors.items() if name.startswith("output")]
        tied = info.tensors.get("token_embd.weight") if "output.weight" not in info.tensors else None
        self._output_bytes = sum(tensor.size_bytes for tensor in outputs) + (tied.size_bytes if tied else 0)
        stored_outputs = sum(tensor.size_bytes for tensor in outputs)
        self._input_bytes = info.weights_bytes - own - stored_outputs
        self._stored_output_bytes = stored_outputs

    def plan(self) -> Plan:
        asked, floor = self._cells_asked()
        n_gpu_layers = self._gpu_layers(floor)
        flash_choices = self._flash_choices(n_gpu_layers)
        for share in (SHARE, 1.0):
            for flash in flash_choices:
                for slots in range(self._demand.slots if share < 1.0 else 1, 0, -1):
                    if found := self._largest(share, floor, asked, slots, flash, n_gpu_layers):
                        return self._finished(found, share, asked)
        least, flash = min(floor, _LEAST_CELLS), flash_choices[-1]
        if self._demand.max_seq is None:
            n_gpu_layers = self._gpu_layers(least)
            if found := self._largest(1.0, least, floor, 1, flash, n_gpu_layers):
                return self._finished(found, 1.0, asked)
        raise self._no_room(self._candidate(self._demand.max_seq or least, 1, flash, n_gpu_layers))

    # -- search --

    def _cells_asked(self) -> tuple[int, int]:
        """The cells a sequence should get, and what it is not cut below while slots are left."""
        if self._demand.max_seq:
            return self._demand.max_seq, self._demand.max_seq
        # An encoder reads a text in one pass, and its scratch grows with the square of it.
        most = _EMBEDDING_CELLS if self._info.is_embedding else self._info.n_ctx_train
        asked = min(self._info.n_ctx_train, most)
        if self._demand.most_cells:
            asked = min(asked, max(_padded(self._demand.most_cells), _LEAST_CELLS))
        return asked, min(asked, _AUTO_CELLS)

    def _largest(
        self, share: float, low: int, high: int, slots: int, flash: bool, n_gpu_layers: int
    ) -> Plan | None:
        """The plan with most cells from `low` to `high` that fits, by bisection in steps of 256."""

        def candidate(cells: int) -> Plan:
            return self._candidate(cells, slots, flash, n_gpu_layers)

        if _fits(best := candidate(high), share):
            return best
        if high <= low or not _fits(best := candidate(low), share):
            return None
        first, last = _padded(low) // _CELL_STEP, high // _CELL_STEP
        while first < last:
            middle = (first + last + 1) // 2
            plan = candidate(middle * _CELL_STEP)
            if _fits(plan, share):
                first, best = middle, plan
            else:
                last = middle - 1
        return best

    def _candidate(self, cells: int, slots: int, flash: bool, n_gpu_layers: int) -> Plan:
        demand = self._demand
        # A CPU is as fast with 128 rows at a time and needs a quarter of the scratch.
        n_ubatch = _BATCH_ROWS if n_gpu_layers else _CPU_UBATCH_ROWS
        n_batch = _BATCH_ROWS
        if self._info.is_embedding:  # It reads a text in one pass.
            n_ubatch = n_batch = _padded(cells)
        n_outputs = n_batch if self._info.is_embedding else slots * (1 + demand.n_draft)
        plan = Plan(
            n_ctx=_padded(cells) * (1 if demand.unified else slots),
            max_seq=cells,
            slots=slots,
            n_batch=n_batch,
            n_ubatch=n_ubatch,
            flash_attn=flash,
            swa_full=False,
            kv_type=demand.kv_type or "f16",
            kv_unified=demand.unified,
            n_gpu_layers=n_gpu_layers,
            n_outputs=n_outputs,
        )
        return replace(plan, devices=tuple(self._devices(plan)))

    def _flash_choices(self, n_gpu_layers: int) -> list[bool]:
        demand = self._demand
        if demand.flash_attn != "auto":
            return [demand.flash_attn]
        if demand.is_quantized or n_gpu_layers:
            return [True]
        # On a CPU it halves the speed of long chats; it is the way out where scratch breaks the plan.
        return [False, True]

    def _gpu_layers(self, floor: int) -> int:
        wanted = self._demand.n_gpu_layers
        most = self._info.n_layer + 1
        if not self._gpus:
            return 0
        if wanted != "auto":
            return most if wanted == -1 else min(wanted, most)
        flash = self._demand.flash_attn is not False
        for count in range(most, 0, -1):
            if _fits(self._candidate(floor, 1, flash, count), SHARE):
                return count
        return 0

    # -- devices --

    def _devices(self, plan: Plan) -> Iterator[DevicePlan]:
        """The host, then each GPU with a share of the last layers by its free memory."""
        info = self._info
        n_layer = info.n_layer
        on_gpu = min(plan.n_gpu_layers, n_layer)
        with_output = plan.n_gpu_layers > n_layer
        logits = plan.n_outputs * info.n_vocab * _F32_BYTES
        host_weights = self._input_bytes + (0 if with_output else self._stored_output_bytes)
        companions = self._demand.companion_bytes
        yield self._device(
            self._host, plan, range(n_layer - on_gpu), host_weights + (0 if on_gpu else companions), logits
        )
        free = sum(gpu.free_bytes for gpu in self._gpus)
        begin, seen = n_layer - on_gpu, 0
        for index, gpu in enumerate(self._gpus):
            seen += gpu.free_bytes
            last = index == len(self._gpus) - 1
            end = n_layer if last else n_layer - on_gpu + round(on_gpu * seen / max(free, 1))
            extra = (self._output_bytes if with_output and last else 0) + (
                companions if index == 0 and on_gpu else 0
            )
            yield self._device(gpu, plan, range(begin, end), extra, 0)
            begin = end

    def _device(
        self, device: DeviceMemory, plan: Plan, layers: range, extra_weights: int, extra_compute: int
    ) -> DevicePlan:
        used = bool(layers) or extra_weights > 0
        scratch = compute_bytes(self._info, plan) if layers else 0
        return DevicePlan(
            name=device.name,
            kind=device.kind,
            layers=len(layers),
            weights_bytes=extra_weights + sum(self._info.layers[index].weights_bytes for index in layers),
            kv_cache_bytes=kv_cache_bytes(self._info, layers, plan),
            compute_bytes=scratch + (extra_compute if used else 0),
            free_bytes=device.free_bytes,
        )

    # -- results --

    def _finished(self, plan: Plan, share: float, asked: int) -> Plan:
        if any(layer.windowed for layer in self._info.layers):
            whole = replace(plan, swa_full=True)
            whole = replace(whole, devices=tuple(self._devices(whole)))
            plan = whole if _fits(whole, share) else plan
        return replace(plan, notes=tuple(self._notes(plan, asked)))

    def _notes(self, plan: Plan, asked: int) -> Iterator[str]:
        trained = self._info.n_ctx_train
        if plan.max_seq < asked:
            yield f"The context is {plan.max_seq:,} of {trained:,} tokens, because memory allows no more."
        if plan.max_seq > trained:
            yield f"The context is longer than the {trained:,} tokens this model was trained with."
        if plan.slots < self._demand.slots:
            yield f"{plan.slots} of {self._demand.slots} slots fit into memory; other requests wait."
        if plan.flash_attn and self._demand.flash_attn == "auto" and not plan.n_gpu_layers:
            reason = "the cache is quantized" if self._demand.is_quantized else "memory is short"
            yield f"Flash attention is on because {reason}; long chats are slower on a CPU."
        if self._gpus and plan.n_gpu_layers <= self._info.n_layer:
            yield f"{plan.n_gpu_layers} of {self._info.n_layer} layers run on the GPU, the rest on the CPU."
        if not _fits(plan, SHARE):
            yield "This takes over 70 % of the free memory."

    def _cells_that_fit(self, asked: int) -> int | None:
        """The largest context below `asked` and within the trained one that a plan is found for.

        It leaves the usual share of memory free where one of `_LEAST_CELLS` does.
        """
        steps = range(_LEAST_CELLS, min(asked - 1, self._info.n_ctx_train) + 1, _CELL_STEP)
        for share in (SHARE, 1.0):

            def too_large(cells: int, share: float = share) -> bool:
                layers = self._gpu_layers(cells)
                plans = (self._candidate(cells, 1, flash, layers) for flash in self._flash_choices(layers))
                return not any(_fits(plan, share) for plan in plans)

            if count := bisect_left(steps, True, key=too_large):
                return steps[count - 1]
        return None

    def _no_room(self, plan: Plan) -> ModelLoadError:
        device = max(plan.devices, key=lambda device: device.total_bytes - device.free_bytes)
        need = (
            f"{gib(device.weights_bytes)} of weights, {gib(device.kv_cache_bytes)} of context "
            f"({plan.max_seq:,} tokens) and {gib(device.compute_bytes)} of scratch"
        )
        remedy = "Choose a smaller model or quantization, or close other programs."
        if (asked := self._demand.max_seq) and (cells := self._cells_that_fit(asked)):
            remedy = f"Ask for a smaller context: at most {cells:,} tokens fit (--ctx {cells})."
        return ModelLoadError(
            f"{shown(self._info.path, 300)} does not fit into memory: it needs {need}, "
            f"and {gib(device.free_bytes)} is free ({shown(device.name)}).",
            cause="out_of_memory",
            remedy=remedy,
        )
