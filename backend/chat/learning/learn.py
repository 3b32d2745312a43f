"""Learns a `ChatFormat` from a template by rendering known conversations and reading the marks
around the known words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backend.chat.format import CallSyntax, ChatFormat, Thought, atoms, is_tag, visible
from backend.chat.learning.learn_calls import CallProbe, SeenCalls, learn_calls
from backend.chat.learning.learn_thought import (
    Prompts,
    SeenThought,
    thoughts_in_history,
    thoughts_in_prompts,
    user_turn_end,
)  # fmt: skip
from backend.chat.learning.marks import (
    common_prefix,
    common_suffix,
    last_mark,
    mirror,
    strip_leading,
    without_tail_of,
)  # fmt: skip
from backend.chat.learning.probe import (
    CONTENT,
    MAX_SHOWN,
    RESULT,
    TOOLS,
    USER_2,
    Probe,
    assistant,
    result,
    user,
)

THINK = {"enable_thinking": True, "thinking": True}
NO_THINK = {"enable_thinking": False, "thinking": False}
_STOP_C, _STOP_D, _STOP_E = "\ue00d", "\ue00e", "\ue00f"
"""Equal no atom of a rendering, and not each other: prefixes end in front of them."""


@dataclass(frozen=True)
class _Evidence:
    """What the probes showed, before it is put together."""

    prompts: Prompts
    before_content: str
    after_content: str
    has_content: bool
    unopened: str
    """What follows the user's text when no reply is opened: the end of the user's turn."""
    next_turn: str
    """What follows content when another user turn comes."""
    calls: SeenCalls | None
    thought: SeenThought | None
    prompt_thought: Thought | None


def learn(probe: Probe) -> ChatFormat:
    """The format of the template behind `probe`, with thoughts switched on. At most 40 renders."""
    prompts = generation_prompts(probe)
    unopened = _rendered(probe, [user()]) or ""
    probe.variables = dict(THINK)
    calls = CallProbe(probe)
    seen_calls = learn_calls(calls)
    content = _rendered(probe, [user(), assistant(CONTENT)])
    thought = thoughts_in_history(probe, calls, seen_calls)
    single = calls.one() if calls.printed else None
    prompt_thought, note = None, ""
    if thought is None:
        shown = [text for text in (content, single) if text]
        prompt_thought, note = thoughts_in_prompts(probe.renderer.source, prompts, shown)
    whole = _whole(probe, [user(), assistant(CONTENT), user(USER_2)])
    before, has_content, after = (content or "").partition(CONTENT)
    evidence = _Evidence(
        prompts=prompts,
        before_content=before if has_content else "",
        after_content=after,
        has_content=bool(has_content),
        unopened=unopened,
        next_turn=whole.rpartition(CONTENT)[2][:MAX_SHOWN] if CONTENT in whole else "",
        calls=seen_calls,
        thought=thought,
        prompt_thought=prompt_thought,
    )
    notes = tuple(text for text in (note, *_call_notes(calls, seen_calls)) if text)
    found = _assemble(evidence, notes)
    return replace(found, result_header=_result_header(probe, calls, found.header, prompts.unset))


def _result_header(probe: Probe, calls: CallProbe, header: str, prompt: str) -> str:
    """What stands in front of a reply to a tool result, where `header` does not."""
    if not prompt.startswith(header):
        return ""
    probe.variables = {}
    turns = [
        user(),
        assistant(calls.empty, [calls.made()]) if calls.printed else assistant(CONTENT),
        result(),
    ]
    text = probe.render(turns, TOOLS, opened=True)
    behind = (text or "").rpartition(RESULT)[2][-MAX_SHOWN:]
    if header.strip() and header in behind:
        return ""
    behind = behind.removesuffix(prompt[len(header) :])
    parts = atoms(behind)
    tags = [place for place, atom in enumerate(parts) if is_tag(atom)]
    return "".join(parts[tags[-1] :]) if tags else ""


def generation_prompts(probe: Probe) -> Prompts:
    """The text behind the user's words that opens a reply, by the state of the thinking switch."""
    texts: list[str] = []
    for variables in ({}, THINK, NO_THINK):
        text = probe.after_user([user()], None, opened=True, **variables)
        if text is None:
            text = probe.after_user([user()], TOOLS, opened=True, **variables)
        texts.append(text or "")
    return Prompts(unset=texts[0] or texts[1], on=texts[1], off=texts[2])


def _rendered(probe: Probe, messages: Sequence[dict[str, object]]) -> str | None:
    return probe.after_user(messages) or probe.after_user(messages, TOOLS)


def _whole(probe: Probe, messages: Sequence[dict[str, object]]) -> str:
    return probe.render(messages) or probe.render(messages, TOOLS) or ""


def _call_notes(calls: CallProbe, seen: SeenCalls | None) -> list[str]:
    if not calls.printed:
        return ["calls of past turns are not printed"]
    if seen is None:
        return ["the printed calls could not be read"]
    notes = [] if seen.told_apart else ["one assistant turn prints one call"]
    if calls.empty is None:
        notes.append("calls are printed only when the content is None")
    return notes


