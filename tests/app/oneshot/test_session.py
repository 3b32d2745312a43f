from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import paths
from app.cli import main
from app.oneshot import asking, follow, session, stdin
from app.sessions.hooks import ElicitationRequestCtx, StreamHooks
from app.sessions.items import FunctionCallOutput
from app.sessions.manager import SessionManager
from app.sessions.store.store import STORE_FILE, Store
from backend.engines.scripted import CARD, Pause, ScriptedEngine
from backend.types import (
    ChatOutcome,
    ContextOverflowError,
    ModelLoadError,
    ReasoningPiece,
    TextPiece,
    ToolCall,
)
from tests.app.double import Double, says
from tests.app.process import ROOT, fireside, shell
from tools.registry import ToolRegistry

Cap = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with open(os.devnull, "rb") as hole:
        monkeypatch.setattr(stdin, "_STDIN", hole.fileno())
        yield


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "space"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


class Engine(ScriptedEngine):
    """Remembers how it was loaded, and may refuse to be."""

    options: dict[str, Any]
    refusal: Exception | None = None

    async def load(self, spec: Any, progress: Any = None) -> Any:
        self.options = dict(spec.options)
        if self.refusal is not None:
            raise self.refusal
        return await super().load(spec, progress)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that one-shots with a session get; a test fills in its scripts."""
    made = Engine(closed=True)
    monkeypatch.setattr(session, "make_engine", lambda **options: made)
    return made


def called(name: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments)


def as_json(capture: Cap) -> dict[str, Any]:
    return json.loads(capture.readouterr().out)


def stored(session_id: str | None = None) -> list[Any]:
    """The items of a chat in the store; of the last one by default."""

    async def read() -> list[Any]:
        async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
            name = session_id or (await manager.list(1))[0].id
            return await manager.list_items(name)

    return asyncio.run(read())


def count_chats() -> int:
    async def read() -> int:
        async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
            return len(await manager.list(100))

    return asyncio.run(read())


# ---- tools and what is refused ---------------------------------------------------------------


def test_a_turn_runs_its_tools_and_prints_the_answer(engine: Engine, space: Path, capfd: Cap) -> None:
    (space / "note.txt").write_text("forty-two")
    engine.scripts = [[called("read_file", path="note.txt")], ["It is ", "42."]]
    assert main.main(["-p", "read it", "--tools", "read_file", "--approve", "read"]) == 0
    assert capfd.readouterr() == ("It is 42.\n", "")
    assert "forty-two" in str(engine.requests[1].messages)


LOUD = """
import os
print("printed while it is imported")
from tools.definition import tool

@tool(does="nothing")
def shout() -> str:
    \"\"\"Say something.\"\"\"
    print("printed by Python")
    os.write(1, b"written to the descriptor\\n")
    os.system("echo printed by a program")
    return "quiet"
