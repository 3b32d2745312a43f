"""`ChatFormat`: how one model family writes thoughts, text and tool calls, as plain data.

The learner and the registry make it; the parser, the grammar and the history writer read it, so
the three cannot disagree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

NAME, ID, INDEX, KEY, TYPE = "\ue000", "\ue001", "\ue002", "\ue003", "\ue004"
"""Placeholders inside marker texts: the tool's name, the call's id, its running number (0 or 1 for
the first, see `CallSyntax.first_index`), an argument's key, and the word for a JSON type."""
PLACEHOLDERS = NAME + ID + INDEX + KEY + TYPE

CallKind = Literal["json", "tagjson", "tagged"]
Nesting = Literal["json", "python", "custom", "tree"]
ThoughtState = Literal["open", "closed", "none"]


@dataclass(frozen=True)
class Thought:
    """The markers around a thought. The end marker is what closes it, without framing blanks."""

    start: str
    end: str
    source: str = "history"
    """What showed it: history, calls (printed only beside calls), prompt, text, or registry."""
    raw_start: str = ""
    """The exact text between the assistant's header and a thought, blanks included."""
    raw_end: str = ""
    """The exact text between a thought and what follows, blanks included."""
    keeps_start: bool = False
    """Whether the start is words of the thought itself, which the prompt puts into its mouth."""


@dataclass(frozen=True)
class CustomValues:
    """How nested values are written where it is neither JSON nor Python (Gemma 4)."""

    object_open: str = "{"
    key_end: str = ":"
    object_separator: str = ","
    object_close: str = "}"
    list_open: str = "["
    list_separator: str = ","
    list_close: str = "]"


@dataclass(frozen=True)
class CallSyntax:
    """How calls are written. A reply's calls are::

        section_start  call  separator  call ...  section_end

    and by `kind` a call is one of::

        json      call_start {OBJECT} call_end
                  OBJECT holds the name at `name_path` and the arguments at `arguments_path` (an id
                  at `id_path`), in the order of `members`; with `name_is_key` it is {NAME: ARGUMENTS}
        tagjson   call_start NAME middle {ARGUMENTS as JSON} call_end
        tagged    call_start NAME head_end  argument argument_separator argument ...  call_end
                  with argument = argument_start KEY value_start VALUE argument_end

    All texts are exact, as the template prints them; a reader takes every whitespace run between
    tags as optional and of any length. Texts may hold the placeholders above. In `tagged`, blanks
    at the end of `value_start` and the beginning of `argument_end` frame the value: exactly one
    newline on each side belongs to the frame, everything else to the value.
    """

    kind: CallKind
    section_start: str = ""
    section_end: str = ""
    call_start: str = ""
    call_end: str = ""
    separator: str = ""
    first_index: int = 0
    """What INDEX is for the first call of a reply."""

    # json
    name_path: tuple[str, ...] = ()
    arguments_path: tuple[str, ...] = ()
    id_path: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    """Members of the outer object in the order the template prints them."""
    name_is_key: bool = False

    # tagjson
    middle: str = ""
    id_pattern: str = ""
    """When not empty, the text with NAME and INDEX that is the call's id (Kimi K2)."""

    # tagged
    head: str = NAME
    """The name's place; more than NAME where the header repeats it (`NAME<|message|>... name="NAME`)."""
    head_end: str = ""
    argument_start: str = ""
    value_start: str = ""
    argument_end: str = ""
    argument_separator: str = ""
    quote: tuple[str, str] = ("", "")
    """What opens and closes a text value; ("", "") for raw text. A quote mark means a literal."""
    types: tuple[tuple[str, str], ...] = ()
    """For TYPE: (`string`, `number`, `boolean`, `null`, `array` or `object`, the word for it)."""
    nested: Nesting = "json"
    """How objects and arrays are written inside a value; `tree`: tags inside tags."""
    custom: CustomValues | None = None
    item_tag: str = "item"
    """With `tree`: the key that stands for a list's element."""
    wrap: tuple[str, str] = ("", "")
    """What surrounds a raw text that holds markup (CDATA)."""
    bare_keys: bool = False
    """With `custom`: keys of nested objects are written without quotes."""

    @property
    def literal(self) -> bool:
        """Whether values are literals with quoted texts, not raw text between tags."""
        return self.kind == "tagged" and bool(self.quote[0] or self.nested == "custom")

    @property
    def triggers(self) -> tuple[str, ...]:
        """Texts that open a call wherever they appear, longest first; () when only the start of
        a reply can (bare JSON or a bare Python list)."""
        found: list[str] = []
        for text in (self.section_start, self.call_start):
            head = literal_head(text)
            if head.strip("[{( \n\t"):
                found.append(head)
        tail = inner_tag(self.call_start)
        if tail:
            found.append(tail)
        return tuple(sorted(set(found), key=lambda text: -len(text)))


