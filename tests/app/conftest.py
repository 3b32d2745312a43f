from __future__ import annotations

from typing import Any

import pytest

import backend
from tests.app.double import Double


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Double:
    """The model that `backend.load` gives in this test."""
    model = Double()

    def load(source: Any = None, *, progress: Any, **options: Any) -> Double:
        model.options = {"source": source, **options}
        assert progress(0.5)
        return model

    monkeypatch.setattr(backend, "load", load, raising=False)
    return model
