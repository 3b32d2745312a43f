"""What a tool is: a function, what it does to the world, and which of its arguments touch what.

Importing this module imports no tool and nothing heavy.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

if TYPE_CHECKING:
    from tools.schema import ToolSchema

Effect = Literal["nothing", "read", "write", "execute", "network"]
Json: TypeAlias = dict[str, Any]

EFFECTS: tuple[Effect, ...] = get_args(Effect)
NO_WORKSPACE = "This chat has no workspace; start Fireside with --workspace FOLDER."
"""Told to a call that needs one."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class ToolError(Exception):
    """A tool could not do its work; the text is for the model and for the person.

    `hint` goes on to say what a file or a folder holds. It is left out where nobody allowed reading.
    """

    def __init__(self, text: str = "", hint: str = "") -> None:
        super().__init__(f"{text}{hint}")
        self.plain = text


class ToolDefinitionError(ValueError):
    """A function cannot be offered as a tool; the text says why and what to change."""


@dataclass(frozen=True)
class Touch:
    """Which arguments say what a call touches, so that an approval can show and bound it."""

    paths: tuple[str, ...] = ()
    """Arguments that are paths in the workspace."""
    command: str = ""
    """The argument that is a shell command."""
    code: str = ""
    """The argument that is code of a programming language."""
    url: str = ""
    """The argument that is an address on the network."""


_NO_TOUCH = Touch()


@dataclass(frozen=True)
class Attempt:
    """A call as its tool may look at it before anybody is asked about it."""

    arguments: Mapping[str, Any]
    """Checked: what the function is going to get, as JSON."""
    no_workspace: str
    """Why there is none, "" where there is one."""
    path: Path | None = None
    """Where its only path really leads; None outside the workspace and for secrets, which nobody looks at
    unasked."""


@dataclass(frozen=True)
class Tool:
    """One callable a model may be offered. Made by the `tool` decorator."""

    name: str
    function: Callable[..., Any]
    does: frozenset[Effect]
    touch: Touch = _NO_TOUCH
    time_s: float | None = None
    """Seconds one call may take; None: as the context says."""
    subprocess: bool = False
    """Runs what it runs in a process of its own, sandboxed where that works."""
    change: Callable[[Mapping[str, Any], bytes | None], bytes] | None = None
    """The new content of the file a call writes, from its arguments and the old content: for the diff."""
    does_for: Callable[[Mapping[str, Any]], frozenset[Effect]] | None = None
    """What one call does, where that depends on its arguments; never more than `does`."""
    summary: str | None = None
    """Replaces the description taken from the docstring."""
    schema_override: Json | None = None
    """Parameters of a tool that its function's signature does not describe; it takes `arguments`, a dict."""
    source: str = "built-in"
    code_hash: str = ""
    """Digest of the file the tool was loaded from."""
    check: Callable[[Attempt], None] | None = None
    """Raises ToolError for a call that cannot come to anything, so that nobody is asked about it."""

    @cached_property
    def _schema(self) -> ToolSchema:
        from tools.schema import ToolSchema

        return ToolSchema(self.function, name=self.name, description=self.summary)

    @property
    def description(self) -> str:
        return self._schema.description if self.schema_override is None else self.summary or ""

    @cached_property
    def parameters(self) -> Json:
        """The JSON Schema of the arguments."""
        return self._schema.parameters if self.schema_override is None else self.schema_override

    @property
    def definition(self) -> Json:
        """The tool in the OpenAI envelope."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    @cached_property
    def digest(self) -> str:
        """Changes whenever the tool's definition, what it does or its code changes; rules hold it."""
        facts = [self.definition, sorted(self.does), vars(self.touch), self.source, self.code_hash]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()

    def checked(self, arguments: Mapping[str, Any]) -> Json:
        """The arguments as JSON of exactly what the function is going to get, each given one converted.

        A decision, what a person sees, rules, grants and the run all take this value. Raises
        tools.schema.ArgumentsError.
        """
        from tools.schema import plain_arguments

        plain = plain_arguments(self.name, arguments)
        return plain if self.schema_override is not None else self._schema.checked(plain)

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them. Raises tools.schema.ArgumentsError."""
        if self.schema_override is not None:
            return {"arguments": dict(arguments)}
        return self._schema.validate(arguments)

    def effects(self, arguments: Mapping[str, Any]) -> frozenset[Effect]:
        """What one call does."""
        if self.does_for is None:
            return self.does
        try:
            return self.does_for(arguments) & self.does or self.does
        except Exception:  # Arguments are the model's, and this runs before they are checked.
            return self.does

    def loaded_from(self, source: str, code_hash: str) -> Tool:
        """This tool with the place it came from."""
        return replace(self, source=source, code_hash=code_hash)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function, for its author's own tests and uses."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    does: Effect | tuple[Effect, ...] = "execute",
    touch: Touch = _NO_TOUCH,
    time_s: float | None = None,
    subprocess: bool = False,
    change: Callable[[Mapping[str, Any], bytes | None], bytes] | None = None,
    does_for: Callable[[Mapping[str, Any]], frozenset[Effect]] | None = None,
    check: Callable[[Attempt], None] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    does: Effect | tuple[Effect, ...] = "execute",
    touch: Touch = _NO_TOUCH,
    time_s: float | None = None,
    subprocess: bool = False,
    change: Callable[[Mapping[str, Any], bytes | None], bytes] | None = None,
    does_for: Callable[[Mapping[str, Any]], frozenset[Effect]] | None = None,
    check: Callable[[Attempt], None] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a sync, async or generator function; the model reads its signature and docstring.

    `does` says what a call does to the world: "nothing", "read", "write", "execute", "network", or
    several of them. A tool that does not say is taken to execute, so that it always asks. `touch` names
    the arguments an approval looks at, and `check` refuses a call that cannot be done. A parameter of type
    `ToolContext` is given the context of the
    call. Raises ToolDefinitionError.
    """

    def make(function: Callable[..., Any]) -> Tool:
        own_name = name or getattr(function, "__name__", type(function).__name__)
        effects = frozenset((does,) if isinstance(does, str) else does)
        _check(own_name, effects)
        made = Tool(
            own_name,
            function,
            effects,
            touch,
            time_s,
            subprocess,
            change,
            does_for,
            description,
            check=check,
        )
        _check_touch(made)
        return made

    return make if function is None else make(function)


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the parameter that takes the ToolContext."""
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = parameter.annotation
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        if text.strip("\"' ").removesuffix(" | None").rpartition(".")[2] == "ToolContext":
            return name
    return None


def _check(name: str, effects: frozenset[str]) -> None:
    if not _NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"A tool cannot be called {name[:80]!r}: use 1 to 64 letters, digits, '_', '-' and '.'."
        )
    if not effects or not effects <= set(EFFECTS):
        raise ToolDefinitionError(
            f"The tool {name} must say that it does one or more of {', '.join(EFFECTS)}."
        )
    if "nothing" in effects and len(effects) > 1:
        raise ToolDefinitionError(f"The tool {name} cannot do nothing and something else.")


def _check_touch(made: Tool) -> None:
    touch = made.touch
    named = [name for name in (*touch.paths, touch.command, touch.code, touch.url) if name]
    for name in named:
        if name not in inspect.signature(made.function).parameters:
            raise ToolDefinitionError(f"The tool {made.name} has no parameter {name!r} to look at.")
