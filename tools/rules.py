"""Saved answers: which calls a person allowed or refused for good, and for which definition of a tool.

Rules come from a person's answer only. The file is the owner's alone, else it is not read.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

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
    """What it matches: the words of a command, a folder, an origin, or a call's arguments."""
    others: str = ""
    """With a command: the canonical JSON of the call's other arguments."""
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

    def rules(self) -> tuple[Rule, ...]:
        """All rules that hold for good. Raises RuleError when the file is damaged or not private."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as err:
            raise RuleError(f"The rules in {self._path} cannot be read: {err.strerror}.") from err
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise RuleError(
                    f"{self._path} can be changed or read by others, so its rules do not count: "
                    f"look through it, then chmod 600 it."
                )
            data = file.read(8 << 20)
        try:
            return tuple(_rule(item) for item in json.loads(data)["rules"])
        except (ValueError, TypeError, KeyError, RecursionError) as err:
            raise RuleError(f"{self._path} is damaged, so its rules do not count: move it away.") from err

    def add(self, rule: Rule) -> Rule:
        """Keep `rule` for good; returns it with its id. Raises RuleError."""
        kept = replace(rule, scope="always", id=secrets.token_hex(6), created_at=int(time.time()))
        with self._locked():
            self._write((*self.rules(), kept))
        return kept

    def revoke(self, rule_id: str) -> bool:
        """Forget a rule; False when there is none with this id. Raises RuleError."""
        with self._locked():
            rules = self.rules()
            left = tuple(rule for rule in rules if rule.id != rule_id)
            if len(left) < len(rules):
                self._write(left)
            return len(left) < len(rules)

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(
                self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
        except OSError as err:
            raise RuleError(f"The rules in {self._path} cannot be kept: {err.strerror}.") from err
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, rules: tuple[Rule, ...]) -> None:
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        text = json.dumps({"version": 1, "rules": [asdict(rule) for rule in rules]}, indent=1)
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(handle)
            draft.replace(self._path)
        except OSError as err:
            draft.unlink(missing_ok=True)
            raise RuleError(f"The rules in {self._path} cannot be kept: {err.strerror}.") from err


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
