"""How many tokens an answer took, as clients read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from backend.types import ChatOutcome


@dataclass(frozen=True)
class Usage:
    """Tokens of one request. Its replies share the prompt."""

    prompt: int
    written: int = 0
    cached: int = 0
    reasoning: int = 0

    @classmethod
    def of(cls, outcomes: Sequence[ChatOutcome]) -> Self:
        """Of the replies to one request."""
        return cls(
            prompt=max((outcome.prompt_tokens for outcome in outcomes), default=0),
            written=sum(outcome.new_tokens for outcome in outcomes),
            cached=max((outcome.reused_tokens for outcome in outcomes), default=0),
            reasoning=sum(outcome.reasoning_tokens for outcome in outcomes),
        )

    def for_chat(self) -> dict[str, Any]:
        """As chat completions and completions show it."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.written,
            "total_tokens": self.prompt + self.written,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        }

    def for_responses(self) -> dict[str, Any]:
        """As responses show it."""
        return {
            "input_tokens": self.prompt,
            "input_tokens_details": {"cached_tokens": self.cached},
            "output_tokens": self.written,
            "output_tokens_details": {"reasoning_tokens": self.reasoning},
            "total_tokens": self.prompt + self.written,
        }
