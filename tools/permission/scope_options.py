"""What a person may remember with an answer, and what a call is said to touch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.permission import own
from tools.permission.facts import READING, Facts
from tools.permission.judging import always_asks
from tools.permission.known_commands import UnknownCommandError, read_words, understand
from tools.permission.preview import visible
from tools.permission.rules import Kind, Rule, Scope, canonical
from tools.permission.shell_words import Command
from tools.workspace import Place, Workspace

_SCOPES: tuple[Scope, ...] = ("session", "always")
_RUNNING = ("run_shell", "run_python")


@dataclass(frozen=True)
class ScopeOption:
    """A rule the person may save with the answer, and what it would allow in words."""

    scope: Scope
    rule: Rule

    @property
    def text(self) -> str:
        return self.rule.text


def scope_options(facts: Facts) -> Iterator[ScopeOption]:
    """What may be remembered, narrow first: nothing for what asks in every mode, and nothing for what runs
    but the commands that are known."""
    if always_asks(facts):
        return
    if facts.outside:
        if facts.effects == READING and not facts.origin:
            yield _exact(facts, "session")
        return
    if "execute" in facts.effects:
        if facts.command is not None and facts.space is not None and own.is_shell(facts.tool):
            yield from _command_offers(facts, facts.command, facts.space)
        return
    yield from _plain_offers(facts)


def _command_offers(facts: Facts, command: Command, space: Workspace) -> Iterator[ScopeOption]:
    try:
        known = understand(command, space)
    except UnknownCommandError:
        return
    argv = command.segments[0]
    words = visible(shlex.join(argv))
    for scope in _SCOPES:
        yield _offer(scope, facts, "argv", argv, f"exactly `{words}`", others=facts.others)
    if known.takes_paths:
        text = f"`{visible(shlex.join(known.fixed))}` with any paths in the workspace"
        for scope in _SCOPES:
            yield _offer(scope, facts, "argv2", known.fixed, text, others=facts.others)


def _plain_offers(facts: Facts) -> Iterator[ScopeOption]:
    for scope in _SCOPES:
        if facts.touches_an_origin_only and not facts.origin.startswith("?"):
            text = f"addresses at {visible(facts.origin)}{_rest(facts)}"
            yield _offer(scope, facts, "host", (facts.origin,), text, others=facts.others)
        elif facts.touches_paths_only and facts.space is not None:
            space = facts.space
            values = tuple(dict.fromkeys(str(_folder(place, space)) for place in facts.places))
            names = (visible(str(Path(value).relative_to(space.root))) for value in values)
            text = f"files below {', '.join(f'{name}/' for name in names)}{_rest(facts)}"
            yield _offer(scope, facts, "folder", values, text, others=facts.others)
        else:
            yield _exact(facts, scope)


def _rest(facts: Facts) -> str:
    """What a rule is bound to beside what it names, in words."""
    is_free = own.is_for_files(facts.tool) or own.reads_pages(facts.tool) or facts.others == canonical({})
    return "" if is_free else ", with the same other arguments"


def _exact(facts: Facts, scope: Scope) -> ScopeOption:
    values = (canonical(facts.arguments),)
    return _offer(scope, facts, "call", values, "exactly this call", others=facts.leads)


def _folder(place: Place, space: Workspace) -> Path:
    return space.root if place.path == space.root else place.path.parent


def _offer(
    scope: Scope, facts: Facts, kind: Kind, values: tuple[str, ...], text: str, *, others: str = ""
) -> ScopeOption:
    tool = facts.tool
    shown = f"{tool.name}: {text}"
    return ScopeOption(scope, Rule(tool.name, tool.digest, kind, values, others, facts.root, shown, scope))


def why_not_obeyed(rule: Rule) -> str:
    """Why a saved rule allows nothing any more, as the end of a sentence; "" where it may.

    Older versions saved rules for more than can be known to stay what the card showed.
    """
    if rule.verdict != "allow":
        return ""
    match rule.kind:
        case "any":
            return "it would cover calls that nobody saw"
        case "call" if rule.tool in _RUNNING:
            return "what a program does may change while its words stay"
        case "argv" | "argv2":
            try:
                known = read_words(rule.values)
            except UnknownCommandError as err:
                return str(err)
            # The words of a wide rule are those that stay, without any path.
            return "it would cover more than it shows" if rule.kind == "argv2" and known.paths else ""
        case _:
            return ""


def touched_lines(facts: Facts) -> Iterator[str]:
    """One line for a person for each thing a call touches."""
    verb = "writes" if "write" in facts.effects else "reads"
    for place in facts.places:
        where = "" if place.inside else f" ({place.border})"
        yield f"{verb} {visible(place.shown)}{where}{', which may contain secrets' if place.secret else ''}"
    if facts.places and facts.space is not None and facts.space.width:
        yield facts.space.width
    if facts.command is not None and own.is_shell(facts.tool):
        try:
            understand(facts.command, facts.space)
        except UnknownCommandError as err:
            yield f"cannot be remembered: {visible(str(err))}"
    for place in facts.named:
        what = "may contain secrets" if place.secret else "becomes code"
        yield f"names {visible(place.shown)}, which {'belongs to Fireside itself' if place.hidden else what}"
    if facts.origin:
        yield f"connects to {visible(facts.origin.lstrip('?'))}"
