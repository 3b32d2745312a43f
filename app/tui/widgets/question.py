"""An open question of a session: what it asks, what may be answered, and the rows that show it.

Whatever came from a model or a tool is written out with its invisible characters; nothing is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from app.glyphs import Glyphs
from app.tui.transcript.diff import DiffBody
from app.tui.transcript.rows import Mode, Row, split_style
from app.tui.widgets.text_rows import RowSpans, Span, cut, padded, pieces, spread, wrapped
from tools.preview import visible

Json = dict[str, Any]
Kind = Literal["call", "form"]
Scope = Literal["session", "always"]
MAX_TARGET_CHARS = 200
SETTLE_S = 0.05
"""Time for the colours of a diff's code; a long one keeps some of it plain."""
_ATTRIBUTES = {"b": "bold", "i": "italic", "s": "strike", "u": "underline"}
_COLOURS = {
    "muted": "$muted",
    "faint": "$faint",
    "keyword": "$primary",
    "string": "$success",
    "number": "$accent",
    "comment": "$muted",
    "function": "$assistant",
    "builtin": "$tool",
    "decorator": "$reasoning",
    "operator": "$muted",
    "added": "$diff-add",
    "removed": "$diff-remove",
}
_TARGETS = ("path", "file", "command", "url", "pattern", "query", "code", "name")
_CONTEXT_CHOICES = {
    "compact": ("summarise older turns", "the model keeps the gist of them"),
    "drop": ("leave out the oldest turns", "the model forgets them, the chat keeps them"),
    "error": ("stop", "nothing is changed"),
}


@dataclass(frozen=True)
class Choice:
    """One answer of a form that chooses: its key, its words, and what it costs."""

    key: str
    value: Any
    label: str
    detail: str = ""


@dataclass(frozen=True)
class Field:
    """One thing a form asks for."""

    name: str
    title: str
    kind: str
    default: str = ""
    required: bool = False


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
    details: Json = field(default_factory=dict[str, Any])
    offers: tuple[Json, ...] = ()
    choices: tuple[Choice, ...] = ()
    fields: tuple[Field, ...] = ()

    @classmethod
    def of(cls, session_id: str, event: Mapping[str, Any]) -> Question:
        """The question in an event's wire form; `session_id` is the chat that showed it."""
        params = _json(event.get("params"))
        schema = _json(params.get("requestedSchema"))
        properties = _json(schema.get("properties"))
        is_call = params.get("phase") == "tool_call" and isinstance(params.get("tool"), str)
        required = [str(name) for name in _list(schema.get("required"))]
        return cls(
            id=str(event.get("elicitation_id")),
            session_id=str(params.get("target_session_id") or session_id),
            kind="call" if is_call else "form",
            message=visible(str(params.get("message") or "")),
            tool=str(params.get("tool") or ""),
            call_id=str(params.get("call_id") or ""),
            arguments=_json(params.get("arguments")),
            details=_json(params.get("details")),
            offers=tuple(_json(offer) for offer in _list(params.get("offers"))),
            choices=() if is_call else _choices(str(params.get("policy_name")), properties),
            fields=() if is_call else _fields(properties, required),
        )

    def offers_for(self, scope: Scope) -> list[Json]:
        """The rules that may be saved for `scope`, narrow first."""
        return [offer for offer in self.offers if scope in offer.get("scopes", ("session", "always"))]

    def offer(self, scope: Scope, wider: int = 0) -> Json | None:
        """One rule that may be saved for `scope`: the narrowest, or the one so many steps wider, around."""
        found = self.offers_for(scope)
        return found[wider % len(found)] if found else None

    @property
    def target(self) -> str:
        """The argument that says most, on one line."""
        for name in _TARGETS:
            value = self.arguments.get(name)
            if isinstance(value, str) and value:
                return visible(value[:MAX_TARGET_CHARS]).replace("\n", " ")
        return ""

    @property
    def diff(self) -> str:
        """The change a call makes to a file; empty where it changes none."""
        found = self.details.get("diff")
        return found if isinstance(found, str) else ""


