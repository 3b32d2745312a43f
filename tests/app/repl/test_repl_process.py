from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.app.process import COMMAND, fireside
from tests.app.repl.terminal import fireside_repl

pytestmark = pytest.mark.timeout(120)


def test_a_chat_by_keys(tiny_llama: Path) -> None:
    flags = ("-m", tiny_llama, "--max-tokens", "4", "--ctx", "256", "--set", "ignore_eos=true")
    with fireside_repl(*flags) as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("hi")
        terminal.wait("ctx ")
        terminal.say("/usage")
        terminal.wait("4 written")
        terminal.type("\x04")
        assert terminal.wait_end() == 0


def test_a_message_too_long_leaves_the_error_in_view(tiny_llama: Path) -> None:
    with fireside_repl("-m", tiny_llama, "--max-tokens", "4", "--ctx", "256") as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.type(f"\x1b[200~{'word ' * 400}end\x1b[201~")
        terminal.wait("[pasted")
        terminal.type("\r")
        # Whoever is asked what to leave out can leave all as it is.
        terminal.wait("leave out the oldest turns")
        terminal.answer("3")
        terminal.wait("/retry sends it again")
        assert "room for 256" in " ".join(terminal.text.split())
        terminal.type("\x04")
        assert terminal.wait_end() == 0


def test_a_model_that_is_not_there_leaves_a_chat_that_says_so() -> None:
    with fireside_repl("-m", Path("/nowhere/none.gguf")) as terminal:
        terminal.wait("none.gguf")
        terminal.say("/help quit")
        terminal.wait("also /exit")
        terminal.type("\x04")
        assert terminal.wait_end() == 0


def test_lines_from_a_pipe_are_answered(tiny_llama: Path) -> None:
    result = fireside("repl", "-m", tiny_llama, "--max-tokens", "4", input=b"one\ntwo\n")
    assert result.returncode == 0
    assert result.stdout.count(b"tiny-llama: ") == 2
    assert b"\x1b" not in result.stdout


def test_piped_lines_that_all_fail_are_a_failure(tiny_llama: Path) -> None:
    line = b"word " * 400
    result = fireside("repl", "-m", tiny_llama, "--ctx", "256", input=line + b"\n" + line)
    assert result.returncode == 4
    assert result.stderr.count(b"room for 256") == 2
    assert b"room for 256" not in result.stdout


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bytes_that_are_no_text_are_replaced(tiny_llama: Path, locale: str) -> None:
    environ = {**os.environ, "LC_ALL": locale}
    line = b"caf\xe9 \xff\n"
    result = fireside("repl", "-m", tiny_llama, "--max-tokens", "4", input=line, env=environ)
    assert result.returncode == 0
    assert b"Traceback" not in result.stderr


def test_an_empty_input_ends_by_itself_without_being_busy(tiny_llama: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [*COMMAND, "repl", "-m", str(tiny_llama)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 10


@pytest.mark.model
def test_ctrl_c_stops_the_reply_and_the_chat_goes_on(starter_model: Path) -> None:
    with fireside_repl("-m", starter_model, "--set", "ignore_eos=true") as terminal:
        terminal.wait("ctrl+d leaves")
        terminal.say("Tell a long story.")
        terminal.until(lambda: len(terminal.text.partition("Tell a long story.")[2]) > 80, "some words")
        terminal.type("\x03")
        terminal.wait("Stopped. What was written is kept.")
        terminal.say("/usage")
        terminal.wait("last reply")
        terminal.type("\x04")
        assert terminal.wait_end() == 0
        assert "fireside repl --resume" in terminal.text


def test_an_embedding_model_is_refused_in_words(tiny_embedding: Path) -> None:
    result = fireside("repl", "-m", tiny_embedding, input=b"hello\n")
    said = (result.stdout + result.stderr).decode()
    assert result.returncode == 3
    assert f"{tiny_embedding.stem} is an embedding model and cannot write text." in said
    assert "Traceback" not in said
    assert "ValueError" not in said
