"""What the line editor knows of a person: the messages of before, and what may complete a line."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History as PromptHistory

from app.frontend.draft import mention
from app.markdown.fuzzy import ranked
from app.terminal.output import one_line, sanitize

if TYPE_CHECKING:
    from app.frontend.history import History
    from app.repl.face import ReplFace

MOST_FILES = 2000
MOST_SHOWN = 40
_AT_WORD = re.compile(r'(?<!\S)@"?([^\s"]*)$')
_SKIPPED = frozenset((".git", "node_modules", "__pycache__", ".venv", ".mypy_cache", ".ruff_cache"))


class SharedHistory(PromptHistory):
    """The messages of both faces. `keeps` says whether a message may go to the disk."""

    def __init__(self, history: History, keeps: Callable[[], bool]) -> None:
        super().__init__()
        self._history = history
        self._keeps = keeps

    def load_history_strings(self) -> Iterable[str]:
        return reversed(list(self._history.entries))

    def store_string(self, string: str) -> None:
        self._history.add(string, keep=self._keeps())


class LineCompleter(Completer):
    """Commands and their arguments, and files after `@`. `face` is None until the chats are there."""

    def __init__(self, face: Callable[[], ReplFace | None]) -> None:
        self._face = face

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before, face = document.text_before_cursor, self._face()
        if face is None:
            return
        if (found := _AT_WORD.search(before)) is not None:
            for path in files_like(found[1], face.folder):
                yield Completion(mention(path), -len(found[0]), display=sanitize(path))
            return
        if not before.startswith("/") or before.startswith("//") or "\n" in before:
            return
        from app.commands import complete

        name, space, rest = before.partition(" ")
        for one in await complete(face, before):
            if space:
                yield Completion(one.text, -len(rest.lstrip()), display_meta=one.detail)
            else:
                yield Completion(f"/{one.text}", -len(name), display_meta=one.detail)


def files_like(typed: str, folder: Path) -> Sequence[str]:
    """Files below `folder` that fit what was typed, the best first."""
    found: list[str] = []
    waiting = [folder]
    while waiting and len(found) < MOST_FILES:
        here = waiting.pop(0)
        try:
            entries = sorted(here.iterdir())
        except OSError:
            continue
        for path in entries:
            if path.name in _SKIPPED or (path.name.startswith(".") and not typed.startswith(".")):
                continue
            if path.is_dir() and not path.is_symlink():
                waiting.append(path)
            else:
                found.append(str(path.relative_to(folder)))
    # A name that a terminal would obey, or that breaks a line, is no word of a message.
    found = [path for path in found if path == one_line(path)]
    return [path for path, _ in ranked(typed, found, str)][:MOST_SHOWN]
