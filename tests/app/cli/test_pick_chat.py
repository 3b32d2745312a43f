from __future__ import annotations

import os
from pathlib import Path

import pexpect
import pytest

from app.cli.main import with_bare_resume
from tests.app.process import COMMAND, fireside

SHORT = ("--max-tokens", "4", "--set", "ignore_eos=true")


@pytest.mark.parametrize(
    ("args", "rewritten"),
    [
        (["--resume"], ["--resume="]),
        (["--resume", "-p", "hi"], ["--resume=", "-p", "hi"]),
        (["-p", "hi", "--resume"], ["-p", "hi", "--resume="]),
        (["--resume", "tui"], ["--resume=", "tui"]),
        (["--resume", "abc", "-p", "hi"], ["--resume", "abc", "-p", "hi"]),
        (["--resume=abc"], ["--resume=abc"]),
        (["tools", "run", "x", "--", "--resume"], ["tools", "run", "x", "--", "--resume"]),
    ],
)
def test_a_bare_resume_is_told_from_one_with_an_id(args: list[str], rewritten: list[str]) -> None:
    assert with_bare_resume(args) == rewritten


@pytest.mark.timeout(60)
def test_without_a_person_a_bare_resume_is_a_usage_error(tiny_llama: Path) -> None:
    result = fireside("-m", tiny_llama, "-p", "hi", "--resume")
    assert result.returncode == 2
    assert b"--resume needs the id of a chat where nobody can choose" in result.stderr


@pytest.mark.timeout(120)
def test_a_person_chooses_a_chat_by_its_number(tiny_llama: Path) -> None:
    for text in ("first one", "second one"):
        assert fireside("-m", tiny_llama, "-p", text, *SHORT).returncode == 0
    arguments = [*COMMAND[1:], "-m", str(tiny_llama), "-p", "hi", "--resume", *SHORT]
    with pexpect.spawn(COMMAND[0], arguments, env={**os.environ, "TERM": "dumb"}, timeout=50) as child:  # type: ignore[arg-type]
        child.expect("1 .*second one.*2 .*first one.*Which one")
        child.sendline("7")
        child.expect("Which one")
        child.sendline("2")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
    listed = fireside("sessions", "list").stdout.decode()
    assert listed.index("first one") < listed.index("second one")  # it was changed last


@pytest.mark.timeout(60)
def test_with_no_chat_there_is_nothing_to_choose(tiny_llama: Path) -> None:
    line = f'exec "{COMMAND[0]}" "{COMMAND[1]}" -m "{tiny_llama}" --resume -p hi'
    with pexpect.spawn("bash", ["-c", line], timeout=50) as child:
        child.expect("There is no chat to continue")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 2
