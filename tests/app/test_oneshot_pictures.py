"""Pictures of one-shots: only a new one is refused, and what a model cannot see of a chat is told."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from app import cli, oneshot_session
from backend.scripted import CARD, ScriptedEngine
from tests.app.test_oneshot_session import Cap, count_chats, no_stdin, stored

__all__ = ["no_stdin"]
SEES = replace(CARD, model_id="owl", supports_vision=True)
BLIND = replace(CARD, model_id="mole")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedEngine]:
    """The engine of every call; a test chooses what its model sees."""
    data = io.BytesIO()
    Image.new("RGB", (90, 60), (200, 40, 0)).save(data, "PNG")
    (tmp_path / "pic.png").write_bytes(data.getvalue())
    monkeypatch.chdir(tmp_path)
    made = ScriptedEngine([["a red thing"], ["words"], ["more"]], SEES, closed=True)
    monkeypatch.setattr(oneshot_session, "make_engine", lambda **options: made)
    yield made


def test_a_chat_with_pictures_goes_on_with_a_model_that_cannot_see(
    engine: ScriptedEngine, capfd: Cap
) -> None:
    assert cli.main(["-p", "what is it", "--attach", "pic.png"]) == 0
    [_, block] = stored()[0].content
    assert (block["filename"], block["type"]) == ("pic.png", "input_image")
    engine.card = BLIND
    capfd.readouterr()
    assert cli.main(["-p", "and now?", "-c"]) == 0
    out, err = capfd.readouterr()
    assert out == "words\n"
    assert err == "fireside: mole cannot see the picture of an earlier turn\n"
    first = (engine.requests[1].messages or ())[0]
    assert first["content"] == "what is it\n\n[picture pic.png, 90x60: not shown to this model]"


def test_a_new_picture_for_a_model_that_cannot_see_is_refused_and_kept_nowhere(
    engine: ScriptedEngine, capfd: Cap
) -> None:
    engine.card = BLIND
    assert cli.main(["-p", "what is it", "--attach", "pic.png"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "mole cannot see, so pic.png cannot be attached. Choose a model with vision" in err
    assert count_chats() == 0 and engine.requests == []