# ---- putting it together -------------------------------------------------------------------


def _assemble(seen: _Evidence, notes: tuple[str, ...]) -> ChatFormat:
    header = _header(seen)
    start = _thought_start(seen, header)
    content_start, in_prompt = _content_start(seen, header, start)
    content_end = _content_end(seen) if content_start and seen.calls else ""
    opener = _call_opener(seen, header, start, content_start, content_end, in_prompt)
    thought = seen.prompt_thought
    if seen.thought:
        thought = _thought(seen.thought, header, start, content_start, opener)
    opened = seen.prompts.unset[len(header) :].strip() if seen.prompts.unset.startswith(header) else ""
    if thought and not thought.start and opened:
        thought = replace(thought, start=opened, keeps_start=True)
    calls = _calls(seen, thought, opener, content_start) if seen.calls else None
    end_of_turn = _ends_of_turn(seen, content_end)
    return ChatFormat(
        header=header, thought=thought, content_start=content_start, content_end=content_end, calls=calls,
        end_of_turn=end_of_turn, skipped=(in_prompt,) if in_prompt else (), notes=notes,
    )  # fmt: skip


def _header(seen: _Evidence) -> str:
    """What every reply and every generation prompt begin with, less what belongs to a marker."""
    first = (atoms(seen.prompts.unset) or [""])[0]
    candidates = [prompt for prompt in seen.prompts.all() if prompt.startswith(first)]
    if seen.has_content:
        candidates.append(seen.before_content + _STOP_D)
    if seen.calls:
        candidates.append(seen.calls.before + _STOP_E)
    if seen.thought:
        candidates.append(seen.thought.before + _STOP_C)
    header = candidates[0] if candidates else ""
    for index, candidate in enumerate(candidates[1:]):
        shared = common_prefix(header, candidate)
        if shared or index:
            header = shared
    header = _without_call_start(seen.calls, header)
    while (shorter := _given_back(seen, header)) is not None:
        header = shorter
    return header


def _without_call_start(calls: SeenCalls | None, header: str) -> str:
    """Give back what the call's start claims of the header (functionary 3.2's `>>>`)."""
    if calls is None or not calls.told_apart:
        return header
    start = calls.syntax.call_start
    missing = len(start) - len(calls.before[len(header) :].lstrip())
    claimed = missing > 0 and header.endswith(start[:missing]) and calls.before.endswith(start)
    return header[: len(header) - missing] if claimed else header


def _given_back(seen: _Evidence, header: str) -> str | None:
    """`header` without its last mark when that is part of a marker seen inside the reply."""
    mark, before, with_blanks = last_mark(header)
    prompt, end_of_user = seen.prompts.unset, seen.unopened
    if not mark:
        return None
    inside_user = len(before) < len(end_of_user.rstrip()) and prompt.startswith(end_of_user)
    if end_of_user and inside_user and prompt != end_of_user:
        return None
    behind = _behind_thought(seen)
    closing = mirror(mark) if is_tag(mark) else None
    if behind is not None and closing and behind.strip().startswith(closing.strip()):
        return before
    piece = seen.before_content[len(before) :]
    to_content = seen.thought.to_content if seen.thought else None
    if (
        to_content
        and piece.strip()
        and len(piece) > len(with_blanks)
        and piece.strip() in to_content + CONTENT
    ):
        return before
    return None


def _behind_thought(seen: _Evidence) -> str | None:
    if seen.thought:
        return seen.thought.to_content if seen.thought.to_content is not None else seen.thought.to_call
    return seen.prompt_thought.end if seen.prompt_thought else None


def _thought_start(seen: _Evidence, header: str) -> str:
    if seen.thought:
        return seen.thought.before[len(header) :].strip()
    return seen.prompt_thought.start if seen.prompt_thought else ""


def _off_prompt(seen: _Evidence, header: str) -> str:
    off = seen.prompts.off
    return off[len(header) :].strip() if off.startswith(header) else ""


def _content_start(seen: _Evidence, header: str, start: str) -> tuple[str, str]:
    """What opens the visible text, and the same when the generation prompt already holds it."""
    piece = seen.before_content[len(header) :]
    found = ""
    if seen.thought:
        rest = piece.strip()
        if start and rest.startswith(start):
            rest = rest[len(start) :].strip()
        off, behind = _off_prompt(seen, header), (_behind_thought(seen) or "").strip()
        if off and start not in off and behind.endswith(off) and behind != off:
            found = off
        elif rest and behind.endswith(rest) and behind[: len(behind) - len(rest)].strip():
            found = rest
    if not seen.thought or seen.thought.to_content is None:
        thought = seen.prompt_thought or Thought(start, (mirror(start) or "") if start else "")
        found = strip_leading(piece, [thought.start, thought.end]).strip()
    if found and seen.prompts.unset.rstrip().endswith(found):
        return "", found
    return found, ""


