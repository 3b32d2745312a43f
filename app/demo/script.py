"""What a demo file says, read and checked: the screen, the model, its replies, and the steps.

Refuses what it does not know; a mistake is one sentence that names the file and the place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.bounded import parsed_toml
from app.exits import ExitCode, Failure

Face: TypeAlias = Literal["tui", "repl", "shell"]
Scope: TypeAlias = Literal["once", "session", "always", "edit", "no", "stop"]
Action: TypeAlias = Literal["type", "press", "wait", "approve", "expect", "screenshot", "sleep"]
ACTIONS: tuple[Action, ...] = ("type", "press", "wait", "approve", "expect", "screenshot", "sleep")
FILE_VARIABLE = "_FIRESIDE_DEMO"
"""The variable that tells what runs inside the terminal of a demo its file."""
PLAYED_VARIABLE = "_FIRESIDE_DEMO_PLAYED"
"""The same of a file with the number of replies that earlier commands took."""
MAX_FILE_BYTES = 1_000_000
STATES = ("idle", "running", "asking", "ready")
"""What `wait` knows beside a text on the screen: no reply runs; one runs; an approval is open and
takes keys; the model is loaded."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Step(_Part):
    """One thing that happens. Exactly one field is given.

    `type` is typed as a person would; `press` is keys by name, separated by spaces; `wait` is one
    of STATES or a text that has to appear; `expect` is a text that has to stand on the screen;
    `approve` answers the open question; `screenshot` names a picture; `sleep` is in seconds, and
    passes at once where nobody watches.
    """

    type: str | None = None
    press: str | None = None
    wait: str | None = None
    approve: Scope | None = None
    expect: str | None = None
    screenshot: Annotated[str | None, Field(pattern=r"^[a-z0-9-]{1,60}$")] = None
    sleep: Annotated[float | None, Field(ge=0, le=60)] = None

    @model_validator(mode="after")
    def _has_one_action(self) -> Step:
        given = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a step has exactly one of {', '.join(ACTIONS)}")
        return self

    @property
    def action(self) -> Action:
        """The one field that is given."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)

    @property
    def value(self) -> Any:
        """What that field says."""
        return getattr(self, self.action)


class Chat(_Part):
    """A chat that is there before the demo begins: a question and an answer after the other."""

    title: str
    turns: tuple[tuple[str, str], ...] = ()
    age_s: Annotated[int, Field(ge=0)] = 0
    pinned: bool = False


class Model(_Part):
    """A model that the picker lists."""

    name: str
    size_gib: Annotated[float, Field(gt=0)]
    quantization: str = "Q4_K_M"
    layers: Annotated[int, Field(ge=1)]
    trained: Annotated[int, Field(ge=512)]
    """Its longest context, in tokens."""
    cache_mib_per_1k: Annotated[float, Field(gt=0)]
    """What 1,024 tokens of one chat take."""
    licence: str = ""


class Machine(_Part):
    """The memory that models are planned for."""

    gpu_gib: Annotated[float, Field(gt=0)]
    gpu_free_gib: Annotated[float, Field(gt=0)]
    memory_free_gib: Annotated[float, Field(gt=0)]


class Demo(_Part):
    """A whole demo. `folder` is where its file lies; what it names is looked for there."""

    title: str
    face: Face = "tui"
    size: tuple[Annotated[int, Field(ge=20, le=400)], Annotated[int, Field(ge=5, le=200)]] = (100, 30)
    theme: str = "hearth"
    model: str | None = None
    model_name: str | None = None
    """The name that is shown for the model."""
    context: Annotated[int, Field(ge=512)] = 8192
    """Tokens that the model holds at once."""
    chat_template: str | None = None
    tool_format: str | None = None
    tools: tuple[str, ...] = ()
    approve: Literal["ask", "read", "all", "none", "plan"] = "ask"
    system: str | None = None
    workspace: Mapping[str, str] = Field(default_factory=dict)
    """Files of the folder that tools work in: path and content."""
    chats: tuple[Chat, ...] = ()
    replies: tuple[str, ...] = ()
    """What the model writes, reply by reply, its marks for thoughts and calls included."""
    tokens_per_second: Annotated[float, Field(gt=0)] = 110.0
    """The speed that is shown."""
    models: tuple[Model, ...] = ()
    """What the model picker lists, in place of the models of this machine; it needs `machine`."""
    machine: Machine | None = None
    steps: tuple[Step, ...]
    folder: Path = Path()

    @model_validator(mode="after")
    def _stays_inside(self) -> Demo:
        for name in self.workspace:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise ValueError(f"workspace: {name!r} is not in the workspace")
        if bool(self.models) != (self.machine is not None):
            raise ValueError("models and machine go together")
        return self

    @property
    def template(self) -> str | None:
        """The chat template's source: `chat_template` names a file beside the demo, or is the template."""
        if self.chat_template is None or "{" in self.chat_template:
            return self.chat_template
        return (self.folder / self.chat_template).read_text(encoding="utf-8-sig")


def read_demo(file: Path) -> Demo:
    """The demo in `file`. A Failure with exit code 2 names what is wrong with it."""
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise _wrong(file, f"it is larger than {MAX_FILE_BYTES:,} bytes")
        data = parsed_toml(file.read_text(encoding="utf-8-sig"))
    except OSError as err:
        raise _wrong(file, err.strerror or str(err)) from err
    except ValueError as err:
        raise _wrong(file, str(err)) from err
    try:
        demo = Demo.model_validate({**data, "folder": file.parent})
        _ = demo.template
    except ValidationError as err:
        raise _wrong(file, _first_error(err)) from err
    except OSError as err:
        raise _wrong(file, f"its chat_template cannot be read: {err.strerror}") from err
    return demo


def _first_error(err: ValidationError) -> str:
    found = err.errors(include_url=False)[0]
    place = ".".join(str(part + 1 if isinstance(part, int) else part) for part in found["loc"])
    if found["type"] == "extra_forbidden":
        return (
            f"{place} is not known here; a step has one of {', '.join(ACTIONS)}"
            if "step" in place
            else (f"{place} is not known; a demo has {', '.join(sorted(_fields()))}")
        )
    reason = found["msg"].removeprefix("Value error, ")
    return f"{place}: {reason}" if place else reason


def _fields() -> set[str]:
    return set(cast("dict[str, Any]", Demo.model_fields)) - {"folder"}


def _wrong(file: Path, reason: str) -> Failure:
    return Failure(
        "bad_demo",
        f"The demo {file} cannot be played: {reason}.",
        remedy="`fireside help demos` shows what a demo file contains.",
        exit_code=ExitCode.USAGE,
    )
