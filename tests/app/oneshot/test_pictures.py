"""Pictures of one-shots: only a new one is refused, and what a model cannot see of a chat is told."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from app.cli import main, session_commands
from app.oneshot import session
from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.oneshot.test_session import Cap, count_chats, no_stdin, stored

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
    monkeypatch.setattr(session, "make_engine", lambda **options: made)
    yield made


def test_a_chat_with_pictures_goes_on_with_a_model_that_cannot_see(
    engine: ScriptedEngine, capfd: Cap
) -> None:
    assert main.main(["-p", "what is it", "--attach", "pic.png"]) == 0
    [_, block] = stored()[0].content
    assert (block["filename"], block["type"]) == ("pic.png", "input_image")
    engine.card = BLIND
    capfd.readouterr()
    assert main.main(["-p", "and now?", "-c"]) == 0
    out, err = capfd.readouterr()
    assert out == "words\n"
    assert err == "fireside: this model cannot see the picture of an earlier turn\n"
    first = (engine.requests[1].messages or ())[0]
    assert first["content"] == "what is it\n\n[picture pic.png, 90x60: not shown to this model]"


def test_a_new_picture_for_a_model_that_cannot_see_is_refused_and_kept_nowhere(
    engine: ScriptedEngine, capfd: Cap
) -> None:
    engine.card = BLIND
    assert main.main(["-p", "what is it", "--attach", "pic.png"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "mole cannot see, so pic.png cannot be attached. Choose a model with vision" in err
    assert count_chats() == 0 and engine.requests == []


def begun(capfd: Cap) -> str:
    """The id of a chat with a picture."""
    assert main.main(["-p", "what is it", "--attach", "pic.png"]) == 0
    capfd.readouterr()
    assert main.main(["sessions", "list", "--json"]) == 0
    return json.loads(capfd.readouterr().out)["sessions"][0]["id"]


def test_a_chat_with_pictures_is_shown_and_found_by_name_and_size(engine: ScriptedEngine, capfd: Cap) -> None:
    name, size = begun(capfd), Path("pic.png").stat().st_size
    assert main.main(["sessions", "show", name]) == 0
    assert f"*[attached: pic.png, {size} bytes]*" in capfd.readouterr().out
    assert main.main(["sessions", "search", "pic"]) == 0
    assert "user: what is it pic.png" in capfd.readouterr().out


@pytest.mark.parametrize("format", ["jsonl", "html", "markdown"])
def test_an_export_spills_no_picture_into_a_terminal(
    engine: ScriptedEngine, capfd: Cap, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    name, data = begun(capfd), base64.b64encode(Path("pic.png").read_bytes()).decode()
    assert main.main(["sessions", "export", name, "--format", format]) == 0
    assert (data in capfd.readouterr().out) is (format != "markdown")
    monkeypatch.setattr(session_commands, "is_terminal", lambda stream: True)
    assert main.main(["sessions", "export", name, "--format", format]) == 0
    out, err = capfd.readouterr()
    assert data[:40] not in out and "pic.png" in out
    assert ("1 file of the chat cannot be shown here; -o FILE writes all of it" in err) is (
        format != "markdown"
    )
    assert main.main(["sessions", "export", name, "--format", format, "-o", "out"]) == 0
    assert (data in Path("out").read_text()) is (format != "markdown")
