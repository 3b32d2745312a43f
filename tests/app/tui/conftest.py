"""What holds for every test of the full screen."""

from __future__ import annotations

import pytest

ROOM = "tests/app/tui/"
SCREEN_SECONDS = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A program starts and paints for a second or two, which a busy machine makes ten and more of."""
    for item in items:
        if item.nodeid.startswith(ROOM) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SCREEN_SECONDS))
