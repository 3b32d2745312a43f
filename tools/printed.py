"""What a program printed, as a terminal would leave it: without colours, titles and links, and of a line
that was written again and again, such as a bar of progress, only how it was last.

Knows single lines, no screen: what moves the cursor to other lines does nothing.
"""

from __future__ import annotations

import re

MOST_LINE_CHARS = 16_384
"""Of one line that are kept open; what is longer can no longer be written again."""
_MOST_HELD = 64

_CSI, _STRING = "(?:\x1b\\[|\x9b)", "(?:\x1b[\\]PX^_]|[\x90\x98\x9d\x9e\x9f])"
_TOKEN = re.compile(
    f"{_CSI}(?P<values>[0-?]*)[ -/]*(?P<final>[@-~])"
    f"|(?P<string>{_STRING})"
    "|\x1b[ -/]*[0-~]"
    "|[\n\r\b\x07\x0e\x0f\x1b\x9b\x9c]"
)
_UNFINISHED = re.compile(f"(?:{_CSI}[0-?]*[ -/]*|\x1b[ -/]*)\\Z")
_STRING_END = re.compile("[\x07\x18\x1a\x9c]|\x1b\\\\?|\n")
_PLAIN = re.compile("[^\x07\b\r\x0e\x0f\x1b\x90\x98\x9b-\x9f]*")


class Printed:
    """Takes output in pieces, however they are cut.

    `feed` gives back what is settled: whole lines. `line` is the one that is still written.
    """

    def __init__(self) -> None:
        self.line_count = 0
        """Lines so far, the open one included."""
        self._ended = 0
        self._line = ""
        self._is_back = False
        """Whether the next character writes the line from its beginning."""
        self._steps_back = 0
        self._in_string = False
        self._held = ""
        self._told = ""

    @property
    def line(self) -> str:
        """The line that is written now, as it is."""
        return self._line

    def feed(self, text: str) -> str:
        """Take the next piece; the lines that it completes."""
        text, self._held = self._held + text, ""
        settled: list[str] = []
        at = 0
        while at < len(text):
            at = self._skip_string(text, at) if self._in_string else self._take(text, at, settled)
        self.line_count = self._ended + bool(self._line)
        return "".join(settled)

    def end(self) -> str:
        """The rest. What is not finished of a sequence is left out."""
        line, self._line, self._held = self._line, "", ""
        return line

    def told(self, settled: str) -> str:
        """What to add to what was told of the output so far; `settled` is what `feed` just gave.

        A carriage return at its beginning means that the open line is written again, from nothing.
        """
        whole = settled + self._line
        before, self._told = self._told, self._line
        if whole.startswith(before):
            return whole[len(before) :]
        return f"\r{whole}"

    # ---- parts -----------------------------------------------------------------------------

    def _take(self, text: str, at: int, settled: list[str]) -> int:
        """Take plain text at `at`, and the sequence behind it; where the next begins."""
        plain = _PLAIN.match(text, at)
        assert plain is not None  # it matches nothing too
        if plain.end() > at:
            self._write_lines(plain[0], settled)
            return plain.end()
        found = _UNFINISHED.match(text, at)
        if found is not None:
            self._held = found[0] if len(found[0]) <= _MOST_HELD else ""
            return len(text)
        found = _TOKEN.match(text, at)
        if found is None:
            return at + 1
        self._obey(found)
        return found.end()

    def _obey(self, found: re.Match[str]) -> None:
        if found["string"]:
            self._in_string = True
        elif found["final"]:
            self._control(found["final"], found["values"])
        elif found[0] == "\r":
            self._is_back, self._steps_back = True, 0
        elif found[0] == "\b":
            self._steps_back += not self._is_back

    def _control(self, final: str, values: str) -> None:
        first = int(values[:6]) if values[:6].isascii() and values[:6].isdecimal() else 0
        if final == "K" and (first == 2 or (first == 0 and self._is_back)):
            self._line = ""
        elif final == "K" and first == 0:
            self._step_back()
        elif final == "G" and first <= 1:
            self._is_back, self._steps_back = True, 0
        elif final == "D" and not self._is_back:
            self._steps_back += max(1, first)

    def _step_back(self) -> None:
        if self._steps_back:
            self._line, self._steps_back = self._line[: -self._steps_back], 0

    def _write_lines(self, text: str, settled: list[str]) -> None:
        first, ends, rest = text.partition("\n")
        self._write(first, settled)
        if not ends:
            return
        whole, end, last = rest.rpartition("\n")
        settled += [self._line, "\n", whole, end]
        self._ended += 1 + rest.count("\n")
        self._line, self._is_back, self._steps_back = "", False, 0
        self._write(last, settled)

    def _write(self, text: str, settled: list[str]) -> None:
        if not text:
            return
        if self._is_back:
            self._line, self._is_back = "", False
        self._step_back()
        self._line += text
        if len(self._line) > MOST_LINE_CHARS:
            settled.append(self._line[:-MOST_LINE_CHARS])
            self._line = self._line[-MOST_LINE_CHARS:]

    def _skip_string(self, text: str, at: int) -> int:
        """Behind the end of a title, a link or a picture. A line end ends it too: a faulty one has none."""
        found = _STRING_END.search(text, at)
        if found is None:
            return len(text)
        if found[0] == "\x1b" and found.end() == len(text):
            self._held = "\x1b"
            return len(text)
        self._in_string = False
        return found.start() if found[0] in ("\n", "\x1b") else found.end()


def printed(text: str) -> str:
    """The whole of an output as a terminal would leave it."""
    reading = Printed()
    return reading.feed(text) + reading.end()
