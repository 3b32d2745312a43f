from __future__ import annotations

from typing import Any

import pytest

import backend
from tests.app.double import Double


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Double:
    """The model that `backend.load` gives in this test."""
    from app.cli import main

    model = Double()

    def load(source: Any = None, *, progress: Any, for_text: bool, **options: Any) -> Double:
        assert for_text
        model.options = {"source": source, **options}
        assert progress(0.5)
        return model

    monkeypatch.setattr(backend, "load", load, raising=False)
    # There is no native code, and the descriptors are those of the tests.
    monkeypatch.setattr(main, "keep_native_output_in", lambda log: None)
    return model
