"""Stop strings and characters that arrive in pieces of any size."""

import itertools
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.engine.detokenize import Detokenizer, StopMatcher, TextStream

FEW = st.text(alphabet="ab", max_size=24)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=4)


def cuts(text: Sequence) -> Iterator[list]:
    """Every way to cut a text into pieces."""
    borders = range(1, len(text))
    for chosen in itertools.chain.from_iterable(itertools.combinations(borders, n) for n in range(len(text))):
        ends = [0, *chosen, len(text)]
        yield [text[a:b] for a, b in itertools.pairwise(ends)]


def fed(stops: Sequence[str], pieces: Sequence[str]) -> tuple[str, str | None]:
    matcher = StopMatcher(stops)
    text = "".join(matcher.feed(piece) for piece in pieces)
    return text + matcher.flush(), matcher.match


def first_stop(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """What must come out, by trying every end of every stop string in order."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return text[: end - len(longest)], longest
    return text, None


class TestStopMatcher:
    @given(FEW, STOPS, st.data())
    def test_any_chunking_gives_what_the_whole_gives(self, text: str, stops: list[str], data) -> None:
        borders = sorted(data.draw(st.sets(st.integers(0, len(text)))))
        ends = [0, *borders, len(text)]
        pieces = [text[a:b] for a, b in itertools.pairwise(ends)]
        assert fed(stops, pieces) == first_stop(text, stops)

    @given(FEW, STOPS)
    def test_only_what_may_begin_a_stop_string_is_held(self, text: str, stops: list[str]) -> None:
        matcher, given_out = StopMatcher(stops), ""
        for end, char in enumerate(text, 1):
            given_out += matcher.feed(char)
            if matcher.match:
                break
            held = text[len(given_out) : end]
            assert not held or any(stop.startswith(held) for stop in stops)
            longer = text[len(given_out) - 1 : end]
            assert not given_out or not any(stop.startswith(longer) and stop != longer for stop in stops), (
                "something was let out that may begin a stop string"
            )

    def test_a_stop_string_across_pieces_never_shows(self) -> None:
        for pieces in cuts("ABC DEFGHIJ"):
            assert fed(["DEFGHI"], pieces) == ("ABC ", "DEFGHI")

    def test_held_text_is_let_out_as_soon_as_it_cannot_match(self) -> None:
        matcher = StopMatcher(["DEFGHI"])
        assert [matcher.feed(piece) for piece in ("ABC ", "DE", "X")] == ["ABC ", "", "DEX"]
        assert (matcher.flush(), matcher.match) == ("", None)

    def test_a_stop_string_that_overlaps_itself(self) -> None:
        for pieces in cuts("aaab"):
            assert fed(["aab"], pieces) == ("a", "aab")

    def test_of_several_that_end_together_the_longest_wins(self) -> None:
        for pieces in cuts("xyz!"):
            assert fed(["z", "yz", "xyz"], pieces) == ("", "xyz")

    def test_the_one_complete_first_wins(self) -> None:
        for pieces in cuts("abcd"):
            assert fed(["abcd", "bc"], pieces) == ("a", "bc")

    def test_a_beginning_at_the_very_end_is_text(self) -> None:
        assert fed(["END"], ["the E", "N"]) == ("the EN", None)

    def test_nothing_follows_a_match(self) -> None:
        matcher = StopMatcher(["."])
        assert [matcher.feed("a."), matcher.feed("b"), matcher.flush()] == ["a", "", ""]


def streamed(pieces: Sequence[bytes]) -> list[str]:
    table = dict(enumerate(pieces))
    detokenizer = Detokenizer(table.__getitem__)
    return [detokenizer.push(token) for token in table] + [detokenizer.flush()]


class TestDetokenizer:
    @pytest.mark.parametrize("text", ["Hi 🌿!", "🌿🐝", "é你"])
    def test_every_chunking_gives_the_text_without_a_replacement(self, text: str) -> None:
        for pieces in cuts(text.encode()):
            assert "".join(streamed(pieces)) == text

    def test_an_emoji_over_four_tokens(self) -> None:
        assert streamed([b"Hi \xf0", b"\x9f", b"\x8c", b"\xbf!"]) == ["Hi ", "", "", "🌿!", ""]

    def test_characters_come_one_by_one_without_ascii_between(self) -> None:
        halves = [part for char in "🌿🐝🍄" for part in (char.encode()[:2], char.encode()[2:])]
        assert streamed(halves) == ["", "🌿", "", "🐝", "", "🍄", ""]

    @pytest.mark.parametrize(
        ("pieces", "shown"),
        [
            ([b"a\xff", b"b"], ["a�", "b", ""]),
            ([b"\xf0\x9f", b"x"], ["", "�x", ""]),
            ([b"\xbf", b"\xc3"], ["�", "", "�"]),
            ([b"\xed\xa0\x80"], ["���", ""]),
        ],
    )
    def test_bad_bytes_are_replaced_where_they_stand(self, pieces: list[bytes], shown: list[str]) -> None:
        assert streamed(pieces) == shown

    @given(st.binary(max_size=12), st.data())
    def test_any_bytes_in_any_chunking_decode_like_the_whole(self, raw: bytes, data) -> None:
        borders = sorted(data.draw(st.sets(st.integers(0, len(raw)))))
        pieces = [raw[a:b] for a, b in itertools.pairwise([0, *borders, len(raw)])]
        assert "".join(streamed(pieces)) == raw.decode("utf-8", "replace")


class TestTextStream:
    def test_a_stop_string_of_split_characters(self) -> None:
        pieces = dict(enumerate([b"ok \xf0\x9f", b"\x8c\xbf", b"\xf0\x9f\x90\x9d", b"!"]))
        stream = TextStream(pieces.__getitem__, ["🌿🐝"])
        assert [stream.push(token) for token in pieces] == ["ok ", "", "", ""]
        assert stream.match == "🌿🐝"

    def test_flush_gives_an_unfinished_character_and_held_text_in_order(self) -> None:
        pieces = {0: b"E", 1: b"\xf0"}
        stream = TextStream(pieces.__getitem__, ["END"])
        assert [stream.push(0), stream.push(1), stream.flush()] == ["", "", "E�"]


def test_each_token_is_decoded_once_and_little_is_held_however_long_the_reply() -> None:
    decoded: list[int] = []

    def piece(token: int) -> bytes:
        decoded.append(token)
        return b"aab "[token % 4 : token % 4 + 1]

    stream = TextStream(piece, ["aaab"])
    written = "".join(stream.push(token) for token in range(4000))
    assert decoded == list(range(4000))
    assert 4000 - len(written) < len("aaab")
