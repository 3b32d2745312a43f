"""Deciding about a call: what mode and rules say of what it would touch, and what a person is shown.

Decides nothing from text prefixes and asks wherever it is not sure. Runs no tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from tools.context import Grants, call_digest, content_digest
from tools.definition import NO_WORKSPACE, Attempt, Json, Tool, ToolError
from tools.permission import own
from tools.permission.facts import READING, Facts, look
from tools.permission.judging import always_asks, judge, outside
from tools.permission.preview import Preview, show_call, show_change, visible
from tools.permission.rules import Mode, Rule, Verdict
from tools.permission.scope_options import ScopeOption, scope_options, touched_lines
from tools.sandbox.bubblewrap import Sandbox
from tools.schema import ArgumentsError
from tools.workspace import COMPARED_BYTES, Place, Workspace, read_real

Origin = Literal["mode", "rule", "tool", "policy", "person", "timeout"]

_NOTHING_SHOWN = Preview("")
_NONE = "Tools are refused in this chat (approval mode none)."


class Call(Protocol):
    """One call of a model."""

    @property
    def name(self) -> str: ...
    @property
    def arguments(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Decision:
    """What is to be done about one call."""

    verdict: Verdict
    reason: str
    """One sentence for the person, and for the model when the call is refused."""
    preview: Preview = _NOTHING_SHOWN
    mode: Mode = "ask"
    """In which it was decided."""
    scope_offer: tuple[ScopeOption, ...] = ()
    """What may be remembered with a yes; empty where every such call asks."""
    grants: Grants | None = None
    """For the context of the run, once the call is allowed by mode, rule or person; None when denied."""
    origin: Origin = "mode"
    """Who decided: the mode, a saved rule, the tool where it cannot take the call, a policy that failed, the
    person, or nobody in time."""
    stop: bool = False
    """The person who refused it wants nothing more of the reply."""
    always: str = ""
    """Why it asks in every mode, "" where one could allow it or nothing is asked."""
    fault: bool = False
    """Refused by nobody: it could not run whatever anybody said, and `reason` tells the model why."""
    arguments: Json = field(default_factory=dict[str, Any])
    """What was decided about, and what is to run: the call's arguments as its tool takes them."""


def decide(
    call: Call,
    tool: Tool,
    mode: Mode,
    rules: Sequence[Rule],
    workspace: Workspace | None,
    *,
    no_space: str = NO_WORKSPACE,
    sandbox: Sandbox | None = None,
) -> Decision:
    """Whether `call` may run, must be asked about, or is refused.

    `rules` are those that hold: saved ones and this session's. Without a workspace `no_space` tells why,
    where one is needed. `sandbox` is what commands would run
    in. Reads files for the diff, so it belongs on a worker thread. Never raises for anything the
    model wrote. A call that cannot run is denied as a `fault`, so that nobody is asked about it.
    """
    if call.name != tool.name:
        return _faulty(call, f"{visible(call.name)} is not {tool.name}.", mode)
    if mode == "none":
        return Decision("deny", _NONE, mode=mode, arguments=dict(call.arguments))
    try:
        return _decide(tool.checked(call.arguments), tool, mode, rules, workspace, no_space, sandbox)
    except ArgumentsError as err:
        return _faulty(call, visible(str(err)), mode)
    except (ToolError, OSError) as err:
        return _faulty(call, visible(str(err)), mode)
    except (RecursionError, ValueError):
        return _faulty(call, f"The arguments of {tool.name} are nested too deeply.", mode)


def _faulty(call: Call, reason: str, mode: Mode) -> Decision:
    return Decision("deny", reason, mode=mode, origin="tool", fault=True, arguments=dict(call.arguments))


