"""What is known of the loaded model: its name as people say it, where its layers are, how far a load is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager

UNKNOWN = "model"
"""Who answers, before a model is there."""

_QUANTIZATION = re.compile(r"[-_. ](I?Q\d\w*|[BF]P?(16|32)|MXFP4\w*|TQ\d\w*)$", re.IGNORECASE)
_ENDINGS = re.compile(r"[-_. ](instruct|it|chat|gguf|v?\d{4}|ud|i1)$", re.IGNORECASE)


@dataclass
class ModelState:
    """The model of all chats. `load` is the fraction of a load that runs, `fetched` that of a download."""

    name: str = ""
    load: float | None = None
    fetched: float | None = None
    failed: bool = False
    gpu_layers: int | None = None
    layers: int = 0
    has_gpu: bool = False
    """Whether llama.cpp sees a GPU here, used or not."""
    window: int | None = None
    tools: bool = False
    sees: bool = False
    server: str = ""
    """Where it is, if it runs elsewhere; its tokens are estimates then."""
    machine: Sequence[tuple[str, str]] = ()
    """What this machine has, as (name, amount), told where there is no model."""

    def read(self, manager: SessionManager) -> None:
        """Take what the engine tells of the model that is loaded."""
        card = manager.card
        if card is None:
            return
        self.name = short_name(card.model_id)
        self.window = card.max_seq or None
        self.server = card.server
        self.tools, self.sees = card.supports_tools, card.supports_vision
        residency = manager.residency
        self.gpu_layers, self.layers = layers_of(residency)
        self.has_gpu = any(device.get("kind") != "cpu" for device in _devices(residency))


def layers_of(residency: Mapping[str, Any]) -> tuple[int | None, int]:
    """Layers on a GPU and in all; (None, 0) where nothing is told."""
    on_gpu = total = 0
    for device in _devices(residency):
        count = device.get("layers")
        layers = len(cast("list[Any]", count)) if isinstance(count, list | tuple) else int(count or 0)
        total += layers
        if device.get("kind") != "cpu":
            on_gpu += layers
    return (on_gpu, total) if total else (None, 0)


def _devices(residency: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return cast("list[Mapping[str, Any]]", residency.get("devices") or [])


def short_name(model_id: str) -> str:
    """A model's name as people say it: `SmolLM2 135M` for SmolLM2-135M-Instruct.Q4_1.gguf."""
    name = model_id.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    name = re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)
    name = re.sub(r"-\d{5}-of-\d{5}$", "", name)
    shorter = _QUANTIZATION.sub("", name)
    while (cut := _ENDINGS.sub("", shorter)) != shorter:
        shorter = cut
    return re.sub(r"[-_]+", " ", shorter or name).strip() or model_id
