from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from app.cli import main, session_commands
from app.sessions.manager import SessionManager
from backend.engines.scripted import ScriptedEngine

Cap = pytest.CaptureFixture[str]


def begin(*titles: str) -> list[str]:
    """Chats of those titles, each with a question and an answer; their ids."""

    async def make() -> list[str]:
        async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
            made: list[str] = []
            for title in titles:
                answer = f"say\x1b[31m {title}"
                texts = (("user", "input_text", f"ask {title}"), ("assistant", "output_text", answer))
                said: list[Any] = [
                    {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
                    for role, kind, text in texts
                ]
                made.append((await manager.create(title=title, initial_items=said)).id)
            return made

    return asyncio.run(make())


def out_of(capfd: Cap, *arguments: str) -> str:
    assert main.main(["sessions", *arguments]) == 0
    return capfd.readouterr().out


def test_without_chats_the_list_says_how_to_begin_one(capfd: Cap) -> None:
    assert "fireside -p" in out_of(capfd, "list")
    assert json.loads(out_of(capfd, "list", "--json")) == {"sessions": []}


def test_chats_are_listed_shown_and_found(capfd: Cap) -> None:
    [first, second] = begin("apples", "pears")
    lines = out_of(capfd, "list").splitlines()
    assert {line.split()[0] for line in lines[1:]} == {first, second}
    assert len(out_of(capfd, "list", "-n", "1").splitlines()) == 2
    text = out_of(capfd, "show", first[:16])
    assert "ask apples" in text and "say" in text
    told = json.loads(out_of(capfd, "show", first, "--json"))
    assert [item["role"] for item in told["items"]] == ["user", "assistant"]
    assert out_of(capfd, "search", "pears").split()[0] == second
    assert [hit["session_id"] for hit in json.loads(out_of(capfd, "search", "apples", "--json"))["hits"]] == [
        first,
        first,
    ]


def test_titles_and_hits_reach_no_terminal_unchecked(capfd: Cap) -> None:
    begin("red\x1b[31m\nline")
    assert "\x1b" not in out_of(capfd, "list") + out_of(capfd, "search", "say")
    assert len(out_of(capfd, "list").splitlines()) == 2


def test_an_export_can_be_imported(tmp_path: Path, capfd: Cap) -> None:
    [chat] = begin("apples")
    file = tmp_path / "chat.jsonl"
    assert main.main(["sessions", "export", chat, "-o", str(file)]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    [new] = json.loads(out_of(capfd, "import", str(file), "--json"))["ids"]
    assert new != chat
    assert "ask apples" in out_of(capfd, "show", new)


@pytest.mark.parametrize(
    ("form", "begins"), [("jsonl", '{"type": "fireside.session"'), ("markdown", "# "), ("html", "<!d")]
)
def test_a_chat_is_exported_in_each_form(capfd: Cap, form: str, begins: str) -> None:
    [chat] = begin("apples")
    assert out_of(capfd, "export", chat, "--format", form).startswith(begins)


def test_a_chat_is_renamed_and_copied(capfd: Cap) -> None:
    [chat] = begin("apples")
    assert main.main(["sessions", "rename", chat, "a new name"]) == 0
    copy = out_of(capfd, "fork", chat, "--title", "the copy").strip()
    assert {line.split(maxsplit=4)[4] for line in out_of(capfd, "list").splitlines()[1:]} == {
        "a new name",
        "the copy",
    }
    assert "ask apples" in out_of(capfd, "show", copy)


def test_deleting_asks_and_can_be_undone(monkeypatch: pytest.MonkeyPatch, capfd: Cap) -> None:
    [chat] = begin("apples")
    assert main.main(["sessions", "rm", chat]) == 1
    assert "--yes" in capfd.readouterr().err
    monkeypatch.setattr(session_commands, "agreed", lambda question: "apples" in question)
    assert main.main(["sessions", "rm", chat]) == 0
    capfd.readouterr()
    assert chat not in out_of(capfd, "list")
    assert main.main(["sessions", "rm", "--undo", chat]) == 0
    assert chat in out_of(capfd, "list")


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nope"],
        ["show", ""],
        ["show", "sess_"],
        ["export", "nope"],
        ["import", "/no/such/file"],
        ["rename", "nope", "x"],
        ["rm", "nope", "--yes"],
        ["rm", "nope", "--undo"],
    ],
)
def test_what_is_not_there_is_a_usage_error(capfd: Cap, arguments: list[str]) -> None:
    begin("apples", "pears")
    assert main.main(["sessions", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("fireside: ")


def test_an_unknown_form_is_a_usage_error(capfd: Cap) -> None:
    [chat] = begin("apples")
    assert main.main(["sessions", "export", chat, "--format", "xml"]) == 2
    assert "markdown" in capfd.readouterr().err
