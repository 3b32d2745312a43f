"""What a person did not mean to run is not run, and a question is answered that was seen."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from pathlib import Path

from app.repl.console import Line
from app.repl.outside import run_shell
from app.tui.sending import blocks_of
from app.tui.widgets.paste import Folds
from tests.app.repl.chatting import chat, last_user_text


def pasted(text: str, before: str = "") -> Line:
    """A line whose paste is folded."""
    folds = Folds()
    shown = before + folds.fold(text)
    return Line(folds.unfold(shown), shown, tuple(blocks_of(shown, folds)))


class _Terminal:
    @contextlib.contextmanager
    def cooked(self) -> Generator[None]:
        yield


async def test_a_folded_paste_that_looks_like_a_shell_line_is_sent(tmp_path: Path) -> None:
    text = f"!touch {tmp_path / 'ran'}\n" + "more\n" * 12
    told = await chat(pasted(text), scripts=[["fine"]], workspace=str(tmp_path))
    assert not (tmp_path / "ran").exists()
    assert "fine" in told.seen
    assert last_user_text(told.engine).startswith("!touch")


async def test_a_folded_paste_names_no_file_to_send(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("zanzibar")
    text = "see @secret.txt\n" + "more\n" * 12
    told = await chat(pasted(text, "look: "), scripts=[["fine"]], workspace=str(tmp_path))
    assert "zanzibar" not in str(told.engine.requests[-1].messages)


async def test_a_program_in_the_background_is_not_waited_for() -> None:
    began = time.monotonic()
    result = await run_shell(_Terminal(), "sleep 60 & echo here", Path("/"), private=False)  # type: ignore[arg-type]
    assert result.output == "here\n"
    assert time.monotonic() - began < 30
