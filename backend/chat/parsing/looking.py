"""What readers of calls look for next in a stream."""

from __future__ import annotations

from collections.abc import Generator

from backend.chat.parsing.stream import Mark, Marks, Match, Stream, visible


def coming(stream: Stream, mark: Mark) -> Generator[None, None, Match | None]:
    """`mark`, when it comes next but for blanks. Consumes nothing."""
    if not mark.parts:
        return None
    while True:
        at = yield from visible(stream)
        match = mark.match(stream.text, at, stream.final)
        if match != "partial":
            return match
        yield


def coming_of(stream: Stream, marks: Marks) -> Generator[None, None, tuple[int, tuple[int, Match] | None]]:
    """The next visible position, and which of `marks` stands there. Consumes nothing."""
    while True:
        at = yield from visible(stream)
        found = marks.at(stream.text, at, stream.final)
        if found != "partial":
            return at, found
        yield


def passed(stream: Stream, mark: Mark) -> Generator[None, None, bool]:
    """Consume `mark`, and blanks before it, if it comes next; else consume nothing."""
    match = yield from coming(stream, mark)
    if match:
        stream.pos = match.end
    return match is not None


def skip_to(stream: Stream, marks: list[Mark]) -> Generator[None, None, tuple[int, Match] | None]:
    """Consume text up to and with the first of `marks`; everything when none comes."""
    return (yield from taken_to(stream, marks))[1]


def taken_to(
    stream: Stream, marks: list[Mark]
) -> Generator[None, None, tuple[str, tuple[int, Match] | None]]:
    """As `skip_to`, with the text in front of the mark."""
    wanted, parts = Marks(marks), list[str]()
    while True:
        at, found = wanted.find(stream.text, stream.pos, stream.final)
        parts.append(stream.take(at))
        if found:
            stream.pos = found[1].end
            return "".join(parts), found
        if stream.final:
            return "".join(parts), None
        yield
