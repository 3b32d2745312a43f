"""Pictures in what leaves a chat: named with their size, embedded only where that is safe."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.sessions import export
from app.sessions.items import Message
from backend.engines.scripted import ScriptedEngine
from tests.app.sessions.conftest import MakeRoom, Room
from tests.app.sessions.turn.test_media import BLIND, SEES, ask, picture, showing, uploaded

EVIL = '"><script>*a*[b](c)`\x1b[2J\u202e.png'


async def a_talk(room: MakeRoom, name: str = "pic.png", content: bytes | None = None) -> Room:
    chat = await room(["a red thing"], engine=ScriptedEngine(card=SEES))
    await ask(chat, showing(await uploaded(chat, name, content)))
    return chat


async def test_html_holds_the_picture_itself(room: MakeRoom) -> None:
    chat = await a_talk(room)
    page = await chat.manager.export(chat.session_id, "html")
    [data] = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(data) == picture()
    assert f"<figcaption>pic.png, {len(picture())} bytes</figcaption>" in page
    assert "img-src data:" in page
    named = await chat.manager.export(chat.session_id, "html", with_files=False)
    assert "<img" not in named and "<figcaption>pic.png, " in named


async def test_names_are_harmless_in_every_form(room: MakeRoom) -> None:
    chat = await a_talk(room, EVIL)
    page = await chat.manager.export(chat.session_id, "html")
    assert "<script" not in page and "\x1b" not in page and "\u202e" not in page
    assert page.count("<img") == 1
    text = await chat.manager.export(chat.session_id, "markdown")
    assert "\x1b" not in text and "\u202e" not in text and "base64" not in text
    drawn = MarkdownIt().render(text)
    assert "<script" not in drawn and "<a " not in drawn and "<code" not in drawn


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("drawing.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
        ("false.png", b"<html><script>alert(1)</script></html>"),
    ],
)
async def test_what_is_no_picture_of_pixels_is_only_named(room: MakeRoom, name: str, content: bytes) -> None:
    chat = await a_talk(room, name, content)
    page = await chat.manager.export(chat.session_id, "html")
    assert "<img" not in page and "alert" not in page
    assert f"<figcaption>{name}, " in page


async def test_a_page_has_its_bounds(room: MakeRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = await a_talk(room)
    await ask(chat, showing(await uploaded(chat, "second.png")))
    monkeypatch.setattr(export, "MOST_EMBEDDED", len(picture()) + 1)
    page = await chat.manager.export(chat.session_id, "html")
    assert page.count("<img") == 1 and "<figcaption>second.png, " in page


async def test_json_lines_come_back_with_their_pictures_or_say_that_they_are_gone(
    room: MakeRoom, tmp_path: Path
) -> None:
    chat = await a_talk(room)
    whole, bare = tmp_path / "whole.jsonl", tmp_path / "bare.jsonl"
    whole.write_text(await chat.manager.export(chat.session_id))
    bare.write_text(await chat.manager.export(chat.session_id, with_files=False))
    lines = [json.loads(line) for line in bare.read_text().splitlines()]
    [file] = [line for line in lines if line["type"] == "fireside.file"]
    assert (file["name"], file["bytes"], "data" in file) == ("pic.png", len(picture()), False)
    chat.engine.scripts = [["first"], ["second"], ["third"]]
    [copy] = await chat.manager.import_(whole)
    chat.session_id = copy
    await ask(chat, "go on")
    assert "image_url" in str(chat.sent[-1])
    [copy] = await chat.manager.import_(bare)
    chat.session_id = copy
    await ask(chat, "go on")
    assert chat.sent[-1][0]["content"] == "[picture pic.png: it is no longer there]\n\nwhat is it"


async def test_a_message_is_found_by_the_name_of_its_picture(room: MakeRoom) -> None:
    chat = await room(["a red thing"], engine=ScriptedEngine(card=SEES))
    await ask(chat, showing(await uploaded(chat, "harbour plan.png"))[:1])
    [hit] = await chat.manager.search("harbour")
    assert hit["role"] == "user" and hit["preview"] == "harbour plan.png"
    assert (await chat.manager.get(chat.session_id)).title == "harbour plan.png"


async def test_the_words_of_a_message_that_only_named_its_file_by_an_id_are_as_before(
    room: MakeRoom,
) -> None:
    message = Message(role="user", content=({"type": "input_image", "file_id": "f"},))
    assert message.searchable == ""
    chat = await room(engine=ScriptedEngine(card=BLIND))
    assert await chat.manager.search("f") == []


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=100)
def test_no_name_is_markdown(name: str) -> None:
    block: dict[str, Any] = {"type": "input_image", "file_id": "f", "filename": name, "bytes": 5}
    text = export._attachments(Message(role="user", content=(block,)))
    tokens = MarkdownIt().parse(text.strip())
    kinds = [child.type for token in tokens for child in token.children or ()]
    assert kinds[0] == "em_open" and kinds[-1] == "em_close"
    assert set(kinds[1:-1]) <= {"text", "text_special"}
