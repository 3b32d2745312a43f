"""Whether one call may run: its arguments first, then the policy, then a person; all in the audit log.

Anything that is not an exact yes is a no. Unknown content of an answer widens nothing. What is allowed
may change at any time: a question that is open is answered by a mode that refuses it, and a call begins
only if it still may.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from app.sessions.events import SessionNoticeEvent
from app.sessions.items import DECLINED, FunctionCall
from app.sessions.records import Json
from app.sessions.store.ledger import AuditEntry, Rule
from app.sessions.turn.arguments import UnfitError, checked
from app.sessions.turn.elicit import Answer, shortened
from app.sessions.turn.toolbox import Decision, Mode, SessionTool, decide, is_as_wide

if TYPE_CHECKING:
    from app.sessions.turn.state import TurnState

SCOPES = ("once", "session", "always")
MAX_REASON_CHARS = 2000


@dataclass(frozen=True)
class Approval:
    """What was decided about a call, and what it may run with."""

    granted: bool
    arguments: Json
    origin: str
    reason: str = ""
    edited: Json | None = None
    """The arguments a person put in place of the model's."""
    stop: bool = False
    fault: bool = False
    """Nobody refused it: it cannot run."""
    grants: Any = None
    mode: Mode = "ask"
    """In which it was decided."""
    number: int = 0
    """Of the changes that were told when it was decided."""

    @property
    def denial(self) -> str:
        """What the model reads of a call that does not run."""
        if self.fault:
            return self.reason
        who = DECLINED if self.origin == "person" else "This call was refused"
        return f"{who}{f': {self.reason}' if self.reason else '.'}"


async def approve(turn: TurnState, call: FunctionCall, tool: SessionTool, arguments: Json) -> Approval:
    """Decide about a call; asks the person where the policy says so, and nobody where it cannot run."""
    changes = turn.live.services.changes
    while True:
        number, mode = changes.number, turn.settings.approve
        fit, decision = await _looked_at(turn, tool, arguments)
        if decision.verdict == "ask":
            found, rule = await _asked(turn, call, tool, fit, decision, number)
            break
        found, rule = _decided(fit, decision), None
        if not found.granted or changes.number == number:
            break
    entry = AuditEntry(
        session_id=turn.live.id,
        call_id=call.call_id,
        tool=tool.name,
        arguments=json.dumps(found.arguments, ensure_ascii=False),
        verdict="allow" if found.granted else "deny",
        origin=found.origin,
        reason=found.reason,
    )
    await turn.live.services.ledger.add(rule, entry)
    return replace(found, mode=mode, number=number)


def refusal(turn: TurnState, tool: SessionTool, approval: Approval) -> str:
    """Why a call that was approved may not begin, "" where it may. Looks at what holds at this moment."""
    settings, services = turn.settings, turn.live.services
    if services.changes.number == approval.number:
        return ""
    if why := services.toolbox.withheld(tool.name, settings.tools, settings.approve):
        return why
    does = tool.effects(approval.arguments) - {"nothing"}
    if settings.approve == "none" or (settings.approve == "plan" and not does <= {"read"}):
        return f"The approval mode is now {settings.approve}."
    if not does or approval.origin == "person":
        return ""
    if approval.origin != "rule" and is_as_wide(settings.approve, approval.mode):
        return ""
    return "What is allowed in this chat changed before it started. Call again if it is still needed."


async def _asked(
    turn: TurnState, call: FunctionCall, tool: SessionTool, arguments: Json, decision: Decision, number: int
) -> tuple[Approval, Rule | None]:
    """What a person says, unless what is allowed by now refuses; `number` are the changes decided with."""
    changes = turn.live.services.changes
    asking = asyncio.create_task(turn.live.elicitations.ask(_question(call, tool, arguments, decision)))
    changing = asyncio.create_task(changes.after(number))
    try:
        while not asking.done():
            await asyncio.wait((asking, changing), return_when=asyncio.FIRST_COMPLETED)
            if changing.done() and not asking.done():
                number = changes.number
                changing = asyncio.create_task(changes.after(number))
                now = await _decide(turn, tool, arguments)
                if now.verdict == "deny":
                    return _decided(arguments, now), None
    finally:
        changing.cancel()
        asking.cancel()
        await asyncio.wait((asking,))
    found, rule = await _answered(turn, tool, arguments, decision, asking.result())
    if found.granted and changes.number != number:
        now = await _decide(turn, tool, found.arguments)
        if now.verdict == "deny":
            return _decided(found.arguments, now), None
    return found, rule


def _decided(arguments: Json, decision: Decision) -> Approval:
    """The approval of a decision that asks nobody."""
    granted = decision.verdict == "allow"
    grants = decision.grants if granted else None
    return Approval(granted, arguments, decision.origin, decision.reason, fault=decision.fault, grants=grants)


