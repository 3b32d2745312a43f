"""`fireside -p --server`: answered by a server, with the contract of every other one-shot."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from app.cli import main as cli
from tests.app.process import fireside
from tests.backend.engines.scripted_server import (
    DONE,
    Reply,
    ScriptedServer,
    delta,
    frame,
    json_reply,
    says,
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("toy", "other") as made:
        yield made.chat(says("Hello ", "you"))


def test_a_prompt_is_answered_by_the_first_model_of_a_server(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-p", "Hi", "--server", server.url]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("Hello you\n", "")
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "Hi"}]


def test_the_model_is_named_by_the_flag_and_the_settings_reach_it(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["-p", "Hi", "--server", server.url, "-m", "other", "--temperature", "0.5", "-s", "Be brief."]
    assert cli.main([*line, "--max-tokens", "9", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["model"], told["finish"]) == ("Hello you", "other", "stop")
    assert told["usage"]["prompt_tokens"] == 21
    sent = server.bodies[0]
    assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("other", 0.5, 9)
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}


def test_a_chat_goes_on_with_a_server(server: ScriptedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-p", "Hi", "--server", server.url]) == 0
    assert cli.main(["-c", "-p", "Again", "--server", server.url]) == 0
    assert capsys.readouterr().out == "Hello you\nHello you\n"
    roles = [turn["role"] for turn in server.bodies[1]["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_a_server_that_is_not_there_is_told_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-p", "Hi", "--server", "http://127.0.0.1:9", "--format", "json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "unreachable" and "nothing answers there" in error["message"]


@pytest.mark.parametrize("address", ["127.0.0.1:80", "ftp://x", "http://", "http://me:secret@host/v1", "lab"])
def test_what_is_no_address_is_a_mistake_of_the_caller(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["-p", "Hi", "--server", address]) == 2
    err = capsys.readouterr().err
    assert "--server" in err and "secret" not in err


def test_tools_are_run_here_for_a_model_that_is_elsewhere(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"index": 0, "id": "c7", "function": {"name": "calculate", "arguments": '{"expression": "6*7"}'}}
    server.chat(Reply([delta(tool_calls=[call]), delta("tool_calls"), DONE]), says("It is 42."))
    assert cli.main(["-p", "6 times 7?", "--server", server.url, "--tools", "calculate"]) == 0
    assert capsys.readouterr().out.endswith("It is 42.\n")
    first, second = server.bodies
    assert [tool["function"]["name"] for tool in first["tools"]] == ["calculate"]
    asks, result = second["messages"][1:]
    assert asks["tool_calls"][0]["id"] == result["tool_call_id"] == "c7" and "42" in result["content"]


@pytest.mark.parametrize("flags", [["--raw"], ["--replies", "2"], ["--dry-run"], ["--format", "jsonl"]])
def test_the_other_ways_of_a_one_shot_work_too(
    server: ScriptedServer, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.replies["/v1/completions"] = [Reply([frame({"choices": [{"text": "Hello you"}]}), DONE])]
    assert cli.main(["-p", "Hi", "--server", server.url, *flags]) == 0
    out, err = capsys.readouterr()
    match flags[0]:
        case "--raw":
            assert out == "Hello you\n" and server.bodies[0]["prompt"] == "Hi"
        case "--replies":
            assert out.count("Hello you") == 2 and "---" in out
        case "--dry-run":
            assert '"content": "Hi"' in out and "a context of unknown size" in err and not server.bodies
        case _:
            assert json.loads(out.splitlines()[-1])["type"] == "done"


def test_a_stopped_one_shot_keeps_what_was_written(server: ScriptedServer) -> None:
    server.chat(Reply([delta(content="half"), threading.Event(), DONE]))
    done = fireside("-p", "Hi", "--server", server.url, "--timeout", "3")
    assert done.returncode == 1 and b"time limit" in done.stderr
    assert done.stdout.startswith(b"half")
    assert server.vanished.wait(5)


def test_a_warning_of_a_bare_key_and_no_key_in_the_output(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESIDE_SERVER_KEY", "sk-secret-0123456789")
    server.chat(json_reply({"error": "bad key sk-secret-0123456789"}, 401))
    assert cli.main(["-p", "Hi", "--server", server.url]) == 1
    out, err = capsys.readouterr()
    assert "refuses the key" in err and "secret" not in out + err
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer sk-secret-0123456789"}


def test_text_of_a_server_is_no_markup_and_moves_no_cursor(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.chat(json_reply({"error": {"message": "\x1b[2J[bold red]boom[/]\r\nfireside: forged"}}, 500))
    assert cli.main(["-p", "Hi", "--server", server.url]) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err and err.count("\n") == 1 and "[bold red]boom[/]" in err


def test_tools_that_the_model_of_a_server_cannot_call_are_told(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.chat(json_reply({"error": {"message": "toy does not support tools"}}, 400), says("Hello"))
    assert cli.main(["-p", "Hi", "--server", server.url, "--tools", "calculate"]) == 0
    out, err = capsys.readouterr()
    assert out == "Hello\n" and "cannot call tools, so none were offered" in err
