from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.files.attachments import (
    AttachmentError,
    Picture,
    TextPart,
    attach,
    attach_bytes,
    decoded,
    require_sight,
)
from app.files.pdf import PdfError, pdf_text
from backend.types import ChatCard
from tests.app.files.pdfs import encrypted, pdf


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def text_of(name: str, data: bytes) -> TextPart:
    part = attach_bytes(name, data)
    assert isinstance(part, TextPart)
    return part


def test_a_text_file_is_a_fenced_part_with_name_and_size(tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text("# Notes\n```py\n1\n```\n", encoding="utf-8")
    part = attach(file)
    assert isinstance(part, TextPart)
    assert part.fenced() == "notes.md (20 bytes):\n````\n# Notes\n```py\n1\n```\n````"


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
        ("cp1252", "windows-1252"),
    ],
)
def test_the_encoding_of_a_text_is_found(encoding: str, found: str) -> None:
    text = "Der alte Mann trank Kaffee für fünfzig Öre, naïve.\n" * 3
    assert decoded(text.encode(encoding)) == (text, found)
    assert (found in text_of("a.txt", text.encode(encoding)).title) == (found != "utf-8")


def test_a_few_bad_bytes_do_not_spoil_a_text() -> None:
    assert decoded("größer als café".encode() + b" \xff") == ("größer als café \ufffd", "utf-8")


@given(st.text())
def test_every_text_in_utf_8_is_read_as_it_is(text: str) -> None:
    data = text.encode()
    try:
        read, encoding = decoded(data)
    except ValueError:
        assert "\0" in text
        return
    if encoding == "utf-8":
        assert read == text.removeprefix("\ufeff")


@given(st.binary())
def test_no_bytes_break_it(data: bytes) -> None:
    try:
        attach_bytes("x", data)
    except ValueError as err:
        assert str(err)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\1\2\3" * 50, "binary"),
        (bytes(range(1, 32)) * 20 + b"\xff", "binary"),
        ("Жизнь прожить".encode("koi8-r"), "its encoding is not known"),
        (b"PK\x03\x04rest", "archive or an office document"),
        (b"ID3\x04", "sound"),
        (b"RIFF\0\0\0\0WAVEfmt ", "sound"),
        (b"\x7fELF\2", "program"),
        (b"GGUF\3\0\0\0", "model"),
    ],
)
def test_what_is_no_text_is_refused_with_the_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / "thing.dat"
    file.write_bytes(data)
    with pytest.raises(AttachmentError, match=rf"thing\.dat cannot be attached: .*{reason}"):
        attach(file)


@pytest.mark.parametrize("name", ["missing.txt", "", ".", "/dev/zero", "a\0b"])
def test_what_cannot_be_read_is_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AttachmentError, match="cannot be attached"):
        attach(name)


def test_a_file_that_is_too_large_names_both_sizes(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_bytes(b"a" * 10_000_001)
    with pytest.raises(AttachmentError, match=r"it has 10\.0 MB, and a text may have 10\.0 MB"):
        attach(file)


def test_a_name_cannot_break_out_of_its_line() -> None:
    assert text_of("a\x1b[2J\n```\nb.txt", b"x").title == "a[2J ``` b.txt (1 bytes)"


def test_a_picture_is_a_block_with_its_kind() -> None:
    picture = attach_bytes("photo", png())
    assert isinstance(picture, Picture)
    assert picture.content_type == "image/png"
    assert picture.file_name == "photo.png"
    assert picture.block()["image_url"]["url"].startswith("data:image/png;base64,iVBOR")


def test_only_a_model_that_sees_takes_pictures() -> None:
    card = ChatCard("blind", "llama", parameters=0, quantization="F32", max_seq=512)
    seeing = ChatCard("owl", "llama", parameters=0, quantization="F32", max_seq=512, supports_vision=True)
    parts = [attach_bytes("photo.png", png()), attach_bytes("a.txt", b"a")]
    with pytest.raises(AttachmentError, match=r"blind cannot see, so photo\.png cannot be attached"):
        require_sight(parts, card)
    require_sight(parts, seeing)
    require_sight(parts[1:], card)


def test_the_text_of_a_pdf_is_its_part() -> None:
    was_loaded = "pypdf" in sys.modules
    part = text_of("paper.pdf", pdf("First page.", "Second page."))
    assert part.title.startswith("paper.pdf (2 pages, ")
    assert part.text.split("\f") == ["First page.", "Second page."]
    assert ("pypdf" in sys.modules) is was_loaded


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf("", picture=True), "pictures without text"),
        (b"%PDF-1.7\nnothing of a PDF follows", "damaged"),
        (pdf("x")[:200], "damaged|without text"),
    ],
)
def test_a_pdf_without_text_is_refused_readably(data: bytes, reason: str) -> None:
    with pytest.raises(PdfError, match=reason):
        pdf_text(data)


def test_an_encrypted_pdf_is_refused_readably(tmp_path: Path) -> None:
    file = tmp_path / "secret.pdf"
    file.write_bytes(encrypted("hidden"))
    with pytest.raises(AttachmentError, match=r"secret\.pdf cannot be attached: it is encrypted"):
        attach(file)


def test_pages_that_are_not_read_in_time_are_told() -> None:
    found = pdf_text(pdf(*["word"] * 501))
    assert (found.pages, found.read) == (501, 500)
    with pytest.raises(PdfError, match="page 1 of 1 took too long"):
        pdf_text(pdf("word"), time_s=0.0)
