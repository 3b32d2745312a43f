from __future__ import annotations

import json
import os
import pty
from pathlib import Path

import pytest

from app import paths
from app.cli import main, tool_commands
from app.terminal import confirm
from tests.app.process import start
from tools.sandbox.aside import Aside

Cap = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "space"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def put_tool(path: Path, name: str, *, prologue: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(
        f"{prologue}\nfrom tools import tool\n\n@tool(does='nothing')\ndef {name}(count: int = 1) -> str:\n"
        f'    """Say {name}.\n\n    Args:\n        count: How often.\n    """\n    return "{name} " * count\n'
    )
    return path


def test_the_list_names_what_each_tool_does(capfd: Cap) -> None:
    assert main.main(["tools", "list"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "DOES", "FROM", "WHAT"]
    assert any(line.split()[:3] == ["run_shell", "execute", "built-in"] for line in lines)


def test_listing_loads_no_tool(space: Path, capfd: Cap) -> None:
    ran = space / "ran"
    trap = f"open({str(ran)!r}, 'w').close()"
    put_tool(paths.config_file().parent / "tools" / "mine.py", "mine", prologue=trap)
    put_tool(space / ".fireside" / "tools" / "theirs.py", "theirs", prologue=trap)
    assert main.main(["tools", "list", "--json"]) == 0
    out, err = capfd.readouterr()
    listed = {one["name"]: one for one in json.loads(out)["tools"]}
    assert listed["mine"]["trusted"] and not listed["theirs"]["trusted"]
    assert "not trusted" in err
    assert not ran.exists()


def test_names_of_files_reach_no_terminal_unchecked(space: Path, capfd: Cap) -> None:
    put_tool(space / ".fireside" / "tools" / "theirs.py", "theirs")
    file = space / ".fireside" / "tools" / "theirs.py"
    file.write_text(file.read_text().replace("Say theirs", "\\x1b[31mred"))
    assert main.main(["tools", "list"]) == 0
    assert "\x1b" not in capfd.readouterr().out


@pytest.mark.parametrize("command", [["show", "theirs"], ["run", "theirs"]])
def test_an_untrusted_projects_tool_is_neither_loaded_nor_run(
    space: Path, capfd: Cap, command: list[str]
) -> None:
    ran = space / "ran"
    put_tool(
        space / ".fireside" / "tools" / "theirs.py", "theirs", prologue=f"open({str(ran)!r}, 'w').close()"
    )
    assert main.main(["tools", *command]) == 2
    assert "not trusted" in capfd.readouterr().err
    assert not ran.exists()


def test_a_tool_is_shown_with_its_arguments(capfd: Cap) -> None:
    assert main.main(["tools", "show", "calculate"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("calculate (built-in; nothing)") and "expression (string)" in out
    assert main.main(["tools", "show", "calculate", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["parameters"]["required"] == ["expression"]


@pytest.mark.parametrize("arguments", [["expression=6*7"], ['{"expression": "6*7"}']])
def test_a_tool_is_run_by_hand(capfd: Cap, arguments: list[str]) -> None:
    assert main.main(["tools", "run", "calculate", *arguments]) == 0
    assert capfd.readouterr().out == "42\n"
    assert main.main(["tools", "run", "calculate", *arguments, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["status"], told["output"]) == ("done", "42")


def test_a_file_of_ones_own_is_run_by_its_path(space: Path, capfd: Cap) -> None:
    put_tool(space / "mine.py", "mine")
    assert main.main(["tools", "run", "./mine.py", "count=2"]) == 0
    assert capfd.readouterr().out == "mine mine \n"


def test_wrong_arguments_fail_and_say_why(capfd: Cap) -> None:
    assert main.main(["tools", "run", "calculate", "expresion=1"]) == 1
    assert "expression" in capfd.readouterr().out
    assert main.main(["tools", "run", "calculate", "1+1"]) == 2
    assert "KEY=VALUE" in capfd.readouterr().err


def test_an_unknown_tool_is_a_usage_error_with_what_is_near(capfd: Cap) -> None:
    assert main.main(["tools", "show", "calculat"]) == 2
    assert "calculate" in capfd.readouterr().err


def test_what_every_mode_asks_about_needs_a_yes(
    space: Path, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    call = ["tools", "run", "write_file", "path=.git/hooks/x", "content=y"]
    assert main.main(call) == 5
    assert "becomes code" in capfd.readouterr().err
    assert not (space / ".git").exists()
    asked: list[str] = []
    monkeypatch.setattr(tool_commands, "agreed", lambda question: not asked.append(question))
    assert main.main(call) == 0
    assert ".git/hooks/x" in asked[0] and "+y" in asked[0]
    assert (space / ".git" / "hooks" / "x").read_text() == "y"
    assert main.main([*call, "--yes"]) == 0
    assert len(asked) == 1


def test_firesides_own_files_stay_out_of_reach(capfd: Cap) -> None:
    secret = paths.make_private_dir(paths.data_dir()) / "chats.db"
    secret.write_text("secret")
    assert main.main(["tools", "run", "read_file", f"path={secret}", "--yes"]) == 1
    assert "secret" not in capfd.readouterr().out


def test_nobody_at_the_terminal_means_no() -> None:
    assert not confirm.agreed("Really?")


def trusted_now(capfd: Cap) -> bool:
    capfd.readouterr()
    assert main.main(["tools", "list", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capfd.readouterr().out)["tools"]}
    return bool(listed["theirs"]["trusted"])


def test_a_project_is_trusted_once_by_whoever_has_seen_its_files(
    space: Path, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    file = put_tool(space / ".fireside" / "tools" / "theirs.py", "theirs")
    asked: list[str] = []
    monkeypatch.setattr(tool_commands, "agreed", lambda question: not asked.append(question))
    assert main.main(["tools", "trust"]) == 0
    assert "theirs.py" in asked[0] and "+def theirs" in asked[0]
    assert trusted_now(capfd)
    assert main.main(["tools", "run", "theirs"]) == 0
    assert capfd.readouterr().out == "theirs \n"
    assert main.main(["tools", "trust", str(space)]) == 0
    assert len(asked) == 1
    file.write_text(file.read_text() + "print('other')\n")
    assert not trusted_now(capfd)
    assert main.main(["tools", "trust"]) == 0
    assert "+print('other')" in asked[1] and "changed" in asked[1]
    assert trusted_now(capfd)
    assert main.main(["tools", "trust", "--revoke"]) == 0
    assert not trusted_now(capfd)


def test_nobody_at_the_terminal_trusts_nothing(space: Path, capfd: Cap) -> None:
    put_tool(space / ".fireside" / "tools" / "theirs.py", "theirs")
    assert main.main(["tools", "trust"]) == 5
    assert not trusted_now(capfd)


def test_trust_follows_the_real_path(space: Path, monkeypatch: pytest.MonkeyPatch, capfd: Cap) -> None:
    put_tool(space / ".fireside" / "tools" / "theirs.py", "theirs")
    (space.parent / "link").symlink_to(space)
    monkeypatch.setattr(tool_commands, "agreed", lambda question: True)
    assert main.main(["tools", "trust", str(space.parent / "link")]) == 0
    assert trusted_now(capfd)


def test_a_project_without_files_has_nothing_to_trust(space: Path, capfd: Cap) -> None:
    assert main.main(["tools", "trust"]) == 2
    assert "has nothing to trust" in capfd.readouterr().err
    assert main.main(["tools", "trust", "nowhere"]) == 2


def test_a_person_answers_at_the_terminal(space: Path, capfd: Cap) -> None:
    put_tool(space / ".fireside" / "tools" / "theirs.py", "theirs", prologue="# \x1b[2J")
    for answer, code in ((b"no\n", 5), (b"y\n", 0)):
        ours, theirs = pty.openpty()
        with start("tools", "trust", cwd=space, stdin=theirs, stderr=theirs) as process:
            os.close(theirs)
            shown = b""
            while b"[y/N]" not in shown:
                shown += os.read(ours, 4096)
            assert b"+def theirs" in shown and b"\x1b" not in shown
            os.write(ours, answer)
            assert process.wait() == code
        os.close(ours)
        assert trusted_now(capfd) == (code == 0)


# ---- what was moved aside ------------------------------------------------------------------


def put_aside(space: Path, text: str) -> None:
    (space / ".envrc").write_text(text)
    Aside(paths.data_dir() / "aside").take(space, space / ".envrc", "made")


def test_what_was_moved_aside_is_listed_shown_put_back_and_deleted(space: Path, capfd: Cap) -> None:
    assert main.main(["tools", "aside"]) == 0
    assert "nothing was moved aside" in capfd.readouterr().err
    for text in ("one\x1b[31m", "two"):
        put_aside(space, text)
    assert main.main(["tools", "aside", "--json"]) == 0
    first, second = json.loads(capfd.readouterr().out)["aside"]
    assert main.main(["tools", "aside"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].split() == ["N", "ID", "FILE", "WHAT", "WHEN", "WORKSPACE"]
    assert lines[1].split()[:4] == ["1", first["id"], ".envrc", "made"]
    assert main.main(["tools", "aside", "show", "1"]) == 0
    assert capfd.readouterr().out == "one[31m\n"
    # Nobody at the terminal says yes.
    assert main.main(["tools", "aside", "allow", "1"]) == 5
    assert not (space / ".envrc").exists()
    assert main.main(["tools", "aside", "allow", first["id"], "--yes"]) == 0
    assert (space / ".envrc").read_text() == "one\x1b[31m"
    assert main.main(["tools", "aside", "allow", second["id"], "--yes"]) == 1
    assert "already exists" in capfd.readouterr().err
    assert main.main(["tools", "aside", "drop", second["id"]]) == 0
    assert Aside(paths.data_dir() / "aside").all() == []


@pytest.mark.parametrize("arguments", [["allow"], ["show"], ["grant", "1"]])
def test_moving_back_needs_to_be_told_what(arguments: list[str], capfd: Cap) -> None:
    assert main.main(["tools", "aside", *arguments]) == 2
