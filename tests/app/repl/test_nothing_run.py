"""What a person did not mean to run is not run, and a question is answered that was seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app.frontend.draft import blocks_of
from app.frontend.paste import Folds
from app.frontend.question import Question
from app.markdown.sgr import Span
from app.repl.console import Line
from app.repl.face import ReplFace
from tests.app.repl.chatting import chat, last_user_text
from tests.app.tui.test_approvals import Recorder, call


def pasted(text: str, before: str = "") -> Line:
    """A line whose paste is folded."""
    folds = Folds()
    shown = before + folds.fold(text)
    return Line(folds.unfold(shown), shown, tuple(blocks_of(shown, folds)))


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


async def test_the_card_above_the_keys_is_the_one_that_they_answer() -> None:
    tool = Recorder()
    both = [call("c1", text="first"), call("c2", text="second")]
    order: list[str] = []

    def watch(face: ReplFace) -> None:
        card, ask = face.page.card, face.console.ask

        def shown(question: Question, note: str) -> None:
            order.append(str(question.arguments["text"]))
            card(question, note)

        async def asked(message: Sequence[Span], default: str = "", *, armed: bool = False) -> str | None:
            order.append("asked")
            return await ask(message, default, armed=armed)

        face.page.card, face.console.ask = shown, asked  # type: ignore[method-assign]

    await chat("go", scripts=[both, ["done"]], answers=["y", "n"], tools=[tool], watch=watch)
    # Both calls are looked at at once, and either may be the first to be asked about.
    allowed, _, refused, _ = order
    assert order == [allowed, "asked", refused, "asked"] and {allowed, refused} == {"first", "second"}
    assert tool.calls == [{"text": allowed}]
