from __future__ import annotations

import codecs
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.exits import ExitCode, Failure
from app.oneshot import stdin
from app.oneshot.stdin import read_file, read_stdin


def refusal(name: Path | str) -> Failure:
    with pytest.raises(Failure) as caught:
        read_file(str(name))
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01\x00\x00",
        b"\x89PNG\r\n\x1a\n\xff\xd8\xfe\x81",
        "text".encode("utf-16"),
        "Жизнь".encode("koi8-r"),
    ],
)
def test_a_binary_file_is_refused_with_a_way_out(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "picture"
    file.write_bytes(data)
    failure = refusal(file)
    assert "is not UTF-8 text" in failure.message
    assert "--attach" in failure.remedy


def test_a_few_bad_bytes_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_bytes("Viele Grüße aus dem Garten.\n".encode("latin-1"))
    assert read_file(str(file)) == "Viele Gr\ufffd\ufffde aus dem Garten.\n"


def test_replacement_characters_are_text_too(tmp_path: Path) -> None:
    file = tmp_path / "replaced.txt"
    file.write_text("\ufffd" * 9, encoding="utf-8")
    assert read_file(str(file)) == "\ufffd" * 9


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_every_text_is_read_as_it_is(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("text") / "file.txt"
    file.write_bytes(("\ufeff" + text).encode())
    assert read_file(str(file)) == text


@pytest.mark.parametrize("name", ["/dev/zero", "/", "", "no\0name", "/no/such/file"])
def test_what_cannot_be_read_is_a_usage_failure(name: str) -> None:
    assert "cannot be read" in refusal(name).message


def test_the_name_in_an_error_is_short(tmp_path: Path) -> None:
    assert len(str(refusal("x" * 100_000))) < 500


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> str | None:
    """What is read where `data` is on standard input."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    monkeypatch.setattr(stdin, "_STDIN", reader)
    return read_stdin(notice=print)


WORDS = ("Grüße aus dem Garten.\n", "Жизнь прожить", "日本語の文字です。", "नमस्ते दुनिया", "안녕하세요", "g🔥")


@pytest.mark.parametrize("text", WORDS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_text_with_its_mark_is_read_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, text: str, encoding: str
) -> None:
    assert piped(monkeypatch, text.encode(encoding)) == text
    big = codecs.BOM_UTF16_BE + text.encode("utf-16-be")
    assert piped(monkeypatch, big) == text


@pytest.mark.parametrize("text", [*WORDS, "日本語", "Привет", "שלום", "ok"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_wide_text_without_a_mark_is_read_or_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, encoding: str
) -> None:
    try:
        assert piped(monkeypatch, text.encode(encoding)) == text
    except Failure as refused:
        assert refused.exit_code == ExitCode.USAGE
        assert "is not UTF-8 text" in refused.message and "iconv" in refused.remedy


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n\0\0", "Жизнь прожить. ".encode("koi8-r") * 9, b"a\0bc\0d\0"]
)
def test_what_is_no_text_is_refused_on_standard_input_too(
    monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    with pytest.raises(Failure, match="Standard input is not UTF-8 text"):
        piped(monkeypatch, data)


def test_a_log_with_colours_and_a_few_bad_bytes_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"\x1b[31merror\x1b[0m caf\xe9\r\n" * 9
    assert piped(monkeypatch, log) == "\x1b[31merror\x1b[0m caf\ufffd\r\n" * 9
