"""Server-sent events: every way to write them, cut at every byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engines.sse import EventReader, ServerEvent, StreamError


def read(*parts: bytes) -> list[ServerEvent]:
    reader = EventReader()
    found = [event for part in parts for event in reader.feed(part)]
    return found + reader.end()


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\r", ["a", "b"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: one\ndata: two\n\n", ["one\ntwo"]),
        (b"data\n\n", [""]),
        (b": keep-alive\n\ndata: a\n: more\n\n", ["a"]),
        (b"id: 7\nretry: 10\nevent: x\nnobody: y\ndata: a\n\n", ["a"]),
        (b"\n\n\ndata: a\n\n\n\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef", []),
        (b"event: x\n\n", []),
        (b"data: a:b: c\n\n", ["a:b: c"]),
        ("data: grün \u2028 😀\n\n".encode(), ["grün \u2028 😀"]),
        (b"data: a\xff\n\n", ["a\ufffd"]),
        (b"data: whole, without its empty line\n", ["whole, without its empty line"]),
        (b"data: no end at all", ["no end at all"]),
        (b"", []),
    ],
)
def test_the_format_is_read_by_the_book(stream: bytes, data: list[str]) -> None:
    assert [event.data for event in read(stream)] == data
    for cut in range(len(stream) + 1):
        assert [event.data for event in read(stream[:cut], stream[cut:])] == data, cut
    assert [event.data for event in read(*(stream[at : at + 1] for at in range(len(stream))))] == data


def test_an_event_tells_its_type_and_the_next_one_has_none() -> None:
    assert [event.type for event in read(b"event: error\ndata: x\n\ndata: y\n\n")] == ["error", "message"]


ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=3), max_size=4), ENDS, st.data())
def test_wherever_a_stream_is_cut_its_events_are_the_same(
    events: list[list[str]], end: bytes, data: st.DataObject
) -> None:
    lines = [[b"data: " + line.encode() for line in event] for event in events]
    stream = b"".join(end.join(event) + end + end for event in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [event.data for event in read(*parts)] == ["\n".join(event) for event in events]


def test_an_event_without_end_is_refused_not_collected() -> None:
    reader = EventReader(1000)
    with pytest.raises(StreamError, match="1,000 bytes"):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 100)
    reader = EventReader(1000)
    with pytest.raises(StreamError):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 100 + b"\n")


def test_a_long_event_in_small_parts_is_read_in_time_that_grows_with_its_length() -> None:
    reader = EventReader()
    reader.feed(b"data: ")
    for _ in range(100_000):
        reader.feed(b"xxxxxxxxxx")
    [event] = reader.feed(b"\n\n")
    assert len(event.data) == 1_000_000
