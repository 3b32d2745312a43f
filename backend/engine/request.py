"""What goes into the engine and what comes out: tokens in, text deltas and an end report out.

Messages, templates and formats stay outside; here everything is already token ids.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backend.engine.thought import ThoughtBudget, ThoughtMarks
from backend.types import Finish, GenerationConfig, Grammar, Priority, TokenLogprob

if TYPE_CHECKING:
    from backend.engine.kept_cells import KeptCells
    from backend.samplers import GrammarSampler

_ids = itertools.count(1)


def next_request_id() -> str:
    """A request id, unique in this process."""
    return f"r{next(_ids)}"


def belongs(name: str, conversation: str) -> bool:
    """Whether a conversation is this one, or runs beside it as `NAME/...`."""
    return name == conversation or name.startswith(f"{conversation}/")


@dataclass(eq=False)
class EngineRequest:
    """One request in token ids, with fully resolved settings."""

    tokens: list[int]
    config: GenerationConfig
    """Resolved: what is unset here is off."""
    seed: int
    max_new_tokens: int
    """0 only evaluates the prompt (a warm-up)."""
    id: str = field(default_factory=next_request_id)
    n: int = 1
    """Replies wanted; the prompt is evaluated once."""
    stop: tuple[str, ...] = ()
    role_stops: tuple[str, ...] = ()
    """Texts that end the reply like an end token: the next speaker's opening in a raw transcript."""
    forced: tuple[int, ...] | None = None
    """Ids written instead of sampled ones; the reply ends with them."""
    prefix: tuple[int, ...] = ()
    """Ids the reply begins with; it goes on by sampling."""
    grammar: Grammar | None = None
    compiled: GrammarSampler | None = None
    """The grammar as llama.cpp reads it: compiled off the engine's thread, where it could take a second."""
    thought: ThoughtMarks | None = None
    thought_budget: ThoughtBudget | None = None
    shown_specials: frozenset[int] | None = frozenset()
    """Control tokens that appear in the text (a format's markers); None shows all of them."""
    priority: Priority = "user"
    adapter_key: str = ""
    conversation: str = ""
    """The chat it is a turn of, for `forget`."""
    is_lasting: bool = False
    """Whether what the cache holds of that chat may be kept in a file."""
    kept: KeptCells | None = None
    """What a file held of that chat, to be put into a slot where it saves reading."""
    submitted: float = field(default_factory=time.perf_counter)
    """`time.perf_counter()` when the caller asked."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Prompt tokens evaluated so far, in all, and taken from the cache."""

    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step added to one reply. `text` may lag behind `ids` while a marker is undecided."""

    reply: int
    ids: tuple[int, ...]
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    prefill_s: float = 0.0
    """Seconds its prompt took in its slot; waiting for one does not count."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One reply is over. Times are seconds."""

    reply: int
    finish: Finish
    prompt_tokens: int
    reused_tokens: int
    new_tokens: int
    queue_s: float
    prefill_s: float
    decode_s: float
    time_to_first_token_s: float
    forced_tokens: int = 0
    stop_match: str | None = None
    is_cut: bool = False
    """Whether text is missing for some of the ids: a stop string's, or a hidden control token's."""
    end_token: int | None = None
    """The token that ended the reply; the last of its ids."""
    seed: int = 0
    error: Exception | None = None


Output = Progress | Delta | Ended


def unserved(request: EngineRequest, finish: Finish, error: Exception | None = None) -> list[Ended]:
    """The ends of a request that never reached a slot."""
    waited = time.perf_counter() - request.submitted
    prompt = len(request.tokens)
    return [
        Ended(reply, finish, prompt, 0, 0, waited, 0.0, 0.0, waited, error=error)
        for reply in range(request.n)
    ]
