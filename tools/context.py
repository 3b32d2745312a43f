"""What a running tool is given: its session, its workspace, its limits, and ways to say and ask.

The session manager fills it; nothing here knows a session, a model or a screen.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tools.definition import NO_WORKSPACE, Tool, ToolError
from tools.permission.led_to import is_led_to
from tools.permission.rules import Mode
from tools.sandbox.aside import Aside

if TYPE_CHECKING:
    from tools.sandbox.bubblewrap import Sandbox
    from tools.workspace import Workspace

Answer: TypeAlias = dict[str, Any] | None
DEEPEST = 2
"""Levels of sessions below the one a person talks to."""
AT_ONCE = 4
"""Children of one session that run side by side."""


class Cancelled(BaseException):
    """Raised inside a tool whose call was cancelled; not an Exception, so that `except` lets it pass."""


class Cancellation:
    """A flag that any thread may set once, with callbacks that run when it is set."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        """Cancel. Further calls do nothing."""
        with self._lock:
            if self._event.is_set():
                return
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self, seconds: float) -> bool:
        """Sleep at most `seconds` in a worker thread; True as soon as it is cancelled."""
        return self._event.wait(seconds)

    def raise_if_set(self) -> None:
        """Raise Cancelled when it is set."""
        if self._event.is_set():
            raise Cancelled

    def call(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when cancelled, at once if that is already so; returns how to undo it."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        callback()
        return lambda: None

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)


@dataclass(frozen=True)
class Limits:
    """What one call may use."""

    time_s: float = 120.0
    output_bytes: int = 16_384
    """What the model reads of a result, in UTF-8; a token is at least one byte."""
    kept_bytes: int = 64 << 20
    """What is kept of a whole output; a subprocess that writes more is ended."""
    memory_bytes: int = 4 << 30
    """Data of each process a tool starts."""


@dataclass(frozen=True)
class Field:
    """One question of a form."""

    name: str
    label: str = ""
    kind: Literal["text", "number", "boolean"] = "text"
    choices: tuple[str, ...] = ()
    required: bool = True
    default: str | float | bool | None = None


@dataclass(frozen=True)
class Form:
    """A question to the person, as flat fields."""

    message: str
    fields: Sequence[Field] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """The form as the flat JSON Schema of an elicitation."""
        properties = {one.name: _property(one) for one in self.fields}
        required = [one.name for one in self.fields if one.required]
        return {"type": "object", "properties": properties, "required": required}


def _property(one: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string" if one.kind == "text" else one.kind}
    if one.label:
        found["title"] = one.label
    if one.choices:
        found["enum"] = list(one.choices)
    if one.default is not None:
        found["default"] = one.default
    return found


@dataclass(frozen=True)
class ToolFile:
    """A file that a tool made."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Grants:
    """What an approval allows: one exact call, the paths it may touch, and the files as they were shown."""

    call: str
    """Digest of the tool and its arguments, from `call_digest`."""
    paths: frozenset[Path] = frozenset()
    """Real paths, those outside the workspace and those that become code included."""
    contents: Mapping[Path, str] = field(default_factory=dict[Path, str])
    """SHA-256 of each file a call changes as its diff showed it, "" where there was none."""
    shown: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Where each path of the call's arguments led when it was decided about."""
    confined: bool = False
    """It was allowed because the sandbox holds what it runs: nowhere else may it run."""


