"""The audit log: one line for every decision about a call, readable by the owner only.

Keeps no text of the chat unless told to: what was touched, and digests of the rest.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.context import call_digest
from tools.definition import Tool
from tools.output import clean_text
from tools.permission.permissions import Decision

_MOST_CHARACTERS = 8_192


class AuditLog:
    """Appends to one file of JSON lines (0600).

    Without `content` an entry holds the tool, what was touched and a digest of the call; with it
    also the call as it was shown.
    """

    def __init__(self, path: Path, *, content: bool = False) -> None:
        self._path = path
        self._content = content

    def write(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        decision: Decision,
        *,
        session_id: str,
        call_id: str,
        outcome: str,
        decided_by: str,
    ) -> None:
        """One decision. `outcome` is what happened ("allowed", "refused"), `decided_by` who or what said
        so ("person", "mode", "rule", "nobody"). Raises OSError: an unlogged call must not run."""
        entry: dict[str, Any] = {
            "time": time.time(),
            "session": session_id,
            "call": call_id,
            "tool": tool.name,
            "tool_digest": tool.digest,
            "call_digest": call_digest(tool, arguments),
            "verdict": decision.verdict,
            "mode": decision.mode,
            "rule": decision.rule_id,
            "outcome": outcome,
            "decided_by": decided_by,
            "touches": decision.touched,
        }
        if self._content:
            entry["shown"] = decision.preview.call[:_MOST_CHARACTERS]
            entry["reason"] = decision.reason
        line = clean_text(json.dumps(entry, ensure_ascii=False)) + "\n"
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._path, flags, 0o600)
        try:
            os.fchmod(handle, 0o600)
            os.write(handle, line.encode())
        finally:
            os.close(handle)
