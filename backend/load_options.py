"""The keywords of a load, checked, and what they are where nobody says."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from backend import config_checks
from backend.config_checks import shown
from backend.plan import Demand
from backend.request_checks import check_whole
from backend.types import ComputeDtype, KvCacheMode

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


def check_options(options: Mapping[str, Any]) -> LoadOptions:
    """Options from keywords; an unknown one is a ValueError that names it."""
    unknown = sorted(set(options) - set(LoadOptions.__dataclass_fields__))
    if unknown:
        raise ValueError(f"unknown load setting: {', '.join(map(repr, unknown))}")
    return LoadOptions(**options)
