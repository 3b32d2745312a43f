"""Saved answers: which calls a person allowed or refused for good, and for which definition of a tool.

Rules come from a person's answer only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["any", "call", "argv", "argv2", "folder", "host"]
Scope = Literal["session", "always"]
Verdict = Literal["allow", "ask", "deny"]
Mode = Literal["ask", "read", "all", "none", "plan"]


@dataclass(frozen=True)
class Rule:
    """One saved answer."""

    tool: str
    digest: str
    """Of the tool's definition; an allowing rule counts only for exactly that."""
    kind: Kind
    values: tuple[str, ...] = ()
    """What it matches: the words of a command ("argv"), those of its words that are no paths ("argv2"),
    folders, an origin, or a call's arguments. "any" only refuses."""
    others: str = ""
    """What has to be the same beside: as canonical JSON the other arguments, or for one call where its
    paths led."""
    workspace: str = ""
    """The real path it was given in."""
    text: str = ""
    """What it allows, in words."""
    scope: Scope = "session"
    verdict: Verdict = "allow"
    id: str = ""
    created_at: int = 0


def canonical(arguments: Mapping[str, Any]) -> str:
    """Arguments as one comparable text."""
    return json.dumps(arguments, sort_keys=True, default=repr)
