"""The grammar of a reply: calls that cannot violate their tool's schema, an answer bound to a
schema, and the thought in front of either, all from one `ChatFormat`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.chat.adapt import envelopes
from backend.chat.call_rules import MAX_CALLS, CallRules, Offered
from backend.chat.format import ChatFormat
from backend.chat.marker import after_prime, tidy
from backend.grammar.answer import AnswerCheck
from backend.grammar.document import Document, SchemaError, too_large
from backend.grammar.plain import as_object
from backend.grammar.rules import NEVER, NOTHING, Node, Rules, choice, optional, seq
from backend.grammar.schema import SchemaRules, schema_grammar
from backend.grammar.strings import Texts, text_rule
from backend.types import Grammar

_MAX_COST = 8_000
"""Rules that the schemas of all tools together may take; one grammar has 10,000 at most."""
_FAILED_COST = 1_000
"""What a schema counts that could not be held to, so that many bad ones take no longer than a few."""
_NODES_PER_RULE = 20


@dataclass(frozen=True)
class ReplyGrammar:
    """A grammar, or None where the reply is free, and what it leaves to a check afterwards."""

    grammar: Grammar | None
    warnings: tuple[str, ...] = ()
    answer_check: AnswerCheck | None = None
    """What a complete answer must still pass; None where the grammar holds to its whole schema."""


def reply_grammar(
    chat_format: ChatFormat,
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    tool_choice: str | Mapping[str, Any] | None = "auto",
    parallel_tool_calls: bool = True,
    json_schema: Mapping[str, Any] | bool | None = None,
    prime: str = "",
    allows_thought: bool = True,
) -> ReplyGrammar:
    """The grammar of a reply in `chat_format`; its `grammar` is None where nothing is bound.

    `tools` are OpenAI envelopes or bare functions. `tool_choice` is `auto`, `required`, `none`, a
    tool's name or the OpenAI object naming one. With `auto` the grammar sleeps until a call's
    marker appears (a format without markers is bound from the start, and may answer in any text
    that does not begin like a call). `json_schema` binds the answer, never a thought. `prime` is
    what the prompt already holds of the reply, behind the assistant's header. A reply that is bound
    from its start has one thought, where `prime` leaves it open, or says nothing of it and
    `allows_thought` is True.

    No grammar holds the text that ends a turn: where a reply is complete, only a token that ends a
    generation can follow, and an end that is spelled in ordinary tokens would become text.

    A tool whose schema cannot be held to takes any object, with a warning. Raises ValueError for a
    tool_choice that names no tool, and SchemaError for a `json_schema` that no value
    satisfies, or that has a mistake: an unknown type, a reference to nothing, a pattern that is none.
    """
    offered = envelopes(tools)
    mode, offered = _chosen(offered, tool_choice)
    if mode != "none" and (chat_format.calls is None or not offered):
        if mode == "required":
            raise ValueError("tool_choice asks for a call, and there is no tool that could be called.")
        mode = "none"
    if mode == "none" and json_schema is None:
        return ReplyGrammar(None)
    warnings: list[str] = []
    held = [] if mode == "none" else _checked(offered, warnings)
    ways = (held, parallel_tool_calls, json_schema, prime, allows_thought)
    try:
        return _held(chat_format, mode, *ways, warnings)
    except SchemaError as err:
        if json_schema is not None or mode == "none":
            raise
        # What a call's format adds to the schemas made them too large together.
        anything = [Offered(tool.name, Document({"type": "object"}), relaxed=False) for tool in held]
        warnings.append(f"The arguments of all tools may be any object. {err}")
        return _held(chat_format, mode, anything, *ways[1:], warnings)


def _held(
    chat_format: ChatFormat,
    mode: str,
    tools: list[Offered],
    parallel: bool,
    json_schema: Mapping[str, Any] | bool | None,
    prime: str,
    allows_thought: bool,
    warnings: list[str],
) -> ReplyGrammar:
    """The grammar of a reply that calls these tools, or answers by this schema."""
    schemas = SchemaRules()
    reply = _Reply(chat_format, schemas, prime, allows_thought=allows_thought)
    answer = NEVER if json_schema is None else _answer(schemas, json_schema)
    check = AnswerCheck(json_schema) if schemas.book.dropped else None
    if mode == "none":
        return replace(_finished(schemas, reply.bound(answer), warnings), answer_check=check)
    calls = CallRules(chat_format, schemas, tools, parallel=parallel)
    if mode == "required":
        return _finished(schemas, reply.bound(NEVER, calls), warnings)
    if json_schema is not None:
        return replace(_finished(schemas, reply.bound(answer, calls), warnings), answer_check=check)
    if reply.mixed:
        return _finished(schemas, reply.mixed_parts(calls), warnings)
    entries = calls.entries(prime)
    if not entries:
        return _finished(schemas, reply.free_or(calls), warnings)
    root = choice(seq(node, reply.gap) for _, node in entries)
    return _finished(schemas, root, warnings, tuple(trigger for trigger, _ in entries))


def schema_only(json_schema: Mapping[str, Any] | bool | None) -> ReplyGrammar:
    """The grammar of a reply without a format: the value itself, or anything where there is no schema."""
    if json_schema is None:
        return ReplyGrammar(None)
    made = schema_grammar(json_schema, strict=True)
    check = AnswerCheck(json_schema) if made.dropped else None
    return ReplyGrammar(Grammar(made.text), made.warnings, check)


def after_thought(grammar: str, end: str) -> Grammar:
    """A person's own grammar for the answer behind an open thought, which the text `end` closes.

    It is awake from the first token, so that the reply cannot end inside the thought, without an answer.
    """
    name = "open-thought"
    while name in grammar:
        name += "-x"
    rules = Rules()
    inside = text_rule(Texts(without=frozenset((end,))), rules, name, "raw")
    whole = rules.add(f"{name}-whole", seq(inside, end))
    blanks = r'(" " | "\n"{1,3} [ \t]{0,32})?'
    start = f"{name}-then-answer ::= {whole.name} {blanks} root\n"
    return Grammar(f"{start}{rules.text(whole)}{grammar}", root=f"{name}-then-answer")


def _finished(
    schemas: SchemaRules, root: Node, warnings: list[str], triggers: tuple[str, ...] = ()
) -> ReplyGrammar:
    rules = schemas.book.rules
    start = rules.define(rules.reserve("root"), root)
    schemas.finish()
    if not rules.satisfiable(start):
        raise SchemaError(schemas.impossible())
    told = (*warnings, *map(str, schemas.book.dropped), *schemas.book.notes)
    grammar = Grammar(rules.text(start), lazy=bool(triggers), triggers=triggers)
    return ReplyGrammar(grammar, tuple(dict.fromkeys(told)))


def _answer(schemas: SchemaRules, json_schema: Mapping[str, Any] | bool) -> Node:
    schemas.book.strict = True  # It is the caller's own, unlike the schemas of tools.
    answer = schemas.value(Document(json_schema), [json_schema], "#", "answer")
    schemas.finish()
    schemas.book.strict = False
    if not schemas.book.rules.satisfiable(answer):
        raise SchemaError(schemas.impossible())
    return answer


def _chosen(
    offered: list[dict[str, Any]], tool_choice: str | Mapping[str, Any] | None
) -> tuple[str, list[dict[str, Any]]]:
    """`auto`, `required` or `none`, and the tools that may be called."""
    if tool_choice is None:
        return "auto", offered
    if tool_choice in ("auto", "required", "none"):
        return str(tool_choice), offered
    named: Any = tool_choice
    if isinstance(tool_choice, Mapping):
        named = as_object(tool_choice.get("function", tool_choice)).get("name")
    found = [tool for tool in offered if tool["function"]["name"] == named]
    if not found:
        names = ", ".join(tool["function"]["name"] for tool in offered) or "none"
        raise ValueError(f"tool_choice names {named!r}, which is not offered. Offered: {names}.")
    return "required", found[:1]


def _checked(offered: list[dict[str, Any]], warnings: list[str]) -> list[Offered]:
    """The tools, each with a schema that can be held to: its own, else relaxed, else any object.

    Schemas come from anybody, so what all of them cost together is bounded: a tool that comes when it
    is spent takes any object.
    """
    functions = [tool["function"] for tool in offered]
    try:
        exact = [Offered(item["name"], Document(item["parameters"]), relaxed=False) for item in functions]
        if _cost(*exact) is not None:
            return exact
    except SchemaError:
        pass  # At least one of them is bad; which one, the slower way tells.
    left = _MAX_COST
    held: list[Offered] = []
    for item in functions:
        found, cost = _held_to(item["name"], item["parameters"], left, warnings)
        held.append(found)
        left -= cost
    return held


def _held_to(name: str, parameters: Any, left: int, warnings: list[str]) -> tuple[Offered, int]:
    """A tool as it can be held to, and what that costs; never more than is `left`."""
    reason = "No value satisfies its schema."
    spent = 0
    try:
        if left <= 0:
            raise too_large("the schemas of the tools before it used up the limit")
        document = Document(parameters)
        for relaxed in (False, True):
            tool = Offered(name, document, relaxed)
            spent += 1 + document.size // _NODES_PER_RULE
            cost = _cost(tool)
            if cost is not None:
                if cost > left:
                    raise too_large("together with those of the other tools")
                return tool, spent + cost
    except SchemaError as err:
        spent += _FAILED_COST
        reason = str(err)
    warnings.append(f"The arguments of the tool {name} may be any object. {reason}")
    return Offered(name, Document({"type": "object"}), relaxed=False), min(spent, max(left, 0))


def _cost(*tools: Offered) -> int | None:
    """The rules and states of patterns it takes to hold tools to their schemas, or None where one has no
    arguments that satisfy it. All are relaxed, or none is."""
    trial = SchemaRules(relaxed=any(tool.relaxed for tool in tools))
    refs = [trial.arguments(tool.document, f"{tool.name}#", "trial") for tool in tools]
    trial.finish()
    rules = trial.book.rules
    return len(rules.nodes) + trial.book.pattern_states if rules.satisfiable(*refs) else None


class _Reply:
    """The parts of a reply around calls and answer, given what the prompt already holds."""

    def __init__(
        self, chat_format: ChatFormat, schemas: SchemaRules, prime: str, *, allows_thought: bool
    ) -> None:
        self.format = chat_format
        self.book = schemas.book
        self.gap = schemas.book.shared("gap")
        self.prime = prime
        self.lead = NOTHING if prime.strip() else self.gap
        """Blanks in front of a call; behind what the prompt holds of one, they would be part of it."""
        self.allows_thought = allows_thought

    # ---- whole replies ---------------------------------------------------------------------

    def bound(self, answer: Node, calls: CallRules | None = None) -> Node:
        """A thought where there may be one, then the answer or calls, and nothing else."""
        first, later = self._answers(answer)
        if calls is not None:
            first = choice((first, seq(self.lead, calls.section(self.prime), self.gap)))
            later = choice((later, seq(calls.section(later=True), self.gap)))
        return self._after_thought(first, later, may_think=self.allows_thought)

    def free_or(self, calls: CallRules) -> Node:
        """Calls, or text that does not begin like one."""
        book = self.book
        begins = calls.begins()
        if self.format.thought and (start := self.format.thought.start.strip()):
            begins |= {r"^\s*" + re.escape(start)}
        text = book.text_rule(Texts(excluded_patterns=begins), "text", "raw")
        first, later = (seq(calls.section(later=later), self.gap) for later in (False, True))
        return self._after_thought(choice((seq(self.lead, first), text)), choice((later, text)))

    @property
    def mixed(self) -> bool:
        """Whether text and calls begin with the same marker, so that none of them is a trigger."""
        calls, start = self.format.calls, self.format.content_start.strip()
        return bool(
            calls and start and calls.call_start.strip() and start.startswith(calls.call_start.strip())
        )

    def mixed_parts(self, calls: CallRules) -> Node:
        """Text and calls in any order, each behind its marker."""
        book = self.book
        opening = self.format.content_start.strip()
        inside = Texts(without=frozenset((calls.syntax.call_start.strip(),)))
        text = book.text_rule(inside, "text", "raw")

        def part(prime: str) -> Node:
            return choice((calls.call(prime), seq(self._marker(after_prime(opening, prime)), text)))

        another = seq(self.gap, optional(self._separator(calls)), part(""))
        more = book.repeat(another, 0, MAX_CALLS - 1, None, "")
        first, later = seq(self.lead, part(self.prime)), part("")
        return self._after_thought(seq(first, *more, self.gap), seq(later, *more, self.gap))

    # ---- parts -----------------------------------------------------------------------------

    def _separator(self, calls: CallRules) -> Node:
        text = calls.syntax.separator.strip()
        return optional(self._marker(text)) if text else NOTHING

    def _marker(self, text: str) -> Node:
        return self.book.marker(tidy(text), {})

    def _answers(self, answer: Node) -> tuple[Node, Node]:
        """The answer behind its marker, as the reply's first part and behind a thought. It ends with
        its value: neither blanks nor a marker keep the reply from ending there."""
        if answer == NEVER:
            return NEVER, NEVER
        if self.format.channels:
            head = seq("<|channel|>final", optional(seq(" <|constrain|>json")), "<|message|>")
            return seq(head, answer), seq(self.format.header.strip(), head, answer)
        start = self.format.content_start.strip()
        opened = bool(start) and start in self.prime
        first = answer if opened else seq(self._marker(after_prime(start, self.prime)), answer)
        return first, seq(self._marker(start), answer)

    def _after_thought(self, first: Node, later: Node, *, may_think: bool = True) -> Node:
        """`first` at once, or a thought and `later`; an open thought must be closed before."""
        thought = self.format.thought
        if thought is None or not thought.end.strip():
            return first
        start, end = thought.start.strip(), thought.end.strip()
        inside = self.book.text_rule(Texts(without=frozenset((end,))), "thought", "raw")
        closing = seq(inside, self._marker(end), self.gap, later)
        opened, closed = self.prime.rfind(start) if start else 0, self.prime.rfind(end)
        if closed >= 0 and closed >= opened:
            return first
        if opened >= 0:
            return closing
        if not may_think:
            return first
        return choice((first, seq(self._marker(after_prime(start, self.prime)), closing)))
