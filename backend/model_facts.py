"""What a loaded model is and can do, and which requests it can answer: all that needs no context."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.chat_engine import Request, Tool
from backend.config_checks import shown
from backend.handle import ModelHandle
from backend.load_options import MOST_SLOTS
from backend.request_checks import check_request, check_tools
from backend.tokenizer import Tokenizer
from backend.types import (
    ChatCard,
    ComputeDtype,
    GenerationConfig,
    KvCacheMode,
    ReasoningMode,
    TemplateError,
    cannot_write,
)

if TYPE_CHECKING:
    from backend.chat import ChatTemplate

Config = GenerationConfig | Mapping[str, Any] | None
_TOKENS_COMPARED = 512
"""Of two vocabularies of one size."""


class ModelFacts:
    """The facts of a loaded file (checklist 2 to 10, 14 to 25, 92 of the model API)."""

    def __init__(self, handle: ModelHandle) -> None:
        self._handle = handle

    @property
    def handle(self) -> ModelHandle:
        """The loaded file that this object wraps."""
        return self._handle

    @property
    def local_dir(self) -> Path:
        """The directory of the model's file (2)."""
        return self._handle.info.path.resolve().parent

    @property
    def vocab_size(self) -> int:
        """Number of token ids (3)."""
        return self._handle.model.n_vocab

    @property
    def max_seq(self) -> int:
        """The context window, in tokens (3)."""
        return self._handle.max_seq

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """Every id that ends a sequence (4)."""
        return self._handle.eog_tokens

    @property
    def defaults(self) -> GenerationConfig:
        """The checkpoint's own decode defaults, not the library's (5)."""
        return self._handle.defaults

    @property
    def compute_dtype(self) -> ComputeDtype:
        """What the load named, else "undefined" (6)."""
        return self._handle.options.compute_dtype or "undefined"

    @property
    def kv_cache_mode(self) -> KvCacheMode | None:
        """What the load named (7)."""
        return self._handle.options.kv_cache_mode

    @property
    def has_chat_template(self) -> bool:
        """Whether the file, or the load, brought a chat template (9)."""
        return bool(self._handle.options.chat_template or self._handle.info.chat_template)

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer this model encodes and decodes with (10)."""
        return self._handle.tokenizer

    @property
    def supports_vision(self) -> bool:
        """Whether it takes pictures (14)."""
        return False

    @property
    def supports_audio(self) -> bool:
        """Whether it takes sound (14)."""
        return False

    @property
    def supports_video(self) -> bool:
        """Whether it takes video (14)."""
        return False

    @property
    def supports_speculative_decoding(self) -> bool:
        """Whether drafts can be checked on this model (15)."""
        return False

    @property
    def reasoning_mode(self) -> ReasoningMode:
        """Whether and when the template lets the model think (16 to 20)."""
        return self._template.reasoning_mode if self._template else "never"

    @property
    def supports_thinking(self) -> bool:
        """Every mode but "never" (21)."""
        return self.reasoning_mode != "never"

    @property
    def supports_tools(self) -> bool:
        """Whether calls of this template can be read (22, 23)."""
        return self._template is not None and self._template.supports_tools

    @property
    def tool_call_format(self) -> str:
        """The name of the syntax of its calls (24)."""
        return self._template.tool_call_format if self._template else "generic"

    @property
    def template_renders_tools(self) -> bool:
        """Whether the template prints offered tools by itself (25)."""
        return self._template is not None and self._template.renders_tools

    @property
    def card(self) -> ChatCard:
        """What a face shows of this model (92)."""
        info = self._handle.info
        kind = "embedding" if info.is_embedding else ("chat" if self.has_chat_template else "base")
        return ChatCard(
            model_id=info.path.stem,
            architecture=info.architecture,
            parameters=info.n_params,
            quantization=info.quantization,
            max_seq=self.max_seq,
            supports_tools=self.supports_tools,
            supports_thinking=self.supports_thinking,
            reasoning_mode=self.reasoning_mode,
            tool_call_format=self.tool_call_format,
            max_active=self._handle.plan.slots,
            devices=tuple(device.name for device in self._handle.plan.devices),
            kind=kind,
        )

    def explain(self, config: Config = None, **overrides: Any) -> dict[str, tuple[Any, str]]:
        """Every generation setting in force: its value, and where it comes from."""
        return self._handle.explain(GenerationConfig.of(config, **overrides))

    def mismatch(self, draft: ModelFacts) -> str:
        """Why `draft` cannot draft for this model, as a sentence; "" where it can (96)."""
        if draft.vocab_size != self.vocab_size:
            return f"the assistant's vocabulary has {draft.vocab_size} tokens, this one {self.vocab_size}"
        for token in range(0, self.vocab_size, max(1, self.vocab_size // _TOKENS_COMPARED)):
            theirs, ours = draft.tokenizer.piece(token), self.tokenizer.piece(token)
            if theirs != ours:
                return f"the assistant has another vocabulary: token {token} is {theirs!r}, and here {ours!r}"
        there, here = draft.handle.main_device, self.handle.main_device
        if there != here:
            return f"the assistant is on another device: {there}, and this model is on {here}"
        if draft.max_seq < self.max_seq:
            return f"the assistant's context has {draft.max_seq} tokens, this model's {self.max_seq}"
        return ""

    def offered(self, tools: object) -> tuple[Tool, ...]:
        """The definitions in `tools`, none for None. ValueError where they are none, or cannot be called."""
        offered = check_tools(tools)
        if offered and not self.supports_tools:
            raise ValueError(
                f"{self._handle.info.path.stem} has no tool-call format, so tools cannot be offered to it "
                f'(load it with tool_call_format="generic" to describe calls in the prompt)'
            )
        return offered

    def check(self, request: Request) -> None:
        """Raise ValueError for a request that this model cannot answer. Its length is not looked at."""
        check_request(request)
        config = request.config
        if self._handle.info.is_embedding:
            raise ValueError(str(cannot_write(self._handle.info.path.stem)))
        if request.messages is not None and not request.messages:
            raise ValueError("messages is empty: there is nothing to answer")
        self.offered(request.tools)
        if request.messages is not None and self._template is not None:
            self._template.switches.variables(config.enable_thinking, config.reasoning_effort)
        if (config.prompt_lookup_num_tokens or config.num_assistant_tokens) and not (
            self.supports_speculative_decoding
        ):
            raise ValueError("this model does not support speculative decoding")
        if config.lora or request.adapters:
            raise ValueError("lora: adapters belong to the load; this version takes none per request")
        forced = () if isinstance(request.forced, str) else request.forced or ()
        for name, tokens in (("logit_bias", config.logit_bias or ()), ("forced", forced)):
            if beyond := [token for token in tokens if not 0 <= token < self.vocab_size]:
                raise ValueError(
                    f"{name}: {beyond[0]} is not a token of this vocabulary of {self.vocab_size}"
                )
        if request.n > MOST_SLOTS:
            raise ValueError(f"n must be at most {MOST_SLOTS}, not {shown(request.n)}")

    @property
    def _template(self) -> ChatTemplate | None:
        """The template as far as it can be used: a broken one offers nothing, and says why when rendered."""
        with contextlib.suppress(TemplateError):
            return self._handle.template
        return None
