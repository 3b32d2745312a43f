"""A chat template: what it can do, how it renders a conversation, and how a reply to it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from backend.chat.adapt import MEDIA_MARKER, MessageRules, envelopes, possible
from backend.chat.format import ChatFormat
from backend.chat.learning.learn import learn
from backend.chat.learning.probe import NAME_1, TOOLS, Probe, user
from backend.chat.learning.rules import message_rules
from backend.chat.learning.switches import Switches, find_switches
from backend.chat.parsing.harmony import HarmonyParser
from backend.chat.parsing.parser import ParsedReply, ReplyParser
from backend.chat.prompt import PromptRequest, build
from backend.chat.registry import ASSUMED_THOUGHT, GENERIC, complete
from backend.chat.renderer import Renderer
from backend.types import Grammar, Message, ReasoningFormat, ReasoningMode

if TYPE_CHECKING:
    from backend.chat.grammar import ReplyGrammar


_DAY, _TO_THE_MINUTE = "%Y-%m-%d", "%Y-%m-%d %H:%M"
_MOST_GRAMMARS = 4
"""Grammars a template remembers: each message of a chat asks for the same one."""


@dataclass(frozen=True)
class Learned:
    """All that probing a template told."""

    format: ChatFormat
    rules: MessageRules
    switches: Switches
    renders_tools: bool


@lru_cache(maxsize=64)
def _compiled(source: str, bos_token: str, eos_token: str, name: str, given: bool) -> Renderer:
    return Renderer(source, bos_token=bos_token, eos_token=eos_token, name=name, given=given)


@lru_cache(maxsize=64)
def _learned(renderer: Renderer, vocabulary: frozenset[str]) -> Learned:
    """Probe a template once; what hits a limit is learned as a format without any marks."""
    probe = Probe(renderer)
    learned = learn(probe)
    shown = probe.render([user()], TOOLS, opened=True)
    renders_tools = shown is not None and NAME_1 in shown
    # A vocabulary may hold call tokens that a template without tools does not speak of.
    known = vocabulary if renders_tools else frozenset[str]()
    whole = complete(learned, renderer.source, renderer.name, known)
    switches = find_switches(probe, whole)
    probe.variables = dict(switches.on)
    rules = message_rules(probe)
    probe.variables = {}
    return Learned(whole, rules, switches, renders_tools)


def _text_of(value: object) -> str | None:
    """A key for what a grammar is made of; None where JSON does not know some of it."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return None


