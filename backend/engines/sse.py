"""Server-sent events, read by the book and within bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass

_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
MOST_EVENT_BYTES = 8 << 20
"""Of one event: a server that sends more in one piece has gone wrong."""


class StreamError(ValueError):
    """What arrives is not a stream of events that could be read; the text says why."""


@dataclass(frozen=True)
class ServerEvent:
    """One event: its type, `message` where the server names none, and its data."""

    data: str
    type: str = "message"


class EventReader:
    """Takes bytes as they arrive, cut anywhere, and gives the events that are whole.

    StreamError for an event of more than `most_bytes`.
    """

    def __init__(self, most_bytes: int = MOST_EVENT_BYTES) -> None:
        self._most = most_bytes
        self._buffer = bytearray()
        self._searched = 0
        """How much of the buffer has no end of a line."""
        self._begun = False
        self._skip_newline = False
        """Whether a carriage return ended the last line: a newline right behind it belongs to it."""
        self._data: list[bytes] = []
        self._size = 0
        self._type = b""

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that are complete with `data`."""
        self._buffer += data
        if not self._begun:
            if _BOM.startswith(self._buffer[:3]) and len(self._buffer) < len(_BOM):
                return []
            self._begun = True
            if self._buffer.startswith(_BOM):
                del self._buffer[: len(_BOM)]
        found: list[ServerEvent] = []
        start = 0
        if self._skip_newline and self._buffer:
            start = int(self._buffer.startswith(b"\n"))
            self._skip_newline = False
        while end := _END.search(self._buffer, max(start, self._searched)):
            self._searched = 0
            self._line(bytes(self._buffer[start : end.start()]), found)
            start = end.end()
            self._skip_newline = end.group() == b"\r" and start == len(self._buffer)
        del self._buffer[:start]
        self._searched = len(self._buffer)
        self._require_bounded(len(self._buffer))
        return found

    def end(self) -> list[ServerEvent]:
        """The event that the stream left open: many servers send no empty line behind the last one."""
        found: list[ServerEvent] = []
        if self._buffer:
            self._line(bytes(self._buffer), found)
            self._buffer.clear()
        self._line(b"", found)
        return found

    def _line(self, line: bytes, found: list[ServerEvent]) -> None:
        if not line:
            if self._data:
                kind = self._type.decode("utf-8", "replace") or "message"
                found.append(ServerEvent(b"\n".join(self._data).decode("utf-8", "replace"), kind))
            self._data, self._size, self._type = [], 0, b""
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._require_bounded(len(value))
            self._size += len(value)
            self._data.append(value)
        elif name == b"event":
            self._type = value

    def _require_bounded(self, more: int) -> None:
        if self._size + more > self._most:
            raise StreamError(f"one event has more than {self._most:,} bytes")
