"""Prompts as commands: one for each `prompts/*.md` in the config folder, or in a trusted `.fireside/`.

The file's text is sent; `$ARGUMENTS` in it is what follows the name. Front matter may hold
`description`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from app import paths
from app.bounded import read_bounded
from app.commands.face import Command, Face
from app.commands.shared import cut
from app.settings.kinds import SettingError
from app.settings.project import read_project

LIMIT_BYTES = 1 << 18
MOST_FILES = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*\n", re.DOTALL | re.MULTILINE)
_ARGUMENTS = "$ARGUMENTS"


@dataclass(frozen=True)
class Prompt:
    """A prompt file: what it is for, and what is sent."""

    name: str
    description: str
    text: str

    def filled(self, arguments: str) -> str:
        """The message for these arguments; a text without a place for them gets them at its end."""
        if _ARGUMENTS in self.text:
            return self.text.replace(_ARGUMENTS, arguments)
        return f"{self.text}\n\n{arguments}" if arguments else self.text

    def command(self) -> Command:
        async def run(face: Face, rest: str) -> None:
            await face.send(self.filled(rest))

        return Command(self.name, f"/{self.name} [TEXT]", cut(self.description, 60), run)


def read_prompts() -> list[Prompt]:
    """The prompts there are, by name; a file that cannot be read is left out."""
    found: list[Prompt] = []
    folder = paths.config_file().parent / "prompts"
    try:
        files = sorted(folder.glob("*.md"))[:MOST_FILES]
    except OSError:
        return []
    for file in files:
        if not _NAME.fullmatch(file.stem):
            continue
        try:
            source = read_bounded(paths.require_own(file), LIMIT_BYTES).decode("utf-8-sig", "replace")
        except (OSError, ValueError):
            continue
        found.append(_prompt(file.stem, source.replace("\r\n", "\n")))
    return [*found, *_of_project({prompt.name for prompt in found})]


def _of_project(taken: Collection[str]) -> list[Prompt]:
    """Those of a trusted folder; the person's own come first."""
    try:
        sources = read_project().prompts
    except SettingError:  # a mistake in its settings is told where they are read
        return []
    fitting = ((name, text) for name, text in sources.items() if _NAME.fullmatch(name) and name not in taken)
    return [_prompt(name, text.replace("\r\n", "\n")) for name, text in fitting]


def _prompt(name: str, source: str) -> Prompt:
    description, body = "", source
    if (front := _FRONT_MATTER.match(source)) is not None:
        body = source[front.end() :]
        for line in front.group(1).splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "description":
                description = value.strip().strip("\"'")
    body = body.strip("\n")
    return Prompt(name, description or body.partition("\n")[0], body)
