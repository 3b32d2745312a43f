"""Names, titles, paths and errors that somebody else chose forge no line, and hide nothing, anywhere."""

from __future__ import annotations

import io
import json
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import paths
from app.cli import main
from app.cli.table import table
from app.markdown.sgr import TerminalStyle
from app.oneshot import sinks
from app.sessions.items import FunctionCall, user_message
from app.sessions.store.rows import Change, SessionRecord
from app.sessions.store.store import Store
from app.terminal.output import escape_json, notify, one_line, title_sequence
from tests import tiny_gguf
from tests.app.process import COMMAND
from tests.app.terminal_process import Terminal

FORGED = "ok\r\nfireside: FORGED\x1b[2K\u202egpj\u2066\x85\x9b31m\x7f\u2028\tx"
ANY_TEXT = st.text(st.characters(codec=None))
UNSEEN = ("Cc", "Cf", "Zl", "Zp", "Cs")


def is_clean(text: str) -> bool:
    """No control but the ends of lines, no mark of direction, and no line that begins as ours do."""
    lines = text.split("\n")
    return not any(line.lstrip().startswith("fireside: FORGED") for line in lines) and not any(
        unicodedata.category(char) in ("Cc", "Zl", "Zp") or char in "\u202e\u2066" for char in "".join(lines)
    )


# ---- JSON ----------------------------------------------------------------------------------


@given(ANY_TEXT)
def test_json_for_a_terminal_reads_back_the_same_and_shows_every_character(text: str) -> None:
    whole = sinks.clean_text(json.dumps({"text": text}, ensure_ascii=False))
    shown = escape_json(whole)
    assert json.loads(shown) == json.loads(whole)
    assert not any(unicodedata.category(char) in UNSEEN for char in shown)
    assert not any("\x7f" <= char <= "\x9f" for char in shown)


def test_json_in_a_pipe_is_as_it_was() -> None:
    out = io.StringIO()
    sinks.write_json(out, {"text": "a\u202e\x9b\u2028b"})
    assert out.getvalue() == '{"text": "a\u202e\x9b\u2028b"}\n'


@pytest.mark.timeout(100)
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_terminal_gets_no_json_that_it_obeys(tmp_path: Path, form: str) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from app.oneshot.sinks import Answer, JsonLinesSink, JsonSink, ReplySoFar\n"
        "from backend.types import TextPiece\n"
        "sink = {'json': JsonSink, 'jsonl': JsonLinesSink}[sys.argv[2]](sys.stdout)\n"
        "text = 'a' + ''.join(map(chr, (0x9b, 0x7f, 0x202e, 0x2028, 0x200b, 0xe0041))) + 'b'\n"
        "sink.take(TextPiece(text))\n"
        "sink.end(Answer([ReplySoFar(text)], 'm'))\n"
    )
    command = [COMMAND[0], "-c", script, str(Path(COMMAND[1]).parent), form]
    with Terminal(command, dict(os.environ), columns=400) as screen:
        assert screen.wait() == 0
        told = bytes(screen.raw).decode()
    assert not any(unicodedata.category(char) in UNSEEN for char in told.replace("\r\n", ""))
    read = [json.loads(line) for line in told.splitlines() if line]
    assert read[-1]["text"] == "a\x9b\x7f\u202e\u2028\u200b\U000e0041b"


# ---- one line ------------------------------------------------------------------------------