def _content_end(seen: _Evidence) -> str:
    """What closes the visible text, in front of the end of the turn."""
    assert seen.calls is not None
    after = seen.after_content.rstrip()
    shared = common_suffix(seen.calls.after.rstrip(), after)
    user_end = user_turn_end(seen.prompts.unset, seen.after_content)
    if user_end and len(user_end) < len(shared):
        shared = user_end
    closed = after[: len(after) - len(shared)] if shared and after.endswith(shared.rstrip()) else after
    if after.strip().endswith(user_end.strip()) and len(user_end.strip()) <= len(shared.strip() or user_end):
        closed = after.strip()[: len(after.strip()) - len(user_end.strip())]
    return closed.strip()


def _call_opener(
    seen: _Evidence, header: str, start: str, content_start: str, content_end: str, in_prompt: str
) -> str:
    """The text in front of the first call, without empty thoughts and empty text."""
    if seen.calls is None:
        return ""
    to_content = seen.thought.to_content if seen.thought else None
    to_call = seen.thought.to_call if seen.thought else None
    behind = to_call or to_content or _behind_thought(seen) or ""
    closing = (mirror(start) or "") if start else ""
    off = _off_prompt(seen, header)
    if start and off.startswith(start) and off[len(start) :].strip():
        added = off[len(start) :].strip()
        closing = added if behind.strip().startswith(added) else closing
    marks = [in_prompt, start, closing if closing and closing in behind else "", content_start, content_end]
    if to_content is not None:
        shared = common_prefix(to_content + CONTENT, to_call) if to_call is not None else to_content
        marks.append(shared.strip() if is_tag(shared) else "")
    if seen.prompt_thought:
        marks.append(seen.prompt_thought.end)
    return strip_leading(seen.calls.before[len(header) :], marks)


def _thought(seen: SeenThought, header: str, start: str, content_start: str, opener: str) -> Thought:
    to_content, to_call = seen.to_content, seen.to_call or ""
    if to_content is not None:
        end = common_prefix(to_content + CONTENT, to_call) if seen.to_call is not None else to_content
        end = end if end.strip() else to_content
    else:
        end = to_call[: len(to_call) - len(opener)] if opener and to_call.endswith(opener) else to_call
    end = without_tail_of(end, [content_start, opener])
    if content_start and end.strip().endswith(content_start) and end.strip() != content_start:
        end = end.strip()[: -len(content_start)]
    return Thought(start, end.strip(), seen.source, seen.before[len(header) :], end)


def _calls(seen: _Evidence, thought: Thought | None, opener: str, content_start: str) -> CallSyntax:
    """The section around the calls, told from the calls' own markers."""
    assert seen.calls is not None
    syntax = seen.calls.syntax
    if thought:
        opener = strip_leading(opener, [thought.start, thought.end])
    call_start, section = syntax.call_start, ""
    if not seen.calls.told_apart:
        call_start = opener
    elif call_start and opener.rstrip().endswith(call_start.rstrip()):
        section = opener.rstrip()[: len(opener.rstrip()) - len(call_start.rstrip())]
    elif not call_start:
        section = opener
    after, after_content = seen.calls.after.rstrip(), seen.after_content.rstrip()
    turn_end = common_suffix(after, after_content) if after_content else ""
    user_end = user_turn_end(seen.prompts.unset, seen.after_content).rstrip()
    if user_end and turn_end.endswith(user_end):
        turn_end = user_end
    after = after[: len(after) - len(turn_end)] if turn_end else after
    call_end, section_end = after.strip(), ""
    if seen.calls.told_apart:
        call_end = syntax.call_end if len(syntax.call_end) <= len(after) else after
        section_end = after[len(call_end) :].strip()
        for mark in (after_content.strip(), *[atom for atom in atoms(after_content) if is_tag(atom)][:1]):
            if mark and mark in section_end and not content_start:
                section_end = section_end[: section_end.index(mark)]
    return replace(
        syntax,
        call_start=call_start.lstrip(),
        call_end=call_end if syntax.kind == "tagged" else call_end.strip(),
        separator=syntax.separator,
        section_start=section.strip(),
        section_end=section_end.strip(),
    )


def _ends_of_turn(seen: _Evidence, content_end: str) -> tuple[str, ...]:
    """What follows the reply, whole and without its last tag, which the engine may swallow."""
    end = seen.after_content.strip()
    if content_end and end.startswith(content_end):
        end = end[len(content_end) :]
    found = [end]
    marks = visible(end)
    if len(marks) > 1:
        found.append(end[: end.rindex(marks[-1])].strip())
    if seen.unopened:
        found.append(common_prefix(end, seen.unopened).strip())
    shared = common_prefix(seen.after_content, seen.next_turn).strip()
    marks = visible(shared)
    if len(marks) > 1 and is_tag(marks[-1]):
        found.append(shared[: shared.rindex(marks[-1])].strip())
    return tuple(dict.fromkeys(text for text in found if text and text != content_end))
