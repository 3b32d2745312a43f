"""`fireside serve` as a person starts it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.process import COMMAND, fireside, start

HELLO: Any = [{"role": "user", "content": "hello"}]


@contextmanager
def serving(model: Path, *flags: str, **options: Any) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """A running `fireside serve` and its address."""
    process = start("serve", "--model", model, "--port", "0", *flags, **options)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(rb" at (https?://[^/]+)/v1", line):
                yield process, found[1].decode()
                break
        else:
            raise AssertionError("it was not served")
    finally:
        process.kill()
        process.communicate()


def test_a_model_is_served_until_a_signal_comes(tiny_llama: Path) -> None:
    with serving(tiny_llama, "--set", "temperature=0", "--private") as (process, url):
        listed = httpx.get(f"{url}/v1/models").json()["data"]
        assert "tiny-llama" in [model["id"] for model in listed]
        assert listed[0]["context_length"] == 2048
        body = {"messages": HELLO, "max_tokens": 8}
        one, two = (httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json() for _ in range(2))
        assert one["choices"] == two["choices"]  # --temp is what holds where a request says nothing
        assert one["usage"]["completion_tokens"] == 8
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_reply_that_is_being_written_is_finished_before_the_end(tiny_llama: Path) -> None:
    with serving(tiny_llama, "--private") as (process, url):
        body = {"messages": HELLO, "max_tokens": 300, "stream": True, "logit_bias": {}}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            process.send_signal(signal.SIGINT)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--host", "0.0.0.0"), "a key is needed"),
        (("--port", "70000"), "--port expects"),
        (("--max-queued", "-1"), "--max-queued expects"),
        (("--keep-alive", "0"), "--keep-alive expects"),
        (("--allow-origin", "*"), "--allow-origin expects"),
        (("--api-key-file", "/nowhere/key"), "cannot be read"),
        (("--tls-cert", "/nowhere/cert"), "is not a file"),
        (("--tools", "write_file"), "--allow-remote-approval"),
        (("--tools", "*"), "--allow-remote-approval"),
        (("--tools", "no_such_tool"), "no_such_tool"),
        (("--workspace-root", "/nowhere"), "--workspace-root expects"),
        (("-p", "hello"), "serve"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_loaded(flags: tuple[str, ...], words: str) -> None:
    arguments = (*flags, "serve") if flags[0] == "-p" else ("serve", *flags)
    ended = fireside(*arguments)
    assert ended.returncode == 2
    assert words in ended.stderr.decode()


def test_a_port_that_is_taken_is_told(tiny_llama: Path) -> None:
    with serving(tiny_llama, "--private") as (_, url):
        ended = fireside("serve", "--model", tiny_llama, "--port", url.rpartition(":")[2])
    assert ended.returncode == 1
    assert "--port" in ended.stderr.decode()


def test_a_key_is_read_from_a_file_or_a_variable(tiny_llama: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789abcdef-key\n")
    environ = {**os.environ, "FIRESIDE_API_KEY": "another-key-0123456789"}
    with serving(tiny_llama, "--private", "--api-key-file", str(key), env=environ) as (_, url):
        assert httpx.get(f"{url}/v1/models").status_code == 401
        good = {"Authorization": "Bearer 0123456789abcdef-key"}
        assert httpx.get(f"{url}/v1/models", headers=good).status_code == 200
    with serving(tiny_llama, "--private", env=environ) as (_, url):
        good = {"Authorization": "Bearer another-key-0123456789"}
        assert httpx.get(f"{url}/v1/models", headers=good).status_code == 200
    key.write_text("\n")
    assert "is empty" in fireside("serve", "--api-key-file", key).stderr.decode()


def test_the_log_of_requests_has_no_forged_line_and_no_word_of_a_chat(tiny_llama: Path) -> None:
    with serving(tiny_llama, "--private", "--log-requests") as (process, url):
        httpx.get(f"{url}/a%0Ab%1B[31m")
        body = {"messages": [{"role": "user", "content": "marker-word"}], "max_tokens": 2}
        httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    lines = told.decode().splitlines()
    assert [line.split()[1:4] for line in lines] == [
        ["GET", r"'/a\nb\x1b[31m'", "404"],
        ["POST", "'/v1/chat/completions'", "200"],
    ]
    assert b"marker-word" not in told


def test_tools_and_a_folder_are_offered_by_the_one_who_starts_it(tiny_llama: Path, tmp_path: Path) -> None:
    flags = ("--private", "--tools", "read_file", "--workspace-root", str(tmp_path), "--system", "Be kind.")
    with serving(tiny_llama, *flags) as (_, url):
        session = httpx.post(f"{url}/v1/sessions", json={"workspace": "."}).json()
        assert session["workspace"] == str(tmp_path)
        assert httpx.post(f"{url}/v1/sessions", json={"workspace": ".."}).status_code == 403
    with serving(tiny_llama, "--private", "--tools", "*", "--allow-remote-approval") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_model_that_nobody_uses_is_freed_and_comes_back(tiny_llama: Path) -> None:
    with serving(tiny_llama, "--private", "--keep-alive", "0.2") as (_, url):
        body = {"messages": HELLO, "max_tokens": 2}
        for _ in range(2):
            assert httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).status_code == 200
            while httpx.get(f"{url}/health").json()["engine"] == "loaded":
                pass


def test_what_is_not_installed_is_named_with_the_way_to_have_it() -> None:
    without = "import sys; sys.modules['uvicorn'] = None; sys.argv[1:] = ['serve']; import fireside; "
    ended = subprocess.run(
        [sys.executable, "-c", f"{without}sys.exit(fireside.main())"],
        cwd=Path(COMMAND[1]).parent,
        capture_output=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert b"pip install" in ended.stderr and b"uvicorn" in ended.stderr
