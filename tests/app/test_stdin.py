from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.exits import ExitCode, Failure
from app.stdin import read_file


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
