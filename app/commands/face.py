"""What a command needs of the face it was given in, and what a command is.

A face draws and asks; it decides nothing. Whatever comes through here as text is sanitised already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from app.sessions.manager import SessionManager
    from app.settings.config import Settings

FaceKind = Literal["repl", "tui"]
Screen = Literal[
    "chats",
    "search",
    "model",
    "params",
    "tools",
    "theme",
    "help",
    "keys",
    "logs",
    "settings",
    "tokens",
    "files",
]
Loaded = Callable[[], Awaitable[None]]
Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Choice:
    """One line to choose from; `value` is what comes back."""

    value: str
    label: str
    detail: str = ""


class Face(Protocol):
    """The few things a command asks of a face."""

    @property
    def kind(self) -> FaceKind: ...
    @property
    def manager(self) -> SessionManager:
        """The one that holds the open chat: private chats have one of their own."""
        ...

    @property
    def kept(self) -> SessionManager:
        """The one of chats that are kept."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings this run began with: flags over variables over files."""
        ...

    @property
    def session_id(self) -> str | None:
        """The open chat; None before its first message."""
        ...

    @property
    def is_private(self) -> bool:
        """Whether the open chat is kept nowhere."""
        ...

    async def session(self) -> str:
        """The open chat's id; makes the chat where there is none yet."""
        ...

    async def open_session(self, session_id: str) -> None:
        """Leave this chat for another and show it."""

    async def new_session(self, *, private: bool = False) -> None:
        """Leave this chat for a new one."""

    async def delete_session(self, session_id: str) -> None:
        """Delete a chat, leave it where it is the open one, and tell how it comes back."""

    async def send(self, text: str) -> None:
        """Post a message with what is attached; a running turn has it wait in the queue."""

    def attach(self, block: Mapping[str, Any], name: str) -> None:
        """Let a content block of the chat's go with the next message."""

    def name_file(self, name: str) -> bool:
        """Name a file in the draft, with which it goes. False in a face where that cannot be."""
        ...

    def insert(self, text: str) -> None:
        """Put text into the draft, where the caret is; it begins no command there."""

    def say(self, text: str, *, error: bool = False) -> None:
        """One piece of news, a sentence or two."""

    async def show(self, title: str, body: Rows | str) -> None:
        """Something to read: a text, or rows of columns whose first one names the row."""

    async def read_pages(self, text: str) -> bool:
        """Let the person read a long text page by page, from its end; False where that cannot be."""
        ...

    async def choose(self, title: str, choices: Sequence[Choice]) -> str | None:
        """The value a person chose; None where they chose nothing."""
        ...

    async def ask(self, question: str, default: str = "") -> str | None:
        """A line of text; None where the person gave none."""
        ...

    async def edit_text(self, text: str) -> str | None:
        """`text` as the person left it in an editor; None where they gave up."""
        ...

    async def copy(self, text: str, what: str) -> None:
        """Put text on the clipboard and tell which way worked; `what` names it ("the last reply")."""

    async def clipboard(self) -> str | None:
        """The clipboard's text; None where it cannot be read, which the face has told."""
        ...

    async def screen(self, name: Screen, query: str = "") -> bool:
        """Open the face's own screen for a purpose; False where it has none, and a command answers.

        `query` is what its filter begins with.
        """
        ...

    def show_download(self, share: float | None) -> None:
        """How much of a model is fetched, from 0 to 1; None when nothing is any more."""

    @property
    def gave_up(self) -> bool:
        """Whether the person ended the load or the download that runs."""
        ...

    async def load_model(
        self, source: str | None, options: Mapping[str, Any], loaded: Loaded | None = None
    ) -> None:
        """Load a model for all chats, and show how far it is; `loaded` is awaited once it is there."""

    def themes(self) -> Sequence[str]:
        """The names of the themes there are."""
        ...

    def set_theme(self, name: str) -> None:
        """Use a theme from now on. SettingError where it cannot be used."""

    def keys(self) -> Rows:
        """The face's keys, each with what it does."""
        ...

    def key_of(self, command: Command) -> str:
        """The key that runs a command, as it is bound now; empty for none."""
        ...

    def quit(self) -> None:
        """Leave, as soon as the command has ended."""


@dataclass(frozen=True)
class Completion:
    """What an argument may become, with a word about it."""

    text: str
    detail: str = ""


Run = Callable[[Face, str], Awaitable[None]]
Complete = Callable[[Face, str], Awaitable[Sequence[Completion]]]


@dataclass(frozen=True)
class Command:
    """A slash command and palette entry. `run` gets the face and the text after the name.

    `key` is the key that does the same in a face that has one. `palette` is off where the command
    means nothing without an argument.
    """

    name: str
    usage: str
    help: str
    run: Run
    aliases: tuple[str, ...] = ()
    key: str = ""
    complete: Complete | None = None
    faces: tuple[FaceKind, ...] = ("repl", "tui")
    palette: bool = True


def words(*choices: str) -> Complete:
    """Completion among fixed words."""

    async def complete(face: Face, rest: str) -> Sequence[Completion]:
        return [Completion(word) for word in choices if word.startswith(rest)]

    return complete
