"""Whether one call may run: its arguments first, then the policy, then a person; all in the audit log.

Anything that is not an exact yes is a no. Unknown content of an answer widens nothing. What is allowed
may change at any time: a question that is open is answered by a mode that refuses it, and a call begins
only if it still may.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from app.sessions.events import SessionNoticeEvent
from app.sessions.items import DECLINED, FunctionCall
from app.sessions.questions import CallQuestion, RuleOption
from app.sessions.records import Json
from app.sessions.store.ledger import AuditEntry, Rule
from app.sessions.turn.elicit import Answer
from app.sessions.turn.toolbox import is_as_wide

if TYPE_CHECKING:
    from app.sessions.tools_adapter import Decision, Tool
    from app.sessions.turn.state import TurnState

MAX_REASON_CHARS = 2000


class Approval:
    """Decides about one call, and looks again right before it begins."""

    def __init__(self, turn: TurnState, call: FunctionCall, tool: Tool) -> None:
        self.tool = tool
        self.edited: Json | None = None
        """The arguments a person put in place of the model's."""
        self._turn = turn
        self._live = turn.live
        self._call = call
        self._changes = turn.live.services.changes
        self._number = 0
        """Of the changes that were told when it was decided."""

    async def decide(self, arguments: Json) -> Decision:
        """Allow or deny; asks the person where the policy says so, and nobody where it cannot run."""
        while True:
            self._number = self._changes.number
            found, rule = await self._look(arguments), None
            if found.verdict == "ask":
                with self._turn.asking():
                    found, rule = await self._ask(found)
                break
            if found.verdict == "deny" or self._changes.number == self._number:
                break
        entry = AuditEntry(
            session_id=self._live.id,
            call_id=self._call.call_id,
            tool=self.tool.name,
            arguments=json.dumps(found.arguments, ensure_ascii=False),
            verdict=found.verdict,
            origin=found.origin,
            reason=found.reason,
        )
        await self._live.services.ledger.add(rule, entry)
        return found

    def withdrawn(self, decision: Decision) -> str:
        """Why a call that was allowed may not begin, "" where it may. Looks at what holds at this moment."""
        settings, toolbox = self._turn.settings, self._live.services.toolbox
        if self._changes.number == self._number:
            return ""
        if why := toolbox.withheld(self.tool.name, settings.tools, settings.approve):
            return why
        does = self.tool.effects(decision.arguments) - {"nothing"}
        if settings.approve == "none" or (settings.approve == "plan" and not does <= {"read"}):
            return f"The approval mode is now {settings.approve}."
        if not does or decision.origin == "person":
            return ""
        if decision.origin != "rule" and is_as_wide(settings.approve, decision.mode):
            return ""
        return "What is allowed in this chat changed before it started. Call again if it is still needed."

    async def _look(self, arguments: Json) -> Decision:
        """What is said of the call at this moment; a policy that cannot be evaluated says no."""
        from app.sessions.tools_adapter import Decision

        settings, services = self._turn.settings, self._live.services
        mode = settings.approve
        if why := services.toolbox.withheld(self.tool.name, settings.tools, mode):
            return Decision("deny", why, mode=mode, arguments=arguments)
        kept = await services.ledger.rules(self._live.id, tool=self.tool.name)
        # A rule was given to the tool as it was then.
        rules = [rule.rule for rule in kept if rule.definition == self.tool.digest]
        try:
            assert services.policy is not None
            # It may read files for a diff, which is no work for the event loop.
            return await asyncio.to_thread(
                services.policy.decide,
                self.tool,
                arguments,
                mode=mode,
                rules=rules,
                workspace=settings.folder,
            )
        except Exception as err:  # Whatever a policy does wrong must not let a call through.
            why = f"the permission rules could not be evaluated: {err}"
            return Decision("deny", why, mode=mode, origin="policy", arguments=arguments)

    async def _ask(self, asked: Decision) -> tuple[Decision, Rule | None]:
        """What a person says, and the rule to save, unless what is allowed by now refuses."""
        number = self._number
        question = CallQuestion(
            message=asked.reason,
            tool=self.tool.name,
            call_id=self._call.call_id,
            decision=asked,
            offers=_offers(asked),
        )
        asking = asyncio.create_task(self._live.elicitations.ask(question))
        changing = asyncio.create_task(self._changes.after(number))
        try:
            while not asking.done():
                await asyncio.wait((asking, changing), return_when=asyncio.FIRST_COMPLETED)
                if changing.done() and not asking.done():
                    number = self._changes.number
                    changing = asyncio.create_task(self._changes.after(number))
                    now = await self._look(asked.arguments)
                    if now.verdict == "deny":
                        return now, None
        finally:
            changing.cancel()
            asking.cancel()
            await asyncio.wait((asking,))
        found, rule = await self._answered(asked, asking.result())
        if found.verdict == "allow" and self._changes.number != number:
            now = await self._look(found.arguments)
            if now.verdict == "deny":
                return now, None
        return found, rule

    async def _answered(self, asked: Decision, answer: Answer) -> tuple[Decision, Rule | None]:
        content = answer.content
        if not answer.accepted:
            declined = answer.action == "decline"
            reason = content.get("reason") if declined else None
            said = reason[:MAX_REASON_CHARS] if isinstance(reason, str) else ""
            late = content.get("timeout") is True and answer.action == "cancel"
            found = replace(asked, verdict="deny", reason=said, origin="timeout" if late else "person")
            return replace(found, stop=declined and content.get("stop") is True), None
        if "arguments" in content:
            return await self._instead(asked, content["arguments"]), None
        return replace(asked, verdict="allow", reason="approved", origin="person"), self._rule(asked, content)

    async def _instead(self, asked: Decision, wanted: Any) -> Decision:
        """Exactly the arguments a person wrote, once; what no approval can cover stays refused."""
        if not isinstance(wanted, Mapping):
            return self._unusable(asked, f"The edited arguments of {self.tool.name} are not an object.")
        found = await self._look(dict(cast("Mapping[str, Any]", wanted)))
        if found.fault:
            return self._unusable(found, found.reason)
        if found.verdict == "deny":
            return found
        if json.dumps(found.arguments) != json.dumps(asked.arguments):
            self.edited = found.arguments
        return replace(found, verdict="allow", reason="approved with edits", origin="person")

    def _unusable(self, found: Decision, reason: str) -> Decision:
        """A person's own arguments that cannot run: the person is told, and the model that it did not run."""
        message = f"The call was not run with your arguments. {reason}"
        self._turn.publish(SessionNoticeEvent(code="unusable_arguments", message=message))
        why = f"the arguments they put in its place cannot be used. {reason}"
        return replace(found, verdict="deny", reason=why, origin="person", fault=False)

    def _rule(self, asked: Decision, content: Json) -> Rule | None:
        """The rule to save: one of those that were offered, in a scope it was offered for."""
        scope = content.get("scope", "once")
        offers = [offer for offer in _offers(asked) if offer.scope == scope]
        if "rule" in content:
            offers = [one for one in offers if content["rule"] in (one.id, {**one.rule, "id": one.id})]
        if not offers:
            return None
        session_id = self._live.id if scope == "session" else None
        return Rule(self.tool.name, offers[0].rule, self.tool.digest, session_id)


def denial(decision: Decision) -> str:
    """What the model reads of a call that does not run."""
    if decision.fault:
        return decision.reason
    who = DECLINED if decision.origin == "person" else "This call was refused"
    return f"{who}{f': {decision.reason}' if decision.reason else '.'}"


def _offers(asked: Decision) -> tuple[RuleOption, ...]:
    """The rules that may be saved, each named by its place."""
    from app.sessions.tools_adapter import saved

    return tuple(
        RuleOption(str(number), option.scope, option.text, saved(option))
        for number, option in enumerate(asked.scope_offer)
    )