async def _looked_at(turn: TurnState, tool: SessionTool, written: Json) -> tuple[Json, Decision]:
    """The arguments as they would run, and what the policy says of a call with them."""
    if why := _withheld(turn, tool):
        return written, Decision("deny", why)
    try:
        arguments = await checked(tool, written)
    except UnfitError as err:
        # Where nothing is allowed at all, that is the answer, and no better call would help.
        if turn.settings.approve == "none":
            decision = await _decide(turn, tool, written)
            if decision.verdict == "deny":
                return written, decision
        return written, Decision("deny", str(err), "tool", fault=True)
    return arguments, await _decide(turn, tool, arguments)


def _withheld(turn: TurnState, tool: SessionTool) -> str:
    settings = turn.settings
    return turn.live.services.toolbox.withheld(tool.name, settings.tools, settings.approve)


async def _decide(turn: TurnState, tool: SessionTool, arguments: Json) -> Decision:
    if why := _withheld(turn, tool):
        return Decision("deny", why)
    live, settings = turn.live, turn.settings
    saved = await live.services.ledger.rules(live.id, tool=tool.name)
    return await decide(
        live.services.policy,
        tool,
        arguments,
        mode=settings.approve,
        # A rule was given to the tool as it was then.
        rules=[rule.rule for rule in saved if rule.definition == tool.digest],
        workspace=settings.folder,
    )


def _question(call: FunctionCall, tool: SessionTool, arguments: Json, decision: Decision) -> Json:
    return {
        "mode": "form",
        "message": decision.reason,
        "requestedSchema": {},
        "phase": "tool_call",
        "policy_name": "approvals",
        "content_preview": shortened(decision.preview),
        "preview": decision.preview,
        "details": decision.details,
        "tool": tool.name,
        "call_id": call.call_id,
        "arguments": arguments,
        "offers": [_numbered(number, offer) for number, offer in enumerate(decision.offers)],
        "scopes": list(SCOPES if decision.offers else SCOPES[:1]),
    }


def _numbered(number: int, offer: Json) -> Json:
    """An offer as a face sees it: named by its place."""
    return {**offer, "id": str(number)}


async def _answered(
    turn: TurnState, tool: SessionTool, arguments: Json, decision: Decision, answer: Answer
) -> tuple[Approval, Rule | None]:
    content = answer.content
    if not answer.accepted:
        reason = content.get("reason") if answer.action == "decline" else None
        said = reason[:MAX_REASON_CHARS] if isinstance(reason, str) else ""
        stop = answer.action == "decline" and content.get("stop") is True
        origin = "timeout" if content.get("timeout") is True and answer.action == "cancel" else "person"
        return Approval(False, arguments, origin, said, stop=stop), None
    if "arguments" in content:
        return await _edited(turn, tool, arguments, content["arguments"]), None
    rule = _rule(turn, tool, decision.offers, content)
    return Approval(True, arguments, "person", "approved", grants=decision.grants), rule


async def _edited(turn: TurnState, tool: SessionTool, arguments: Json, wanted: Any) -> Approval:
    """Exactly the arguments a person wrote, once; what no approval can cover stays refused."""
    if not isinstance(wanted, Mapping):
        return _unusable(turn, arguments, f"The edited arguments of {tool.name} are not an object.")
    edited, decision = await _looked_at(turn, tool, dict(cast("Mapping[str, Any]", wanted)))
    if decision.fault:
        return _unusable(turn, edited, decision.reason)
    if decision.verdict == "deny":
        return _decided(edited, decision)
    changed = edited if json.dumps(edited) != json.dumps(arguments) else None
    return Approval(True, edited, "person", "approved with edits", changed, grants=decision.grants)


def _unusable(turn: TurnState, edited: Json, reason: str) -> Approval:
    """A person's own arguments that cannot run: the person is told, and the model that it did not run."""
    message = f"The call was not run with your arguments. {reason}"
    turn.publish(SessionNoticeEvent(code="unusable_arguments", message=message))
    return Approval(False, edited, "person", f"the arguments they put in its place cannot be used. {reason}")


def _rule(turn: TurnState, tool: SessionTool, offers: Sequence[Json], content: Json) -> Rule | None:
    """The rule to save: one of those that were offered, in a scope it was offered for."""
    scope = content.get("scope", "once")
    if scope not in ("session", "always") or not offers:
        return None
    fitting = [(number, offer) for number, offer in enumerate(offers) if scope in offer.get("scopes", SCOPES)]
    if "rule" in content:
        wanted = content["rule"]
        fitting = [
            (number, offer) for number, offer in fitting if wanted in (str(number), _numbered(number, offer))
        ]
    if not fitting:
        return None
    offer = fitting[0][1]
    return Rule(tool.name, offer, tool.digest, turn.live.id if scope == "session" else None)
