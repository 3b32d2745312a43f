"""Every widget, walked: what strangers named or wrote is shown without a character that a terminal obeys.

Each screen is given names, titles and texts that hold all of them; then the whole program, with every
place that foreign text reaches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.commands import COMMANDS
from app.tui.screens.chats import ChatsPicker
from app.tui.screens.dialog import Dialog
from app.tui.screens.dialogs import LineDialog, TextDialog
from app.tui.screens.files import FilesPicker
from app.tui.screens.logs import LogScreen
from app.tui.screens.models import ModelPicker
from app.tui.screens.palette import CommandPalette
from app.tui.screens.params import ParamsScreen
from app.tui.screens.settings import SettingsScreen
from app.tui.screens.tokens import TokenView
from app.tui.screens.tools import ToolsPicker
from backend.engines.scripted import CARD, ScriptedEngine
from tests.app.tui import snapshots
from tests.app.tui.pilot import Running, running
from tests.app.tui.screens import test_every_screen, test_models, test_search, test_tokens
from tests.app.tui.screens.harness import Harness, settled

pytestmark = pytest.mark.timeout(60)
ODD = "a\x1b[8m\x9b31m\u202eb\u2066c\u2028d\x0be\x0cf\x85g\x07h\u200fi\x9d8;;x\x9cj"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def spoiled(value: Any) -> Any:
    """`value` with all of the odd characters behind each of its texts."""
    match value:
        case str():
            return f"{value}{ODD}"
        case Path():
            return value.with_name(f"{value.name}{ODD}".replace("/", ""))
        case Mapping():
            return {key: item if key.endswith("id") else spoiled(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(spoiled(item) for item in value)
        case SimpleNamespace():
            return SimpleNamespace(**spoiled(vars(value)))
        case _ if is_dataclass(value) and not isinstance(value, type):
            texts = {one.name: spoiled(getattr(value, one.name)) for one in fields(value) if one.name != "id"}
            return replace(value, **{name: text for name, text in texts.items() if isinstance(text, str)})
        case _:
            return value


class Manager(test_every_screen.Manager):
    async def settings(self, session_id: str) -> dict[str, Any]:
        held = await super().settings(session_id)
        return {**held, "system": {"value": ODD, "origin": ODD}, "model": {"value": ODD, "origin": ODD}}

    async def tools(self, session_id: str) -> list[dict[str, Any]]:
        return spoiled(await super().tools(session_id))

    async def rules(self, session_id: str) -> list[dict[str, Any]]:
        return [
            {**rule, "tool": f"t{ODD}", "rule": {"text": ODD}} for rule in await super().rules(session_id)
        ]

    async def list(self, limit: int, *, include_archived: bool) -> list[Any]:
        found = await super().list(limit, include_archived=include_archived)
        return [SimpleNamespace(**{**vars(chat), "title": ODD}) for chat in found]

    async def deleted(self) -> Sequence[Any]:
        return await self.list(10, include_archived=True)


def models(app: Harness) -> ModelPicker:
    found = [SimpleNamespace(**{**spoiled(vars(one)), "kind": one.kind}) for one in test_models.models()]
    card: Any = SimpleNamespace(model_id=ODD)
    return ModelPicker(
        app, found, card=card, servers=[(ODD, f"http://{ODD}")], catalog=test_models.FakeCatalog()
    )


def logs(app: Harness) -> LogScreen:
    folder = Path("logs-of-a-test").resolve()
    folder.mkdir(exist_ok=True)
    (folder / "engine.log").write_text(f"{ODD}\nerror: {ODD}\n" * 20)
    return LogScreen(app, folder)


SCREENS: dict[str, Callable[[Harness], Dialog[Any]]] = {
    "models": models,
    "chats": lambda app: ChatsPicker(app, current="2", clock=lambda: test_search.NOW),
    "search": lambda app: test_search.screen(app, "index error", [spoiled(hit) for hit in test_search.HITS]),
    "tools": lambda app: ToolsPicker(app, "s"),
    "files": lambda app: FilesPicker(app, Path("/"), look=lambda folder: [ODD.replace("/", ""), "plain"]),
    "settings": SettingsScreen,
    "params": lambda app: ParamsScreen(app, "s"),
    "logs": logs,
    "tokens": lambda app: TokenView(app, [spoiled(one) for one in test_tokens.reply()], test_tokens.never),
    "palette": lambda app: CommandPalette(app, COMMANDS),
    "text": lambda app: TextDialog(app, ODD, [(ODD, ODD, ODD), ("x" * 99, ODD)]),
    "line": lambda app: LineDialog(app, "rename the chat", ODD),
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", sorted(SCREENS))
@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
async def test_no_screen_shows_what_a_terminal_obeys(name: str, size: tuple[int, int]) -> None:
    app = Harness(manager=Manager())
    async with app.run_test(size=size) as pilot:
        await app.open(SCREENS[name](app))
        await settled(app, pilot)
        for key in ("down", "down", "right", "end", "i", "n"):
            rows = snapshots.text_of(app)
            assert [row for row in rows if RAW.search(row)] == []
            assert len(rows) == size[1]
            await pilot.press(key)
            await settled(app, pilot)


def nothing_raw(run: Running) -> None:
    assert [row for row in run.screen() if RAW.search(row)] == []


async def test_the_program_shows_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / ODD.replace("/", "")).write_text(ODD)
    engine = ScriptedEngine(
        [[ODD, f"\n\n```{ODD}\n{ODD}\n```\n", f"# {ODD}\n- {ODD}\n\n| {ODD} |\n|-|\n"], ["two"]]
    )
    engine.card = replace(CARD, model_id=f"model{ODD}")
    async with running(engine=engine, workspace=folder) as run:
        nothing_raw(run)
        await run.ask(ODD)  # the message, the reply, the title that is made of the message
        nothing_raw(run)
        assert run.app.chat.id is not None
        await run.app.manager.rename(run.app.chat.id, ODD)
        await run.until(lambda: run.app.chat.title)
        await run.app.manager.configure(run.app.chat.id, system=ODD)
        nothing_raw(run)
        await run.pilot.press("f2")  # the pane of chats
        await run.until(lambda: run.app.parts.side_open)
        nothing_raw(run)
        await run.pilot.press("f2")
        run.app.parts.draft.focus()
        await run.type("/")  # the list above the draft
        await run.until(lambda: run.app.parts.completion.display)
        nothing_raw(run)
        await run.pilot.press("escape", "backspace")
        run.app.say(ODD, error=True)
        await run.pilot.pause()
        nothing_raw(run)
        for key in ("escape", "alt+up", "escape"):
            await run.pilot.press(key)
            nothing_raw(run)
