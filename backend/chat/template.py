"""The door of the chat room: a chat template, what it can do, and how it renders a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from backend.chat.adapt import MEDIA_MARKER, MessageRules, adapt, described, envelopes, normalize, text_of
from backend.chat.probe import Probe
from backend.chat.renderer import Renderer
from backend.chat.rules import message_rules
from backend.chat.sentinel import Sentinel
from backend.types import EFFORT_LEVELS, Message, TemplateError


class ChatTemplate:
    """One model's chat template, compiled.

    `bos_token` and `eos_token` are the texts the template prints for them; `name` names the
    template in errors. Raises TemplateError when the source does not compile. Thread-safe.
    """

    def __init__(
        self,
        source: str,
        bos_token: str = "",
        eos_token: str = "",
        name: str = "",
        *,
        tool_call_format: str | None = None,
    ) -> None:
        self.source = source
        self._renderer = Renderer(source, bos_token=bos_token, eos_token=eos_token, name=name)
        self._forced_format = tool_call_format

    @cached_property
    def rules(self) -> MessageRules:
        """What the template accepts in a conversation."""
        return message_rules(Probe(self._renderer))

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        **variables: Any,
    ) -> str:
        """The prompt. With `continue_final_message` it ends inside the last, assistant's, message.

        Raises TemplateError when the template refuses the conversation, ValueError for a message,
        tool, switch or effort level that cannot be. The caller's objects are not changed.
        """
        pieces = self.render_parts(
            messages, special_tokens=(), tools=tools, add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message, enable_thinking=enable_thinking,
            reasoning_effort=reasoning_effort, **variables,
        )  # fmt: skip
        return "".join(pieces)

    def render_parts(
        self,
        messages: Sequence[Message],
        *,
        special_tokens: Sequence[str],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        media_marker: str = MEDIA_MARKER,
        **variables: Any,
    ) -> list[str]:
        """The prompt in pieces, to be tokenized one by one with control tokens parsed.

        Joined they are `render`'s text. It is cut where untrusted text (messages, tools, names)
        spells or could complete one of `special_tokens`, so that no control token forms out of it;
        without such text there is one piece. Pass the media marker as one of `special_tokens` and
        a typed marker stays text. One BOS may stand at the very start; add no other.
        """
        return _render(
            self, messages, special_tokens, tools, add_generation_prompt, continue_final_message,
            self._variables(enable_thinking, reasoning_effort, variables), media_marker,
        )  # fmt: skip

    def _variables(
        self, enable_thinking: bool | None, reasoning_effort: str | None, variables: Mapping[str, Any]
    ) -> dict[str, Any]:
        values = dict(variables)
        if reasoning_effort is not None and reasoning_effort not in EFFORT_LEVELS:
            raise ValueError(
                f"reasoning_effort must be one of {', '.join(EFFORT_LEVELS)}, not {reasoning_effort!r}"
            )
        if enable_thinking is not None:
            values |= {"enable_thinking": enable_thinking, "thinking": enable_thinking}
        if reasoning_effort is not None:
            values["reasoning_effort"] = reasoning_effort
        return values


def _render(
    template: ChatTemplate,
    messages: Sequence[Message],
    special_tokens: Sequence[str],
    tools: Sequence[Mapping[str, Any]] | None,
    add_generation_prompt: bool,
    continue_final_message: bool,
    variables: Mapping[str, Any],
    media_marker: str,
) -> list[str]:
    wrapped = envelopes(tools)
    sentinel = Sentinel([messages, wrapped], special_tokens)
    turns = normalize(messages, media_marker=sentinel.media)
    if continue_final_message:
        if not turns or turns[-1]["role"] != "assistant":
            raise ValueError("continue_final_message needs an assistant message at the end to continue")
        turns[-1]["content"] += sentinel.end
        add_generation_prompt = False
    turns, wrapped = sentinel.guard(turns), sentinel.guard(wrapped)
    renderer = template._renderer  # pyright: ignore[reportPrivateUsage]
    adapted = adapt(turns, template.rules)
    try:
        text = renderer.render(
            adapted, wrapped, add_generation_prompt=add_generation_prompt, variables=variables
        )
    except TemplateError:
        if not wrapped:
            raise
        text = renderer.render(
            adapted, described(wrapped), add_generation_prompt=add_generation_prompt, variables=variables
        )
    if continue_final_message:
        if sentinel.end not in text:
            raise TemplateError(f"The chat template {renderer.name} does not print the message to continue.")
        text = text[: text.rindex(sentinel.end)]
    return sentinel.cut(text, media_marker)


def conversation_text(messages: Sequence[Message]) -> str:
    """A conversation for a model without a template: "role: content" lines, the assistant's opened."""
    lines = [f"{turn['role']}: {text_of(turn.get('content'))}" for turn in messages]
    return "\n".join([*lines, "assistant:"])
