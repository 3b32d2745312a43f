from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.permission.shell_words import parse_command


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("git status", (("git", "status"),)),
        ("  ls\t-la  'a b' \"c d\" e\\ f ", (("ls", "-la", "a b", "c d", "e f"),)),
        ("a && b; c | d || e\nf", (("a",), ("b",), ("c",), ("d",), ("e",), ("f",))),
        ("a;", (("a",),)),
        ("\n\na\n\nb\n", (("a",), ("b",))),
        ("a ''", (("a", ""),)),
        ('echo "it\'s" \'say "hi"\' "a\\"b\\n"', (("echo", "it's", 'say "hi"', 'a"b\\n'),)),
    ],
)
def test_plain_commands_are_understood(text: str, segments: tuple[tuple[str, ...], ...]) -> None:
    assert parse_command(text).segments == segments


@pytest.mark.parametrize(
    "text",
    [
        "ls $(touch x)",
        "ls `id`",
        "ls $HOME",
        'ls "$HOME"',
        "ls >x",
        "ls 2>&1",
        "ls <x",
        "cat <<'EOF'\nx\nEOF",
        "ls &",
        "ls & touch x",
        "(ls)",
        "{ ls; }",
        "ls {a,b}",
        "ls *.py",
        "ls ?",
        "ls [a]",
        "ls ~",
        "FOO=1 ls",
        "ls # x",
        "! ls",
        "if true; then ls; fi",
        "time ls",
        "ls |& cat",
        "ls ;; ls",
        "ls &&",
        "&& ls",
        "; ls",
        "ls || && ls",
        "ls 'a",
        'ls "a',
        "ls \\",
        "ls \\\nx",
        "ls\r-la",
        "ls \x1b[2K",
        "ls\u00a0-la",
        "ls\u200b",
        "l\u202es",
        "",
        "   ",
        "''",
        "ls \x00",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    command = parse_command(text)
    assert command.segments == ()
    assert command.why


WORD = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
WORDS = st.lists(WORD, min_size=1, max_size=5)


@given(WORDS)
def test_quoted_words_come_back_or_are_refused(words: list[str]) -> None:
    command = parse_command(shlex.join(["prog", *words]))
    assert command.segments in ((), (("prog", *words),))


PIECES = (*"a \t\n'\"\\$`;&|#*{}~()!<>=-/é", "bc", "  ", "&&", "x=1")
SHELL_TEXT = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


@settings(max_examples=150, deadline=None)
@given(SHELL_TEXT)
def test_a_real_shell_agrees_with_what_was_understood(text: str) -> None:
    command = parse_command(f"printf '<%s>' {text}")
    if len(command.segments) != 1:
        return
    words = command.segments[0][2:]
    run = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"printf '<%s>' {text}"], capture_output=True, text=True, check=False
    )
    assert run.stdout == ("".join(f"<{word}>" for word in words) or "<>")
