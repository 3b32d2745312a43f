"""The fields that say how a reply is written, shared by the routes that write text."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from app.server.errors import refused
from app.server.openai.body import Body
from backend.types import GenerationConfig

_SEEDS = 2**32 - 1
MOST_REPLIES = 128
_OWN = ("top_k", "min_p", "typical_p", "repeat_penalty", "grammar")


class Sampling(Body):
    """What OpenAI's fields and llama-server's additions say of sampling."""

    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    seed: int | None = None
    stop: str | list[str] | None = None
    logit_bias: dict[str, float] | None = None
    n: int | None = Field(None, ge=1, le=MOST_REPLIES)
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repeat_penalty: float | None = None
    grammar: str | None = None


def config_of(body: Sampling, **more: Any) -> GenerationConfig:
    """The engine's settings for a request; `more` are further ones. ApiError for a value it does not take."""
    values: dict[str, Any] = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "frequency_penalty": body.frequency_penalty,
        "presence_penalty": body.presence_penalty,
        "seed": None if body.seed is None else body.seed % _SEEDS,
        "stop": _stops(body.stop),
        "logit_bias": _biases(body.logit_bias),
        **{name: getattr(body, name) for name in _OWN},
        **more,
    }
    return GenerationConfig(**values)


def _stops(stop: str | list[str] | None) -> tuple[str, ...] | None:
    if stop is None:
        return None
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    return tuple(text for text in stops if text) or None


def _biases(biases: dict[str, float] | None) -> dict[int, float] | None:
    """By token id. -100 forbids a token, as in OpenAI's API."""
    if not biases:
        return None
    try:
        return {int(key): float("-inf") if value <= -100 else value for key, value in biases.items()}
    except ValueError as err:
        raise refused("logit_bias maps ids of tokens to numbers.", "logit_bias") from err
