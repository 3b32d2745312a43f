"""The pages of `fireside help TOPIC`, which the full-screen face shows too: Markdown in `app/help/`.

Lists that the program itself knows (keys, commands, settings) are put in where a page has a mark for them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.exits import usage

FOLDER = Path(__file__).parent
SCHEMA_FILE = FOLDER / "output.schema.json"
NAMES = ("keys", "tools", "config", "themes", "pipes", "json", "api", "demos", "gpu")
"""The topics in the order in which they are listed."""
_MARK = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
_LONGEST = 40
_PAGE_CUDA = (12, 4)
"""The CUDA version whose wheel the page of graphics cards shows, and names."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A page. `text` is Markdown and begins with its title as a heading."""

    name: str
    title: str
    text: str


def topic(name: str, keymap: Mapping[str, str] | None = None) -> Topic:
    """The page of that name, with the keys as `keymap` binds them. A usage failure names the nearest."""
    wanted = name.strip().lower()
    if wanted not in NAMES:
        near = difflib.get_close_matches(wanted[:_LONGEST], NAMES, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(NAMES)}."
        raise usage(f"There is no help page {name[:_LONGEST]!r}.", hint)
    source = (FOLDER / f"{wanted}.md").read_text(encoding="utf-8")
    text = _MARK.sub(lambda mark: _list_of(mark[1], keymap or {}), source)
    return Topic(wanted, text.partition("\n")[0].lstrip("# "), text)


def topics() -> list[tuple[str, str]]:
    """The name and the title of every page."""
    found: list[tuple[str, str]] = []
    for name in NAMES:
        with (FOLDER / f"{name}.md").open(encoding="utf-8") as page:
            found.append((name, page.readline().lstrip("# ").strip()))
    return found


def _list_of(what: str, keymap: Mapping[str, str]) -> str:
    match what:
        case "keys":
            from app.tui.keys import KEYS, can_be_other, shown

            rows = (
                (
                    f"`{shown(keymap.get(key.name, key.keys))}`",
                    key.help,
                    key.name if can_be_other(key) else "",
                )
                for key in KEYS
            )
            return _table(("key", "does", "name"), rows)
        case "commands":
            from app.commands import COMMANDS

            return _table(("command", "does"), ((f"`{one.usage}`", one.help) for one in COMMANDS))
        case "settings":
            from app.settings.config import KINDS, environment_name
            from app.settings.kinds import wanted
            from app.settings.meanings import words_of

            rows = (
                (f"`{key}`", words_of(key)[0], wanted(kind), f"`{environment_name(key)}`")
                for key, kind in KINDS.items()
            )
            return _table(("setting", "does", "is", "variable"), rows)
        case "gpu":
            from app.doctor.engine import GPU_KINDS, gpu_lines

            return "\n\n".join(
                f"## {title}\n\n{_fenced(gpu_lines(kind, _PAGE_CUDA if kind == 'cuda' else None))}"
                for kind, title in GPU_KINDS.items()
            )
        case _:
            raise LookupError(what)


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heading = tuple(heading)
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def _fenced(text: str) -> str:
    """Lines that end with a colon as words, the commands between them as code."""
    return "\n\n".join(line if line.endswith(":") else f"```sh\n{line}\n```" for line in text.splitlines())
