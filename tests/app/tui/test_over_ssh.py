"""The real program over ssh to this machine: its colours, its copies, and its end when the line is cut."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.app.terminal.guarded import alive, children, environ
from tests.app.terminal_process import PATIENCE_S, Display, Terminal
from tests.app.tui.test_endings import FIRESIDE

pytestmark = [pytest.mark.peers, pytest.mark.timeout(120)]


class Server(asyncssh.SSHServer):
    """Lets everybody of this test in."""

    def begin_auth(self, username: str) -> bool:
        return False


class Line:
    """One ssh session: the terminal at the far end runs the program, ours shows it."""

    def __init__(self, **extra: str) -> None:
        self.display = Display()
        self.terminal: Terminal | None = None
        self._extra = extra
        self._process: Any = None

    async def serve(self, process: Any) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tap(data: bytes) -> None:
            if data:
                loop.call_soon_threadsafe(process.stdout.write, data)
            else:
                loop.call_soon_threadsafe(ended.set)

        variables = environ(SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22", **self._extra)
        variables["TERM"] = process.term_type
        self.terminal = Terminal(FIRESIDE.command, variables, tap=tap)
        keys = asyncio.ensure_future(self._type(process))
        await ended.wait()
        keys.cancel()
        process.exit(self.terminal.wait())

    async def _type(self, process: Any) -> None:
        try:
            while data := await process.stdin.read(1024):
                self.send_to_program(data)
        finally:
            if self.terminal is not None:
                self.terminal.close()

    def send_to_program(self, data: bytes) -> None:
        assert self.terminal is not None
        self.terminal.send(data)

    async def start(self, stack: AsyncExitStack) -> None:
        key = asyncssh.generate_private_key("ssh-ed25519")
        server = await asyncssh.create_server(
            Server, "127.0.0.1", 0, server_host_keys=[key], process_factory=self.serve, encoding=None
        )
        stack.callback(server.close)
        port = server.sockets[0].getsockname()[1]
        self.connection = await asyncssh.connect(
            "127.0.0.1", port, known_hosts=None, username="me", config=[]
        )
        stack.callback(self.connection.close)
        self._process = await self.connection.create_process(
            term_type="xterm-256color", term_size=(80, 24), encoding=None
        )
        reader = asyncio.ensure_future(self._read())
        stack.callback(reader.cancel)

    async def _read(self) -> None:
        while data := await self._process.stdout.read(65536):
            self.display.feed(data)

    def send(self, keys: str) -> None:
        self._process.stdin.write(keys.encode())

    async def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while not condition():
            assert asyncio.get_running_loop().time() < until, f"{what} did not come:\n{self.display.text}"
            await asyncio.sleep(0.02)

    async def exit_status(self) -> int:
        return (await self._process.wait()).exit_status


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
async def test_colours_copies_and_a_cut_line(starter_model: Path) -> None:
    assert starter_model.exists()
    async with AsyncExitStack() as stack:
        line = Line()
        await line.start(stack)
        await line.wait_for(lambda: FIRESIDE.ready in line.display.text, "the screen")
        line.send("caf\u00e9 au lait")
        await line.wait_for(lambda: "caf\u00e9 au lait" in line.display.text, "the draft")
        line.send("\x1b[1;2H")  # shift+home
        await line.wait_for(lambda: b"48;5;238" in line.display.raw, "the selection")
        line.send("\x03")
        await line.wait_for(lambda: b"\x1b]52;c;" in line.display.raw, "the copy")
        copied = re.search(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", bytes(line.display.raw))
        assert copied is not None
        assert base64.b64decode(copied[1]).decode() == "caf\u00e9 au lait"
        await line.wait_for(lambda: "sent to the terminal, OSC 52" in line.display.text, "the notice")
        assert "copied" not in line.display.text
        assert b"38;2;" not in line.display.raw
        assert b"38;5;" in line.display.raw
        assert line.terminal is not None
        guard = line.terminal.pid
        [face] = children(guard)
        line.connection.abort()
        await line.wait_for(lambda: not alive(face) and not alive(guard), "the end")


async def test_a_quiet_end(starter_model: Path) -> None:
    assert starter_model.exists()
    async with AsyncExitStack() as stack:
        line = Line()
        await line.start(stack)
        await line.wait_for(lambda: FIRESIDE.ready in line.display.text, "the screen")
        line.send(FIRESIDE.endings["quit"])
        assert await line.exit_status() == os.EX_OK
        assert not line.display.keyboard
        assert not {mode >> 5 for mode in line.display.screen.mode} & {1000, 1003, 1006, 1049, 2004}
