"""What a file offers, read from its syntax tree: names, summaries, what the tools do. Runs nothing."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from tools.definition import EFFECTS, Effect

_MODULES = ("tools", "fireside", "tools.definition")
_MOST_TOOLS = 200


@dataclass(frozen=True)
class Manifest:
    """One tool as it is listed before it is loaded. All but `attribute` is for people."""

    name: str
    summary: str
    does: tuple[Effect, ...]
    source: str
    """"built-in", "user", "project", "file", "entry point" or "MCP"."""
    origin: str
    """The module or the file it comes from."""
    attribute: str = ""
    """The name it has in its module."""


class ManifestError(Exception):
    """A file cannot be read as Python; the text says why."""


def read_manifests(data: bytes, *, source: str, origin: str) -> tuple[Manifest, ...]:
    """The tools that the Python file `data` defines at its top level. Raises ManifestError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a file that nobody trusts yet; they would go to the terminal
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        where = f" (line {err.lineno})" if isinstance(err, SyntaxError) and err.lineno else ""
        raise ManifestError(f"{origin} is not valid Python{where}.") from err
    decorators = frozenset(_decorator_names(tree.body))
    found: list[Manifest] = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            if ast.unparse(call.func if call else decorator) in decorators:
                found.append(_manifest(node, call, source, origin))
    return tuple(found[:_MOST_TOOLS])


def _decorator_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """What `tool` is called in this file."""
    for node in body:
        if isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            yield from (alias.asname or alias.name for alias in node.names if alias.name == "tool")
        if isinstance(node, ast.Import):
            yield from (
                f"{alias.asname or alias.name}.tool" for alias in node.names if alias.name in _MODULES
            )


def _manifest(
    node: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call | None, source: str, origin: str
) -> Manifest:
    given = {keyword.arg: _literal(keyword.value) for keyword in call.keywords} if call else {}
    name = given.get("name")
    summary = given.get("description") or ast.get_docstring(node) or ""
    does = given.get("does", "execute")
    said: object = (does,) if isinstance(does, str) else does
    effects = cast("tuple[object, ...]", said) if isinstance(said, tuple) else ()
    return Manifest(
        name if isinstance(name, str) else node.name,
        str(summary).strip().partition("\n")[0][:200],
        tuple(effect for effect in EFFECTS if effect in effects) or ("execute",),
        source,
        origin,
        node.name,
    )


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
