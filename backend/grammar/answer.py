"""Checks a finished answer against its schema, for the keywords that no grammar held it to."""

from __future__ import annotations

import json
from dataclasses import dataclass

from backend.grammar.plain import Schema
from backend.grammar.validate import verdict


@dataclass(frozen=True)
class AnswerCheck:
    """The check that is left to do once an answer bound to `schema` is complete."""

    schema: Schema

    def violations(self, text: str) -> tuple[str, ...]:
        """Why the answer `text` does not satisfy the schema, in sentences; () when it does.

        What could not be checked is told too: it is never taken for satisfied.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return ("the answer is not valid JSON",)
        broken, unchecked = verdict(value, self.schema)
        return (*broken, *unchecked)
