"""Reads the markers of thoughts off renderings, or where history shows none, off the prompts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backend.chat.adapt import THOUGHT_KEYS
from backend.chat.format import Thought, atoms, is_tag, visible
from backend.chat.learning.learn_calls import NAME_1, CallProbe, SeenCalls
from backend.chat.learning.marks import common_prefix, enclosing_object, mirror
from backend.chat.learning.probe import CONTENT, THOUGHT, VALUE_1, Probe, assistant, user
from backend.chat.learning.rules import is_part_text

_NEVER = "\ue00f"
"""Equals no atom of a rendering, so that a prefix stops in front of it."""
_TAGS_ABOUT_THOUGHT = re.compile(
    r"<\|?/?[\w:|]{0,40}(?:think|reason|thought)[\w:|]{0,40}\|?>|\[/?THINK\]", re.I
)


@dataclass(frozen=True)
class SeenThought:
    """The text in front of a known thought, and behind it up to the content and up to a call."""

    before: str
    to_content: str | None
    to_call: str | None
    source: str


@dataclass(frozen=True)
class Prompts:
    """What generation prompts add behind the user's text, by the state of the thinking switch."""

    unset: str = ""
    on: str = ""
    off: str = ""

    def all(self) -> list[str]:
        return [text for text in (self.unset, self.on, self.off) if text]


def thoughts_in_history(probe: Probe, calls: CallProbe, seen_calls: SeenCalls | None) -> SeenThought | None:
    """Where a template prints thoughts of past turns; None when it prints none."""
    with_content = _thought_and_content(probe)
    with_call = _thought_and_call(calls) if calls.printed else None
    shown = with_content or with_call
    if shown is None:
        return None
    to_content = to_call = None
    if CONTENT in shown and shown.index(CONTENT) > shown.index(THOUGHT):
        to_content = shown[shown.index(THOUGHT) + len(THOUGHT) : shown.index(CONTENT)]
    if with_call is not None:
        to_call = with_call[with_call.index(THOUGHT) + len(THOUGHT) : _call_at(with_call, seen_calls)]
    source = "history" if with_content else "calls"
    return SeenThought(shown[: shown.index(THOUGHT)], to_content, to_call, source)


def _call_at(text: str, seen_calls: SeenCalls | None) -> int:
    if seen_calls is not None and seen_calls.syntax.kind == "json":
        found = enclosing_object(text, text.index(VALUE_1), lambda value: NAME_1 in str(value))
        if found:
            return found[0]
    return text.index(NAME_1)


def _thought_and_content(probe: Probe) -> str | None:
    for key in THOUGHT_KEYS:
        text = probe.after_user([user(), assistant(CONTENT, **{key: THOUGHT})])
        if _in_order(text, CONTENT):
            return text
    parts = [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": CONTENT}]
    text = probe.after_user([user(), assistant(parts)])
    return text if is_part_text(text) else None


def _thought_and_call(calls: CallProbe) -> str | None:
    for key in THOUGHT_KEYS:
        text = calls.one(**{key: THOUGHT})
        if _in_order(text, NAME_1):
            return text
    return None


def _in_order(text: str | None, word: str) -> bool:
    return text is not None and THOUGHT in text and word in text and text.index(THOUGHT) < text.index(word)


def thoughts_in_prompts(source: str, prompts: Prompts, shown: list[str]) -> tuple[Thought | None, str]:
    """Markers told by the generation prompts, or as a last resort by literals of the source.

    `shown` are renderings of replies without a thought: what they share with a prompt is its
    header, not a marker. Returns the thought and a note about weak evidence.
    """
    on, off, unset = prompts.on, prompts.off, prompts.unset

    def beyond(prompt: str) -> str:
        header = prompt
        for text in shown:
            header = common_prefix(header, text + _NEVER)
        return prompt[len(header) :]

    start = end = ""
    if on != off and off.startswith(on) and off[len(on) :].strip():
        start, end = _closed_by_switch(beyond(on), on, off[len(on) :])
    elif on != off and on.startswith(off) and is_tag(on[len(off) :]):
        start = on[len(off) :].strip()
        end = mirror(start) or ""
    elif unset:
        start, end = _opened_always(source, visible(beyond(unset)))
    if start.strip() and end.strip():
        return Thought(start.strip(), end.strip(), "prompt"), ""
    for match in _TAGS_ABOUT_THOUGHT.finditer(source):
        tag = match.group()
        closing = mirror(tag)
        if not tag.startswith(("</", "[/")) and "END" not in tag and closing and closing in source:
            return Thought(tag, closing, "text"), "the thought's markers stand only in the template's text"
    return None, ""


def _closed_by_switch(opened: str, on: str, added: str) -> tuple[str, str]:
    """The markers, from what the "on" prompt holds and what "off" adds to it."""
    if opened.strip():
        start = opened.strip()
        tags = [atom for atom in visible(on) if is_tag(atom)]
        return (start if is_tag(start) or not tags else tags[-1]), added.strip()
    marks = visible(added)
    if len(marks) == 2 and is_tag(marks[0]) and is_tag(marks[1]):
        return marks[0], marks[1]
    marks = visible(on)
    return (marks[-1] if marks and mirror(marks[-1]) == added.strip() else ""), added.strip()


def _opened_always(source: str, marks: list[str]) -> tuple[str, str]:
    last = marks[-1] if marks else ""
    closing = mirror(last) if is_tag(last) else None
    if not closing or last.startswith(("</", "[/")):
        return "", ""
    known = closing in source or re.search("think|reason", last, re.I)
    return (last, closing) if known else ("", "")


def user_turn_end(prompt: str, after_content: str) -> str:
    """The longest tail of what follows content that also begins a generation prompt."""
    parts = atoms(after_content.rstrip())
    for first in range(len(parts)):
        tail = "".join(parts[first:])
        if tail.strip() and prompt.startswith(tail):
            return tail
    return ""
