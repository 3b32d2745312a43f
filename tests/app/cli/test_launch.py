"""The arguments that begin a face without the parser mean what the parser says."""

from __future__ import annotations

from typing import Any

import pytest

from app.cli import main
from app.cli.launch import plainly_given


@pytest.mark.parametrize(
    "arguments", [[], ["-c"], ["--continue"], ["--resume", "1a2b3c4d"], ["--resume", "sess_1a2b"]]
)
def test_plain_arguments_are_read_as_by_the_parser(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, Any]] = []
    monkeypatch.setattr(main, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(main, "is_plain", lambda _given: False)
    monkeypatch.setattr(main, "start_tui", lambda given: begun.append(given) or 0)
    assert main.main(arguments) == 0
    assert begun == [plainly_given(arguments)]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--resume"],
        ["--resume", ""],
        ["--resume", "-c"],
        ["--resume", "repl"],
        ["-c", "tui"],
        ["-c", "--plain"],
        ["--help"],
    ],
)
def test_the_rest_is_left_to_the_parser(arguments: list[str]) -> None:
    assert plainly_given(arguments) is None
