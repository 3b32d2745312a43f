from __future__ import annotations

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.permission.preview import clean, show_call, show_change, visible

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
    assert visible("ls" + "\n " * 50 + "\nrm") == "ls\n⟨50 lines of 1 space⟩\nrm"
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


def test_a_huge_change_is_there_whole() -> None:
    old = "".join(f"{number}\n" for number in range(60_000))
    new = "".join(f"{number * 7}\n" for number in range(1, 60_000))
    told(old.encode(), new.encode())
    assert "-30000\n+x\n" in show_change("a.txt", old.encode(), old.replace("\n30000\n", "\nx\n").encode())


def test_two_edits_far_apart_are_two_hunks() -> None:
    old = [f"{number}\n" for number in range(9000)]
    new = [*old[:10], "first\n", *old[11:7000], "second\n", *old[7001:]]
    shown = told("".join(old).encode(), "".join(new).encode())
    assert [line for line in shown if line[0] in "+-"] == ["-10", "+first", "-7000", "+second"]
    assert sum(line.startswith("@@") for line in shown) == 2


@pytest.mark.parametrize("line", ["}", "", "    return x"])
def test_two_edits_among_equal_lines_are_two_hunks(line: str) -> None:
    old = [f"{line}\n"] * 40_000
    new = ["first\n", *old[1:20_000], "middle\n", *old[20_001:39_999], "last\n"]
    shown = told("".join(old).encode(), "".join(new).encode())
    assert len([line for line in shown if line[0] in "+-"]) == 6


@pytest.mark.parametrize("made", [("ab", "ba"), ("abcdefg", "gfedc"), ("a", "b"), ("ab", "a")])
def test_a_change_that_no_comparison_likes_is_there_whole_and_soon(made: tuple[str, str]) -> None:
    old, new = ("\n".join(letters * 20_000) for letters in made)
    told(old.encode(), new.encode())


def test_content_with_a_zero_byte_is_shown() -> None:
    text = b"#!/bin/sh\n#\0\nrm -rf /home\n"
    shown = told(None, text)
    assert "+rm -rf /home" in shown and "+#\u2400" in shown
    assert "+rm -rf /home" in told(b"\0\1", text)


def test_more_lines_than_ever_are_all_shown() -> None:
    text = "".join(f"line {number}\n" for number in range(20_000)) + "evil()\n"
    shown = told(None, text.encode())
    assert shown[-1] == "+evil()"
    assert len(shown) == 20_002


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        (b"a\n", b"a\r\n", ["-a", "+a\u240d"]),
        (b"a", b"a\n", ["-a⟨no newline at the end⟩", "+a"]),
        (b"a\n", b"\xef\xbb\xbfa\n", ["-a", "+⟨U+FEFF⟩a"]),
        ("café\n".encode("latin-1"), "café\n".encode(), ["-caf⟨byte E9⟩", "+café"]),
        (b"\xff\n", b"\xfe\n", ["-⟨byte FF⟩", "+⟨byte FE⟩"]),
        ("\ufffd\n".encode(), b"\xff\n", ["-\ufffd", "+⟨byte FF⟩"]),
        ("é\n".encode(), "e\u0301\n".encode(), ["-é", "+e⟨U+0301⟩"]),
        (b"x\n", b"x \n", ["-x", "+x⟨1 space⟩"]),
        (b"x\ny\n", b"x\x0by\n", ["-x", "-y", "+x\u240by"]),
        (b"x\ny\n", "x\u2028y\n".encode(), ["-x", "-y", "+x⟨U+2028⟩y"]),
        (b"\n", b"\n\n", ["+"]),
        (b"hi\n", "hi\n".encode("utf-16"), None),
    ],
)
def test_a_change_of_what_is_hard_to_see_is_seen(old: bytes, new: bytes, rows: list[str] | None) -> None:
    changed = [line for line in told(old, new) if line[0] in "+-"]
    assert changed == rows if rows is not None else "⟨byte FF⟩⟨byte FE⟩h\u2400i\u2400" in changed[1]


ANY_BYTES = st.lists(
    st.sampled_from([b"a", b"b ", b" ", b"\n", b"\r\n", b"\n\n\n\n", b"\0", b"\xff", "⟨é\u202e␀".encode()]),
    max_size=24,
).map(b"".join)


def told(old: bytes | None, new: bytes) -> list[str]:
    """The rows of a change, after every line that came or went was found in them."""
    shown = show_change("f", old, new).split("\n")[2:]
    for sign, here, there in (("-", old or b"", new), ("+", new, old or b"")):
        rows = Counter(line[1:] for line in shown if line[:1] == sign)
        gone = Counter(here.split(b"\n")[:-1]) - Counter(there.split(b"\n")[:-1])
        for line, count in gone.items():
            assert rows[visible(line.decode("utf-8", "surrogateescape"))] >= count
    return shown


@given(ANY_BYTES, ANY_BYTES)
def test_every_line_that_comes_or_goes_is_shown(old: bytes, new: bytes) -> None:
    told(old, new)