@given(ANY_TEXT)
def test_one_line_is_one(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1 and not any(unicodedata.category(char) == "Cc" for char in line)
    assert one_line(line) == line


@given(st.lists(st.lists(ANY_TEXT, min_size=2, max_size=2), min_size=1, max_size=5))
def test_a_table_has_a_line_for_each_row(rows: list[list[str]]) -> None:
    assert len("\n".join(table(rows)).splitlines() or [""]) <= len(rows)
    assert len(table(rows)) == len(rows)


def test_the_columns_of_a_table_stand_below_each_other_in_wide_letters_too() -> None:
    assert table([["語語", "x"], ["abcd", "y"], ["👨\u200d👩", "z"]]) == [
        "語語  x",
        "abcd  y",
        "👨\u200d👩    z",
    ]


def test_a_notice_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    notify(FORGED)
    told = capsys.readouterr().err
    assert told.startswith("fireside: ok fireside: FORGED") and told.count("\n") == 1 and is_clean(told[9:])


def test_a_title_is_one_line() -> None:
    sequence = title_sequence(FORGED, {"TERM": "xterm"})
    assert is_clean(sequence[4:-1]) and "\n" not in sequence


# ---- what the commands print ---------------------------------------------------------------


@pytest.fixture
def strange_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "data"))
    folder = paths.make_private_dir(paths.data_dir() / "models")
    return tiny_gguf.make_model(
        folder / f"{FORGED.replace('/', '')}.gguf",
        metadata={"general.name": FORGED, "general.license": FORGED},
    )


async def strange_chat() -> str:
    store = Store.default()
    record = SessionRecord(id="sess_strange", agent={"name": "fireside"}, title=FORGED, status="idle")
    await store.add_session(record)
    await store.apply(
        record.id, Change(items=[user_message(f"needle {FORGED}"), FunctionCall(name=FORGED, call_id="c")])
    )
    await store.close()
    return record.id


def lines_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    main.main(arguments)
    told = capsys.readouterr()
    return told.out + told.err.replace("fireside: ", "", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        lambda model: ["models", "list"],
        lambda model: ["models", "info", str(model)],
        lambda model: ["models", "plan", str(model)],
        lambda model: ["models", "use", str(model)],
        lambda model: ["config", "show"],
        lambda model: ["doctor"],
        lambda model: ["models", "info", FORGED],
        lambda model: ["-p", "x", "--model", f"none {FORGED}"],
        lambda model: ["-p", "x", "--profile", FORGED],
        lambda model: ["-p", "x", "--set", FORGED],
        lambda model: ["-p", "x", "--tools", FORGED],
        lambda model: ["themes", FORGED],
        lambda model: ["help", FORGED],
        lambda model: [FORGED],
        lambda model: ["sessions", "show", FORGED],
        lambda model: ["sessions", "rm", FORGED],
        lambda model: ["tools", "show", FORGED],
        lambda model: ["-p", "x", "-f", FORGED],
        lambda model: ["-p", "x", "--workspace", FORGED],
        lambda model: ["demo", FORGED],
        lambda model: ["config", "set", FORGED, "1"],
        lambda model: ["bench", FORGED],
    ],
)
def test_no_command_prints_a_line_that_a_name_forged(
    strange_model: Path, arguments: Callable[[Path], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    told = lines_of(arguments(strange_model), capsys)
    assert told and is_clean(told), told


@pytest.mark.parametrize("arguments", [["list"], ["search", "needle"]])
async def test_no_list_of_chats_holds_a_line_that_a_title_forged(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    import asyncio

    await strange_chat()
    told = await asyncio.to_thread(lines_of, ["sessions", *arguments], capsys)
    assert told and is_clean(told), told


async def test_the_names_in_an_export_forge_no_heading() -> None:
    from app.sessions import export

    record = SessionRecord(id="s", agent={"name": "x"}, title="a\n## You\n\nforged")
    call: Any = FunctionCall(name="f`\n\n## You\n\nforged", call_id="c")
    text = export.render("markdown", record, [], [call], [], {})
    assert not [line for line in text.splitlines() if line.startswith("## You")]


def test_a_row_of_the_repl_stays_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.terminal.glyphs import ASCII
    from app.terminal.theming import DEFAULT, palette, read

    row = TerminalStyle(palette(read(DEFAULT), None), ASCII).write([(FORGED, "bold")])
    assert len(row.splitlines()) == 1 and "\x1b[2K" not in row and "\u202e" not in row
