"""What a person may remember with an answer, and what a call is said to touch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.definition import Touch
from tools.facts import READING, Facts
from tools.preview import visible
from tools.rules import Kind, Rule, Scope, canonical
from tools.shell_words import Command, plain_prefix, rule_refusal
from tools.workspace import Place, Workspace


@dataclass(frozen=True)
class ScopeOffer:
    """A rule the person may save with the answer, and what it would allow in words."""

    scope: Scope
    rule: Rule

    @property
    def text(self) -> str:
        return self.rule.text


def offers(facts: Facts) -> Iterator[ScopeOffer]:
    """What may be remembered, narrow first. Nothing for files that become code."""
    if facts.becomes_code:
        return
    if facts.outside:
        if facts.effects == READING:
            yield _offer("session", facts, "call", (canonical(facts.arguments),), "exactly this call")
        return
    if facts.command is not None:
        yield from _command_offers(facts, facts.command)
        return
    if facts.tool.touch.code:
        yield _offer("session", facts, "call", (canonical(facts.arguments),), "exactly this code")
        return
    yield from _plain_offers(facts)


def _command_offers(facts: Facts, command: Command) -> Iterator[ScopeOffer]:
    if rule_refusal(command):
        yield _offer("session", facts, "call", (canonical(facts.arguments),), "exactly this command")
        return
    argv = command.segments[0]
    words = visible(shlex.join(argv))
    for scope in ("session", "always"):
        yield _offer(scope, facts, "argv", argv, f"exactly `{words}`", others=facts.others)
    if prefix := plain_prefix(argv):
        text = f"`{' '.join(prefix)}` with any paths in the workspace"
        for scope in ("session", "always"):
            yield _offer(scope, facts, "argv2", prefix, text, others=facts.others)


def _plain_offers(facts: Facts) -> Iterator[ScopeOffer]:
    scopes: tuple[Scope, ...] = ("session", "always")
    kind: Kind
    values: tuple[str, ...]
    kind, values, text = "call", (canonical(facts.arguments),), "exactly this call"
    if facts.touches_an_origin_only and not facts.origin.startswith("?"):
        kind, values, text = "host", (facts.origin,), f"addresses at {visible(facts.origin)}"
    elif facts.touches_paths_only and facts.space is not None:
        space = facts.space
        values = tuple(dict.fromkeys(str(_folder(place, space)) for place in facts.places))
        names = (visible(str(Path(value).relative_to(space.root))) for value in values)
        kind, text = "folder", f"files below {', '.join(f'{name}/' for name in names)}"
    elif facts.effects == READING and facts.tool.touch == Touch():
        kind, values, text = "any", (), "any arguments"
    for scope in scopes:
        yield _offer(scope, facts, kind, values, text)


def _folder(place: Place, space: Workspace) -> Path:
    return space.root if place.path == space.root else place.path.parent


def _offer(
    scope: Scope, facts: Facts, kind: Kind, values: tuple[str, ...], text: str, *, others: str = ""
) -> ScopeOffer:
    tool = facts.tool
    shown = f"{tool.name}: {text}"
    return ScopeOffer(scope, Rule(tool.name, tool.digest, kind, values, others, facts.root, shown, scope))


def touched_lines(facts: Facts) -> Iterator[str]:
    """One line for a person for each thing a call touches."""
    verb = "writes" if "write" in facts.effects else "reads"
    for place in facts.places:
        where = "" if place.inside else " (outside the workspace)"
        yield f"{verb} {visible(place.shown)}{where}"
    if facts.command is not None and not facts.command.segments:
        limit = "only exactly as it stands, in this chat" if any(offers(facts)) else "not at all"
        yield f"can be remembered {limit}: {facts.command.why}"
    for place in facts.code_words:
        what = "belongs to Fireside itself" if place.hidden else "becomes code"
        yield f"names {visible(place.shown)}, which {what}"
    if facts.origin:
        yield f"connects to {visible(facts.origin.lstrip('?'))}"


def touched(facts: Facts) -> Iterator[str]:
    """Paths, programs and origins, for the audit log."""
    for place in facts.places:
        yield str(place.path)
    if facts.command is not None:
        yield from (argv[0] for argv in facts.command.segments)
    if facts.origin:
        yield facts.origin.partition("?")[0] or "an unreadable address"
