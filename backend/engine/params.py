"""What a context and its scheduler are built with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EngineParams:
    """What the memory plan decided for one context."""

    max_seq: int
    """Cells of each slot, or of the whole cache when `unified`."""
    slots: int
    n_batch: int = 512
    n_ubatch: int = 512
    n_threads: int = 2
    flash_attn: bool | None = False
    kv_type: str = "f16"
    unified: bool = False
    swa_full: bool = False
    slot_bytes: int = 0
    """Size of one slot's cells."""
    adapters: tuple[tuple[Any, float], ...] = ()
    """Native LoRA adapters with their scales."""
    abortable: bool = True
    """Whether a running decode can be aborted (on a CPU it can)."""
