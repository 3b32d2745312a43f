"""Text that arrives in pieces, and marker texts that are looked for in it.

Readers are generators over one `Stream`: they yield whenever they need more text, so a whole reply
and the same reply character by character run through the same code.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from backend.chat.format import ID, INDEX, KEY, NAME, TYPE, atoms, is_tag

Wait: TypeAlias = Generator[None, None, None]
"""A reader that yields while it waits for text."""

_SPACE = re.compile(r"\s*")
# Bounded, for what is not whole yet is read again with each piece of text.
_TOKENS = {
    NAME: re.compile(r"[\w.\-/]{1,300}"),
    ID: re.compile(r"[^\s<>\[\]{}\"]{1,300}"),
    INDEX: re.compile(r"\d{1,20}"),
    TYPE: re.compile(r'[^"<>]{0,300}'),
}
_PLAIN_KEY = re.compile(r"(?!/)[^<>\"=:{}(),\s]{1,1000}")
_TAGGED_KEY = re.compile(r"(?!/)[^<>\"\n]{1,1000}")


class Stream:
    """What has arrived and is not consumed yet. `pos` is where the next reader begins."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.pos = 0
        self.final = False
        """Whether no more text comes."""
        self.keep: int | None = None
        """A position to which a reader may go back; nothing from there on is forgotten."""
        self.silent = 0
        """Up to here the text belongs to the prompt: it is read, but `take` does not return it."""
        self._blanks = (0, 0)
        """A position, and how far there is nothing but blanks behind it."""

    def append(self, text: str) -> None:
        cut = self.pos if self.keep is None else min(self.pos, self.keep)
        whole, self.text = self.text, ""
        if cut:
            whole = whole[cut:]
            self._blanks = (self._blanks[0] - cut, self._blanks[1] - cut)
            self.pos -= cut
            self.silent = max(0, self.silent - cut)
            if self.keep is not None:
                self.keep -= cut
        whole += text  # in place while `whole` is the only name, so a long wait stays cheap
        self.text = whole

    @property
    def ended(self) -> bool:
        return self.pos >= len(self.text)

    def take(self, end: int) -> str:
        """The text from `pos` to `end`, consumed; without what belongs to the prompt."""
        start, self.pos = max(self.pos, min(self.silent, end)), end
        return self.text[start:end]

    def after_space(self) -> int:
        """The position of the next visible character, or the end."""
        start, end = self._blanks
        match = _SPACE.match(self.text, end if start == self.pos else self.pos)
        end = match.end() if match else self.pos
        self._blanks = self.pos, end
        return end


@dataclass
class Match:
    """Where a marker was found, and what stood in place of its placeholders."""

    start: int
    end: int
    values: dict[str, str] = field(default_factory=dict[str, str])


Partial = Literal["partial"]
Part: TypeAlias = tuple[str, str]


