"""What vi's keys do to a text. One file, because it is one state machine.

Modes, counts, operators and one register.
Pure: it is given text and caret with each key and says what is to change; it holds no text but the
register's. What is no key of vi is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from app.tui.vi import motions

Mode = Literal["insert", "normal", "visual"]
Command = Literal["", "undo", "redo", "older", "newer", "page up", "page down"]
MOST_COUNT = 9_999
MOST_PUT = 1_000_000
"""Characters that a count may make of a register."""

_MOTIONS: dict[str, motions.Motion] = {
    "h": motions.left,
    "left": motions.left,
    "backspace": motions.left,
    "l": motions.right,
    "right": motions.right,
    "space": motions.right,
    "w": motions.word_start,
    "W": partial(motions.word_start, wide=True),
    "b": motions.word_back,
    "B": partial(motions.word_back, wide=True),
    "e": motions.word_end,
    "E": partial(motions.word_end, wide=True),
}
_LINES = {"j": motions.down, "down": motions.down, "k": motions.up, "up": motions.up}
_INCLUSIVE = frozenset("eEft;,$")
_ALIASES = {"D": "d$", "C": "c$", "Y": "yy", "x": "dl", "X": "dh", "s": "cl", "S": "cc", "delete": "dl"}
_NAMES = {
    "dollar_sign": "$",
    "circumflex_accent": "^",
    "tilde": "~",
    "semicolon": ";",
    "comma": ",",
    "home": "0",
    "end": "$",
}


@dataclass(frozen=True)
class Step:
    """What a key does: replace from `start` to `end` by `text`, put the caret, or have the composer do it."""

    caret: int
    start: int = 0
    end: int = 0
    text: str = ""
    command: Command = ""
    times: int = 1
    is_old: bool = False
    """The text was in the draft before, or is made of what was."""

    @property
    def is_edit(self) -> bool:
        return self.end > self.start or bool(self.text)


class ViKeys:
    """The keys of one composer. `press` says what a key does, None where it is none of vi's."""

    def __init__(self) -> None:
        self.mode: Mode = "insert"
        self.anchor = 0
        """Where the selection of the visual mode began."""
        self._count = ""
        self._operator = ""
        self._operator_count = 1
        self._waits = ""
        """A key that wants one more: f, F, t, T, r, g, i, a."""
        self._found: tuple[str, str] = ("", "")
        self._register = ""
        self._is_linewise = False

    @property
    def is_pending(self) -> bool:
        """Whether a key was pressed that waits for the next one."""
        return bool(self._count or self._operator or self._waits)

    def reset(self) -> None:
        """Write: a new message begins."""
        self.mode = "insert"
        self._forget()

    def press(self, key: str, char: str, text: str, caret: int) -> Step | None:
        """What a key does; `char` is what it writes, empty for keys that write nothing."""
        if key == "escape":
            return self._escape(text, caret)
        if self.mode == "insert":
            return None
        if key == "ctrl+r":
            return self._command("redo", caret)
        if key in ("ctrl+d", "ctrl+u"):
            return self._command("page down" if key == "ctrl+d" else "page up", caret)
        if self._waits:
            return self._second(char, text, caret)
        key = _NAMES.get(key, char or key)
        if char == " ":
            key = "space"
        if key.isdecimal() and len(key) == 1 and (key != "0" or self._count):
            self._count = (self._count + key)[-len(str(MOST_COUNT)) :]
            return Step(caret)
        if not char and key not in _MOTIONS and key not in _LINES and key not in (*_ALIASES, "0", "$"):
            return None
        step = self._visual(key, text, caret) if self.mode == "visual" else None
        if step is None:
            step = self._normal(key, text, caret)
        return step

    # ---- modes -----------------------------------------------------------------------------

    def _escape(self, text: str, caret: int) -> Step | None:
        if self.mode == "normal":
            if self.is_pending:
                self._forget()
                return Step(caret)
            return None
        if self.mode == "insert":
            caret = motions.left(text, caret)
        self.mode = "normal"
        self._forget()
        return Step(min(caret, motions.last_of_line(text, caret)))

    def _forget(self) -> None:
        self._count = self._operator = self._waits = ""
        self._operator_count = 1

    def _write(self, step: Step) -> Step:
        self.reset()
        return step

    def _command(self, command: Command, caret: int) -> Step:
        times = self._times()
        self._forget()
        return Step(caret, command=command, times=times)

    def _times(self) -> int:
        return min(MOST_COUNT, max(1, int(self._count or 1)) * self._operator_count)

    # ---- keys ------------------------------------------------------------------------------

    def _normal(self, key: str, text: str, caret: int) -> Step:
        if self._operator:
            return self._operated(key, text, caret)
        if alias := _ALIASES.get(key):
            self._operator, count = alias[0], self._times()
            self._count = str(count)
            return self._operated(alias[1], text, caret)
        match key:
            case "d" | "c" | "y":
                self._operator_count, self._operator, self._count = self._times(), key, ""
                return Step(caret)
            case "f" | "F" | "t" | "T" | "r" | "g":
                self._waits = key
                return Step(caret)
            case "i" | "a" | "I" | "A" | "o" | "O":
                return self._write(_written_at(key, text, caret))
            case "v":
                self.mode, self.anchor = "visual", caret
                self._forget()
                return Step(caret)
            case "j" | "down" | "k" | "up":
                return self._lines(key, text, caret)
            case "u" | "p" | "P" | "~":
                return self._changed(key, text, caret)
            case _:
                target = self._target(key, text, caret)
                self._forget()
                return Step(caret if target is None else self._on_a_character(text, target))

    def _changed(self, key: str, text: str, caret: int) -> Step:
        match key:
            case "u":
                return self._command("undo", caret)
            case "~":
                return self._swap_case(text, caret, min(motions.line_end(text, caret), caret + self._times()))
            case _:
                return self._put(text, caret, before=key == "P")

    def _lines(self, key: str, text: str, caret: int) -> Step:
        place = caret
        for _ in range(self._times()):
            place = _LINES[key](text, place)
        if place == caret and self.mode == "normal":
            return self._command("older" if key in ("k", "up") else "newer", caret)
        self._forget()
        return Step(self._on_a_character(text, place))

    def _second(self, char: str, text: str, caret: int) -> Step:
        waits, self._waits = self._waits, ""
        times = self._times()
        if waits in "ia" and char == "w":
            start, end = motions.inner_word(text, caret, around=waits == "a")
            return self._operate(start, end, text, linewise=False)
        if waits == "g" and char == "g":
            self._waits = ""
            if self._operator:
                return self._operate_lines(0, caret, text)
            self._forget()
            return Step(0)
        if waits == "r" and len(char) == 1 and caret + times <= motions.line_end(text, caret):
            self._forget()
            return Step(caret + times - 1, caret, caret + times, char * times)
        if waits in "fFtT" and len(char) == 1:
            self._found = (waits, char)
            target = motions.find_char(text, caret, waits, char, times)
            if target is not None:
                return self._go(waits, target, text, caret)
        self._forget()
        return Step(caret)

    def _target(self, key: str, text: str, caret: int) -> int | None:
        times = self._times()
        match key:
            case "0":
                return motions.line_start(text, caret)
            case "^":
                return motions.first_word_of_line(text, caret)
            case "$":
                for _ in range(times - 1):
                    caret = motions.down(text, caret)
                return motions.last_of_line(text, caret)
            case "G":
                last = motions.line_start(text, len(text))
                if not self._count:
                    return last
                starts = [0, *(place + 1 for place, char in enumerate(text) if char == "\n")]
                return starts[min(times, len(starts)) - 1]
            case ";" | ",":
                found, char = self._found
                if not found:
                    return None
                way = found if key == ";" else found.swapcase()
                # From just before the character the same one would be found again.
                start = caret + {"t": 1, "T": -1}.get(way, 0)
                return motions.find_char(text, start, way, char, times)
            case _ if key in _MOTIONS:
                for _ in range(times):
                    caret = _MOTIONS[key](text, caret)
                return caret
            case _:
                return None

    def _go(self, key: str, target: int, text: str, caret: int) -> Step:
        if not self._operator:
            self._forget()
            return Step(self._on_a_character(text, target))
        if target < caret:
            return self._operate(target, caret, text, linewise=False)
        return self._operate(caret, target + (key in _INCLUSIVE), text, linewise=False)

    # ---- operators -------------------------------------------------------------------------

    def _operated(self, key: str, text: str, caret: int) -> Step:
        if key == self._operator:
            last = caret
            for _ in range(self._times() - 1):
                last = motions.down(text, last)
            return self._operate_lines(caret, last, text)
        if key in _LINES:
            target = caret
            for _ in range(self._times()):
                target = _LINES[key](text, target)
            if target == caret:
                self._forget()
                return Step(caret)
            return self._operate_lines(min(caret, target), max(caret, target), text)
        if key in ("i", "a", "f", "F", "t", "T", "g"):
            self._waits = key
            return Step(caret)
        if key in ("w", "W"):
            return self._operate(caret, self._word_end(key, text, caret), text, linewise=False)
        target = self._target(key, text, caret)
        if target is None:
            self._forget()
            return Step(caret)
        if key == "G":
            return self._operate_lines(min(caret, target), max(caret, target), text)
        if key == "$" and motions.line_start(text, target) == motions.line_end(text, target):
            return self._operate(caret, target, text, linewise=False)
        return self._go(key, target, text, caret)

    def _word_end(self, key: str, text: str, caret: int) -> int:
        """Where `dw` and `cw` end: never on the next line, and `cw` leaves the blanks behind the word."""
        times, wide = self._times(), key == "W"
        if self._operator == "c" and caret < len(text) and not text[caret].isspace():
            place = caret - 1
            for _ in range(times):
                place = motions.word_end(text, place, wide=wide)
            return place + 1
        last = place = caret
        for _ in range(times):
            last, place = place, motions.word_start(text, place, wide=wide)
        crossed = text.find("\n", last, place)
        return crossed if crossed > caret else place

    def _operate_lines(self, first: int, last: int, text: str) -> Step:
        start, end = motions.line_start(text, first), motions.line_end(text, last)
        return self._operate(start, end, text, linewise=True)

    def _operate(self, start: int, end: int, text: str, *, linewise: bool) -> Step:
        operator = self._operator
        self._forget()
        self._register, self._is_linewise = text[start:end], linewise
        match operator:
            case "y":
                return Step(self._on_a_character(text, start))
            case "c":
                return self._write(Step(start, start, end))
            case _:
                if linewise:  # The line goes with its end, the last one with the end before it.
                    end, start = (end + 1, start) if end < len(text) else (end, max(0, start - 1))
                left = text[:start] + text[end:]
                place = min(start, len(left))
                caret = motions.first_word_of_line(left, place) if linewise else place
                return Step(self._on_a_character(left, caret), start, end)

    def _put(self, text: str, caret: int, *, before: bool) -> Step:
        put, times = self._register, self._times()
        self._forget()
        if not put:
            return Step(caret)
        times = max(1, min(times, MOST_PUT // len(put)))
        if self._is_linewise:
            body = "\n".join([put] * times)
            if before:
                start = motions.line_start(text, caret)
                return Step(start, start, start, f"{body}\n", is_old=True)
            end = motions.line_end(text, caret)
            return Step(end + 1, end, end, f"\n{body}", is_old=True)
        place = caret if before else motions.right(text, caret)
        return Step(place + len(put) * times - 1, place, place, put * times, is_old=True)

    def _swap_case(self, text: str, start: int, end: int) -> Step:
        self._forget()
        swapped = text[start:end].swapcase()
        changed = text[:start] + swapped + text[end:]
        caret = self._on_a_character(changed, start + len(swapped))
        return Step(caret, start, end, swapped, is_old=True)

    def _on_a_character(self, text: str, place: int) -> int:
        """In normal mode the caret stands on a character, never behind the last one."""
        return min(place, motions.last_of_line(text, place)) if self.mode == "normal" else place

    # ---- visual ----------------------------------------------------------------------------

    def selected(self, caret: int) -> tuple[int, int]:
        """What the visual mode has selected: from, and up to."""
        return min(self.anchor, caret), max(self.anchor, caret) + 1

    def _visual(self, key: str, text: str, caret: int) -> Step | None:
        start, end = self.selected(caret)
        end = min(end, len(text))
        operator = {"d": "d", "x": "d", "X": "d", "delete": "d", "c": "c", "s": "c", "y": "y"}.get(key)
        if operator:
            self.mode, self._operator, self._operator_count = "normal", operator, 1
            return self._operate(start, end, text, linewise=False)
        match key:
            case "v":
                self.mode = "normal"
                self._forget()
                return Step(self._on_a_character(text, caret))
            case "o":
                self.anchor, caret = caret, self.anchor
                return Step(caret)
            case "~":
                self.mode = "normal"
                step = self._swap_case(text, start, end)
                return Step(start, step.start, step.end, step.text, is_old=True)
            case "p" | "P":
                self.mode = "normal"
                self._forget()
                put, self._register = self._register, text[start:end]
                return Step(max(start, start + len(put) - 1), start, end, put, is_old=True)
            case _ if key in "iaIAOuDCYSr":
                return Step(caret)
            case _:
                return None


def _written_at(key: str, text: str, caret: int) -> Step:
    """Where the keys begin to write that leave the normal mode."""
    match key:
        case "i":
            return Step(caret)
        case "a":
            return Step(motions.right(text, caret))
        case "I":
            return Step(motions.first_word_of_line(text, caret))
        case "A":
            return Step(motions.line_end(text, caret))
        case "o":
            end = motions.line_end(text, caret)
            return Step(end + 1, end, end, "\n")
        case _:
            start = motions.line_start(text, caret)
            return Step(start, start, start, "\n")