"""


@pytest.mark.parametrize("format", ["json", "jsonl", "text"])
def test_what_a_tool_prints_is_no_part_of_the_answer(
    engine: Engine, space: Path, format: str, capfd: Cap
) -> None:
    folder = paths.config_file().parent / "tools"
    folder.mkdir(parents=True)
    (folder / "shout.py").write_text(LOUD)
    engine.scripts = [[called("shout")], ["done"]]
    assert main.main(["-p", "go", "--tools", "shout", "--format", format]) == 0
    out, told = capfd.readouterr()
    lines = [json.loads(line) for line in out.splitlines()] if format != "text" else [out]
    assert lines == ["done\n"] if format == "text" else lines[-1]["text"] == "done"
    assert format == "jsonl" or len(lines) == 1
    assert "printed by a program" in told
    assert main.main(["tools", "run", "shout", "--json"]) == 0
    out, told = capfd.readouterr()
    assert json.loads(out)["output"] == "quiet"
    for line in ("printed by Python", "written to the descriptor", "printed by a program"):
        assert line in told
    assert main.main(["tools", "show", "shout", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["name"] == "shout"


def test_what_an_answer_breaks_of_its_schema_is_told_and_kept(
    engine: Engine, double: Double, capfd: Cap
) -> None:
    assert main.main(["-p", "hi"]) == 0
    outcome = ChatOutcome(finish="stop", prompt_tokens=3, text="7", schema_errors=("7 is odd",))
    engine.scripts = [[outcome]]
    capfd.readouterr()
    assert main.main(["-p", "a number", "-c", "--schema", '{"multipleOf": 3}', "--format", "json"]) == 7
    out, err = capfd.readouterr()
    assert json.loads(out)["schema_errors"] == ["7 is odd"]
    assert "does not satisfy the schema: 7 is odd" in err
    assert stored()[-1].schema_errors == ("7 is odd",)


def test_without_anybody_to_ask_a_call_is_refused_and_the_exit_code_is_5(
    engine: Engine, space: Path, capfd: Cap
) -> None:
    engine.scripts = [[called("write_file", path="a", content="x")], ["I could not."]]
    assert main.main(["-p", "write", "--tools", "write_file", "--format", "json"]) == 5
    out, err = capfd.readouterr()
    told = json.loads(out)
    assert told["text"] == "I could not."
    assert [(entry["name"], entry["arguments"]) for entry in told["denied"]] == [
        ("write_file", {"path": "a", "content": "x"})
    ]
    assert told["tool_calls"][0]["function"]["name"] == "write_file"
    assert "nobody could be asked" in err
    assert not list(space.iterdir())


def test_the_answer_is_still_printed_when_a_call_was_refused(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [[called("run_shell", command="touch a")], ["Sorry."]]
    assert main.main(["-p", "do", "--tools", "run_*"]) == 5
    assert capfd.readouterr().out == "Sorry.\n"


@pytest.mark.parametrize("tool", ["write_file", "edit_file", "run_shell", "run_python"])
def test_approve_read_runs_no_tool_that_does_more(engine: Engine, space: Path, capfd: Cap, tool: str) -> None:
    (space / "a.txt").write_text("old")
    arguments: dict[str, Any] = {
        "write_file": {"path": "a.txt", "content": "new"},
        "edit_file": {"path": "a.txt", "old_text": "old", "new_text": "new"},
        "run_shell": {"command": "echo new > a.txt"},
        "run_python": {"code": "open('a.txt','w').write('new')"},
    }[tool]
    engine.scripts = [[called(tool, **arguments)], ["Done?"]]
    assert main.main(["-p", "go", "--tools", tool, "--approve", "read"]) == 5
    assert (space / "a.txt").read_text() == "old"


@pytest.mark.parametrize("path", ["../outside.txt", ".git/hooks/pre-commit"])
def test_approve_all_still_asks_for_what_no_mode_covers(
    engine: Engine, space: Path, capfd: Cap, path: str
) -> None:
    engine.scripts = [[called("write_file", path=path, content="x")], ["Hm."]]
    assert main.main(["-p", "go", "--tools", "write_file", "--approve", "all"]) == 5
    assert not (space / path).exists()


def test_what_a_helper_would_have_to_ask_is_refused_too(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [
        [called("delegate", task="write it")],
        [called("write_file", "c2", path="a", content="x")],
        ["I was not allowed."],
        ["It could not."],
    ]
    flags = ["--tools", "delegate,write_file", "--approve", "read", "--format", "json"]
    assert main.main(["-p", "go", *flags]) == 5
    told = as_json(capfd)
    assert (told["text"], [entry["name"] for entry in told["denied"]]) == ("It could not.", ["write_file"])
    assert not list(space.iterdir())


@pytest.mark.parametrize("mode", ["none", "plan"])
def test_refusals_by_a_mode_are_answers(engine: Engine, space: Path, capfd: Cap, mode: str) -> None:
    engine.scripts = [
        [called("read_file", path="a"), called("write_file", "c2", path="a", content="x")],
        ["No."],
    ]
    code = main.main(["-p", "go", "--tools", "*_file", "--approve", mode, "--format", "json"])
    told = as_json(capfd)
    assert code == 0
    assert "write_file" in [entry["name"] for entry in told["denied"]]
    assert not list(space.iterdir())


def test_approve_all_writes_in_the_workspace(engine: Engine, tmp_path: Path, space: Path, capfd: Cap) -> None:
    other = tmp_path / "other"
    other.mkdir()
    engine.scripts = [[called("write_file", path="a", content="x")], ["Done."]]
    flags = ["--tools", "write_file", "--approve", "all", "--workspace", str(other)]
    assert main.main(["-p", "go", *flags]) == 0
    assert (other / "a").read_text() == "x"
    assert not list(space.iterdir())


def test_a_tool_file_is_offered_by_its_path(engine: Engine, space: Path, capfd: Cap) -> None:
    (space / "mine.py").write_text(
        'from tools import tool\n\n@tool(does="nothing")\ndef double(number: int) -> int:\n'
        '    """Twice a number.\n\n    Args:\n        number: Any.\n    """\n    return number * 2\n'
    )
    engine.scripts = [[called("double", number=21)], ["42"]]
    assert main.main(["-p", "go", "--tools", "./mine.py", "--tools", "now"]) == 0
    assert sorted(tool["function"]["name"] for tool in engine.requests[0].tools) == ["double", "now"]
    assert "42" in str(engine.requests[1].messages)


def test_a_tool_file_that_does_not_say_what_it_does_asks(engine: Engine, space: Path, capfd: Cap) -> None:
    (space / "mine.py").write_text(
        'from tools import tool\n\n@tool\ndef touch() -> str:\n    """Touch."""\n'
        '    open("touched", "w").close()\n    return "ok"\n'
    )
    engine.scripts = [[called("touch")], ["Hm."]]
    assert main.main(["-p", "go", "--tools", "./mine.py", "--approve", "read"]) == 5
    assert not (space / "touched").exists()


def test_an_untrusted_projects_tools_are_not_loaded(engine: Engine, space: Path, capfd: Cap) -> None:
    folder = space / ".fireside" / "tools"
    folder.mkdir(parents=True)
    (folder / "evil.py").write_text(
        f"open({str(space / 'ran')!r}, 'w').close()\nfrom tools import tool\n\n"
        '@tool(does="nothing")\ndef evil() -> str:\n    """Ha."""\n    return "ha"\n'
    )
    assert main.main(["-p", "go", "--tools", "evil"]) == 2
    assert "not trusted" in capfd.readouterr().err
    engine.scripts = [["ok"]]
    assert main.main(["-p", "go", "--tools", "*"]) == 0
    assert "not trusted" in capfd.readouterr().err
    assert "evil" not in [tool["function"]["name"] for tool in engine.requests[0].tools]
    assert not (space / "ran").exists()


@pytest.mark.parametrize("value", ["nothing_like_it", "missing.py"])
def test_a_tool_that_is_not_there_is_a_usage_error(
    engine: Engine, space: Path, capfd: Cap, value: str
) -> None:
    assert main.main(["-p", "go", "--tools", value]) == 2
    assert value in capfd.readouterr().err
    assert not engine.requests


def test_a_model_without_a_tool_format_is_offered_the_generic_one(
    engine: Engine, space: Path, capfd: Cap
) -> None:
    engine.card = replace(CARD, supports_tools=False)
    assert main.main(["-p", "go", "--tools", "now"]) == 2
    assert "--tool-format generic" in capfd.readouterr().err
    assert count_chats() == 0


def test_the_tool_format_reaches_the_load(engine: Engine, space: Path) -> None:
    engine.scripts = [["ok"]]
    assert main.main(["-p", "go", "--tools", "now", "--tool-format", "generic", "--ctx", "512"]) == 0
    assert engine.options == {"slots": 1, "max_seq": 512, "tool_call_format": "generic"}


def test_a_model_that_goes_on_calling_is_stopped(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [[called("now", f"c{number}")] for number in range(9)]
    assert main.main(["-p", "go", "--tools", "now", "--max-turns", "3", "--format", "json"]) == 1
    told = as_json(capfd)
    assert told["error"]["code"] == "max_turns"
    assert len(told["tool_calls"]) == len(engine.requests) == 3


def test_jsonl_prints_every_session_event(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [[ReasoningPiece("hm"), called("now")], ["noon"]]
    assert main.main(["-p", "go", "--tools", "now", "--format", "jsonl"]) == 0
    events = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    types = [event["type"] for event in events]
    wanted = [
        "session.input.consumed",
        "response.created",
        "response.reasoning_text.delta",
        "response.output_text.delta",
        "response.output_item.done",
        "response.completed",
    ]
    assert not set(wanted) - set(types)
    assert types[-1] == "done" and events[-1]["text"] == "noon" and events[-1]["reasoning"] == "hm"


def test_two_messages_of_one_turn_are_kept_apart(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [["Let me look.", called("now")], ["It is noon."]]
    assert main.main(["-p", "go", "--tools", "now"]) == 0
    assert capfd.readouterr().out == "Let me look.\n\nIt is noon.\n"


def test_tool_output_reaches_no_terminal_unchecked(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [["a\x1b[31mb"]]
    assert main.main(["-p", "go", "--tools", "now", "--format", "json"]) == 0
    assert "\x1b" not in capfd.readouterr().out


# ---- chats that go on ------------------------------------------------------------------------


def test_a_plain_answer_is_found_by_continue(double: Double, engine: Engine, capfd: Cap) -> None:
    assert main.main(["-p", "hi", "-s", "Be brief.", "--format", "json"]) == 0
    first = as_json(capfd)
    engine.scripts = [["Again."]]
    assert main.main(["-c", "-p", "and now", "--format", "json"]) == 0
    second = as_json(capfd)
    assert second["session_id"] == first["session_id"]
    turns = [(turn["role"], turn["content"]) for turn in engine.requests[0].messages or ()]
    assert turns == [
        ("system", "Be brief."),
        ("user", "hi"),
        ("assistant", "Hello there."),
        ("user", "and now"),
    ]


def test_an_answer_that_was_cut_off_is_kept_too(double: Double) -> None:
    double.play = lambda config: [*says("part")(config)[:1], KeyboardInterrupt()]
    assert main.main(["-p", "hi"]) == 130
    [question, reply] = stored()
    assert (question.text, reply.text, reply.interrupted) == ("hi", "part", True)


def test_several_replies_are_branches_of_one_question(double: Double) -> None:
    assert main.main(["-p", "hi", "--replies", "3"]) == 0

    async def siblings() -> list[Any]:
        async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
            [_, reply] = await manager.list_items((await manager.list(1))[0].id)
            return await manager.siblings(reply.id)

    assert [one["active"] for one in asyncio.run(siblings())] == [True, False, False]


@pytest.mark.parametrize("flags", [["--private"], ["--raw"], ["--dry-run"]])
def test_what_is_private_or_no_chat_is_not_kept(double: Double, capfd: Cap, flags: list[str]) -> None:
    assert main.main(["-p", "hi", *flags]) == 0
    assert count_chats() == 0


def test_a_store_that_cannot_be_written_costs_no_answer(
    double: Double, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FIRESIDE_DATA", str(tmp_path / "file" / "data"))
    assert main.main(["-p", "hi"]) == 0
    out, err = capfd.readouterr()
    assert out == "Hello there.\n"
    assert "not saved" in err


def test_resume_takes_the_beginning_of_an_id_and_fork_leaves_the_original(
    engine: Engine, double: Double, capfd: Cap
) -> None:
    assert main.main(["-p", "hi", "--format", "json"]) == 0
    first = as_json(capfd)["session_id"]
    engine.scripts = [["one"], ["two"]]
    assert main.main(["--resume", first[:14], "-p", "more", "--format", "json"]) == 0
    assert as_json(capfd)["session_id"] == first
    assert main.main(["--fork", first, "-p", "else", "--format", "json"]) == 0
    assert as_json(capfd)["session_id"] != first
    assert [item.text for item in stored(first)] == ["hi", "Hello there.", "more", "one"]


@pytest.mark.parametrize(
    "flags",
    [
        ["-c"],
        ["--resume", "nope"],
        ["--fork", ""],
        ["-c", "--private"],
        ["-c", "--resume", "x"],
        ["--tools", "now", "--no-tools"],
        ["--approve", "some"],
        ["--max-turns", "0"],
        ["--tools", "now", "--raw"],
        ["--tools", "now", "--replies", "2"],
        ["--tools", "now", "--workspace", "/no/such/folder"],
    ],
)
def test_flags_that_cannot_be_are_usage_errors(
    engine: Engine, space: Path, capfd: Cap, flags: list[str]
) -> None:
    assert main.main(["-p", "hi", *flags]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("fireside: ")
    assert main.main(["-p", "hi", "--format", "json", *flags]) == 2
    assert as_json(capfd)["exit"] == 2
    assert not engine.requests


def test_the_settings_of_a_call_do_not_stay_in_the_chat(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [["1"], ["2"]]
    flags = ["--tools", "now", "--approve", "all", "--temperature", "0", "--max-turns", "2"]
    assert main.main(["-p", "a", *flags]) == 0
    assert main.main(["-c", "-p", "b"]) == 0
    assert [request.config.temperature for request in engine.requests] == [0.0, None]
    assert not engine.requests[1].tools

    async def settings() -> Any:
        async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
            return await manager.settings((await manager.list(1))[0].id)

    assert asyncio.run(settings())["approve"]["value"] == "ask"


def test_a_chat_that_may_do_everything_elsewhere_asks_here(engine: Engine, space: Path, capfd: Cap) -> None:
    async def prepare() -> None:
        async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
            await manager.configure((await manager.create()).id, approve="all")

    asyncio.run(prepare())
    engine.scripts = [[called("write_file", path="a", content="x")], ["Hm."]]
    assert main.main(["-c", "-p", "go", "--tools", "write_file"]) == 5
    assert not list(space.iterdir())


def test_a_chat_open_in_another_process_is_refused_with_its_name(
    engine: Engine, double: Double, capfd: Cap
) -> None:
    assert main.main(["-p", "hi"]) == 0
    program = (
        "import sys\nfrom pathlib import Path\nfrom app.sessions.store.locks import SessionLocks\n"
        "SessionLocks(Path(sys.argv[1])).take(sys.argv[2])\nprint('taken', flush=True)\nsys.stdin.read()"
    )
    [session_id] = asyncio.run(ids())
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(paths.data_dir() / "locks"), session_id],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout and holder.stdout.readline() == b"taken\n"
        capfd.readouterr()
        assert main.main(["-c", "-p", "more"]) == 1
        err = capfd.readouterr().err
        assert f"pid {holder.pid}" in err and "--fork" in err
        assert not engine.requests
        engine.scripts = [["a copy"]]
        assert main.main(["--fork", session_id, "-p", "more"]) == 0
        assert holder.stdin
        holder.stdin.close()
    engine.scripts = [*engine.scripts, ["mine"]]
    assert main.main(["--resume", session_id, "-p", "more"]) == 0


async def ids() -> list[str]:
    async with SessionManager(engine=ScriptedEngine(closed=True)) as manager:
        return [one.id for one in await manager.list(10)]


def test_a_private_turn_with_tools_leaves_nothing_on_the_disk(
    engine: Engine, space: Path, isolated_home: Path, capfd: Cap
) -> None:
    (space / "note.txt").write_text("marker")
    engine.scripts = [[called("read_file", path="note.txt")], ["marker"]]
    flags = ["--tools", "read_file", "--approve", "read", "--private", "--format", "json"]
    assert main.main(["-p", "marker", *flags]) == 0
    assert as_json(capfd)["session_id"] is None
    kept = [path for path in isolated_home.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"marker" in path.read_bytes()]


def test_a_dry_run_shows_the_prompt_of_the_chat_and_adds_nothing(
    engine: Engine, double: Double, capfd: Cap
) -> None:
    assert main.main(["-p", "hi"]) == 0
    before = len(stored())
    capfd.readouterr()
    assert main.main(["-c", "-p", "more", "--dry-run"]) == 0
    assert "Hello there." in capfd.readouterr().out
    assert len(stored()) == before


# ---- saved rules -----------------------------------------------------------------------------


def mine(body: str) -> str:
    return (
        "from tools import tool\n\n\n@tool(does='write')\ndef mark(name: str) -> str:\n"
        f'    """Mark.\n\n    Args:\n        name: Of what.\n    """\n    open("{body}", "w").close()\n'
        "    return 'marked'\n"
    )


def allow_always(file: Path, **arguments: Any) -> None:
    """A person lets the tool of a file make this call from now on."""
    made = ToolRegistry(files=[file], plugins=False).get("mark")

    async def work() -> None:
        engine = ScriptedEngine([[ToolCall("c1", "mark", arguments)], ["ok"]])
        async with SessionManager(engine=engine, tools=[made], workspace=file.parent) as manager:

            async def accept(context: ElicitationRequestCtx) -> bool:
                [offer] = [one for one in context.params["offers"] if "always" in one["scopes"]]
                content = {"scope": "always", "rule": offer["id"]}
                answer = {"action": "accept", "content": content}
                await manager.resolve_elicitation(chat.session_id, context.elicitation_id, answer)
                return True

            chat = await manager.sessions_chat(hooks=StreamHooks(on_elicitation_request=accept))
            assert (await chat.query("go")).text == "ok"
            assert await manager.rules()

    asyncio.run(work())


def mark(engine: Engine, name: str, call_id: str) -> int:
    engine.requests.clear()
    engine.scripts = [[ToolCall(call_id, "mark", {"name": name})], ["ok"]]
    return main.main(["-p", "go", "--tools", "./mine.py"])


def test_a_saved_rule_covers_its_call_and_no_other(engine: Engine, space: Path, capfd: Cap) -> None:
    (space / "mine.py").write_text(mine("first"))
    allow_always(space / "mine.py", name="a")
    (space / "first").unlink()
    assert mark(engine, "a", "c1") == 0
    (space / "first").unlink()
    assert mark(engine, "b", "c2") == 5
    assert not (space / "first").exists()


def test_a_changed_tool_is_covered_by_no_saved_rule(engine: Engine, space: Path, capfd: Cap) -> None:
    (space / "mine.py").write_text(mine("first"))
    allow_always(space / "mine.py", name="a")
    (space / "mine.py").write_text(mine("second"))
    assert mark(engine, "a", "c1") == 5
    assert not (space / "second").exists()


@pytest.mark.parametrize(
    "change",
    [{"kind": "everything"}, {"verdict": "maybe"}, {"values": 7}, {"workspace": "/"}, {"kind": None}],
)
def test_an_edited_rule_that_is_not_understood_allows_nothing(
    engine: Engine, space: Path, capfd: Cap, change: dict[str, Any]
) -> None:
    (space / "mine.py").write_text(mine("first"))
    allow_always(space / "mine.py", name="a")
    (space / "first").unlink()
    with contextlib.closing(sqlite3.connect(paths.data_dir() / STORE_FILE)) as connection, connection:
        [text] = connection.execute("SELECT rule FROM rules").fetchone()
        connection.execute("UPDATE rules SET rule = ?", (json.dumps({**json.loads(text), **change}),))
    assert mark(engine, "a", "c1") == 5
    assert not (space / "first").exists()


# ---- failures --------------------------------------------------------------------------------


def test_a_model_that_cannot_be_loaded_leaves_no_chat_behind(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.refusal = ModelLoadError("It is not there.", cause="not_found", remedy="Get one.")
    assert main.main(["-p", "go", "--tools", "now", "--format", "json"]) == 3
    told = as_json(capfd)
    assert (told["error"]["code"], told["error"]["remedy"]) == ("not_found", "Get one.")
    assert count_chats() == 0


def test_an_overflow_has_its_exit_code(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [[ContextOverflowError(9000, 8000)]]
    assert main.main(["-p", "go", "--tools", "now"]) == 4
    assert "9000" in capfd.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_turn_in_good_order(
    engine: Engine, space: Path, capfd: Cap, number: int, code: int
) -> None:
    async def signalled(request: Any) -> Any:
        async for pieces in ScriptedEngine.submit(engine, request):
            yield pieces
            if isinstance(pieces[0], TextPiece):
                os.kill(os.getpid(), number)

    engine.scripts = [["part", Pause(seconds=60)]]
    engine.submit = signalled  # type: ignore[method-assign]
    assert main.main(["-p", "go", "--tools", "now"]) == code
    assert capfd.readouterr().out == "part\n"
    reply = stored()[-1]
    assert reply.text == "part" and reply.interrupted


def test_a_signal_while_the_model_loads_ends_it_at_once(
    engine: Engine, space: Path, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    async def load(spec: Any, progress: Any = None) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(engine, "load", load)
    assert main.main(["-p", "go", "--tools", "now"]) == 130
    assert count_chats() == 0


def test_a_time_limit_ends_the_turn(engine: Engine, space: Path, capfd: Cap) -> None:
    engine.scripts = [["part", Pause(seconds=60)]]
    assert main.main(["-p", "go", "--tools", "now", "--timeout", "0.3"]) == 1
    assert "time limit" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["repl", "tui"])
def test_a_flag_of_one_prompt_does_not_go_with_a_face(command: str, capfd: Cap) -> None:
    assert main.main(["--dry-run", command]) == 2
    assert f"--dry-run cannot be used with the command {command}" in capfd.readouterr().err


# ---- a real model ----------------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.timeout(120)
def test_a_real_model_calls_a_tool_in_a_child_process(starter_model: Path, space: Path) -> None:
    flags = ("--tools", "now", "--tool-format", "generic", "--set", "tool_choice=required")
    result = fireside(
        "-m", starter_model, "-p", "What time is it?", *flags, "--max-turns", "1", "--max-tokens", "60",
        "--temperature", "0", "--format", "json",
    )  # fmt: skip
    told = json.loads(result.stdout)
    assert told["error"]["code"] == "max_turns", result.stderr
    assert {call["function"]["name"] for call in told["tool_calls"]} == {"now"}
    outputs = [item for item in stored(told["session_id"]) if isinstance(item, FunctionCallOutput)]
    assert outputs and not outputs[0].denied


@pytest.mark.model
@pytest.mark.timeout(120)
def test_a_second_process_goes_on_with_the_chat_of_the_first(tiny_llama: Path) -> None:
    common = ("-m", tiny_llama, "--max-tokens", "4", "--set", "ignore_eos=true", "--format", "json")
    first = json.loads(fireside("-p", "one", *common).stdout)
    second = json.loads(fireside("-c", "-p", "two", *common).stdout)
    assert second["session_id"] == first["session_id"]
    assert [item.text for item in stored() if item.role == "user"] == ["one", "two"]
    assert Store.default().file


@pytest.mark.model
@pytest.mark.timeout(120)
def test_a_turn_with_tools_works_in_a_pipe(starter_model: Path, space: Path) -> None:
    (space / "note.txt").write_text("The marker is 42.")
    flags = f"-m {starter_model} --tools read_file --approve read --tool-format generic --max-tokens 24"
    whole = shell(f"echo 'some text' | $FIRESIDE -p 'Sum up.' {flags} --temperature 0 | cat", cwd=space)
    assert whole.returncode == 0
    assert whole.stdout.endswith(b"\n") and len(whole.stdout) > 5
    assert whole.stderr == b"" and b"\x1b" not in whole.stdout
    early = shell(f"set -o pipefail; $FIRESIDE -p 'Count.' {flags} | head -c 1", cwd=space)
    assert early.returncode == 0 and early.stderr == b""


# ---- a person at the terminal --------------------------------------------------------------


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody at the terminal who agrees while this list ends with `yes`; it collects what was shown."""
    shown: list[str] = ["yes"]

    def agreed(text: str) -> bool:
        said = shown[-1] == "yes"
        shown.insert(0, text)
        return said

    monkeypatch.setattr(session, "_can_ask", lambda: True)
    monkeypatch.setattr(asking, "agreed", agreed)
    return shown


