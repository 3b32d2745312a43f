from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.app.process import COMMAND, fireside

pytestmark = pytest.mark.timeout(120)


def spawn(model: Path, *arguments: str, **environ: str) -> pexpect.spawn[bytes]:
    command = [*COMMAND[1:], "repl", "-m", str(model), *arguments]
    variables = {**os.environ, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", **environ}
    return pexpect.spawn(COMMAND[0], command, env=variables, timeout=60, dimensions=(24, 80))  # type: ignore[arg-type]


@pytest.fixture
def chat(tiny_llama: Path) -> Iterator[pexpect.spawn[bytes]]:
    with spawn(tiny_llama, "--max-tokens", "4", "--ctx", "256", "--set", "ignore_eos=true") as child:
        child.expect_exact("Ctrl-D leaves.")
        child.expect_exact(">")
        yield child


def test_a_chat_by_keys(chat: pexpect.spawn[bytes]) -> None:
    chat.send("hi\r")
    chat.send("/usage\r")
    chat.expect("4 new")
    chat.send("\x04")
    chat.expect(pexpect.EOF)
    chat.wait()
    assert chat.exitstatus == 0


def test_a_message_too_long_leaves_the_error_in_view(chat: pexpect.spawn[bytes]) -> None:
    chat.send(f"{'word ' * 400}end\r")
    chat.expect("holds 256")
    chat.expect_exact("/retry sends it")
    chat.expect_exact(">")
    chat.send("/usage\r")
    chat.expect_exact("There is no reply yet.")
    chat.expect_exact(">")
    chat.send("\x1b[A\x1b[A")
    chat.expect_exact("end")
    chat.send("\x03\x03")
    chat.expect_exact("once more")
    chat.expect_exact(">")
    chat.send("\x03")
    chat.expect(pexpect.EOF)
    chat.wait()
    assert chat.exitstatus == 0


def test_terminating_it_exits_143(chat: pexpect.spawn[bytes]) -> None:
    chat.kill(signal.SIGTERM)
    chat.expect(pexpect.EOF)
    chat.wait()
    assert chat.exitstatus == 143


def test_a_dumb_terminal_gets_no_control_codes(tiny_llama: Path) -> None:
    with spawn(tiny_llama, "--max-tokens", "4", TERM="dumb") as child:
        child.expect_exact("you: ")
        child.send("hi\n")
        child.expect_exact("you: ")
        seen = child.before
        child.send("\x04")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
    assert b"model: " in seen
    assert b"\x1b" not in seen


def test_lines_from_a_pipe_are_answered(tiny_llama: Path) -> None:
    result = fireside("repl", "-m", tiny_llama, "--max-tokens", "4", input=b"one\ntwo\n")
    assert result.returncode == 0
    assert result.stdout.count(b"model: ") == 2


def test_piped_lines_that_all_fail_are_a_failure(tiny_llama: Path) -> None:
    line = b"word " * 400
    result = fireside("repl", "-m", tiny_llama, "--ctx", "256", input=line + b"\n" + line)
    assert result.returncode == 4
    assert result.stderr.count(b"holds 256") == 2
    assert b"holds 256" not in result.stdout


@pytest.mark.model
def test_ctrl_c_stops_the_reply_and_the_chat_goes_on(starter_model: Path) -> None:
    with spawn(starter_model, "--set", "ignore_eos=true", "--plain") as child:
        child.expect_exact("you: ")
        child.send("Tell a long story.\n")
        child.expect("model: \\S+ \\S+")
        child.sendintr()
        child.expect_exact("Stopped.")
        child.expect_exact("you: ")
        child.send("/quit\n")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
