"""The public values of the model API. One file, because callers import all of them from one.

Configuration, reports, pieces of a reply, errors.
Nothing here imports a heavy library, so a face, a tool or a test may import it for free.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast, get_args

from backend import config_checks as check
from backend.config_checks import INT_MAX

Finish = Literal["stop", "length", "stop_string", "tool_calls", "cancelled", "error"]
Stage = Literal["tokenize", "vision", "prefill", "decode", "detokenize"]
ReasoningMode = Literal["never", "always", "toggleable", "opt_in", "adaptive"]
ReasoningFormat = Literal["auto", "on", "none"]
"""`auto`: thoughts by the markers that the template shows. `on`: where it shows none, those between
`<think>` and `</think>` too. `none`: thoughts stay in the text, markers included."""
Overflow = Literal["error", "truncate_oldest"]
Priority = Literal["user", "background"]
ComputeDtype = Literal["undefined", "f32"]
"""llama.cpp has one type for what it computes between the weights of a file, f32."""
KvCacheMode = Literal["paged", "continuous"]
LoadCause = Literal[
    "not_found",
    "not_gguf",
    "truncated",
    "unsupported_arch",
    "missing_shard",
    "out_of_memory",
    "not_a_chat_model",
    "mmproj_mismatch",
    "bad_metadata",
    "cancelled",
    "unreachable",
]
Message: TypeAlias = Mapping[str, Any]
"""One turn in the OpenAI shape: `role`, `content`, and for calls `tool_calls`, `tool_call_id`, `name`."""

EFFORT_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


# ---- errors --------------------------------------------------------------------------------


class BackendError(Exception):
    """The root of every error the backend raises on purpose; its text is fit for a user."""


class ModelLoadError(BackendError):
    """A model could not be loaded.

    `cause` is one word for programs, `remedy` one sentence a person can act on.
    """

    def __init__(self, message: str, *, cause: LoadCause, remedy: str) -> None:
        super().__init__(message)
        self.cause: LoadCause = cause
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_load_error, (str(self), self.cause, self.remedy)


def _rebuild_load_error(message: str, cause: LoadCause, remedy: str) -> ModelLoadError:
    return ModelLoadError(message, cause=cause, remedy=remedy)


def cannot_write(name: str) -> ModelLoadError:
    """The error for an embedding model that was asked for text."""
    return ModelLoadError(
        f"{name} is an embedding model and cannot write text.",
        cause="not_a_chat_model",
        remedy="Choose a chat model; `fireside models list` shows what is here.",
    )


class ContextOverflowError(BackendError, ValueError):
    """A prompt does not fit the context window; nothing was evaluated.

    `needed` and `available` are token counts: what the prompt takes, and what it may take so
    that `reserve` tokens of a reply still fit. `max_seq` is the window.
    """

    def __init__(self, needed: int, max_seq: int, reserve: int = 1) -> None:
        self.needed = needed
        self.available = max_seq - reserve
        self.max_seq = max_seq
        self.reserve = reserve
        kept = "one token of the reply fits" if reserve == 1 else f"{reserve} tokens of the reply fit"
        super().__init__(
            f"The prompt has {needed} tokens, but the context window has room for {max_seq} "
            f"(at most {self.available} for the prompt, so that {kept}). "
            f"Shorten it, or give the model a larger context (--ctx) if it was trained for one."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return ContextOverflowError, (self.needed, self.max_seq, self.reserve)


class QueueFullError(BackendError, RuntimeError):
    """More requests wait than the bounded queue takes; this one was refused, not dropped."""


class EngineError(BackendError, RuntimeError):
    """The engine could not evaluate; `remedy` says what may help."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class TemplateError(BackendError, ValueError):
    """A chat template could not be compiled or rendered; the text names template and line."""


# ---- calls and pieces ----------------------------------------------------------------------


