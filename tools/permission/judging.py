"""What mode and rules say of a call that was looked at: it may run, it asks, or it is refused.

Asks wherever it is not sure: only what is known to be bounded runs unasked. What the words of a command
say never lets it run; a list of known commands decides which of them a rule may cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.definition import Effect
from tools.permission import own
from tools.permission.facts import READING, Facts
from tools.permission.known_commands import UnknownCommandError, understand
from tools.permission.preview import visible
from tools.permission.rules import Mode, Rule, Verdict, canonical
from tools.permission.shell_words import Argv
from tools.sandbox.bubblewrap import Sandbox
from tools.workspace import HOLDS_SECRETS, Place

Judgement = tuple[Verdict, str, Rule | None]

_ON_FILES: frozenset[Effect] = frozenset(("read", "write"))
_EXECUTING: frozenset[Effect] = frozenset(("execute",))
_ON_NETWORK: frozenset[Effect] = frozenset(("network",))


def judge(facts: Facts, mode: Mode, rules: Sequence[Rule], sandbox: Sandbox | None) -> Judgement:
    """What is to be done about a call, why, and the rule that decided."""
    name, effects = facts.tool.name, facts.effects
    if mode == "none":
        return "deny", "Tools are refused in this chat (approval mode none).", None
    for place in facts.places:
        if place.hidden:
            return "deny", f"{visible(place.shown)} belongs to Fireside itself; no tool may touch it.", None
    if rule := _refusing(facts, rules):
        return "deny", f"A saved rule refuses this: {rule.text}.", rule
    if "nothing" in effects:
        return "allow", f"{name} touches nothing.", None
    if mode == "plan" and effects != READING:
        return "deny", f"Only reading is possible while planning, and {name} would {verbs(effects)}.", None
    if why := always_asks(facts):
        return "ask", why, None
    rule = _allowing(facts, rules)
    if facts.outside and (rule is None or rule.kind != "call" or effects != READING):
        return "ask", outside(facts.outside), None
    if rule is not None:
        return "allow", f"Allowed by a rule: {rule.text}.", rule
    if mode == "all":
        return _judge_all(facts, sandbox)
    if mode in ("read", "plan") and effects == READING:
        if why := _unbounded(facts):
            return "ask", why, None
        return "allow", "Reading in the workspace is allowed.", None
    return "ask", f"{name} would {verbs(effects)}.", None


def verbs(effects: frozenset[Effect]) -> str:
    """What effects mean, for a sentence."""
    words = {
        "read": "read files",
        "write": "change files",
        "execute": "run a program",
        "network": "use the network",
        "nothing": "touch nothing",
    }
    return " and ".join(words[effect] for effect in words if effect in effects)


def always_asks(facts: Facts) -> str:
    """Why a call asks in every mode and no rule covers it, "" where a mode or a rule may decide."""
    if "nothing" in facts.effects:
        return ""
    if facts.secrets:
        return f"{_names(facts.secrets)}: {HOLDS_SECRETS}, so every such call asks first."
    if own_data := [place for place in facts.named if place.hidden]:
        return f"{_names(own_data)} belongs to Fireside itself, so every such call asks first."
    if facts.becomes_code:
        names = _names(facts.becomes_code)
        return f"{names} becomes code that other programs run, so every such call asks first."
    if facts.unseen:
        return f"{facts.tool.name} is given more words than can be checked."
    return ""


def _names(places: Sequence[Place]) -> str:
    return ", ".join(visible(place.shown) for place in places[:5])


def outside(places: Sequence[Place]) -> str:
    """Why places outside of the workspace ask, "" where there are none."""
    if not places:
        return ""
    return ", ".join(f"{visible(str(place.path))} is {place.border}" for place in places[:5]) + "."


# ---- modes -----------------------------------------------------------------------------------------


def _judge_all(facts: Facts, sandbox: Sandbox | None) -> Judgement:
    tool, effects = facts.tool, facts.effects
    if effects == _EXECUTING and own.is_confined(tool):
        if facts.arguments.get("network", False) is not False:
            return "ask", f"{tool.name} would run a program with the network.", None
        gap = (sandbox or Sandbox(None)).gap(facts.space)
        if gap or facts.space is None or facts.space.width:
            why = gap or ("there is no workspace" if facts.space is None else facts.space.width)
            return "ask", f"{tool.name} would run a program unconfined: {why}.", None
        return "allow", "Running in the sandbox, without network, is allowed (approval mode all).", None
    if effects == _ON_NETWORK and own.reads_pages(tool):
        return "allow", "Reading public pages is allowed (approval mode all).", None
    if not effects <= _ON_FILES:
        where = ", inside Fireside and with your rights" if "execute" in effects else ""
        return "ask", f"{tool.name} would {verbs(effects)}{where}.", None
    if why := _unbounded(facts):
        return "ask", why, None
    return "allow", "Reading and changing files in the workspace is allowed (approval mode all).", None


def _unbounded(facts: Facts) -> str:
    """Why nobody can tell which files a call touches, "" where its paths say so."""
    if not facts.bounded and not own.keeps_notes(facts.tool) and not own.is_said_to_read(facts.tool):
        return f"{facts.tool.name} would {verbs(facts.effects)}, and does not say which."
    if facts.strays:
        shown = ", ".join(visible(text[:80]) for text in facts.strays)
        return f"{facts.tool.name} might {verbs(facts.effects)} outside the workspace: {shown}."
    return ""


# ---- rules -----------------------------------------------------------------------------------------


def _refusing(facts: Facts, rules: Sequence[Rule]) -> Rule | None:
    """A refusal holds whatever became of the tool, and for any part of a command."""
    for rule in rules:
        if rule.verdict == "deny" and rule.tool == facts.tool.name and _is_refused(rule, facts):
            return rule
    return None


def _is_refused(rule: Rule, facts: Facts) -> bool:
    segments = facts.command.segments if facts.command else ()
    match rule.kind:
        case "any":
            return True
        case "argv":
            return any(argv == rule.values for argv in segments)
        case "argv2":
            return any(argv[: len(rule.values)] == rule.values for argv in segments)
        case "call":
            return rule.values == (canonical(facts.arguments),)
        case "folder":
            return any(_is_below(place.path, rule) for place in facts.places)
        case "host":
            return rule.values == (facts.origin,)


def _allowing(facts: Facts, rules: Sequence[Rule]) -> Rule | None:
    return next((rule for rule in rules if _is_for(rule, facts) and _covers(rule, facts)), None)


def _is_for(rule: Rule, facts: Facts) -> bool:
    tool = facts.tool
    same_tool = rule.tool == tool.name and rule.digest == tool.digest
    return rule.verdict == "allow" and same_tool and rule.workspace == facts.root


def _covers(rule: Rule, facts: Facts) -> bool:
    """Whether a rule allows exactly this; kinds that are no longer saved cover nothing."""
    match rule.kind:
        case "call":
            exact = rule.values == (canonical(facts.arguments),)
            return exact and rule.others == facts.leads and "execute" not in facts.effects
        case "folder":
            bound = own.is_for_files(facts.tool) or rule.others == facts.others
            below = all(_is_below(place.path, rule) for place in facts.places)
            return bound and below and facts.touches_paths_only
        case "host":
            bound = own.reads_pages(facts.tool) or rule.others == facts.others
            return bound and facts.touches_an_origin_only and rule.values == (facts.origin,)
        case "argv" | "argv2":
            return own.is_shell(facts.tool) and _covers_command(rule, facts)
        case _:
            return False


def _covers_command(rule: Rule, facts: Facts) -> bool:
    if facts.command is None or facts.space is None or rule.others != facts.others:
        return False
    words: Argv = rule.values
    if not facts.command.is_one or facts.command.segments[0][: len(words[:1])] != words[:1]:
        return False
    try:
        known = understand(facts.command, facts.space)
    except UnknownCommandError:
        return False
    if rule.kind == "argv":
        return facts.command.segments[0] == words
    return known.takes_paths and known.fixed == words


def _is_below(path: Path, rule: Rule) -> bool:
    folders = [Path(value) for value in rule.values]
    return any(folder == path or folder in path.parents for folder in folders)
