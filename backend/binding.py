"""What a model's chat format asks of the engine for one request: markers to show, a grammar, a budget
for the thought, and the parser that reads the reply."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from backend.chat_engine import Request
from backend.engine.thought import ThoughtBudget, ThoughtMarks
from backend.grammar.check import check_grammar
from backend.native import Model
from backend.prompt import Prompt
from backend.reply import Parsed, ReplyParser
from backend.tokenizer import SENTENCE_PIECE, Tokenizer
from backend.types import (
    GenerationConfig,
    Grammar,
    HeldPiece,
    ReasoningPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
    unmet_thinking,
)

if TYPE_CHECKING:
    from backend.chat import ChatTemplate
    from backend.chat.format import Thought
    from backend.chat.grammar import ReplyGrammar
    from backend.grammar.answer import AnswerCheck

logger = logging.getLogger("fireside")

EFFORT_BUDGETS = {"minimal": 128, "low": 512, "medium": 2048, "high": 8192, "xhigh": 16384}
"""Tokens of thought for an effort level, on a template that knows no levels; `max` has no limit."""
ReplyPiece: TypeAlias = TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece
_ROLE_STOPS = tuple(f"\n{role}:" for role in ("system", "user", "assistant", "tool"))
"""What would open another speaker's line in a conversation without a template."""


@dataclass(frozen=True)
class Bound:
    """What a reply is held to while it is written, and what is left to check once it is complete."""

    grammar: Grammar | None = None
    answer_check: AnswerCheck | None = None


@dataclass(frozen=True)
class EndedReply:
    """What a reply was, once it is complete."""

    tool_calls: Sequence[ToolCall] = ()
    pieces: Sequence[ReplyPiece] = ()
    warnings: Sequence[str] = ()


class LineParser:
    """Leaves out the blanks behind "assistant:", which belong to the line and not to the reply."""

    def __init__(self) -> None:
        self._begun = False

    def feed(self, text: str) -> list[TextPiece]:
        if not self._begun:
            text = text.lstrip()
            self._begun = bool(text)
        return [TextPiece(text)] if text else []

    def finish(self) -> EndedReply:
        return EndedReply()


class BareStart:
    """Leaves out the blank that a SentencePiece vocabulary puts in front of a reply's first word."""

    def __init__(self, parser: ReplyParser) -> None:
        self._parser = parser
        self._begun = False

    def feed(self, text: str) -> Sequence[ReplyPiece]:
        return self._bare(self._parser.feed(text))

    def finish(self) -> Parsed:
        parsed = self._parser.finish()
        return EndedReply(parsed.tool_calls, tuple(self._bare(parsed.pieces)), tuple(parsed.warnings))

    def _bare(self, pieces: Sequence[ReplyPiece]) -> Sequence[ReplyPiece]:
        if self._begun:
            return pieces
        bare: list[ReplyPiece] = []
        for piece in pieces:
            if isinstance(piece, TextPiece) and not self._begun:
                self._begun = True
                piece = replace(piece, text=piece.text.removeprefix(" "))
                if not piece.text:
                    continue
            bare.append(piece)
        return bare


