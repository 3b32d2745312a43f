from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from app.cli import main
from app.cli.main import app
from app.cli.man_page import man_page
from app.cli.serve import SERVE
from app.demo.script import ACTIONS, STATES, read_demo
from app.doctor import engine
from app.exits import ExitCode, Failure
from app.help import topics as help_topics
from app.help.topics import SCHEMA_FILE, Topic, topic, topics
from app.oneshot import direct
from app.settings.config import resolve, table
from app.settings.mcp import servers
from app.settings.servers import servers as model_servers
from app.settings.table import KINDS
from app.tui.help_lists import help_lists
from app.tui.keys import KEYS, can_be_other, read_keymap
from backend.types import (
    ChatOutcome,
    ContextOverflowError,
    PrefillProgress,
    ReasoningPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
)
from tests.app.double import Double, says
from tests.app.process import COMMAND, fireside, shell

Cap = pytest.CaptureFixture[str]
SCHEMA: dict[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


def page(name: str) -> Topic:
    return topic(name, help_lists())


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "read_stdin", lambda **_: None)


@cache
def validator(*kinds: str) -> jsonschema.Draft202012Validator:
    """Of the whole schema, or of these definitions in it; a test checks that the schema is one."""
    narrowed = {"anyOf": [{"$ref": f"#/$defs/{kind}"} for kind in kinds]} if kinds else {}
    return jsonschema.Draft202012Validator({**SCHEMA, **narrowed})


def valid(kind: str, value: Any) -> None:
    validator(kind).validate(value)


# ---- pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", help_topics.NAMES)
def test_every_page_is_plain_in_a_pipe(name: str, capfd: Cap) -> None:
    assert main.main(["help", name]) == 0
    out = capfd.readouterr().out
    assert out == page(name).text
    assert out.startswith("# ")
    assert "<!--" not in out
    assert "\x1b" not in out


def test_there_is_a_page_for_every_file_and_none_else() -> None:
    assert {file.stem for file in help_topics.FOLDER.glob("*.md")} == set(help_topics.NAMES)
    assert [name for name, _ in topics()] == list(help_topics.NAMES)
    for name, title in topics():
        assert page(name).title == title


def test_the_keys_page_has_every_key_as_it_is_bound() -> None:
    text = topic("keys", help_lists({"retry": "f9"})).text
    for key in KEYS:
        assert f"| {key.own_help} |" in text
    assert "| `f9` | another variant |" in text
    assert "| `ctrl+r` |" not in text
    assert "`/approve [ask\\|read\\|all\\|none\\|plan]`" in text


def test_the_page_of_graphics_cards_shows_the_wheel_that_it_speaks_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "WHEEL_PYTHONS", (sys.version_info[:2],))
    text = page("gpu").text
    assert "CUDA 12.4" in text and "/whl/cu124 " in text
    assert text.count("--only-binary llama-cpp-python --extra-index-url") == len(engine.GPU_KINDS)


def test_the_settings_page_has_every_setting() -> None:
    text = page("config").text
    for key in KINDS:
        assert f"| `{key}` | " in text
    assert re.search(r"\| `generation.temperature` \| \w[^|]+ \| a number \| `FIRESIDE_TEMPERATURE` \|", text)
    meanings = re.findall(r"^\| `[\w.]+` \| ([^|]*) \|", text, re.MULTILINE)
    assert len(meanings) >= len(KINDS)
    assert all(meaning.strip() for meaning in meanings)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("generation.reasoning_format", "auto, on, none"),
        ("generation.overflow", "error, truncate_oldest"),
        ("generation.tool_choice", "auto, none, required"),
        ("load.tool_call_format", "generic"),
        ("approve", "ask, read, all, none, plan"),
    ],
)
def test_the_settings_page_lists_the_values_that_are_taken(key: str, values: str) -> None:
    row = next(line for line in page("config").text.splitlines() if line.startswith(f"| `{key}` |"))
    assert values in row


def test_the_exit_codes_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", page("pipes").text, re.MULTILINE)
    assert {int(code) for row in rows for code in row.split(",")} == set(ExitCode)


def test_a_misspelt_topic_names_the_nearest(capfd: Cap) -> None:
    assert main.main(["help", "key"]) == 2
    assert "Did you mean keys?" in capfd.readouterr().err
    with pytest.raises(Failure, match="There are keys, tools"):
        page("weather")


def test_without_a_topic_it_lists_them(capfd: Cap) -> None:
    assert main.main(["help"]) == 0
    out = capfd.readouterr().out
    assert all(name in out for name in help_topics.NAMES)


# ---- json ----------------------------------------------------------------------------------


def test_the_schema_is_one_and_is_printed(capfd: Cap) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert main.main(["help", "json", "--schema"]) == 0
    assert json.loads(capfd.readouterr().out) == SCHEMA
    assert main.main(["help", "keys", "--schema"]) == 2


def outcome(**fields: Any) -> ChatOutcome:
    return ChatOutcome(finish="stop", prompt_tokens=9, new_tokens=2, text="Hello", **fields)