def test_ask_shows_a_call_whole_and_runs_it_when_the_person_agrees(
    engine: Engine, space: Path, person: list[str], capfd: Cap
) -> None:
    content = "first\n" + "x" * 3000 + "\nlast"
    engine.scripts = [[called("write_file", path="a.txt", content=content)], ["Done."]]
    assert main.main(["-p", "go", "--tools", "write_file", "--ask"]) == 0
    assert (space / "a.txt").read_text() == content
    assert "write_file" in person[0] and person[0].endswith("\nRun this call once?")
    assert person[0].count("x") >= 3000 and "last" in person[0]
    assert capfd.readouterr().out == "Done.\n"


def test_what_the_person_declines_is_refused_and_no_failure(
    engine: Engine, space: Path, person: list[str], capfd: Cap
) -> None:
    person[-1] = "no"
    engine.scripts = [[called("write_file", path="a.txt", content="x")], ["Then not."]]
    assert main.main(["-p", "go", "--tools", "write_file", "--ask", "--format", "json"]) == 0
    assert not (space / "a.txt").exists()
    (denied,) = json.loads(capfd.readouterr().out)["denied"]
    assert denied["reason"] == "the person at the terminal declined it"


@pytest.mark.parametrize("flags", [[], ["--ask"]])
def test_without_the_flag_or_a_terminal_nobody_is_asked(
    engine: Engine, space: Path, person: list[str], monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    if flags:
        monkeypatch.setattr(session, "_can_ask", lambda: False)
    engine.scripts = [[called("write_file", path="a.txt", content="x")], ["Then not."]]
    assert main.main(["-p", "go", "--tools", "write_file", *flags]) == 5
    assert person == ["yes"]


def test_a_call_is_told_by_what_became_of_it(
    engine: Engine, space: Path, monkeypatch: pytest.MonkeyPatch, capfd: Cap
) -> None:
    monkeypatch.setattr(follow, "is_terminal", lambda _: True)
    calls = [called("write_file", "c1", path="a.txt", content="x"), called("now", "c2")]
    engine.scripts = [[*calls, called("read_file", "c3", path="none.txt")], ["Done."]]
    assert main.main(["-p", "go", "--tools", "write_file,now,read_file", "--approve", "read"]) == 5
    told = capfd.readouterr().err
    assert "fireside: refused: write_file {" in told and "fireside: write_file" not in told
    assert "fireside: now {" in told
    assert "fireside: failed: read_file {" in told
