"""What is asked of a model that it cannot do: the same sentences in every face."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.exits import Failure, usage
from app.settings.config import Settings

if TYPE_CHECKING:
    from backend.types import ChatCard


def without_tools(card: ChatCard) -> Failure:
    """That a model cannot call tools, and what helps."""
    return usage(
        card.unmet_tools,
        "Add --tool-format generic, which makes it call them in a form that a grammar enforces, "
        "or choose a model made for tools.",
    )


def unmet_tools(card: ChatCard, settings: Settings) -> Failure | str:
    """What becomes of the tools that the settings name: a failure where a flag named them for a model that
    cannot call them, a sentence where a file did, "" where there is nothing to say."""
    named = settings.values.get("tools")
    if named is None or not named.value or card.supports_tools:
        return ""
    missing = without_tools(card)
    if named.origin.startswith("-"):
        return missing
    return f"{missing.message} Those of {named.origin} are not offered."


def notes_of(card: ChatCard, residency: Mapping[str, Any]) -> str:
    """What a person should know of the server that a model is on; "" for a model of this machine."""
    return " ".join(map(str, residency.get("notes", ()))) if card.server else ""


def unmet(card: ChatCard, settings: Settings) -> str:
    """What the settings ask of a model that it cannot do, as sentences; "" where it can all of it."""
    tools = str(unmet_tools(card, settings))
    return " ".join(part for part in (tools, card.unmet_thinking(settings.generation())) if part)