def title_row(
    question: Question, right: Sequence[Span], cells: int, glyphs: Glyphs, edited: bool
) -> RowSpans:
    """The first row of a card."""
    if question.kind == "form":
        return spread(
            [("answer?", "bold $approval"), ("  ", ""), (_first(question, cells), "bold")], right, cells
        )
    tool = visible(question.tool).replace("\n", " ")
    left: RowSpans = [
        ("approve?", "bold $approval"),
        ("  ", ""),
        (cut(tool, cells // 2, glyphs.cut_right), "bold"),
    ]
    taken = sum(len(text) for text, _ in (*left, *right)) + 12
    if question.target and not edited:
        left += [("  ", ""), (cut(question.target, max(8, cells - taken), glyphs.cut_right), "")]
    if edited:
        left += [("  ", ""), ("with your arguments", "italic")]
    elif question.diff:
        added, removed = DiffBody(question.diff).counts
        left += [("   ", ""), (f"+{added}", "bold $diff-add"), (f" -{removed}", "bold $diff-remove")]
    return spread(left, right, cells)


def body_rows(question: Question, cells: int, glyphs: Glyphs, arguments: Json | None) -> list[RowSpans]:
    """What is asked, whole. `arguments` are a person's own, in place of the model's."""
    if question.kind == "form":
        return _form_rows(question, cells)
    rows: list[RowSpans] = []
    if question.diff and arguments is None:
        rows += diff_rows(question.diff, cells, glyphs)
    else:
        rows += call_rows(question.arguments if arguments is None else arguments, cells, glyphs)
    if arguments is not None:
        return rows
    about: list[RowSpans] = [[(row, "$muted")] for line in _about(question) for row in wrapped(line, cells)]
    return [*rows, [], *about] if about else rows


def _about(question: Question) -> list[str]:
    """Why it asks, and what of the call its arguments do not show."""
    touches = [visible(str(line)) for line in _list(question.details.get("touches"))]
    if question.diff and all("outside" not in line for line in touches):
        # The title and the diff name the file already.
        touches = []
    sandbox = question.details.get("sandbox")
    confined = visible(sandbox) if isinstance(sandbox, str) else ""
    return [line for line in (question.message, *touches, confined) if line]


def call_rows(arguments: Mapping[str, Any], cells: int, glyphs: Glyphs) -> list[RowSpans]:
    """Every argument, every character of it; a rule before each line, so that no value can pose as a name."""
    if not arguments:
        return [[("no arguments", "$muted")]]
    labels = {name: visible(name).replace("\n", " ") for name in arguments}
    width = min(16, max(map(len, labels.values())))
    rows: list[RowSpans] = []
    room = max(8, cells - width - 3)
    for name, value in arguments.items():
        label = labels[name]
        for line in visible(_text(value)).split("\n"):
            for piece in pieces(line, room):
                shown = cut(label, width, glyphs.cut_right)
                rows.append([(f"{shown:<{width}} ", "$muted"), (glyphs.aside, "$faint"), (f" {piece}", "")])
                label = ""
    return rows


def diff_rows(diff: str, cells: int, glyphs: Glyphs) -> list[RowSpans]:
    """A diff as the transcript draws it: numbers, signs, changed words, unchanged code in its colours."""
    body = DiffBody(visible(diff))
    mode = Mode(ascii=not glyphs.unicode)
    body.settle(SETTLE_S)
    body.layout(cells, mode)
    return [_spans(row, cells) for row in body.rows]


def _spans(row: Row, cells: int) -> RowSpans:
    ground = {"added": " on $diff-add-background", "removed": " on $diff-remove-background"}.get(
        row.ground, ""
    )
    spans: RowSpans = []
    for run in row.runs:
        role, attributes = split_style(run.style)
        words = [_ATTRIBUTES[letter] for letter in attributes if letter in _ATTRIBUTES]
        spans.append((run.text, f"{' '.join(words)} {_COLOURS.get(role, '')}{ground}".strip()))
    return padded(spans, cells, ground.strip())


def scope_row(question: Question, name: str, wider: int, label: Callable[[str], str]) -> RowSpans:
    """What an answer would allow, in words; `wider` is how often a wider rule was asked for.

    `name` and `label`: of its key in the table of keys, and how a key is written.
    """
    said: RowSpans = [(label(name), "bold $approval")]
    match name:
        case "allow_chat" | "allow_always":
            scope: Scope = "session" if name == "allow_chat" else "always"
            offer = question.offer(scope, wider)
            if offer is None:
                return [("nothing can be remembered for this call", "$muted")]
            until = "until this chat closes" if scope == "session" else "from now on; /tools takes it back"
            words = visible(str(offer.get("text", ""))).replace("\n", " ")
            said += [(" allows ", "$muted"), (words, ""), (f" {until}", "$muted")]
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


def _form_rows(question: Question, cells: int) -> list[RowSpans]:
    first = _first(question, cells)
    rest = question.message[len(first) :].strip()
    return [[(row, "")] for row in wrapped(rest, cells)] if rest else []


def _first(question: Question, cells: int) -> str:
    """As much of the message as the title row takes."""
    rows = wrapped(question.message.split("\n")[0], max(10, cells - 20))
    return rows[0]


def _choices(policy: str, properties: Json) -> tuple[Choice, ...]:
    """The answers of a form whose one field is a choice or a yes-or-no."""
    if len(properties) != 1:
        return ()
    name, schema = next(iter(properties.items()))
    schema = _json(schema)
    if schema.get("type") == "boolean":
        return (Choice("y", {name: True}, "yes"), Choice("n", {name: False}, "no"))
    values = _list(schema.get("enum"))
    if not values or len(values) > 9:
        return ()
    found: list[Choice] = []
    for number, value in enumerate(values, 1):
        label, detail = visible(str(value)).replace("\n", " "), ""
        if policy == "context":
            label, detail = _CONTEXT_CHOICES.get(str(value), (label, ""))
        found.append(Choice(str(number), {name: value}, label, detail))
    return tuple(found)


def _fields(properties: Json, required: Sequence[str]) -> tuple[Field, ...]:
    found: list[Field] = []
    for name, raw in properties.items():
        schema = _json(raw)
        title = visible(str(schema.get("title") or schema.get("description") or name)).replace("\n", " ")
        default = schema.get("default")
        shown = "" if default is None else _text(default)
        found.append(Field(name, title, str(schema.get("type", "string")), shown, name in required))
    return tuple(found)


def read_field(asked: Field, text: str) -> Any:
    """What a person wrote, as the field wants it. ValueError says what is wrong."""
    match asked.kind:
        case "integer":
            try:
                return int(text)
            except ValueError:
                raise ValueError(f"{asked.title}: a whole number, please.") from None
        case "number":
            try:
                return float(text)
            except ValueError:
                raise ValueError(f"{asked.title}: a number, please.") from None
        case "boolean":
            if text.strip().lower() not in ("y", "yes", "true", "n", "no", "false"):
                raise ValueError(f"{asked.title}: yes or no, please.")
            return text.strip().lower() in ("y", "yes", "true")
        case "array" | "object":
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                raise ValueError(f"{asked.title}: JSON, please.") from None
        case _:
            if asked.required and not text:
                raise ValueError(f"{asked.title} is needed.")
            return text


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _json(value: Any) -> Json:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else []
