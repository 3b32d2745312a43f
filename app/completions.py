"""What may stand after a flag, for a shell that completes a line. Looks things up only when it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from app.kinds import CHOICES, Kind
from app.terminal import sanitize

Completer = Callable[[str], list[str]]


def complete_topics(incomplete: str) -> list[str]:
    """The pages of `fireside help`."""
    from app.help_topics import NAMES

    return _beginning(incomplete, NAMES)


def _models(incomplete: str) -> list[str]:
    from backend.models import find_files

    return _beginning(incomplete, (file.name for file in find_files()))


def _profiles(incomplete: str) -> list[str]:
    from app.profiles import profile_names

    return _beginning(incomplete, profile_names())


def _settings(incomplete: str) -> list[str]:
    from app.config import KINDS

    return _beginning(incomplete, (f"{key}=" for key in KINDS))


def _choices(kind: Kind) -> Completer:
    def complete(incomplete: str) -> list[str]:
        return _beginning(incomplete, CHOICES[kind])

    return complete


def _formats(incomplete: str) -> list[str]:
    return _beginning(incomplete, ("text", "json", "jsonl"))


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    found: list[str] = []
    with contextlib.suppress(Exception):  # a shell wants words or nothing
        found = [sanitize(word) for word in words if word.startswith(incomplete)]
    return found


COMPLETERS: dict[str, Completer] = {
    "model": _models,
    "draft_model": _models,
    "profile": _profiles,
    "set": _settings,
    "format": _formats,
    "approve": _choices("approval"),
    "effort": _choices("effort"),
    "kv_type": _choices("cache_type"),
    "color": _choices("color"),
}
"""By the flag's name."""
