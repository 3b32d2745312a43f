from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tools.preview import show_call, show_change, visible

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@given(ANY)
def test_nothing_invisible_is_left(text: str) -> None:
    for char in visible(text):
        assert char in "\n " or unicodedata.category(char)[0] not in "CZ"
    visible(text).encode()


def test_controls_direction_marks_and_padding_are_spelled_out() -> None:
    shown = visible("ls\x1b[2K\u202egnp\r" + " " * 80 + "; rm\x7f")
    assert shown == "ls␛[2K⟨U+202E⟩gnp␍⟨80 spaces⟩; rm␡"


def test_empty_lines_cannot_push_a_line_out_of_sight() -> None:
    assert visible("ls" + "\n" * 50 + "rm") == "ls\n⟨49 empty lines⟩\nrm"


def test_lines_of_blanks_and_letters_drawn_as_nothing_hide_nothing_either() -> None:
    assert visible("ls" + "\n " * 50 + "\nrm") == "ls\n⟨50 empty lines⟩\nrm"
    for char in "\u034f\u115f\u1160\u17b4\u180b\u2800\u3164\uffa0\ufe0f":
        assert visible(f"rm{char}x") == f"rm⟨U+{ord(char):04X}⟩x"
    assert visible("größe 你好 한국어 हिन्दी é") == "größe 你好 한국어 हिन्दी é"


def test_a_value_cannot_imitate_another_argument() -> None:
    shown = show_call("run_shell", {"command": "ls\n  network │ false", "network": True})
    assert shown == "run_shell\n  command │ ls\n          │   network │ false\n  network │ true"


def test_a_change_is_a_diff() -> None:
    old = "".join(f"{number}\n" for number in range(100))
    shown = show_change("a.txt", old.encode(), old.replace("50\n", "fifty\n").encode())
    assert shown.splitlines()[:2] == ["--- a.txt", "+++ a.txt"]
    assert "@@ -48,7 +48,7 @@" in shown
    assert "-50\n+fifty\n" in shown


def test_a_new_file_is_all_added() -> None:
    assert "+++ a.txt\n@@ -0,0 +1,2 @@\n+one\n+two⟨no newline at the end⟩" in show_change(
        "a.txt", None, b"one\ntwo"
    )


def test_controls_in_a_diff_are_spelled_out() -> None:
    assert "+\u241b[2J" in show_change("a.txt", b"", b"\x1b[2J\n")


def test_a_huge_change_is_counted_not_compared() -> None:
    old = "".join(f"{number}\n" for number in range(60_000))
    new = "".join(f"{number * 7}\n" for number in range(1, 60_000))
    assert "lines become" in show_change("a.txt", old.encode(), new.encode())
    assert "-30000\n+x\n" in show_change("a.txt", old.encode(), old.replace("\n30000\n", "\nx\n").encode())


def test_binary_content_is_counted() -> None:
    assert "binary" in show_change("a.bin", b"\0\1", b"\0")


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=30).map("".join)


@given(LINES, LINES)
def test_a_diff_names_every_changed_line(old: str, new: str) -> None:
    shown = show_change("f", old.encode(), new.encode()).splitlines()[2:]
    added = [line[1:] for line in shown if line.startswith("+")]
    removed = [line[1:] for line in shown if line.startswith("-")]
    for line in "abc":
        gained = new.splitlines().count(line) - old.splitlines().count(line)
        assert added.count(line) - removed.count(line) == gained
