"""What a server tells of itself: its models, which kind of server it is, and what a model can do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.engines import foreign
from backend.engines.server_request import Kind
from backend.types import ModelLoadError

MOST_MODELS = 1000
_OWNERS: Mapping[str, Kind] = {
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
    "library": "ollama",
    "organization_owner": "lmstudio",
    "fireside": "fireside",
}
_WINDOWS = (
    "max_model_len",
    "context_length",
    "loaded_context_length",
    "context_window",
    "max_context_length",
)
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Listed:
    """A model of a server, as far as it tells. None is not told."""

    id: str
    kind: Kind = "unknown"
    window: int = 0
    """Tokens of its context; 0 is not known."""
    parameters: int = 0
    vision: bool | None = None
    audio: bool | None = None
    tools: bool | None = None
    thinking: bool | None = None

    @property
    def embeds(self) -> bool:
        """Whether its name says that it cannot chat."""
        return "embed" in self.id.lower() or "rerank" in self.id.lower()


def listed_in(value: object) -> list[Listed]:
    """The models in the answer of `/models`; what has no name that can be shown is left out."""
    about = foreign.fields(value)
    entries = foreign.items(value) or foreign.items(about.get("data")) or foreign.items(about.get("models"))
    found: dict[str, Listed] = {}
    for one in entries[:MOST_MODELS]:
        entry = foreign.fields(one) or {"id": one}
        names = (foreign.name(entry.get(key)) for key in ("id", "model", "name"))
        if model := next(filter(None, names), ""):
            found.setdefault(model, _listed(model, entry))
    return list(found.values())


def _listed(model: str, entry: Mapping[str, Any]) -> Listed:
    meta = foreign.fields(entry.get("meta"))
    kind = _OWNERS.get(foreign.text(entry.get("owned_by")), "unknown")
    window = next(filter(None, (foreign.count(entry.get(key)) for key in _WINDOWS)), 0)
    modalities = foreign.items(foreign.fields(entry.get("architecture")).get("input_modalities"))
    able = foreign.items(entry.get("capabilities"))
    vision = "image" in modalities if modalities else True if "vision" in able else None
    audio = "audio" in modalities if modalities else None
    return Listed(
        model,
        kind,
        window or foreign.count(meta.get("n_ctx")),
        foreign.count(meta.get("n_params")),
        vision,
        audio,
    )


def with_props(model: Listed, value: object) -> Listed:
    """`model` with what llama.cpp's server says at `/props`."""
    about = foreign.fields(value)
    window = foreign.count(foreign.fields(about.get("default_generation_settings")).get("n_ctx"))
    senses = foreign.fields(about.get("modalities"))
    return replace(
        model,
        window=window or model.window,
        vision=senses.get("vision") is True,
        audio=senses.get("audio") is True,
    )


def with_show(model: Listed, value: object) -> Listed:
    """`model` with what Ollama says at `/api/show`.

    Its context is known only where the model's own parameters set one: else it is whatever Ollama chose.
    """
    about = foreign.fields(value)
    able = foreign.items(about.get("capabilities"))
    found = _NUM_CTX.search(foreign.text(about.get("parameters"))[:10_000])
    model = replace(model, window=int(found.group(1)) if found else model.window)
    if not able:
        return model
    return replace(model, vision="vision" in able, tools="tools" in able, thinking="thinking" in able)


def choose(models: Sequence[Listed], wanted: str, where: str) -> Listed:
    """The model that `wanted` names, or the first that chats. ModelLoadError with the names there are."""
    if not models:
        if wanted:
            return Listed(wanted)  # some servers list none, and answer all the same
        remedy = "Name one with --model, as the server calls it."
        raise ModelLoadError(f"{where} lists no models.", cause="not_found", remedy=remedy)
    if not wanted:
        return next((one for one in models if not one.embeds), models[0])
    lower = wanted.casefold()
    exactly = [one for one in models if one.id == wanted]
    alike = [one for one in models if one.id.casefold() == lower]
    within = [one for one in models if lower in one.id.casefold()]
    found = exactly or alike or within
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(one.id for one in found[:10])
        raise ModelLoadError(
            f"{foreign.one_line(wanted, 80)!r} fits several models there: {names}.",
            cause="not_found",
            remedy="Name one of them whole.",
        )
    names = ", ".join(one.id for one in models[:10])
    more = f" and {len(models) - 10} more" if len(models) > 10 else ""
    raise ModelLoadError(
        f"{where} has no model {foreign.one_line(wanted, 80)!r}.",
        cause="not_found",
        remedy=f"It has {names}{more}.",
    )
