"""What one look at the machine found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

State = Literal["ok", "note", "warning", "problem"]
"""A problem stops a chat, a warning costs speed or a feature, a note is good to know."""


@dataclass(frozen=True)
class Check:
    """One line of the report. `remedy` says what to do, a command on a line of its own."""

    name: str
    state: State
    text: str
    remedy: str = ""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    """The same for programs: JSON-ready."""

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return asdict(self)