@dataclass(frozen=True)
class ToolCall:
    """One call the model made.

    `arguments` is the parsed object; `raw_arguments` the text the model wrote for it, and
    `error` says why that text does not parse or does not fit the tool's schema (else None).
    """

    id: str
    name: str
    arguments: dict[str, Any]
    raw_arguments: str = ""
    error: str | None = None

    def to_message(self) -> dict[str, Any]:
        """This call in the OpenAI shape, an element of a message's `tool_calls`."""
        text = (
            self.raw_arguments if self.error is not None else json.dumps(self.arguments, ensure_ascii=False)
        )
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": text}}


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A sampled token with its natural-log probability, before any sampling filter."""

    id: int
    text: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()
    """The most probable alternatives, best first: id, text, logprob."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of the visible reply. Pieces of one reply, joined, are its text."""

    text: str
    tokens: tuple[TokenLogprob, ...] = ()
    """Filled when the request asked for logprobs."""
    reply: int = 0
    """Which of the `n` replies of a request this belongs to."""


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    """A piece of the model's thought."""

    text: str
    tokens: tuple[TokenLogprob, ...] = ()
    reply: int = 0


@dataclass(frozen=True, slots=True)
class HeldPiece:
    """Text inside a thought that may turn out to open a call: shown as thought, never stored."""

    text: str
    reply: int = 0


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """A piece of a call being written; joined deltas are a prefix of the final arguments."""

    index: int
    name: str
    arguments_delta: str
    reply: int = 0


@dataclass(frozen=True, slots=True)
class PrefillProgress:
    """Tokens of the prompt evaluated so far (`done`), in all, and taken from the cache (`reused`)."""

    done: int
    total: int
    reused: int


# ---- reports -------------------------------------------------------------------------------


@dataclass(frozen=True)
class GenerationReport:
    """How one generation went. Times are seconds, `tokens_per_second` counts decoding only."""

    finish: Finish
    prompt_tokens: int
    reused_tokens: int = 0
    """Prompt tokens whose cells were still in the cache and were not evaluated again."""
    new_tokens: int = 0
    reasoning_tokens: int = 0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    time_to_first_token_s: float = 0.0
    tokens_per_second: float = 0.0
    forced_tokens: int = 0
    """New tokens that a grammar left no choice about: they were not sampled."""
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    stop_match: str | None = None
    """The stop string that ended the reply."""
    seed: int = 0
    truncated: int = 0
    """Turns dropped from the oldest end so that the prompt fits (`overflow="truncate_oldest"`)."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    notes: tuple[str, ...] = ()
    """What was asked for and could not be done, in sentences: a switch that the chat template lacks."""


@dataclass(frozen=True)
class ChatOutcome(GenerationReport):
    """A report with what the model said: visible text, thought, calls."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reply: int = 0
    warnings: tuple[str, ...] = ()
    """What a reader should know of the text, in sentences: a call that nobody offered, a thought that was
    only ended."""
    schema_errors: tuple[str, ...] = ()
    """Why a finished answer does not satisfy its `json_schema`, in keywords that no grammar holds to."""


Piece: TypeAlias = (
    TextPiece | ReasoningPiece | HeldPiece | ToolCallPiece | ToolCall | PrefillProgress | ChatOutcome
)
"""What a chat engine yields; the `ChatOutcome` of each reply comes last."""


@dataclass(frozen=True)
class ChatCard:
    """What a face shows of a loaded model; it does not change between turns."""

    model_id: str
    architecture: str
    parameters: int
    quantization: str
    max_seq: int
    supports_tools: bool = False
    supports_thinking: bool = False
    supports_vision: bool = False
    supports_audio: bool = False
    supports_video: bool = False
    reasoning_mode: ReasoningMode = "never"
    tool_call_format: str = "generic"
    max_active: int = 1
    max_queued: int = 256
    devices: tuple[str, ...] = ()
    kind: Literal["chat", "base", "embedding"] = "chat"
    """`base` has no chat template; `embedding` cannot generate."""
    server: str = ""
    """Where a model that runs elsewhere is, as it is shown; empty for one of this machine. Of such a model
    much may not be known: `max_seq`, `parameters` and `quantization` are 0 and empty then."""

    @property
    def unmet_tools(self) -> str:
        """That this model cannot call tools, as a sentence; "" where it can."""
        return (
            "" if self.supports_tools else f"The chat template of {self.model_id} has no way to call tools."
        )

    def unmet_thinking(self, config: GenerationConfig) -> str:
        """What `config` asks about thinking that this model cannot do, as a sentence; "" where it can."""
        return unmet_thinking(self.model_id, self.reasoning_mode, config)


