"""What `fireside models list` prints: a table for people, one object for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from app.cli.table import table
from app.exits import ExitCode
from app.terminal.figures import gib
from app.terminal.output import one_line

if TYPE_CHECKING:
    from backend.models import ModelEntry

_HEADINGS = ("NAME", "SIZE", "PARAMETERS", "QUANTIZATION", "CONTEXT", "FROM")


def show(*, as_json: bool) -> ExitCode:
    """Print every model on this machine; broken ones with their problem."""
    from backend.models import STARTER_COMMAND, list_models, own_folder

    entries = list_models()
    if as_json:
        print(json.dumps({"models": [_fields(entry) for entry in entries]}))
    elif entries:
        print("\n".join(table([_HEADINGS, *(_row(entry) for entry in entries)])))
        for entry in entries:
            if entry.problem:
                print(one_line(f"{entry.path}: {entry.problem}"), file=sys.stderr)
    else:
        print(f"No model was found. Get the starter: {STARTER_COMMAND}")
        print(one_line(f"Or put a .gguf file into {own_folder()}, or name one: fireside --model FILE"))
    return ExitCode.ANSWERED


def _fields(entry: ModelEntry) -> dict[str, str | int | None]:
    return {
        "name": entry.name,
        "source": entry.source,
        "path": str(entry.path),
        "kind": entry.kind,
        "architecture": entry.architecture,
        "quantization": entry.quantization,
        "parameters": entry.n_params,
        "context": entry.n_ctx_train,
        "size_bytes": entry.size_bytes,
        "problem": entry.problem,
    }


def _row(entry: ModelEntry) -> tuple[str, ...]:
    name, size = entry.name, gib(entry.size_bytes)
    if entry.kind == "broken":
        return (name, size, "", "cannot be loaded", "", entry.source)
    parameters = _short(entry.n_params, ("", "k", "M", "B", "T"))
    return (name, size, parameters, entry.quantization, str(entry.n_ctx_train), entry.source)


def _short(value: float, units: tuple[str, ...]) -> str:
    for unit in units[:-1]:
        if value < 1000:
            return f"{value:.3g} {unit}".rstrip()
        value /= 1000
    return f"{value:.3g} {units[-1]}"
