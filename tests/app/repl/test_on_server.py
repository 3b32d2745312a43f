"""The chat line by line with a model of a server."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.app.process import fireside
from tests.app.repl.terminal import fireside_repl
from tests.backend.engines.scripted_server import ScriptedServer, says

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("toy", "other") as made:
        yield made.chat(says("Hello ", "you"))


def test_a_chat_by_keys_on_a_server(server: ScriptedServer) -> None:
    with fireside_repl("--server", server.url) as terminal:
        terminal.wait("ctrl+d leaves")
        assert f"on 127.0.0.1:{server.port}" in terminal.text and "context unknown" in terminal.text
        terminal.say("hi")
        terminal.wait("Hello you")
        terminal.say("/model other")
        terminal.wait("ctrl+d leaves", times=2)
        terminal.say("again")
        terminal.wait("Hello you", times=2)
        terminal.type("\x04")
        assert terminal.wait_end() == 0
    assert server.bodies[-1]["model"] == "other"


def test_lines_from_a_pipe_are_answered_by_a_server(server: ScriptedServer) -> None:
    environ = {**os.environ, "FIRESIDE_SERVER": server.url}
    result = fireside("repl", input=b"one\n/model other\ntwo\n", env=environ)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(b"Hello you") == 2
    assert [body["model"] for body in server.bodies] == ["toy", "other"]