def _decide(
    arguments: Mapping[str, Any],
    tool: Tool,
    mode: Mode,
    rules: Sequence[Rule],
    workspace: Workspace | None,
    no_space: str,
    sandbox: Sandbox | None,
) -> Decision:
    facts = look(arguments, tool, workspace, no_space)
    verdict, reason, rule = judge(facts, mode, rules, sandbox)
    if verdict == "ask" or (verdict == "allow" and facts.effects != READING):
        # Reading that asks nobody tells by itself what is not there.
        _try(facts, mode, no_space)
    preview, contents = _preview(facts, sandbox)
    paths = frozenset(place.path for place in facts.places)
    # What was let run because the sandbox holds it may run nowhere else.
    confined = verdict == "allow" and rule is None and own.is_confined(tool)
    grants = Grants(call_digest(tool, arguments), paths, contents, facts.shown, confined)
    return Decision(
        verdict,
        reason,
        preview,
        mode,
        tuple(scope_options(facts)) if verdict == "ask" else (),
        None if verdict == "deny" else grants,
        "rule" if rule else "mode",
        arguments=dict(arguments),
        always=always_asks(facts) or outside(facts.outside) if verdict == "ask" else "",
    )


# ---- trying --------------------------------------------------------------------------------


def _try(facts: Facts, mode: Mode, no_space: str) -> None:
    """Raise ToolError for a call that cannot come to anything.

    Its file is looked at only where it lies in the workspace and is no secret, and what that holds is
    told only where reading is allowed unasked.
    """
    tool = facts.tool
    place = facts.places[0] if len(facts.places) == 1 else None
    path = place.path if place is not None and place.inside and not place.secret else None
    try:
        if tool.check is not None:
            tool.check(Attempt(facts.arguments, no_space if facts.space is None else "", path))
        if tool.change is not None and path is not None:
            tool.change(facts.arguments, _current(path))
    except ToolError as err:
        if mode in ("read", "all", "plan"):
            raise
        raise ToolError(err.plain) from err
    except Exception:  # A tool is anybody's code; a look that fails decides nothing.
        return


def _current(path: Path) -> bytes | None:
    """What the file at a real path holds, None where there is none. Raises ToolError for a folder."""
    try:
        return read_real(path, COMPARED_BYTES + 1)
    except FileNotFoundError:
        return None
    except NotADirectoryError as err:
        raise ToolError(f"{path.parent.name} is a file, so nothing can be in it.") from err
    except OSError as err:
        raise ToolError(f"{path.name} cannot be used: {err.strerror or err}.") from err


# ---- showing --------------------------------------------------------------------------------------


def _preview(facts: Facts, sandbox: Sandbox | None) -> tuple[Preview, dict[Path, str]]:
    diff, note, contents = "", "", dict[Path, str]()
    if facts.tool.change is not None and len(facts.places) == 1:
        diff, note = _diff(facts, facts.places[0], contents)
    confined = ""
    if own.is_confined(facts.tool):
        network = facts.arguments.get("network") is True
        confined = (sandbox or Sandbox(None)).describe(network=network, space=facts.space)
    elif "execute" in facts.effects:
        confined = "not sandboxed: it runs inside Fireside, with your rights"
    call = show_call(facts.tool.name, facts.arguments)
    touches = (*touched_lines(facts), note) if note else tuple(touched_lines(facts))
    return Preview(call, diff, confined, touches), contents


def _diff(facts: Facts, place: Place, contents: dict[Path, str]) -> tuple[str, str]:
    """The change as a diff; where there can be none, why, and the whole call tells what is asked."""
    change, shown = facts.tool.change, visible(place.shown)
    try:
        old: bytes | None = read_real(place.path, COMPARED_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        old = None
    except (OSError, ToolError) as err:
        return "", f"the present content of {shown} cannot be read: {visible(str(err))}"
    contents[place.path] = content_digest(old)
    if change is None or (old is not None and len(old) > COMPARED_BYTES):
        return "", f"the present content of {shown} is too large to show, over {COMPARED_BYTES:,} bytes"
    try:
        new = change(facts.arguments, old)
    except (ToolError, ValueError, TypeError, KeyError) as err:
        return "", f"it cannot be applied: {visible(str(err))}"
    diff = show_change(shown, old, new)
    if diff:
        return diff, ""
    return "", f"creates {shown}, an empty file" if old is None else f"changes nothing in {shown}"
