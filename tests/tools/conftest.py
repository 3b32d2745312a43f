"""A workspace, and calling a tool in it as an approved call."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.context import ToolContext
from tools.definition import Tool
from tools.permission.permissions import decide
from tools.run import ToolResult, run
from tools.sandbox.bubblewrap import Sandbox
from tools.sandbox.escape import find_sandbox
from tools.workspace import Workspace

Use = Callable[..., Awaitable[ToolResult]]


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """A workspace with one source file, beside a folder it must not reach but through a link."""
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x = 1\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("out")
    (root / "link").symlink_to(tmp_path / "outside")
    return Workspace.at(root, hidden=(root / "data",))


@pytest.fixture
def use(space: Workspace) -> Use:
    """`await use(tool, context=None, **arguments)`: what the model gets of the call, allowed by a person
    unless it cannot run at all."""

    async def call(made: Tool, context: ToolContext | None = None, /, **arguments: Any) -> ToolResult:
        context = context or ToolContext(sandbox=Sandbox(None))
        context.space = context.space or space
        wanted = SimpleNamespace(name=made.name, arguments=arguments)
        # Reading is allowed, so that what a file holds may be told.
        decision = decide(wanted, made, "read", (), context.space)
        if decision.fault:
            return ToolResult(decision.reason, "failed")
        context.grants = decision.grants
        return await run(made, arguments, context)

    return call


@pytest.fixture
def sandbox() -> Sandbox:
    """A sandbox that works here, else the test is skipped."""
    found = find_sandbox()
    if found.bwrap is None:
        pytest.skip(f"bubblewrap does not work here ({shutil.which('bwrap')}, {os.getuid()=})")
    return found
