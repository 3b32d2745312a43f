"""Runs the command as a person's shell would, from this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "fireside.py")]


def fireside(
    *arguments: str | Path, timeout: float = 100, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """The finished process. Standard input is empty unless `input` or `stdin` says otherwise."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([*COMMAND, *map(str, arguments)], timeout=timeout, **options)


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """The running process, with pipes for its output."""
    pipes: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
    }
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **(pipes | options))


def shell(line: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """What a shell line gives in which `$FIRESIDE` is the command."""
    environ = {**(options.pop("env", None) or os.environ), "FIRESIDE": " ".join(COMMAND)}
    return subprocess.run(["bash", "-c", line], env=environ, capture_output=True, timeout=100, **options)
