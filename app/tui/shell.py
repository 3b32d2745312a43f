"""What the parts of the screen may ask of the running program. `FiresideApp` is the one implementation.

Screens and panes take a `Shell` and know no other room; whatever text they give it is sanitised here.
The parts of the program take a `Program`, which is a `Shell` with what they need of Textual's app.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from textual.geometry import Size
    from textual.screen import Screen
    from textual.widget import Widget
    from textual.worker import Worker

    from app.sessions.manager import SessionManager
    from app.settings.config import Settings
    from app.terminal.glyphs import Glyphs
    from app.terminal.theming import Palette


T = TypeVar("T")


class OpenChat(Protocol):
    """The chat on the screen, as panes and screens see it."""

    @property
    def id(self) -> str | None:
        """The session's id; None before the first message or draft of a new chat."""
        ...

    @property
    def private(self) -> bool: ...
    @property
    def title(self) -> str: ...
    @property
    def busy(self) -> bool:
        """Whether a reply is being written."""
        ...

    @property
    def manager(self) -> SessionManager:
        """The manager that holds this chat: a private chat has one of its own."""
        ...

    async def ensure(self) -> str:
        """The session's id; makes the session where there is none yet."""
        ...

    def reveal(self, item_id: str, query: str = "") -> None:
        """Scroll to an item, with `query` marked in it."""


class Shell(Protocol):
    """The program, for screens and panes. Textual's `App` methods (push_screen, ...) come beside it."""

    @property
    def manager(self) -> SessionManager:
        """The chats of this person. RuntimeError in the first moments, before `ready`."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings this run began with."""
        ...

    @property
    def chat(self) -> OpenChat: ...
    @property
    def palette(self) -> Palette: ...
    @property
    def glyphs(self) -> Glyphs: ...

    async def ready(self) -> None:
        """Wait until `manager` is there."""

    async def close_chat(self, session_id: str) -> None:
        """Stop showing a chat that was deleted or put away; an empty one takes its place on the screen."""

    def live_states(self) -> Mapping[str, LiveState]:
        """What is known of the chats open here, by session id; the store knows the rest."""
        ...

    def say(self, text: str, *, error: bool = False) -> None:
        """One piece of news, in the seam."""

    async def load_model(self, source: str | None, options: Mapping[str, Any] | None = None) -> bool:
        """Load a model for all chats with its progress in the status bar; False where it failed,
        which has been told."""
        ...

    def use_theme(self, name: str) -> None:
        """Draw with another theme from now on. ThemeError where there is none or it is broken."""

    def label(self, name: str) -> str:
        """The key of a thing as hints write it, by its name in the table of keys; empty where it has none."""
        ...

    def key_rows(self) -> Sequence[tuple[str, str, str]]:
        """Every key as (group, keys, what it does), as they are bound now."""
        ...


class Program(Shell, Protocol):
    """The program for its own parts: a shell, and what they use of Textual's app."""

    def start(
        self, work: Callable[[], Coroutine[Any, Any, object]], *, group: str, exclusive: bool = False
    ) -> Worker[Any]:
        """Run `work` beside the messages of the program, until it or the program ends; one of a group that is
        `exclusive` ends those before it."""
        ...

    async def ended(self, group: str) -> None:
        """Return when all that was started in a group is over."""

    async def push_screen_wait(self, screen: Screen[T]) -> T | Any:
        """Show a screen; what was chosen there. Only in what was given to `start`."""
        ...

    def call_later(self, callback: Callable[..., Any], *args: Any) -> bool:
        """Call behind the messages that wait, as the program itself."""
        ...

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any) -> bool:
        """Call when what changed is on the screen."""
        ...

    def call_from_thread(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call in the event loop, and wait for it in this thread."""
        ...

    def exit(self, result: int | None = None, return_code: int = 0) -> None:
        """Leave."""

    def bell(self) -> None: ...
    def open_url(self, url: str) -> None: ...

    @property
    def is_running(self) -> bool: ...
    @property
    def size(self) -> Size: ...
    @property
    def focused(self) -> Widget | None: ...
    @property
    def screen_stack(self) -> Sequence[Screen[Any]]:
        """Above the first one are dialogs."""
        ...


class LiveState(Protocol):
    """How a chat that is open here stands, for the chats pane."""

    @property
    def asking(self) -> int:
        """Open questions."""
        ...

    @property
    def running(self) -> bool: ...
    @property
    def waits(self) -> bool:
        """Waits for a slot, or for another model's end."""
        ...

    @property
    def prefill(self) -> float | None:
        """Share of the prompt that is read, 0 to 1, while it is read."""
        ...

    @property
    def speed(self) -> float | None:
        """Tokens a second, while a reply is written."""
        ...

    @property
    def unread(self) -> bool: ...
    @property
    def failed(self) -> bool: ...