def unmet_thinking(model: str, mode: ReasoningMode, config: GenerationConfig) -> str:
    """What `config` asks about thinking that `model` cannot do in its `mode`, as a sentence, else ""."""
    wanted, effort = config.enable_thinking, config.reasoning_effort
    if mode == "never" and wanted:
        return f"{model} cannot be made to think: its chat template has no switch for it."
    if mode == "never" and effort not in (None, "none"):
        return f"A reasoning effort has no effect here: {model} is not a thinking model."
    if mode == "always" and (wanted is False or effort == "none"):
        return f"{model} always thinks; its chat template has no switch for it."
    return ""


@dataclass(frozen=True)
class StageEvent:
    """One stage of a request has ended. `text` is the final text, with `detokenize` only."""

    stage: Stage
    request_id: str
    tokens: int
    duration_s: float
    text: str | None = None


StageObserver: TypeAlias = Callable[[StageEvent], None]


# ---- configuration -------------------------------------------------------------------------

_UNIT = (0.0, 1.0)
_NOT_NEGATIVE = (0.0, math.inf)

# Field: (type, lowest, highest). Fields that need more than a range are checked by name below.
_NUMBERS: dict[str, tuple[type, float, float]] = {
    "max_new_tokens": (int, 1, INT_MAX),
    "temperature": (float, *_NOT_NEGATIVE),
    "top_k": (int, 0, INT_MAX),
    "top_p": (float, *_UNIT),
    "min_p": (float, *_UNIT),
    "typical_p": (float, *_UNIT),
    "top_n_sigma": (float, -1.0, math.inf),
    "xtc_probability": (float, *_UNIT),
    "xtc_threshold": (float, *_UNIT),
    "dynatemp_range": (float, *_NOT_NEGATIVE),
    "mirostat": (int, 0, 2),
    "mirostat_tau": (float, *_NOT_NEGATIVE),
    "mirostat_eta": (float, *_NOT_NEGATIVE),
    "repeat_penalty": (float, 1e-6, math.inf),
    "repeat_last_n": (int, -1, INT_MAX),
    "frequency_penalty": (float, -math.inf, math.inf),
    "presence_penalty": (float, -math.inf, math.inf),
    "dry_multiplier": (float, *_NOT_NEGATIVE),
    "dry_base": (float, *_NOT_NEGATIVE),
    "dry_allowed_length": (int, 0, INT_MAX),
    "seed": (int, 0, 2**32 - 2),
    "reasoning_budget": (int, 0, INT_MAX),
    "reply_reserve": (int, 1, INT_MAX),
    "prompt_lookup_num_tokens": (int, 0, 64),
    "num_assistant_tokens": (int, 0, 64),
    "logprobs": (int, 0, 100),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "reasoning_effort": EFFORT_LEVELS,
    "reasoning_format": get_args(ReasoningFormat),
    "overflow": get_args(Overflow),
}
_FLAGS = ("parallel_tool_calls", "enable_thinking", "ignore_eos")
_MAPPINGS = ("json_schema", "logit_bias")


