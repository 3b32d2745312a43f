from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.repl.chatting import home_files
from tests.app.repl.terminal import SCRIPT, Terminal, scripted

pytestmark = pytest.mark.timeout(120)

UP = re.compile(rb"\x1b\[\d*A|\x1bM|\x1b\[\d*;?\d*[Hf]|\x1b\[\d*F|\x1b\[[sud]|\x1b7|\x1b8")
"""Cursor-up in any form: by rows, reverse index, by address, save and restore."""


def test_an_answer_of_two_thousand_lines_moves_the_cursor_up_nowhere(tmp_path: Path) -> None:
    lines = [f"row **{number}** of the answer\n\n" for number in range(500)]
    lines += ["```python\n", *(f"x = {number}  # a line\n" for number in range(1000)), "```\n\n"]
    lines += [f"- item {number} with `code`\n" for number in range(500)]
    with scripted(tmp_path, [[*lines]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("go")
        terminal.wait("item 499 with code")
        terminal.wait("ctx ")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert UP.search(terminal.output) is None
        shown = [line.strip() for line in terminal.lines]
        for wanted in (
            "row 0 of the answer",
            "row 499 of the answer",
            "x = 0  # a line",
            "x = 999  # a line",
        ):
            assert shown.count(wanted) == 1, wanted


def test_a_chat_by_keys(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Hello **there**."], ["And bye."]]) as terminal:
        terminal.wait("scripted   cpu only   context 8k")
        terminal.say("hi")
        terminal.wait("Hello there.")
        terminal.wait("ctx 2/8k")
        terminal.say("/usage")
        terminal.wait("last reply")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert "› hi\n\n  scripted\n  Hello there.\n" in terminal.text
        assert "› /usage\n" in terminal.text
        assert "fireside repl --resume " in terminal.text


def test_a_paste_submits_nothing_and_one_enter_sends_it_all(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Got it."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("\x1b[200~first line\rsecond line\r\x1b[201~")
        terminal.wait("second line")
        terminal.type("\r")
        terminal.wait("Got it.")
        assert "› first line\n  second line\n" in terminal.text
        assert terminal.text.count("scripted\n") == 1


def test_a_long_paste_is_folded_and_sent_whole(tmp_path: Path) -> None:
    pasted = "\r".join(f"line {number}" for number in range(120))
    with scripted(tmp_path, [["Got it."], ["Again."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type(f"\x1b[200~{pasted}\x1b[201~")
        terminal.wait("[pasted 120 lines]")
        terminal.type("\r")
        terminal.wait("Got it.")
        assert "› [pasted 120 lines]\n" in terminal.text
        terminal.say(f"/copy message to {tmp_path}/sent")
        terminal.until((tmp_path / "sent").exists, "the file")
    assert (tmp_path / "sent").read_text() == pasted.replace("\r", "\n")


def test_the_lost_end_of_a_paste_freezes_nothing(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Got it."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("\x1b[200~abc")
        terminal.until(lambda: "› abc" in terminal.row, "abc")
        terminal.type(" hello")
        terminal.until(lambda: "› abc hello" in terminal.row, "hello")
        terminal.type("\r")
        terminal.wait("Got it.")
        assert "› abc hello\n" in terminal.text


def test_lines_without_brackets_that_come_at_once_are_a_paste(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Got it."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("first line\rsecond line\rthird line")
        terminal.wait("third line")
        terminal.type("\r")
        terminal.wait("Got it.")
        assert "› first line\n  second line\n  third line\n" in terminal.text


@pytest.mark.parametrize("newline", ["\n", "\x1b\r", "\\\r"])
def test_keys_for_a_new_line(tmp_path: Path, newline: str) -> None:
    with scripted(tmp_path, [["Got it."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("one")
        terminal.wait("› one")
        terminal.type(newline)
        terminal.until(lambda: "one" not in terminal.row, "a second row")
        terminal.say("two")
        terminal.wait("Got it.")
        assert "› one\n  two\n" in terminal.text


def test_ctrl_c_stops_the_answer_and_only_that(tmp_path: Path) -> None:
    gate = tmp_path / "never"
    with scripted(tmp_path, [["A long story ", {"pause": str(gate)}, "goes on"], ["fine"]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("tell")
        terminal.wait("A long story")
        terminal.type("\x03")
        terminal.wait("Stopped. What was written is kept.")
        terminal.type("\x03")
        terminal.wait("again to quit")
        terminal.say("still there?")
        terminal.wait("ctx ")
        terminal.type("\x03")
        terminal.wait("again to quit", times=2)
        terminal.type("\x03")
        assert terminal.wait_end() == 0
        assert "  A long story\n" in terminal.text
        assert "goes on" not in terminal.text


@pytest.mark.parametrize("plain", [False, True])
def test_ctrl_c_before_the_first_word_stops_the_reply_and_does_not_leave(
    tmp_path: Path, isolated_home: Path, plain: bool
) -> None:
    store = isolated_home / ".local/share/fireside/chats.db"

    def is_sent() -> bool:
        with contextlib.closing(sqlite3.connect(store)) as chats:
            return bool(chats.execute("SELECT count(*) FROM items").fetchone()[0])

    gate = tmp_path / "never"
    replies = [[{"pause": str(gate)}, "a late answer"], ["fine"]]
    with scripted(tmp_path, replies, *(["--plain"] if plain else [])) as terminal:
        terminal.wait("/help" if plain else "ctrl+d leaves")
        if plain:  # a terminal in its own mode forgets with ctrl+c what was not read yet
            terminal.type("tell\n")
            terminal.until(is_sent, "the message in the store")
            terminal.type("\x03")
        else:
            terminal.type("tell\r\x03")
        terminal.wait("Stopped.")
        assert "again to quit" not in terminal.text and "a late answer" not in terminal.text
        terminal.type("still there?\n" if plain else "still there?\r")
        terminal.wait("fine")
        terminal.type("\x04")
        assert terminal.wait_end() == 0


def test_ctrl_c_clears_a_draft_and_ctrl_d_sends_none(tmp_path: Path) -> None:
    with scripted(tmp_path, []) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("half a thought\x04")
        terminal.wait("› half a thought")
        terminal.type("\x03")
        terminal.until(lambda: "half" not in terminal.row, "an empty row")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert "again to quit" not in terminal.text
        assert "--resume" not in terminal.text


def test_what_is_typed_while_an_answer_is_written_waits(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with scripted(tmp_path, [["One ", {"pause": str(gate)}, "done."], ["Two."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("first")
        terminal.wait("  One")
        terminal.say("second")
        terminal.wait("› second   queued")
        gate.touch()
        terminal.wait("Two.")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert "  One done.\n" in terminal.text


CALL = {"call": "run_shell", "arguments": {"command": "touch ran"}}


def test_nothing_typed_ahead_answers_an_approval(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = [["Wait ", {"pause": str(gate)}, CALL], ["Not then."]]
    with scripted(tmp_path, script, "--workspace", str(tmp_path)) as terminal:
        terminal.wait("tools ask")
        terminal.say("go")
        terminal.wait("  Wait")
        terminal.type("y")
        terminal.wait("› y")
        gate.touch()
        terminal.wait("approve?")
        terminal.wait("tab answers at once")
        terminal.type("\r")
        terminal.wait("› y   queued")
        terminal.wait("n no, go on")
        assert not (tmp_path / "ran").exists()
        terminal.answer("n")
        terminal.wait("not run")
        terminal.wait("Not then.")
        assert not (tmp_path / "ran").exists()


def test_an_approval_shows_the_call_and_runs_it_after_a_yes(tmp_path: Path) -> None:
    with scripted(tmp_path, [[CALL], ["Done."]], "--workspace", str(tmp_path)) as terminal:
        terminal.wait("tools ask")
        terminal.say("go")
        terminal.wait("touch ran")
        terminal.wait("n no, go on")
        terminal.answer("y")
        terminal.wait("Done.")
        assert "╏ approve?" in terminal.text
        assert "╎ run_shell" in terminal.text
        assert (tmp_path / "ran").exists()


def test_hostile_text_moves_nothing(tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;title\x07\x9b5A\x1bPq\x1b\\ end"
    script = [[{"thought": evil}, f"start {evil}\n\n```\n{evil}\n```\n"]]
    with scripted(tmp_path, script) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("go")
        terminal.wait("ctx ")
        for sign in (b"\x1b[2J", b"\x1b]0;title", b"\x1bP", b"\xc2\x9b"):
            assert sign not in terminal.output
        assert "ctrl+d leaves" in terminal.text


def test_another_size_in_the_middle_of_an_answer_loses_no_word(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    words = [f"word{number} " for number in range(60)]
    with scripted(tmp_path, [[*words[:30], {"pause": str(gate)}, *words[30:]]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("go")
        terminal.wait("word29")
        terminal.resize(20, 50)
        gate.touch()
        terminal.wait("ctx ")
        assert set(re.findall(r"word\d+", terminal.output.decode())) >= {word.strip() for word in words}


def test_no_color_keeps_weight_and_drops_colour(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Some **bold** `code`."]], NO_COLOR="1") as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("go")
        terminal.wait("ctx ")
        assert re.search(rb"\x1b\[[0-9;]*(3[0-7]|4[0-7]|38|48|9[0-7])[;m]", terminal.output) is None
        assert b"\x1b[1mbold\x1b[0m" in terminal.output


@pytest.mark.parametrize(
    ("flags", "environ"), [(("--plain",), {}), ((), {"ACCESSIBLE": "1"}), ((), {"TERM": "dumb"})]
)
def test_plain_is_words_only(tmp_path: Path, flags: tuple[str, ...], environ: dict[str, str]) -> None:
    script = [[{"thought": "hm"}, "Some **bold**.\n\n- a list\n"], [CALL], ["Not run."]]
    with scripted(tmp_path, script, *flags, "--workspace", str(tmp_path), **environ) as terminal:
        terminal.wait("you:")
        terminal.type("hi\n")
        terminal.wait("- a list")
        terminal.wait("you:", times=2)
        terminal.type("go\n")
        terminal.wait("approve? run_shell")
        terminal.wait("touch ran")
        terminal.wait("[n] no, go on")
        terminal.press_until("\n", "refused")
        terminal.wait("Not run.")
        terminal.wait("you:", times=3)
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert b"\x1b" not in terminal.output
        assert terminal.output.isascii()
        for words in ("scripted: Some **bold**.", "thought:", "tool: run_shell touch ran, refused"):
            assert words in terminal.text
        assert not (tmp_path / "ran").exists()


def test_a_signal_ends_it_in_good_order(tmp_path: Path) -> None:
    with scripted(tmp_path, []) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.child.kill(signal.SIGTERM)
        assert terminal.wait_end() == 143
        assert terminal.output.rstrip().endswith(b"\x1b[?2004l") or b"\x1b[?2004l" in terminal.output[-200:]


def test_what_was_written_before_a_kill_is_there_with_c(tmp_path: Path, isolated_home: Path) -> None:
    gate = tmp_path / "never"
    with scripted(tmp_path, [["The heron ", {"pause": str(gate)}, "flies"]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("tell me")
        terminal.wait("  The heron")
        store = isolated_home / ".local/share/fireside"

        def is_kept() -> bool:
            return any(b"The heron" in file.read_bytes() for file in store.rglob("*") if file.is_file())

        terminal.until(is_kept, "a checkpoint")
        os.kill(terminal.child.pid, signal.SIGKILL)
        terminal.wait_end()
    with scripted(tmp_path, [["Go on."]], "-c") as terminal:
        terminal.wait("› tell me")
        terminal.wait("The heron")
        terminal.wait("ctrl+d leaves")
        terminal.say("and then?")
        terminal.wait("Go on.")


def test_the_history_is_searched_and_outlives_the_process(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Yes."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("where is the heron")
        terminal.wait("ctx ")
        terminal.type("\x04")
        terminal.wait_end()
    with scripted(tmp_path, [["Yes again."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("\x12heron")
        terminal.until(lambda: "where is the heron" in terminal.text, "the found line")
        terminal.type("\r\r")
        terminal.wait("Yes again.")


def test_commands_are_completed(tmp_path: Path) -> None:
    with scripted(tmp_path, []) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("/appr")
        terminal.wait("what runs without asking")
        terminal.type("\t")
        terminal.until(lambda: "/approve" in terminal.row, "/approve")


def test_the_external_editor_writes_the_message(tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "edited text" > "$1"\n')
    editor.chmod(0o700)
    with scripted(tmp_path, [["Got it."]], EDITOR=str(editor)) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("draft")
        terminal.wait("› draft")
        terminal.type("\x18\x05")
        terminal.until(lambda: "› edited text" in terminal.row, "the edited text")
        terminal.type("\r")
        terminal.wait("Got it.")


def test_a_draft_outlives_a_kill(tmp_path: Path, isolated_home: Path) -> None:
    store = isolated_home / ".local/share/fireside"

    def is_kept() -> bool:
        return any(b"half a thought" in file.read_bytes() for file in store.rglob("*") if file.is_file())

    with scripted(tmp_path, [["Hello."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("hi")
        terminal.wait("ctx ")
        terminal.type("half a thought")
        terminal.until(is_kept, "the draft in the store")
        os.kill(terminal.child.pid, signal.SIGKILL)
        terminal.wait_end()
    with scripted(tmp_path, [], "-c") as terminal:
        terminal.until(lambda: "› half a thought" in terminal.row, "the draft")


def test_the_draft_of_a_first_message_outlives_a_kill(tmp_path: Path, isolated_home: Path) -> None:
    store = isolated_home / ".local/share/fireside"

    def is_kept() -> bool:
        return any(b"half a thought" in file.read_bytes() for file in store.rglob("*") if file.is_file())

    with scripted(tmp_path, []) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("half a thought")
        terminal.until(is_kept, "the draft in the store")
        os.kill(terminal.child.pid, signal.SIGKILL)
        terminal.wait_end()
    with scripted(tmp_path, [["Hello."]]) as terminal:
        terminal.until(lambda: "› half a thought" in terminal.row, "the draft")
        terminal.type("\r")
        terminal.wait("Hello.")


def test_what_was_sent_is_no_draft_any_more(tmp_path: Path, isolated_home: Path) -> None:
    store = isolated_home / ".local/share/fireside"

    def drafts() -> list[str]:
        with contextlib.closing(sqlite3.connect(next(store.glob("*.db")))) as chats:
            return [draft for (draft,) in chats.execute("SELECT draft FROM sessions")]

    with scripted(tmp_path, [["Hello."], ["Whole."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("hi")
        terminal.wait("ctx ")
        terminal.type("half a")
        terminal.until(lambda: drafts() == ["half a"], "the draft in the store")
        terminal.say(" thought")
        terminal.wait("Whole.")
        terminal.until(lambda: drafts() == [""], "no draft in the store")


def test_a_chat_that_is_open_elsewhere_is_refused_at_once(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Hello."]]) as first:
        first.wait("ctrl+d leaves")
        first.say("hi")
        first.wait("ctx ")
        with scripted(tmp_path, [], "-c") as second:
            second.wait("--fork")
            assert second.wait_end() == 1


def test_ctrl_z_leads_to_the_shell_and_back(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([["Hello."]]))
    with Terminal(["--norc", "-i"], program="bash", PS1="shell> ") as terminal:
        terminal.wait("shell>")
        terminal.type(f"{sys.executable} {SCRIPT} {script}\r")
        terminal.wait("ctrl+d leaves")
        terminal.type("\x1a")
        terminal.wait("Stopped")
        terminal.wait("shell>", times=2)
        terminal.type("fg\r")
        terminal.until(lambda: terminal.row == "›", "the prompt")
        terminal.say("hi")
        terminal.wait("Hello.")
        terminal.type("\x04")
        terminal.wait("shell>", times=3)


@pytest.mark.parametrize("first", ["", "trap '' INT; "])
def test_ctrl_c_ends_a_shell_line_and_not_the_chat(tmp_path: Path, first: str) -> None:
    with scripted(tmp_path, [["Hello."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say(f"!{first}touch {tmp_path}/began; sleep 60; touch {tmp_path}/went-on")
        terminal.until((tmp_path / "began").exists, "the command")
        terminal.type("\x03")
        terminal.wait("stopped by you")
        terminal.say("hi")
        terminal.wait("Hello.")
        assert not (tmp_path / "went-on").exists()


def test_ctrl_c_in_words_only(tmp_path: Path) -> None:
    gate = tmp_path / "never"
    with scripted(tmp_path, [["A long story ", {"pause": str(gate)}, "goes on"]], "--plain") as terminal:
        terminal.wait("/help")
        terminal.wait("you:")
        terminal.type("tell\n")
        terminal.wait("A long story")
        terminal.type("\x03")
        terminal.wait("Stopped. What was written is kept.")
        terminal.type("\x03")
        terminal.wait("again to quit")
        terminal.type("\x03")
        assert terminal.wait_end() == 0
        assert "fireside repl --resume" in terminal.text


def test_a_paste_in_words_only_waits_for_one_more_line_end(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Got it."]], "--plain") as terminal:
        terminal.wait("/help")
        terminal.wait("you:")
        terminal.type("first\nsecond\nthird\n")
        terminal.wait("[pasted 3 lines]")
        assert "scripted: " not in terminal.text
        terminal.type("\n")
        terminal.wait("scripted: Got it.")


@pytest.mark.parametrize("environ", [{"TERM": "linux"}, {"LC_ALL": "C"}])
def test_a_terminal_without_the_signs_gets_ascii(tmp_path: Path, environ: dict[str, str]) -> None:
    script = [[{"thought": "hm"}, "Some **bold**.\n\n> a quote\n\n---\n\n- a list\n"], [CALL], ["Not run."]]
    with scripted(tmp_path, script, "--workspace", str(tmp_path), **environ) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("hi")
        terminal.wait("ctx ")
        terminal.say("go")
        terminal.wait("approve?")
        terminal.wait("no, stop >")
        assert terminal.output.isascii()


def test_a_file_after_at_is_completed(tmp_path: Path) -> None:
    (tmp_path / "a-rare-name.txt").write_text("the heron is grey")
    with scripted(tmp_path, [["Grey."]], "--workspace", str(tmp_path)) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type("colour in @rare")
        terminal.wait("a-rare-name.txt")
        terminal.type("\t")
        terminal.until(lambda: "@a-rare-name.txt" in terminal.row, "the file")
        terminal.type("\r")
        terminal.wait("Grey.")
        assert "[a-rare-name.txt, 17 bytes]" in terminal.text


def test_a_private_chat_leaves_no_word_on_a_disk(tmp_path: Path, isolated_home: Path) -> None:
    with scripted(tmp_path, [["A marimba."], ["Yes."]], "--private") as terminal:
        terminal.wait("private")
        terminal.wait("ctrl+d leaves")
        terminal.say("is a xylophone")
        terminal.wait("A marimba.")
        terminal.wait("ctx ")
        terminal.say("!echo glockenspiel")
        terminal.wait("goes with your next message")
        terminal.say("and that?")
        terminal.wait("Yes.")
        terminal.type("vibraphone draft")
        terminal.wait("vibraphone draft")
        terminal.type("\x03")
        terminal.until(lambda: "vibraphone" not in terminal.row, "an empty row")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert "--resume" not in terminal.text
    kept = home_files(isolated_home)
    for word in ("xylophone", "marimba", "glockenspiel", "vibraphone"):
        assert word not in kept


def test_the_prompt_needs_little_of_the_program() -> None:
    code = (
        "import sys, app.cli.main, app.repl, app.repl.lines, app.repl.prompter;"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('textual', 'markdown_it', 'llama_cpp', 'httpx', 'pydantic', 'pygments', 'rich', 'tools', 'sqlite3')"
        " or name.startswith(('app.sessions', 'app.commands', 'backend'))])"
    )
    environ = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_field_of_one_line_keeps_all_that_is_pasted(tmp_path: Path) -> None:
    with scripted(tmp_path, [["Hello."]]) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("hi")
        terminal.wait("ctx ")
        terminal.say("/rename")
        terminal.wait("Title")
        terminal.type("\x15\x1b[200~one\rtwo\rthree\x1b[201~")
        terminal.until(lambda: terminal.row.endswith("one two three"), "one line")
        terminal.type("\r")
        terminal.wait("called one two three")
