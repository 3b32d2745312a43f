"""An open question of a session: what it asks, what may be answered, and the rows that show it.

Whatever came from a model or a tool is written out with its invisible characters; nothing is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

from app.frontend.call_words import target_of
from app.frontend.card_body import Body, Part, arguments_part, diff_part
from app.frontend.form_field import Field
from app.terminal.glyphs import Glyphs
from app.terminal.text_rows import RowSpans, Span, cut, spread, wrapped
from tools.permission.preview import Preview, clean, one_row, value_text, visible

if TYPE_CHECKING:
    from app.sessions.questions import RuleOption
    from app.sessions.shapes import ElicitationParams

Json = dict[str, Any]
Kind = Literal["call", "form"]
Scope = Literal["session", "always"]
MOST_CUT_ROWS = 2
"""Rows of a fact that stand outside of what scrolls; a longer one is whole within it."""
MOST_TOUCHES = 3
SHORT_TARGET = 36
"""Of a target that a title shows whole on any screen."""
_IN_A_DIFF = ("path", "content", "old_text", "new_text", "everywhere")
"""Arguments that the diff of a change tells."""
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ue000-\uf8ff\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)
"""What a text field would not show as something."""
_BLANK: list[RowSpans] = [[]]
_OWN = "These are your own arguments. They are checked once, as they run, and may be refused then."
_CONTEXT_CHOICES = {
    "compact": ("summarise older turns", "the model keeps the gist of them"),
    "drop": ("leave out the oldest turns", "the model forgets them, the chat keeps them"),
    "error": ("stop", "nothing is changed"),
}


@dataclass(frozen=True)
class FormChoice:
    """One answer of a form that chooses: its key, its words, and what it costs."""

    key: str
    value: Any
    label: str
    detail: str = ""


@dataclass(frozen=True)
class Question:
    """A question, as `response.elicitation_request` told it."""

    id: str
    session_id: str
    kind: Kind
    message: str
    tool: str = ""
    call_id: str = ""
    arguments: Json = field(default_factory=dict[str, Any])
    preview: Preview = field(default_factory=lambda: Preview(""))
    offers: tuple[RuleOption, ...] = ()
    choices: tuple[FormChoice, ...] = ()
    fields: tuple[Field, ...] = ()
    edited: bool = False
    """The arguments are a person's own, in place of the model's."""

    @classmethod
    def of(cls, session_id: str, elicitation_id: str, asked: ElicitationParams) -> Question:
        """The question that an event asked; `session_id` is the chat that showed it."""
        from app.sessions.questions import CallQuestion

        found = cls(elicitation_id, asked.target_session_id or session_id, "form", "")
        if isinstance(asked, CallQuestion):
            return replace(
                found,
                kind="call",
                message=clean(asked.message),
                tool=asked.tool,
                call_id=asked.call_id,
                arguments=asked.arguments,
                preview=asked.decision.preview,
                offers=asked.offers,
            )
        schema = _json(asked.requestedSchema)
        properties = _json(schema.get("properties"))
        required = [str(name) for name in _list(schema.get("required"))]
        return replace(
            found,
            message=visible(asked.message or ""),
            choices=_choices(asked.policy_name, properties),
            fields=_fields(properties, required),
        )

    def offers_for(self, scope: Scope) -> list[RuleOption]:
        """The rules that may be saved for `scope`, narrow first."""
        return [offer for offer in self.offers if offer.scope == scope]

    def offer(self, scope: Scope, wider: int = 0) -> RuleOption | None:
        """One rule that may be saved for `scope`: the narrowest, or the one so many steps wider, around."""
        found = self.offers_for(scope)
        return found[wider % len(found)] if found else None

    def without(self, scope: Scope) -> Question:
        """The question where nothing can be remembered for `scope`."""
        return replace(self, offers=tuple(offer for offer in self.offers if offer.scope != scope))

    def with_arguments(self, arguments: Json) -> Question:
        """The question about a person's own arguments, of which nothing is known but themselves."""
        return replace(self, message=_OWN, arguments=arguments, preview=Preview(""), offers=(), edited=True)

    @property
    def target(self) -> str:
        """The argument that says most, on one line."""
        return target_of(self.arguments)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Lines added and removed."""
        return max(0, self.diff.count("\n+") - 1), self.diff.count("\n-")

    @property
    def size(self) -> int:
        """About how many characters have to be laid out."""
        texts = [value for value in self.arguments.values() if isinstance(value, str)]
        return len(self.diff) + len(self.message) + sum(map(len, texts))

    @property
    def diff(self) -> str:
        """The change a call makes to a file; empty where it changes none."""
        return self.preview.diff


def title_row(question: Question, right: Sequence[Span], cells: int, glyphs: Glyphs) -> RowSpans:
    """The first row of a card."""
    if question.kind == "form":
        return spread(
            [("answer?", "bold $approval"), ("  ", ""), (_first(question, cells), "bold")], right, cells
        )
    left: RowSpans = [
        ("approve?", "bold $approval"),
        ("  ", ""),
        (cut(one_row(question.tool), cells // 2, glyphs.cut_right), "bold"),
    ]
    taken = sum(len(text) for text, _ in (*left, *right)) + 12
    if question.edited:
        left += [("  ", ""), ("with your arguments", "italic")]
    elif question.target:
        left += [("  ", ""), (cut(question.target, max(8, cells - taken), glyphs.cut_right), "")]
    if question.diff:
        added, removed = question.counts
        left += [("   ", ""), (f"+{added:,}", "bold $diff-add"), (f" -{removed:,}", "bold $diff-remove")]
    return spread(left, right, cells)


def body_of(question: Question, cells: int, glyphs: Glyphs) -> Body:
    """What is asked, whole: the change or the arguments, and what the rows around it had to cut."""
    if question.kind == "form":
        return Body([_form_rows(question, cells)])
    parts: list[Part] = []
    if len(one_row(question.tool)) > cells // 2:
        parts.append([[(row, "bold")] for row in wrapped(one_row(question.tool), cells)])
    if question.diff:
        parts.append(diff_part(question.diff, cells, glyphs))
        rest = {name: value for name, value in question.arguments.items() if name not in _IN_A_DIFF}
        if rest:
            parts += [_BLANK, arguments_part(rest, cells, glyphs)]
    else:
        parts.append(arguments_part(question.arguments, cells, glyphs))
    if long := _long_facts(question, cells):
        parts += [_BLANK, [[(row, "$muted")] for line in long for row in wrapped(line, cells)]]
    return Body(parts)


def fact_rows(question: Question, cells: int, glyphs: Glyphs) -> list[RowSpans]:
    """Why it asks, what it would touch, and whether it is confined: few rows that are always in sight."""
    if question.kind == "form":
        return []
    rows: list[RowSpans] = []
    for line in _facts(question):
        parts = wrapped(line, cells)
        if len(parts) > MOST_CUT_ROWS:
            parts = [*parts[: MOST_CUT_ROWS - 1], cut(parts[MOST_CUT_ROWS - 1] + " ", cells - 1, "")]
            parts[-1] = parts[-1].rstrip() + glyphs.cut_right
        rows += [[(part, "$muted")] for part in parts]
    return rows


def _facts(question: Question) -> list[str]:
    touches = _touches(question)
    more = len(touches) - MOST_TOUCHES
    shown = touches[:MOST_TOUCHES] + ([f"and {more:,} more, listed above"] if more > 0 else [])
    return [line for line in (question.message, *shown, _sandbox(question)) if line]


def _long_facts(question: Question, cells: int) -> list[str]:
    """Those that do not fit where they are always in sight."""
    touches = _touches(question)
    several = touches if len(touches) > MOST_TOUCHES else []
    lines = (question.message, *touches[:MOST_TOUCHES], _sandbox(question))
    long = [line for line in lines if len(wrapped(line, cells)) > MOST_CUT_ROWS]
    return list(dict.fromkeys([*long, *several]))


def _touches(question: Question) -> list[str]:
    touches = [_in_one_row(line) for line in question.preview.touches]
    if question.diff and touches == [f"writes {question.target}"] and len(touches[0]) <= SHORT_TARGET:
        return []  # the title tells it, whole
    return touches


def _sandbox(question: Question) -> str:
    return _in_one_row(question.preview.sandbox)


def _in_one_row(text: str) -> str:
    return clean(text).replace("\n", " ")


def scope_row(question: Question, name: str, wider: int, label: Callable[[str], str]) -> RowSpans:
    """What an answer would allow, in words; `wider` is how often a wider rule was asked for.

    `name` and `label`: of its key in the table of keys, and how a key is written; without a name the rule
    that either scope would remember.
    """
    said: RowSpans = [(label(name), "bold $approval")] if name else []
    match name:
        case "" | "allow_chat" | "allow_always":
            scope: Scope = "always" if name == "allow_always" else "session"
            offer = question.offer(scope, wider)
            if offer is None:
                return [("nothing can be remembered for this call", "$muted")]
            until = {
                "": "in this chat, or from now on",
                "allow_chat": "until this chat closes",
                "allow_always": "from now on; /tools removes it",
            }[name]
            said += [(" allows ", "$muted"), (rule_text(offer), ""), (f" {until}", "$muted")]
            if len(question.offers_for(scope)) > 1:
                said += [("   ", ""), (label("allow_wider"), "bold $approval"), (" widens", "$muted")]
            return said
        case "allow_once":
            return [*said, (" allows exactly this call, once", "$muted")]
        case "allow_edited":
            return [*said, (" lets you change the arguments, then asks again", "$muted")]
        case "refuse":
            return [*said, (" refuses, with a reason for the model if you like", "$muted")]
        case _:
            return [*said, (" refuses and stops the reply", "$muted")]


def rule_text(offer: RuleOption) -> str:
    """What a rule allows, in words."""
    return _in_one_row(offer.text)


def _form_rows(question: Question, cells: int) -> list[RowSpans]:
    first = _first(question, cells)
    rest = question.message[len(first) :].strip()
    return [[(row, "")] for row in wrapped(rest, cells)] if rest else []


def _first(question: Question, cells: int) -> str:
    """As much of the message as the title row takes."""
    rows = wrapped(question.message.split("\n")[0], max(10, cells - 20))
    return rows[0]


def _choices(policy: str | None, properties: Json) -> tuple[FormChoice, ...]:
    """The answers of a form whose one field is a choice or a yes-or-no."""
    if len(properties) != 1:
        return ()
    name, schema = next(iter(properties.items()))
    schema = _json(schema)
    if schema.get("type") == "boolean":
        return (FormChoice("y", {name: True}, "yes"), FormChoice("n", {name: False}, "no"))
    values = _list(schema.get("enum"))
    if not values or len(values) > 9:
        return ()
    found: list[FormChoice] = []
    labels = [one_row(str(value)) for value in values]
    for number, value in enumerate(values, 1):
        label, detail = labels[number - 1], ""
        if labels.count(label) > 1 or not label:
            label = one_row(value_text(value))
        if policy == "context":
            label, detail = _CONTEXT_CHOICES.get(str(value), (label, ""))
        found.append(FormChoice(str(number), {name: value}, label, detail))
    return tuple(found)


def _fields(properties: Json, required: Sequence[str]) -> tuple[Field, ...]:
    found: list[Field] = []
    for name, raw in properties.items():
        schema = _json(raw)
        default = schema.get("default")
        shown = "" if default is None else editable(default)
        found.append(Field.of(name, schema, shown, required=name in required))
    return tuple(found)


def editable(value: Any) -> str:
    """A value as a text that can be changed; nothing in it is invisible.

    A text of its own loses what could not be seen; any other value is JSON, which spells that out.
    """
    if isinstance(value, str):
        return _UNSEEN.sub("", _LINE_ENDS.sub("\n", value))
    return editable_json(value)


def editable_json(value: Any, indent: int | None = None) -> str:
    """JSON that reads back as exactly `value`, with all that a screen would not show escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=repr)
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _json(value: Any) -> Json:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else []
