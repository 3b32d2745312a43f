"""A one-shot at a terminal says that it reads, and takes it back with the first word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.oneshot import reading_progress
from app.oneshot.reading_progress import ReadingProgress
from app.terminal.figures import reading
from tests.app.process import COMMAND
from tests.app.terminal_process import Terminal


def test_the_words() -> None:
    assert reading(0, 4306, 0) == "reading 4,306 tokens"
    assert reading(2153, 4306, 0) == "reading 4,306 tokens, 50 %"
    assert reading(4000, 4306, 4000) == "reading 306 tokens"
    assert reading(0, 1, 0) == "reading 1 token"


@pytest.mark.parametrize("rewrites", [True, False])
def test_it_is_gone_with_the_first_word(
    rewrites: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reading_progress, "is_terminal", lambda _: True)
    monkeypatch.setattr(reading_progress, "takes_styles", lambda _: rewrites)
    with ReadingProgress() as progress:
        progress.show(0, 4306, 0)
        progress.show(2153, 4306, 0)
        progress.end()
        progress.end()
    told = capsys.readouterr().err
    if rewrites:
        rows = ["Reading 4,306 tokens", "Reading 4,306 tokens, 50 %", ""]
        assert told == "".join(f"\r\x1b[K{row}" for row in rows)
    else:
        assert told == "Reading 4,306 tokens\n"


def test_nothing_is_told_where_nobody_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    with ReadingProgress() as progress:
        progress.show(0, 4306, 0)
    assert capsys.readouterr().err == ""


@pytest.mark.timeout(60)
def test_a_person_at_the_terminal_sees_it(tiny_llama: Path) -> None:
    flags = ["-m", str(tiny_llama), "-p", "word " * 300, "--max-tokens", "4", "--temperature", "0"]
    with Terminal([*COMMAND, *flags], {**os.environ, "TERM": "xterm-256color"}) as terminal:
        assert terminal.wait() == 0
        assert b"Reading " in terminal.raw and b" tokens" in terminal.raw
        assert "Reading" not in terminal.text
