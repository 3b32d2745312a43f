from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.output import Capture, cap_middle, clean_text, describe_error, text_of

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=600)


@given(ANY_TEXT)
def test_cleaned_text_can_always_be_encoded(text: str) -> None:
    assert clean_text(text).encode().decode() == clean_text(text)


def test_an_escaped_surrogate_pair_is_one_character() -> None:
    assert clean_text("\ud83c\udf3f ok") == "\U0001f33f ok"


def test_a_lone_surrogate_is_replaced_and_nothing_else() -> None:
    assert clean_text("a\udcffb") == "a\ufffdb"


@given(ANY_TEXT, st.integers(256, 400))
def test_capped_output_fits_and_says_its_original_size(text: str, limit: int) -> None:
    capped = cap_middle(text, limit)
    clean = clean_text(text)
    size = len(clean.encode())
    assert len(capped.encode()) <= limit
    if size <= limit:
        assert capped == clean
        return
    head, marker, tail = capped.partition("\n[... ")[0], f"of {size:,} bytes left out", capped[-20:]
    assert marker in capped
    assert clean.startswith(head)
    assert clean.endswith(tail.rpartition("]\n")[2])


@given(st.binary(max_size=800), st.lists(st.integers(1, 40), max_size=40))
def test_chunking_does_not_change_what_is_captured(data: bytes, cuts: list[int]) -> None:
    whole, pieces = Capture(256), Capture(256)
    shown = whole.write(data)
    seen, rest = "", data
    for cut in cuts:
        seen += pieces.write(rest[:cut])
        rest = rest[cut:]
    seen += pieces.write(rest)
    assert seen == shown
    assert whole.finish() == pieces.finish()


def test_the_whole_output_is_kept_in_a_private_file(tmp_path: Path) -> None:
    capture = Capture(256, folder=tmp_path / "outputs")
    for number in range(1000):
        capture.write(f"line {number}\n".encode())
    found = capture.finish()
    assert found.file is not None
    assert found.file.read_text() == "".join(f"line {number}\n" for number in range(1000))
    assert found.file.stat().st_mode & 0o777 == 0o600
    assert found.text.startswith("line 0\n")
    assert found.text.endswith("line 999\n")


def test_a_short_output_leaves_no_file(tmp_path: Path) -> None:
    capture = Capture(256, folder=tmp_path)
    capture.write(b"short")
    assert capture.finish().file is None
    assert list(tmp_path.iterdir()) == []


def test_an_endless_output_keeps_a_bounded_file(tmp_path: Path) -> None:
    capture = Capture(256, folder=tmp_path, kept_bytes=1000)
    for _ in range(100):
        capture.write(b"x" * 100)
    found = capture.finish()
    assert found.file is not None
    assert found.file.stat().st_size == 1000
    assert not found.file_is_whole
    assert found.size_bytes == 10_000


def test_a_picture_that_a_tool_returns_is_no_text() -> None:
    assert text_of(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(2000)) == "[2,016 bytes that are not text]"
    assert text_of("für".encode("latin-1")) == "f\ufffdr"


def test_bad_bytes_are_replaced() -> None:
    assert text_of(b"caf\xe9") == "caf\ufffd"


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad \udcff byte"), "ValueError: bad \ufffd byte"),
        (ValueError("x" * 9_000), "9,012 characters in all"),
        (Hostile(), "Hostile"),
        (KeyError(), "KeyError"),
    ],
)
def test_any_error_is_described(error: Exception, text: str) -> None:
    described = describe_error(error)
    assert text in described
    assert len(described) < 2_200
    described.encode()


def test_any_value_becomes_text() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert text_of({"a": "ü"}) == '{"a": "ü"}'
    assert text_of(None) == ""
    assert text_of(loop) == "[[...]]"
    assert text_of(Hostile()) == "<Hostile>"
