"""What is remembered of prompts: the tokens of conversations, and what was rendered last. The only place
that changes either, so that any thread may ask."""

from __future__ import annotations

import marshal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from backend.engine.request import belongs

MOST_RENDERED = 8
"""Renderings that are remembered: what a look at the context asks for, and the request that follows."""
_WITHOUT_REFERENCES = 2
"""The version of marshal whose bytes depend on the value alone."""

_K = TypeVar("_K")
_V = TypeVar("_V")
Prior = tuple[str, tuple[int, ...]]
"""A text and its tokens."""


@dataclass(frozen=True)
class Rendering:
    """What a template made of a conversation, and its tokens as the continuation of `prior`."""

    parts: tuple[str, ...]
    prior: Prior | None
    tokens: tuple[int, ...]


class PromptCache:
    """Remembers for the prompts of one model, at most so many conversations. Iterating gives their names,
    the last used one last. Thread-safe."""

    def __init__(self, most_kept: int) -> None:
        self._most_kept = most_kept
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Prior, ...]] = {}
        self._forgotten: set[str] = set()
        """Conversations whose last reply may still end."""
        self._rendered: dict[bytes, Rendering] = {}

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._kept))

    def keep(self, conversation: str, tokens: tuple[int, ...], *texts: str) -> None:
        """Remember the tokens of a conversation up to now, for its next prompt, and its possible texts."""
        with self._lock:
            self._kept.pop(conversation, None)
            if any(belongs(conversation, name) for name in self._forgotten):
                return
            self._kept[conversation] = tuple((text, tokens) for text in texts)
            _shrink(self._kept, self._most_kept)

    def kept(self, conversation: str) -> tuple[Prior, ...]:
        """Text and tokens of a conversation up to now."""
        with self._lock:
            return self._kept.get(conversation, ())

    def begin(self, conversation: str) -> None:
        """A conversation goes on: from now on it is remembered again."""
        with self._lock:
            self._forgotten.discard(conversation)

    def forget(self, conversation: str) -> None:
        """Remember nothing of a conversation until it goes on, and no rendering: they have no names."""
        with self._lock:
            self._forgotten.add(conversation)
            self._rendered.clear()
            for name in [name for name in self._kept if belongs(name, conversation)]:
                del self._kept[name]

    def rendering(self, key: bytes) -> Rendering | None:
        """What was rendered under a key."""
        with self._lock:
            return self._rendered.get(key)

    def remember(self, key: bytes, rendering: Rendering) -> None:
        with self._lock:
            self._rendered.pop(key, None)
            self._rendered[key] = rendering
            _shrink(self._rendered, MOST_RENDERED)


def key_of(*inputs: Any) -> bytes | None:
    """A key that only equal inputs have; None for inputs that are more than plain values."""
    try:
        return marshal.dumps(inputs, _WITHOUT_REFERENCES)
    except ValueError:
        return None


def _shrink(values: dict[_K, _V], most: int) -> None:
    while len(values) > most:
        del values[next(iter(values))]
