"""What a server is asked: a request of ours as the body of OpenAI's API, and what cannot be asked there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from backend.chat_engine import Request
from backend.types import EngineError, GenerationConfig

Kind = Literal["llamacpp", "vllm", "sglang", "ollama", "fireside", "lmstudio", "unknown"]
Json = dict[str, Any]

_PLAIN = {
    "max_new_tokens": "max_tokens",
    **{
        name: name
        for name in (
            "temperature",
            "top_p",
            "frequency_penalty",
            "presence_penalty",
            "seed",
            "parallel_tool_calls",
            "reasoning_effort",
        )
    },
}
_SAME = tuple(
    "top_k min_p typical_p top_n_sigma xtc_probability xtc_threshold dynatemp_range mirostat mirostat_tau "
    "mirostat_eta repeat_penalty repeat_last_n dry_multiplier dry_base dry_allowed_length ignore_eos".split()
)
"""Settings that OpenAI does not know and llama.cpp's server has by these very names."""
_OTHERS = ("top_k", "min_p", "repeat_penalty", "ignore_eos")
"""Those of them that most other servers know too."""
_RENAMED: Mapping[Kind, Mapping[str, str]] = {
    "vllm": {"repeat_penalty": "repetition_penalty"},
    "sglang": {"repeat_penalty": "repetition_penalty"},
    "unknown": {"repeat_penalty": "repetition_penalty"},
}
_CONTINUES: frozenset[Kind] = frozenset(("llamacpp", "vllm", "sglang", "fireside"))
_UNSAID = frozenset(
    "prompt_lookup_num_tokens num_assistant_tokens reasoning_budget lora overflow reply_reserve "
    "reasoning_format logprobs stop logit_bias tool_choice json_schema grammar enable_thinking".split()
)
"""Said in another way, or the business of whoever asks."""
MOST_TOP_LOGPROBS = 20
NO_TOOLS = "The model on this server cannot call tools, so none were offered."


@dataclass(frozen=True)
class Body:
    """What is sent, to which path, and which settings could not be, in sentences."""

    path: str
    fields: Json
    notes: tuple[str, ...] = ()
    optional: frozenset[str] = field(default_factory=frozenset[str])
    """Fields that may be left out where the server does not take them."""

    @property
    def sent(self) -> frozenset[str]:
        """The fields that are sent, those of messages that may be left out too."""
        thoughts = any("reasoning_content" in turn for turn in self.fields.get("messages", ()))
        return frozenset([*self.fields, "reasoning_content"]) if thoughts else frozenset(self.fields)

    @property
    def offers_tools(self) -> bool:
        """Whether the model may call tools, and need not."""
        return "tools" in self.fields and self.fields.get("tool_choice", "auto") == "auto"

    def without_tools(self) -> Body:
        """The same, for a model that cannot call tools."""
        unwanted = ("tools", "tool_choice", "parallel_tool_calls")
        fields = {key: value for key, value in self.fields.items() if key not in unwanted}
        return replace(self, fields=fields, notes=(*self.notes, NO_TOOLS))

    def without(self, unwanted: frozenset[str]) -> Body:
        """The same without fields that the server does not take; a limit goes under its newer name."""
        unwanted &= self.sent
        fields = {key: value for key, value in self.fields.items() if key not in unwanted}
        told = unwanted - {"stream_options", "max_tokens"}
        if "max_tokens" in unwanted:
            fields["max_completion_tokens"] = self.fields["max_tokens"]
        if "reasoning_content" in unwanted:
            told -= {"reasoning_content"}
            fields["messages"] = [_without_thought(turn) for turn in fields["messages"]]
        notes = tuple(f"The server does not take {one}, so it was left out." for one in sorted(told))
        return Body(self.path, fields, (*self.notes, *notes), self.optional - unwanted)


def require_possible(request: Request, kind: Kind) -> None:
    """EngineError for what no server, or not this one, can be asked."""
    if request.forced is not None:
        raise _impossible("write a given reply")
    if request.adapters or request.config.lora:
        raise _impossible("apply an adapter (LoRA)")
    if request.continue_reply and kind not in _CONTINUES:
        raise _impossible("continue a reply that was begun")
    if request.config.grammar is not None and kind not in ("llamacpp", "vllm", "sglang", "fireside"):
        raise _impossible("follow a grammar", "A JSON schema (--schema) works with most servers.")


