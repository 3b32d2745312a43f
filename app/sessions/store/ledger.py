"""Saved permission rules, and the audit log of every decision about a call."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from typing import Any

from app.characters import clean_fields
from app.sessions.errors import not_found
from app.sessions.records import Json, new_id, now
from app.sessions.store.database import Database


@dataclass(frozen=True)
class Rule:
    """A standing yes to calls of one tool. `session_id` None means always.

    `definition` is the hash of the tool's definition when the rule was made: a changed tool
    is not covered.
    """

    tool: str
    rule: Json
    definition: str
    session_id: str | None = None
    id: str = field(default_factory=lambda: new_id("rule"))
    created_at: int = field(default_factory=now)

    def to_wire(self) -> Json:
        """The rule as a JSON object, with its scope in a word."""
        return {
            "id": self.id,
            "tool": self.tool,
            "rule": self.rule,
            "scope": "always" if self.session_id is None else "session",
            "session_id": self.session_id,
            "created_at": self.created_at,
        }


@dataclass(frozen=True)
class AuditEntry:
    """Who decided what about a call, and why. `origin` is person, mode, rule, tool or timeout."""

    session_id: str
    call_id: str
    tool: str
    arguments: str
    verdict: str
    origin: str
    reason: str
    created_at: int = field(default_factory=now)

    def __post_init__(self) -> None:
        clean_fields(self)


class Ledger:
    """Rules and decisions of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def rules(self, session_id: str | None = None, *, tool: str | None = None) -> list[Rule]:
        """The rules that hold in a session: its own, and those for always."""

        def work(connection: sqlite3.Connection) -> list[Rule]:
            rows = connection.execute(
                "SELECT tool, rule, definition, session_id, id, created_at FROM rules "
                "WHERE (session_id IS NULL OR session_id = ?1) AND (?2 IS NULL OR tool = ?2) "
                "ORDER BY created_at, id",
                (session_id, tool),
            )
            return [Rule(row[0], json.loads(row[1]), *row[2:]) for row in rows]

        return await self._database.read(work)

    async def add(self, rule: Rule | None, entry: AuditEntry) -> None:
        """Write a decision, and the rule that came with it, in one transaction."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO decisions"
                "(session_id, call_id, tool, arguments, verdict, origin, reason, created_at) "
                "VALUES (:session_id, :call_id, :tool, :arguments, :verdict, :origin, :reason, :created_at)",
                vars(entry),
            )
            if rule is not None:
                connection.execute(
                    "INSERT INTO rules(id, session_id, tool, rule, definition, created_at) "
                    "VALUES (?,?,?,?,?,?)",
                    (
                        rule.id,
                        rule.session_id,
                        rule.tool,
                        json.dumps(rule.rule),
                        rule.definition,
                        rule.created_at,
                    ),
                )

        await self._database.write(work)

    async def revoke(self, rule_id: str) -> None:
        """Take a rule back; 404 where there is none."""

        def work(connection: sqlite3.Connection) -> None:
            if not connection.execute("DELETE FROM rules WHERE id = ?", (rule_id,)).rowcount:
                raise not_found("rule", rule_id)

        await self._database.write(work)

    async def audit(self, session_id: str) -> list[AuditEntry]:
        """Every decision about a session's calls, oldest first."""

        def work(connection: sqlite3.Connection) -> list[AuditEntry]:
            rows: Any = connection.execute(
                "SELECT session_id, call_id, tool, arguments, verdict, origin, reason, created_at "
                "FROM decisions WHERE session_id = ? ORDER BY number",
                (session_id,),
            )
            return [AuditEntry(*row) for row in rows]

        return await self._database.read(work)
