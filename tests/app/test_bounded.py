from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from app.bounded import read_bounded


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bounded(file, 5) == b"12345"
    with pytest.raises(OSError, match="larger than"):
        read_bounded(file, 4)


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"from a pipe",))
    writer.start()
    assert read_bounded(pipe, 100) == b"from a pipe"
    writer.join()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("/dev/zero", "neither a file nor a pipe"), ("/", "Is a directory"), ("", "its name is empty")],
)
def test_what_is_no_file_says_why(name: str, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        read_bounded(name, 10)