def body_of(request: Request, kind: Kind, model: str) -> Body:
    """The body that asks for one reply to `request`, as a stream."""
    config = request.config
    fields: Json = {"model": model}
    notes: list[str] = []
    if request.messages is None:
        path = "completions"
        fields["prompt"] = request.text or ""
    else:
        path = "chat/completions"
        fields["messages"] = messages_of(request.messages)
        fields |= _tools(request)
    fields |= {"stream": True, "stream_options": {"include_usage": True}}
    required = frozenset(fields) - {"stream_options", "tool_choice"}
    fields |= _settings(config, kind, notes)
    if request.messages is not None:
        fields |= _thinking(config)
    elif config.logprobs is not None:
        fields["logprobs"] = min(config.logprobs, MOST_TOP_LOGPROBS)
        fields.pop("top_logprobs", None)
    if request.continue_reply:
        fields |= {"continue_final_message": True, "add_generation_prompt": False}
        required |= {"continue_final_message", "add_generation_prompt"}
    if kind == "llamacpp":
        fields["return_progress"] = True
    bound = {"response_format", "grammar", "structured_outputs", "tools", "logit_bias", "stop"}
    optional = (frozenset(fields) - required - bound) | {"reasoning_content"}
    return Body(path, fields, tuple(notes), optional)


def messages_of(messages: Sequence[Mapping[str, Any]]) -> list[Json]:
    """The turns as servers take them. Thoughts stay only where the calls that came of them are still being
    answered: elsewhere templates drop them, and some servers refuse them."""
    last = max((place for place, turn in enumerate(messages) if turn["role"] == "user"), default=-1)
    found: list[Json] = []
    for place, turn in enumerate(messages):
        keeps = place > last and bool(turn.get("tool_calls"))
        found.append(dict(turn) if keeps else _without_thought(turn))
    return found


def _without_thought(turn: Mapping[str, Any]) -> Json:
    return {key: value for key, value in turn.items() if key != "reasoning_content"}


def _tools(request: Request) -> Json:
    choice = request.config.tool_choice
    if not request.tools or choice == "none":
        return {}
    found: Json = {"tools": [dict(tool) for tool in request.tools]}
    if isinstance(choice, str):
        named = choice not in ("auto", "required")
        found["tool_choice"] = {"type": "function", "function": {"name": choice}} if named else choice
    elif choice is not None:
        found["tool_choice"] = dict(choice)
    return found


def _settings(config: GenerationConfig, kind: Kind, notes: list[str]) -> Json:
    given = config.as_dict()
    found: Json = {sent: given[name] for name, sent in _PLAIN.items() if name in given}
    if "parallel_tool_calls" in found and found["parallel_tool_calls"] is True:
        del found["parallel_tool_calls"]  # what servers do by themselves
    known = _SAME if kind in ("llamacpp", "fireside") else _OTHERS
    renamed = _RENAMED.get(kind, {})
    for name in _SAME:
        if name in given and name in known:
            found[renamed.get(name, name)] = given[name]
        elif name in given:
            notes.append(f"This server has no {name}, so it was left out.")
    if config.reasoning_budget is not None and kind == "fireside":
        found["reasoning_budget"] = config.reasoning_budget
    if config.stop:
        found["stop"] = list(config.stop)
    if config.logit_bias:
        found["logit_bias"] = {
            str(key): max(-100.0, min(100.0, bias)) for key, bias in config.logit_bias.items()
        }
    if config.json_schema is not None:
        schema = {"name": "answer", "schema": dict(config.json_schema), "strict": True}
        found["response_format"] = {"type": "json_schema", "json_schema": schema}
    if config.grammar is not None:
        found |= _grammar(config.grammar, kind)
    if config.logprobs is not None:
        found |= {"logprobs": True, "top_logprobs": min(config.logprobs, MOST_TOP_LOGPROBS)}
    return found


def _grammar(grammar: str, kind: Kind) -> Json:
    if kind == "vllm":
        return {"structured_outputs": {"grammar": grammar}}
    return {"ebnf": grammar} if kind == "sglang" else {"grammar": grammar}


def _thinking(config: GenerationConfig) -> Json:
    if config.enable_thinking is None:
        return {}
    # Each family of templates has its own word for it; one that a template does not know is ignored.
    switch = {"enable_thinking": config.enable_thinking, "thinking": config.enable_thinking}
    return {"chat_template_kwargs": switch}


def estimated_chars(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> int:
    """Characters that a prompt has, about; a picture counts as some."""
    total = sum(len(json.dumps(tool, ensure_ascii=False, default=str)) for tool in tools)
    for turn in messages:
        total += 8 + len(str(turn["role"]))
        content = turn.get("content")
        if isinstance(content, list):
            for part in cast("list[Json]", content):
                total += len(str(part.get("text", ""))) if part.get("type") == "text" else _PICTURE_CHARS
        else:
            total += len(str(content or ""))
        for call in turn.get("tool_calls") or ():
            total += len(str(call.get("function")))
    return total


_PICTURE_CHARS = 2000


def _impossible(what: str, remedy: str = "") -> EngineError:
    return EngineError(
        f"A model on this server cannot {what}.", remedy=remedy or "Choose a model of this machine for that."
    )
