"""Settings: each with its value and where that comes from; edits go into the settings file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from app import paths
from app.settings import config
from app.settings.config import Value
from app.settings.kinds import wanted
from app.settings.table import KINDS, words_of
from app.tui.screens.values import UNSET, Shown, ValuesScreen, as_text
from app.tui.shell import Shell
from app.tui.widgets.cells import from_home

FILE = "file"


def origin_word(origin: str, file: Path) -> str:
    """Where a value comes from, in a word or two."""
    if origin == str(file):
        return FILE
    return origin if origin.startswith(("--", "FIRESIDE_")) else Path(origin).name


def shown_settings(values: Mapping[str, Value], file: Path) -> list[Shown]:
    """Every setting there is, those that nobody set as well."""
    found: list[Shown] = []
    for key, kind in KINDS.items():
        table, _, name = key.rpartition(".")
        held = values.get(key)
        does, usual = words_of(key)
        found.append(
            Shown(
                key=key,
                name=name,
                value="" if held is None else as_text(held.value),
                origin=UNSET if held is None else origin_word(held.origin, file),
                group=table or "chat",
                does=does,
                usual=usual,
                takes=f"{_capital(wanted(kind))}. Also set by {config.environment_name(key)}",
            )
        )
    return found


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


class SettingsScreen(ValuesScreen):
    """All settings. Each edit is written to the file at once and holds from the next start on."""

    def __init__(self, shell: Shell, *, file: Path | None = None) -> None:
        super().__init__(shell, "settings")
        self._file = file or paths.config_file()
        self._written: dict[str, Value | None] = {}

    async def values(self) -> Sequence[Shown]:
        held = {**self.shell.settings.values, **self._written}
        return shown_settings({key: value for key, value in held.items() if value is not None}, self._file)

    async def change(self, key: str, text: str | None) -> str:
        if text is None:
            await asyncio.to_thread(config.forget, key, self._file)
            self._written[key] = None
            return f"{key} was removed from {from_home(self._file)}; this applies from the next start on."
        before = self.shell.settings.values.get(key)
        await asyncio.to_thread(config.store, key, text, self._file)
        self._written[key] = Value(config.parse(key, text), str(self._file))
        if before is not None and origin_word(before.origin, self._file) not in (FILE, UNSET):
            return f"Written to {from_home(self._file)}, but {before.origin} overrides the file."
        return f"Written to {from_home(self._file)}; it applies from the next start on."
