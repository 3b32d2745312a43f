"""Looks behind the model API at what the engine was really fed."""

from __future__ import annotations

from backend import GenerativeModel


def fed(model: GenerativeModel) -> list[int]:
    """The tokens of the fullest slot: the last prompt with its reply, on a model that ran one request."""
    scheduler = model.handle.pipeline().engine._scheduler
    assert scheduler is not None
    return list(max((slot.tokens for slot in scheduler.slots), key=len))


def prompt_fed(model: GenerativeModel) -> list[int]:
    """The prompt of the last request."""
    assert model.report is not None
    return fed(model)[: model.report.prompt_tokens]