@dataclass(frozen=True)
class ChatFormat:
    """One family's way of writing a reply. A reply is::

        thought?  (content_start TEXT content_end | TEXT)?  calls?  end_of_turn

    behind `header`, which the prompt already holds. With `channels` it is OpenAI's harmony
    instead: messages of a channel and a recipient, which the other fields do not describe.
    """

    name: str = "generic"
    """The `tool_call_format` of the model API: one of the six names, or an extension name."""
    header: str = ""
    """Text between the user's turn and the reply that every generation prompt ends with."""
    result_header: str = ""
    """The same behind a tool result, where it differs."""
    thought: Thought | None = None
    content_start: str = ""
    content_end: str = ""
    calls: CallSyntax | None = None
    end_of_turn: tuple[str, ...] = ()
    """Texts that end the assistant's turn; an engine usually swallows the last token of them."""
    skipped: tuple[str, ...] = ()
    """Texts that are dropped where a new part of the reply may begin."""
    reopens: bool = False
    """Whether a thought may begin again after text (Gemma 4)."""
    channels: bool = False
    notes: tuple[str, ...] = ()
    """How fields that no probe showed were found; for `/doctor`."""


def thought_state(chat_format: ChatFormat, prime: str) -> ThoughtState:
    """Whether `prime`, the prompt's part behind the header, leaves a thought open, closes it, or
    says nothing of it."""
    if chat_format.thought is None:
        return "none"
    start, end = chat_format.thought.start.strip(), chat_format.thought.end.strip()
    opened, closed = prime.rfind(start) if start else -1, prime.rfind(end)
    if opened > closed:
        return "open"
    return "closed" if closed >= 0 else "none"


_TAG = re.compile(r"<[^<>]+>|\[/?[A-Z_]{2,}\]")
_ATOM = re.compile(r"<\|?[^<>\s][^<>\n]{0,60}?\|?>|\[/?[A-Z_]{2,}\]|\s+|\w+|.", re.S)
_OPEN_TAG = re.compile(r"<[^<>\s/][^<>\n]*$")


def atoms(text: str) -> list[str]:
    """Marker text in units that are compared whole: a tag, a tag cut by a placeholder, a
    placeholder, a whitespace run, a word, another character."""
    found: list[str] = []
    for part in re.split("([\ue000-\ue00f])", text):
        if "\ue000" <= part <= "\ue00f":
            found.append(part)
            continue
        cut = _OPEN_TAG.search(part)
        body, tail = (part[: cut.start()], part[cut.start() :]) if cut else (part, "")
        found += _ATOM.findall(body)
        if tail:
            found.append(tail)
    return found


def visible(text: str) -> list[str]:
    """The atoms that are not blank."""
    return [atom for atom in atoms(text) if atom.strip()]


def is_tag(text: str) -> bool:
    """Whether `text` is one whole `<...>` or `[UPPER]` tag."""
    return bool(_TAG.fullmatch(text.strip()))


def literal_head(text: str) -> str:
    """The part of a marker in front of its first placeholder, without blanks around."""
    return re.split(f"[{PLACEHOLDERS}]", text, maxsplit=1)[0].strip()


def inner_tag(text: str) -> str:
    """The last, unfinished tag of a call's start (`<function=` of `<tool_call>\\n<function=`)."""
    parts = atoms(text)
    if len(parts) > 1 and parts[-1].startswith("<") and not parts[-1].endswith(">"):
        return parts[-1]
    return ""