PLAYS: dict[str, Any] = {
    "plain": says("Hello", " there."),
    "thought": lambda config: [ReasoningPiece("Hm."), TextPiece("Hello"), outcome(reasoning="Hm.")],
    "call": lambda config: [
        PrefillProgress(1, 9, 0),
        ToolCallPiece(0, "now", ""),
        ToolCallPiece(0, None, "{}"),
        ToolCall("call_1", "now", {}, "{}", None),
        outcome(tool_calls=(ToolCall("call_1", "now", {}, "{}", None),)),
    ],
    "broken": lambda config: [TextPiece("Hel"), RuntimeError("boom")],
    "overflow": lambda config: [ContextOverflowError(needed=9, available=4)],
    "cut": says("{", finish="length"),
}


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("play", sorted(PLAYS))
@pytest.mark.parametrize(
    "flags",
    [[], ["--replies", "2"], ["--private"], ["--schema", '{"type": "object"}'], ["--dry-run"]],
    ids=str,
)
def test_all_that_is_printed_satisfies_the_schema(
    form: str, play: str, flags: list[str], double: Double, capfd: Cap
) -> None:
    double.play = PLAYS[play]
    code = main.main(["-p", "hi", "--format", form, *flags])
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    for line in lines:
        valid(form, line)
        validator().validate(line)
    if "--dry-run" in flags:
        assert [set(line) for line in lines] == [{"prompt", "tokens", "max_seq", "model"}]
        return
    last = lines[-1]
    assert last.get("exit", 0) == code
    if form == "json":
        assert len(lines) == 1
        valid("failure" if "error" in last else "answer", last)
    else:
        assert last["type"] in ("done", "error")
        assert all(line["type"] not in ("done", "error") for line in lines[:-1])


@pytest.mark.parametrize("arguments", [["-p", ""], ["--bogus"], ["-p", "x", "--temperature", "hot"]])
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_usage_error_satisfies_the_schema(form: str, arguments: list[str], capfd: Cap) -> None:
    assert main.main([*arguments, "--format", form]) == 2
    [line] = capfd.readouterr().out.splitlines()
    valid(form, json.loads(line))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_turn_with_tools_satisfies_the_schema(form: str, tiny_llama: Path) -> None:
    flags = (
        "--tools",
        "now",
        "--tool-format",
        "generic",
        "--max-turns",
        "1",
        "--max-tokens",
        "8",
        "--format",
        form,
    )
    result = fireside("-m", tiny_llama, "-p", "hi", *flags)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines
    for line in lines:
        valid(form, line)
    if form == "jsonl":
        assert {line["type"] for line in lines} >= {"response.created", lines[-1]["type"]}
        assert lines[-1]["type"] in ("done", "error")


def test_the_fields_of_the_page_are_those_of_the_schema() -> None:
    text = page("json").text
    for name in SCHEMA["$defs"]["answer"]["properties"]:
        assert f"`{name}`" in text, name
    for kind in ("usage", "timings", "error"):
        for name in SCHEMA["$defs"][kind]["properties"]:
            assert f"`{name}`" in text, name


# ---- the manual page and shells ------------------------------------------------------------


def test_the_manual_page_has_every_flag_and_command(capfd: Cap) -> None:
    assert main.main(["help", "--man"]) == 0
    page = capfd.readouterr().out
    for name in (
        r"\-\-temperature",
        r"\-\-think, \-\-no\-think",
        r"fireside models pull",
        r"fireside doctor",
    ):
        assert name in page
    for section in ("NAME", "SYNOPSIS", "OPTIONS", "COMMANDS", "EXIT STATUS"):
        assert f".SH {section}\n" in page
    if shutil.which("groff"):
        drawn = subprocess.run(
            ["groff", "-man", "-ww", "-Tutf8"], input=page.encode(), capture_output=True, check=True
        )
        assert drawn.stderr == b""
        assert b"fireside - chat with a model" in re.sub(rb"\x1b\[[\d;]*m|.\x08", b"", drawn.stdout)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds the command."""
    command = tmp_path / "bin" / "fireside"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{COMMAND[0]}" "{COMMAND[1]}" "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}


ASK = {
    # what completes a line by itself, as the shell would when tab is pressed at its end
    "bash": """
        source <(fireside completion bash)
        COMP_WORDS=({line}); COMP_CWORD={last}
        _fireside_completion fireside
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "fish": "fireside completion fish | source; complete --do-complete 'fireside {tail}'",
    "zsh": """
        compdef() {{ }}; _files() {{ }}; _arguments() {{ print -r -- "$@" }}
        eval "$(fireside completion zsh)"
        words=({line}); CURRENT={current}
        _fireside_completion
    """,
}
LINES = [
    ("mod", "models"),
    ("models pu", "pull"),
    ("--no-inst", "--no-instructions"),
    ("help pi", "pipes"),
    ("--approve pl", "plan"),
    ("--format jsonl", "jsonl"),
]
"""What was typed, and a word it is completed to."""


