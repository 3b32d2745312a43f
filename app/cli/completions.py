"""What may stand after a flag, for a shell that completes a line. Looks things up only when it is asked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from app.settings.kinds import CHOICES, Kind

Completer = Callable[[str], list[str]]
_PLAIN_WORD = re.compile(r"(?:--?)?[A-Za-z0-9_.][A-Za-z0-9_.,+=/@-]{0,199}")


def complete_topics(incomplete: str) -> list[str]:
    """The pages of `fireside help`."""
    from app.help.topics import NAMES

    return _beginning(incomplete, NAMES)


def _models(incomplete: str) -> list[str]:
    from backend.models import find_files

    return _beginning(incomplete, (file.name for file in find_files()))


def _profiles(incomplete: str) -> list[str]:
    from app.settings.profiles import profile_names

    return _beginning(incomplete, profile_names())


def _settings(incomplete: str) -> list[str]:
    from app.settings.table import KINDS

    return _beginning(incomplete, (f"{key}=" for key in KINDS))


def of_kind(kind: Kind) -> Completer | None:
    """What completes the values of a kind that has few of them."""
    if kind not in CHOICES:
        return None

    def complete(incomplete: str) -> list[str]:
        return _beginning(incomplete, CHOICES[kind])

    return complete


def _formats(incomplete: str) -> list[str]:
    return _beginning(incomplete, ("text", "json", "jsonl"))


def _beginning(incomplete: str, words: Iterable[str]) -> list[str]:
    found: list[str] = []
    with contextlib.suppress(Exception):  # a shell wants words or nothing
        found = [word for word in words if word.startswith(incomplete) and word[:1] != "-"]
    return found


def offer_plain_words() -> None:
    """Answer the shell that asks, and with nothing that it would run, expand or take apart.

    A shell pastes the words of an answer into its own code, or into the line a person is about to
    send. What has another character is left out: the person types it, and quotes it.
    """
    from typer.completion import (
        completion_init,  # pyright: ignore[reportPrivateImportUsage]
        shell_completion,
    )

    completion_init()
    base: Any = shell_completion.ShellComplete
    found = base.get_completions

    def plain(self: Any, args: list[str], incomplete: str) -> list[Any]:
        return [item for item in found(self, args, incomplete) if _PLAIN_WORD.fullmatch(item.value)]

    base.get_completions = plain


COMPLETERS: dict[str, Completer] = {
    "model": _models,
    "draft_model": _models,
    "profile": _profiles,
    "set": _settings,
    "format": _formats,
}
"""By the flag's name, of those whose values no table has."""