@dataclass(frozen=True)
class GenerationConfig:
    """What a caller asks of one generation. `None` means "not set here".

    A value out of range or of the wrong type raises ValueError naming the field. Precedence:
    keyword, then `config`, then the checkpoint's own defaults, then the library's.
    """

    max_new_tokens: int | None = None
    """Most tokens of the reply, thoughts included. At least 1."""
    temperature: float | None = None
    """0 is greedy. Library default 0.8."""
    top_k: int | None = None
    """Keep the k most probable tokens; 0 keeps all. Library default 40."""
    top_p: float | None = None
    """Nucleus sampling (Holtzman et al. 2019); 1 is off. Library default 0.95."""
    min_p: float | None = None
    """Drop tokens below this share of the best (Nguyen et al. 2024); 0 is off. Library default 0.05."""
    typical_p: float | None = None
    """Locally typical sampling (Meister et al. 2022); 1 is off."""
    top_n_sigma: float | None = None
    """Keep logits within n standard deviations of the best (Tang et al. 2024); -1 is off."""
    xtc_probability: float | None = None
    """Chance to exclude top choices (XTC); 0 is off."""
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    """Temperature varies by this much with entropy; 0 is off."""
    mirostat: int | None = None
    """1 or 2 replaces the filters (Basu et al. 2020); 0 is off."""
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    repeat_penalty: float | None = None
    """Divides logits of recent tokens (Keskar et al. 2019); 1 is off."""
    repeat_last_n: int | None = None
    """Tokens the penalties look back on; 0 is off, -1 the whole context."""
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    dry_multiplier: float | None = None
    """DRY repetition penalty; 0 is off."""
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    logit_bias: Mapping[int, float] | None = None
    """Token id to a number added to its logit; -inf forbids it."""
    seed: int | None = None
    """Of the sampler. Unset: a random one, told in the report."""
    stop: tuple[str, ...] | None = None
    """The reply ends before the first of these texts. One string is accepted as a tuple of one."""
    grammar: str | None = None
    """GBNF that the reply must match."""
    json_schema: Mapping[str, Any] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    """`auto`, `required`, `none`, a tool's name, or the OpenAI object naming one."""
    parallel_tool_calls: bool | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    reasoning_budget: int | None = None
    """Most tokens of thought; the engine closes the thought when it is spent."""
    reasoning_format: ReasoningFormat | None = None
    """`none` leaves the thought with its markers in the text."""
    prompt_lookup_num_tokens: int | None = None
    num_assistant_tokens: int | None = None
    logprobs: int | None = None
    """Number of alternatives reported per token; 0 reports the chosen token only."""
    ignore_eos: bool | None = None
    lora: tuple[tuple[str, float], ...] | None = None
    overflow: Overflow | None = None
    reply_reserve: int | None = None
    """Tokens of the window that a prompt has to leave for the reply, or it does not fit; unset: one."""

    def __post_init__(self) -> None:
        for name, (kind, low, high) in _NUMBERS.items():
            object.__setattr__(self, name, check.number(name, getattr(self, name), kind, low, high))
        for name, choices in _CHOICES.items():
            check.choice(name, getattr(self, name), choices)
        for name in _FLAGS:
            check.flag(name, getattr(self, name))
        for name in _MAPPINGS:
            check.mapping(name, getattr(self, name))
        check.grammar(self.grammar)
        check.tool_choice(self.tool_choice)
        check.adapters(self.lora)
        if self.stop is not None:
            object.__setattr__(self, "stop", check.stop_strings(self.stop))
        if self.logit_bias is not None:
            object.__setattr__(self, "logit_bias", check.bias(self.logit_bias))
        if self.grammar is not None and self.json_schema is not None:
            raise ValueError("grammar and json_schema cannot be combined: give one of them")

    @classmethod
    def of(cls, config: GenerationConfig | Mapping[str, Any] | None, **overrides: Any) -> GenerationConfig:
        """`config` (a mapping or a GenerationConfig) with `overrides` on top; None overrides nothing."""
        if config is not None and not isinstance(config, GenerationConfig | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = type(cast(object, config)).__name__
            raise ValueError(f"config must be a GenerationConfig or a mapping of its fields, not {kind}")
        values = config.as_dict() if isinstance(config, GenerationConfig) else dict(config or {})
        values.update({name: value for name, value in overrides.items() if value is not None})
        unknown = sorted(map(str, values.keys() - FIELD_NAMES))
        if unknown:
            raise ValueError(f"unknown generation setting: {', '.join(map(repr, unknown))}")
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """The fields that are set."""
        values = ((item.name, getattr(self, item.name)) for item in dataclasses.fields(self))
        return {name: value for name, value in values if value is not None}

    @property
    def room(self) -> int:
        """Tokens that a prompt leaves free: the reserve, or fewer where the reply may not be as long."""
        return max(1, min(self.reply_reserve or 1, self.max_new_tokens or INT_MAX))

    def over(self, lower: GenerationConfig) -> GenerationConfig:
        """This config, with unset fields taken from `lower`."""
        return GenerationConfig(**{**lower.as_dict(), **self.as_dict()})


def usual_reserve(max_seq: int) -> int:
    """The reserve for a reply, in tokens, that the faces keep where nobody says another."""
    return max(1, min(256, max_seq // 8))


FIELD_NAMES = frozenset(item.name for item in dataclasses.fields(GenerationConfig))


@dataclass(frozen=True)
class Grammar:
    """A GBNF grammar for the sampler.

    A lazy one sleeps until one of `triggers` (texts) appears in the reply; it then binds from
    the trigger's first character on.
    """

    text: str
    lazy: bool = False
    triggers: tuple[str, ...] = field(default=())
    root: str = "root"
    """The rule a reply begins with."""


LIBRARY_DEFAULTS = GenerationConfig(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
"""What holds where neither caller nor checkpoint says anything: no penalties, a random seed."""
