"""Pictures in the whole program: where they come from, and what happens where a model cannot see."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from app.frontend.draft import pasted_pictures
from app.sessions.manager import SessionManager
from app.sessions.store.store import Store
from app.terminal.theming import palette, read
from app.tui.transcript.picture_entry import PictureRow
from app.tui.transcript.pictures import UPPER
from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.tui.pilot import WAIT_S, Running, running

pytestmark = pytest.mark.timeout(60)
SEES = replace(CARD, supports_vision=True)


def saved(folder: Path, name: str = "chart.png") -> Path:
    data = io.BytesIO()
    Image.new("RGB", (40, 8), (255, 0, 0)).save(data, "PNG")
    (folder / name).write_bytes(data.getvalue())
    return folder / name


def rows(run: Running) -> list[PictureRow]:
    return [entry for entry in run.entries if isinstance(entry, PictureRow)]


def drawn(run: Running) -> bool:
    return bool(rows(run)) and all(row.drawing is not None for row in rows(run))


async def test_a_picture_that_is_sent_stands_under_its_message(tmp_path: Path) -> None:
    saved(tmp_path)
    engine = ScriptedEngine([["a red bar"]], card=SEES)
    async with running(engine=engine, workspace=tmp_path) as run:
        await run.send("what is @chart.png ")
        await run.until(lambda: run.texts("answer") == ["a red bar"] and drawn(run))
        await run.until(lambda: UPPER * 40 in "\n".join(run.screen()))
        assert run.kinds()[:2] == ["user", "picture"]
        assert any("picture  chart.png  40x8" in line for line in run.screen())
        assert "image_url" in str(engine.requests[0].messages[-1]["content"])
        run.app.parts.draw_with(palette(read("terminal")))
        await run.until(lambda: UPPER not in "\n".join(run.screen()))
        run.app.parts.draw_with(palette(read("daylight")))
        await run.until(lambda: UPPER in "\n".join(run.screen()))


async def test_a_picture_that_another_face_sent_has_its_name_and_cells(tmp_path: Path) -> None:
    path = saved(tmp_path)
    engine = ScriptedEngine([["a bar"]], card=SEES)
    store = tmp_path / "chats.db"
    manager = SessionManager(engine=engine, store=Store(store))
    async with manager:
        session = await manager.create()
        file = await manager.files.upload(session.id, path)
        # as `fireside -p --attach` posts it
        block = {"type": "input_image", "file_id": file.id}
        await manager.post_event(session.id, {"type": "message", "data": {"content": [block]}})
        async with asyncio.timeout(WAIT_S):
            while len((await manager.get(session.id)).items) < 2:
                await asyncio.sleep(0.01)
    engine = ScriptedEngine([["more"]], card=SEES)
    async with running(engine=engine, store=store, workspace=tmp_path, start={"last": True}) as run:
        await run.until(lambda: drawn(run))
        await run.until(lambda: any("picture  chart.png  40x8" in line for line in run.screen()))
        assert UPPER * 40 in "\n".join(run.screen())


async def test_a_model_that_cannot_see_refuses_before_anything_is_sent(tmp_path: Path) -> None:
    saved(tmp_path)
    async with running([["one"]], workspace=tmp_path) as run:
        await run.send("look @chart.png ")
        await run.until(lambda: "cannot see" in run.seam)
        assert "nothing was sent" in run.seam
        assert run.app.parts.draft.text == "look @chart.png "
        assert run.entries == []
        assert run.app.chat.id is None or await run.items() == []
        run.app.parts.draft.put("look")
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["one"])


async def test_nothing_is_sent_blindly_while_the_model_is_being_loaded(tmp_path: Path) -> None:
    saved(tmp_path)
    async with running([["one"]], workspace=tmp_path) as run:
        run.app.model.load = 0.5
        await run.send("look @chart.png ")
        await run.until(lambda: "still being loaded" in run.seam)
        assert run.app.parts.draft.text == "look @chart.png "
        run.app.model.load = None


async def test_pictures_that_a_person_turned_off_have_their_names(tmp_path: Path) -> None:
    saved(tmp_path)
    engine = ScriptedEngine([["a red bar"]], card=SEES)
    async with running(engine=engine, workspace=tmp_path, pictures="off") as run:
        await run.send("what is @chart.png ")
        await run.until(lambda: run.texts("answer") == ["a red bar"])
        await run.until(lambda: run.app.parts.transcript.settled)
        assert any("picture  chart.png" in line for line in run.screen())
        assert UPPER not in "\n".join(run.screen())


async def test_an_attached_picture_is_named_in_the_draft_and_can_be_taken_out(tmp_path: Path) -> None:
    saved(tmp_path, "my chart.png")
    engine = ScriptedEngine([["a red bar"], ["nothing"]], card=SEES)
    async with running(engine=engine, workspace=tmp_path) as run:
        await run.send(f"/attach {tmp_path / 'my chart.png'}")
        await run.until(lambda: run.app.parts.draft.text == f'@"{tmp_path / "my chart.png"}" ')
        run.app.parts.draft.insert_text("what is it")
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["a red bar"] and drawn(run))
        assert len(rows(run)) == 1
        await run.send("/attach my chart.png")
        await run.until(lambda: run.app.parts.draft.text == '@"my chart.png" ')
        await run.ask("and without it?")
        assert len(rows(run)) == 1


async def test_what_cannot_be_attached_says_so(tmp_path: Path) -> None:
    async with running(workspace=tmp_path) as run:
        await run.send("/attach nothing.png")
        await run.until(lambda: "nothing.png cannot be read" in run.seam)


@pytest.mark.parametrize("sees", [True, False])
async def test_a_pasted_path_is_the_picture_where_the_model_sees(tmp_path: Path, sees: bool) -> None:
    path = saved(tmp_path, "my chart.png")
    engine = ScriptedEngine([["a red bar"]], card=replace(CARD, supports_vision=sees))
    async with running(engine=engine, workspace=tmp_path) as run:
        written = str(path).replace(" ", "\\ ")
        run.app.parts.draft.paste(written)
        assert run.app.parts.draft.text == (f'@"{path}" ' if sees else written)
        if not sees:
            return
        await run.pilot.press("enter")
        await run.until(lambda: run.texts("answer") == ["a red bar"] and drawn(run))
        assert "picture  my chart.png" in "\n".join(run.screen())


def test_what_is_pasted_is_a_picture_only_where_it_is_nothing_else(tmp_path: Path) -> None:
    path, other = saved(tmp_path), saved(tmp_path, "other one.jpg")
    (tmp_path / "notes.txt").write_text("x")
    wanted = {
        f"{path}": f"@{path} ",
        f"{path}\n": f"@{path} ",
        f"'{other}'": f'@"{other}" ',
        f"file://{str(other).replace(' ', '%20')}": f'@"{other}" ',
        f"{path} '{other}'": f'@{path} @"{other}" ',
        f"look at {path}": None,
        f"{tmp_path}/notes.txt": None,
        f"{tmp_path}/gone.png": None,
        "chart.png": None,
        "it's": None,
        "": None,
        "/" * 9000 + "a.png": None,
        "~nobody/a.png": None,
        "/a\0b.png": None,
    }
    assert {text: pasted_pictures(text, tmp_path) for text in wanted} == wanted


async def test_a_picture_is_a_part_of_its_message_and_folds(tmp_path: Path) -> None:
    path = saved(tmp_path)
    engine = ScriptedEngine([["a bar"]], card=SEES)
    async with running(engine=engine, workspace=tmp_path) as run:
        chat = run.app.chat
        file = await chat.manager.files.upload(await chat.ensure(), path)
        await chat.post("", [{"type": "input_image", "file_id": file.id}], tmp_path)
        await run.until(lambda: run.texts("answer") == ["a bar"] and drawn(run))
        await run.until(lambda: run.app.parts.transcript.settled)
        row = rows(run)[0]
        # without words there is no row for them
        assert run.app.parts.transcript.page.top(run.app.parts.transcript.page.index(row)) == 0
        assert chat.view.item_of(row) is not None
        run.app.parts.transcript.cursor_to(row)
        run.app.parts.transcript.focus()
        await run.pilot.press("enter")
        await run.until(lambda: UPPER not in "\n".join(run.screen()))
        assert any("▸ picture  chart.png" in line for line in run.screen())
        await run.pilot.press("enter")
        await run.until(lambda: UPPER in "\n".join(run.screen()))


async def test_a_chat_whose_pictures_the_next_model_cannot_see_goes_on_and_says_so_once(
    tmp_path: Path,
) -> None:
    saved(tmp_path)
    engine = ScriptedEngine([["a red bar"], ["words"], ["more words"]], card=SEES)
    async with running(engine=engine, workspace=tmp_path) as run:
        await run.send("what is @chart.png ")
        await run.until(lambda: run.texts("answer") == ["a red bar"])
        engine.card = replace(CARD, model_id="mole")
        await run.ask("and now?")
        await run.ask("and then?")
        assert run.texts("note") == ["this model cannot see the picture of an earlier turn"]
        assert "this model cannot see the picture of an earlier turn" in "\n".join(run.screen())
        assert "error" not in run.kinds()
        assert "[picture chart.png, 40x8: not shown to this model]" in str(engine.requests[2].messages)


async def test_a_recording_is_refused_as_a_picture_is(tmp_path: Path) -> None:
    (tmp_path / "talk.wav").write_bytes(b"RIFF....WAVE" + bytes(2000))
    async with running(engine=ScriptedEngine([["one"]], card=SEES), workspace=tmp_path) as run:
        await run.send("listen to @talk.wav ")
        await run.until(lambda: "cannot hear, so nothing was sent" in run.seam)
        assert run.app.parts.draft.text == "listen to @talk.wav "
        assert run.entries == [] and run.app.chat.id is None


async def test_a_message_with_a_picture_is_answered_anew_or_edited_only_by_a_model_that_sees(
    tmp_path: Path,
) -> None:
    saved(tmp_path)
    engine = ScriptedEngine([["a red bar"], ["words"]], card=SEES)
    async with running(engine=engine, workspace=tmp_path) as run:
        await run.send("what is @chart.png ")
        await run.until(lambda: run.texts("answer") == ["a red bar"] and not run.app.chat.busy)
        before = [item.id for item in await run.items()]
        engine.card = replace(CARD, model_id="mole")
        await run.send("/retry")
        await run.until(lambda: "mole cannot see, but chart.png is in the message" in run.seam)
        await run.send("/edit what else")
        await run.until(lambda: "send the words without the picture" in run.seam)
        assert [item.id for item in await run.items()] == before
        await run.ask("what else")
        assert run.texts("answer") == ["a red bar", "words"]
        await run.send("/search chart")
        await run.until(lambda: len(run.app.screen_stack) > 1)
        # The first is what was typed, the second the name of what is attached.
        await run.until(lambda: any("what is @chart.png chart.png" in line for line in run.screen()))