@given(ANY_BYTES, ANY_BYTES, ANY_BYTES)
def test_changes_that_differ_look_different(old: bytes, one: bytes, other: bytes) -> None:
    if one != other:
        assert show_change("f", old, one) != show_change("f", old, other) or b"" in (one, other)


@given(ANY, ANY)
def test_texts_that_differ_look_different(one: str, other: str) -> None:
    assert (one == other) == (visible(one) == visible(other))


@given(ANY, st.sampled_from("é가豈Ω क़".split()))
def test_no_other_way_to_write_a_character_is_drawn_alike(around: str, char: str) -> None:
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, char)
        one, two = visible(f"{around}{char}{around}"), visible(f"{around}{other}{around}")
        assert (char == other) == (unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", two))


@given(ANY)
def test_a_sentence_of_visible_parts_stays_what_it_is(text: str) -> None:
    assert clean(visible(text)) == visible(text)
    assert clean(clean(text)) == clean(text)


def test_a_value_that_poses_as_another_kind_is_told() -> None:
    assert show_call("t", {"a": "true"}) != show_call("t", {"a": True})
    assert show_call("t", {"a": "1"}) != show_call("t", {"a": 1})
    assert show_call("t", {"a": ""}) != show_call("t", {"a": "⟨empty⟩"})
    assert show_call("t", {"a": "x"}) != show_call("t", {"a": "x "})
    assert show_call("t", {"a": "[1]"}) != show_call("t", {"a": [1]})
    assert show_call("t", {"a": '{"b": "1"}'}) != show_call("t", {"a": {"b": "1"}})
    assert show_call("t", {"a": "x", "": "b"}) != show_call("t", {"a": "x\nb"})
    assert show_call("t", {"a│ b": "x"}) != show_call("t", {"a": "b│ x"})
    assert "│ b" not in show_call("t", {"a│ b": "x"})
    assert show_call("t", {"a\nb": "x"}) != show_call("t", {"a⏎b": "x"})


@pytest.mark.parametrize(
    "text",
    [
        "раypal.com",
        "сосо.com",
        "sudo арt install",
        "www.gοogle.com",
        "𝐫𝐦 -rf",
        "ｐaypal",
        "example．com",
        "rm ‐rf x",
        "ls;\u037e rm",
        "r̶m̶",
        "z̸a",
        "a\u0301\u0302\u0303",
        "x\u20dd",
        "ก\u0e47\u0e47\u0e47\u0e47\u0e47",
        " \u0301",
        "paypаl",
        "Ϲat file",
        "հttp.org",
        "ᎪBC",
        "e\u0301",
        "5 \u212b",
        "\u1100\u1161",
        "\uf900",
        "s\u0307\u0323",
        "\u0958",
        "a" + "\u0301" * 40,
        "\u0261it push",
        "d\u0251ta",
        "rm \u2013rf x",
        "rm \u2014\u2014force",
        "a\u2502b",
        "echo hi \uff03 && rm -rf x",
    ],
)
def test_letters_that_pose_as_others_and_stacks_of_marks_are_told(text: str) -> None:
    assert "⟨" in visible(text)


@pytest.mark.parametrize(
    "text",
    [
        "Привет, как дела? А вот и он. Со мной, в сосновом бору.",
        "открой docs/файл.txt и README.md",
        "Καλημέρα και καλή όρεξη",
        "你好，世界！使用Python和Git。",
        "iPhoneのTシャツを着る、ポケモン",
        "한국어 Fireside 안녕",
        "नमस्ते दुनिया, क्षत्रिय",
        "สวัสดีครับ ที่นี่ใช้Fireside",
        "שלום עולם",
        "مُحَمَّدٌ رَسُول",
        "Tiếng Việt: nước, phở, ệ, ẫ",
        "ệ naïve größe Straße İstanbul ışık łódź",
        "Δt = 3 μs, λ = 2π/k, 5 Å, x², ½, “quotes” – dash… it’s",
        "Հայերեն բարև ქართული",
        "x = 3 − 4, 1990–1995, so – or so — anyway",
        "├── a\n│   └── b\n│ name │ size │",
    ],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "piece", ["é", "привет мир ", "о.", "z\u0301", "漢字", " \n", "a ", "\n", "\u0301", "pаy ", "w∕w"]
)
def test_a_long_text_takes_a_time_near_its_length(piece: str) -> None:
    visible(piece * 20_000)


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=30).map("".join)


@given(LINES, LINES)
def test_a_diff_names_every_changed_line(old: str, new: str) -> None:
    shown = show_change("f", old.encode(), new.encode()).splitlines()[2:]
    added = [line[1:] for line in shown if line.startswith("+")]
    removed = [line[1:] for line in shown if line.startswith("-")]
    for line in "abc":
        gained = new.splitlines().count(line) - old.splitlines().count(line)
        assert added.count(line) - removed.count(line) == gained
