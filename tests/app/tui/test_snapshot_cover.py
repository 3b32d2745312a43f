"""Each screen is kept as a picture in two themes and two sizes at least."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.terminal.theming import SHIPPED

HERE = Path(__file__).parent
FILES = [file.stem for file in HERE.rglob("snapshots/*.txt")]
SCREENS = (
    "approval",
    "chats",
    "conversation",
    "error",
    "files",
    "first-run",
    "help",
    "logs",
    "models",
    "palette",
    "params",
    "queue",
    "search",
    "settings",
    "side",
    "themes",
    "tokens",
    "tools",
)


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_in_two_themes_and_two_sizes(name: str) -> None:
    found = [match for file in FILES if (match := re.fullmatch(rf"{name}-(\d+x\d+)-(.+)", file))]
    themes = {
        theme for match in found for theme in (*SHIPPED, "plain", "ascii") if match[2].startswith(theme)
    }
    assert len({match[1] for match in found}) >= 2 and len(themes) >= 2


def test_no_screen_is_left_out() -> None:
    assert {re.sub(r"-\d+x\d+-.*", "", file) for file in FILES} <= {*SCREENS, "picture", "pictures"}
