"""When the terminal's bell rings: for who is elsewhere, and never for who sits here and reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

When = Literal["unfocused", "always", "off"]
Event = Literal["ended", "asked", "failed"]
LONG_S = 10.0
"""A reply that took so long, or a person who pressed no key for so long, may have been left alone."""


@dataclass(frozen=True)
class Attention:
    """Where the person may be. `focused` is None where the terminal does not tell."""

    focused: bool | None
    quiet_s: float
    """Since the last key."""

    @property
    def is_away(self) -> bool:
        """Whether the person is elsewhere, or may well be."""
        return self.quiet_s >= LONG_S if self.focused is None else not self.focused


def rings(when: When, event: Event, took_s: float, attention: Attention) -> bool:
    """Whether an event calls the person; `took_s` is how long a reply was made that ended."""
    match when:
        case "off":
            return False
        case "always":
            return event != "ended" or took_s >= LONG_S
        case "unfocused":
            return attention.is_away
