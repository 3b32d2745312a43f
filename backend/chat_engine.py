"""`ChatEngine`: what a face's manager asks of whatever answers: this process, a child, a server.

Messages go in and pieces come out; tokens, templates and grammars stay on the engine's side.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from backend.engine.request import next_request_id
from backend.types import ChatCard, GenerationConfig, Message, Piece, Priority

Tool = Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """One thing to answer: a conversation, or raw text. Exactly one of `messages` and `text`."""

    messages: Sequence[Message] | None = None
    text: str | None = None
    """Raw text: it is its own template, so control tokens in it are parsed."""
    tools: Sequence[Tool] = ()
    config: GenerationConfig = field(default_factory=GenerationConfig)
    n: int = 1
    """Replies wanted; they decode together and share the prompt."""
    priority: Priority = "user"
    forced: Sequence[int] | str | None = None
    """The reply to write instead of sampling one."""
    adapters: Sequence[tuple[str, float]] = ()
    continue_reply: bool = False
    """The last message is the assistant's, and the reply goes on inside it."""
    add_generation_prompt: bool = True
    """Whether the assistant's turn is opened at the end."""
    prior: tuple[str, tuple[int, ...]] | None = None
    """Text and tokens of the conversation so far. Where the rendered prompt begins with that text,
    these very tokens are used, so that a reply spelled in unusual tokens still meets its cells."""
    conversation: str | None = None
    """A name for the chat this is a turn of: the engine then keeps what would be the next `prior`."""
    is_lasting: bool = False
    """Whether an engine that has files for it may keep on disk what its cache holds of that chat."""
    id: str = field(default_factory=next_request_id)


@dataclass(frozen=True)
class Count:
    """Tokens of a prompt. `exact` is False where only an estimate could be had."""

    tokens: int
    exact: bool = True


def request_to_count(
    messages: Sequence[Message],
    tools: Sequence[Tool],
    config: GenerationConfig | None,
    conversation: str | None,
    continue_reply: bool,
) -> Request:
    """The request whose prompt `count` is asked for."""
    return Request(
        messages=messages,
        tools=tools,
        config=config or GenerationConfig(),
        continue_reply=continue_reply,
        add_generation_prompt=not continue_reply,
        conversation=conversation,
    )


@dataclass(frozen=True)
class Rendered:
    """The text a request would be evaluated as, with its tokens where they are known."""

    text: str
    tokens: tuple[int, ...] | None
    exact: bool = True


@dataclass(frozen=True)
class EngineStats:
    """What an engine is doing now. `waiting` and `running` count replies."""

    running: int
    waiting: int
    slots: int
    cached_tokens: int
    max_seq: int


@dataclass(frozen=True)
class LoadSpec:
    """Which model to load and how: `source` and the keywords of `backend.load`."""

    source: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    for_text: bool = False
    """Whether it has to write: an embedding model is then refused before its weights are read."""


Progress = Callable[[float], bool]


class ChatEngine(Protocol):
    """The seam between a conversation and a model. All failures are `backend.types` errors."""

    @property
    def card(self) -> ChatCard: ...
    @property
    def residency(self) -> dict[str, Any]: ...
    @property
    def closed(self) -> bool: ...

    async def load(self, spec: LoadSpec, progress: Progress | None = None) -> ChatCard:
        """Load a model, in place of the one there was. `progress(fraction)` cancels by False."""
        ...

    async def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        config: GenerationConfig | None = None,
        conversation: str | None = None,
        continue_reply: bool = False,
    ) -> Count:
        """Tokens of the prompt these would be. What was rendered is kept for the request that follows;
        name the `conversation` that it will name."""
        ...

    def submit(self, request: Request) -> AsyncIterator[list[Piece]]:
        """Answer: one list per engine step; the `ChatOutcome` of each reply comes last.

        Closing the iterator cancels the request.
        """
        ...

    def cancel(self, request_id: str) -> None:
        """End a request early; its outcome says `cancelled`. Unknown ids are ignored."""

    async def render(self, request: Request) -> Rendered: ...
    async def tokenize(self, text: str) -> list[int]: ...
    async def detokenize(self, ids: Sequence[int]) -> str: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text; ValueError where the model makes none."""
        ...

    async def warm(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] = (),
        conversation: str | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        """Evaluate a conversation ahead of its use, at the lowest priority. Name the `conversation`
        that requests will name, and whether it `is_lasting` as they do."""

    async def forget(self, conversation: str) -> None:
        """Empty what the cache and its files hold of a conversation, and of what ran beside it as
        `NAME/...`. What still runs of it is emptied when it ends."""

    async def stats(self) -> EngineStats: ...

    async def unload(self) -> None:
        """Free the model. Running replies end as cancelled."""
