from __future__ import annotations

import pytest

from tests import limits

MEGABYTE = 2**20


@pytest.mark.parametrize("where", ["as it is", "elsewhere"])
def test_what_takes_more_memory_than_its_limit_fails(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "elsewhere":
        monkeypatch.setattr(limits, "PROCESS", limits.PROCESS / "nowhere")
    with limits.memory(60 * MEGABYTE):
        b"x" * (20 * MEGABYTE)
    with pytest.raises(AssertionError, match="it took"), limits.memory(60 * MEGABYTE):
        b"x" * (100 * MEGABYTE)
