"""Local models as a library: `load` one, then `generate`, `chat`, or open a `chat_session`.

Names are resolved on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backend.chat_engine import ChatEngine as ChatEngine
    from backend.chat_engine import Request as Request
    from backend.chat_session import ChatSession as ChatSession
    from backend.engines.local import InProcessEngine as InProcessEngine
    from backend.engines.scripted import ScriptedEngine as ScriptedEngine
    from backend.model import GenerativeModel as GenerativeModel
    from backend.model import load as load
    from backend.types import *  # noqa: F403

_HOMES = {
    "ChatEngine": "backend.chat_engine",
    "Request": "backend.chat_engine",
    "ChatSession": "backend.chat_session",
    "GenerativeModel": "backend.model",
    "InProcessEngine": "backend.engines.local",
    "ScriptedEngine": "backend.engines.scripted",
    "load": "backend.model",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    module = importlib.import_module(_HOMES.get(name, "backend.types"))
    try:
        value = getattr(module, name)
    except AttributeError:
        raise AttributeError(f"module 'backend' has no attribute {name!r}") from None
    globals()[name] = value
    return value
