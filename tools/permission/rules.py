"""Saved answers: which calls a person allowed or refused for good, and for which definition of a tool.

Rules come from a person's answer only. The file is the owner's alone, else it is not read.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from tools.private_file import PrivateFile, PrivateFileError

Kind = Literal["any", "call", "argv", "argv2", "folder", "host"]
Scope = Literal["session", "always"]
Verdict = Literal["allow", "ask", "deny"]


class RuleError(Exception):
    """The rules cannot be read or kept; the text says why and what to do."""


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


class RuleBook:
    """The rules of one file, shared by every process that opens it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = PrivateFile(path)

    def rules(self) -> tuple[Rule, ...]:
        """All rules that hold for good. Raises RuleError when the file is damaged or not private."""
        try:
            data = self._file.read()
        except PrivateFileError as err:
            raise RuleError(f"No saved rule is used. {err}") from err
        if data is None:
            return ()
        try:
            return tuple(_rule(item) for item in json.loads(data)["rules"])
        except (ValueError, TypeError, KeyError, RecursionError) as err:
            raise RuleError(f"{self._path} is damaged, so its rules are not used: move it away.") from err

    def add(self, rule: Rule) -> Rule:
        """Keep `rule` for good; returns it with its id. Raises RuleError."""
        kept = replace(rule, scope="always", id=secrets.token_hex(6), created_at=int(time.time()))
        self._change(lambda rules: (*rules, kept))
        return kept

    def revoke(self, rule_id: str) -> bool:
        """Forget a rule; False when there is none with this id. Raises RuleError."""
        before, after = self._change(lambda rules: tuple(rule for rule in rules if rule.id != rule_id))
        return len(after) < len(before)

    def _change(
        self, change: Callable[[tuple[Rule, ...]], tuple[Rule, ...]]
    ) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
        try:
            with self._file.locked():
                before = self.rules()
                after = change(before)
                if after != before:
                    kept = [asdict(rule) for rule in after]
                    self._file.write(json.dumps({"version": 1, "rules": kept}, indent=1))
                return before, after
        except PrivateFileError as err:
            raise RuleError(f"The rules cannot be saved. {err}") from err


_TEXTS = ("tool", "digest", "others", "workspace", "text", "id")


def _rule(item: Any) -> Rule:
    """A rule from its JSON. Raises ValueError, TypeError or KeyError for anything else."""
    known: dict[str, Any] = dict(cast("dict[str, Any]", item))
    known["values"] = tuple(known["values"])
    rule = Rule(**known)
    if rule.kind not in get_args(Kind) or rule.scope != "always" or rule.verdict not in get_args(Verdict):
        raise ValueError(f"no rule is like {rule}")
    texts = [getattr(rule, name) for name in _TEXTS]
    if not all(isinstance(text, str) for text in (*texts, *rule.values)):
        raise TypeError(f"no rule is like {rule}")
    return rule