class ChatTemplate:
    """One model's chat template, compiled and learned.

    `bos_token` and `eos_token` are the texts the template prints for them; `name` names the
    template in errors, and a few families by it; `special_tokens` are the control-token texts of
    the vocabulary, evidence for families whose template does not show their calls; `given` tells
    that the source is a person's own and no model's, so errors name no model.
    `tool_call_format="generic"` asks for JSON calls described in the system turn where the template
    has no syntax of its own; any other name is that of its own syntax, or a ValueError. Raises
    TemplateError when the source does not compile. Thread-safe.
    """

    def __init__(
        self,
        source: str,
        bos_token: str = "",
        eos_token: str = "",
        name: str = "",
        *,
        tool_call_format: str | None = None,
        special_tokens: Sequence[str] = (),
        given: bool = False,
    ) -> None:
        self.source = source
        self._renderer = _compiled(source, bos_token, eos_token, name, given)
        self._learned = _learned(self._renderer, frozenset(special_tokens))
        self.format: ChatFormat = self._learned.format
        """How replies are written."""
        self._grammars: dict[str, ReplyGrammar] = {}
        self._shows_calls = self.renders_tools
        """Whether the template itself tells the model how to call tools."""
        if tool_call_format not in (None, "generic", self.tool_call_format if self.supports_tools else None):
            own = f"writes {self.tool_call_format}" if self.supports_tools else "writes no calls at all"
            raise ValueError(
                f"tool_call_format: {tool_call_format!r:.60} is not what this model writes; its chat "
                f'template {own}. Leave it out, or give "generic", which any template can have'
            )
        if tool_call_format == "generic" and self.format.calls is None:
            self.format = replace(self.format, calls=GENERIC)
            self._shows_calls = False

    # ---- what it can do --------------------------------------------------------------------

    @property
    def reasoning_mode(self) -> ReasoningMode:
        """How thinking is switched: never, always, toggleable, opt_in or adaptive."""
        return self._learned.switches.mode

    @property
    def supports_tools(self) -> bool:
        """Whether calls can be read: the template shows a syntax, or generic calls were asked for."""
        return self.format.calls is not None

    @property
    def renders_tools(self) -> bool:
        """Whether offered tools appear in the prompt by the template's own doing."""
        return self._learned.renders_tools

    @property
    def tool_call_format(self) -> str:
        """The name of the call syntax."""
        return self.format.name

    @property
    def switches(self) -> Switches:
        """The variables that switch thinking."""
        return self._learned.switches

    @property
    def rules(self) -> MessageRules:
        """What the template accepts in a conversation."""
        return self._learned.rules

    @property
    def notes(self) -> tuple[str, ...]:
        """How uncertain parts of the format were found."""
        fault = self._renderer.fault
        return (*self.format.notes, *((str(fault),) if fault else ()))

    @property
    def moment(self) -> str:
        """What a prompt may show of the clock: until it changes, the same conversation gives the same text.

        A template that writes the time itself is taken to write no seconds.
        """
        from backend.chat.sandbox import clock

        return clock().strftime(_TO_THE_MINUTE if "strftime_now" in self.source else _DAY)

    @property
    def thought_end(self) -> str:
        """The text that closes a thought, for an engine that ends one; empty without thoughts."""
        thought = self.format.thought
        return (thought.raw_end or thought.end) if thought else ""

    @property
    def marker_texts(self) -> tuple[str, ...]:
        """Marker texts of the format. A token whose text is in one of them must be detokenized as
        text although it is a control token, or the parser cannot see it."""
        found, calls = self.format, self.format.calls
        texts = [found.content_start, found.content_end, *found.skipped]
        if found.thought:
            texts += [found.thought.start, found.thought.end]
        if found.channels:
            texts += ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>"]
        if calls:
            texts += [
                calls.section_start, calls.section_end, calls.call_start, calls.call_end, calls.separator,
                calls.middle, calls.head_end, calls.argument_start, calls.value_start, calls.argument_end,
                *calls.quote,
            ]  # fmt: skip
        return tuple(dict.fromkeys(text for text in texts if text.strip()))

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """Texts that end the assistant's turn where the vocabulary has no token for it."""
        return self.format.end_of_turn

    def opens_thought(self, prompt: str) -> bool:
        """Whether a reply to the rendered `prompt` begins inside a thought."""
        return self.parser(prompt=prompt).in_thought

    # ---- rendering -------------------------------------------------------------------------

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool | Literal["content", "reasoning"] = False,
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
        **variables: Any,
    ) -> str:
        """The prompt. With `continue_final_message` it ends inside the last, assistant's, message:
        in its text, or in its thought when it has no text (or as named).

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
        continue_final_message: bool | Literal["content", "reasoning"] = False,
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
        request = PromptRequest(
            messages=messages,
            tools=possible(envelopes(tools)),
            opened=add_generation_prompt,
            continued=continue_final_message,
            variables={**self.switches.variables(enable_thinking, reasoning_effort), **variables},
            special_tokens=special_tokens,
            media_marker=media_marker,
        )
        return build(self._renderer, self.rules, self.format, self._shows_calls, request)

    # ---- reading replies -------------------------------------------------------------------

    def format_as(self, reasoning_format: ReasoningFormat | str | None) -> ChatFormat:
        """The format that a reply is read by: with `on`, a template that shows no thoughts has the
        markers that most models write."""
        if reasoning_format == "on" and self.format.thought is None and not self.format.channels:
            return replace(self.format, thought=ASSUMED_THOUGHT)
        return self.format

    def parser(
        self,
        *,
        prompt: str,
        tools: Sequence[Mapping[str, Any]] | None = None,
        tool_choice: str | Mapping[str, Any] | None = "auto",
        parallel_tool_calls: bool = True,
        reasoning_format: ReasoningFormat | str | None = "auto",
        json_schema: Mapping[str, Any] | None = None,
        specials: bool = False,
    ) -> ReplyParser:
        """A parser of the reply that continues the rendered `prompt`; what ends a turn is text with
        `specials`."""
        offered = [] if tool_choice == "none" else envelopes(tools)
        kind = HarmonyParser if self.format.channels else ReplyParser
        return kind(
            self.format_as(reasoning_format),
            prime=self._prime(prompt),
            tools=offered,
            reasoning_format="none" if reasoning_format == "none" else "auto",
            fenced=json_schema is not None,
            forced=tool_choice not in (None, "auto", "none"),
            specials=specials,
        )

    def parse(self, text: str, *, prompt: str, **options: Any) -> ParsedReply:
        """The reply `text` taken apart; `options` are those of `parser`."""
        parser = self.parser(prompt=prompt, **options)
        parser.feed(text)
        return parser.finish()

    def _prime(self, prompt: str) -> str:
        """What `prompt` already holds of the reply: all behind the last assistant's header."""
        found = -1
        for header in (self.format.header, self.format.result_header):
            for form in (header, header.strip()):
                at = prompt.rfind(form) if form.strip() else -1
                if at >= 0:
                    found = max(found, at + len(form))
                    break
        return prompt[found:] if found >= 0 else ""

    # ---- constrained calls -----------------------------------------------------------------

    def grammar(
        self, tools: Sequence[Mapping[str, Any]] | None, *, prompt: str = "", **options: Any
    ) -> Grammar | None:
        """The grammar that binds a reply to the tools' schemas, or to `json_schema`; None when
        nothing binds it. `options` are those of `reply_grammar`."""
        return self.reply_grammar(tools, prompt=prompt, **options).grammar

    def reply_grammar(
        self,
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        tool_choice: str | Mapping[str, Any] | None = "auto",
        parallel_tool_calls: bool = True,
        json_schema: Mapping[str, Any] | None = None,
        prompt: str = "",
        enable_thinking: bool | None = None,
        reasoning_effort: str | None = None,
    ) -> ReplyGrammar:
        """The grammar with the warnings about schemas it cannot hold a reply to. `prompt` is the
        rendered text that the reply continues, rendered with the same switches."""
        from backend.chat.grammar import reply_grammar

        offered, prime = envelopes(tools), self._prime(prompt)
        allows_thought = self.switches.allows_thought(enable_thinking, reasoning_effort)
        key = _text_of([offered, tool_choice, parallel_tool_calls, json_schema, prime, allows_thought])
        found = self._grammars.get(key or "")
        if found is None:
            found = reply_grammar(
                self.format, offered, tool_choice=tool_choice or "auto",
                parallel_tool_calls=parallel_tool_calls, json_schema=json_schema, prime=prime,
                allows_thought=allows_thought,
            )  # fmt: skip
            if key is not None:
                self._grammars = {**dict(list(self._grammars.items())[1 - _MOST_GRAMMARS :]), key: found}
        return found
