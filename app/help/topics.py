"""The pages of `fireside help TOPIC`, which the full-screen face shows too: Markdown in `app/help/`.

Lists of what is above it (keys, commands, settings) it is given: it puts them in where a page has their mark.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.exits import usage

FOLDER = Path(__file__).parent
SCHEMA_FILE = FOLDER / "output.schema.json"
NAMES = ("keys", "tools", "config", "themes", "pipes", "json", "api", "demos", "gpu")
"""The topics in the order in which they are listed."""
_MARK = re.compile(r"^<!-- (\w+) -->$", re.MULTILINE)
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Topic:
    """A page. `text` is Markdown and begins with its title as a heading."""

    name: str
    title: str
    text: str


def topic(name: str, lists: Mapping[str, Callable[[], str]]) -> Topic:
    """The page of that name, with `lists` where it has a mark of their name: Markdown, each made when it is
    needed. A usage failure names the nearest page.
    """
    wanted = name.strip().lower()
    if wanted not in NAMES:
        near = difflib.get_close_matches(wanted[:_LONGEST], NAMES, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(NAMES)}."
        raise usage(f"There is no help page {name[:_LONGEST]!r}.", hint)
    source = (FOLDER / f"{wanted}.md").read_text(encoding="utf-8")
    text = _MARK.sub(lambda mark: lists[mark[1]](), source)
    return Topic(wanted, text.partition("\n")[0].lstrip("# "), text)


def topics() -> list[tuple[str, str]]:
    """The name and the title of every page."""
    found: list[tuple[str, str]] = []
    for name in NAMES:
        with (FOLDER / f"{name}.md").open(encoding="utf-8") as page:
            found.append((name, page.readline().lstrip("# ").strip()))
    return found
