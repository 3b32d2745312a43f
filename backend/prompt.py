"""From a request to the tokens of its prompt: rendering, tokenizing, and what to do when it is too long."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from backend.chat_engine import Request
from backend.prompt_cache import Prior, PromptCache, Rendering, key_of
from backend.tokenizer import Tokenizer
from backend.types import ContextOverflowError, GenerationConfig, Message

if TYPE_CHECKING:
    from backend.chat import ChatTemplate


@dataclass(frozen=True)
class Prompt:
    """A prompt as text and as tokens; `truncated` counts the turns that were left out."""

    text: str
    tokens: list[int]
    truncated: int = 0
    is_plain: bool = False
    """Whether it is a conversation in which nobody spells a control token, so that equal text means
    equal tokens."""


MOST_KEPT = 64
"""Conversations whose tokens are remembered."""


class PromptBuilder:
    """Builds prompts for one model. Without a template a conversation becomes "role: content" lines."""

    def __init__(
        self, tokenizer: Tokenizer, template: Callable[[], ChatTemplate | None], max_seq: int
    ) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self.max_seq = max_seq
        self._kept = PromptCache(MOST_KEPT)

    def keep(self, conversation: str, tokens: tuple[int, ...], *texts: str) -> None:
        """Remember the tokens of a conversation up to now, for its next prompt. It may begin with any of
        `texts`."""
        self._kept.keep(conversation, tokens, *texts)

    def kept(self, conversation: str) -> tuple[Prior, ...]:
        """Each possible text of a conversation up to now, with its tokens."""
        return self._kept.kept(conversation)

    def forget(self, conversation: str) -> None:
        """Remember nothing of a conversation until its next prompt."""
        self._kept.forget(conversation)

    def build(self, request: Request, config: GenerationConfig) -> Prompt:
        """The prompt of a request under resolved settings.

        Raises ContextOverflowError when it leaves no room for a reply, and ValueError or
        TemplateError when the conversation cannot be rendered.
        """
        self._kept.begin(request.conversation or "")
        prompt = self.measure(request, config)
        if not self._fits(prompt, config):
            raise ContextOverflowError(len(prompt.tokens), self.max_seq, self._room(config))
        if not prompt.tokens:
            raise ValueError("The prompt is empty: there is nothing to continue.")
        return prompt

    def measure(self, request: Request, config: GenerationConfig) -> Prompt:
        """The same whether or not it fits. `truncate_oldest` leaves the oldest turns out, in blocks.

        The room it makes is a multiple of a quarter of the window: while a conversation grows, it begins
        at the same turn for a while, and the cache holds its beginning.
        """
        if request.messages is None:
            return Prompt(request.text or "", self._tokenizer.encode_prompt([request.text or ""]))
        messages = list(request.messages)
        whole = self._render(request, messages, config)
        if config.overflow != "truncate_oldest" or self._fits(whole, config):
            return whole
        cuts = later_exchanges(messages)
        if not cuts:
            return whole
        block = max(1, self.max_seq // 4)
        excess = len(whole.tokens) - self.max_seq + self._room(config)
        most = len(whole.tokens) - -(-excess // block) * block
        # Prompts shrink with every exchange that goes, so a search renders few of them.
        best = bisect_left(
            cuts[:-1],
            True,
            key=lambda cut: len(self._render(request, since(messages, cut), config).tokens) <= most,
        )
        kept = since(messages, cuts[best])
        shorter = self._render(request, kept, config)
        return replace(shorter, truncated=len(messages) - len(kept))

    def parts(self, request: Request, messages: Sequence[Message], config: GenerationConfig) -> list[str]:
        """The rendered prompt, cut where untrusted text could otherwise form a control token."""
        template = self._template()
        if template is None:
            from backend.chat import conversation_text

            text = conversation_text(messages)
            opens = request.add_generation_prompt and not request.continue_reply
            return [text if opens else text.removesuffix("\nassistant:")]
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
        key = self._key(request, messages, config)
        known = self._kept.rendering(key) if key else None
        parts = known.parts if known else tuple(self.parts(request, messages, config))
        is_plain = len(parts) == 1
        kept = self._kept.kept(request.conversation or "") if is_plain else ()
        prior = request.prior or next((one for one in kept if _after(parts, one[0]) is not None), None)
        if known is None or known.prior != prior:
            known = Rendering(
                parts, prior, tuple(self._tokens(parts, prior, given=request.prior is not None))
            )
            if key:
                self._kept.remember(key, known)
        return Prompt("".join(parts), list(known.tokens), is_plain=is_plain)

    def _key(self, request: Request, messages: list[Message], config: GenerationConfig) -> bytes | None:
        """All that the text of a prompt depends on, and whether tokens for its beginning are given."""
        template = self._template()
        return key_of(
            messages,
            list(request.tools),
            request.add_generation_prompt,
            request.continue_reply,
            config.enable_thinking,
            config.reasoning_effort,
            template and template.moment,
            request.prior is not None,
        )

    def _tokens(self, parts: Sequence[str], prior: Prior | None, *, given: bool) -> list[int]:
        """The tokens of a prompt: those of `prior` where it begins with that text, then the usual ones."""
        if prior and (rest := _after(parts, prior[0])) is not None:
            tokens = list(prior[1])
            if rest:
                tokens += self._tokenizer.encode_rest(rest)
            # Unusual tokens can be more than the usual ones, which may fit.
            if given or len(tokens) < self.max_seq:
                return tokens
        return self._tokenizer.encode_prompt(parts)

    def _fits(self, prompt: Prompt, config: GenerationConfig) -> bool:
        return len(prompt.tokens) + self._room(config) <= self.max_seq

    def _room(self, config: GenerationConfig) -> int:
        return min(config.room, self.max_seq - 1)


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


def later_exchanges(messages: Sequence[Message]) -> list[int]:
    """Where a shortened conversation may begin: at each user turn but the one it begins with now.

    A call and its results are parts of the answer to a user turn, so no cut parts them.
    """
    first = next((i for i, turn in enumerate(messages) if not _is_system(turn)), len(messages))
    return [index for index, turn in enumerate(messages) if turn.get("role") == "user" and index > first]


def since(messages: Sequence[Message], cut: int) -> list[Message]:
    """The system turns, and everything from `cut` on."""
    return [turn for index, turn in enumerate(messages) if index >= cut or _is_system(turn)]


def _is_system(turn: Message) -> bool:
    return turn.get("role") in ("system", "developer")
