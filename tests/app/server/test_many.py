"""A thousand clients at once, half of them gone in the middle of their answers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.server.test_command import HELLO, serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
CLIENTS = 1000


async def ask(url: str, leaves: bool) -> str | None:
    """The answer of a stream; None for a client that goes away in the middle."""
    head, _, port = url.rpartition(":")
    reader, writer = await asyncio.open_connection(head.removeprefix("http://"), int(port))
    try:
        body = json.dumps({"messages": HELLO, "max_tokens": 8, "stream": True, "seed": 1}).encode()
        lines = ("POST /v1/chat/completions HTTP/1.1", "Host: localhost", "Connection: close")
        fields = ("Content-Type: application/json", f"Content-Length: {len(body)}", "", "")
        writer.write("\r\n".join([*lines, *fields]).encode() + body)
        await writer.drain()
        text, status = "", await reader.readline()
        assert b" 200 " in status, status
        async for line in reader:
            if line.startswith(b"data: {"):
                choice = json.loads(line[6:])["choices"][0]
                text += choice["delta"].get("content") or ""
                if leaves:
                    return None
            elif line.startswith(b"data: [DONE]"):
                return text
        raise AssertionError("the stream ended in the middle")
    finally:
        writer.close()


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def test_none_of_a_thousand_is_lost(tiny_llama: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4 * CLIENTS:
        pytest.skip("too few descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * CLIENTS), hard))
    leaving = [number < CLIENTS // 2 for number in range(CLIENTS)]
    random.Random(1).shuffle(leaving)
    with serving(tiny_llama, "--private", "--max-queued", "1024") as (process, url):
        await ask(url, False)
        before = descriptors(process.pid)
        for _ in range(2):
            answers: list[Any] = await asyncio.gather(*(ask(url, leaves) for leaves in leaving))
            whole = [text for text in answers if text is not None]
            assert len(whole) == CLIENTS // 2 and all(whole)
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            while "fireside_replies_running 0.0" not in (await http.get("/metrics")).text:
                await asyncio.sleep(0.05)
            figures = (await http.get("/metrics")).text
        assert "fireside_replies_waiting 0.0" in figures
        while descriptors(process.pid) > before + 2:  # those of the last clients are being closed
            await asyncio.sleep(0.05)
        assert await ask(url, False)
