"""The program is one app and plain parts behind it: nothing inherits a subject, and every signal is heard."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from textual.app import App

from app.tui.app import FiresideApp
from app.tui.program.signal import Signal
from tests.app.terminal_process import ROOT
from tests.app.tui.pilot import running

PROGRAM = ROOT / "app" / "tui" / "program"
NO_SUBJECT = {"Generic[P]", "Screen[None]"}
MOST_STATEMENTS = 4
"""Of a handler: it says whose matter a key or message is, and decides nothing."""


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


def test_no_part_of_the_program_inherits_another() -> None:
    assert FiresideApp.__bases__ == (App,)
    found = {
        f"{path.name}: {node.name}({ast.unparse(base)})"
        for path in PROGRAM.glob("*.py")
        for node in classes(path)
        for base in node.bases
        if ast.unparse(base) not in NO_SUBJECT
    }
    assert found == set()


def test_all_handlers_are_the_apps_and_short() -> None:
    elsewhere = [
        f"{path.name}: {node.name}"
        for path in PROGRAM.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if node.name.startswith(("on_", "action_"))
    ]
    assert elsewhere == []
    app = ast.parse(inspect.getsource(FiresideApp)).body[0]
    assert isinstance(app, ast.ClassDef)
    handlers = [node for node in app.body if getattr(node, "name", "").startswith(("on_", "action_"))]
    assert len(handlers) > 40
    long = [
        node.name
        for node in handlers
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if sum(isinstance(one, ast.stmt) for one in ast.walk(node)) - 1 > MOST_STATEMENTS
    ]
    assert long == []


async def test_somebody_hears_of_all_that_happens() -> None:
    async with running() as run:
        parts = [
            part for part in vars(run.app).values() if type(part).__module__.startswith("app.tui.program")
        ]
        signals = {
            f"{type(part).__name__}.{name}": signal
            for part in parts
            for name, signal in vars(part).items()
            if isinstance(signal, Signal)
        }
        assert len(signals) > 10
        assert [name for name, signal in signals.items() if not signal._hearers] == []
