"""Builds one prompt: guards untrusted text, adapts the conversation, renders, cuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.chat.adapt import MEDIA_MARKER, MessageRules, adapt, described, normalize, text_of, thought_of
from backend.chat.format import ChatFormat, thought_state
from backend.chat.renderer import Renderer
from backend.chat.sentinel import Sentinel
from backend.chat.writer import tools_block, write_calls
from backend.types import Message, TemplateError


@dataclass(frozen=True)
class PromptRequest:
    """What a prompt is made of."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    opened: bool = True
    continued: bool | str = False
    variables: Mapping[str, Any] | None = None
    special_tokens: Sequence[str] = ()
    media_marker: str = MEDIA_MARKER


def build(
    renderer: Renderer,
    rules: MessageRules,
    chat_format: ChatFormat,
    shows_calls: bool,
    request: PromptRequest,
) -> list[str]:
    """The rendered prompt, cut where untrusted text could become a control token."""
    sentinel = Sentinel([request.messages, request.tools], request.special_tokens)
    turns = normalize(request.messages, media_marker=sentinel.media)
    if request.continued is not False and (not turns or turns[-1]["role"] != "assistant"):
        raise ValueError("continue_final_message needs an assistant message at the end to continue")
    turns, tools = sentinel.guard(turns), sentinel.guard(list(request.tools))
    if request.continued is not False:
        turns[-1] = _marked(turns[-1], sentinel.end, request.continued)
    if chat_format.calls:
        turns = [
            _with_written_calls(turn, chat_format)
            if not rules.prints_calls or (rules.content_hides_calls and turn["content"])
            else turn
            for turn in turns
        ]
        if tools and not shows_calls:
            turns = _with_system(turns, tools_block(tools, chat_format))
    elif not rules.prints_calls:
        turns = [_with_named_calls(turn) for turn in turns]

    def rendered(offered: Sequence[Mapping[str, Any]], opened: bool, given: list[dict[str, Any]]) -> str:
        adapted = adapt(given, rules)
        return renderer.render(
            adapted, offered, add_generation_prompt=opened, variables=request.variables
        )  # fmt: skip

    opened = request.opened and request.continued is False
    try:
        text = rendered(tools, opened, turns)
    except TemplateError:
        if not tools:
            raise
        tools = described(tools)
        text = rendered(tools, opened, turns)
    if request.continued is not False:
        text = _continued(text, sentinel.end, turns, lambda given: rendered(tools, True, given), chat_format)
    return sentinel.cut(text, request.media_marker)


def _marked(turn: dict[str, Any], end: str, part: bool | str) -> dict[str, Any]:
    """The turn to continue with its end marked: in the text, or in the thought when that is all."""
    thought = thought_of(turn)
    if thought and part != "content" and (part == "reasoning" or not turn["content"]):
        return {**turn, "reasoning_content": thought + end}
    return {**turn, "content": turn["content"] + end}


def _continued(
    text: str,
    end: str,
    turns: list[dict[str, Any]],
    opened: Callable[[list[dict[str, Any]]], str],
    chat_format: ChatFormat,
) -> str:
    """The prompt up to the marked end; written by hand where the template does not print it."""
    last, thought = turns[-1], chat_format.thought
    if end in text:
        printed = text[: text.rindex(end)]
        prime = printed.rpartition(chat_format.header)[2] if chat_format.header else printed
        if end not in last["content"] or thought_state(chat_format, prime) != "open":
            return printed
    prompt: str = opened(turns[:-1])
    started = thought is not None and prompt.rstrip().endswith(thought.start.strip())
    inner, content = thought_of(last).replace(end, ""), str(last["content"]).replace(end, "")
    if thought is None or not (inner or started):
        return prompt + content
    if not started:
        prompt += thought.start + "\n"
    if not content:
        return prompt + inner
    return f"{prompt}{inner}\n{thought.end}\n\n{chat_format.content_start}{content}"


def _with_written_calls(turn: dict[str, Any], chat_format: ChatFormat) -> dict[str, Any]:
    """A turn whose calls stand in its text, for templates that print no calls."""
    calls = turn.get("tool_calls")
    if not calls:
        return turn
    written = write_calls(
        chat_format, [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    )
    text = f"{turn['content']}\n{written}" if turn["content"] else written
    return {**{key: value for key, value in turn.items() if key != "tool_calls"}, "content": text}


def _with_named_calls(turn: dict[str, Any]) -> dict[str, Any]:
    """Calls of a conversation begun with another model, where this one has no syntax for them."""
    return _with_written_calls(turn, ChatFormat())


def _with_system(turns: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    first = turns[0] if turns else {}
    if first.get("role") == "system":
        content = text_of(first.get("content"))
        return [{**first, "content": f"{content}\n\n{text}" if content else text}, *turns[1:]]
    return [{"role": "system", "content": text}, *turns]


def conversation_text(messages: Sequence[Message]) -> str:
    """A conversation for a model without a template: "role: content" lines, the assistant's opened."""
    lines = [f"{turn['role']}: {text_of(turn.get('content'))}" for turn in messages]
    return "\n".join([*lines, "assistant:"])