def offered(output: str) -> list[str]:
    return re.split(r"[\s:\"'()]+", output)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("words", "expected"), LINES)
@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_command_answers_a_shell(name: str, words: str, expected: str) -> None:
    asked = {
        "_FIRESIDE_COMPLETE": f"complete_{name}",
        "_TYPER_COMPLETE_ARGS": f"fireside {words}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": f"fireside {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    assert expected in offered(fireside(env={**os.environ, **asked}).stdout.decode())


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("words", "expected"), LINES)
@pytest.mark.parametrize("name", sorted(ASK))
def test_a_shell_completes_a_line(name: str, words: str, expected: str, installed: dict[str, str]) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    last = len(words.split())
    program = ASK[name].format(line=f"fireside {words}", tail=words, last=last, current=last + 1)
    result = subprocess.run([name, "-c", program], env=installed, capture_output=True, text=True, timeout=50)
    assert expected in offered(result.stdout), result.stdout + result.stderr


@pytest.mark.timeout(60)
def test_a_shell_completes_profiles_and_models(installed: dict[str, str], tiny_llama: Path) -> None:
    folder = Path(installed["XDG_CONFIG_HOME"]) / "fireside" / "profiles"
    folder.mkdir(parents=True)
    (folder / "poet.toml").write_text("")
    environ = {**installed, "FIRESIDE_MODEL": str(tiny_llama), "_FIRESIDE_COMPLETE": "complete_bash"}
    for words, expected in (("--profile po", "poet"), ("--model tiny-l", "tiny-llama")):
        asked = {**environ, "COMP_WORDS": f"fireside {words}", "COMP_CWORD": "2"}
        assert fireside(env=asked).stdout.decode().split() == [expected]


def test_completion_is_refused_for_other_shells(capfd: Cap) -> None:
    assert main.main(["completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capfd.readouterr().err
    assert shell("$FIRESIDE completion bash | bash -n").returncode == 0


# ---- what the pages show can be done --------------------------------------------------------


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page(name).text, re.MULTILINE | re.DOTALL)


def test_the_settings_that_pages_show_are_settings(tmp_path: Path) -> None:
    shown = [*blocks("config", "toml"), *blocks("tools", "toml"), *blocks("keys", "toml")]
    assert len(shown) == 4
    for index, text in enumerate(shown):
        file = tmp_path / f"{index}.toml"
        file.write_text(text, encoding="utf-8")
        resolve({}, environ={}, file=file)
        servers(file=file)
        assert model_servers(file=file).known.keys() == ({"lab"} if "[servers" in text else set())
        assert read_keymap(table("keys", file))[1] == []


def test_the_demo_that_a_page_shows_is_one(tmp_path: Path) -> None:
    [text] = blocks("demos", "toml")
    (tmp_path / "first.toml").write_text(text, encoding="utf-8")
    demo = read_demo(tmp_path / "first.toml")
    assert [step.action for step in demo.steps] == ["type", "press", "wait", "expect", "screenshot"]
    for word in (*STATES, *ACTIONS):
        assert f"`{word}`" in page("demos").text or word in text


def test_the_tool_that_a_page_shows_is_one(tmp_path: Path) -> None:
    [text] = blocks("tools", "python")
    (tmp_path / "my_tools.py").write_text(text, encoding="utf-8")
    (tmp_path / "a.txt").write_text("three little words")
    call = ("tools", "run", "./my_tools.py", f"path={tmp_path / 'a.txt'}", "--workspace", tmp_path, "--yes")
    assert fireside(*call, cwd=tmp_path).stdout == b"3\n"


def test_the_flags_that_pages_name_are_there() -> None:
    told = {flag for name in help_topics.NAMES for flag in re.findall(r"`(--[a-z-]+)", page(name).text)}
    manual = re.sub(r"\\f.", " ", man_page(app)).replace("\\", "")
    known = {*re.findall(r"--[a-z-]+", manual), "--schema", "--man", "--test", "--svg", "--cast", "--speed"}
    known |= {spelling for flag in SERVE for spelling in flag.names}
    assert told <= known


@pytest.mark.model
@pytest.mark.timeout(120)
def test_the_script_of_the_python_page_runs(starter_model: Path, tmp_path: Path) -> None:
    [text] = blocks("api", "python")
    environ = {**os.environ, "PYTHONPATH": str(Path(COMMAND[1]).parent)}
    result = subprocess.run(
        [COMMAND[0], "-c", text], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_each_key_of_the_page_is_told_by_what_it_does_itself() -> None:
    told: dict[str, list[str]] = {}
    for key in KEYS:
        if can_be_other(key):
            told.setdefault(f"{key.where} {key.own_help}", []).append(key.name)
    twice = {does: names for does, names in told.items() if len(names) > 1}
    assert twice == {"app this page": ["help_always", "help"]}
    rows = {key.name: key.own_help for key in KEYS}
    assert "tokens" not in rows["block_retry"] and "code" not in rows["block_copy"]
    assert "thinking" not in rows["block_edit"]
    assert "| `[` | the variant before | variant_before |" in help_lists()["keys"]()
