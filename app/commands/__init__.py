"""The slash commands and palette entries of both faces, in one registry.

A face shows `available`, completes by `complete`, and hands a typed line to `run_line`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from app.commands import chats, dividing, general, models, replies, tools
from app.commands.face import Choice, Command, Completion, Face, FaceKind, Rows, Screen
from app.commands.prompts import read_prompts
from app.commands.shared import show
from app.exits import Failure, explain, is_folder_gone
from app.sessions.errors import FiresideError
from app.settings.kinds import SettingError
from app.terminal.output import squeezed

__all__ = [
    "COMMANDS",
    "Choice",
    "Command",
    "Completion",
    "Face",
    "FaceKind",
    "Rows",
    "Screen",
    "available",
    "complete",
    "find",
    "group_of",
    "is_meant",
    "run",
    "run_line",
]


async def _help(face: Face, rest: str) -> None:
    if rest:
        command = find(face, rest.removeprefix("/"))
        if command is None:
            face.say(f"There is no command /{squeezed(rest)[:40]}. /help lists them.", error=True)
            return
        also = f"  also /{', /'.join(command.aliases)}" if command.aliases else ""
        pressed = face.key_of(command)
        key = f"  key {pressed}" if pressed else ""
        await show(face, command.usage, f"{command.help}{also}{key}")
        return
    if await face.screen("help"):
        return
    rows: Rows = [(command.usage, command.help) for command in available(face)]
    notes: Rows = [
        ("@FILE", "mention a file; its name is completed"),
        ("!COMMAND", "run a shell command; its output joins the next message"),
        ("//TEXT", "send text that begins with a slash"),
    ]
    await show(face, "Commands", [*rows, *notes])


GROUPS: Mapping[str, tuple[Command, ...]] = {
    "chats": chats.COMMANDS,
    "replies": (*replies.COMMANDS, *dividing.COMMANDS),
    "models": models.COMMANDS,
    "tools and files": tools.COMMANDS,
    "program": (
        Command("help", "/help [COMMAND]", "list commands, or explain one", _help, ("?",), "?"),
        *general.COMMANDS,
    ),
}
"""What belongs together, as lists tell it."""
OWN_GROUP = "your prompts"
COMMANDS: tuple[Command, ...] = tuple(command for group in GROUPS.values() for command in group)
LONGEST_NAME = 60
LIKENESS, LITTLE_LIKENESS = 0.75, 0.6
"""Of a word and a name of a command: one that was mistyped, and one that may be offered."""


def available(face: Face) -> list[Command]:
    """The commands of a face, and one for each of the person's prompt files; read anew each time."""
    taken = {name for command in COMMANDS for name in (command.name, *command.aliases)}
    own = [prompt.command() for prompt in read_prompts() if prompt.name not in taken]
    return [command for command in COMMANDS if face.kind in command.faces] + own


def group_of(command: Command) -> str:
    """The heading that a command stands under in a list."""
    held = (title for title, group in GROUPS.items() if any(one.name == command.name for one in group))
    return next(held, OWN_GROUP)


def find(face: Face, name: str) -> Command | None:
    """The command of a name, else of an alias."""
    there = available(face)
    named = next((one for one in there if name == one.name), None)
    return named or next((one for one in there if name in one.aliases), None)


def is_meant(face: Face, name: str) -> bool:
    """Whether a command has this name, or nearly: who mistypes one does not mean to send it."""
    return find(face, name) is not None or bool(_near(face, name, LIKENESS))


def _near(face: Face, name: str, likeness: float) -> list[str]:
    names = [one.name for one in available(face)]
    return difflib.get_close_matches(name[:LONGEST_NAME], names, n=1, cutoff=likeness)


async def run_line(face: Face, line: str) -> None:
    """Run the command in `line`. What goes wrong is told in the face and raises nothing."""
    name, *rest = line.strip().removeprefix("/").split(maxsplit=1) or [""]
    command = find(face, name)
    if command is None:
        near = _near(face, name, LITTLE_LIKENESS)
        hint = f"Did you mean /{near[0]}?" if near else "/help lists them."
        said = squeezed(name)[:LONGEST_NAME]
        face.say(
            f"There is no command /{said}. {hint} To send text that begins with a slash, type two.",
            error=True,
        )
        return
    await run(face, command, *rest)


async def run(face: Face, command: Command, rest: str = "") -> None:
    """Run a command. What goes wrong is told in the face and raises nothing."""
    try:
        await command.run(face, rest)
    except (FiresideError, SettingError, Failure) as err:
        face.say(squeezed(str(explain(err))), error=True)
    except OSError as err:
        what = f"{err.filename or 'That'}: {err.strerror or err}."
        face.say(squeezed(str(explain(err)) if is_folder_gone(err) else what), error=True)


async def complete(face: Face, line: str) -> Sequence[Completion]:
    """What the line may become: names of commands, then the arguments of one."""
    name, space, rest = line.removeprefix("/").partition(" ")
    if not space:
        found = [
            one
            for one in available(face)
            if one.name.startswith(name) or any(alias.startswith(name) for alias in one.aliases if name)
        ]
        # A name that is whole already is what enter runs.
        return [Completion(one.name, one.help) for one in sorted(found, key=lambda one: one.name != name)]
    command = find(face, name)
    if command is None or command.complete is None:
        return []
    try:
        found = await command.complete(face, rest.lstrip())
    except (FiresideError, OSError):
        return []
    return [Completion(squeezed(one.text), squeezed(one.detail)) for one in found]