def call_digest(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What identifies a call for its approval: the tool's own digest and the arguments."""
    text = json.dumps(arguments, sort_keys=True, default=repr)
    return hashlib.sha256(f"{tool.digest}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class SpawnRequest:
    """What a child session is started with."""

    task: str
    tools: tuple[str, ...]
    """Names the child may be offered, all of them offered to the parent too."""
    mode: Mode
    depth: int
    rounds: int
    """Rounds of calls it may make."""
    time_s: float
    parent_session_id: str
    call_id: str
    cancellation: Cancellation


Spawn: TypeAlias = Callable[[SpawnRequest], Awaitable[str]]
"""Starts a child, waits for its end and returns its last answer. Cancelled: it ends the child."""


@dataclass
class Delegation:
    """The rights of one session that may delegate; one object for all its calls."""

    spawn: Spawn
    tools: tuple[str, ...] = ()
    mode: Mode = "ask"
    depth: int = 0
    """0 for the session a person talks to."""
    rounds: int = 20
    """Rounds left to this session."""
    deadline: float | None = None
    """`time.monotonic()` at which this session's time is over."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def start(self, task: str, wanted: tuple[str, ...], time_s: float, context: ToolContext) -> str:
        """Run one child within these rights, waiting while four run. Raises ToolError."""
        if self.depth >= DEEPEST:
            raise ToolError(f"Tasks are handed on at most {DEEPEST} levels deep; do this one yourself.")
        if self.rounds < 1:
            raise ToolError("No rounds are left to hand on.")
        if unknown := sorted(set(wanted) - set(self.tools)):
            raise ToolError(f"You cannot hand on tools you do not have: {', '.join(unknown)[:200]}.")
        async with self._slots:
            left_s = time_s if self.deadline is None else min(time_s, self.deadline - time.monotonic())
            if left_s <= 0:
                raise ToolError("No time is left to hand on.")
            request = SpawnRequest(
                task,
                wanted or self.tools,
                self.mode,
                self.depth + 1,
                self.rounds,
                left_s,
                context.session_id,
                context.call_id,
                context.cancellation,
            )
            return await self.spawn(request)


@dataclass
class ToolContext:
    """Given to a tool through its parameter of this type.

    Made once per call by whoever runs tools.
    """

    session_id: str = ""
    call_id: str = ""
    space: Workspace | None = None
    no_space: str = NO_WORKSPACE
    """Why there is no workspace, for a call that needs one."""
    limits: Limits = field(default_factory=Limits)
    cancellation: Cancellation = field(default_factory=Cancellation)
    grants: Grants | None = None
    """From the decision about this call; without it only tools that do nothing run."""
    sandbox: Sandbox | None = None
    """None: looked for when it is needed."""
    output_folder: Path | None = None
    """Where whole outputs are kept; None: nowhere."""
    notes_folder: Path | None = None
    aside: Aside = field(default_factory=Aside)
    """Where what a run left that would become code is kept."""
    allowed_addresses: tuple[str, ...] = ()
    """Hosts, addresses and networks that network tools may reach although they are private."""
    delegation: Delegation | None = None
    on_progress: Callable[[str], None] | None = None
    """Called on the event loop with each piece of live output, as a terminal would show it. A carriage
    return at its beginning means that the open line is written again, from nothing."""
    asker: Callable[[Form], Awaitable[Answer]] | None = None
    """Puts a form before the person; None when nobody can be asked."""
    loop: asyncio.AbstractEventLoop | None = None
    refusal: Callable[[], str] = str
    """Why the call may no longer begin, "" where it may: asked on the loop right before the function is
    called, because what is allowed may have changed since it was decided."""
    files: list[ToolFile] = field(default_factory=list["ToolFile"])
    """What the tool made for the person, kept with the chat once the call has ended."""
    on_wait: Callable[[bool], None] | None = None
    """Told when waiting for the person starts (True) and ends, so that it costs no time of the call."""

    @property
    def workspace(self) -> Path:
        """The real path of the workspace. Raises ToolError when there is none."""
        return self.place.root

    @property
    def place(self) -> Workspace:
        """The workspace. Raises ToolError when there is none."""
        if self.space is None:
            raise ToolError(self.no_space)
        return self.space

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled; a long loop asks now and then."""
        return self.cancellation.is_set

    def progress(self, text: str) -> None:
        """Show live output. From any thread; ignored once the call has ended."""
        loop, show = self.loop, self.on_progress
        if loop is None or show is None or not text:
            return
        try:
            loop.call_soon_threadsafe(show, text)
        except RuntimeError:  # The loop is closed: nobody looks any more.
            return

    def add_file(self, name: str, content: bytes | str) -> None:
        """Give the person a file of this `name`, kept with the chat. From any thread; at most 25 MB."""
        data = content.encode("utf-8", "replace") if isinstance(content, str) else bytes(content)
        self.files.append(ToolFile(name, data))

    async def ask(self, form: Form) -> Answer:
        """The person's answers by field name, or None when declined or nobody can be asked."""
        if self.asker is None:
            return None
        self._waiting(True)
        try:
            return await self.asker(form)
        finally:
            self._waiting(False)

    def ask_blocking(self, form: Form) -> Answer:
        """As `ask`, for a sync tool in its worker thread. Raises Cancelled."""
        if self.loop is None or self.asker is None:
            return None
        future = asyncio.run_coroutine_threadsafe(self.ask(form), self.loop)
        undo = self.cancellation.call(lambda: _cancel(future))
        try:
            return future.result()
        except (asyncio.CancelledError, TimeoutError) as err:
            raise Cancelled from err
        finally:
            undo()

    def path(self, text: str, *, write: bool = False) -> Path:
        """The real path that `text` leads to, if this call may touch it.

        In the workspace that needs no approval of its own, except for secrets and for writing to files
        that become code. Raises ToolError.
        """
        place = self.place.locate(text)
        granted = self.grants is not None and place.path in self.grants.paths
        if place.hidden:
            raise ToolError(f"{text} belongs to Fireside itself; no tool may touch it.")
        if self.grants is not None and self.grants.shown.get(text, place.path) != place.path:
            raise ToolError(f"{text} leads elsewhere than when this call was approved; ask again.")
        if place.secret and not granted:
            raise ToolError(f"{text} may contain keys, passwords or tokens, which nobody approved.")
        if not place.inside and not granted:
            raise ToolError(f"{text} leads to {place.path}, {place.border}, which nobody approved.")
        if write and not granted and (place.code or is_led_to(place.path, self.place.root)):
            raise ToolError(f"{text} is a file that becomes code; writing it needs a separate approval.")
        return place.path

    def check_unchanged(self, path: Path, content: bytes | None) -> None:
        """Raise ToolError when a file is no longer what its approval showed."""
        shown = None if self.grants is None else self.grants.contents.get(path)
        if shown is not None and shown != content_digest(content):
            raise ToolError(f"{path.name} changed after this call was approved; read it and ask again.")

    def _waiting(self, waits: bool) -> None:
        if self.on_wait is not None:
            self.on_wait(waits)


def _cancel(future: Future[Answer]) -> None:
    future.cancel()


def content_digest(content: bytes | None) -> str:
    """SHA-256 of a file's content, "" for a file that is not there."""
    return "" if content is None else hashlib.sha256(content).hexdigest()
