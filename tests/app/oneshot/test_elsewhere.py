"""`fireside -p --server`: answered by a server, with the contract of every other one-shot."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from app.cli import main as cli
from tests.backend.engines.scripted_server import ScriptedServer, says


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
