"""What several commands do: text for a screen, the open chat's items, changes of its settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.characters import clean_text
from app.clock import moment
from app.commands.face import Choice, Face, Rows
from app.open_stores import refuse
from app.sessions.items import Item, Message
from app.sessions.turn.media import file_labels
from app.terminal.output import sanitize, squeezed

MOST_ITEMS = 10_000
LINE_CHARS = 100


def cut(text: str, chars: int = LINE_CHARS) -> str:
    """`text` on one line of at most `chars` characters."""
    line = squeezed(text)
    return line if len(line) <= chars else f"{line[: chars - 1]}\u203a"


def date(seconds: int) -> str:
    """A time as local date and minute."""
    return moment(seconds).strftime("%Y-%m-%d %H:%M")


async def show(face: Face, title: str, body: Rows | str) -> None:
    """Show something to read, sanitised."""
    if isinstance(body, str):
        await face.show(squeezed(title), sanitize(body))
    else:
        await face.show(squeezed(title), [tuple(squeezed(cell) for cell in row) for row in body])


async def choose(face: Face, title: str, choices: Sequence[Choice]) -> str | None:
    """Let the person choose, from sanitised lines."""
    lines = [Choice(choice.value, cut(choice.label), cut(choice.detail)) for choice in choices]
    return await face.choose(squeezed(title), lines)


async def path(face: Face) -> list[Item]:
    """The items of the open chat's active path, oldest first."""
    if face.session_id is None:
        return []
    return await face.manager.list_items(face.session_id, limit=MOST_ITEMS)


async def write_file(face: Face, name: str, text: str) -> Path | None:
    """Write `text` to a file that only its owner reads, and return it; None where the person kept what
    is there. OSError where it cannot be written."""
    target = Path(name.strip()).expanduser().absolute()
    if target.exists():
        answer = await face.ask(f"{squeezed(str(target))} already exists. Overwrite it? (y/n)")
        if (answer or "").strip().lower() not in ("y", "yes"):
            face.say("Nothing was written.")
            return None
    refuse(target)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(clean_text(text))
    return target


def whole_text(message: Message) -> str:
    """A message to copy: its words, and name and size of what is attached."""
    return "\n".join(
        part for part in (message.text, *map("[{}]".format, file_labels(message.content))) if part
    )


def tell_unmet(face: Face, unmet: str, said: str) -> None:
    """Say what a command did, or what of it the model cannot do."""
    face.say(unmet or said, error=bool(unmet))


def is_question(item: Item) -> bool:
    """Whether an item is a message that a person wrote."""
    return isinstance(item, Message) and item.role == "user" and not item.is_meta


def is_answer(item: Item) -> bool:
    """Whether an item is text that the model wrote."""
    return isinstance(item, Message) and item.role == "assistant"


async def settings(face: Face) -> dict[str, Any]:
    """The open chat's settings, each as `{value, origin}`."""
    return await face.manager.settings(await face.session())


async def change_generation(face: Face, **values: Any) -> None:
    """Change generation settings of the open chat; None takes one back."""
    held: dict[str, Any] = (await settings(face))["config"]["value"]
    merged = {name: value for name, value in {**held, **values}.items() if value is not None}
    session_id = await face.session()
    if merged:
        await face.manager.configure(session_id, config=merged)
    else:
        await face.manager.configure(session_id, reset=["config"])
