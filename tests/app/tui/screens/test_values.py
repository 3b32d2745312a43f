"""Settings and parameters: each value with its origin, edited by keys, kept where it belongs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app import paths
from app.sessions.errors import FiresideError
from app.sessions.manager import SessionManager
from app.settings import config
from app.settings.config import Settings, Value
from app.settings.table import KINDS
from app.tui.screens.params import ParamsScreen, shown_params
from app.tui.screens.settings import SettingsScreen, shown_settings
from backend.engines.scripted import ScriptedEngine
from backend.types import LIBRARY_DEFAULTS, GenerationConfig
from tests.app.tui import snapshots
from tests.app.tui.screens.harness import Harness, settled


def page(app: Harness) -> str:
    return "\n".join(snapshots.text_of(app))


@pytest.mark.parametrize(
    ("name", "theme", "size"),
    [("80x24-hearth", "hearth", (80, 24)), ("140x40-daylight", "daylight", (140, 40))],
)
async def test_parameters_and_settings(
    name: str, theme: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = {"model": "name", "approve": "approval", "theme": "name", "load.mmap": "bool"}
    monkeypatch.setattr("app.tui.screens.settings.KINDS", kinds)
    app = Harness(theme=theme)
    app.settings = Settings(
        {
            "model": Value("SmolLM2", "FIRESIDE_MODEL"),
            "approve": Value("read", "--approve"),
            "theme": Value("moss", str(paths.config_file())),
        }
    )
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        session = await manager.create()
        await manager.configure(session.id, config={"temperature": 0.2, "stop": ("\n\n", "END")})
        app.manager = manager
        async with app.run_test(size=size) as pilot:
            await app.open(ParamsScreen(app, session.id, model_defaults={"top_k": 20}))
            await settled(app, pilot)
            snapshots.check(app, f"params-{name}")
            await pilot.press("escape")
            await app.open(SettingsScreen(app))
            await settled(app, pilot)
            snapshots.check(app, f"settings-{name}")


async def test_why_values_cannot_be_read_is_told() -> None:
    async def gone(session_id: str) -> dict[str, Any]:
        raise FiresideError("There is no such chat.")

    app = Harness(manager=SimpleNamespace(settings=gone))
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(ParamsScreen(app, "s"))
        await settled(app, pilot)
        assert "There is no such chat." in page(app)


async def test_a_parameter_is_edited_refused_and_taken_back() -> None:
    app = Harness()
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        session = await manager.create()
        app.manager = manager
        async with app.run_test(size=(100, 30)) as pilot:
            await app.open(ParamsScreen(app, session.id))
            await settled(app, pilot)
            await pilot.press("enter", *"hot", "enter")
            await settled(app, pilot)
            assert "temperature must be a number" in page(app)
            await pilot.press("backspace", "backspace", "backspace", *"-1", "enter")
            await settled(app, pilot)
            assert "temperature" in page(app) and "must be" in page(app)
            await pilot.press("backspace", "backspace", *"0.3", "enter")
            await settled(app, pilot)
            held = (await manager.settings(session.id))["config"]["value"]
            assert held == {"temperature": 0.3} and "this chat" in page(app)
            await pilot.press("ctrl+x")
            await settled(app, pilot)
            assert (await manager.settings(session.id))["config"]["value"] == {}
            await pilot.press("escape")
            assert app.result is None


async def test_esc_leaves_a_value_as_it_was_and_the_screen_open() -> None:
    app = Harness()
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        session = await manager.create()
        app.manager = manager
        async with app.run_test(size=(100, 30)) as pilot:
            await app.open(ParamsScreen(app, session.id))
            await settled(app, pilot)
            await pilot.press(*"top_p", "enter", *"0.1", "escape")
            await settled(app, pilot)
            assert (await manager.settings(session.id))["config"]["value"] == {}
            assert app.result == "not closed yet" and "top_p" in page(app)


async def test_a_setting_is_written_to_the_file_with_its_comments_kept() -> None:
    file = paths.config_file()
    paths.write_private(file, "# mine\nmodel = 'old'  # keep\n")
    app = Harness()
    app.settings = Settings({"model": Value("old", str(file))})
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(SettingsScreen(app))
        await settled(app, pilot)
        await pilot.press("enter", "backspace", "backspace", "backspace", *"new", "enter")
        await settled(app, pilot)
        assert file.read_text().startswith("# mine\nmodel = ") and "# keep" in file.read_text()
        assert config.resolve({}, environ={}).get("model") == "new"
        assert "applies from the next start on" in page(app)
        await pilot.press("ctrl+x")
        await settled(app, pilot)
        assert config.resolve({}, environ={}).get("model") is None


async def test_a_setting_that_does_not_fit_is_refused_with_what_fits() -> None:
    app = Harness()
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(SettingsScreen(app))
        await settled(app, pilot)
        await pilot.press(*"approve", "enter", *"maybe", "enter")
        await settled(app, pilot)
        assert "one of ask, read, all" in page(app)
        assert not paths.config_file().exists()


async def test_a_flag_that_stands_above_the_file_is_told() -> None:
    app = Harness()
    app.settings = Settings({"theme": Value("moss", "--theme")})
    async with app.run_test(size=(100, 30)) as pilot:
        await app.open(SettingsScreen(app))
        await settled(app, pilot)
        await pilot.press(*"theme", "enter")
        await pilot.press(*["backspace"] * 4, *"frost", "enter")
        await settled(app, pilot)
        assert "--theme overrides the file" in page(app)


def test_every_setting_is_shown_with_its_origin() -> None:
    file = Path("/x/config.toml")
    held = {"load.mmap": Value(False, str(file)), "system": Value("a\nb", "FIRESIDE_SYSTEM")}
    shown = {one.key: one for one in shown_settings(held, file)}
    assert shown.keys() == KINDS.keys()
    assert (shown["load.mmap"].value, shown["load.mmap"].origin) == ("false", "file")
    assert shown["system"].origin == "FIRESIDE_SYSTEM" and shown["model"].origin == "default"


def test_a_chats_value_stands_above_the_models_and_that_above_ours() -> None:
    library = LIBRARY_DEFAULTS.as_dict()
    shown = {one.key: one for one in shown_params({"top_k": 5}, {"top_k": 20, "min_p": 0.1}, library)}
    assert (shown["top_k"].value, shown["top_k"].origin) == ("5", "this chat")
    assert (shown["min_p"].usual, shown["min_p"].origin) == ("0.1", "the model")
    assert (shown["top_p"].usual, shown["top_p"].origin) == ("0.95", "fireside")
    assert shown["mirostat"].origin == "not used"
    for name in shown:
        assert hasattr(GenerationConfig(), name)


async def test_a_value_that_fits_has_no_mark_of_a_cut_one() -> None:
    app = Harness()
    async with SessionManager(engine=ScriptedEngine(), store=None) as manager:
        session = await manager.create()
        app.manager = manager
        async with app.run_test(size=(60, 20)) as pilot:
            await app.open(ParamsScreen(app, session.id))
            await settled(app, pilot)
            row = next(line for line in page(app).splitlines() if "top_k" in line)
            assert "40" in row and "›" not in row


async def test_what_somebody_set_stands_out_and_every_description_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = {"theme": "name", "ascii": "bool"}
    monkeypatch.setattr("app.tui.screens.settings.KINDS", kinds)
    app = Harness()
    app.settings = Settings({"theme": Value("moss", str(paths.config_file()))})
    async with app.run_test(size=(140, 40)) as pilot:
        await app.open(SettingsScreen(app))
        await settled(app, pilot)
        rows = {word: row for row in snapshots.rows_of(app) for word in kinds if _has(row, word)}
        assert "  file  " in _text(rows["theme"])
        assert "default" not in _text(rows["ascii"])
        [value] = [segment for segment in rows["theme"] if segment.text.strip() == "moss"]
        assert value.style is not None and value.style.bold
        muted = app.palette.hex("muted")
        told = [segment for segment in rows["ascii"] if segment.text.strip().startswith("draw")]
        assert [segment.style.color.triplet.hex for segment in told if segment.style] == [muted]


def _text(row: Any) -> str:
    return "".join(segment.text for segment in row)


def _has(row: Any, name: str) -> bool:
    return f"  {name}  " in _text(row)
