"""The parameters panel: how the next reply is sampled, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.sessions.manager import SessionManager
from app.settings.kinds import read
from app.settings.table import KINDS, PARAMS
from app.tui.screens.values import Shown, ValuesScreen, as_text
from app.tui.shell import Shell
from backend.types import LIBRARY_DEFAULTS

CHAT, MODEL, LIBRARY, NONE = "this chat", "the model", "fireside", "not used"


def shown_params(
    chat: Mapping[str, Any], model: Mapping[str, Any], library: Mapping[str, Any]
) -> list[Shown]:
    """Every parameter with the value that holds: the chat's over the model's over Fireside's."""
    found: list[Shown] = []
    for group, params in PARAMS.items():
        for name, does in params.items():
            layers = ((CHAT, chat), (MODEL, model), (LIBRARY, library))
            origin, value = next(
                ((origin, values[name]) for origin, values in layers if values.get(name) is not None),
                (NONE, None),
            )
            own = as_text(value) if origin == CHAT else ""
            found.append(Shown(name, name, own, origin, group, does, usual=as_text(value)))
    return found


class ParamsScreen(ValuesScreen):
    """Sampling of one chat. A change holds from its next reply on."""

    def __init__(
        self,
        shell: Shell,
        session_id: str,
        *,
        manager: SessionManager | None = None,
        model_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(shell, "parameters")
        self._session_id = session_id
        self._manager = manager or shell.manager
        self._model_defaults = dict(model_defaults or {})

    async def values(self) -> Sequence[Shown]:
        return shown_params(await self._held(), self._model_defaults, LIBRARY_DEFAULTS.as_dict())

    async def _held(self) -> dict[str, Any]:
        settings = await self._manager.settings(self._session_id)
        return dict(settings["config"]["value"])

    async def change(self, key: str, text: str | None) -> str:
        held = await self._held()
        held.pop(key, None)
        if text is not None:
            held[key] = read(key, KINDS[f"generation.{key}"], text)
        if held:
            await self._manager.configure(self._session_id, config=held)
        else:
            await self._manager.configure(self._session_id, reset=["config"])
        return f"{key} {'is reset' if text is None else f'is {text}'} from the next reply on."
