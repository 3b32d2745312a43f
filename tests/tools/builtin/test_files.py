from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.limits import processor_time
from tests.tools.conftest import Use
from tools.builtin.files import edit_file, list_files, read_file, write_file
from tools.context import Limits, ToolContext
from tools.workspace import Workspace


async def test_reading_a_file(use: Use) -> None:
    assert (await use(read_file, path="src/a.py")).text == "x = 1\n"


async def test_reading_part_of_a_long_file_says_where_to_go_on(use: Use, space: Workspace) -> None:
    (space.root / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    part = await use(read_file, path="long.txt", start_line=10, line_count=2)
    assert part.text == "line 10\nline 11\n[there is more; read on with start_line=12]"
    last = await use(read_file, path="long.txt", start_line=1000)
    assert last.text == "line 1000\n"
    assert "only 1000 lines" in (await use(read_file, path="long.txt", start_line=1001)).text


async def test_co_07_a_large_file_stays_within_the_limit(use: Use, space: Workspace) -> None:
    (space.root / "long.txt").write_text("é" * 50 + "\n" + "x" * 99 + "\n" * 10_000)
    context = ToolContext(limits=Limits(output_bytes=1000))
    result = await use(read_file, context, path="long.txt", line_count=100_000)
    assert len(result.text.encode()) <= 1000
    assert "read on with start_line=" in result.text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("src/b.py", "There is: a.py"),
        ("src", "not a regular file"),
        ("binary", "is binary"),
        ("pipe", "not a regular file"),
        ("src/a.py/x", "There is no|not what is needed"),
        ("link/a.txt/../../../x", ""),
    ],
)
async def test_what_cannot_be_read_is_explained(use: Use, space: Workspace, path: str, said: str) -> None:
    (space.root / "binary").write_bytes(b"a\0b")
    os.mkfifo(space.root / "pipe")
    result = await use(read_file, path=path)
    assert result.status in ("failed", "refused")
    assert any(part in result.text for part in said.split("|"))


async def test_bad_bytes_are_read_as_replacement_characters(use: Use, space: Workspace) -> None:
    (space.root / "latin.txt").write_bytes(b"caf\xe9\n")
    assert (await use(read_file, path="latin.txt")).text == "caf\ufffd\n"


async def test_writing_makes_folders_and_keeps_bytes(use: Use, space: Workspace) -> None:
    content = "    indented\r\n\ttab\n\n"
    result = await use(write_file, path="new/deep/x.txt", content=content)
    assert result.text == "Wrote new/deep/x.txt (20 bytes)."
    assert (space.root / "new/deep/x.txt").read_bytes() == content.encode()
    assert "Replaced" in (await use(write_file, path="new/deep/x.txt", content="")).text


async def test_half_a_character_is_not_written(use: Use, space: Workspace) -> None:
    result = await use(write_file, path="x.txt", content="\ud83c")
    assert result.status == "failed"
    assert not (space.root / "x.txt").exists()


async def test_a_failed_write_leaves_the_old_file(
    use: Use, space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tools.workspace.os.fsync", full)
    result = await use(write_file, path="src/a.py", content="new")
    assert "No space left" in result.text
    assert (space.root / "src/a.py").read_text() == "x = 1\n"
    assert os.listdir(space.root / "src") == ["a.py"]


async def test_editing_replaces_the_only_place(use: Use, space: Workspace) -> None:
    (space.root / "b.py").write_text("def f():\n    return 1\n\ndef g():\n    return 1\n")
    several = await use(edit_file, path="b.py", old_text="return 1", new_text="return 2")
    assert "2 times" in several.text
    one = await use(edit_file, path="b.py", old_text="g():\n    return 1", new_text="g():\n    return 2")
    assert one.text == "Edited b.py."
    assert (space.root / "b.py").read_text().endswith("return 2\n")
    await use(edit_file, path="b.py", old_text="return", new_text="yield", everywhere=True)
    assert (space.root / "b.py").read_text().count("yield") == 2


async def test_an_edit_that_fits_nowhere_shows_the_nearest_line(use: Use) -> None:
    result = await use(edit_file, path="src/a.py", old_text="x = 1 # one", new_text="x = 2")
    assert "The nearest line is: x = 1" in result.text


@pytest.mark.parametrize("line", ["ab" * 1000, "a" * 250, "a" * 199, "xa" * 99, "x=1"])
async def test_the_nearest_line_is_found_soon_among_many_alike(use: Use, space: Workspace, line: str) -> None:
    (space.root / "alike.txt").write_text("\n".join(f"{line}{number % 7}" for number in range(5_000)))
    with processor_time(3):
        result = await use(edit_file, path="alike.txt", old_text=f"{line}!", new_text="x")
    assert "The nearest line is: " + line[:100] in result.text


async def test_no_edit_makes_more_than_an_edit_may_read(use: Use, space: Workspace) -> None:
    (space.root / "big.txt").write_text("a" * 100_000)
    result = await use(edit_file, path="big.txt", old_text="a", new_text="b" * 100_000, everywhere=True)
    assert "would become larger" in result.text
    assert (space.root / "big.txt").read_text() == "a" * 100_000


async def test_windows_line_ends_are_kept(use: Use, space: Workspace) -> None:
    (space.root / "w.txt").write_bytes(b"one\r\ntwo\r\n")
    await use(edit_file, path="w.txt", old_text="one\ntwo", new_text="1\n2")
    assert (space.root / "w.txt").read_bytes() == b"1\r\n2\r\n"


async def test_a_file_in_another_encoding_is_not_edited(use: Use, space: Workspace) -> None:
    (space.root / "latin.txt").write_bytes(b"caf\xe9\n")
    assert "not UTF-8" in (await use(edit_file, path="latin.txt", old_text="caf", new_text="x")).text
    assert (space.root / "latin.txt").read_bytes() == b"caf\xe9\n"


async def test_listing_shows_kinds_and_does_not_follow_links(use: Use, space: Workspace) -> None:
    (space.root / "data").mkdir()
    lines = (await use(list_files, depth=3)).text.splitlines()
    assert lines == [f"link -> {space.root.parent / 'outside'}", "src/", "src/a.py  6"]


async def test_a_large_folder_is_cut(use: Use, space: Workspace) -> None:
    for number in range(600):
        (space.root / f"{number}.txt").touch()
    assert "more than 500 entries" in (await use(list_files)).text


async def test_nothing_is_written_outside_without_an_approval(space: Workspace, tmp_path: Path) -> None:
    context = ToolContext(space=space)
    for path in ("../outside/x", "link/x", "/tmp/x", ".git/config"):
        with pytest.raises(Exception, match="approv"):
            context.path(path, write=True)
