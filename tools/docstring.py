"""What a docstring says of a function and of each parameter, in Google, NumPy and reST style."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_PARAMETERS = ("args", "arguments", "parameters", "params", "keyword args", "keyword arguments")
_SECTIONS = (
    *_PARAMETERS,
    *("other parameters", "returns", "return", "yields", "yield", "raises", "warns", "example", "examples"),
    *("note", "notes", "see also", "references", "attributes", "warning", "warnings", "todo"),
)
_HEADING = re.compile(rf"^({'|'.join(_SECTIONS)}):?\s*$", re.IGNORECASE)
_GOOGLE_ITEM = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\)\s*)?:\s*(.*)$")
_NUMPY_ITEM = re.compile(r"^\*{0,2}(\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_REST_ITEM = re.compile(r"^[:@](?:param|parameter|arg|argument|key|keyword)\s([^:]*):\s*(.*)$")
_REST_NAME = re.compile(r"\*{0,2}(\w+)")
_MOST_CHARACTERS, _MOST_LINE = 50_000, 2_000
"""Read of a docstring, and of one line: a pattern may take longer than linear for a line."""
_REST_FIELD = re.compile(r"^[:@]\w+(?:\s[^:]*)?:")


@dataclass(frozen=True)
class Docstring:
    """The text in front of all sections, and one line of text for each described parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Docstring:
    """Read a docstring of any of the three styles, or of none."""
    lines = [line[:_MOST_LINE] for line in inspect.cleandoc((text or "")[:_MOST_CHARACTERS]).splitlines()]
    description: list[str] = []
    parameters: dict[str, list[str]] = {}
    index = 0
    while index < len(lines):
        heading = _heading(lines, index)
        if heading is not None:
            name, start, end = heading
            if name in _PARAMETERS or name == "other parameters":
                parameters.update(_items(lines[start:end]))
            index = end
        elif _REST_FIELD.match(lines[index]):
            end = _field_end(lines, index)
            if found := _REST_ITEM.match(lines[index]):
                words = found[1].split()
                if words and (name := _REST_NAME.fullmatch(words[-1])):
                    parameters[name[1]] = [found[2], *lines[index + 1 : end]]
            index = end
        else:
            description.append(lines[index])
            index += 1
    texts = {name: " ".join(" ".join(parts).split()) for name, parts in parameters.items()}
    return Docstring("\n".join(description).strip(), {name: said for name, said in texts.items() if said})


def _heading(lines: list[str], index: int) -> tuple[str, int, int] | None:
    """A section that begins at this line: its name in lower case, its first line, and its end."""
    begun = _begin(lines, index)
    if begun is None:
        return None
    name, start, indented = begun
    end = start
    while end < len(lines) and _begin(lines, end) is None and not _REST_FIELD.match(lines[end]):
        if indented and lines[end] and not lines[end][0].isspace():
            break
        end += 1
    return name, start, end


def _begin(lines: list[str], index: int) -> tuple[str, int, bool] | None:
    """A section's name and first line, and whether it is indented, where a heading stands at this line."""
    found = _HEADING.match(lines[index])
    if found is None:
        return None
    following = lines[index + 1] if index + 1 < len(lines) else ""
    if re.fullmatch(r"-{3,}\s*", following):
        return found[1].lower(), index + 2, False
    if lines[index].rstrip().endswith(":") and (following[:1].isspace() or not following):
        return found[1].lower(), index + 1, True
    return None


def _field_end(lines: list[str], index: int) -> int:
    end = index + 1
    while end < len(lines) and lines[end][:1].isspace():
        end += 1
    return end


def _items(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The parameters of one section, Google's when it is indented and NumPy's when not."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return
    margin = min(len(line) - len(line.lstrip()) for line in filled)
    pattern = _GOOGLE_ITEM if margin else _NUMPY_ITEM
    names: list[str] = []
    said: list[str] = []
    for line in filled:
        found = pattern.match(line[margin:])
        if found is None or line[margin : margin + 1].isspace():
            said.append(line.strip())
            continue
        yield from ((name, said) for name in names)
        names = [name.strip(" *") for name in found[1].split(",")]
        said = [found[2]] if pattern is _GOOGLE_ITEM else []
    yield from ((name, said) for name in names)
