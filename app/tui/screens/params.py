"""The parameters panel: how the next reply is sampled, and where each value comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.config import KINDS
from app.kinds import read
from app.sessions.manager import SessionManager
from app.tui.screens.values import Shown, ValuesScreen, as_text
from app.tui.shell import Shell
from backend.types import LIBRARY_DEFAULTS

CHAT, MODEL, LIBRARY, NONE = "this chat", "the model", "fireside", "not used"

PARAMS: Mapping[str, Mapping[str, str]] = {
    "sampling": {
        "temperature": "higher is freer, 0 takes the likeliest token each time",
        "top_k": "of how many of the likeliest tokens one is drawn; 0 of all",
        "top_p": "of the likeliest tokens that share this much probability",
        "min_p": "no token below this share of the likeliest one's probability",
        "typical_p": "tokens whose surprise is typical, up to this much probability",
        "top_n_sigma": "no token this many deviations below the likeliest; below 0 is off",
        "xtc_probability": "how often all but the last of the likely tokens are left out",
        "xtc_threshold": "what counts as likely for xtc_probability",
        "dynatemp_range": "how far temperature goes up and down with certainty",
        "mirostat": "1 or 2 hold the surprise steady in place of top_k and top_p",
        "mirostat_tau": "the surprise that mirostat aims at",
        "mirostat_eta": "how fast mirostat learns",
        "seed": "the same seed draws the same reply; none draws anew",
    },
    "repetition": {
        "repeat_penalty": "above 1, tokens that stand close before are less likely",
        "repeat_last_n": "how far back repeat_penalty looks; -1 the whole context",
        "frequency_penalty": "less likely the more often a token was written",
        "presence_penalty": "less likely once a token was written at all",
        "dry_multiplier": "how much repeated sequences are held back; 0 is off",
        "dry_base": "how fast that grows with the length of the sequence",
        "dry_allowed_length": "sequences up to this length may repeat",
    },
    "length": {
        "max_new_tokens": "the longest reply, in tokens",
        "stop": "texts at which a reply ends",
    },
    "thinking": {
        "enable_thinking": "true or false; none leaves it to the model",
        "reasoning_effort": "none, minimal, low, medium, high, xhigh or max",
        "reasoning_budget": "the longest thought, in tokens",
    },
    "tokens": {
        "logprobs": "record each token with this many alternatives, for the token view",
    },
}


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
        current: str | None = None,
    ) -> None:
        super().__init__(shell, "parameters", current)
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
        return f"{key} {'is taken back' if text is None else f'is {text}'} from the next reply on."
