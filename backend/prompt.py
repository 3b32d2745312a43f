"""From a request to the tokens of its prompt: rendering, tokenizing, and what to do when it is too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from backend.chat import ChatTemplate, conversation_text
from backend.chat_engine import Request
from backend.tokenizer import Tokenizer
from backend.types import ContextOverflowError, GenerationConfig, Message


@dataclass(frozen=True)
class Prompt:
    """A prompt as text and as tokens; `truncated` counts the turns that were left out."""

    text: str
    tokens: list[int]
    truncated: int = 0


class PromptBuilder:
    """Builds prompts for one model. Without a template a conversation becomes "role: content" lines."""

    def __init__(
        self, tokenizer: Tokenizer, template: Callable[[], ChatTemplate | None], max_seq: int
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self.max_seq = max_seq

    def build(self, request: Request, config: GenerationConfig) -> Prompt:
        """The prompt of a request under resolved settings.

        Raises ContextOverflowError when it leaves no room for one token, and ValueError or
        TemplateError when the conversation cannot be rendered.
        """
        if request.messages is None:
            prompt = Prompt(request.text or "", self._tokenizer.encode_prompt([request.text or ""]))
            return self._checked(prompt)
        messages, dropped = list(request.messages), 0
        while True:
            prompt = self._render(request, messages, config)
            fits = len(prompt.tokens) < self.max_seq
            if fits or config.overflow != "truncate_oldest":
                break
            shorter = without_oldest(messages)
            dropped += len(messages) - len(shorter)
            if len(shorter) == len(messages):
                break
            messages = shorter
        return self._checked(Prompt(prompt.text, prompt.tokens, dropped))

    def parts(self, request: Request, messages: Sequence[Message], config: GenerationConfig) -> list[str]:
        """The rendered prompt, cut where untrusted text could otherwise form a control token."""
        template = self._template()
        if template is None:
            return [conversation_text(messages)]
        return template.render_parts(
            messages,
            special_tokens=self._tokenizer.special_texts,
            tools=list(request.tools) or None,
            add_generation_prompt=request.add_generation_prompt and not request.continue_reply,
            continue_final_message=request.continue_reply,
            enable_thinking=config.enable_thinking,
            reasoning_effort=config.reasoning_effort,
        )

    def _render(self, request: Request, messages: list[Message], config: GenerationConfig) -> Prompt:
        parts = self.parts(request, messages, config)
        text = "".join(parts)
        if request.prior and (known := _after(parts, request.prior[0])) is not None:
            tokens = list(request.prior[1])
            if known:
                tokens += self._tokenizer.encode_rest(known)
            return Prompt(text, tokens)
        return Prompt(text, self._tokenizer.encode_prompt(parts))

    def _checked(self, prompt: Prompt) -> Prompt:
        if len(prompt.tokens) >= self.max_seq:
            raise ContextOverflowError(len(prompt.tokens), self.max_seq)
        if not prompt.tokens:
            raise ValueError("The prompt is empty: there is nothing to continue.")
        return prompt


def _after(parts: Sequence[str], prior: str) -> list[str] | None:
    """The parts of a prompt behind `prior`, or None where the prompt does not begin with it."""
    rest = list(parts)
    while prior:
        if not rest:
            return None
        if len(rest[0]) <= len(prior):
            if not prior.startswith(rest[0]):
                return None
            prior = prior[len(rest.pop(0)) :]
        elif rest[0].startswith(prior):
            rest[0] = rest[0][len(prior) :]
            prior = ""
        else:
            return None
    return rest


def without_oldest(messages: Sequence[Message]) -> list[Message]:
    """The conversation without its oldest exchange: a user turn and all that answered it.

    A call and its results are answers, so they go together. System turns and the last user turn
    with what follows it stay; nothing is dropped when nothing else is left.
    """
    users = [index for index, turn in enumerate(messages) if turn.get("role") == "user"]
    if not users:
        return list(messages)
    first = next(i for i, turn in enumerate(messages) if turn.get("role") not in ("system", "developer"))
    start = min(first, users[0])
    later = [index for index in users if index > start]
    if not later:
        return list(messages)
    return [
        turn
        for index, turn in enumerate(messages)
        if not start <= index < later[0] or turn.get("role") in ("system", "developer")
    ]