class FormatBinding:
    """Ties one template (None: a model without one) to one vocabulary."""

    def __init__(self, template: ChatTemplate | None, model: Model, tokenizer: Tokenizer) -> None:
        self._template = template
        self._model = model
        self._tokenizer = tokenizer

    def shown_specials(self, config: GenerationConfig) -> frozenset[int]:
        """Control tokens that belong to the format's markers, so the parser must see them as text."""
        thought = self._thought(config)
        assumed = self._specials((thought.start, thought.end)) if thought else frozenset[int]()
        return self._format_specials | assumed

    @cached_property
    def _format_specials(self) -> frozenset[int]:
        if self._template is None:
            return frozenset()
        return self._specials((*self._template.marker_texts, *self.role_stops))

    def _specials(self, texts: Sequence[str]) -> frozenset[int]:
        markers = "\n".join(texts)
        return frozenset(
            token
            for token in self._model.special_tokens
            if (text := self._model.piece(token).decode("utf-8", "replace").strip()) and text in markers
        )

    def _thought(self, config: GenerationConfig) -> Thought | None:
        """How a thought is written in the reply: as the template shows it, or as `on` assumes."""
        if self._template is not None:
            return self._template.format_as(config.reasoning_format).thought
        if config.reasoning_format != "on":
            return None
        from backend.chat.registry import ASSUMED_THOUGHT

        return ASSUMED_THOUGHT

    @cached_property
    def role_stops(self) -> tuple[str, ...]:
        """Texts that end a turn where the vocabulary marks no token for it."""
        if self._template is None:
            return _ROLE_STOPS
        from backend.chat.format import is_tag, visible

        stops: list[str] = []
        for text in map(str.strip, self._template.stop_texts):
            first = (self._tokenizer.encode(text, special=True) or [-1])[0]
            if first < 0 or self._model.is_eog(first):
                continue
            # Some vocabularies hold the marker as a token of a person's own, or as an ordinary one.
            if self._model.is_control(first) or is_tag(visible(text)[0]):
                stops.append(text)
        return tuple(stops)

    def parser(
        self, request: Request, config: GenerationConfig, prompt: Prompt, *, specials: bool = False
    ) -> ReplyParser | None:
        """Reads the reply to a conversation; None for raw text. With `specials` it shows what ends it."""
        if request.messages is None:
            return None
        if self._template is None:
            return self._line_parser(config)
        parser = self._template.parser(
            prompt=prompt.text,
            tools=list(request.tools),
            tool_choice=config.tool_choice or "auto",
            parallel_tool_calls=config.parallel_tool_calls is not False,
            reasoning_format=config.reasoning_format or "auto",
            json_schema=config.json_schema,
            specials=specials,
        )
        is_bare = self._model.vocab_type == SENTENCE_PIECE and not request.continue_reply
        return BareStart(parser) if is_bare else parser

    def _line_parser(self, config: GenerationConfig) -> ReplyParser:
        thought = self._thought(config)
        if thought is None:
            return LineParser()
        from backend.chat.format import ChatFormat
        from backend.chat.parsing.parser import ReplyParser as MarkedParser

        return MarkedParser(ChatFormat(thought=thought))

    def bound(self, request: Request, config: GenerationConfig, prompt: Prompt) -> Bound:
        """What binds the reply. ValueError for a grammar or a schema that cannot be."""
        if config.grammar is not None:
            check_grammar(config.grammar)
            return Bound(self._after_thought(config.grammar, request, prompt))
        if config.json_schema is None and not request.tools:
            return Bound()
        bound = self._told(request, config, prompt)
        for warning in bound.warnings:
            logger.warning("Schema: %s", warning)
        # An answer with its thought in it is no JSON value.
        is_whole = config.reasoning_format != "none" or self.thought(request, config, prompt) is None
        return Bound(bound.grammar, bound.answer_check if is_whole else None)

    def _told(self, request: Request, config: GenerationConfig, prompt: Prompt) -> ReplyGrammar:
        """The grammar of calls and of an answer bound to a schema, with what it leaves out."""
        if self._template is None or request.messages is None:
            from backend.chat.grammar import schema_only

            return schema_only(config.json_schema)
        return self._template.reply_grammar(
            list(request.tools),
            tool_choice=config.tool_choice or "auto",
            parallel_tool_calls=config.parallel_tool_calls is not False,
            json_schema=config.json_schema,
            prompt=prompt.text,
            enable_thinking=config.enable_thinking,
            reasoning_effort=config.reasoning_effort,
        )

    def _after_thought(self, grammar: str, request: Request, prompt: Prompt) -> Grammar:
        """A person's grammar binds the answer, behind the thought that the prompt leaves open."""
        template = self._template
        if template is None or request.messages is None or not template.opens_thought(prompt.text):
            return Grammar(grammar)
        from backend.chat.grammar import after_thought

        return after_thought(grammar, template.thought_end.strip())

    def unmet(self, request: Request, config: GenerationConfig, model: str) -> tuple[str, ...]:
        """What a request asks about thinking that cannot be done for it, in sentences; `model` is a name."""
        asked = [
            name
            for name in ("enable_thinking", "reasoning_effort", "reasoning_budget")
            if getattr(config, name) not in (None, False, "none")
        ]
        if request.messages is None:
            return tuple(f"{name} has no effect: raw text is continued as it stands." for name in asked)
        mode = self._template.reasoning_mode if self._template else "never"
        told = unmet_thinking(model, mode, config)
        if mode == "never" and not told and "reasoning_budget" in asked and self._thought(config) is None:
            told = f"reasoning_budget has no effect here: {model} is not a thinking model."
        if self._template and mode != "never":
            told = told or self._template.switches.unmet(config.enable_thinking, config.reasoning_effort)
        return (told,) if told else ()

    def thought(self, request: Request, config: GenerationConfig, prompt: Prompt) -> ThoughtMarks | None:
        """Where thoughts begin and end, and whether the prompt left one open."""
        marks = self._thought(config)
        if request.messages is None or marks is None:
            return None
        is_open = self._template is not None and self._template.opens_thought(prompt.text)
        return ThoughtMarks(marks.start.strip(), marks.end.strip(), is_open)

    def thought_budget(self, config: GenerationConfig) -> ThoughtBudget | None:
        """How long the model may think: as told, else by the effort where the template has no levels."""
        limit = config.reasoning_budget
        if limit is None and self._template and not self._template.switches.levels:
            limit = EFFORT_BUDGETS.get(config.reasoning_effort or "")
        thought = self._thought(config)
        if limit is None or (self._template is None and thought is None):
            return None
        end = (thought.raw_end or thought.end) if thought else ""
        return ThoughtBudget(limit, tuple(self._tokenizer.encode(end, special=True)))