class Mark:
    """A marker text. Blanks in it, and between its tags, are optional and of any length."""

    def __init__(self, text: str, names: Sequence[str] = ()) -> None:
        """`names`: the offered tools, which NAME may be whatever characters they hold."""
        self.text = text.strip()
        self.names = sorted(names, key=len, reverse=True)
        self.parts = self._split(self.text)
        self.first = self.parts[0][1][0] if self.parts and self.parts[0][0] == "text" else ""
        """The character it begins with; empty when that is a placeholder."""

    @staticmethod
    def _split(text: str) -> list[Part]:
        parts: list[Part] = []
        previous = ""
        for atom in atoms(text):
            edge = is_tag(previous) or is_tag(atom) or previous in ("[", "]")
            if not atom.strip() or (edge and previous.strip()):
                parts.append(("space", ""))
            if atom in _TOKENS or atom == KEY:
                parts.append((atom, ""))
            elif atom.strip():
                if parts and parts[-1][0] == "text":
                    parts[-1] = ("text", parts[-1][1] + atom)
                else:
                    parts.append(("text", atom))
            previous = atom
        return parts

    def match(self, text: str, start: int, final: bool, key: str | None = None) -> Match | Partial | None:
        """The marker at `start`; "partial" when it may still be one as soon as more text is there."""
        end, size, found = start, len(text), Match(start, start)
        for index, (kind, literal) in enumerate(self.parts):
            if kind == "space":
                space = _SPACE.match(text, end)
                end = space.end() if space else end
                continue
            if kind == KEY and key is not None:
                kind, literal = "text", key
            if kind == "text":
                if text.startswith(literal, end):
                    end += len(literal)
                    if key is not None and literal == key:
                        found.values[KEY] = key
                    continue
                cut = not final and size - end < len(literal) and literal.startswith(text[end:])
                return "partial" if cut else None
            value = self._token(kind, text, end, index)
            if not final and (end + len(value or "") >= size or (kind == NAME and self._begins(text, end))):
                return "partial"
            if value is None or found.values.setdefault(kind, value) != value:
                return None
            end += len(value)
        found.end = end
        return found

    def _begins(self, text: str, at: int) -> bool:
        """Whether the rest of `text` from `at` on begins the name of a tool."""
        size = len(text) - at
        longer = [name for name in self.names if len(name) > size]
        return bool(longer) and any(name.startswith(text[at:]) for name in longer)

    def _token(self, kind: str, text: str, at: int, index: int) -> str | None:
        if kind == NAME:
            for name in self.names:
                if text.startswith(name, at) and not _TOKENS[NAME].match(text, at + len(name)):
                    return name
        pattern = _TOKENS[kind] if kind != KEY else self._key_pattern(index)
        match = pattern.match(text, at)
        return match.group() if match else None

    def _key_pattern(self, index: int) -> re.Pattern[str]:
        following = self.parts[index + 1][1] if index + 1 < len(self.parts) else ""
        return _TAGGED_KEY if following[:1] in ("<", ">", '"') else _PLAIN_KEY


class Marks:
    """Several markers that are looked for together; at one place the longest counts."""

    def __init__(self, marks: Sequence[Mark]) -> None:
        self.marks = [mark for mark in marks if mark.first]
        firsts = {mark.first for mark in self.marks}
        self._first = re.compile("[" + "".join(map(re.escape, sorted(firsts))) + "]") if firsts else None

    def at(self, text: str, start: int, final: bool) -> tuple[int, Match] | Partial | None:
        """The longest marker at `start`; "partial" while a longer one may still come."""
        best: tuple[int, Match] | None = None
        waiting = False
        for index, mark in enumerate(self.marks):
            match = mark.match(text, start, final)
            if match == "partial":
                waiting = True
            elif match is not None and (best is None or match.end > best[1].end):
                best = index, match
        return "partial" if waiting else best

    def find(self, text: str, start: int, final: bool) -> tuple[int, tuple[int, Match] | None]:
        """The first marker from `start` on: its place and itself, or the place up to which there
        is none (the rest may still become one)."""
        position = start
        while self._first and (candidate := self._first.search(text, position)):
            position = candidate.start()
            found = self.at(text, position, final)
            if found == "partial":
                return position, None
            if found is not None:
                return position, found
            position += 1
        return len(text), None


def wait_for(stream: Stream, mark: Mark, key: str | None = None) -> Generator[None, None, Match | None]:
    """The marker at the stream's position, once that can be told. Consumes nothing."""
    while (found := mark.match(stream.text, stream.pos, stream.final, key)) == "partial":
        yield
    return found


def visible(stream: Stream) -> Generator[None, None, int]:
    """The position of the next visible character, once it is there, else the end. Consumes nothing."""
    while (at := stream.after_space()) >= len(stream.text) and not stream.final:
        yield
    return at


def skip_space(stream: Stream) -> Wait:
    """Consume blanks up to the next visible character or the end."""
    stream.pos = yield from visible(stream)
